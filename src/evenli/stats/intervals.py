"""Values with intervals: one function adds uncertainty to any measure, from outside."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtridf, stdtrit

from evenli.core.record import Estimate, Scoring
from evenli.stats.measure import Measure
from evenli.stats.proportion import wilson as wilson
from evenli.stats.sample import Sample, Values
from evenli.stats.tracing import Part, Parts, parts_of_means
from evenli.stats.variance import Scores, Z, centred, design_effect, jackknife_scores, spread, unseen

Key = TypeVar("Key", bound=Hashable)
POWER_FACTOR = 1.959964 + 0.841621
"""z of a two-sided 5 % test plus z of 80 % power."""
LEAST_P = 1e-6
"""A p is never given as less: the approximation does not reach further, and stored numbers have six decimals."""
_LEVEL = 0.95
"""The level of an interval that agrees with a p below 0.05."""
_NOTHING = 1e-16
"""A variance below this is rounding."""
_UNDERSTATED = 2.0
"""So many times the skewness of a few template effects is that of all: few rarely hold the extreme ones."""
_NO_SKEWNESS = 1e-6
"""Below this the correction for skewness is rounding."""
_ALIKE = "the interval has no width: the same number in every occupation and template leaves nothing that varies"
_UNDEFINED = "undefined: this slice has no rows that the formula needs"


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
            estimates[entry.name, name] = Estimate(
                value, bounds.low, bounds.high, bounds.se, level, int(rows.sum()), clusters, bounds.note
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
    parts = parts_of_means(entry, samples, stereotype)
    if parts is None:
        # The parts of a measure of another kind cannot be told; it is one part, with the range of the measure.
        whole = jackknife_scores(entry, samples, stereotype)
        parts = Parts([Part(whole, value, entry.low, entry.high)])
    if math.isnan(sum(part.scores.total for part in parts.parts)):
        return Interval(note="no interval: undefined where an occupation or a template is left out")
    if reason := nothing_varies([part.scores for part in parts.parts]):
        return Interval(note=reason)
    return interval(value, parts, samples, (entry.low, entry.high), level)


def nothing_varies(scores: Sequence[Scores]) -> str:
    """Why these clusters have no spread; empty if they have."""
    within = np.array([(np.bincount(part.stratum[part.occupation_mass > 0])).max() for part in scores])
    # Templates of all parts together: one template in each of several parts still varies from part to part.
    if within.max() > 1 or np.logical_or.reduce([part.template_mass > 0 for part in scores]).sum() > 1:
        return ""
    occupations = "one occupation" if len(within) == 1 else "one occupation per stereotype"
    return f"no interval: {occupations} and one template leave nothing that varies"


def interval(
    value: float, parts: Parts, samples: Sequence[Sample], bounds: tuple[float, float], level: float = _LEVEL
) -> Interval:
    """From the parts of an estimate to its interval, by recovery of variances (MOVER; Zou and Donner 2008).

    Every part has an interval of its own. The distances from value to end add up as standard errors do, so that each
    end is as far away as the parts allow on its side.
    """
    effect, paired = design_effect(samples), len(samples) == 2
    reaches = [_reach(part, effect, paired, level) for part in parts.parts]
    correlations = _correlations([part.scores for part in parts.parts], [variance for variance, *_ in reaches])
    distances = np.array([(*ends, math.sqrt(variance)) for variance, *ends in reaches]).T
    # Parts that seem to cancel are not believed beyond a quarter of what they would be alone.
    down, up, half, se = (math.sqrt(max(float(row @ correlations @ row), float(row @ row) / 4)) for row in distances)
    if se**2 < _NOTHING:
        return Interval(value, value, 0.0, _p(value, 0.0, 0.0), note=_ALIKE)
    halves = distances[2]
    if parts.whole is not None and float(halves @ correlations @ halves) < float(halves @ halves):
        # Templates that all classes share cancel out, and their few degrees of freedom with them. Of the clustering of
        # the table, so much is lent as an occupation holds.
        design = samples[0].design
        lent = min(effect, len(design.of_cell[0]) / len(design.stratum))
        together = spread(parts.whole, None if paired else lent)
        # Two templates cancel out or add up by chance; the fewer, the less it is believed.
        believed = 1 - 1 / float((parts.whole.template_mass > 0).sum())
        scale = (_quantile(together.df, level) * math.sqrt(together.variance) / half) ** believed
        down, up, se = scale * down, scale * up, se ** (1 - believed) * math.sqrt(together.variance) ** believed
    if paired:
        half = down if level == _LEVEL else interval(value, parts, samples, bounds).high - value
        return Interval(value - down, value + up, se, _p(value, se, half))
    if parts.whole is not None:
        down, up = _skewed(down, up, se, parts.whole)
    # Whatever is added for a corner, the value itself is never outside.
    low, high = min(value, value + parts.excess[0] - down), value + parts.excess[1] + up
    if parts.decided is not None:
        # Two means that are nearly equal vary against each other, so that a mixture of both varies little. The smaller
        # one alone does not: the interval reaches down as far as its own does.
        low = min(low, interval(value, parts.decided, samples, bounds, level).low)
    return Interval(max(bounds[0], low), min(bounds[1], high), se)


def _reach(part: Part, effect: float, paired: bool, level: float) -> tuple[float, float, float, float]:
    """Variance of a part, how far its interval reaches down and up, and half the width of a plain one."""
    # A difference is not a share: it has no ends near which its spread would have to shrink, and is not skewed.
    within = spread(part.scores, None if paired else effect)
    t = _quantile(within.df, level)
    low, high = (-math.inf, math.inf) if paired else (part.low, part.high)
    down, up = _bent(part.value, within.variance, t, (low, high))
    # An answer that was never given is not one that cannot be given.
    reach = [gap * unseen(part.occupations, part.cells, effect, level) if gap else 0.0 for gap in part.hidden]
    floor = max(reach) / float(ndtri((1 + level) / 2))
    half = t * math.sqrt(within.variance)
    return max(within.variance, floor**2), max(down, reach[0]), max(up, reach[1]), half


def _quantile(df: float, level: float) -> float:
    """How many standard errors an interval reaches: Student's t, or z for infinitely many degrees of freedom."""
    return float(stdtrit(df, (1 + level) / 2)) if math.isfinite(df) else float(ndtri((1 + level) / 2))


def _correlations(scores: Sequence[Scores], variances: Sequence[float]) -> Values:
    """How far parts move together: they share templates, and nothing else."""
    of_templates = np.zeros((len(scores), len(scores[0].templates)))
    for row, part in zip(of_templates, scores, strict=True):
        chosen = part.template_mass > 0
        row[chosen] = centred(part.templates[chosen], part.template_mass[chosen]) if chosen.sum() > 1 else 0
    matrix = np.eye(len(scores))
    for a, b in combinations(range(len(scores)), 2):
        both = math.sqrt(variances[a] * variances[b])
        matrix[a, b] = matrix[b, a] = np.clip(of_templates[a] @ of_templates[b] / both, -1, 1) if both > 0 else 0
    return matrix


def _skewed(down: float, up: float, se: float, whole: Scores) -> tuple[float, float]:
    """Both distances, corrected for the skewness of template effects (Hall 1992) where templates are shared by all.

    A template that meets every occupation moves all of them at once. Where it moves a share by the square of what it
    does to the model, few templates mostly give too mild a picture, and Student's t too short an interval on one side.
    Where every template meets a few of many occupations no single one matters, and nothing needs to be corrected.
    """
    templates = whole.templates[whole.template_mass > 0]
    third = float(((templates - templates.mean()) ** 3).sum())
    skewness, t = _UNDERSTATED * third / se**3, (down + up) / (2 * se)
    if abs(skewness) < _NO_SKEWNESS:
        return down, up
    longer, shorter = (3 / skewness * (np.cbrt(1 + skewness * (end - skewness / 6)) - 1) / end for end in (-t, t))
    return down * float(shorter), up * float(longer)


def _bent(value: float, variance: float, t: float, bounds: tuple[float, float]) -> tuple[float, float]:
    """How far an interval reaches down and up: Student's t, bent at the ends of the range as Wilson's of a share is.

    Near 0 and 1 the spread of a share depends on the share, ``V(p) = p (1 - p) / n``. The interval holds the
    shares from which the observed one is not too far under their own spread, with the ``n`` of the observed variance.
    """
    start, width = bounds[0], bounds[1] - bounds[0]
    share = (value - start) / width if math.isfinite(width) and width > 0 else 0.0
    if variance == 0 or not 1e-9 < share < 1 - 1e-9:
        return t * math.sqrt(variance), t * math.sqrt(variance)
    # The number of independent answers that would have this variance; clusters make it smaller than the rows.
    n = share * (1 - share) * width**2 / variance
    low, high = wilson(share, n, quantile=t)
    return width * (share - low), width * (high - share)


def _p(value: float, se: float, half: float) -> float:
    """Two-sided p of a difference, from the t that its 95 % interval has: ``half`` is half its width."""
    if value == 0:
        return 1.0
    if se == 0:
        return LEAST_P
    t = half / se
    if t <= 1.001 * Z:
        return max(LEAST_P, 2 * float(ndtr(-abs(value) / half * Z)))
    return max(LEAST_P, 2 * float(stdtr(stdtridf(0.975, t), -abs(value) / se)))


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
