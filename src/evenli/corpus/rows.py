"""The rows of a shard, parsed: texts to score, what is wrong with a row, and the row itself as JSON.

A row is read from JSON once, if the source has it as JSON, and written as JSON once, if it has not. Plain text is
decoded and written a whole shard at a time, because a call for every line would take longer than the scores. Where
words are counted before rows are scored, the parsed rows wait on the disk in between.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from evenli.core.binary import read_parquet
from evenli.core.errors import PairError
from evenli.core.io import COLUMNS
from evenli.core.parse import parse_json_object
from evenli.corpus.source import SourceRecord

_NO_GOLD = {"-", "-1"}
_LABEL = 40  # characters of a gold label that are kept for counting
# What JSON escapes. The backslash comes first: the other escapes have one.
_ESCAPES = {
    letter.encode(): json.dumps(letter)[1:-1].encode() for letter in ("\\", '"', *map(chr, range(32))) if letter != "\n"
}


class Rows(NamedTuple):
    """Parsed rows, column by column."""

    originals: list[str]  # each row as JSON
    texts: list[list[str]]  # of each text column
    invalid: list[bool]  # whether bytes were replaced
    no_gold: list[bool]  # whether the gold label says that there is none
    gold: list[str]


class KeptRows:
    """Parsed rows in a directory, a file for each shard; ``blank`` lines of the source stand in none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: list[Path] = []
        self.blank = 0

    def add(self, rows: Rows) -> None:
        """Put the rows of the next shard on the disk."""
        texts = {f"text{at}": pl.Series(column, dtype=pl.String) for at, column in enumerate(rows.texts)}
        flags = {"invalid": rows.invalid, "no_gold": rows.no_gold}
        frame = pl.DataFrame({"original": rows.originals, **texts, **flags, "gold": rows.gold})
        self._files.append(self._folder / f"{len(self._files):06d}.parquet")
        frame.write_parquet(self._files[-1], compression="lz4", statistics=False)

    def __iter__(self) -> Iterator[Rows]:
        for file in self._files:
            frame = read_parquet(file)
            texts = [frame[name].to_list() for name in frame.columns if name.startswith("text")]
            yield Rows(frame["original"].to_list(), texts, *(frame[name].to_list() for name in frame.columns[-3:]))


def plain_texts(lines: Sequence[bytes]) -> tuple[list[str], list[bool]]:
    """Lines of plain text decoded, and which of them hold bytes that are not UTF-8 and were replaced."""
    try:
        return b"\n".join(lines).decode("utf-8").split("\n"), [False] * len(lines)
    except UnicodeDecodeError:
        texts = [line.decode("utf-8", "replace") for line in lines]
        return texts, [text.encode("utf-8") != line for text, line in zip(texts, lines, strict=True)]


def plain_rows(lines: Sequence[bytes]) -> Rows:
    """Lines of plain text, none of which holds a line feed; each is written as ``{"text": LINE}``."""
    texts, invalid = plain_texts(lines)
    content = b"\n".join(lines) if not any(invalid) else "\n".join(texts).encode("utf-8")
    for letter, escape in _ESCAPES.items():
        content = content.replace(letter, escape)
    written = b'{"text": "%b"}' % content.replace(b"\n", b'"}\n{"text": "')
    nothing = [False] * len(lines)
    return Rows(written.decode("utf-8").split("\n"), [texts], invalid, nothing, [""] * len(lines))


def table_rows(records: Iterable[SourceRecord], columns: Sequence[str]) -> Rows:
    """Rows of a table or of JSON Lines."""
    rows = (_parse(record, columns) for record in records)
    originals, texts, *flags = zip(*rows, strict=True)
    return Rows(list(originals), [list(column) for column in zip(*texts, strict=True)], *map(list, flags))


def _parse(record: SourceRecord, columns: Sequence[str]) -> tuple[str, list[str], bool, bool, str]:
    """One record, in the order of ``Rows``."""
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
    return line, texts, invalid, label in _NO_GOLD, label
