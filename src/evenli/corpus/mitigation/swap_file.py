"""Gender-swapped copies of a whole file, row by row: ``evenli mitigate swap``.

The file is read three times: which language it is in and which columns it has, its rows, their copies. Of the rows
read only a hash of each distinct one is held, so that what occurs before can be left out.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TextIO

from evenli.core.errors import InputError
from evenli.core.io import atomic, find_columns, is_plain_text, iter_rows, iter_text
from evenli.core.parse import csv_line
from evenli.core.settings import settings_of
from evenli.core.temporary import leftovers, process_mark
from evenli.corpus.mitigation.augment import Copying, SwapCounts, SwapSettings, check_text, make_swapper, mark_copy
from evenli.words.swap.conflicts import REASONS

Add = Callable[[Mapping[str, Any]], object]
"""Writes a row."""
_PART = 20_000  # rows that become Parquet at a time


def swap_corpus(
    corpus: str | Path,
    out: str | Path,
    settings: SwapSettings | None = None,
    *,
    overwrite: bool = False,
    **options: Any,
) -> SwapCounts:
    """Add gender-swapped copies to a training file; returns how many rows every step left.

    The corpus holds pairs (.jsonl, .csv, .tsv, .parquet), written as .jsonl, .csv or .parquet, or is a text with one
    sentence a line (.txt); its language is English, Japanese or Chinese. ``review`` is a .csv file for people to read:
    every copy beside its source, and every pair without a copy with the reason. ``options`` are fields of
    ``SwapSettings``.
    """
    corpus, out, settings = Path(corpus), Path(out), settings_of(SwapSettings, settings, options, "swap")
    review = settings.review
    for file in (out, *([] if review is None else [Path(review)])):
        if file.exists() and not overwrite:
            raise InputError(f"{file} exists; overwrite it (--overwrite) or name another file")
    source = _Source(corpus, out, settings)
    copying = Copying(settings, source.swapper, source.columns)
    with contextlib.ExitStack() as files:
        # What is entered last is left first: the files are closed, the list for review takes its name, and then the
        # result, which says that all is done.
        target = files.enter_context(atomic(out))
        listed = None if review is None else files.enter_context(atomic(Path(review)))
        add = files.enter_context(source.writing(target))
        stream = None if listed is None else files.enter_context(listed.open("w", encoding="utf-8", newline=""))
        return _write(source, copying, add, stream, only_swapped=settings.only_swapped)


def _write(source: _Source, copying: Copying, add: Add, review: TextIO | None, *, only_swapped: bool) -> SwapCounts:
    """Write the given rows first, then the copies, and the list for review beside."""
    columns, seen = copying.columns, set[bytes]()

    def is_new(row: Mapping[str, Any]) -> bool:
        # A hash of 16 bytes in place of the texts, which may be long.
        texts = repr(copying.texts(row)).encode("utf-8", "surrogatepass")
        before = len(seen)
        seen.add(hashlib.blake2b(texts, digest_size=16).digest())
        return len(seen) > before

    for row in source.rows():
        # Of pairs those that occur before are left out.
        if (is_new(row) or source.plain) and not only_swapped:
            add(row)
    kept, added = source.size if source.plain else len(seen), 0
    if review is not None:
        review.write(csv_line(["row", "copied", "reason", *columns, *(f"{name}_swapped" for name in columns)]))
    for number, row in copying.choose(enumerate(source.rows(), 1)):
        done, copied = copying.swap(row)
        if review is not None and (copied or done.conflict):
            after = done.texts if copied else [""] * len(columns)
            why = ["yes", ""] if copied else ["no", REASONS[done.conflict]]
            review.write(csv_line([number, *why, *copying.texts(row), *after]))
        if copied and is_new(copy := mark_copy(row, columns, done.texts)):
            added += 1
            add(copy)
    written = added + (0 if only_swapped else kept)
    if not (written or source.plain):
        raise InputError(f"{source.corpus} has no pair to swap; keep the others, too (no --only-swapped)")
    unlabelled = None if source.plain else source.unlabelled
    return copying.counts(source.size, kept, added, unlabelled=unlabelled, written=written)


class _Source:
    """A file of pairs, or a ``plain`` text with one sentence a line."""

    def __init__(self, corpus: Path, out: Path, settings: SwapSettings) -> None:
        self.corpus, self.plain = corpus, is_plain_text(corpus)
        self.names, self.unlabelled, self.size = dict[str, None](), 0, 0
        if self.plain and settings.select == "occupation":
            raise InputError(f"select occupation needs premises and hypotheses; {corpus} is plain text")
        if self.plain and out.suffix.lower() != ".txt":
            raise InputError(
                f"{corpus} is plain text, so the result is too; end its name (-o) in .txt, not {out.suffix or out}"
            )
        if not self.plain and out.suffix not in {".jsonl", ".csv", ".parquet"}:
            raise InputError(f"{out}: unknown kind of file; use .jsonl, .csv or .parquet")
        first = next(self.rows(), None)
        if first is None:
            raise InputError(f"{corpus} holds no {'text' if self.plain else 'pairs'}")
        roles = {} if self.plain else find_columns(first, corpus)
        self.columns = ("text",) if self.plain else (roles["premise"], roles["hypothesis"])
        self._gold = roles.get("gold")
        self.swapper = make_swapper(settings, self._look(), str(corpus))

    def _look(self) -> Iterator[str]:
        """The texts for finding the language; meanwhile rows are checked, and names of columns collected."""
        for number, row in enumerate(self.rows(), 1):
            if None in row:
                raise InputError(
                    f"{self.corpus}, row {number} has more cells than the header has names; repair it first"
                )
            self.size = number
            self.names.update(dict.fromkeys(row))
            self.unlabelled += self._gold is None or row.get(self._gold) in (None, "", "-")
            yield " ".join(str(row.get(column)) for column in self.columns)
            check_text(row, number, self.columns)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every row, or every line as one."""
        if self.plain:
            return ({"text": line} for _, line in iter_text(self.corpus))
        return (row for _, row in iter_rows(self.corpus))

    def writing(self, file: Path) -> AbstractContextManager[Add]:
        """What writes rows with all their columns, in the format that the file's ending names."""
        if self.plain:
            return _writing_lines(file, lambda row: f"{row['text']}\n")
        if file.suffix == ".parquet":
            return _writing_table(file)
        if file.suffix == ".csv":
            names = list(self.names)
            return _writing_lines(file, lambda row: csv_line([_cell(row.get(name)) for name in names]), csv_line(names))
        return _writing_lines(file, lambda row: json.dumps(row, ensure_ascii=False) + "\n")


@contextlib.contextmanager
def _writing_lines(file: Path, line: Callable[[Mapping[str, Any]], str], head: str = "") -> Iterator[Add]:
    with file.open("w", encoding="utf-8", newline="") as stream:
        stream.write(head)
        yield lambda row: stream.write(line(row))


@contextlib.contextmanager
def _writing_table(file: Path) -> Iterator[Add]:
    """Rows wait in parts on the disk, which become one Parquet table at the end: then all types are known."""
    import polars as pl

    # What a killed run has left goes first.
    start, _, _ = file.name.partition(process_mark())
    for left in leftovers(file.parent, start, ".partial.parts"):
        shutil.rmtree(left, ignore_errors=True)
    folder = file.with_suffix(".parts")
    folder.mkdir()
    rows: list[Mapping[str, Any]] = []
    parts: list[Path] = []

    def pass_on() -> None:
        parts.append(folder / f"{len(parts):06d}.parquet")
        pl.DataFrame(rows, infer_schema_length=None).write_parquet(parts[-1])
        rows.clear()

    def add(row: Mapping[str, Any]) -> None:
        rows.append(row)
        if len(rows) >= _PART:
            pass_on()

    try:
        yield add
        if rows:
            pass_on()
        table = pl.concat([pl.scan_parquet(part, glob=False) for part in parts], how="diagonal_relaxed")
        table.sink_parquet(file, compression="zstd")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _cell(value: Any) -> Any:
    # SNLI's JSON has lists of labels; a cell holds them as JSON.
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
