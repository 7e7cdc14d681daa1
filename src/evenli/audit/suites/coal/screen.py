"""The first screen of a run: what a reader sees in ten seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.audit.results import Cause, SuiteResult, Verdict
from evenli.audit.suites.base import LIMIT
from evenli.audit.suites.coal.measures import EVEN, INCOHERENT
from evenli.audit.suites.coal.results import CoalResult
from evenli.audit.suites.coal.verdict import (
    ADVERBS,
    CAUSES,
    ELSEWHERE,
    EXPECTED,
    LEANS,
    SHOWN_FROM,
    UNSURE,
    answers_are_right,
    common_clause,
    differ,
    group_nouns,
)
from evenli.core.blocks import Bar, Example, Fact, Share, Summary, plain_fact
from evenli.core.format import percent, printable
from evenli.core.labels import ENTAILMENT, LABELS
from evenli.stats.sample import Sample
from evenli.words.axes import NO_STEREOTYPE
from evenli.words.templates import with_article

_KINDS = ("first", "second")


def summary(result: CoalResult, verdict: Verdict, sample: Sample) -> Summary:
    """The first screen of a run."""
    # A word that states a group is no example: the right answer to it is not neutral.
    words = [row.occupation or "" for row in result.occupations if row.states_group]
    states_group = sample.frame["occupation"].fill_null("").is_in(words).to_numpy()
    by_id = sample.frame["id"].arg_sort().to_numpy()
    typical = [typical_answers(cause, sample) for cause in verdict.causes[:1]]
    return first_screen(
        result,
        verdict,
        clauses=[_clause(cause, result, alone=at == 0) for at, cause in enumerate(verdict.causes)],
        even="reads a job as anybody's",
        things="jobs",
        bars=_bars(result),
        numbers=_numbers(result),
        example=typical_pair(sample, [*typical, sample.biased] if typical else [], by_id[~states_group[by_id]]),
        note="The right answer is always “neither”: a job says nothing about who does it.",
    )


def _clause(cause: Cause, result: CoalResult, *, alone: bool) -> str:
    if cause.name == UNSURE:
        unsure = "answers “cannot know”, but"
        if differ(result.single_jobs_expected):
            return f"{unsure} assigns genders to single jobs in its probabilities"
        return f"{unsure} is not sure of it"
    if cause.name.endswith(EXPECTED):
        known = "answers “cannot know”, but " if alone and answers_are_right(result) else ""
        return f"{known}{ADVERBS[cause.size]} {cause.label}"
    if cause.name == "total_error" and alone and differ(result.single_jobs):
        return "assigns genders to single jobs"
    if cause.name in {"stereotype", "total_error"} or cause.direction == "none":
        return common_clause(cause, "job", alone=alone)
    if cause.name not in LEANS:  # of another suite of the run
        before = "shows no significant lean in these sentences, but " if alone else ""
        return f"{before}{ADVERBS[cause.size]} {cause.label}"
    where = "in stereotyped jobs of either kind" if cause.name == ELSEWHERE else "where a job has no stereotype"
    return f"{ADVERBS[cause.size]} {cause.label.removesuffix(' for stereotyped jobs')} {where}"


def _bars(result: CoalResult) -> list[Bar]:
    """A bar per class of jobs; words that state a group are not part of the question."""
    groups = group_nouns(result.readings)
    contradicts = any(row.reading == INCOHERENT and row.value >= SHOWN_FROM for row in result.readings)
    kinds = [(group, with_article(noun), kind) for (group, noun), kind in zip(groups, _KINDS, strict=False)]
    kinds += [(INCOHERENT, "contradictory", "both")] if contradicts else []
    kinds += [(EVEN, "neither (right)", "neither")]
    # One bar for each class of jobs, in the same order of parts, so that they can be compared by eye.
    bars = []
    for name in (*(group for group, _ in groups), NO_STEREOTYPE):
        of = {row.reading: row for row in result.readings if row.stereotype == name}
        if not of or any(math.isnan(row.value) for row in of.values()):
            continue
        shares = [Share(label, kind, of[key].value, of[key].low, of[key].high) for key, label, kind in kinds]
        title = "jobs without a stereotype" if name == NO_STEREOTYPE else f"jobs stereotyped {name}"
        bars.append(Bar(title, next(iter(of.values())).items, shares))
    return bars


def _numbers(result: CoalResult) -> list[Fact]:
    """Two leans and the total error; a lean is shown without its sign, which is in its name."""
    nouns = [with_article(noun) for _, noun in group_nouns(result.readings)]
    if len(nouns) != len(_KINDS):
        return []
    numbers = []
    for cause in CAUSES:
        estimate = result.measures.get(cause)
        if estimate is None or math.isnan(estimate.value):
            continue
        above = estimate.value >= 0
        other, noun = nouns if above else nouns[::-1]
        texts = {
            "stereotype": ("Follows stereotypes", "read as the stereotype says, minus read against it")
            if above
            else ("Goes against stereotypes", "read against the stereotype, minus read as it says"),
            "default_gender": (f"Assumes {noun}", f"jobs without a stereotype: read as {noun}'s, minus as {other}'s"),
            "total_error": ("Wrong answers in all", "sentences not answered with “cannot know” twice"),
        }
        name, meaning = texts[cause]
        numbers.append(plain_fact(name, estimate, meaning))
    return numbers


def typical_answers(cause: Cause, sample: Sample) -> NDArray[np.bool_]:
    """The answers that a cause is made of, in whichever of the two suites."""
    entailed, subset = sample.predicted == LABELS.index(ENTAILMENT), partial(sample.where, "subset")
    if cause.name.startswith("stereotype"):
        return np.asarray(entailed & subset("PS" if cause.estimate.value > 0 else "AS"))
    if cause.direction == "none":
        return ~sample.is_neutral
    own = subset("PS") | subset("AS") if cause.name == ELSEWHERE else subset("NS")
    return np.asarray(entailed & own & sample.where("group", cause.direction))


def first_screen(
    result: SuiteResult, verdict: Verdict, *, clauses: Sequence[str], even: str, things: str, **parts: Any
) -> Summary:
    """A clause for each cause, joined to a sentence; ``even`` is what a model without a lean almost never does."""
    sentence = verdict.sentence
    if clauses := [clause for clause in clauses if clause]:
        *before, last = clauses
        sentence = f"This model {', '.join(before)} and {last}." if before else f"This model {last}."
    elif verdict.code == "even":
        sentence = f"This model almost never {even}: no lean was found on these sentences."
    elif verdict.code == "undecided":
        sentence = f"{verdict.sentence.partition('. ')[0].rstrip('.')}."
    level = result.main.level
    return Summary(
        sentence=sentence,
        detail=verdict.sentence,
        problem=result.problem,
        scale=f"In 100 sentences, with the {percent(level)} interval; an even model has 0.",
        limit=LIMIT.format(things),
        level=level,
        **parts,
    )


def typical_pair(sample: Sample, kinds: Sequence[NDArray[np.bool_]], asked: NDArray[np.int64]) -> Example | None:
    """A pair that stands for the model: the one of median certainty among the first kind of rows that has any.

    Not the worst pair: that would say how far a model can go, not what it does. ``kinds`` is empty where the verdict
    names no cause; of equal rows the one that ``asked`` has first comes first.
    """
    if not asked.size:
        return None
    rows = next((asked[kind[asked]] for kind in kinds if kind[asked].any()), asked)
    about = f"typical of {rows.size:,} similar answers"
    about = f"the middle one of {rows.size:,} pairs, by the model's certainty" if rows is asked else about
    # No texts are copied: of a million rows only one is shown.
    certainty = sample.probabilities[rows].max(axis=1)
    at = int(rows[np.argsort(certainty, kind="stable")[rows.size // 2]])
    premise, hypothesis = sample.frame.select("premise", "hypothesis").row(at)
    return Example(
        premise=printable(str(premise)),
        hypothesis=printable(str(hypothesis)),
        probabilities=dict(zip(LABELS, sample.probabilities[at].tolist(), strict=True)),
        answer=LABELS[int(sample.predicted[at])],
        about=about,
    )
