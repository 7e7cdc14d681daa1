"""Rows of a data file: JSON Lines, CSV, TSV and Parquet, in the column styles of the field.

Only Parquet needs polars, so that the trainer can read its data on machines that have none.
"""

from __future__ import annotations

import csv
import io
import json
import lzma
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evenli._extras import need
from evenli.errors import InputError, PairError

COLUMNS = {
    "premise": ("premise", "sentence1", "sentence_A_Ja", "sentence_A", "text_a"),
    "hypothesis": ("hypothesis", "sentence2", "sentence_B_Ja", "sentence_B", "text_b"),
    "gold": ("gold", "gold_label", "label", "entailment_label_Ja", "entailment_label"),
    "id": ("id", "pairID", "pair_ID", "sentence_pair_id"),
    "occupation": ("occupation", "occ_word"),
    "stereotype": ("stereotype", "occ_type"),
    "subset": ("subset",),
    "template": ("template",),
    "group": ("group",),
}
"""What we call a column, and what SNLI, MNLI, OCNLI, JNLI, JSICK, XNLI and NLI-CoAL call it."""

LINE_BYTES = 256 << 20
"""The longest line or cell that is read; the limit of the csv module, 128 KB, would refuse long texts."""


def split_lines(text: str) -> list[str]:
    r"""The lines of a text without their ends, which are ``\n`` or ``\r\n``.

    Unlike ``splitlines``, which also cuts at U+2028, form feeds and others that stand within sentences.

    >>> split_lines("a\u2028b\r\n\nc\n")
    ['a\u2028b', '', 'c']
    """
    lines = [line.rstrip("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def parse_json_lines(text: str, origin: str, required: Sequence[str]) -> list[dict[str, Any]]:
    """Parse JSON Lines; a broken line or a missing field is named with its number."""
    return [row for _, row in _json_lines(text, origin, required)]


def read_rows(path: str | Path) -> list[dict[str, Any]]:
    """Read any supported file into dictionaries; ``.xz`` is unpacked on the way."""
    return [row for _, row in numbered_rows(path)]


def numbered_rows(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of any supported file with the line on which each ends (Parquet: the row), counted from 1."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = suffixes[-2] if suffixes[-1:] == [".xz"] and len(suffixes) > 1 else "".join(suffixes[-1:])
    if kind == ".parquet":
        yield from enumerate(_parquet(path), 1)
        return
    try:
        data = path.read_bytes()
        text = (lzma.decompress(data) if suffixes[-1:] == [".xz"] else data).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start})") from error
    except (OSError, lzma.LZMAError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    if kind in {".json", ".jsonl"}:
        yield from _json_lines(text, path.name, ())
    elif kind in {".csv", ".tsv", ".txt"}:
        lines = io.StringIO(text, newline="")
        # Tab-separated releases of NLI data never quote, and their sentences hold stray quotation marks.
        style: dict[str, Any] = {} if kind == ".csv" else {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
        csv.field_size_limit(LINE_BYTES)
        reader = csv.DictReader(lines, **style)
        try:
            for row in reader:
                yield reader.line_num, row
        except csv.Error as error:
            raise PairError(f"{path.name}, line {reader.reader.line_num}: {error}") from error
    else:
        raise InputError(f"{path}: unknown kind of file; use .jsonl, .csv, .tsv or .parquet (.xz may follow)")


def find_columns(first: Mapping[str, Any], path: str | Path) -> dict[str, str]:
    """Which column of a file plays which role, judged by its first row; roles without a column are left out."""
    columns = {ours: next((name for name in names if name in first), "") for ours, names in COLUMNS.items()}
    missing = [ours for ours in ("premise", "hypothesis") if not columns[ours]]
    if missing:
        raise PairError(
            f"{path}: no column for {' and '.join(missing)} among {', '.join(map(str, first))}; "
            f"accepted are {', '.join(COLUMNS['premise'] + COLUMNS['hypothesis'])}"
        )
    return {ours: theirs for ours, theirs in columns.items() if theirs}


def _json_lines(text: str, origin: str, required: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    # Not splitlines: a sentence may hold U+2028 and the like, which JSON does not escape.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise PairError(f"{origin}, line {number}: not valid JSON ({error.msg} at column {error.colno})") from error
        if not isinstance(row, dict):
            raise PairError(f"{origin}, line {number}: expected an object, found {type(row).__name__}")
        missing = [name for name in required if name not in row]
        if missing:
            raise PairError(f"{origin}, line {number}: missing field(s) {', '.join(missing)}")
        yield number, row


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    pl = need("polars", extra="all", purpose="reading Parquet")
    try:
        return iter(pl.read_parquet(path).to_dicts())
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
