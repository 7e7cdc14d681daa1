"""What the published list says against a verdict on labour statistics, where a run asks both."""

from __future__ import annotations

from evenli.audit.results import AuditResult, Verdict
from evenli.audit.suites.coal.results import CoalResult
from evenli.audit.suites.coal.verdict import judge
from evenli.core.blocks import of_hundred, range_of
from evenli.core.record import Estimate
from evenli.core.registry import DEFAULT_SUITE
from evenli.words.occupations import LABOUR


def disagreement(results: AuditResult) -> str:
    """In which measure the published list disagrees, in a sentence; empty where it does not.

    The lists disagree if their intervals of *stereotype* do not overlap, or if one list names a cause that the other
    does not name, and the value of the other lies outside the interval. A list that is too short to decide says nothing
    against the other one.
    """
    own, other = (results.suites.get(name) for name in (LABOUR, DEFAULT_SUITE))
    if not isinstance(own, CoalResult) or not isinstance(other, CoalResult) or results.verdict.code == "none":
        return ""
    # Each list by itself: the verdict of the run may name causes of other wordings.
    mine, judged = (judge(of, results.competence) for of in (own, other))
    if judged.code == "none":
        return ""
    here, there = ({(cause.name, cause.direction) for cause in said.causes} for said in (mine, judged))
    first, second = own.measures["stereotype"], other.measures["stereotype"]
    apart = ["stereotype"] if first.high < second.low or second.high < first.low else []
    apart += [name for name, _ in sorted(here - there) if _excludes(own.measures[name], other.measures[name])]
    apart += [name for name, _ in sorted(there - here) if _excludes(other.measures[name], own.measures[name])]
    if not apart:
        return ""
    first, second = own.measures[apart[0]], other.measures[apart[0]]
    return f"The published list says otherwise: {second.title} {_of_hundred(second)}, here {_of_hundred(first)}."


def revise(verdict: Verdict, published: CoalResult) -> Verdict:
    """A verdict that names nothing does not stand where the published list has a lean."""
    if verdict.code not in {"even", "undecided"}:
        return verdict
    other = judge(published, None)
    if other.code != "bias":
        return verdict
    return Verdict("undecided", f"Undecided: the two lists of jobs disagree. On the published list: {other.sentence}")


def _excludes(named: Estimate, other: Estimate) -> bool:
    """Whether the value of the other list lies outside the interval of the one that names the cause."""
    return other.value < named.low or other.value > named.high


def _of_hundred(estimate: Estimate) -> str:
    return f"{of_hundred(estimate.value)} ({range_of(estimate.low, estimate.high)})"
