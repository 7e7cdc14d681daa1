"""How a measure depends on the means that it reads, and what each stereotype brings to its error.

A measure that reads its sample through ``Sample.mean`` is a function of means. Each mean is moved a little to see how
the measure follows (the delta method), and the rows of each stereotype become a ``Part`` with scores of its own: a part
can lie near an end of its range while the whole does not.

``Sample.smaller`` has a corner where the two means are equal. Within a standard error or so of it nobody knows which of
the two is smaller: both then count, in proportion, and the smaller of two estimates is too small on average.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from evenli.core.errors import InputError
from evenli.stats.sample import CrossedDesign, Paired, Sample, Values
from evenli.stats.variance import Function, Scores, spread, summed

_STEP = 1e-5
"""How far a mean is moved to see how a measure depends on it."""
_REACH = 1.0
"""Within so many standard errors of their difference two means both count as the smaller one, in proportion."""
_EXCESS = 0.4
"""The smaller of two equal means is estimated too small by so many standard errors of their difference, phi(0)."""
_EQUAL, _UNEQUAL = 1.5, 2.5
"""Within so many standard errors of their difference two means of probabilities may be equal; beyond the second not."""


@dataclass(frozen=True, eq=False)
class Part:
    """What the rows of one stereotype bring to an estimate.

    Attributes:
        value: Its share of the value, which can lie from ``low`` to ``high``; infinite where that is not known.
        hidden: How far down and up the value could go by answers of which there are none (or nothing else).
        occupations: How many there are, and how many ``cells``.
    """

    scores: Scores
    value: float = 0.0
    low: float = -math.inf
    high: float = math.inf
    hidden: tuple[float, float] = (0.0, 0.0)
    occupations: int = 0
    cells: int = 0


@dataclass(frozen=True, eq=False)
class Parts:
    """All parts of an estimate, and how far both ends of its interval are moved up because of corners."""

    parts: list[Part]
    excess: tuple[float, float] = (0.0, 0.0)
    whole: Scores | None = None
    """Scores of all parts together, where all occupations share their templates."""
    decided: Parts | None = None
    """The same as if it were known which of two means is smaller, where that is in doubt."""


class NotOfMeansError(Exception):
    """A measure reads more of its sample than means, so its scores have no closed form."""


class _Call(NamedTuple):
    """One mean that a measure asked for: the values in the slice, and where these stand in the table."""

    values: NDArray[np.floating]
    rows: NDArray[np.int64]
    signed: bool = False  # whether values may be negative, so that 0 is no end of their range


class _Corner(NamedTuple):
    """Two numbers of which a measure took the smaller."""

    first: Values
    second: Values


_Entry = _Call | _Corner


class _Traced(Sample):
    """A sample that writes down what a measure asks for and moves each answer a little, one after the other."""

    entries: list[_Entry]
    moves: int
    places: NDArray[np.int64] | None
    shares: dict[int, float]

    @classmethod
    def of(
        cls,
        sample: Sample,
        entries: list[_Entry],
        moves: int = 0,
        shares: dict[int, float] | None = None,
        places: NDArray[np.int64] | None = None,
    ) -> _Traced:
        # Shares everything with the sample, so that tracing a million rows copies none of them.
        traced = cls.__new__(cls)
        traced.__dict__.update(sample.__dict__)
        # Cached properties of the sample would bypass those below, which trace.
        for name in ("paired", "weights"):
            traced.__dict__.pop(name, None)
        traced.__dict__.update(entries=entries, moves=moves, places=places, shares=shares or {})
        return traced

    @property
    def weights(self) -> NoReturn:  # type: ignore[override]
        # Whoever reads weights computes something that no mean passes through.
        raise NotOfMeansError

    @property
    def paired(self) -> Paired:
        groups, rows, first = self._pairing
        return Paired(groups, rows, _Traced.of(first, self.entries, self.moves, self.shares, rows[0]))

    def _mean(self, values: NDArray[np.floating], mask: NDArray[np.bool_] | slice, signed: bool) -> Values:
        places = np.arange(self.frame.height)[mask] if self.places is None else self.places[mask]
        chosen = values[mask]
        mean = float(chosen.mean(dtype=np.float64)) if chosen.size else math.nan
        return self._moved(np.full(max(1, 2 * self.moves), mean), _Call(chosen, places, signed))

    def smaller(self, first: Values, second: Values) -> Values:
        # With a share the corner is rounded off: both means count, and the slope follows either.
        share = self.shares.get(len(self.entries))
        least = np.minimum(first, second) if share is None else share * first + (1 - share) * second
        return self._moved(np.array(least, dtype=np.float64), _Corner(first, second))

    def _moved(self, values: Values, entry: _Entry) -> Values:
        # Each answer is moved up and down in two weightings of its own; in all others it stands still. One call of the
        # measure then gives all central differences.
        at = 2 * len(self.entries)
        if self.moves:
            values[at : at + 2] += (_STEP, -_STEP)
        self.entries.append(entry)
        return values


@dataclass(frozen=True, eq=False)
class _Dependence:
    """The means that a measure reads, how it depends on each, and how far its corners move the ends of an interval."""

    calls: list[_Call]
    slopes: Values
    excess: tuple[float, float]
    decided: Values | None = None  # slopes as if it were known which of two means is smaller, where that is in doubt


def parts_of_means(function: Function, samples: Sequence[Sample], stereotype: str | None) -> Parts | None:
    """The parts of a measure that is a function of means, or of its difference between two samples on the same rows.

    None where it reads more than means, or cannot be differentiated.
    """
    design = samples[0].design
    try:
        dependences = [_dependence(function, sample, stereotype) for sample in samples]
    except NotOfMeansError:
        return None
    if len(dependences) == 2:
        first, second = (dependence.calls for dependence in dependences)
        if any(len(call.rows) != len(other.rows) for call, other in zip(first, second, strict=True)):
            raise InputError("the two runs count different words; score both again with 'evenli measure'")
        # What two models have in common is too small in both.
        return _summed_parts([replace(dependence, excess=(0.0, 0.0)) for dependence in dependences], design)
    (dependence,) = dependences
    parts = _summed_parts(dependences, design)
    if dependence.decided is None:
        return parts
    return replace(parts, decided=_summed_parts([replace(dependence, slopes=dependence.decided)], design))


def _summed_parts(dependences: Sequence[_Dependence], design: CrossedDesign) -> Parts:
    signed = zip((1, -1), reversed(dependences), strict=False)
    read = [
        pair for sign, dependence in signed for pair in zip(dependence.calls, sign * dependence.slopes, strict=True)
    ]
    row_scores, row_mass = _row_scores(read, design)
    chosen = [stratum for stratum in np.unique(design.stratum) if row_mass[design.strata == stratum].any()]
    parts = [_part_of(stratum, dependences, design, row_scores, row_mass) for stratum in chosen]
    return Parts(parts, dependences[0].excess, summed(row_scores, row_mass, design) if design.is_crossed else None)


def _dependence(function: Function, sample: Sample, stereotype: str | None) -> _Dependence:
    # Once without moves: how many answers there are decides how many weightings the next call needs.
    first: list[_Entry] = []
    function(_Traced.of(sample, first), stereotype)
    entries, slopes = _slopes(function, sample, stereotype, len(first), {})
    shares, gaps = {}, {}
    likeliest = all(np.isin(entry.values, (0, 1)).all() for entry in first if isinstance(entry, _Call))
    for at, (fixed, moved) in enumerate(zip(first, entries, strict=True)):
        if isinstance(fixed, _Corner) and isinstance(moved, _Corner):
            # The error of the gap needs the slopes of both sides, so the corner is rounded off in a further call.
            error = _error_of_gap(entries, moved, sample.design)
            gap = float(np.ravel(fixed.second - fixed.first)[0])
            reach = _REACH * error
            shares[at] = float(np.clip(0.5 + gap / (2 * reach), 0, 1)) if reach > 0 else 0.5 + 0.5 * np.sign(gap)
            gaps[at] = _room(abs(gap), error, likeliest)
    excess = np.array([slopes[at] * np.array(gap) for at, gap in gaps.items()]).reshape(-1, 2).sum(axis=0)
    decided = slopes if any(0 < share < 1 for share in shares.values()) else None
    if shares:
        entries, slopes = _slopes(function, sample, stereotype, len(first), shares)
    is_call = [isinstance(entry, _Call) for entry in entries]
    if not any(is_call):
        raise NotOfMeansError
    calls = [entry for entry in entries if isinstance(entry, _Call)]
    ends = (float(excess[0]), float(excess[1]))
    return _Dependence(calls, slopes[is_call], ends, None if decided is None else decided[is_call])


def _room(gap: float, error: float, likeliest: bool) -> tuple[float, float]:
    """How far the ends of an interval are moved up because the smaller of two like means comes out too small.

    Shares of answers: both ends, by the excess of equal means; nothing from half a standard error on, where it is too
    small to be told. Means of probabilities vary little but for their gap, so that the excess is no longer small beside
    the rest: the upper end is moved by all of a gap that may be chance, so that it holds the case of equal means.
    """
    if likeliest:
        excess = _EXCESS * max(0.0, error - 2 * gap / _REACH)
        return excess, excess
    return 0.0, min(gap, max(0.0, (_UNEQUAL * error - gap) / (_UNEQUAL - _EQUAL) * _EQUAL)) / 2


def _slopes(
    function: Function, sample: Sample, stereotype: str | None, count: int, shares: dict[int, float]
) -> tuple[list[_Entry], Values]:
    entries: list[_Entry] = []
    moved = np.asarray(function(_Traced.of(sample, entries, count, shares), stereotype), dtype=np.float64)
    # Another shape: the measure asked for other means, or made one number of its weightings.
    if moved.shape != (2 * count,) or not np.isfinite(moved).all():
        raise NotOfMeansError
    return entries, (moved[0::2] - moved[1::2]) / (2 * _STEP)


def _error_of_gap(entries: Sequence[_Entry], corner: _Corner, design: CrossedDesign) -> float:
    """Standard error of the difference of the two sides of a corner."""
    moved = corner.second - corner.first
    slopes = (moved[0::2] - moved[1::2]) / (2 * _STEP)
    read = [(entry, slope) for entry, slope in zip(entries, slopes, strict=True) if isinstance(entry, _Call)]
    row_scores, row_mass = _row_scores(read, design)
    return math.sqrt(spread(summed(row_scores, row_mass, design)).variance) if row_mass.any() else 0.0


def _row_scores(read: Sequence[tuple[_Call, float]], design: CrossedDesign) -> tuple[Values, Values]:
    """What every row brings to the error of a function of means, and its weight; each mean comes with its slope."""
    row_scores, row_mass = np.zeros((2, len(design.occupations)))
    for call, slope in read:
        strata = design.strata[call.rows]
        # Around the mean of its stratum: how many rows a stratum has is fixed, so its level brings no error.
        means = np.bincount(strata, call.values) / np.maximum(np.bincount(strata), 1)
        row_scores[call.rows] += slope * (call.values - means[strata]) / len(call.rows)
        row_mass[call.rows] += abs(slope) / len(call.rows)
    return row_scores, row_mass


def _part_of(
    stratum: np.int64, dependences: Sequence[_Dependence], design: CrossedDesign, row_scores: Values, row_mass: Values
) -> Part:
    inside = design.strata == stratum
    scores = summed(np.where(inside, row_scores, 0), np.where(inside, row_mass, 0), design)
    counts = [int((np.bincount(codes, inside * row_mass) > 0).sum()) for codes in (design.occupations, design.cells)]
    value = low = high = 0.0
    hidden: dict[bytes, Values] = {}
    dependence = dependences[-1]  # of two models the second: both read the same means of the same rows
    for at, (call, slope) in enumerate(zip(dependence.calls, dependence.slopes, strict=True)):
        here = inside[call.rows]
        if not here.any():
            continue
        columns = [other.calls[at].values[here] for other in dependences]
        weight = float(slope) * float(here.mean())
        value += weight * float(columns[-1].mean(dtype=np.float64))
        # A share lies from 0 to 1; anything else has no known range.
        known = not call.signed and all(((column >= 0) & (column <= 1)).all() for column in columns)
        low, high = (low + min(weight, 0), high + max(weight, 0)) if known else (-math.inf, math.inf)
        # Means of the same rows (two labels, say) share what is missing there; those of other rows do not.
        same = call.rows[here].tobytes()
        hidden[same] = hidden.get(same, 0) + _steps(columns, weight, call.signed)
    of_rows = [steps.max(axis=0) for steps in hidden.values()] or [np.zeros(2)]
    down, up = (_missing(ends.tolist()) for ends in np.array(of_rows).T)
    return Part(scores, value, low, high, (down, up), *counts)


def _steps(columns: Sequence[NDArray[np.floating]], weight: float, signed: bool) -> Values:
    """Down and up, by fewer of what is always said and by more of what never is.

    A row has one answer, so the two are one and the same step, while several answers that are never said may all have
    been there.
    """
    smaller, larger = _unseen_side(columns, -1 if signed else 0)
    down, up = max(weight, 0.0), max(-weight, 0.0)
    return np.array([[smaller * down, smaller * up], [larger * up, larger * down]])


def _missing(ends: Sequence[float]) -> float:
    """How far a value could go by what is missing in several sets of rows.

    The two questions of an item are answered alike, so what neither shows may be missing in both by one chance. What is
    missing in further sets (other wordings of the same items) is so by other chances.
    """
    ordered = sorted(ends, reverse=True)
    return math.hypot(sum(ordered[:2]), *ordered[2:])


def _unseen_side(columns: Sequence[NDArray[np.floating]], least: int = 0) -> tuple[bool, bool]:
    """Whether a share could be smaller, or larger, by answers of which there are none; of two models, their gap.

    ``least`` is the smallest value that a row can have: 0, or -1 where answers count on both sides.
    """
    if not all(np.isin(column, range(least, 2)).all() for column in columns):
        return False, False
    if np.ptp(columns[-1] - (columns[0] if len(columns) == 2 else 0)) > 0:
        return False, False
    if len(columns) == 2:
        return True, True
    return bool(columns[0][0] > least), bool(columns[0][0] < 1)
