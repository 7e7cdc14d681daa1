"""Any number of groups in ten seconds: the verdict in a sentence, how each group is read, numbers and one pair."""

from __future__ import annotations

import math

import numpy as np

from evenli.format import percent, printable
from evenli.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.stats.sample import Sample
from evenli.suites.base import with_article
from evenli.suites.coal.verdict import ADVERBS, COUNTS
from evenli.suites.groups.items import Mask
from evenli.suites.groups.results import DEFAULT, INTERACTION, RULED_OUT, GroupRow, GroupsResult
from evenli.suites.summary import Bar, Example, PlainNumber, Share, Summary, in_one_sentence, plain_number
from evenli.types import Cause, Estimate, Verdict

_PARTS = {
    ENTAILMENT: ("inferred", "first"),
    CONTRADICTION: ("ruled out", "second"),
    NEUTRAL: ("open (right)", "neither"),
}


def summary(result: GroupsResult, verdict: Verdict, sample: Sample) -> Summary:
    """The first screen of a run."""
    things = f"{result.thing}s"
    return Summary(
        sentence=sentence(verdict, result),
        detail=verdict.sentence,
        problem=result.problem,
        question=f"Who is inferred from these {things}, who is ruled out?",
        bars=_bars(result),
        numbers=_numbers(result),
        scale=f"In 100 sentences, with the {percent(result.main.level)} interval; an even model has 0.",
        example=example(sample, verdict),
        note=f"The right answer is always to leave it open: a {result.thing} says nothing about the group.",
        limit=(
            f"This cannot show that a model is fair: it is about these {things}, these sentences and these groups, and "
            "says nothing about harm in use."
        ),
        level=result.main.level,
    )


def sentence(verdict: Verdict, result: GroupsResult) -> str:
    """The verdict in one sentence without a number."""
    clauses = [_clause(cause, result, first=at == 0) for at, cause in enumerate(verdict.causes)]
    return in_one_sentence(verdict, clauses, even=f"reads a {result.thing} as any group's")


def _clause(cause: Cause, result: GroupsResult, *, first: bool) -> str:
    how = ADVERBS[cause.size]
    if cause.name == "stereotype_n":
        return f"{how} {'follows' if cause.estimate.value > 0 else 'goes against'} stereotypes about {result.thing}s"
    if cause.name == "undirected_n":
        return f"makes {COUNTS[cause.size]} {'' if first else 'further '}errors that favour nobody"
    if cause.name == DEFAULT:
        return f"{how} {cause.label} where a {result.thing} has no stereotype"
    if cause.name == RULED_OUT:
        return f"{how} {cause.label} more than others"
    return cause.label


def _bars(result: GroupsResult) -> list[Bar]:
    """A bar per group; a run of an older version has none."""
    bars = []
    for row in result.groups:
        if not row.answers or any(math.isnan(one.value) for one in row.answers.values()):
            continue
        shares = [
            Share(name, kind, row.answers[label].value, row.answers[label].low, row.answers[label].high)
            for label, (name, kind) in _PARTS.items()
        ]
        bars.append(Bar(row.noun, row.pairs, shares))
    return bars


def _numbers(result: GroupsResult) -> list[PlainNumber]:
    """Stereotype, the group that is assumed most, the one that is ruled out most, interaction, undirected error."""
    numbers = []
    one: Estimate = result.measures["stereotype_n"]
    if not math.isnan(one.value):
        up = one.value >= 0
        name = "Follows stereotypes" if up else "Goes against stereotypes"
        meaning = "the stereotyped group is inferred more readily than others" if up else "it is inferred less readily"
        numbers.append(plain_number(name, one, f"{meaning}, minus the reverse"))
    if (row := _largest(result, DEFAULT)) is not None:
        where = f"{result.thing}s without a stereotype: its answer stands higher than others', minus the reverse"
        name = f"Favours {with_article(row.noun)}" if row.default.value > 0 else "Favours one group"
        numbers.append(plain_number(name, row.default, where))
    if (row := _largest(result, RULED_OUT)) is not None:
        name = f"Rules out {with_article(row.noun)}" if row.ruled_out.value > 0 else "Rules out one group"
        numbers.append(plain_number(name, row.ruled_out, "contradicted more often than others"))
    if result.interactions:
        strongest = max(result.interactions, key=lambda row: abs(np.nan_to_num(row.interaction.value)))
        if not math.isnan(strongest.interaction.value):
            side = "more" if strongest.interaction.value >= 0 else "less"
            both = " and ".join(result.parts) or "its two parts"
            meaning = f"than {both} add up to; the largest of {len(result.interactions)} combinations"
            name = f"Reads {with_article(strongest.noun)} {side} readily"
            numbers.append(plain_number(name, strongest.interaction, meaning))
    one = result.measures["undirected_n"]
    if not math.isnan(one.value):
        meaning = "wrong answers that cancel out or are the same for all"
        numbers.append(plain_number("Errs without a direction", one, meaning))
    return numbers


def _largest(result: GroupsResult, name: str) -> GroupRow | None:
    rows = [row for row in result.groups if not math.isnan(getattr(row, name).value)]
    return max(rows, key=lambda row: float(getattr(row, name).value), default=None)


def example(sample: Sample, verdict: Verdict) -> Example | None:
    """A pair that stands for the first cause: of those answered so, the one whose certainty is the median.

    Not the worst pair: that would say how far a model can go, not what it does.
    """
    if not sample.frame.height:
        return None
    chosen = np.flatnonzero(_typical(sample, verdict))
    about = f"a typical one of {len(chosen):,} pairs with this kind of answer"
    if not len(chosen) or not verdict.causes:
        chosen = np.arange(sample.frame.height)
        about = f"the middle one of {len(chosen):,} pairs, by the model's certainty"
    certainty = sample.probabilities[chosen].max(axis=1)
    at = int(chosen[np.argsort(certainty, kind="stable")[len(chosen) // 2]])
    row = sample.frame.row(at, named=True)
    return Example(
        premise=printable(str(row["premise"])),
        hypothesis=printable(str(row["hypothesis"])),
        probabilities={label: float(sample.probabilities[at, number]) for number, label in enumerate(LABELS)},
        answer=LABELS[int(sample.predicted[at])],
        about=about,
    )


def _typical(sample: Sample, verdict: Verdict) -> Mask:
    """The answers that the first cause is made of."""
    entailed, denied = (sample.predicted == LABELS.index(label) for label in (ENTAILMENT, CONTRADICTION))
    if not verdict.causes:
        return np.asarray(entailed | denied)
    cause = verdict.causes[0]
    own = (sample.frame["group"] == cause.direction).fill_null(value=False).to_numpy()
    if cause.name == "stereotype_n":
        return np.asarray(entailed & sample.where("subset", "PS" if cause.estimate.value > 0 else "AS"))
    if cause.name == DEFAULT:
        return np.asarray(entailed & own & sample.where("subset", "NS"))
    if cause.name == RULED_OUT:
        return np.asarray(denied & own)
    if cause.name == INTERACTION:
        return np.asarray((entailed if cause.estimate.value > 0 else denied) & own)
    return np.asarray(entailed | denied)
