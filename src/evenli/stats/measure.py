"""Measures and what each number means. A new measure is one decorated function."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from evenli.core.errors import InputError, translated
from evenli.core.record import Estimate, MeasureResult
from evenli.core.registry import DEFAULT_SUITE, MEASURES, SUITES
from evenli.stats.sample import LogitTable, Sample, Values

Function = TypeVar("Function", bound=Callable[..., Any])
Rows = Callable[[Sample], NDArray[np.bool_]]


@dataclass(frozen=True)
class Measure:
    """A measure and its card."""

    name: str  # key in results.json; title is for people
    title: str
    formula: str  # definition in the symbols of the paper; values lie from low to high
    function: Callable[..., Any]  # sample and stereotype slice (or None for all) to value
    low: float = -math.inf
    high: float = math.inf
    ideal: float = 0.0  # value of a model that treats groups evenly and is right
    direction: str = ""  # what a larger value means
    reference: str = ""
    suites: tuple[str, ...] = (DEFAULT_SUITE,)  # suites it is defined on
    # Subsets whose rows the formula reads, or a function of a sample that marks them; empty for all.
    subsets: tuple[str, ...] | Rows = ()
    stressed: bool = False  # whether tables show it in bold; a title that begins with spaces is a part of the one above
    kind: str = "extrinsic"  # extrinsic, measured on a task's output, or intrinsic, measured on representations

    def rows(self, sample: Sample) -> NDArray[np.bool_]:
        """Rows that the formula reads."""
        if callable(self.subsets):
            return self.subsets(sample)
        read = [sample.where("subset", subset) for subset in self.subsets]
        return np.asarray(np.logical_or.reduce(read)) if read else np.ones(sample.frame.height, dtype=bool)

    def __call__(self, sample: Sample, stereotype: str | None = None) -> Values:
        """Compute on a sample, or on the occupations of one stereotype: one value per weighting."""
        return np.asarray(self.function(sample, stereotype), dtype=np.float64)

    def result(self, overall: Estimate, by_stereotype: Mapping[str, Estimate] | None = None) -> MeasureResult:
        """What was measured, with the card."""
        return MeasureResult(
            **{name: getattr(overall, name) for name in overall.__struct_fields__},
            title=self.title,
            formula=self.formula,
            range=(self.low, self.high),
            ideal=self.ideal,
            direction=self.direction,
            reference=self.reference,
            kind=self.kind,
            by_stereotype=dict(by_stereotype or {}),
        )


_REGISTERED: dict[str, Measure] = {}


def measure(
    *,
    title: str,
    formula: str,
    bounds: tuple[float, float] = (0, 1),
    ideal: float,
    direction: str,
    reference: str,
    suites: tuple[str, ...] = (DEFAULT_SUITE,),
    subsets: tuple[str, ...] | Rows = (),
    stressed: bool = False,
) -> Callable[[Function], Function]:
    """Register a function as a measure under its own name."""

    def register(function: Function) -> Function:
        name = function.__name__
        _REGISTERED[name] = Measure(
            name, title, formula, function, *bounds, ideal, direction, reference, suites, subsets, stressed
        )
        return function

    return register


def is_registered(function: object) -> bool:
    """Whether a function was given to the decorator ``measure``, so that every audit has it already."""
    entry = _REGISTERED.get(getattr(function, "__name__", ""))
    return entry is not None and entry.function is function


def as_measure(function: Measure | Callable[[Sample], Any], name: str = "") -> Measure:
    """A function of the user's own as a measure: sample in, one number out.

    It need not know about weights: its interval comes from tables without one occupation or template each. On one
    stereotype it sees a table of those occupations only. ``name`` is the key in results.json, by default its own name.
    """
    if isinstance(function, Measure):
        return function
    if is_registered(function):
        return _REGISTERED[getattr(function, "__name__", "")]
    if not callable(function):
        raise InputError(f"a measure is a function of a sample, not {type(function).__name__}")
    title = name or getattr(function, "__name__", type(function).__name__)
    text = " ".join((function.__doc__ or "own measure").strip().split("\n\n")[0].split())
    return Measure(title, title, text, _Scalar(function, title), reference="own")


@dataclass(frozen=True)
class _Scalar:
    """A function that gives one number for a table, applied to every weighting of a sample."""

    function: Callable[[Sample], Any]
    name: str

    def __call__(self, sample: Sample, stereotype: str | None = None) -> Values:
        counts = np.ones((1, sample.frame.height)) if sample.weights is None else np.atleast_2d(sample.weights)
        # A weight of n becomes n rows, so that a function that knows nothing of weights can be asked.
        chosen = np.arange(sample.frame.height)
        if stereotype is not None:
            chosen = np.flatnonzero((sample.frame["stereotype"] == stereotype).fill_null(False).to_numpy())
        values = np.array([self._once(sample, np.repeat(chosen, row[chosen].astype(np.int64))) for row in counts])
        return values[0] if sample.weights is None or sample.weights.ndim == 1 else values

    def _once(self, sample: Sample, rows: np.ndarray) -> float:
        if not rows.size:
            return math.nan
        with translated(f"the measure '{self.name}' gives no number: ", kinds=(TypeError, ValueError)):
            return float(self.function(Sample(LogitTable(sample.frame[rows]))))


def measures(suite: str = DEFAULT_SUITE) -> list[Measure]:
    """Measures defined on a suite: built-in ones in the order of registration, then those of other packages."""
    if suite in SUITES:
        SUITES.get(suite)  # importing a suite registers its measures
    installed = [as_measure(MEASURES.get(name), name=name) for name in MEASURES if name not in _REGISTERED]
    return [entry for entry in (*_REGISTERED.values(), *installed) if suite in entry.suites]


def get_measure(name: str) -> Measure:
    """A measure by name, or an error that lists the names."""
    for suite in () if name in _REGISTERED else SUITES.builtin:
        measures(suite)
    if name in _REGISTERED:
        return _REGISTERED[name]
    if name in MEASURES:
        return as_measure(MEASURES.get(name), name=name)
    raise InputError(f"no measure '{name}'; there are {', '.join([*_REGISTERED, *MEASURES])}")
