"""The interval of a share, and a ranking of intervals. Needs no polars: training machines can do without it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from evenli.core.record import Estimate

Array = NDArray[np.float64] | np.float64


def score_interval(share: Array, n: Array, quantile: float) -> tuple[Array, Array]:
    """Ends of Wilson's (1927) score intervals of shares of n independent cases; z or t is the quantile."""
    inflated = 1 + quantile**2 / n
    middle = (share + quantile**2 / (2 * n)) / inflated
    half = quantile / inflated * np.sqrt(share * (1 - share) / n + quantile**2 / (4 * n**2))
    # At 0 and 1 one end is the share itself, but for rounding.
    return np.where(share > 0, middle - half, 0.0), np.where(share < 1, middle + half, 1.0)


def wilson(share: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Ends of the interval of a share of n independent cases (Wilson 1927).

    >>> [round(end, 4) for end in wilson(0.75, 4)]
    [0.3006, 0.9544]
    """
    low, high = score_interval(np.float64(share), np.float64(n), float(ndtri((1 + level) / 2)))
    return float(low), float(high)


def share_of(hits: float, n: int) -> Estimate:
    """The share of hits among n independent cases, with its 95 % interval (Wilson 1927)."""
    if not n:
        return Estimate.undefined("no pairs")
    share = hits / n
    return Estimate(share, *wilson(share, n), math.sqrt(share * (1 - share) / n), 0.95, n)


def pooled_design_effect(share: Array, n: Array, clusters: Array, squares: Array) -> float:
    """How many rows carry as much as one independent row, pooled over several shares.

    ``squares`` are the sums over clusters of (hits - rows * share)^2, with ``n`` rows in so many ``clusters``.
    """
    if not n.size:
        return 1.0
    most = float((n / clusters).mean())  # all rows of a cluster give the same answer
    independent = float((share * (1 - share) / n).sum())
    if independent == 0:
        return most
    ratio = float((clusters / (clusters - 1) * squares / n**2).sum()) / independent
    # The spread of independent rows is itself estimated around estimated shares.
    return float(np.clip(ratio / (1 + ratio / n.mean()), 1 / most, most))


@dataclass(frozen=True)
class Ranking:
    """A place among several: group of entries that do not differ significantly (1 is lowest), best and worst place."""

    group: int
    best: int
    worst: int

    @property
    def shown(self) -> str:
        """The possible places, for people."""
        return f"{self.best}" if self.best == self.worst else f"{self.best} to {self.worst}"


def rank(estimates: Sequence[tuple[float, float, float]]) -> list[Ranking]:
    """Rank (value, low, high), lowest first.

    Entries whose intervals overlap, directly or through others, share a group.

    >>> [place.group for place in rank([(0.5, 0.4, 0.6), (0.1, 0.0, 0.2), (0.3, 0.15, 0.35)])]
    [2, 1, 1]
    >>> [place.shown for place in rank([(0.5, 0.4, 0.6), (0.1, 0.0, 0.2), (0.3, 0.15, 0.35)])]
    ['3', '1 to 2', '1 to 2']
    """
    groups: dict[int, int] = {}
    group, reach = 0, float("-inf")
    for index in sorted(range(len(estimates)), key=lambda i: estimates[i][1]):
        _, low, high = estimates[index]
        if low > reach:
            group += 1
        reach = max(reach, high)
        groups[index] = group
    return [
        Ranking(
            groups[index],
            1 + sum(other[2] < low for other in estimates),
            len(estimates) - sum(other[1] > high for other in estimates),
        )
        for index, (_, low, high) in enumerate(estimates)
    ]
