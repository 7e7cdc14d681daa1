"""What was taken out of a corpus or put into it, for people: all of it as CSV, its top as a page, sentences first."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np

from evenli.core.blocks import Block, Cell
from evenli.core.format import number, printable, signed
from evenli.core.page import mark_words, render
from evenli.core.parse import csv_line
from evenli.corpus.bias import SentenceBias
from evenli.corpus.mitigation.selection import clean
from evenli.corpus.mitigation.sorter import Sorter
from evenli.corpus.run import Scorer
from evenli.corpus.scored import SCORES, Parts, order_statistics
from evenli.words.lists import GenderWords

_DRIVING = 3  # words that are named of a row
_SHOWN = 1_000  # rows on the page of a list for review
_LETTERS = 1_500  # of a text on the page
_HELD = 20 * _LETTERS  # letters of such a text that are held
_STRONG = 0.5  # share of the strongest word's weight from which on a word is marked


@dataclass(frozen=True)
class ReviewPage:
    """How the rows of a list look on its page: the sentence that leads, columns, cells of all rows, what marks mean."""

    lead: str
    columns: Sequence[str]
    cells: Callable[[Sequence[Sequence[Any]]], Sequence[Sequence[Any]]]
    marks: str


class Review:
    """A list for human eyes: all of it as CSV, its top as a page; ``scores`` gives those of the ``count`` rows."""

    def __init__(self, folder: Path, name: str, page: ReviewPage, scores: Parts, count: int) -> None:
        self._folder, self._name, self._page = folder, name, page
        self._sorter, self._count, self._limit, self._room = Sorter(), count, -np.inf, _SHOWN
        # Rows above a score are shown, and as many of those that have it as there is room for.
        if (lowest := count - _SHOWN) > 0:
            self._limit = order_statistics(scores, count, [lowest])[lowest]
            self._room -= sum(int((part > self._limit).sum()) for part in scores())
        self._top: list[tuple[float, list[Any]]] = []

    def shows(self, score: float) -> bool:
        """Whether the next row, which has this score, is one of those on the page."""
        return score > self._limit or (score == self._limit and self._room > 0)

    def add(self, cells: Sequence[Any]) -> None:
        """Take in the next row; its second cell is its score."""
        row = [clean(cell) if isinstance(cell, str) else cell for cell in cells]
        score = float(row[1])
        if self.shows(score):
            self._top.append((-score, [cell[:_HELD] if isinstance(cell, str) else cell for cell in row]))
            self._room -= score == self._limit
        self._sorter.add([-score], [csv_line(row)])  # the highest score is the first

    def finish(self, columns: Sequence[str]) -> None:
        """Write NAME.csv and NAME.html, if there are rows."""
        if not self._count:
            return
        with (self._folder / f"{self._name}.csv").open("wb") as stream:
            stream.write(csv_line(columns).encode())
            stream.writelines(self._sorter.sorted())
        rows = self._page.cells([row for _, row in sorted(self._top, key=lambda entry: entry[0])])
        shown = "" if len(rows) == self._count else f" The first {len(rows):,} are shown, the CSV file has all."
        block = Block(
            "Sentences",
            lines=[self._page.marks],
            columns=self._page.columns,
            rows=rows,
            caption=f"{self._count:,} rows, highest score first.{shown}",
            filtered=True,
        )
        text = render(f"{self._name.capitalize()} rows", self._page.lead, [block])
        (self._folder / f"{self._name}.html").write_text(text, encoding="utf-8", errors="replace")


def removed_page(columns: Sequence[str], limit: float | None, scorer: Scorer | None) -> ReviewPage:
    """Rows that were dropped: texts, why, score. ``limit`` is the threshold; None for a draw at random."""
    mark, marks = marker(scorer)
    width = len(SCORES) * len(columns)

    def cells(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
        shown = mark([str(text) for row in rows for text in row[width + 3 : width + 3 + len(columns)]])
        return [
            [
                *shown[at * len(columns) : (at + 1) * len(columns)],
                _why(columns, scores[:width], score, limit),
                *scores[width + 1 + len(columns) :],  # driving words, where a scorer knows them
                score,
                str(scores[width]),
                str(number),
            ]
            for at, (number, score, *scores) in enumerate(rows)
        ]

    lead = "These rows were drawn at random and left out, as a control."
    if limit is not None:
        above = f"above {number(limit, 4)}, words of both sides added up"
        lead = f"These rows were left out because a sentence of theirs scores {above}."
    words = ["driving words"] if explainer(scorer) else []
    return ReviewPage(lead, [*columns, "why", *words, ">score", "label", ">row"], cells, marks)


def added_page(columns: Sequence[str]) -> ReviewPage:
    """Copies that were put in: the texts before and after the swap, and the score of the source."""

    def cells(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
        pairs = (zip(texts[: len(columns)], texts[len(columns) :], strict=True) for _, _, *texts in rows)
        changed = [[cell for before, after in row for cell in _changed(before, after)] for row in pairs]
        return [[*texts, score, str(number)] for texts, (number, score, *_) in zip(changed, rows, strict=True)]

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


def _why(columns: Sequence[str], scores: Sequence[float], score: float, limit: float | None) -> str:
    """Which sentence made the score, and where it leans; ``scores`` are F, M and Abs of every column."""
    at = int(np.argmax(scores[2 :: len(SCORES)]))
    female, male = scores[len(SCORES) * at : len(SCORES) * at + 2]
    side = "female" if female >= abs(male) else "male"
    reason = "drawn at random" if limit is None else f"{number(score, 4)} > {number(limit, 4)}"
    return f"{columns[at]} leans {side}; {reason}"


def explainer(scorer: Any) -> Callable[[Sequence[str]], Sequence[SentenceBias]] | None:
    """What shows the words of many texts, where a scorer can; one of another package may know single texts only."""
    score = getattr(scorer, "score", None)
    many: Callable[[Sequence[str]], Sequence[SentenceBias]] | None = getattr(scorer, "explain", None)
    return many or (None if score is None else lambda texts: [score(text) for text in texts])


def marker(scorer: Scorer | None) -> tuple[Callable[[Sequence[str]], list[Cell]], str]:
    """What marks the words of texts, and what the marks mean: weights where a scorer knows them.

    Nearly every word has some weight; only those are marked that have at least half that of the strongest.
    """
    explain = explainer(scorer)
    if explain is None:
        stated = GenderWords().words
        return lambda texts: [
            mark_words(_cut(text), dict.fromkeys(stated.intersection(re.split(r"[\W_]+", text.lower())), ""))
            for text in texts
        ], ("Marked words state a gender. With the word vectors (--vectors) the words that make the score are marked.")

    def mark(texts: Sequence[str]) -> list[Cell]:
        cells = []
        for text, sentence in zip(texts, explain(texts), strict=True):
            weights = {word.token.lower(): word.weighted for word in sentence.words if word.weighted}
            least = _STRONG * max(map(abs, weights.values()), default=0.0)
            cells.append(mark_words(_cut(text), {word: w for word, w in weights.items() if abs(w) >= least}))
        return cells

    return mark, (
        "Marked are the strongest words, with their weight: orange leans female, blue male. Weaker words count as well."
    )


def driving_words(sentence: SentenceBias) -> str:
    """The words that carry most of the score of a sentence, such as ``football -0.021``."""
    words = sorted(sentence.words, key=lambda word: -abs(word.weighted))
    return ", ".join(f"{word.token} {signed(word.weighted)}" for word in words[:_DRIVING] if word.weighted)


def _cut(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _LETTERS else f"{shown[:_LETTERS]} …"
