"""Gender-swapped copies of a whole file, row by row: ``evenli mitigate swap``.

The file is read three times: which language it is in and which columns it has, its rows, their copies. Of the rows
read only a hash of each distinct one is held, so that what occurs before can be left out.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evenli._temporary import leftovers, process_mark
from evenli.counterfactual.conflicts import LANGUAGE, REASONS
from evenli.counterfactual.swapper import Swapped, Swapper
from evenli.errors import InputError
from evenli.io import atomic, find_columns, is_plain_text, iter_rows, iter_text
from evenli.mitigate.augment import (
    SwapCounts,
    SwapSettings,
    check_text,
    has_sharma_token,
    mark_copy,
    mentions_of,
    swap_pair,
)
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
    with contextlib.ExitStack() as files:
        # The list for review takes its name first: then the result, which says that all is done.
        sink = source.sink(files.enter_context(atomic(out)))
        listed = None if review is None else files.enter_context(atomic(Path(review)))
        return _Swapping(source, settings, sink, listed).run()


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


class _Swapping:
    """One run: the given rows first, then the copies."""

    def __init__(self, source: _Pairs | _Lines, settings: SwapSettings, sink: _Sink, review: Path | None) -> None:
        self._source, self._settings, self._sink, self._review = source, settings, sink, review
        self._swapper: Swapper = source.swapper
        self._seen: set[bytes] = set()
        self._counts: Counter[str] = Counter()
        self._conflicts: Counter[str] = Counter()

    def run(self) -> SwapCounts:
        """Write everything; the counts."""
        source, counts, only = self._source, self._counts, self._settings.only_swapped
        with self._sink as sink:
            for row in source.rows():
                if (self._is_new(self._texts(row)) or not source.drops_given) and not only:
                    sink.add(row)
            given = len(self._seen) if source.drops_given else source.size
            for copy in self._copies():
                if self._is_new(self._texts(copy)):
                    counts["added"] += 1
                    sink.add(copy)
            if not sink.written and source.drops_given:
                raise InputError(
                    f"{source.corpus} has no pair to swap, so there is nothing to write; leave out --only-swapped"
                )
        other = self._conflicts.pop(LANGUAGE, 0)
        conflicts = self._conflicts.total()
        considered, swapped, added = counts["considered"], counts["swapped"], counts["added"]
        return SwapCounts(
            rows_given=source.size,
            matched=counts["matched"] if self._settings.select == "occupation" else None,
            considered=considered,
            without_gender=considered - swapped - conflicts - other,
            other_language=other,
            conflicts=conflicts,
            swapped=swapped,
            duplicates=source.size + swapped - given - added,
            added=added,
            rows=given + added,
            unlabelled=source.unlabelled,
            written=sink.written,
        )

    def _texts(self, row: Mapping[str, Any]) -> list[str]:
        return [row[column] for column in self._source.columns]

    def _is_new(self, texts: Sequence[str]) -> bool:
        """Whether these texts have not been met before."""
        digest = hashlib.blake2b(repr(tuple(texts)).encode("utf-8", "surrogatepass"), digest_size=16).digest()
        before = len(self._seen)
        self._seen.add(digest)
        return len(self._seen) > before

    def _copies(self) -> Iterator[dict[str, Any]]:
        """The swapped copies in the order of the file; the list for review is written beside."""
        columns, sharma = self._source.columns, self._settings.select == "occupation"
        sharma_released = sharma and self._swapper.mode == "released"
        with (
            contextlib.nullcontext()
            if self._review is None
            else self._review.open("w", encoding="utf-8", newline="") as listed
        ):
            if listed is not None:
                listed.write(csv_line(["row", "copied", "reason", *columns, *(f"{name}_swapped" for name in columns)]))
            for number, row in self._chosen():
                texts = self._texts(row)
                if sharma_released:
                    done = Swapped(tuple(map(self._swapper, texts)), ((),) * len(texts))
                    copied = any(map(has_sharma_token, texts))
                else:
                    done = swap_pair(self._swapper, texts)
                    copied = done.changed and not done.conflict
                if done.conflict:
                    self._conflicts[done.conflict] += 1
                reason = REASONS[done.conflict] if done.conflict else ""
                if listed is not None and (done.conflict or copied):
                    after = done.texts if copied else [""] * len(texts)
                    listed.write(csv_line([number, "yes" if copied else "no", reason, *texts, *after]))
                if copied:
                    self._counts["swapped"] += 1
                    new = dict(zip(columns, done.texts, strict=True))
                    yield mark_copy(row, new) if self._source.drops_given else new

    def _chosen(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The rows that are looked at, with their numbers from 1: all, or the first of each premise with a job."""
        occupation = self._settings.select == "occupation"
        mentions: Callable[[str], bool] = mentions_of(self._settings) if occupation else lambda text: True
        premises: set[str] = set()  # few: those that name one of the jobs
        for number, row in enumerate(self._source.rows(), 1):
            premise = self._texts(row)[0]
            if not mentions(premise):
                continue
            self._counts["matched"] += 1
            if occupation and premise in premises:
                continue
            if occupation:
                premises.add(premise)
            self._counts["considered"] += 1
            yield number, row


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
