"""Settings and results of association tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from evenli._version import __version__
from evenli.errors import InputError
from evenli.evaluate.seat.tests import LEVELS, Level
from evenli.io import to_plain
from evenli.types import Number, Record

Sides = Literal["one", "two"]

AVERAGED = ("C6", "C6b", "C7", "C7b", "C8", "C8b")
"""The gender tests, over which Dolci et al. 2023 average."""
SETS = ("X", "Y", "A", "B")


@dataclass(frozen=True)
class SeatSettings:
    """What association tests depend on besides encoder and texts.

    Attributes:
        level: Texts of the built-in tests: ``sentence`` (SEAT) or ``word`` (WEAT).
        seed: Of partitions and resamples.
        permutations: Most partitions to count per test; at least 100.
        resamples: Bootstrap resamples, or 0 for no intervals.
        coverage: Of the intervals.
        sides: ``one`` (X goes with A) or ``two`` (either way).
        ddof: 1 for the sample standard deviation (as published), 0 for that of the population.
    """

    level: Level = "sentence"
    seed: int = 0
    permutations: int = 100_000
    resamples: int = 2_000
    coverage: float = 0.95
    sides: Sides = "one"
    ddof: int = 1

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise InputError(f"unknown level '{self.level}'; choose {' or '.join(LEVELS)}")
        if self.sides not in ("one", "two"):
            raise InputError(f"a test has one or two sides, not '{self.sides}'; choose one or two")
        if self.ddof not in (0, 1):
            raise InputError(f"ddof is {self.ddof}; choose 1 (sample, as published) or 0 (population)")
        if self.permutations < 100:
            raise InputError(f"{self.permutations} permutations are too few for a p-value; use at least 100")
        if self.resamples and self.resamples < 100:
            raise InputError(f"{self.resamples} resamples are too few for an interval; use at least 100, or 0 for none")
        if not 0 < self.coverage < 1:
            raise InputError(f"the coverage level is {self.coverage}; it lies between 0 and 1, such as 0.95")


DEFAULTS = SeatSettings()


class AssociationResult(Record, frozen=True):
    """One association test.

    Attributes:
        sizes: Number of X, Y, A and B.
        level: Coverage of the interval.
        sides: ``one`` (X goes with A) or ``two`` (either way).
        ddof: Of the standard deviation.
        effect: ``d``, standard deviations between the means of X and Y; 0 no difference, positive if X goes with A.
            Between -2 and 2 for equal sets (up to ``ddof``). NaN with a note where it is undefined.
        p: Share of equal partitions of the targets that separate at least as much; never 0.
        low: Lower end of the bootstrap interval of ``d`` over the words behind targets and attributes.
        high: Upper end.
        exact: Whether all partitions were counted.
        permutations: Partitions counted, the observed one among them.
        p_holm: ``p`` corrected by Holm for the tests run together.
        p_bh: ``p`` corrected by Benjamini and Hochberg (false discovery rate).
        name: Name of the test.
        kind: ``word`` or ``sentence``.
        note: Why there is no value or no interval, or what distorts it.
        missing_vectors: Words of the test that the encoder has no vector for.
    """

    sizes: dict[str, int]
    level: float
    sides: Sides
    ddof: int
    effect: Number = math.nan
    p: Number = math.nan
    low: Number = math.nan
    high: Number = math.nan
    exact: bool = False
    permutations: int = 0
    p_holm: Number = math.nan
    p_bh: Number = math.nan
    name: str = ""
    kind: str = ""
    note: str = ""
    missing_vectors: tuple[str, ...] = ()


@dataclass(frozen=True)
class AverageEffect:
    """Mean of the effects of several tests, with their signs and without; NaN with a note if one is missing."""

    signed: float
    absolute: float
    note: str = ""


def average_effect(effects: Mapping[str, float], names: Sequence[str] = AVERAGED) -> AverageEffect:
    """Mean effect of the gender tests C6 to C8b, signed as published, and of the sizes without signs.

    Opposite effects cancel in the signed mean, hence the second one; 0 is neutral in both.

    Args:
        effects: Effect size per test.
        names: Tests to average.
    """
    missing = [name for name in names if math.isnan(effects.get(name, math.nan))]
    if missing:
        return AverageEffect(math.nan, math.nan, f"undefined: no effect for {', '.join(missing)}")
    chosen = np.array([effects[name] for name in names])
    return AverageEffect(float(chosen.mean()), float(np.abs(chosen).mean()))


@dataclass(frozen=True, repr=False)
class SeatResult:
    """Several association tests of one encoder.

    ``result["C6"]`` is the result of one test, ``result.mean`` the average of the gender tests C6 to C8b.
    """

    tests: tuple[AssociationResult, ...]
    settings: SeatSettings = DEFAULTS
    encoder: str = ""

    def __getitem__(self, name: str) -> AssociationResult:
        return {test.name: test for test in self.tests}[name]

    def __repr__(self) -> str:
        mean = self.mean
        average = "" if mean.note else f", mean effect {mean.signed:+.3f}, of sizes {mean.absolute:.3f}"
        return f"SeatResult({len(self.tests)} tests{average})"

    @property
    def mean(self) -> AverageEffect:
        """Average of the gender tests C6 to C8b; NaN with a note if one of them was not run."""
        return self.average(AVERAGED)

    def average(self, names: Sequence[str] | None = None) -> AverageEffect:
        """Average of some tests; None for all."""
        effects = {test.name: test.effect for test in self.tests}
        return average_effect(effects, list(effects) if names is None else names)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; NaN becomes null."""
        mean = self.mean
        return {
            "identity": self.encoder,
            "version": __version__,
            "settings": asdict(self.settings),
            "tests": [test.to_dict() for test in self.tests],
            "mean": None if mean.note else to_plain({"signed": mean.signed, "absolute": mean.absolute}),
        }
