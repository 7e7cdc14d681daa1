"""Runs compared item by item with the first, on every suite that all of them hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evenli.errors import InputError
from evenli.evaluate.audit import Audit
from evenli.evaluate.compare import Comparison, Difference, align, comparable_suites, compare
from evenli.evaluate.stored import load_run
from evenli.format import p_bound
from evenli.io import to_plain
from evenli.stats.intervals import Scoring
from evenli.stats.measure import get_measure
from evenli.suites.base import get_suite


@dataclass(frozen=True, repr=False)
class RunComparison:
    """Every further run against the first.

    Attributes:
        runs: The runs; the first is the one compared with.
        suites: One comparison per further run, by suite.
    """

    runs: tuple[Audit, ...]
    suites: dict[str, list[Comparison]]

    def conclusion(self, suite: str, number: int = 0) -> str:
        """One sentence that the intervals allow about a further run; ``number`` counts them from 0."""
        return conclude(self.runs[0], self.runs[number + 1], self.suites[suite][number], suite)

    def __repr__(self) -> str:
        """The conclusions, one line each."""
        return "\n".join(
            f"{run.name} against {self.runs[0].name} on {get_suite(suite).title}: {self.conclusion(suite, number)}"
            for suite in self.suites
            for number, run in enumerate(self.runs[1:])
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values. The suite that gives the verdict stands at the top, others under their names."""
        first = self.runs[0]
        content: dict[str, Any] = {"first": _label(first), "data": {}, "comparisons": []}
        for suite in self.suites:
            card = first.result.data_of(suite)
            part = {"data": card.to_dict() if card else {}, "comparisons": self._entries(suite)}
            content |= part if get_suite(suite).judge is not None else {suite: part}
        return content

    def _entries(self, suite: str) -> list[dict[str, Any]]:
        return [
            {
                **_label(run),
                "conclusion": self.conclusion(suite, number),
                "n": one.n,
                "clusters": one.clusters,
                "measures": {name: to_plain(asdict(difference)) for name, difference in one.measures.items()},
                "mcnemar": to_plain(asdict(one.mcnemar)),
                "occupations": to_plain(one.occupations.to_dicts()),
            }
            for number, (run, one) in enumerate(zip(self.runs[1:], self.suites[suite], strict=True))
        ]


def compare_runs(
    first: Audit | str | Path, *others: Audit | str | Path, suite: str | None = None, scoring: Scoring | None = None
) -> RunComparison:
    """Compare further audits with the first; runs on different data are refused by name.

    Args:
        first: An audit, or the folder of one.
        others: The audits to compare with it.
        suite: One suite; None for every one that all runs hold.
        scoring: Bootstrap settings.
    """
    if not others:
        raise InputError("one run was given; a comparison needs two or more")
    if suite is not None and suite not in comparable_suites():
        raise InputError(f"suite '{suite}' cannot be compared; choose {' or '.join(comparable_suites())}")
    runs = tuple(run if isinstance(run, Audit) else load_run(run, needs=suite) for run in (first, *others))
    suites = [suite] if suite is not None else _shared_suites(runs)
    return RunComparison(runs, {name: _compare_suite(runs, name, scoring) for name in suites})


def _shared_suites(runs: Sequence[Audit]) -> list[str]:
    shared = [name for name in comparable_suites() if all(name in run.result.suites for run in runs)]
    if not shared:
        listed = "; ".join(f"{run.path} holds {', '.join(run.result.suites)}" for run in runs)
        raise InputError(f"the runs share no suite that can be compared ({', '.join(comparable_suites())}): {listed}")
    return shared


def _compare_suite(runs: Sequence[Audit], suite: str, scoring: Scoring | None) -> list[Comparison]:
    first, *others = runs
    for other in others:
        try:
            align(first.predictions.suite(suite), other.predictions.suite(suite), suite)
        except InputError as error:
            raise InputError(f"cannot compare {first.path} with {other.path}: {error}") from error
    second, *more = (other.predictions for other in others)
    return compare(first.predictions, second, *more, suite=suite, scoring=scoring)


def conclude(first: Audit, second: Audit, found: Comparison, suite: str) -> str:
    """One sentence that the intervals allow: about the measures that the suite names."""
    silent = [run for run in (first, second) if run.result.competence and run.result.competence.problem]
    if silent:
        who = " and ".join(f"{run.name} ({run.path})" for run in silent)
        verb = "are" if len(silent) > 1 else "is"
        reason = "not shown to be competent at this task, so the score does not speak of bias"
        return f"No conclusion: {who} {verb} {reason}."
    items = get_suite(suite).items
    names = list(items.conclusions) if items else []
    for name in names:
        difference = found.measures[name]
        if math.isnan(difference.value) or math.isnan(difference.low):
            return f"No conclusion about {_title(name)}: {difference.note}."
    numbers = "; ".join(_numbers(_title(name), found.measures[name]) for name in names)
    changes = [_change(name, found.measures[name]) for name in names]
    return f"{' and '.join(changes)}: {numbers}."


def _change(name: str, difference: Difference) -> str:
    if not difference.significant:
        return f"the difference in {_title(name)} is not significant"
    return f"{_title(name)} of the second is significantly {'higher' if difference.value > 0 else 'lower'}"


def _title(name: str) -> str:
    return get_measure(name).title.strip().partition(",")[0]


def _numbers(name: str, one: Difference) -> str:
    corrected = "" if one.p == one.p_holm else f", corrected {p_bound(one.p_holm)}"
    return (
        f"{name} {one.first:.3f} -> {one.second:.3f}, difference {one.value:+.3f} [{one.low:+.3f}, {one.high:+.3f}], "
        f"p {p_bound(one.p)}{corrected}"
    )


def _label(run: Audit) -> dict[str, Any]:
    return {"run": str(run.path), "model": run.name, "verdict": run.verdict.code}
