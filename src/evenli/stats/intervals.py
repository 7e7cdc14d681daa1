"""Values with intervals: one function adds uncertainty to any measure, from outside."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from evenli.core.record import Estimate, Scoring
from evenli.stats.delta import NotOfMeansError
from evenli.stats.measure import Measure
from evenli.stats.mover import LEAST_P as LEAST_P
from evenli.stats.mover import Terms, terms_of_means
from evenli.stats.proportion import wilson as wilson
from evenli.stats.sample import CrossedDesign, Sample, Values
from evenli.stats.variance import jackknife

Key = TypeVar("Key", bound=Hashable)
POWER_FACTOR = 1.959964 + 0.841621
"""z of a two-sided 5 % test plus z of 80 % power."""
FEWEST_TEMPLATES = 5
"""With fewer templates that all occupations share there is no interval: it would hold the truth in 80 to 90 % of cases
where templates differ much."""
_ALIKE = "the interval has no width: the same number in every occupation and template leaves nothing that varies"
_UNDEFINED = "undefined: this slice has no rows that the formula needs"
_LEFT_OUT = "no interval: undefined where an occupation or a template is left out"


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
            bounds = _estimate(entry, value, [sample], name, level)
            clusters = sample.design.count(rows)
            ends = (bounds.low, bounds.high, bounds.se)
            estimates[entry.name, name] = Estimate(
                value, *ends, level, int(rows.sum()), clusters, bounds.note, bounds.p
            )
    return estimates


def estimate_functions(
    sample: Sample,
    functions: Mapping[Key, Callable[[Sample], Values]],
    bounds: tuple[float, float],
    scoring: Scoring | None = None,
) -> dict[Key, Estimate]:
    """Estimate functions of a sample whose values lie between the bounds, by their keys."""

    def entry(key: Key, function: Callable[[Sample], Values]) -> Measure:
        return Measure(str(key), "", "", lambda sample, stereotype: function(sample), *bounds)

    entries = [entry(key, function) for key, function in functions.items()]
    estimates = estimate_measures(sample, entries, scoring=scoring)
    return {key: estimates[str(key), None] for key in functions}


def estimate_difference(entry: Measure, first: Sample, second: Sample, level: float = 0.95) -> Interval:
    """Interval of ``second - first`` of one measure on the same rows: what the rows have in common cancels."""
    return _estimate(entry, float(entry(second)) - float(entry(first)), [first, second], None, level)


def _estimate(
    entry: Measure, value: float, samples: Sequence[Sample], stereotype: str | None, level: float
) -> Interval:
    if math.isnan(value):
        return Interval(note=_UNDEFINED)
    if reason := too_few(samples[0].design):
        return Interval(note=reason)
    paired, sizes = len(samples) == 2, np.array([entry.high - entry.low])
    try:
        terms = terms_of_means(entry, samples, stereotype)
    except NotOfMeansError:
        # The terms of a measure of another kind cannot be told; it is one term, with the range of the measure.
        covariance = jackknife(entry, samples, stereotype)
        if covariance is None:
            return Interval(note=_LEFT_OUT)
        share = (value - entry.low) / sizes if np.isfinite(sizes).all() and not paired else np.array([math.nan])
        terms = Terms(share, sizes, covariance, np.zeros(1, dtype=np.int64), np.zeros((1, 2)), np.array([np.inf]))
    se = terms.se
    p = terms.p(value) if paired or entry.low < 0 else math.nan
    if se < 1e-8:  # rounding
        return Interval(value, value, 0.0, p, note=_ALIKE)
    down, up = terms.reach(level)
    bounds = (-math.inf, math.inf) if paired else (entry.low, entry.high)
    return Interval(max(bounds[0], value - down), min(bounds[1], value + up), se, p)


def too_few(design: CrossedDesign) -> str:
    """Why nobody can tell how far an estimate would move with other occupations and templates; empty if one can."""
    templates = int(design.templates.max()) + 1
    if templates == 1 and np.bincount(design.stratum).max() == 1:
        one = "one occupation" if len(design.stratum) == 1 else "one occupation per stereotype"
        return f"no interval: {one} and one template leave nothing that varies"
    if design.is_crossed and len(design.stratum) > 1 and templates < FEWEST_TEMPLATES:
        shared = (
            "1 sentence shared by all words is" if templates == 1 else f"{templates} sentences shared by all words are"
        )
        return f"no interval: {shared} too few"
    return ""


def minimum_detectable_difference(estimate: Estimate) -> float:
    """Smallest true difference to another model on the same set that a paired 5 % test finds with 80 % power.

    ``(z_0.975 + z_0.8) * se``, for a model whose score varies as much over occupations and templates as this one's and
    correlates with it by one half: then the difference of the two has the standard error that each has alone.
    """
    return float(POWER_FACTOR * estimate.se)


def prediction_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float, float]:
    """Ends between which one further value like these lies, and with which probability; the extremes of few values.

    Of n values and a further one, each is equally likely to be the k-th smallest of all n + 1. The share of many
    further values inside is not this probability, but varies about it: between the extremes it is Beta(n - 1, 2).

    >>> prediction_interval(range(39))
    (0.0, 38.0, 0.95)
    """
    ordered, n = sorted(float(value) for value in values), len(values)
    if n < 2:
        return math.nan, math.nan, math.nan
    cut = max(1, math.floor((n + 1) * (1 - level) / 2 + 1e-9))
    return ordered[cut - 1], ordered[n - cut], (n + 1 - 2 * cut) / (n + 1)
