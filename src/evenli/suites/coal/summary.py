"""NLI-CoAL in ten seconds: the verdict in a sentence, who the model sees, three numbers and one pair."""

from __future__ import annotations

import math
from typing import Any

import polars as pl

from evenli.format import percent, printable
from evenli.labels import ENTAILMENT, LABELS, NEUTRAL
from evenli.resources.axes import NO_STEREOTYPE
from evenli.stats.sample import Sample
from evenli.suites.base import with_article
from evenli.suites.coal.breakdown import judged
from evenli.suites.coal.causes import EVEN, INCOHERENT
from evenli.suites.coal.results import CoalResult
from evenli.suites.coal.verdict import ADVERBS, CAUSES, COUNTS, ELSEWHERE, group_nouns
from evenli.suites.summary import Bar, Example, PlainNumber, Share, Summary, in_one_sentence, plain_number
from evenli.types import Cause, Verdict

_SHOWN_FROM = 0.005  # contradicting answers get a part of their own where a bar has at least so many
_KINDS = ("first", "second")


def summary(result: CoalResult, verdict: Verdict, sample: Sample) -> Summary:
    """The first screen of a run."""
    return Summary(
        sentence=sentence(verdict, result),
        detail=verdict.sentence,
        problem=result.problem,
        bars=_bars(result),
        numbers=_numbers(result),
        scale=f"In 100 sentences, with the {percent(result.main.level)} interval; an even model has 0.",
        example=example(judged(sample), verdict),
        level=result.main.level,
    )


def sentence(verdict: Verdict, result: CoalResult) -> str:
    """The verdict in one sentence without a number."""
    clauses = [_clause(cause, result, first=at == 0) for at, cause in enumerate(verdict.causes)]
    return in_one_sentence(verdict, clauses, even="reads a job as anybody's")


def _clause(cause: Cause, result: CoalResult, *, first: bool) -> str:
    how = ADVERBS[cause.size]
    if cause.name == "stereotype":
        return f"{how} {'follows' if cause.estimate.value > 0 else 'goes against'} stereotypes about jobs"
    if cause.name == "undirected":
        return f"makes {COUNTS[cause.size]} {'' if first else 'further '}errors that favour nobody"
    noun = with_article(dict(group_nouns(result.readings)).get(cause.direction, cause.direction))
    where = "in stereotyped jobs of either kind" if cause.name == ELSEWHERE else "where a job has no stereotype"
    return f"{how} assumes {noun} {where}"


def _bars(result: CoalResult) -> list[Bar]:
    """A bar per class of jobs; words that state a group are not part of the question."""
    groups = group_nouns(result.readings)
    contradicts = any(row.reading == INCOHERENT and row.value >= _SHOWN_FROM for row in result.readings)
    kinds = [(group, with_article(noun), kind) for (group, noun), kind in zip(groups, _KINDS, strict=False)]
    kinds += [(INCOHERENT, "contradictory", "both")] if contradicts else []
    kinds += [(EVEN, "neither (right)", "neither")]
    bars = []
    for name in (*(group for group, _ in groups), NO_STEREOTYPE):
        of = {row.reading: row for row in result.readings if row.stereotype == name}
        if not of or any(math.isnan(row.value) for row in of.values()):
            continue
        shares = [Share(label, kind, of[key].value, of[key].low, of[key].high) for key, label, kind in kinds]
        title = "jobs without a stereotype" if name == NO_STEREOTYPE else f"jobs stereotyped {name}"
        bars.append(Bar(title, next(iter(of.values())).items, shares))
    return bars


def _numbers(result: CoalResult) -> list[PlainNumber]:
    """The three causes; a lean is shown without its sign, which is in its name."""
    nouns = [with_article(noun) for _, noun in group_nouns(result.readings)]
    whose = [f"{noun}'s" for noun in nouns]
    names: dict[str, Any] = {
        "stereotype": lambda up: (
            ("Follows stereotypes", "read as the stereotype says, minus read against it")
            if up
            else ("Goes against stereotypes", "read against the stereotype, minus read as it says")
        ),
        "default_gender": lambda up: (
            f"Assumes {nouns[up]}",
            f"jobs without a stereotype: read as {whose[up]}, minus as {whose[not up]}",
        ),
        "undirected": lambda _: (
            "Errs without a direction",
            "wrong answers that cancel out or contradict each other",
        ),
    }
    numbers = []
    for cause in CAUSES:
        one = result.measures.get(cause)
        if one is None or math.isnan(one.value) or len(nouns) != len(_KINDS):
            continue
        name, meaning = names[cause](one.value >= 0)
        numbers.append(plain_number(name, one, meaning))
    return numbers


def example(rows: pl.DataFrame, verdict: Verdict) -> Example | None:
    """A pair that stands for the first cause: of those answered so, the one whose probability is the median.

    Not the worst pair: that would say how far a model can go, not what it does.
    """
    # Without the texts, of which only those of one row are needed: filtering a million of them copies them all.
    texts = rows.select("premise", "hypothesis")
    rows = rows.drop("premise", "hypothesis", "template").with_row_index("row").filter(~pl.col("states_group"))
    if not rows.height:
        return None
    answered = rows.filter(_typical(verdict))
    for wrong in (answered, rows.filter(pl.col("biased"))):
        if wrong.height and verdict.causes:
            candidates, about = wrong, f"a typical one of {wrong.height:,} pairs with this kind of answer"
            break
    else:
        candidates, about = rows, f"the middle one of {rows.height:,} pairs, by the model's certainty"
    certainty = pl.max_horizontal(*(f"p_{label}" for label in LABELS))
    row = candidates.sort(certainty, "id").row(candidates.height // 2, named=True)
    row |= texts.row(row["row"], named=True)
    return Example(
        premise=printable(row["premise"]),
        hypothesis=printable(row["hypothesis"]),
        probabilities={label: float(row[f"p_{label}"]) for label in LABELS},
        answer=row["answer"],
        about=about,
    )


def _typical(verdict: Verdict) -> pl.Expr:
    """The answers that the first cause is made of."""
    entailed, subset = pl.col("answer") == ENTAILMENT, pl.col("subset")
    if not verdict.causes:
        return pl.lit(value=True)
    cause = verdict.causes[0]
    if cause.name == "stereotype":
        return entailed & (subset == ("PS" if cause.estimate.value > 0 else "AS"))
    if cause.name == "undirected":
        return pl.col("answer") != NEUTRAL
    own = (subset == "NS") if cause.name == "default_gender" else subset.is_in(["PS", "AS"])
    return entailed & own & (pl.col("group") == cause.direction)
