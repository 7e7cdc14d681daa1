"""Counterfactual augmentation: gender-swapped copies of the rows of a training file, ``evenli mitigate swap``.

Two choices of what to copy. ``select="all"`` copies every pair with a word that can be swapped.
``select="occupation"`` follows Sharma et al. 2021: pairs whose premise names one of 38 occupations,
one per premise, if one of the two sentences has a gender word. That adds less than 0.1 % to SNLI.

The file is read three times: which language it is in and which columns it has, its rows, their copies. Of the rows
read only a hash of each distinct one is held, so that what occurs before can be left out.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Literal, TextIO, TypeVar

from evenli.core.errors import InputError
from evenli.core.io import COLUMNS, atomic, find_columns, is_plain_text, iter_rows, iter_text
from evenli.core.parse import csv_line
from evenli.core.record import Record
from evenli.core.settings import settings_of
from evenli.core.temporary import leftovers, process_mark
from evenli.corpus.settings import SwapSettings as SwapSettings
from evenli.words.lists import probe_occupations
from evenli.words.swap.conflicts import LANGUAGE, REASONS
from evenli.words.swap.language import EMPTY, corpus_language, text_language
from evenli.words.swap.swapper import Swapped, Swapper

Select = Literal["all", "occupation"]
RowT = TypeVar("RowT", bound=Mapping[str, Any])
# What the notebook looks for; a missing comma there lost "him" and "guy" (but not "guys").
_SHARMA_GENDER = "she he her his girl boy man men woman women male female guys lady ladies"
_SHARMA_TOKENS = frozenset(form for word in _SHARMA_GENDER.split() for form in (word, f"{word}s"))
Add = Callable[[Mapping[str, Any]], object]
"""Writes a row."""
_PART = 20_000  # rows that become Parquet at a time


class SwapCounts(Record, frozen=True, kw_only=True):
    """How many rows every step leaves.

    Attributes:
        rows_given: In the file.
        matched: With an occupation, where only these are copied.
        considered: All of them, or one per premise.
        without_gender: Without a word to swap.
        other_language: In another language than the file.
        conflicts: With a word to swap, but the copy would say something else.
        swapped: With a copy.
        duplicates: Dropped, because the same sentences stand before.
        added: Copies that are left.
        rows: At the end.
        unlabelled: Pairs without a gold label.
        written: Rows of the result, or copies alone.
    """

    optional: ClassVar[tuple[str, ...]] = ("matched", "unlabelled", "written")

    rows_given: int
    matched: int | None = None
    considered: int
    without_gender: int
    other_language: int
    conflicts: int
    swapped: int
    duplicates: int
    added: int
    rows: int
    unlabelled: int | None = None
    written: int | None = None


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
        return _write(source, copying, add, stream, settings)


def _write(source: _Source, copying: Copying, add: Add, review: TextIO | None, settings: SwapSettings) -> SwapCounts:
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
        if (is_new(row) or source.plain) and not settings.only_swapped:
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
    written = added + (0 if settings.only_swapped else kept)
    if not (written or source.plain):
        raise InputError(f"{source.corpus} has no pair to swap; keep the others, too (no --only-swapped)")
    steps = {name: copying.counts[name] for name in ("considered", "conflicts", "other_language", "swapped")}
    return SwapCounts(
        **steps,
        rows_given=source.size,
        matched=copying.counts["matched"] if settings.select == "occupation" else None,
        without_gender=steps["considered"] - steps["swapped"] - steps["conflicts"] - steps["other_language"],
        duplicates=source.size + steps["swapped"] - kept - added,
        added=added,
        rows=kept + added,
        unlabelled=None if source.plain else source.unlabelled,
        written=written,
    )


class Copying:
    """Swaps rows one by one, and counts the steps of ``SwapCounts``; ``columns`` hold the texts, premise first."""

    def __init__(self, settings: SwapSettings, swapper: Swapper, columns: Sequence[str]) -> None:
        self._settings, self._swapper, self.columns = settings, swapper, columns
        self.counts: Counter[str] = Counter()

    def texts(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        """The texts of a row."""
        return tuple(row[column] for column in self.columns)

    def choose(self, rows: Iterable[tuple[int, RowT]]) -> Iterator[tuple[int, RowT]]:
        """The rows that are looked at, with their numbers: all, or the first of each premise with an occupation."""
        if self._settings.select == "all":
            yield from rows
            return
        mentions = mentions_of(self._settings)
        premises: set[str] = set()  # few: those that name one of the jobs
        for number, row in rows:
            premise = row[self.columns[0]]
            if mentions(premise):
                self.counts["matched"] += 1
                if premise not in premises:
                    premises.add(premise)
                    yield number, row

    def swap(self, row: Mapping[str, Any]) -> tuple[Swapped, bool]:
        """The texts of a row swapped, and whether it gets a copy."""
        texts = self.texts(row)
        if self._settings.select == "occupation" and self._swapper.mode == "released":
            # Their notebook asks for a token of its list, and not whether the swap changes anything.
            done = self._swapper.swap_document(texts)
            copied = any(not _SHARMA_TOKENS.isdisjoint(text.lower().split(" ")) for text in texts)
        else:
            done = swap_pair(self._swapper, texts)
            copied = done.changed
        self.counts["considered"] += 1
        self.counts["swapped"] += copied
        if done.conflict:
            self.counts["other_language" if done.conflict == LANGUAGE else "conflicts"] += 1
        return done, copied


def swap_pair(swapper: Swapper, texts: Sequence[str]) -> Swapped:
    """Swap texts that belong together; those in another language than the swapper's are left alone."""
    if swapper.mode != "released" and text_language(" ".join(texts)) not in {swapper.lang, EMPTY}:
        return Swapped.unchanged(texts, LANGUAGE)
    return swapper.swap_document(texts)


def mark_copy(row: Mapping[str, Any], columns: Sequence[str], texts: Sequence[str]) -> dict[str, Any]:
    """The row with its swapped texts, and ids that say so."""
    ids = {name: f"{row[name]}-swapped" for name in COLUMNS["id"] if row.get(name) is not None}
    return {**row, **dict(zip(columns, texts, strict=True)), **ids}


def mentions_of(settings: SwapSettings) -> Callable[[str], bool]:
    """A test whether a sentence names one of the occupations, in the singular or the plural."""
    given, released = settings.occupations, settings.mode == "released"
    singular = [word.lower() for word in (probe_occupations() if given is None else given)]
    # Plurals as in the notebook, where only secretary has one of its own; ours also knows other words on -y.
    plural = [f"{w[:-1]}ies" for w in singular if w.endswith("y") and (w == "secretary" or not released)]
    forms = {*singular, *(f"{word}s" for word in singular), *plural}
    if released:
        return lambda text: not forms.isdisjoint(text.lower().split(" "))
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(forms)))})\b")
    return lambda text: pattern.search(text.lower()) is not None


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
        lang = corpus_language(self._look(), str(corpus), settings.lang)
        mode = settings.mode
        if mode != "default" and lang != "en":
            raise InputError(f"mode {mode} is English only, {corpus} is '{lang}'; leave the mode (--mode) out")
        self.swapper = Swapper(mode, settings.names, conflicts=settings.conflicts, lang=lang)

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
            for column in self.columns:
                if not isinstance(row.get(column), str):
                    has = ", ".join(map(str, row))
                    raise InputError(f"row {number} has no text in column '{column}'; it has {has}")

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
            return _writing_lines(file, lambda row: csv_line(map(_cell, map(row.get, names))), csv_line(names))
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
