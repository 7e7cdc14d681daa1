"""What was taken out of a corpus or put into it, for people: all of it as CSV, its top as a page, sentences first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.corpus.run import Scorer
from evenli.corpus.scored import SCORES, Parts, order_statistics
from evenli.format import number, printable
from evenli.mitigate.plan import clean
from evenli.page import Block, Cell, mark_words, render
from evenli.parse import csv_line
from evenli.resources.words import GenderWords

_BUCKET = 200_000  # rows that are sorted in memory at a time
_LINES = 10_000  # lines of a list that go to the sorter at a time
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
    """Puts texts into the order of their keys in bounded memory; equal keys keep the order in which they came.

    The texts go into a file for each range of keys first, ``borders`` between them, and are then sorted file by file.
    """

    def __init__(self, folder: Path, borders: NDArray[np.float64] | NDArray[np.int64], name: str = "order") -> None:
        self.folder, self._borders = folder, borders
        self._files = [folder / f".{name}-{number:04d}" for number in range(len(borders) + 1)]
        self._waiting: list[tuple[NDArray[Any], list[bytes]]] = []
        self._held = 0

    @classmethod
    def of_places(cls, folder: Path, total: int) -> Sorter:
        """A sorter whose keys are the places from 0 on."""
        return cls(folder, np.arange(_BUCKET, total, _BUCKET))

    def add(self, keys: NDArray[Any], texts: Sequence[str]) -> None:
        """Take in texts with their keys."""
        self._waiting.append((keys.astype(self._borders.dtype), [text.encode() for text in texts]))
        self._held += len(texts)
        if self._held >= _BUCKET and len(self._files) > 1:
            self._spill()

    def _spill(self) -> None:
        """Append what waits to the files: keys, lengths of the texts, texts end to end."""
        keys, texts = self._merged()
        file_of = np.searchsorted(self._borders, keys, side="right")
        order = np.argsort(file_of, kind="stable")
        ends = np.cumsum(np.bincount(file_of, minlength=len(self._files)))
        for file, rows in zip(self._files, np.split(order, ends[:-1]), strict=True):
            if len(rows):
                chosen = [texts[row] for row in rows.tolist()]
                lengths = np.fromiter(map(len, chosen), dtype=np.int64, count=len(chosen))
                with file.open("ab") as stream:
                    for array in (np.array([len(chosen)]), keys[rows], lengths):
                        stream.write(array.tobytes())
                    stream.writelines(chosen)

    def _merged(self) -> tuple[NDArray[Any], list[bytes]]:
        """What waits, which then waits no more."""
        keys = np.concatenate([self._borders[:0], *(keys for keys, _ in self._waiting)])
        texts = [text for _, some in self._waiting for text in some]
        self._waiting, self._held = [], 0
        return keys, texts

    def _read(self, file: Path) -> None:
        with file.open("rb") as stream:
            while head := stream.read(8):
                count = int(np.frombuffer(head, dtype=np.int64)[0])
                keys = np.frombuffer(stream.read(8 * count), dtype=self._borders.dtype)
                lengths = np.frombuffer(stream.read(8 * count), dtype=np.int64)
                self._waiting.append((keys, [stream.read(length) for length in lengths.tolist()]))
        file.unlink()

    def sorted(self) -> Iterator[bytes]:
        """All texts in the order of their keys."""
        if len(self._files) > 1:
            self._spill()
        for file in self._files:
            if file.is_file():
                self._read(file)
            keys, texts = self._merged()
            yield from (texts[row] for row in np.argsort(keys, kind="stable").tolist())


class Review:
    """A list for human eyes: all of it as CSV, its top as a page; ``scores`` gives those of the ``count`` rows."""

    def __init__(self, folder: Path, name: str, page: ReviewPage, scores: Parts, count: int) -> None:
        self._folder, self._name, self._page = folder, name, page
        # The highest score is the first: the keys are the scores turned round.
        cuts = [count - rank for rank in range(_BUCKET, count, _BUCKET)]
        ordered = order_statistics(scores, count, [*cuts, *([count - _SHOWN] if count > _SHOWN else [])])
        self._sorter = Sorter(folder, np.array([-ordered[rank] for rank in cuts], dtype=np.float64), name)
        # Rows above a score are shown, and as many of those that have it as there is room for.
        self._limit = ordered[count - _SHOWN] if count > _SHOWN else -np.inf
        above = sum(int((part > self._limit).sum()) for part in scores()) if count > _SHOWN else 0
        self._room = _SHOWN - above
        self._count = count
        self._top: list[tuple[float, list[Any]]] = []
        self._keys: list[float] = []
        self._lines: list[str] = []

    def shows(self, score: float) -> bool:
        """Whether the next row, which has this score, is one of those on the page."""
        return score > self._limit or (score == self._limit and self._room > 0)

    def add(self, cells: Sequence[Any]) -> None:
        """Take in the next row; its second cell is its score."""
        row = [clean(cell) if isinstance(cell, str) else cell for cell in cells]
        score = float(row[1])
        if self.shows(score):
            self._top.append((-score, row))
            self._room -= score == self._limit
        self._keys.append(-score)
        self._lines.append(csv_line(row))
        if len(self._lines) >= _LINES:
            self._pass_on()

    def _pass_on(self) -> None:
        self._sorter.add(np.array(self._keys, dtype=np.float64), self._lines)
        self._keys, self._lines = [], []

    def finish(self, columns: Sequence[str]) -> None:
        """Write NAME.csv and NAME.html."""
        self._pass_on()
        with (self._folder / f"{self._name}.csv").open("wb") as stream:
            stream.write(csv_line(columns).encode())
            stream.writelines(self._sorter.sorted())
        rows = [self._page.cells(row) for _, row in sorted(self._top, key=lambda entry: entry[0])]
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
