"""Values with intervals: one function adds uncertainty to any measure, from outside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from evenli.errors import InputError
from evenli.stats.measure import Measure
from evenli.stats.proportion import wilson as wilson
from evenli.stats.sample import Sample
from evenli.stats.variance import Scores, Spread, jackknife_scores, scores_of_means, spread
from evenli.types import Estimate as Estimate

POWER_FACTOR = 1.959964 + 0.841621
"""z of a two-sided 5 % test plus z of 80 % power."""
Estimates = Mapping[tuple[str, str | None], Estimate]
"""Estimates by measure and stereotype; None is all occupations."""
LEAST_P = 1e-6
"""A p is never given as less: the approximation does not reach further, and stored numbers have six decimals."""
_NOTHING = 1e-16
"""A variance below this is rounding."""
_ALIKE = "the interval has no width: the same number in every occupation and template leaves nothing that varies"
_UNDEFINED = "undefined: this slice has no rows that the formula needs"


@dataclass(frozen=True)
class Scoring:
    """Settings of the scoring step; none of them asks the model again."""

    level: float = 0.95  # coverage of the intervals
    published: bool = False  # keep words that state a group in our own measures too, as published ones do

    def __post_init__(self) -> None:
        """Refuse settings that give no interval."""
        if not 0 < self.level < 1:
            raise InputError(f"the level of an interval is {self.level}; give a number between 0 and 1, like 0.95")


@dataclass(frozen=True)
class Interval:
    """Ends, standard error, two-sided p of the hypothesis that the true value is 0, and why they are undefined."""

    low: float = math.nan
    high: float = math.nan
    se: float = math.nan
    p: float = math.nan
    note: str = ""


def estimate_measures(
    sample: Sample,
    measures: Sequence[Measure],
    stereotypes: Sequence[str | None] = (None,),
    scoring: Scoring | None = None,
) -> dict[tuple[str, str | None], Estimate]:
    """Estimate every measure on every slice of one suite; None is everything."""
    level = (scoring or Scoring()).level
    estimates = {}
    for name in stereotypes:
        part = np.ones(sample.frame.height, dtype=bool) if name is None else sample.where("stereotype", name)
        for entry in measures:
            # n counts the rows that the formula reads, not all rows of the suite.
            rows = part & entry.rows(sample)
            value = float(entry(sample, name))
            found = _estimate(entry, value, [sample], name, level)
            clusters = sample.design.count(rows)
            estimates[entry.name, name] = Estimate(
                value, found.low, found.high, found.se, level, int(rows.sum()), clusters, found.note
            )
    return estimates


def estimate_difference(entry: Measure, first: Sample, second: Sample, level: float = 0.95) -> Interval:
    """Interval of ``second - first`` of one measure on the same rows: what the rows have in common cancels."""
    return _estimate(entry, float(entry(second)) - float(entry(first)), [first, second], None, level)


def _estimate(
    entry: Measure, value: float, samples: Sequence[Sample], stereotype: str | None, level: float
) -> Interval:
    if math.isnan(value):
        return Interval(note=_UNDEFINED)
    scores = scores_of_means(entry, samples, stereotype)
    if scores is None:
        scores = jackknife_scores(entry, samples, stereotype)
    if math.isnan(scores.total):
        return Interval(note="no interval: undefined where an occupation or a template is left out")
    if reason := nothing_varies(scores):
        return Interval(note=reason)
    found = spread(scores)
    if found.variance + found.floor < _NOTHING:
        return Interval(value, value, 0.0, _p(value, 0.0, math.inf), note=_ALIKE)
    # A difference is not a share: it has no ends near which its spread would have to shrink.
    if len(samples) == 1:
        return interval(value, found, (entry.low, entry.high), level)
    return interval(value, found, (-math.inf, math.inf), level)


def nothing_varies(scores: Scores) -> str:
    """Why these clusters have no spread; empty if they have."""
    within = np.bincount(scores.stratum[scores.occupation_mass > 0])
    if within.max() > 1 or (scores.template_mass > 0).sum() > 1:
        return ""
    alone = "one occupation" if (within > 0).sum() == 1 else "one occupation per stereotype"
    return f"no interval: {alone} and one template leave nothing that varies"


def interval(value: float, found: Spread, bounds: tuple[float, float], level: float = 0.95) -> Interval:
    """From variance to interval: Student's t, bent at the ends of the range as Wilson's interval of a share is.

    Near 0 and 1 the spread of a share depends on the share, ``V(p) = p (1 - p) / n``. The interval holds the
    shares from which the observed one is not too far under their own spread, with the ``n`` of the observed variance.
    """
    t = float(stdtrit(found.df, (1 + level) / 2)) if math.isfinite(found.df) else float(ndtri((1 + level) / 2))
    low = high = value
    se = math.sqrt(found.variance + found.floor)
    if found.variance > 0:
        low, high = _bent(value, found.variance, t, bounds)
    # What shares that are 0 or 1 throughout may hide comes on top.
    hidden = float(ndtri((1 + level) / 2)) * math.sqrt(found.floor)
    low = max(bounds[0], value - math.hypot(value - low, hidden))
    high = min(bounds[1], value + math.hypot(high - value, hidden))
    return Interval(low, high, se, _p(value, se, found.df))


def _bent(value: float, variance: float, t: float, bounds: tuple[float, float]) -> tuple[float, float]:
    start, width = bounds[0], bounds[1] - bounds[0]
    share = (value - start) / width if math.isfinite(width) else 0.0
    if not 0 < share < 1:
        half = t * math.sqrt(variance)
        return value - half, value + half
    # The number of independent answers that would have this variance; clusters make it smaller than the rows.
    n = share * (1 - share) * width**2 / variance
    middle = (share + t**2 / (2 * n)) / (1 + t**2 / n)
    half = t / (1 + t**2 / n) * math.sqrt(share * (1 - share) / n + t**2 / (4 * n**2))
    return start + width * (middle - half), start + width * (middle + half)


def _p(value: float, se: float, df: float) -> float:
    if value == 0:
        return 1.0
    if se == 0:
        return LEAST_P
    tail = float(stdtr(df, -abs(value) / se)) if math.isfinite(df) else float(ndtr(-abs(value) / se))
    return max(LEAST_P, 2 * tail)


def minimum_detectable_difference(estimate: Estimate) -> float:
    """Smallest true difference to another model on the same set that a paired 5 % test finds with 80 % power.

    ``(z_0.975 + z_0.8) * se``, for a model whose score varies as much over occupations and templates as this one's and
    correlates with it by one half: then the difference of the two has the standard error that each has alone.
    """
    return float(POWER_FACTOR * estimate.se)
