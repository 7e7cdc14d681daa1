"""What was taken out of a corpus or put into it, for people: all of it as CSV, its top as a page, sentences first."""

from __future__ import annotations

import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.core.blocks import Block, Cell
from evenli.core.format import number, printable, signed
from evenli.core.page import mark_words, render
from evenli.core.parse import csv_line, parse_json_object
from evenli.corpus.bias import SentenceBias
from evenli.corpus.mitigation.selection import CorpusPlan, Shard, clean, gold_of
from evenli.corpus.mitigation.sorter import Sorter
from evenli.corpus.run import LONG_TEXT, Scorer
from evenli.corpus.scored import SCORES, order_statistics
from evenli.words.lists import GenderWords

_DRIVING = 3  # words that are named of a row
_EXPLAINED = 1_000  # rows whose words are weighed at once
_SHOWN = 1_000  # rows on the page of a list for review
_LETTERS = 1_500  # of a text on the page
_HELD = 20 * _LETTERS  # letters of such a text that are held
_STRONG = 0.5  # share of the strongest word's weight from which on a word is marked


class Review(ABC):
    """A list for human eyes: all of it as CSV, its top as a page, the highest scores first."""

    heads: Sequence[str]  # columns of the CSV file
    shown: Sequence[str]  # columns of the page
    lead: str  # what the page says first
    marks: str  # what its marks mean

    def __init__(self, plan: CorpusPlan, folder: Path, name: str, which: str) -> None:
        self._plan, self._columns = plan, plan.scored.columns
        self._folder, self._name, self._count = folder, name, plan.counts[which]
        self._sorter, self._limit, self._room = Sorter(), -np.inf, _SHOWN
        # Rows above a score are shown, and as many of those that have it as there is room for.
        if (lowest := self._count - _SHOWN) > 0:
            self._limit = order_statistics(partial(plan.scores, which), self._count, [lowest])[lowest]
            self._room -= sum(int((part > self._limit).sum()) for part in plan.scores(which))
        self._top: list[tuple[float, list[Any]]] = []

    @abstractmethod
    def cells(self, rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """Rows of the list as the page shows them."""

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

    def finish(self) -> None:
        """Write NAME.csv and NAME.html, if there are rows."""
        if not self._count:
            return
        with (self._folder / f"{self._name}.csv").open("wb") as stream:
            stream.write(csv_line(self.heads).encode())
            stream.writelines(self._sorter.sorted())
        rows = self.cells([row for _, row in sorted(self._top, key=lambda entry: entry[0])])
        shown = "" if len(rows) == self._count else f" The first {len(rows):,} are shown, the CSV file has all."
        caption = f"{self._count:,} rows, highest score first.{shown}"
        block = Block("Sentences", [self.marks], self.shown, rows, caption=caption, filtered=True)
        text = render(f"{self._name.capitalize()} rows", self.lead, [block])
        (self._folder / f"{self._name}.html").write_text(text, encoding="utf-8", errors="replace")


class AddedRows(Review):
    """Copies that were put in: the texts before and after the swap, and the score of the source."""

    lead = "These copies were put in, with the genders exchanged: what changed is marked."
    marks = "The score is that of the row that was copied."

    def __init__(self, plan: CorpusPlan, folder: Path) -> None:
        super().__init__(plan, folder, "added", "copy")
        self.heads = ["row", "pair_max", *self._columns, *(f"{column}_swapped" for column in self._columns)]
        names = [name for column in self._columns for name in (column, f"{column}, swapped")]
        self.shown = [*names, ">score", ">row"]

    def cells(self, rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """The texts side by side, what changed marked."""
        shown = []
        for row, score, *texts in rows:
            pairs = zip(texts[: len(self._columns)], texts[len(self._columns) :], strict=True)
            shown.append([*(cell for before, after in pairs for cell in _changed(before, after)), score, str(row)])
        return shown


class RemovedRows(Review):
    """The rows that were taken out, with the words that drive their scores where a scorer knows them."""

    def __init__(self, plan: CorpusPlan, folder: Path, scorer: Any, *, drawn: bool) -> None:
        super().__init__(plan, folder, "removed", "removed")
        kinds = [f"{column}_{kind}" for column in self._columns for kind in SCORES]
        self.needs = ["original", *kinds]  # columns of a shard
        self._explain = explainer(scorer)
        # A network takes long: the words of the rows on the page are enough there.
        self._cheap = getattr(scorer, "cheap", False)
        self._threshold = None if drawn else plan.limit
        self._mark, self.marks = marker(scorer)
        words = ["driving_words"] if self._explain else []
        self.heads = ["row", "pair_max", *kinds, "gold", *self._columns, *words]
        self.shown = [*self._columns, "why", *(word.replace("_", " ") for word in words), ">score", "label", ">row"]
        self.lead = "These rows were drawn at random and left out, as a control."
        if not drawn:
            above = f"above {number(plan.limit, 4)}, words of both sides added up"
            self.lead = f"These rows were left out because a sentence of theirs scores {above}."

    def take(self, shard: Shard, frame: pl.DataFrame) -> None:
        """Take in the rows of a shard that were removed."""
        if not (removed := shard.removed).any():
            return
        rows, frame, explain = shard.rows(removed), frame.filter(removed), self._explain
        numbers = zip(shard.scores[removed].tolist(), *(frame[kind] for kind in self.needs[1:]), strict=True)
        listed = zip(rows.tolist(), numbers, self._labelled(shard.number, rows, frame), strict=True)
        while some := list(itertools.islice(listed, _EXPLAINED)):
            # The most biased text of each row, by its scores.
            strongest = [texts[int(np.argmax(cells[3 :: len(SCORES)]))][:LONG_TEXT] for _, cells, (_, texts) in some]
            wanted = [explain is not None and (self._cheap or self.shows(cells[0])) for _, cells, _ in some]
            explained = iter(explain([*itertools.compress(strongest, wanted)]) if explain and any(wanted) else ())
            for (row, cells, (gold, texts)), shown in zip(some, wanted, strict=True):
                named = [driving_words(next(explained)) if shown else ""] if explain else []
                self.add([row, *cells, gold, *texts, *named])

    def cells(self, rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """Texts, why they were taken out, score."""
        count, width = len(self._columns), len(SCORES) * len(self._columns)
        texts = iter(self._mark([str(text) for row in rows for text in row[width + 3 : width + 3 + count]]))
        return [
            [
                *itertools.islice(texts, count),
                _why(self._columns, scores[:width], score, self._threshold),
                *scores[width + 1 + count :],  # driving words, where a scorer knows them
                score,
                str(scores[width]),
                str(row),
            ]
            for row, score, *scores in rows
        ]

    def _labelled(
        self, number: int, rows: NDArray[np.int64], frame: pl.DataFrame
    ) -> Iterator[tuple[str, Sequence[str]]]:
        """Gold label and texts of some rows of a shard."""
        if self._plan.swaps:  # they have been read from JSON already
            for _, _, gold, _, *texts in self._plan.swapped(number, rows).iter_rows():
                yield gold, texts[: len(self._columns)]
            return
        for original in frame["original"]:
            record = parse_json_object(original, "scored corpus", halves=True)
            yield gold_of(record), self._plan.texts(record)


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
