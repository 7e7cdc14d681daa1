"""A measure on two runs, what was corrected for what, and what a comparison consists of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from evenli.format import interval, signed


@dataclass(frozen=True)
class Difference:
    """One measure on two runs: ``value = second - first`` with its interval and standard error.

    ``p`` is two-sided, from the same t that makes the interval, and never 0. ``p_holm`` is corrected for several runs
    compared with one; that of a cause is corrected for the other causes, too, because any of them may be the one that
    is named. Undefined numbers are NaN, and ``note`` says why.
    """

    first: float
    second: float
    value: float
    low: float
    high: float
    se: float
    level: float
    p: float
    p_holm: float
    note: str = ""

    @property
    def significant(self) -> bool:
        """Whether the corrected p is below 1 - level; False where undefined."""
        return self.p_holm < 1 - self.level

    @property
    def shown(self) -> str:
        """The difference with its interval, for people."""
        return f"{signed(self.value)} {interval(self.low, self.high, sign=True)}"


@dataclass(frozen=True)
class McNemar:
    """Exact McNemar test (1947) on biased answers, item by item.

    It takes items as independent, which rows that share a sentence are not: its p is smaller than it should be, and the
    p of a measure is the one to rely on. The counts, items on which both runs give the biased answer, only one or
    neither, need no such assumption. ``p`` is two-sided and 1 if no item differs.
    """

    both: int
    only_first: int
    only_second: int
    neither: int
    p: float
    p_holm: float


@dataclass(frozen=True)
class Comparison:
    """A second run against a first: measures, biased answers item by item, and occupations, the largest move first.

    ``gained`` items of an occupation are biased in the second run only, ``lost`` ones in the first only.
    """

    measures: dict[str, Difference]
    mcnemar: McNemar
    occupations: pl.DataFrame
    n: int
    clusters: dict[str, int]


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction (1979); an undefined p stays undefined and does not count.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    defined = sorted((p, i) for i, p in enumerate(p_values) if not np.isnan(p))
    corrected = [float("nan")] * len(p_values)
    largest = 0.0
    for rank, (p, i) in enumerate(defined):
        largest = max(largest, min(1.0, p * (len(defined) - rank)))
        corrected[i] = largest
    return corrected


def corrected(found: Sequence[Comparison], causes: Sequence[str] = ()) -> list[Comparison]:
    """The comparisons with ``p_holm``: of all causes and runs together, of every other measure over the runs."""
    families = [tuple(causes), *((name,) for name in found[0].measures if name not in causes)]
    by_measure: dict[str, list[float]] = {}
    for names in families:
        together = iter(holm([one.measures[name].p for name in names for one in found]))
        by_measure |= {name: [next(together) for _ in found] for name in names}
    mcnemar = holm([one.mcnemar.p for one in found])
    return [
        replace(
            one,
            measures={name: replace(d, p_holm=by_measure[name][i]) for name, d in one.measures.items()},
            mcnemar=replace(one.mcnemar, p_holm=mcnemar[i]),
        )
        for i, one in enumerate(found)
    ]
