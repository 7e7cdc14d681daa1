"""Who is left when a corpus is cleaned: rows that lean to either side, and gold labels, before and after.

A cleaning that takes out one side, or one label, teaches a model that instead. Shares that move by more than two
points are a warning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import polars as pl

from evenli.core.record import Record

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
        lean = np.zeros(frame.height)
        for column in self._columns:
            lean += frame[f"{column}_F"].to_numpy() + frame[f"{column}_M"].to_numpy()
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
