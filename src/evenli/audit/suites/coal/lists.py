"""The verdict of one list of jobs beside what the other one says, where a run asks both."""

from __future__ import annotations

from evenli.audit.results import AuditResult
from evenli.audit.suites.coal.verdict import judge
from evenli.core.blocks import of_hundred, range_of
from evenli.core.record import Estimate
from evenli.core.registry import DEFAULT_SUITE
from evenli.words.occupations import LABOUR

_FOUND = {"even": "no lean was found there", "undecided": "it decides nothing"}


def disagreement(results: AuditResult) -> str:
    """What the published list says against a verdict on labour statistics, in a sentence; empty where they agree.

    They disagree where the intervals of *stereotype* do not overlap, where a cause is named on one list only, or where
    one finds the model even and the other decides nothing.
    """
    own, other = (results.suites.get(name) for name in (LABOUR, DEFAULT_SUITE))
    if own is None or other is None or results.verdict.code == "none":
        return ""
    # Each list by itself: the verdict of the run may name causes of other wordings.
    mine, judged = (judge(of, results.competence) for of in (own, other))  # type: ignore[arg-type]
    if judged.code == "none":
        return ""
    here, there = ({(cause.name, cause.direction) for cause in said.causes} for said in (mine, judged))
    first, second = own.measures["stereotype"], other.measures["stereotype"]
    apart = first.high < second.low or second.high < first.low
    differing = [name for name, _ in sorted(here ^ there)]
    found = _FOUND.get(judged.code, "")
    if apart or differing:
        name = "stereotype" if apart else differing[0]
        first, second = own.measures[name], other.measures[name]
        found = f"{second.title} {_of_hundred(second)}, here {_of_hundred(first)}"
    elif judged.code == mine.code:
        return ""
    return f"The published list says otherwise: {found}."


def _of_hundred(estimate: Estimate) -> str:
    return f"{of_hundred(estimate.value)} ({range_of(estimate.low, estimate.high)})"
