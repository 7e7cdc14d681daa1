"""Training files of the Japanese embedded model, from JSICK, JNLI and JSTS as published (``.xz``).

    python tools/prepare_ja.py SHARED_DATA out/

JNLI's training file is not among the public data here, so its validation file is split: the first 2,000 pairs train,
the rest are for choosing the seed. JSICK's training file is split 4,500 / 500. JSTS scores become three coarse classes,
only for warming the encoder up: 3.5 and more, 1.5 to 3.5, less. JSTS and JNLI share pairs; those of JNLI are left out.
"""

from __future__ import annotations

import csv
import io
import json
import lzma
import sys
from pathlib import Path


def read(path: Path) -> str:
    """Unpack a text file."""
    return lzma.decompress(path.read_bytes()).decode("utf-8")


def write(path: Path, rows: list[dict[str, str]]) -> None:
    """JSON Lines."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    print(f"{path}: {len(rows)} pairs")


def main(source: Path, target: Path) -> None:
    """Write train.jsonl, dev.jsonl and warm.jsonl."""
    target.mkdir(parents=True, exist_ok=True)
    jnli = [json.loads(line) for line in read(source / "ja_jglue" / "jnli_valid.jsonl.xz").splitlines()]
    jnli = [{key: str(row[key]) for key in ("sentence1", "sentence2", "label")} for row in jnli]
    table = io.StringIO(read(source / "ja_jsick" / "train.tsv.xz"), newline="")
    jsick = [
        {"sentence1": row["sentence_A_Ja"], "sentence2": row["sentence_B_Ja"], "label": row["entailment_label_Ja"]}
        for row in csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE)
    ]
    write(target / "train.jsonl", jsick[:4500] + jnli[:2000])
    write(target / "dev.jsonl", jsick[4500:] + jnli[2000:])
    known = jnli + [json.loads(line) for line in read(source / "ja_jglue" / "jnli_test.jsonl.xz").splitlines()]
    seen = {frozenset((row["sentence1"], row["sentence2"])) for row in known}
    warm = []
    for line in read(source / "ja_jglue" / "jsts_train.jsonl.xz").splitlines():
        row = json.loads(line)
        if frozenset((row["sentence1"], row["sentence2"])) in seen:
            continue
        label = "entailment" if row["label"] >= 3.5 else "neutral" if row["label"] >= 1.5 else "contradiction"
        warm.append({"sentence1": row["sentence1"], "sentence2": row["sentence2"], "label": label})
    write(target / "warm.jsonl", warm)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
