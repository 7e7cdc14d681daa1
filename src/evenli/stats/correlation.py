"""Correlations of many score curves with the same levels at once: arrays in, arrays out."""

from __future__ import annotations

import math
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from scipy.stats import t as student

from evenli.errors import InputError

Values = NDArray[np.float64]
Statistic = Literal["pearson", "spearman", "kendall"]
STATISTICS: tuple[Statistic, ...] = ("pearson", "spearman", "kendall")
CONSTANT = 1e-9
"""Curves whose range is smaller, relative to their size, are constant."""
DIGITS = 12
"""Scores that differ less differ by rounding only, and must tie when they are ranked."""


def correlations(levels: Values, rows: Values, statistic: Statistic) -> Values:
    """The statistic of every row with the levels, [rows]; NaN where a row is constant or has no value."""
    values = np.full(len(rows), np.nan)
    usable = ~(np.isnan(rows).any(axis=1) | is_constant(rows))
    rows = np.round(rows[usable], DIGITS)
    if statistic == "kendall":
        values[usable] = _tau_b(levels, rows)
        return values
    # Spearman's rho is Pearson's r of the ranks.
    if statistic == "spearman":
        levels, rows = rankdata(levels), rankdata(rows, axis=1)
    x = levels - levels.mean()
    y = rows - rows.mean(axis=1, keepdims=True)
    # Rounding can push a perfect line past 1.
    values[usable] = np.clip(y @ x / np.sqrt((x @ x) * (y * y).sum(axis=1)), -1, 1)
    return values


def is_constant(rows: Values) -> NDArray[np.bool_]:
    """Whether a row is the same everywhere but for rounding, [rows]."""
    size = np.maximum(1.0, np.abs(rows).max(axis=1))
    return cast(NDArray[np.bool_], np.ptp(rows, axis=1) <= CONSTANT * size)


def _tau_b(levels: Values, rows: Values) -> Values:
    """Kendall's tau-b: concordant minus discordant pairs over the pairs that are not tied."""
    first, second = np.triu_indices(levels.size, k=1)
    # 32-bit floats count pairs exactly, in half the memory.
    x = np.sign(levels[second] - levels[first]).astype(np.float32)
    y = np.sign(rows[:, second] - rows[:, first]).astype(np.float32)
    return cast(Values, (y @ x) / np.sqrt(np.abs(x).sum() * np.abs(y).sum(axis=1), dtype=np.float64))


def pearson_p(r: float, n: int) -> float:
    """Two-sided p of a Pearson correlation of ``n`` points under normality: ``t = r sqrt((n - 2) / (1 - r^2))``.

    For published values, of which nothing but ``r`` and ``n`` is known.

    >>> round(pearson_p(-0.263, 11), 3)
    0.435
    """
    if n < 3 or not -1 <= r <= 1:
        raise InputError(
            f"no p-value for r = {r} of {n} points; r lies within -1 and 1 and needs at least three points"
        )
    if abs(r) == 1:
        return 0.0
    return float(2 * student.sf(abs(r) * math.sqrt((n - 2) / (1 - r * r)), n - 2))
