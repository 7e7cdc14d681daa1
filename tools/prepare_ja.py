"""Training files of the Japanese embedded model, from JSICK, JNLI, JaNLI and JSTS as published (``.xz``).

    python tools/prepare_ja.py SHARED_DATA out/

JNLI's training file is not among the public data here, so its validation file is split: the first 2,000 pairs train,
the rest are for choosing the seed. JSICK's training file is split 4,500 / 500. The similarity scores of JSTS (0 to 5)
are cut into three rough labels for a warm-up; pairs whose captions are in the JNLI files are left out of it.
"""

from __future__ import annotations

import csv
import io
import json
import lzma
import sys
from pathlib import Path
from typing import Any

SENTENCES = ("sentence1", "sentence2")
JANLI = {"entailment": "entailment", "non-entailment": "neutral"}


def read(path: Path) -> str:
    """Unpack a text file."""
    return lzma.decompress(path.read_bytes()).decode("utf-8")


def write(path: Path, rows: list[dict[str, str]]) -> None:
    """JSON Lines."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    print(f"{path}: {len(rows)} pairs")


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON Lines file."""
    return [json.loads(line) for line in read(path).splitlines()]


def pair(row: dict[str, Any]) -> dict[str, str]:
    """The columns that training needs."""
    return {key: str(row[key]) for key in (*SENTENCES, "label")}


def rough_label(similarity: float) -> str:
    """Captions that say the same, that share something, that have nothing to do with each other."""
    if similarity >= 3.5:
        return "entailment"
    return "neutral" if similarity >= 1.5 else "contradiction"


def main(source: Path, target: Path) -> None:
    """Write train.jsonl, train_janli.jsonl, dev.jsonl and warmup.jsonl."""
    target.mkdir(parents=True, exist_ok=True)
    glue = source / "ja_jglue"
    jnli = [pair(row) for row in rows_of(glue / "jnli_valid.jsonl.xz")]
    table = io.StringIO(read(source / "ja_jsick" / "train.tsv.xz"), newline="")
    jsick = [
        {"sentence1": row["sentence_A_Ja"], "sentence2": row["sentence_B_Ja"], "label": row["entailment_label_Ja"]}
        for row in csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE)
    ]
    train = jsick[:4500] + jnli[:2000]
    write(target / "train.jsonl", train)
    table = io.StringIO(read(source / "ja_janli" / "janli.tsv.xz"), newline="")
    janli = [
        {
            "sentence1": row["sentence_A_Ja"],
            "sentence2": row["sentence_B_Ja"],
            "label": JANLI[row["entailment_label_Ja"]],
        }
        for row in csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE)
        if row["split"] == "train"
    ]
    write(target / "train_janli.jsonl", train + janli[::4])
    write(target / "dev.jsonl", jsick[4500:] + jnli[2000:])
    seen = {row[key] for row in [*jnli, *map(pair, rows_of(glue / "jnli_test.jsonl.xz"))] for key in SENTENCES}
    similar = [row for part in ("train", "valid", "test") for row in rows_of(glue / f"jsts_{part}.jsonl.xz")]
    fresh = [row for row in similar if not seen & {row[key] for key in SENTENCES}]
    write(target / "warmup.jsonl", [pair(row | {"label": rough_label(row["label"])}) for row in fresh])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
