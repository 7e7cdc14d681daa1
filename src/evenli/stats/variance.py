"""How far a measure would move with other occupations and other templates.

Occupations (within their stereotype) and templates are both random draws, and rows share them. The variance is that of
two-way clusters, ``V = V_occupation + V_template - V_cell`` (Cameron, Gelbach and Miller 2011): what varies by
occupation, plus what varies by template, minus what the two count twice. Each part is a sum of squares of *scores*: how
much of the difference between estimate and truth one cluster brings. Scores come from ``stats.tracing`` in closed form,
or, for a measure that reads more than means, from a jackknife that leaves clusters out one by one. Nothing is random,
and no memory is needed beyond a few numbers per row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtridf, stdtrit

from evenli.stats.sample import Codes, CrossedDesign, Sample, Values, Weights

Function = Callable[[Sample, str | None], Values]
_GROUPS = 400
"""Most parts left out by the jackknife per way of clustering; more clusters are left out several at a time."""
_AT_ONCE = 12_000_000
"""Weights that the jackknife holds at a time, 48 MB."""
_BORROWED = 4
"""How many differing answers the clustering of the whole table counts for, where a share has few of its own."""
Z = float(ndtri(0.975))


@dataclass(frozen=True, eq=False)
class Scores:
    """What each cluster brings to the error of an estimate, and how much weight it has; ``stratum`` per occupation.

    ``combination`` says how often the parts by occupation, template and cell count in the variance: 1, 1, -1 or nearly.
    ``crossed``: occupations share their templates.
    """

    occupations: Values
    templates: Values
    cells: Values
    stratum: Codes
    occupation_mass: Values
    template_mass: Values
    combination: Values
    crossed: bool = False

    @property
    def total(self) -> float:
        """Sum of all scores; NaN if one is undefined."""
        return float(self.occupations.sum() + self.templates.sum() + self.cells.sum())


class Spread(NamedTuple):
    """Variance of an estimate and its degrees of freedom."""

    variance: float
    df: float


def spread(scores: Scores, design_effect: float | None = None) -> Spread:
    """Two-way cluster-robust variance with degrees of freedom.

    The square of t is the mean of those of the two ways of clustering, each with its own number of clusters, weighted
    by what varies by it. Satterthwaite's formula would trust a part that is small by chance.

    Args:
        scores: Of all strata, or of one.
        design_effect: How many times larger the variance is than that of independent cells in the table as a whole.
            Few answers that differ cannot show how they cluster; this is mixed in as if it came from a few more.
    """
    # Within strata, because how many occupations each stereotype has is fixed by the design and brings no variance.
    parts = []
    for stratum in np.unique(scores.stratum):
        chosen = (scores.stratum == stratum) & (scores.occupation_mass > 0)
        parts.append(_part(scores.occupations[chosen], scores.occupation_mass[chosen]))
    occupation = (sum(part for part, _ in parts), sum(bound for _, bound in parts))
    chosen = scores.template_mass > 0
    template = _part(scores.templates[chosen], scores.template_mass[chosen])
    both = float(np.square(scores.cells).sum())
    if chosen.sum() < 2 or np.bincount(scores.stratum[scores.occupation_mass > 0]).max() < 2:
        # One template, or occupations that are alone in their stratum: the other way is all that varies.
        # The larger of the two, because with one cluster a way says nothing, and saying nothing is not zero.
        variance, bound = max(occupation, template)
        squared_t = bound / variance if variance > 0 else Z**2
    else:
        weights = scores.combination[:2] * (occupation[0], template[0])
        bounds = scores.combination[:2] * (occupation[1], template[1])
        # Where neither way of clustering matters, noise is subtracted, and less than nothing may remain. Answers spread
        # more evenly over clusters than by chance are not believed beyond half the variance of cells.
        variance = max(float(weights.sum() + scores.combination[2] * both), both / 2)
        if scores.crossed:
            # Each part alone is what there would be if the other way did not matter; nothing varies by less than 0.
            variance = max(variance, occupation[0], template[0])
        squared_t = float(bounds.sum() / weights.sum()) if weights.sum() > 0 else Z**2
    if design_effect is not None and both > 0:
        # Effective number: as many cells of equal size would have this ratio of second and fourth powers.
        differing = both**2 / float((scores.cells**4).sum())
        own = differing / (differing + _BORROWED)
        variance = own * variance + (1 - own) * design_effect * both
        squared_t = own * squared_t + (1 - own) * Z**2
    # Back from t to degrees of freedom, so that any level of the interval can be had; a t within rounding of the
    # normal one means that there are as good as infinitely many.
    t = math.sqrt(squared_t)
    return Spread(variance, float(stdtridf(0.975, t)) if t > 1.001 * Z else math.inf)


def _part(scores: Values, mass: Values) -> tuple[float, float]:
    """Variance from the clusters of one way, without the bias of estimating their centre; and the same times t^2."""
    if len(scores) < 2:
        return 0.0, 0.0
    share = mass / mass.sum()
    # With equal clusters this is n - 1.
    df = max(1.0, float((share**2).sum()) ** 2 / float((share**4).sum()) - 1)
    variance = float(np.square(centred(scores, mass)).sum())
    return variance, variance * float(stdtrit(df, 0.975)) ** 2


def centred(scores: Values, mass: Values) -> Values:
    """Scores around their mean, so much enlarged that their squares are without the bias of estimating it."""
    share = mass / mass.sum()
    second = float((share**2).sum())
    # With equal clusters this is n / (n - 1).
    correction = second / (second - 2 * float((share**3).sum()) + second**2)
    return np.asarray(math.sqrt(correction) * (scores - scores.mean()), dtype=np.float64)


def summed(row_scores: Values, row_mass: Values, design: CrossedDesign) -> Scores:
    """Scores of clusters from those of rows."""
    ways = (design.occupations, design.templates, design.cells)
    occupations, templates, cells = (np.bincount(codes, row_scores).astype(np.float64) for codes in ways)
    masses = (np.bincount(ways[0], row_mass).astype(np.float64), np.bincount(ways[1], row_mass).astype(np.float64))
    combination = _combination(row_mass, design)
    return Scores(occupations, templates, cells, design.stratum, *masses, combination, design.is_crossed)


def design_effect(samples: Sequence[Sample]) -> float:
    """How much larger clusters make the variance of the share of neutral answers, or of its difference; at least 1."""
    if len(samples) == 2:
        return _design_effect(samples)
    # Every measure asks; what is computed stands beside the rows.
    return samples[0].once("design effect", lambda sample: _design_effect([sample]))


def _design_effect(samples: Sequence[Sample]) -> float:
    design = samples[0].design
    answers = (~samples[-1].is_neutral).astype(np.float64)
    if len(samples) == 2:
        answers -= ~samples[0].is_neutral
    means = np.bincount(design.strata, answers) / np.maximum(np.bincount(design.strata), 1)
    scores = summed(answers - means[design.strata], np.ones_like(answers), design)
    both = float(np.square(scores.cells).sum())
    # Where no answer differs, nothing speaks for clusters.
    return max(1.0, spread(scores).variance / both) if both > 0 else 1.0


def unseen(occupations: int, cells: int, effect: float, level: float = 0.95) -> float:
    """The largest share of which answers that cluster may show nothing: the rule of three, 3 / cells without clusters.

    So large that no answer of the kind has probability ``1 - level``, their number being negative binomial with the
    variance that the design effect says. They are worth at least as many answers as there are occupations.
    """
    # A negative binomial of mean m and variance d m is 0 with probability exp(-m log(d) / (d - 1)): as if there were
    # only log(d) / (d - 1) times as many independent cells.
    independent = cells * (math.log(effect) / (effect - 1) if effect > 1 + 1e-9 else 1)
    return float(1 - (1 - level) ** (1 / max(occupations, independent)))


def _combination(row_mass: Values, design: CrossedDesign) -> Values:
    """How the three sums of squares combine to an unbiased variance.

    Where every occupation has templates of its own, the part by template holds the effects of occupations as often as
    that of cells does, and subtracting the latter once is right. Where all share the same templates, they cancel in the
    sum over a template. The expectations of the three parts are linear in the three variance components and tell.
    """
    usual = np.array([1.0, 1.0, -1.0])
    mass = np.bincount(design.cells, row_mass)
    if not mass.any():
        return usual
    mass = mass / mass.sum()
    by_occupation, by_template = (np.bincount(codes, mass) for codes in design.of_cell)
    o, t, c = (float((part**2).sum()) for part in (by_occupation, by_template, mass))
    crossing = float((mass * by_occupation[design.of_cell[0]] * by_template[design.of_cell[1]]).sum())
    # What is left of the effects of occupations in the sums over templates, and the other way round.
    leak = c - 2 * crossing + o * t
    solved = np.linalg.lstsq(np.array([[o, leak, c], [leak, t, c], [c, c, c]]) / c, np.array([o, t, c]) / c, rcond=1e-6)
    weights = np.asarray(solved[0], dtype=np.float64)
    # Nearly singular designs give wild weights that happen to fit; the usual ones are then the safer choice.
    return weights if np.abs(weights - usual).max() < 2 else usual


def jackknife_scores(function: Function, samples: Sequence[Sample], stereotype: str | None) -> Scores:
    """Scores of any measure, or of its difference: how it changes when a cluster is left out; NaN if undefined then."""
    design = samples[0].design
    chosen = np.ones(len(design.occupations), dtype=bool)
    if stereotype is not None:
        chosen = samples[0].where("stereotype", stereotype)
    alike = np.zeros_like(design.occupations)
    clusterings = []
    for codes, strata in ((design.occupations, design.strata), (design.templates, alike), (design.cells, alike)):
        parts = np.full(len(codes), -1)
        parts[chosen], stratum = _parts(codes[chosen], strata[chosen])
        # Weights of 0 instead of tables without the rows: any measure that takes weights can be asked.
        left_out = [_left_out(function, sample, stereotype, parts, len(stratum)) for sample in samples]
        values = left_out[0] if len(left_out) == 1 else left_out[1] - left_out[0]
        sizes = np.bincount(stratum)
        centres = np.bincount(stratum, values) / np.maximum(sizes, 1)
        # The jackknife of an estimate that is linear in its clusters gives back their scores; sizes correct for the
        # part that is left out having been in the centre.
        scores = (1 - 1 / sizes[stratum]) * (centres[stratum] - values)
        clusterings.append((scores, stratum, np.bincount(parts[chosen]).astype(np.float64)))
    (occupations, stratum, mass), (templates, _, template_mass), (cells, _, _) = clusterings
    combination = _combination(chosen.astype(np.float64), design)
    return Scores(occupations, templates, cells, stratum, mass, template_mass, combination)


def _parts(codes: Codes, strata: Codes) -> tuple[Codes, Codes]:
    """Which part each row is left out with, and the stratum of each part: a cluster, or several where they are many."""
    clusters, first, rows = np.unique(codes, return_index=True, return_inverse=True)
    stratum = strata[first]
    rank = np.zeros(len(clusters), dtype=np.int64)
    for code in np.unique(stratum):
        rank[stratum == code] = np.arange(int((stratum == code).sum()))
    # Clusters of one stratum are dealt out in turn, so that parts are of like size and never span two strata.
    keys, part = np.unique(stratum * _GROUPS + rank % _GROUPS, return_inverse=True)
    return part[rows], keys // _GROUPS


def _left_out(function: Function, sample: Sample, stereotype: str | None, parts: Codes, count: int) -> Values:
    """The measure without each of the parts."""
    size = max(1, _AT_ONCE // len(parts))
    values = []
    for start in range(0, count, size):
        weights: Weights = (parts != np.arange(start, min(count, start + size))[:, None]).astype(np.float32)
        values.append(function(sample.weighted(weights), stereotype))
    return np.concatenate(values)
