"""The rows of a shard, parsed: texts to score, what is wrong with a row, and the row itself as JSON.

A row is read from JSON once, if the source has it as JSON, and written as JSON once, if it has not. Plain text is
decoded and written a whole shard at a time, because a call for every line would take longer than the scores. Where
words are counted before rows are scored, the parsed rows wait on the disk in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import polars as pl

from evenli.core.binary import check_fork, read_parquet
from evenli.core.errors import PairError
from evenli.core.io import COLUMNS
from evenli.core.parse import parse_json_object
from evenli.corpus.source import SourceRecord

_NO_GOLD = {"-", "-1"}
_LABEL = 40  # characters of a gold label that are kept for counting
_ABOUT = {"original": pl.String, "invalid_utf8": pl.Boolean, "no_gold": pl.Boolean, "gold": pl.String}
"""Columns of parsed rows: the row as JSON, whether bytes were replaced, and the gold label; then those with texts."""


@dataclass
class KeptRows:
    """Parsed rows in a directory of their own, a file for each shard; ``blank`` lines of the source stand in none."""

    folder: Path
    blank: int = 0

    def add(self, number: int, rows: pl.DataFrame) -> None:
        """Put the rows of a shard on the disk."""
        rows.write_parquet(self.folder / f"{number:06d}.parquet", compression="lz4", statistics=False)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        return map(read_parquet, sorted(self.folder.iterdir()))


def texts_of(rows: pl.DataFrame) -> list[list[str]]:
    """The texts of parsed rows, column by column."""
    return [column.to_list() for column in rows.get_columns()[len(_ABOUT) :]]


def plain_texts(lines: Sequence[bytes]) -> tuple[list[str], list[bool]]:
    """Lines of plain text decoded, and which of them hold bytes that are not UTF-8 and were replaced."""
    try:
        return b"\n".join(lines).decode("utf-8").split("\n"), [False] * len(lines)
    except UnicodeDecodeError:
        texts = [line.decode("utf-8", "replace") for line in lines]
        return texts, [text.encode("utf-8") != line for text, line in zip(texts, lines, strict=True)]


def plain_rows(lines: Sequence[bytes]) -> pl.DataFrame:
    """Lines of plain text, none of which holds a line feed; each is written as ``{"text": LINE}``."""
    check_fork()
    texts, invalid = plain_texts(lines)
    # Within a JSON string every quotation mark is escaped, so these three characters stand between two only.
    written = msgspec.json.encode(texts)[2:-2].decode().split('","')
    rows = {"original": [f'{{"text": "{text}"}}' for text in written], "invalid_utf8": invalid}
    return pl.DataFrame(rows).with_columns(no_gold=False, gold=pl.lit(""), text0=pl.Series(texts, dtype=pl.String))


def table_rows(records: Iterable[SourceRecord], columns: Sequence[str]) -> pl.DataFrame:
    """Rows of a table or of JSON Lines."""
    check_fork()
    schema = {**_ABOUT, **{f"text{at}": pl.String for at in range(len(columns))}}
    return pl.DataFrame([_parse(record, columns) for record in records], schema=schema, orient="row")


def _parse(record: SourceRecord, columns: Sequence[str]) -> list[str | bool]:
    """One record, its texts last."""
    try:
        line, invalid = record.data.decode("utf-8"), False
    except UnicodeDecodeError:
        line, invalid = record.data.decode("utf-8", "replace"), True
    # The cells of an invalid row hold escapes; its JSON now has the replacement character instead.
    cells = None if invalid else record.cells
    row = parse_json_object(line, record.place, halves=True) if cells is None else cells
    texts = []
    for column in columns:
        if column not in row:
            raise PairError(f"{record.place}: no column '{column}' among {', '.join(row)}")
        value = row[column]
        if isinstance(value, list | dict):
            raise PairError(f"{record.place}: column '{column}' holds a {type(value).__name__}, not text")
        text = "" if value is None else str(value)
        # Half of a surrogate pair, written as an escape, is valid JSON but not valid text.
        if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            text, invalid = text.encode("utf-8", "replace").decode("utf-8"), True
        texts.append(text)
    gold = next((row[name] for name in COLUMNS["gold"] if name in row), None) if len(columns) > 1 else None
    label = "" if gold is None else str(gold).strip()[:_LABEL].encode("utf-8", "replace").decode("utf-8")
    return [line, invalid, label in _NO_GOLD, label, *texts]
