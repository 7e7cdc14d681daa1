"""A measure on two runs, what was corrected for what, and what a comparison consists of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from msgspec import field, structs

from evenli.audit.results import DataCard
from evenli.core.format import with_interval
from evenli.core.record import Number, Record, Scoring
from evenli.core.registry import DEFAULT_SUITE
from evenli.stats.intervals import holm


class Difference(Record, frozen=True):
    """One measure on two runs: ``value = second - first`` with its interval and standard error.

    ``p`` is two-sided, from the same t that makes the interval, and never 0. ``p_holm`` is corrected for several runs
    compared with one; that of a cause is corrected for the other causes, too, because any of them may be the one that
    is named. Undefined numbers are NaN, and ``note`` says why.
    """

    first: Number
    second: Number
    value: Number
    low: Number
    high: Number
    se: Number
    level: float
    p: Number
    p_holm: Number
    note: str = ""

    @property
    def significant(self) -> bool:
        """Whether the corrected p is below 1 - level; False where undefined."""
        return self.p_holm < 1 - self.level

    @property
    def shown(self) -> str:
        """The difference with its interval, for people."""
        return with_interval(self.value, self.low, self.high, sign=True)


class McNemar(Record, frozen=True):
    """Exact McNemar test (1947) on biased answers, item by item.

    It takes items as independent, which rows that share a sentence are not: its p is smaller than it should be, and the
    p of a measure is the one to rely on. The counts, items on which both runs give the biased answer, only one or
    neither, need no such assumption. ``p`` is two-sided and 1 if no item differs.
    """

    both: int
    only_first: int
    only_second: int
    neither: int
    p: Number
    p_holm: Number


class ComparedRun(Record, frozen=True):
    """One of the runs: its folder, its model and the code of its verdict."""

    run: str
    model: str
    verdict: str


class MovedOccupation(Record, frozen=True):
    """An occupation: share of biased answers of both runs, and how many items are biased in one of them only."""

    occupation: str | None
    stereotype: str | None
    n: int
    first: Number
    second: Number
    difference: Number
    gained: int
    lost: int


class ComparedWith(ComparedRun, frozen=True, kw_only=True):
    """A further run against the first.

    Attributes:
        conclusion: What the intervals allow to say.
        n: Items compared.
        clusters: How many occupations and templates they come from.
        measures: Differences by measure.
        mcnemar: Biased answers item by item.
        occupations: The largest move first.
        contrast: What the suite adds; most add nothing.
    """

    optional: ClassVar[tuple[str, ...]] = ("contrast",)

    conclusion: str
    n: int
    clusters: dict[str, int]
    measures: dict[str, Difference]
    mcnemar: McNemar
    occupations: list[MovedOccupation]
    contrast: dict[str, Any] = field(default_factory=dict)


class SuiteComparison(Record, frozen=True):
    """The pair set of a suite, and every further run against the first on it."""

    optional: ClassVar[tuple[str, ...]] = ("data",)

    comparisons: list[ComparedWith]
    data: DataCard | None = None


class ComparisonResult(Record, frozen=True):
    """What ``evenli compare --json`` prints: the suite that gives the verdict at the top, others under their names.

    Attributes:
        first: The run that others are compared with.
        scoring: Level of the intervals, and which words count.
        suites: Comparisons by suite.
        judged: The suite that gives the verdict; empty where it is not compared.
    """

    first: ComparedRun
    scoring: Scoring
    suites: dict[str, SuiteComparison] = field(default_factory=dict)
    judged: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        plain = super().to_dict()
        # Who asks about one suite finds it without knowing its name.
        suites: dict[str, Any] = plain.pop("suites")
        top: dict[str, Any] = suites.pop(plain.pop("judged"), {})
        return plain | {"data": {}, "comparisons": []} | top | suites

    @classmethod
    def from_dict(cls, content: Any) -> ComparisonResult:
        """Read what ``to_dict`` wrote."""
        own = ("first", "scoring", "data", "comparisons")
        suites = {name: SuiteComparison.from_dict(part) for name, part in dict(content).items() if name not in own}
        result: ComparisonResult = super().from_dict({name: content[name] for name in ("first", "scoring")})
        top = SuiteComparison.from_dict({"comparisons": content["comparisons"], "data": content["data"] or None})
        # What stands at the top is named by its data; a comparison without a card is of the default suite.
        judged = top.data.suite if top.data else DEFAULT_SUITE if top.comparisons else ""
        return structs.replace(result, suites=({judged: top} if judged else {}) | suites, judged=judged)


def corrected(comparisons: Sequence[ComparedWith], causes: Sequence[str] = ()) -> list[ComparedWith]:
    """The comparisons with ``p_holm``: of all causes and runs together, of every other measure over the runs."""
    # Any cause may be the one that is named, so they are one family; every other measure is asked about by itself.
    families = [tuple(causes), *((name,) for name in comparisons[0].measures if name not in causes)]
    by_measure: dict[str, list[float]] = {}
    for names in families:
        together = iter(holm([comparison.measures[name].p for name in names for comparison in comparisons]))
        by_measure |= {name: [next(together) for _ in comparisons] for name in names}
    mcnemar = holm([comparison.mcnemar.p for comparison in comparisons])
    return [
        structs.replace(
            comparison,
            measures={name: structs.replace(d, p_holm=by_measure[name][i]) for name, d in comparison.measures.items()},
            mcnemar=structs.replace(comparison.mcnemar, p_holm=mcnemar[i]),
        )
        for i, comparison in enumerate(comparisons)
    ]
