"""All measures and what each number means. A new measure is one decorated function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, TypeVar

import numpy as np

from evenli.errors import InputError
from evenli.stats.sample import Sample, Values


class MeasureFunction(Protocol):
    """Sample and stereotype slice (None is everything) to one value per weighting."""

    __name__: str

    def __call__(self, sample: Sample, stereotype: str | None = None) -> Values:
        """Compute."""
        ...


Function = TypeVar("Function", bound=MeasureFunction)


@dataclass(frozen=True)
class Measure:
    """A measure and its card.

    Attributes:
        name: Key in results.json.
        title: Name for people.
        formula: Definition in the symbols of the paper.
        low: Smallest possible value.
        high: Largest possible value.
        even: Value of a model that treats groups evenly and is right.
        direction: What a larger value means.
        reference: Paper.
        suites: Suites it is defined on.
        kind: ``extrinsic``, measured on a task's output, or ``intrinsic``, measured on representations.
        function: Sample and stereotype slice (or None for all) to value.
        subsets: Subsets whose rows the formula reads; empty for all.
    """

    name: str
    title: str
    formula: str
    low: float
    high: float
    even: float
    direction: str
    reference: str
    suites: tuple[str, ...]
    kind: str
    function: MeasureFunction
    subsets: tuple[str, ...] = ()

    def __call__(self, sample: Sample, stereotype: str | None = None) -> Values:
        """Compute on a sample, or on the occupations of one stereotype."""
        return np.asarray(self.function(sample, stereotype), dtype=np.float64)


_REGISTRY: dict[str, Measure] = {}
_HOMES = tuple(f"evenli.suites.{suite}.measures" for suite in ("coal", "dev2020", "probe"))
"""Importing these registers their measures, in this order."""


def measure(
    *,
    title: str,
    formula: str,
    low: float,
    high: float,
    even: float,
    direction: str,
    reference: str,
    suites: tuple[str, ...] = ("coal",),
    kind: str = "extrinsic",
    subsets: tuple[str, ...] = (),
) -> Callable[[Function], Function]:
    """Register a function as a measure under its own name."""

    def register(function: Function) -> Function:
        name = function.__name__
        _REGISTRY[name] = Measure(
            name, title, formula, low, high, even, direction, reference, suites, kind, function, subsets
        )
        return function

    return register


def measures(suite: str = "coal") -> list[Measure]:
    """Measures defined on a suite, in registration order."""
    for module in _HOMES:
        import_module(module)

    return [entry for entry in _REGISTRY.values() if suite in entry.suites]


def get_measure(name: str) -> Measure:
    """A measure by name, or an error that lists the names."""
    measures()
    if name not in _REGISTRY:
        raise InputError(f"no measure '{name}'; there are {', '.join(_REGISTRY)}")
    return _REGISTRY[name]
