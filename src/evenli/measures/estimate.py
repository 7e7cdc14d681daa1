"""Values with intervals: one function adds uncertainty to any measure, from outside."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from evenli.errors import InputError
from evenli.measures.registry import Measure
from evenli.measures.sample import Sample, cluster_weights, row_weights

POWER_FACTOR = 1.959964 + 0.841621
"""z of a two-sided 5 % test plus z of 80 % power."""


@dataclass(frozen=True)
class Estimate:
    """A value, its interval and what it rests on; an undefined value is NaN with a note."""

    value: float
    low: float
    high: float
    se: float
    level: float
    n: int
    clusters: dict[str, int]
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; NaN becomes null."""
        numbers = {key: _finite(getattr(self, key)) for key in ("value", "low", "high", "se")}
        return {**numbers, "level": self.level, "n": self.n, "clusters": self.clusters, "note": self.note}


def intervals(
    sample: Sample,
    measures: Sequence[Measure],
    *,
    stereotypes: Sequence[str | None] = (None,),
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
    method: str = "cluster",
) -> dict[tuple[str, str | None], Estimate]:
    """Estimate every measure on every slice, all from the same resamples.

    Args:
        sample: Unweighted sample of one suite.
        measures: What to estimate.
        stereotypes: Slices; None is everything.
        resamples: Bootstrap resamples.
        level: Coverage of the percentile interval.
        seed: Seed of the bootstrap.
        method: ``cluster`` (two-way over occupations and templates) or ``row`` (naive, for comparison).
    """
    draw = {"cluster": cluster_weights, "row": row_weights}.get(method)
    if draw is None:
        raise InputError(f"no bootstrap '{method}'; choose cluster or row")
    if resamples < 100:
        raise InputError(f"{resamples} resamples are too few for an interval; use at least 100")
    frame = sample.frame
    resampled = sample.weighted(draw(frame, resamples, np.random.default_rng(seed)))
    tail = (1 - level) / 2
    found = {}
    for stereotype in stereotypes:
        part = frame if stereotype is None else frame.filter(frame["stereotype"] == stereotype)
        clusters = {name: part[column].n_unique() for name, column in _CLUSTERS}
        for entry in measures:
            value = float(entry(sample, stereotype))
            if np.isnan(value):
                note = "undefined: this slice has no rows that the formula needs"
                found[entry.name, stereotype] = Estimate(value, value, value, value, level, part.height, clusters, note)
                continue
            values = entry(resampled, stereotype)
            values = values[~np.isnan(values)]
            low, high = np.quantile(values, [tail, 1 - tail])
            se = float(values.std(ddof=1))
            found[entry.name, stereotype] = Estimate(value, float(low), float(high), se, level, part.height, clusters)
    return found


def wilson(share: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Ends of the interval of a share of n independent cases (Wilson 1927).

    >>> [round(end, 4) for end in wilson(0.75, 4)]
    [0.3006, 0.9544]
    """
    z = float(ndtri((1 + level) / 2))
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    # At 0 and 1 one end is the share itself, but for rounding.
    return (middle - half if share > 0 else 0.0), (middle + half if share < 1 else 1.0)


def minimum_detectable_difference(estimate: Estimate) -> float:
    """Smallest true difference to another audit of the same kind that a 5 % test finds with 80 % power.

    ``(z_0.975 + z_0.8) * sqrt(2) * se``, for two independent runs; a paired comparison detects less.
    """
    return float(POWER_FACTOR * np.sqrt(2) * estimate.se)


_CLUSTERS = (("occupations", "occupation"), ("templates", "template"))


def _finite(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 6)
