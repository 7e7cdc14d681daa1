"""Training files of the Japanese embedded model, from JSICK and JNLI as published (``.xz``).

    python tools/prepare_ja.py SHARED_DATA out/

JNLI's training file is not among the public data here, so its validation file is split: the first 2,000 pairs train,
the rest are for choosing the seed. JSICK's training file is split 4,500 / 500.
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
    """Write train.jsonl and dev.jsonl."""
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


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
