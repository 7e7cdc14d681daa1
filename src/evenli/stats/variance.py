"""How far a measure would move with other occupations and other templates.

Occupations (within their stereotype) and templates are both random draws, and rows share them. The variance is that of
two-way clusters, ``V = V_occupation + V_template - V_cell`` (Cameron, Gelbach and Miller 2011): what varies by
occupation, plus what varies by template, minus what the two count twice. Each part is a sum of squares of *scores*: how
much of the difference between estimate and truth one cluster brings. A measure that reads its sample through
``Sample.mean`` gets its scores in closed form (the delta method), anything else from a jackknife that leaves clusters
out one by one. Nothing is random, and no memory is needed beyond a few numbers per row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtridf, stdtrit

from evenli.stats.sample import Codes, Design, Paired, Sample, Values, Weights

Function = Callable[[Sample, str | None], Values]
_STEP = 1e-5
"""How far a mean is moved to see how a measure depends on it."""
_GROUPS = 400
"""Most parts left out by the jackknife per way of clustering; more clusters are left out several at a time."""
_AT_ONCE = 12_000_000
"""Weights that the jackknife holds at a time, 48 MB."""
_Z = float(ndtri(0.975))


@dataclass(frozen=True, eq=False)
class Scores:
    """What each cluster brings to the error of an estimate, and how much weight it has; ``stratum`` per occupation.

    ``combination`` says how often the parts by occupation, template and cell count in the variance: 1, 1, -1 or nearly.
    ``floor`` is the variance of shares that are 0 or 1 throughout: no cluster differs, yet one not drawn might.
    """

    occupations: Values
    templates: Values
    cells: Values
    stratum: Codes
    occupation_mass: Values
    template_mass: Values
    combination: Values
    floor: float = 0.0

    @property
    def total(self) -> float:
        """Sum of all scores; NaN if one is undefined."""
        return float(self.occupations.sum() + self.templates.sum() + self.cells.sum())


@dataclass(frozen=True)
class Spread:
    """Variance of an estimate, its degrees of freedom, and the part from shares that are 0 or 1 throughout."""

    variance: float
    df: float
    floor: float = 0.0


def spread(scores: Scores) -> Spread:
    """Two-way cluster-robust variance with degrees of freedom.

    Every part has the t of its own number of clusters, ``t^2 V = sum of t_k^2 V_k - z^2 V_cell`` (after Cochran 1964),
    and the degrees of freedom are those of that t. Satterthwaite's formula would trust a part that is small by chance.
    """
    # Within strata, because how many occupations each stereotype has is fixed by the design and brings no variance.
    parts = []
    for stratum in np.unique(scores.stratum):
        chosen = (scores.stratum == stratum) & (scores.occupation_mass > 0)
        parts.append(_part(scores.occupations[chosen], scores.occupation_mass[chosen]))
    chosen = scores.template_mass > 0
    template = _part(scores.templates[chosen], scores.template_mass[chosen])
    both = float(np.square(scores.cells).sum())
    occupation = (sum(part for part, _ in parts), sum(part for _, part in parts))
    if chosen.sum() < 2 or np.bincount(scores.stratum[scores.occupation_mass > 0]).max() < 2:
        # One template, or occupations that are alone in their stratum: the other way is all that varies.
        variance, bound = max(occupation, template)
    else:
        parts_with_t = zip(occupation, template, (both, _Z**2 * both), strict=True)
        variance, bound = (float(scores.combination @ part) for part in parts_with_t)
        if variance < both / 2:
            # Where neither way of clustering matters, noise is subtracted, and less than nothing may remain. Answers
            # spread more evenly over clusters than by chance are not believed beyond half the variance of cells.
            variance, bound = both / 2, max(bound, _Z**2 * both / 2)
    # Back from t to degrees of freedom, so that any level of the interval can be had; a t within rounding of the
    # normal one means that there are as good as infinitely many.
    t = math.sqrt(bound / variance) if variance > 0 else 0.0
    return Spread(variance, float(stdtridf(0.975, t)) if t > 1.001 * _Z else math.inf, scores.floor)


def _part(scores: Values, mass: Values) -> tuple[float, float]:
    """Variance from the clusters of one way, without the bias of estimating their centre; and the same times t^2."""
    if len(scores) < 2:
        return 0.0, 0.0
    share = mass / mass.sum()
    second = float((share**2).sum())
    # With equal clusters this is n / (n - 1) and n - 1.
    correction = second / (second - 2 * float((share**3).sum()) + second**2)
    df = max(1.0, second**2 / float((share**4).sum()) - 1)
    variance = correction * float(np.square(scores - scores.mean()).sum())
    return variance, variance * float(stdtrit(df, 0.975)) ** 2


class NotOfMeansError(Exception):
    """A measure reads more of its sample than means, so its scores have no closed form."""


@dataclass(frozen=True, eq=False)
class _Call:
    """One mean that a measure asked for: the column, its rows in the slice, and where these stand in the table."""

    values: NDArray[np.floating]
    rows: NDArray[np.int64]
    mean: float


class _Traced(Sample):
    """A sample that writes down the means a measure asks for and moves each of them a little, one after the other."""

    calls: list[_Call]
    moves: int
    places: NDArray[np.int64] | None

    @classmethod
    def of(cls, sample: Sample, calls: list[_Call], moves: int, places: NDArray[np.int64] | None = None) -> _Traced:
        # Shares everything with the sample, so that tracing a million rows copies none of them.
        traced = cls.__new__(cls)
        traced.__dict__.update(sample.__dict__)
        for name in ("paired", "weights"):
            traced.__dict__.pop(name, None)
        traced.__dict__.update(calls=calls, moves=moves, places=places)
        return traced

    @property
    def weights(self) -> NoReturn:  # type: ignore[override]
        raise NotOfMeansError

    @property
    def paired(self) -> Paired:
        groups, rows, first = self._pairing
        return Paired(groups, rows, _Traced.of(first, self.calls, self.moves, rows[0]))

    def mean(
        self,
        values: NDArray[np.floating],
        subset: str | None = None,
        stereotype: str | None = None,
        rows: NDArray[np.bool_] | None = None,
    ) -> Values:
        mask = self._mask(subset, stereotype) if rows is None else rows
        places = np.arange(self.frame.height)[mask] if self.places is None else self.places[mask]
        chosen = values[mask]
        mean = float(chosen.mean(dtype=np.float64)) if chosen.size else math.nan
        # Each mean is moved up and down in two weightings of its own; in all others it stands still. One call of the
        # measure then gives all central differences.
        moved = np.full(max(1, 2 * self.moves), mean)
        at = 2 * len(self.calls)
        if self.moves:
            moved[at : at + 2] += (_STEP, -_STEP)
        self.calls.append(_Call(chosen, places, mean))
        return moved


def scores_of_means(function: Function, samples: Sequence[Sample], stereotype: str | None) -> Scores | None:
    """Scores of a measure that is a function of means, or of its difference between two samples on the same rows.

    None where it reads more than means, or cannot be differentiated.
    """
    design = samples[0].design
    row_scores, row_mass = np.zeros((2, len(design.occupations)))
    columns: list[list[NDArray[np.floating]]] = []
    try:
        for sign, sample in zip((1, -1), reversed(samples), strict=False):
            calls, slopes = _slopes(function, sample, stereotype)
            columns.append([call.values for call in calls])
            for call, slope in zip(calls, slopes, strict=True):
                strata = design.strata[call.rows]
                # Around the mean of its stratum: how many rows a stratum has is fixed, so its level brings no error.
                means = np.bincount(strata, call.values) / np.maximum(np.bincount(strata), 1)
                row_scores[call.rows] += sign * slope * (call.values - means[strata]) / len(call.rows)
                row_mass[call.rows] += abs(slope) / len(call.rows)
    except NotOfMeansError:
        return None
    together = zip(calls, slopes, *columns, strict=True)
    floor = sum(slope**2 * _hidden(samples[0], call.rows, values) for call, slope, *values in together)
    return _summed(row_scores, row_mass, design, floor)


def _hidden(sample: Sample, rows: Codes, columns: Sequence[NDArray[np.floating]]) -> float:
    """Variance of a mean of 0 and 1 (or of a difference of two) that does not vary within any stratum, else 0."""
    answers = columns[0] if len(columns) == 1 else columns[0] - columns[1]
    strata = sample.design.strata[rows]
    constant = np.zeros(int(strata.max()) + 1)
    constant[strata] = answers
    if (answers != constant[strata]).any() or not all(((one == 0) | (one == 1)).all() for one in columns):
        return 0.0
    alike = [rows[answers == value] for value in np.unique(answers)]
    return float(sum((len(part) / len(rows)) ** 2 * unseen(_independent(sample, part)) ** 2 for part in alike))


def _independent(sample: Sample, rows: Codes) -> float:
    """How many independent answers some rows are worth, judged by how the answers to all rows cluster.

    Rows that all give one answer cannot tell. At least as many as there are occupations, at most as many as cells; as
    many as cells where no answer in the table differs, because then nothing speaks for clusters.
    """
    design = sample.design
    occupations, cells = (len(np.unique(codes[rows])) for codes in (design.occupations, design.cells))
    answers = (~sample.is_neutral).astype(np.float64)
    means = np.bincount(design.strata, answers) / np.maximum(np.bincount(design.strata), 1)
    scores = _summed(answers - means[design.strata], np.ones_like(answers), design, 0.0)
    both = float(np.square(scores.cells).sum())
    return max(occupations, cells * both / max(spread(scores).variance, both)) if both > 0 else cells


def _slopes(function: Function, sample: Sample, stereotype: str | None) -> tuple[list[_Call], Values]:
    calls: list[_Call] = []
    function(_Traced.of(sample, calls, 0), stereotype)
    moved = np.asarray(function(_Traced.of(sample, [], len(calls)), stereotype), dtype=np.float64)
    if not calls or moved.shape != (2 * len(calls),) or not np.isfinite(moved).all():
        raise NotOfMeansError
    return calls, (moved[0::2] - moved[1::2]) / (2 * _STEP)


def _summed(row_scores: Values, row_mass: Values, design: Design, floor: float) -> Scores:
    occupations, templates, cells = (
        np.bincount(codes, row_scores).astype(np.float64)
        for codes in (design.occupations, design.templates, design.cells)
    )
    occupation_mass, template_mass = (
        np.bincount(codes, row_mass).astype(np.float64) for codes in (design.occupations, design.templates)
    )
    combination = _combination(row_mass, design)
    return Scores(occupations, templates, cells, design.stratum, occupation_mass, template_mass, combination, floor)


def _combination(row_mass: Values, design: Design) -> Values:
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
    by_occupation, by_template = (np.bincount(codes, mass) for codes in (design.of_cell[0], design.of_cell[1]))
    o, t, c = (float((part**2).sum()) for part in (by_occupation, by_template, mass))
    crossing = float((mass * by_occupation[design.of_cell[0]] * by_template[design.of_cell[1]]).sum())
    leak = c - 2 * crossing + o * t
    solved = np.linalg.lstsq(np.array([[o, leak, c], [leak, t, c], [c, c, c]]) / c, np.array([o, t, c]) / c, rcond=1e-6)
    found = np.asarray(solved[0], dtype=np.float64)
    return found if np.abs(found - usual).max() < 2 else usual


def unseen(n: float) -> float:
    """Standard error of a share that is 0 or 1 in n independent answers.

    1.96 times it is the other end of Wilson's interval, near the rule of three.
    """
    return _Z / (n + _Z**2)


def jackknife_scores(function: Function, samples: Sequence[Sample], stereotype: str | None) -> Scores:
    """Scores of any measure, or of its difference: how it changes when a cluster is left out; NaN if undefined then."""
    design = samples[0].design
    chosen = np.ones(len(design.occupations), dtype=bool)
    if stereotype is not None:
        chosen = samples[0].where("stereotype", stereotype)
    alike = np.zeros_like(design.occupations)
    ways = ((design.occupations, design.strata), (design.templates, alike), (design.cells, alike))
    found = []
    for codes, strata in ways:
        parts = np.full(len(codes), -1)
        parts[chosen], stratum = _parts(codes[chosen], strata[chosen])
        # Weights of 0 instead of tables without the rows: any measure that takes weights can be asked.
        left_out = [_left_out(function, sample, stereotype, parts, len(stratum)) for sample in samples]
        values = left_out[0] if len(left_out) == 1 else left_out[1] - left_out[0]
        sizes = np.bincount(stratum)
        centres = np.bincount(stratum, values) / np.maximum(sizes, 1)
        scores = (1 - 1 / sizes[stratum]) * (centres[stratum] - values)
        found.append((scores, stratum, np.bincount(parts[chosen]).astype(np.float64)))
    (occupations, stratum, mass), (templates, _, template_mass), (cells, _, _) = found
    return Scores(
        occupations, templates, cells, stratum, mass, template_mass, _combination(chosen.astype(np.float64), design)
    )


def _parts(codes: Codes, strata: Codes) -> tuple[Codes, Codes]:
    """Which part each row is left out with, and the stratum of each part: a cluster, or several where they are many."""
    clusters, first, rows = np.unique(codes, return_index=True, return_inverse=True)
    stratum = strata[first]
    rank = np.zeros(len(clusters), dtype=np.int64)
    for one in np.unique(stratum):
        rank[stratum == one] = np.arange(int((stratum == one).sum()))
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
