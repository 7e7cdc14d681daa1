"""Counterfactual augmentation: add gender-swapped copies of training pairs.

Two choices of what to copy. ``select="all"`` copies every pair with a word that can be swapped.
``select="occupation"`` follows Sharma et al. 2021: pairs whose premise names one of 38 occupations,
one per premise, if one of the two sentences has a gender word. That adds less than 0.1 % to SNLI.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeVar

from evenli.core.errors import InputError
from evenli.core.io import COLUMNS
from evenli.core.record import Record
from evenli.corpus.settings import SwapSettings as SwapSettings
from evenli.words import read_table
from evenli.words.swap.conflicts import LANGUAGE
from evenli.words.swap.language import EMPTY, corpus_language, text_language
from evenli.words.swap.swapper import Swapped, Swapper

Select = Literal["all", "occupation"]
RowT = TypeVar("RowT", bound=Mapping[str, Any])
SUFFIX = "-swapped"
# What the notebook looks for; a missing comma there lost "him" and "guy" (but not "guys").
_SHARMA_GENDER = "she he her his girl boy man men woman women male female guys lady ladies"
_SHARMA_TOKENS = frozenset(form for word in _SHARMA_GENDER.split() for form in (word, f"{word}s"))


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


class Copying:
    """Swaps rows one by one, and counts how many rows every step leaves; ``columns`` hold the texts, premise first."""

    def __init__(self, settings: SwapSettings, swapper: Swapper, columns: Sequence[str]) -> None:
        self._settings, self._swapper, self.columns = settings, swapper, columns
        self._matched = self._considered = self._swapped = 0
        self._conflicts: Counter[str] = Counter()

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
                self._matched += 1
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
        self._considered += 1
        self._swapped += copied
        if done.conflict:
            self._conflicts[done.conflict] += 1
        return done, copied

    def counts(self, given: int, kept: int, added: int, *, unlabelled: int | None, written: int) -> SwapCounts:
        """How many rows every step left, if so many of the given rows and of the copies stay."""
        conflicts, other = self._conflicts.total(), self._conflicts[LANGUAGE]
        return SwapCounts(
            rows_given=given,
            matched=self._matched if self._settings.select == "occupation" else None,
            considered=self._considered,
            without_gender=self._considered - self._swapped - conflicts,
            other_language=other,
            conflicts=conflicts - other,
            swapped=self._swapped,
            duplicates=given + self._swapped - kept - added,
            added=added,
            rows=kept + added,
            unlabelled=unlabelled,
            written=written,
        )


def check_text(row: Mapping[str, Any], number: int, columns: Sequence[str]) -> None:
    """Refuse a row without text in one of the columns."""
    for column in columns:
        if not isinstance(row.get(column), str):
            raise InputError(f"row {number} has no text in column '{column}'; it has {', '.join(map(str, row))}")


def swap_pair(swapper: Swapper, texts: Sequence[str]) -> Swapped:
    """Swap texts that belong together; those in another language than the swapper's are left alone."""
    if swapper.mode == "released":
        return swapper.swap_document(texts) if any(map(swapper.gendered, texts)) else Swapped.unchanged(texts)
    if text_language(" ".join(texts)) not in {swapper.lang, EMPTY}:
        return Swapped.unchanged(texts, LANGUAGE)
    return swapper.swap_document(texts)


def mark_copy(row: Mapping[str, Any], columns: Sequence[str], texts: Sequence[str]) -> dict[str, Any]:
    """The row with its swapped texts, and ids that say so."""
    ids = {name: f"{row[name]}{SUFFIX}" for name in COLUMNS["id"] if row.get(name) is not None}
    return {**row, **dict(zip(columns, texts, strict=True)), **ids}


def make_swapper(settings: SwapSettings, texts: Iterable[str], what: str) -> Swapper:
    """The swapper for a corpus; refuses one of another language."""
    lang, _ = corpus_language(texts, what, settings.lang)
    if settings.mode != "default" and lang != "en":
        raise InputError(f"mode {settings.mode} is English only, {what} is '{lang}'; leave the mode (--mode) out")
    return Swapper(settings.mode, settings.names, conflicts=settings.conflicts, lang=lang)


def mentions_of(settings: SwapSettings) -> Callable[[str], bool]:
    """A test whether a sentence names one of the occupations, in the singular or the plural."""
    occupations: Iterable[str] | None = settings.occupations
    released = settings.mode == "released"
    if occupations is None:
        occupations = [row["occupation"] for row in read_table("probe_occupations.csv", ("occupation",))]
    singular = [word.lower() for word in occupations]
    # Plurals as in the notebook, where only secretary has one of its own; ours also knows other words on -y.
    plural = [f"{w[:-1]}ies" for w in singular if w.endswith("y") and (w == "secretary" or not released)]
    forms = {*singular, *(f"{word}s" for word in singular), *plural}
    if released:
        return lambda text: not forms.isdisjoint(text.lower().split(" "))
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(forms)))})\b")
    return lambda text: pattern.search(text.lower()) is not None
