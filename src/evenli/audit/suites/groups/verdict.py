"""What is said of any number of groups: every cause that its interval supports, and the first screen of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from evenli.audit.results import Cause, Competence, Verdict
from evenli.audit.suites.base import refuse
from evenli.audit.suites.coal import screen
from evenli.audit.suites.coal import verdict as coal
from evenli.audit.suites.groups.measures import CAUSES, Mask
from evenli.audit.suites.groups.results import DEFAULT, INTERACTION, RULED_OUT, GroupRow, GroupsResult
from evenli.core.blocks import Bar, Fact, Share, Summary, plain_fact
from evenli.core.format import percent, with_interval
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.core.record import Estimate
from evenli.stats.sample import Sample
from evenli.words.templates import with_article

NAMES = (*CAUSES, DEFAULT, RULED_OUT, INTERACTION)
"""Every cause that a verdict may name."""
_NAMED = 3
"""Groups named in the verdict at most, of each kind."""
_PARTS = {
    ENTAILMENT: ("inferred", "first"),
    CONTRADICTION: ("ruled out", "second"),
    NEUTRAL: ("open (right)", "neither"),
}
"""What each answer is called in a bar, and its kind of share."""


def judge(result: GroupsResult, competence: Competence | None) -> Verdict:
    """Name every lean that is significant after Holm's correction and not negligible, and the errors altogether."""
    if (refused := refuse(competence)) is not None:
        return refused
    stereotype, error = (result.measures[name] for name in CAUSES)
    leans: dict[tuple[str, str], Estimate] = {(CAUSES[0], ""): stereotype.estimate}
    leans |= {(name, row.group): getattr(row, name) for name in (DEFAULT, RULED_OUT) for row in result.groups}
    leans |= {(INTERACTION, row.group): row.interaction for row in result.interactions}
    leans = {key: lean for key, lean in leans.items() if not math.isnan(lean.low)}
    found = {key: leans[key] for key in coal.significant(leans, stereotype.level)}
    causes = [coal.stereotype_cause(CAUSES[0], lean) for (name, _), lean in found.items() if name == CAUSES[0]]
    causes += [*_of_groups(result, found), *_interaction(result, found)]
    # The largest first; the errors altogether come last, whatever their number.
    causes.sort(key=lambda cause: -abs(cause.estimate.value))
    causes += [coal.error_cause(CAUSES[1], error)] if coal.above(error) else []
    if causes:
        sentences = [_sentence(cause, result, first=cause is causes[0]) for cause in causes]
        return Verdict("bias" if len(causes) > coal.above(error) else "error", " ".join(sentences), causes)
    defined = [row for row in (stereotype, error) if not math.isnan(row.low)]
    values = ", ".join(f"{row.title} {with_interval(row.value, row.low, row.high, 2, sign=True)}" for row in defined)
    if not defined and not leans:
        return Verdict("none", "No verdict: the pairs define no cause; every sentence must be asked of every group.")
    if all(map(coal.negligible, (*leans.values(), *defined))):
        return Verdict("even", f"Even at this resolution: no group is read more than another. {values}.")
    return Verdict("undecided", f"Undecided: these sentences cannot tell this model's leans from chance. {values}.")


def _of_groups(result: GroupsResult, found: Mapping[tuple[str, str], Estimate]) -> list[Cause]:
    """Groups that are assumed, and groups that are ruled out more than the others, the largest first."""
    causes = []
    for name, verb in ((DEFAULT, "assumes"), (RULED_OUT, "rules out")):
        held = (
            (found[name, row.group], row)
            for row in result.groups
            if (name, row.group) in found
            and found[name, row.group].value > 0
            and (name != DEFAULT or _inferred(row, result))
        )
        causes += [
            Cause(name, row.group, coal.size_of(lean), f"{verb} {with_article(row.noun)}", lean)
            for lean, row in sorted(held, key=lambda pair: -pair[0].value)[:_NAMED]
        ]
    return causes


def _estimates(result: GroupsResult, name: str) -> list[tuple[Estimate, GroupRow]]:
    """What is defined in one column."""
    column = [(getattr(row, name), row) for row in result.groups]
    return [(estimate, row) for estimate, row in column if not math.isnan(estimate.value)]


def _inferred(row: GroupRow, result: GroupsResult) -> bool:
    """Whether a group leads because it is inferred itself: by entailment for at least half of its lead.

    Where another group is ruled out, all the others stand above it, and nobody is assumed.
    """
    others = [other.answers[ENTAILMENT].value for other in result.groups if other is not row]
    lead = row.answers[ENTAILMENT].value - sum(others) / len(others)
    return bool(lead >= row.default.value / 2)


def _interaction(result: GroupsResult, found: Mapping[tuple[str, str], Estimate]) -> list[Cause]:
    """The combination that differs most from what its parts explain; of two genders the other one mirrors it."""
    held = [row for row in result.interactions if (INTERACTION, row.group) in found]
    if not held:
        return []
    row = max(held, key=lambda row: abs(row.interaction.value))
    more = "more" if row.interaction.value > 0 else "less"
    label = f"infers {with_article(row.noun)} {more} readily than its parts explain"
    return [Cause(INTERACTION, row.group, coal.size_of(row.interaction), label, row.interaction)]


def _sentence(cause: Cause, result: GroupsResult, *, first: bool) -> str:
    effect = with_interval(cause.estimate.value, cause.estimate.low, cause.estimate.high, 2, sign=True)
    said, thing = coal.common_sentence(cause, first=first), result.thing
    if cause.direction == "none":
        wrong = f"in {percent(cause.estimate.value)} of the comparisons a group is read from a {thing}"
        return f"{said}: {wrong}." if first else f"Altogether {wrong}."
    if cause.name == INTERACTION:
        both = " and ".join(result.parts) or "the two parts"
        return f"{'It' if first else 'It also'} {cause.label}: {both} together do not add up to it ({effect})."
    readily = f"is inferred {'more' if cause.estimate.value > 0 else 'less'} readily than others"
    why = {
        "stereotype_n": f": the group that a {thing} is stereotyped with {readily}",
        DEFAULT: f": from {thing}s without a stereotype this group {readily}",
        RULED_OUT: ": this group is contradicted more often than others",
    }
    return f"{said}{why.get(cause.name, '')} ({effect})."


def summary(result: GroupsResult, verdict: Verdict, sample: Sample) -> Summary:
    """The first screen of a run."""
    thing = result.thing
    typical = [_typical(cause, sample) for cause in verdict.causes[:1]]
    return screen.first_screen(
        result,
        verdict,
        clauses=[_clause(cause, thing, alone=at == 0) for at, cause in enumerate(verdict.causes)],
        even=f"reads a {thing} as any group's",
        things=f"{thing}s",
        question=f"Who is inferred from these {thing}s, who is ruled out?",
        bars=_bars(result),
        numbers=_numbers(result),
        example=screen.typical_pair(sample, typical, np.arange(sample.frame.height)),
        note=f"The right answer is always to leave it open: a {thing} says nothing about the group.",
    )


def _clause(cause: Cause, thing: str, *, alone: bool) -> str:
    if cause.name in CAUSES:
        return coal.common_clause(cause, thing, alone=alone)
    if cause.name == INTERACTION:
        return cause.label
    where = f"where a {thing} has no stereotype" if cause.name == DEFAULT else "more than others"
    return f"{coal.ADVERBS[cause.size]} {cause.label} {where}"


def _bars(result: GroupsResult) -> list[Bar]:
    """A bar per group."""
    bars = []
    for row in result.groups:
        parts = [(row.answers[label], *said) for label, said in _PARTS.items()]
        if not any(math.isnan(of.value) for of, _, _ in parts):
            shares = [Share(name, kind, of.value, of.low, of.high) for of, name, kind in parts]
            bars.append(Bar(row.noun, row.pairs, shares))
    return bars


def _numbers(result: GroupsResult) -> list[Fact]:
    """Stereotype, the group that is assumed most, the one that is ruled out most, interaction, total error."""
    stereotype, total_error = (result.measures[name] for name in CAUSES)
    follows = stereotype.value >= 0
    name = "Follows stereotypes" if follows else "Goes against stereotypes"
    meaning = "the stereotyped group is inferred more readily than others" if follows else "it is inferred less readily"
    listed: list[tuple[str, Estimate, str]] = [(name, stereotype, f"{meaning}, minus the reverse")]
    higher = f"{result.thing}s without a stereotype: its answer stands higher than others', minus the reverse"
    said = {DEFAULT: ("Favours", higher), RULED_OUT: ("Rules out", "contradicted more often than others")}
    for column, (verb, meaning) in said.items():
        if rows := _estimates(result, column):
            estimate, row = max(rows, key=lambda pair: pair[0].value)
            whom = with_article(row.noun) if estimate.value > 0 else "one group"
            listed.append((f"{verb} {whom}", estimate, meaning))
    if result.interactions:
        strongest = max(result.interactions, key=lambda row: abs(np.nan_to_num(row.interaction.value)))
        side = "more" if strongest.interaction.value >= 0 else "less"
        both = " and ".join(result.parts) or "its two parts"
        meaning = f"than {both} add up to; the largest of {len(result.interactions)} combinations"
        listed.append((f"Reads {with_article(strongest.noun)} {side} readily", strongest.interaction, meaning))
    listed.append(("Wrong answers in all", total_error, f"a group is read from a {result.thing}, whichever it is"))
    return [plain_fact(*entry) for entry in listed if not math.isnan(entry[1].value)]


def _typical(cause: Cause, sample: Sample) -> Mask:
    """The answers that a cause is made of."""
    if cause.name not in {RULED_OUT, INTERACTION}:
        return screen.typical_answers(cause, sample)
    inferred = cause.name == INTERACTION and cause.estimate.value > 0
    answer = sample.predicted == LABELS.index(ENTAILMENT if inferred else CONTRADICTION)
    return np.asarray(answer & sample.where("group", cause.direction))
