"""The delta method: how a measure depends on the means that it reads.

A measure that reads its sample through ``Sample.mean`` is a function of means. Each mean is moved a little, up and
down, and the central difference of the measure is its slope.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from evenli.stats.sample import Codes, Paired, Sample, Values, Weights

Function = Callable[[Sample, str | None], Values]
_STEP = 1e-5
"""How far a mean is moved."""


class NotOfMeansError(Exception):
    """A measure reads more of its sample than means, or has no slope, so that its scores have no closed form."""


class Mean(NamedTuple):
    """One mean that a measure asked for: the values, their rows in the table, and what ``Sample.mean`` was told."""

    values: NDArray[np.floating]
    rows: Codes
    signed: bool
    fixed: bool


class _Traced(Sample):
    """A sample that writes down the means that a measure asks for and moves each of them, one after the other."""

    means: list[Mean]
    count: int
    places: Codes | None

    @classmethod
    def of(cls, sample: Sample, means: list[Mean], count: int = 0, places: Codes | None = None) -> _Traced:
        # Shares everything with the sample, so that tracing a million rows copies none of them.
        traced = cls.__new__(cls)
        traced.__dict__.update(sample.__dict__)
        # Cached properties of the sample would bypass those below, which trace.
        for name in ("paired", "weights"):
            traced.__dict__.pop(name, None)
        traced.__dict__.update(means=means, count=count, places=places)
        return traced

    @property
    def weights(self) -> NoReturn:  # type: ignore[override]
        # Whoever reads weights computes something that no mean passes through.
        raise NotOfMeansError

    @property
    def paired(self) -> Paired:
        groups, rows, first = self._pairing
        return Paired(groups, rows, _Traced.of(first, self.means, self.count, rows[0]))

    def _mean(self, values: NDArray[np.floating], mask: NDArray[np.bool_] | slice, signed: bool, fixed: bool) -> Values:
        places = np.arange(self.frame.height)[mask] if self.places is None else self.places[mask]
        chosen = values[mask]
        moved = np.full(max(1, 2 * self.count), chosen.mean(dtype=np.float64) if chosen.size else math.nan)
        # Each mean is moved in two weightings of its own and stands still in all others, so that one call of the
        # measure gives all central differences.
        at = 2 * len(self.means)
        if self.count:
            moved[at : at + 2] += (_STEP, -_STEP)
        self.means.append(Mean(chosen, places, signed, fixed))
        return moved


def means_and_slopes(function: Function, sample: Sample, stereotype: str | None) -> tuple[list[Mean], Values]:
    """The means that a measure reads, and the derivative of the measure by each."""
    # Once without moves: how many means there are decides how many weightings the second call needs.
    first: list[Mean] = []
    function(_Traced.of(sample, first), stereotype)
    means: list[Mean] = []
    moved = np.asarray(function(_Traced.of(sample, means, len(first)), stereotype), dtype=np.float64)
    # Another shape: the measure asked for other means, or made one number of its weightings.
    if not first or moved.shape != (2 * len(first),) or not np.isfinite(moved).all():
        raise NotOfMeansError
    return means, (moved[0::2] - moved[1::2]) / (2 * _STEP)


_GROUPS = 400
"""Most parts left out by the jackknife per way of clustering; more clusters are left out several at a time."""
_AT_ONCE = 12_000_000
"""Weights that the jackknife holds at a time, 48 MB."""


class Spread(NamedTuple):
    """Variance of an estimate and its degrees of freedom."""

    variance: float
    df: float


@dataclass(frozen=True, eq=False)
class TwoWay:
    """Covariances of the terms of a sum, as [terms, terms] matrices, from the clusters of each kind.

    ``df`` are the degrees of freedom of the first two.
    """

    occupations: Values
    templates: Values
    cells: Values
    df: tuple[float, float]

    def spread(self, weights: Values) -> Spread:
        """Variance of the weighted sum, with Satterthwaite's degrees of freedom."""
        ways = (self.occupations, self.templates, self.cells)
        occupation, template, cell = (max(0.0, float(weights @ way @ weights)) for way in ways)
        variance = max(occupation + template - cell, occupation, template, cell)
        of_ways = occupation**2 / self.df[0] + template**2 / self.df[1]
        return Spread(variance, variance**2 / of_ways if of_ways > 0 else np.inf)

    @cached_property
    def variances(self) -> Values:
        """Variance of each term by itself."""
        occupation, template, cell = (np.diag(way) for way in (self.occupations, self.templates, self.cells))
        return np.asarray(np.max([occupation + template - cell, occupation, template, cell], axis=0))


def correction(mass: Values) -> float:
    """How much larger a sum of squares would be around the true centre of its clusters; n / (n - 1) for equal ones."""
    share = mass / mass.sum()
    second, third = float((share**2).sum()), float((share**3).sum())
    return second / (second - 2 * third + second**2) if second < 1 - 1e-9 else 0.0


def degrees_of_freedom(mass: Values, strata: int) -> float:
    """Of a sum of squares over clusters of this weight: their effective number, less one centre for each stratum."""
    squares = np.square(mass[mass > 0] / mass.sum())
    return max(1.0, float(squares.sum() ** 2 / (squares**2).sum()) - strata)


def jackknife(function: Function, samples: Sequence[Sample], stereotype: str | None) -> TwoWay | None:
    """Variance of any measure, or of its difference between two samples; None if undefined where a cluster is left out.

    A measure that is linear in its clusters gives back their scores.
    """
    design = samples[0].design
    chosen = np.ones(len(design.occupations), dtype=bool)
    if stereotype is not None:
        chosen = samples[0].where("stereotype", stereotype)
    alike = np.zeros_like(design.occupations)
    squares, df = np.zeros((3, 1, 1)), np.ones(3)
    for way, codes in enumerate((design.occupations, design.templates, design.cells)):
        parts = np.full(len(codes), -1)
        parts[chosen], stratum = _parts(codes[chosen], (alike if way else design.strata)[chosen])
        # Weights of 0 instead of tables without the rows: any measure that takes weights can be asked.
        left_out = [_left_out(function, sample, stereotype, parts, len(stratum)) for sample in samples]
        values = left_out[0] if len(left_out) == 1 else left_out[1] - left_out[0]
        mass = np.bincount(parts[chosen]).astype(np.float64)
        for inside in (stratum == code for code in np.unique(stratum)):
            # A cluster that is left out was in the centre itself.
            scores = (1 - 1 / inside.sum()) * (values[inside].mean() - values[inside])
            squares[way] += correction(mass[inside]) * (scores**2).sum()
        df[way] = degrees_of_freedom(mass, len(np.unique(stratum)))
    if np.isnan(squares).any():
        return None
    return TwoWay(squares[0], squares[1], squares[2], (float(df[0]), float(df[1])))


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
