"""Several seeds of one recipe: means and differences whose intervals speak of other words, templates and seeds.

The variance of a mean over k seeds is that of the items, which all seeds share, plus that of the seeds over k:

    V = mean(se_item^2) + s_seed^2 / k

The items' part is not divided: a word that misleads one seed misleads the others. So V errs on the wide side where
seeds err on different items. Student's quantile has the degrees of freedom of Satterthwaite, with those of the items
taken as infinite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri, stdtrit

from evenli.core.record import Estimate
from evenli.stats.intervals import estimate_difference
from evenli.stats.measure import Measure
from evenli.stats.sample import Sample

ONE_SEED = "one seed: the interval does not speak of others"


def pool_seeds(estimates: Sequence[Estimate], bounds: tuple[float, float] = (-math.inf, math.inf)) -> Estimate:
    """The mean over seeds with its interval; that of a single seed is its own.

    >>> one = Estimate(0.5, 0.4, 0.6, 0.05, 0.95, 100)
    >>> pool_seeds([one, one]).se
    0.05
    """
    first, count = estimates[0], len(estimates)
    if count == 1:
        return Estimate(first.value, first.low, first.high, first.se, first.level, first.n, first.clusters, ONE_SEED)
    values = np.array([one.value for one in estimates])
    items = float(np.mean([one.se**2 for one in estimates]))
    low, high, se = _interval(float(values.mean()), items, [values], first.level)
    clusters = {**first.clusters, "seeds": count}
    ends = max(bounds[0], low), min(bounds[1], high)
    return Estimate(float(values.mean()), *ends, se, first.level, first.n, clusters)


def _interval(value: float, items: float, seeds: Sequence[np.ndarray], level: float) -> tuple[float, float, float]:
    """Both ends and the standard error; ``seeds`` are the values of every seed, one array per recipe."""
    parts = [(float(one.var(ddof=1)) / len(one), len(one) - 1) for one in seeds if len(one) > 1]
    variance = items + sum(part for part, _ in parts)
    spread = sum(part**2 / df for part, df in parts)
    t = float(stdtrit(variance**2 / spread, (1 + level) / 2)) if spread > 0 else float(ndtri((1 + level) / 2))
    half = t * math.sqrt(variance)
    return value - half, value + half, math.sqrt(variance)


def contrast(entry: Measure, first: Sequence[Sample], second: Sequence[Sample], level: float = 0.95) -> Estimate:
    """``second - first`` of one measure on the same items, over all seeds of both recipes.

    Items are paired, seeds are not: the third seed of one recipe has nothing to do with the third of another.
    """
    values = [np.array([float(entry(one)) for one in several]) for several in (first, second)]
    value = float(values[1].mean() - values[0].mean())
    # Every seed is in at least one of these pairs.
    pairs = [(first[n % len(first)], second[n % len(second)]) for n in range(max(len(first), len(second)))]
    items = float(np.mean([estimate_difference(entry, a, b, level).se ** 2 for a, b in pairs]))
    low, high, se = _interval(value, items, values, level)
    fewest = min(len(first), len(second))
    note = ONE_SEED if fewest == 1 else ""
    return Estimate(value, low, high, se, level, int(first[0].frame.height), {"seeds": fewest}, note)


def seed_variance(groups: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Standard deviation between seeds of the same recipe, over several recipes, with its 95 % interval.

    The variances within recipes are pooled by their degrees of freedom; the interval is that of chi-squared, which
    takes the seeds of a recipe as normal and all recipes as equally variable.
    """
    from scipy.stats import chi2

    squares = sum(float(np.var(group, ddof=1)) * (len(group) - 1) for group in groups if len(group) > 1)
    df = sum(len(group) - 1 for group in groups if len(group) > 1)
    if not df:
        return math.nan, math.nan, math.nan
    low, high = (math.sqrt(squares / float(chi2.ppf(q, df))) for q in (0.975, 0.025))
    return math.sqrt(squares / df), low, high
