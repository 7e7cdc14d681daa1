"""The delta method: how a measure depends on the means that it reads.

A measure that reads its sample through ``Sample.mean`` is a function of means. Each mean is moved a little, up and
down, and the central difference of the measure is its slope.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from evenli.stats.sample import Codes, Paired, Sample, Values

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
