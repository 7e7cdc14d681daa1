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
from pathlib import Path
from typing import Any, TextIO

from evenli._temporary import leftovers, process_mark
from evenli.counterfactual.conflicts import REASONS
from evenli.errors import InputError
from evenli.io import atomic, find_columns, is_plain_text, iter_rows, iter_text
from evenli.mitigate.augment import Copying, SwapCounts, SwapSettings, check_text, mark_copy
from evenli.parse import csv_line

_PART = 20_000  # rows that become Parquet at a time


def swap_corpus(
    corpus: str | Path,
    out: str | Path,
    settings: SwapSettings | None = None,
    *,
    review: str | Path | None = None,
    overwrite: bool = False,
) -> SwapCounts:
    """Add gender-swapped copies to a training file; returns how many rows every step left.

    The corpus holds pairs (.jsonl, .csv, .tsv, .parquet), written as .jsonl, .csv or .parquet, or is a text with one
    sentence a line (.txt); its language is English, Japanese or Chinese. ``review`` is a .csv file for people to read:
    every copy beside its source, and every pair without a copy with the reason.
    """
    corpus, out, settings = Path(corpus), Path(out), settings or SwapSettings()
    if review is not None and Path(review).suffix != ".csv":
        raise InputError(f"{review}: the list for review is written as .csv")
    for file in (out, *([] if review is None else [Path(review)])):
        if file.exists() and not overwrite:
            raise InputError(f"{file} exists; pass --overwrite to replace it, or name another file")
    source = _Lines(corpus, out, settings) if is_plain_text(corpus) else _Pairs(corpus, out, settings)
    copying = Copying(settings, source.swapper, source.columns)
    with contextlib.ExitStack() as files:
        # What is entered last is left first: the files are closed, the list for review takes its name, and then the
        # result, which says that all is done.
        target = files.enter_context(atomic(out))
        listed = None if review is None else files.enter_context(atomic(Path(review)))
        sink = files.enter_context(source.sink(target))
        stream = None if listed is None else files.enter_context(listed.open("w", encoding="utf-8", newline=""))
        return _write(source, copying, sink, stream, only_swapped=settings.only_swapped)


def _write(
    source: _Pairs | _Lines, copying: Copying, sink: _Sink, review: TextIO | None, *, only_swapped: bool
) -> SwapCounts:
    """Write the given rows first, then the copies, and the list for review beside."""
    columns, seen = copying.columns, set[bytes]()

    def is_new(row: Mapping[str, Any]) -> bool:
        texts = repr(copying.texts(row)).encode("utf-8", "surrogatepass")
        before = len(seen)
        seen.add(hashlib.blake2b(texts, digest_size=16).digest())
        return len(seen) > before

    for row in source.rows():
        if (is_new(row) or not source.drops_given) and not only_swapped:
            sink.add(row)
    kept, added = len(seen) if source.drops_given else source.size, 0
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
            sink.add(copy)
    if not sink.written and source.drops_given:
        raise InputError(f"{source.corpus} has no pair to swap, so there is nothing to write; leave out --only-swapped")
    return copying.counts(source.size, kept, added, unlabelled=source.unlabelled, written=sink.written)


class _Pairs:
    """A file of pairs."""

    drops_given = True  # rows that occur before are left out of the given ones, too

    def __init__(self, corpus: Path, out: Path, settings: SwapSettings) -> None:
        if out.suffix not in {".jsonl", ".csv", ".parquet"}:
            raise InputError(f"{out}: unknown kind of file; use .jsonl, .csv or .parquet")
        self.corpus, self.names, self.unlabelled, self.size = corpus, dict[str, None](), 0, 0
        first = next((row for _, row in iter_rows(corpus)), None)
        if first is None:
            raise InputError(f"{corpus} holds no pairs")
        roles = find_columns(first, corpus)
        self.columns = roles["premise"], roles["hypothesis"]
        self._gold = roles.get("gold")
        self.swapper = settings.swapper(self._look(), str(corpus))

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
            yield f"{row.get(self.columns[0])} {row.get(self.columns[1])}"
            check_text(row, number, self.columns)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every row."""
        return (row for _, row in iter_rows(self.corpus))

    def sink(self, file: Path) -> _Sink:
        """What writes rows with all their columns, in the format that the file's ending names."""
        if file.suffix == ".parquet":
            return _ParquetSink(file)
        if file.suffix == ".csv":
            names = list(self.names)
            return _Sink(file, lambda row: csv_line([_cell(row.get(name)) for name in names]), csv_line(names))
        return _Sink(file, lambda row: json.dumps(row, ensure_ascii=False) + "\n")


class _Lines:
    """A text with one sentence a line."""

    drops_given = False
    columns = ("text",)
    unlabelled = None

    def __init__(self, corpus: Path, out: Path, settings: SwapSettings) -> None:
        if settings.select == "occupation":
            raise InputError(f"--select occupation needs premises and hypotheses; {corpus} is plain text")
        if out.suffix.lower() != ".txt":
            raise InputError(f"{corpus} is plain text, so the result is too; end -o in .txt, not {out.suffix or out}")
        self.corpus, self.size = corpus, sum(1 for _ in iter_text(corpus))
        if not self.size:
            raise InputError(f"{corpus} holds no text")
        self.swapper = settings.swapper((row["text"] for row in self.rows()), str(corpus))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every line."""
        return ({"text": line} for _, line in iter_text(self.corpus))

    def sink(self, file: Path) -> _Sink:
        """What writes the lines."""
        return _Sink(file, lambda row: f"{row['text']}\n")


class _Sink:
    """Writes rows as lines."""

    def __init__(self, file: Path, line: Callable[[Mapping[str, Any]], str], head: str = "") -> None:
        self.file, self.written, self._line = file, 0, line
        self._head = head

    def __enter__(self) -> _Sink:
        self._stream = self.file.open("w", encoding="utf-8", newline="")
        self._stream.write(self._head)
        return self

    def __exit__(self, *failure: object) -> None:
        self._stream.close()

    def add(self, row: Mapping[str, Any]) -> None:
        """Write a row."""
        self.written += 1
        self._stream.write(self._line(row))


class _ParquetSink(_Sink):
    """Collects rows in parts on the disk, which become one table at the end: then all types are known."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, lambda row: "")
        self._folder = file.with_suffix(".parts")
        self._rows: list[Mapping[str, Any]] = []
        self._parts: list[Path] = []

    def __enter__(self) -> _ParquetSink:
        start, _, _ = self.file.name.partition(process_mark())
        for left in leftovers(self.file.parent, start, ".partial.parts"):
            shutil.rmtree(left, ignore_errors=True)
        self._folder.mkdir()
        return self

    def add(self, row: Mapping[str, Any]) -> None:
        """Take in a row."""
        self.written += 1
        self._rows.append(row)
        if len(self._rows) >= _PART:
            self._pass_on()

    def _pass_on(self) -> None:
        import polars as pl

        self._parts.append(self._folder / f"{len(self._parts):06d}.parquet")
        pl.DataFrame(self._rows, infer_schema_length=None).write_parquet(self._parts[-1])
        self._rows = []

    def __exit__(self, kind: object = None, *failure: object) -> None:
        import polars as pl

        try:
            if kind is None:
                if self._rows:
                    self._pass_on()
                parts = [pl.scan_parquet(part, glob=False) for part in self._parts]
                pl.concat(parts, how="diagonal_relaxed").sink_parquet(self.file, compression="zstd")
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)


def _cell(value: Any) -> Any:
    # SNLI's JSON has lists of labels; a cell holds them as JSON.
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
