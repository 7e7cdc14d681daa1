"""card.json of a fairer corpus: what was taken out and put in, and who is left.

A cleaning that takes out one side, or one label, teaches a model that instead. So rows that lean to either side and
gold labels are counted before and after; shares that move by more than two points are a warning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import polars as pl

from evenli.core.record import Record

KIND = "fairer corpus"
SHIFT = 2.0
"""Points by which a share may move without a warning."""
_SIDES = {"female": "lean female", "male": "lean male"}


class Balance(Record, frozen=True):
    """Which way rows lean, and their gold labels; shares in percent, the labels in the order of their names."""

    female: float
    male: float
    labels: dict[str, float]


class BalanceCounter:
    """Counts of rows by side and by gold label."""

    def __init__(self, columns: Iterable[str]) -> None:
        self._columns = tuple(columns)
        # Columns of a shard.
        self.needs = [*(f"{column}_{score}" for column in self._columns for score in ("F", "M")), "gold"]
        self.rows = 0
        self.sides: Counter[str] = Counter()
        self.labels: Counter[str] = Counter()

    def add(self, frame: pl.DataFrame) -> None:
        """Count the rows of a shard."""
        lean = np.sum([frame[f"{column}_F"] + frame[f"{column}_M"] for column in self._columns], axis=0)
        self.rows += frame.height
        self.sides["female"] += int((lean > 0).sum())
        self.sides["male"] += int((lean < 0).sum())
        for label, count in frame["gold"].value_counts().iter_rows():
            if label:
                self.labels[str(label)] += int(count)

    def balance(self) -> Balance:
        """The shares of what was counted."""
        female, male = (_percent(self.sides[side], self.rows) for side in ("female", "male"))
        labelled = sum(self.labels.values())
        return Balance(female, male, {name: _percent(self.labels[name], labelled) for name in sorted(self.labels)})


def _percent(count: int, rows: int) -> float:
    return round(100 * count / rows, 2) if rows else 0.0


def warnings(before: Balance, after: Balance) -> list[str]:
    """A sentence for every share that a cleaning moved by more than two points."""
    shares = [(what, getattr(before, side), getattr(after, side)) for side, what in _SIDES.items()]
    shares += [(f"are labelled {name}", share, after.labels.get(name, 0.0)) for name, share in before.labels.items()]
    return [
        f"rows that {what}: {first:.1f} % before, {second:.1f} % after"
        for what, first, second in shares
        if abs(second - first) > SHIFT
    ]


class _CorpusRecord(Record, frozen=True):
    """Scores are stored in full: they are compared with a threshold."""

    digits: ClassVar[int | None] = None


class Threshold(_CorpusRecord, frozen=True):
    """The score above which rows are changed."""

    percentile: float
    value: float
    method: str = "exact"
    error_bound: float = 0.0


class Counts(_CorpusRecord, frozen=True):
    """How many rows.

    Attributes:
        rows: In the scored corpus.
        no_gold: Without a gold label, which are left out.
        above_threshold: That score above the threshold.
        removed: Taken out.
        added: Swapped copies put in.
        skipped: Without a copy, because the swap would change what a pair says.
        result: In the fairer corpus.
        splits: In each of its files.
    """

    rows: int
    no_gold: int
    above_threshold: int
    removed: int
    added: int
    skipped: int
    result: int
    splits: dict[str, int]


class PairScores(_CorpusRecord, frozen=True):
    """Percentiles and mean of the scores before and after; None where no row is left."""

    before: dict[str, float] | None
    after: dict[str, float] | None
    after_covers: str


class Balances(_CorpusRecord, frozen=True):
    """Sides and labels of the rows before, after, and of those that were removed."""

    before: Balance
    after: Balance
    removed: Balance


class CorpusCard(_CorpusRecord, frozen=True):
    """What ``card.json`` holds.

    Attributes:
        source: Files of the scored corpus and their hash.
        scorer: What the rows were scored by.
        columns: Text columns.
        threshold: Above it rows are changed.
        counts: Rows before, after and between.
        pair_max: Largest score of a row's texts, over all rows.
        settings: Method and its settings.
        balance: Who leans to which side.
        warnings: Shares that moved by more than two points.
        driving_words: Whether the words behind the scores are shown, or why not.
        files: Hash by file.
    """

    stamped: ClassVar[str] = KIND

    source: dict[str, Any]
    scorer: str
    columns: list[str]
    threshold: Threshold
    counts: Counts
    pair_max: PairScores
    settings: dict[str, Any]
    balance: Balances
    warnings: list[str]
    driving_words: str
    files: dict[str, str]
