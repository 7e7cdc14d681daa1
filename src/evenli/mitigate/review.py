"""What was taken out of a corpus or put into it, for people: all of it as CSV, its top as a page, sentences first."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.corpus.run import Scorer
from evenli.corpus.scored import SCORES
from evenli.format import number, printable
from evenli.mitigate.plan import clean
from evenli.page import Block, Cell, mark_words, render
from evenli.parse import csv_line
from evenli.resources.words import GenderWords

_BUCKET = 200_000  # rows that are sorted in memory at a time
_SHOWN = 1_000  # rows on the page of a list for review
_LETTERS = 1_500  # of a text on the page
_STRONG = 0.5  # share of the strongest word's weight from which on a word is marked


@dataclass(frozen=True)
class ReviewPage:
    """How the rows of a list look on its page: the sentence that leads, columns, cells of a row, what marks mean."""

    lead: str
    columns: Sequence[str]
    cells: Callable[[Sequence[Any]], Sequence[Any]]
    marks: str


class Sorter:
    """Puts texts into a given order in bounded memory: into bucket files first, then bucket by bucket."""

    def __init__(self, folder: Path, total: int, name: str = "order") -> None:
        self.folder = folder
        self._files = [folder / f".{name}-{number:04d}" for number in range(-(-total // _BUCKET))]
        self._waiting: list[list[tuple[int, str]]] = [[] for _ in self._files]
        self._held = 0

    def add(self, place: int, text: str) -> None:
        """Take in a text that belongs at this place."""
        self._waiting[place // _BUCKET].append((place, text))
        self._held += 1
        if self._held >= _BUCKET and len(self._files) > 1:
            for file, waiting in zip(self._files, self._waiting, strict=True):
                with file.open("a", encoding="utf-8") as stream:
                    stream.writelines(f"{json.dumps(entry)}\n" for entry in waiting)
                waiting.clear()
            self._held = 0

    def sorted(self) -> Iterator[str]:
        """All texts in the order of their places."""
        for file, waiting in zip(self._files, self._waiting, strict=True):
            if file.is_file():
                with file.open(encoding="utf-8") as stream:
                    waiting += [(place, text) for place, text in map(json.loads, stream)]
                file.unlink()
            yield from (text for _, text in sorted(waiting))
            waiting.clear()


class Review:
    """A list for human eyes: all of it as CSV, its top as a page; ``scores`` are those of the rows in order."""

    def __init__(
        self, folder: Path, name: str, columns: Sequence[str], scores: NDArray[np.float64], page: ReviewPage
    ) -> None:
        self._folder, self._name, self._columns, self._page = folder, name, columns, page
        ranks = np.empty(len(scores), dtype=np.int64)
        ranks[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
        self._ranks, self._added = ranks, 0
        self._sorter = Sorter(folder, len(scores), name)
        self._top: dict[int, list[Any]] = {}

    @property
    def is_shown(self) -> bool:
        """Whether the next row is one of those on the page."""
        return bool(self._ranks[self._added] < _SHOWN)

    def add(self, cells: Sequence[Any]) -> None:
        """Take in the next row."""
        rank = int(self._ranks[self._added])
        self._added += 1
        row = [clean(cell) if isinstance(cell, str) else cell for cell in cells]
        self._sorter.add(rank, csv_line(row))
        if rank < _SHOWN:
            self._top[rank] = row

    def finish(self) -> None:
        """Write NAME.csv and NAME.html."""
        with (self._folder / f"{self._name}.csv").open("w", encoding="utf-8", newline="") as stream:
            stream.write(csv_line(self._columns))
            stream.writelines(self._sorter.sorted())
        rows = [self._page.cells(self._top[rank]) for rank in sorted(self._top)]
        shown = "" if len(rows) == self._added else f" The first {len(rows):,} are shown, the CSV file has all."
        block = Block(
            "Sentences",
            lines=[self._page.marks],
            columns=self._page.columns,
            rows=rows,
            caption=f"{self._added:,} rows, highest score first.{shown}",
            filtered=True,
        )
        text = render(f"{self._name.capitalize()} rows", self._page.lead, [block])
        (self._folder / f"{self._name}.html").write_text(text, encoding="utf-8", errors="replace")


def removed_page(columns: Sequence[str], limit: float | None, scorer: Scorer | None) -> ReviewPage:
    """Rows that were dropped: texts, why, score. ``limit`` is the threshold; None for a draw at random."""
    mark, marks = marker(scorer)
    width = len(SCORES)

    def cells(row: Sequence[Any]) -> list[Any]:
        number, score, *rest = row
        numbers, gold, texts = (
            rest[: width * len(columns)],
            rest[width * len(columns)],
            rest[width * len(columns) + 1 : (width + 1) * len(columns) + 1],  # driving words may follow
        )
        of_column = {name: numbers[at * width : (at + 1) * width] for at, name in enumerate(columns)}
        return [*(mark(text) for text in texts), _why(of_column, score, limit), score, str(gold), str(number)]

    lead = "These rows were drawn at random and left out, as a control."
    if limit is not None:
        above = f"above {number(limit, 4)}, words of both sides added up"
        lead = f"These rows were left out because a sentence of theirs scores {above}."
    return ReviewPage(lead, [*columns, "why", ">score", "label", ">row"], cells, marks)


def added_page(columns: Sequence[str]) -> ReviewPage:
    """Copies that were put in: the texts before and after the swap, and the score of the source."""

    def cells(row: Sequence[Any]) -> list[Any]:
        number, score, *texts = row
        pairs = zip(texts[: len(columns)], texts[len(columns) :], strict=True)
        return [*(cell for before, after in pairs for cell in _changed(before, after)), score, str(number)]

    names = [name for column in columns for name in (column, f"{column}, swapped")]
    lead = "These copies were put in, with the genders exchanged: what changed is marked."
    return ReviewPage(lead, [*names, ">score", ">row"], cells, "The score is that of the row that was copied.")


def _changed(before: str, after: str) -> tuple[Cell, Cell]:
    """Both texts with the words marked in which they differ."""
    sides = [re.split(r"(\w+)", _cut(text)) for text in (before, after)]
    parts: tuple[list[Any], list[Any]] = ([], [])
    for kind, *ends in SequenceMatcher(None, sides[0], sides[1], autojunk=False).get_opcodes():
        for side, pieces, start, end in zip(parts, sides, ends[::2], ends[1::2], strict=True):
            words = pieces[start:end]
            side.extend(words if kind == "equal" else [(word, "") if word.strip() else word for word in words])
    return Cell(parts[0]), Cell(parts[1])


def _why(of_column: Mapping[str, Sequence[float]], score: float, limit: float | None) -> str:
    """Which sentence made the score, and where it leans."""
    name, (female, male, _) = max(of_column.items(), key=lambda entry: entry[1][2])
    side = "female" if female >= abs(male) else "male"
    return f"{name} leans {side}; " + (
        "drawn at random" if limit is None else f"{number(score, 4)} > {number(limit, 4)}"
    )


def marker(scorer: Scorer | None) -> tuple[Callable[[str], Cell], str]:
    """What marks the words of a text, and what the marks mean: weights where a scorer knows them.

    Nearly every word has some weight; only those are marked that have at least half that of the strongest.
    """
    explain = getattr(scorer, "score", None)
    if explain is None:
        stated = GenderWords().words
        return lambda text: mark_words(_cut(text), dict.fromkeys(set(_words(text)) & stated, "")), (
            "Marked words state a gender. With the word vectors (--vectors) the words that make the score are marked."
        )

    def mark(text: str) -> Cell:
        weights = {one.token.lower(): one.weighted for one in explain(text).words if one.weighted}
        least = _STRONG * max(map(abs, weights.values()), default=0.0)
        return mark_words(_cut(text), {word: weight for word, weight in weights.items() if abs(weight) >= least})

    return mark, (
        "Marked are the strongest words, with their weight: orange leans female, blue male. Weaker words count as well."
    )


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() else " " for c in text.lower()).split()


def _cut(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _LETTERS else f"{shown[:_LETTERS]} …"
