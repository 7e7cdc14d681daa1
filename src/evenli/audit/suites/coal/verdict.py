"""What is said of a model: the causes that the intervals support, and a first screen for a reader with ten seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.audit.results import Cause, Competence, SuiteResult, Verdict, VerdictCode
from evenli.audit.suites.base import LIMIT, refuse
from evenli.audit.suites.coal.measures import EVEN, INCOHERENT
from evenli.audit.suites.coal.results import CoalResult, ReadingRow
from evenli.core.blocks import Bar, Example, Fact, Share, Summary, plain_fact
from evenli.core.format import percent, printable, with_interval
from evenli.core.labels import ENTAILMENT, LABELS
from evenli.core.record import Estimate, MeasureResult
from evenli.stats.sample import Sample
from evenli.words.axes import NO_STEREOTYPE
from evenli.words.english import with_article

CAUSES = ("stereotype", "default_gender", "total_error")
ELSEWHERE = "default_of_stereotyped"
"""Where stereotyped jobs lean to one group as a whole and the others do not, the default shows in this measure only."""
NEGLIGIBLE = 0.05
"""A cause whose interval lies within this of 0 is negligible: fewer than one sentence in twenty goes astray."""
SIZES = ((0.1, "slight"), (0.3, "clear"), (math.inf, "strong"))
"""Up to which value a cause has which size: one sentence in ten, and about one in three. Finer words would promise more
than the list of 13 female words can tell apart: the interval of ``stereotype`` is often 0.3 wide."""
ADVERBS = {"slight": "slightly", "clear": "clearly", "strong": "strongly"}
COUNTS = {"slight": "a few", "clear": "some", "strong": "many"}
_SHOWN_FROM = 0.005  # contradicting answers get a part of their own where a bar has at least so many
_KINDS = ("first", "second")


def judge(result: CoalResult, competence: Competence | None) -> Verdict:
    """Name every cause that its interval supports.

    A lean is supported if its interval excludes 0 and does not lie within NEGLIGIBLE of it; total error, which is
    never below 0, if its interval lies above NEGLIGIBLE. Without a competence the gate is skipped.
    """
    if (refused := refuse(competence)) is not None:
        return refused
    readings = result.readings
    measured = {name: result.measures[name] for name in (*CAUSES, ELSEWHERE) if name in result.measures}
    main = measured["stereotype"]
    if math.isnan(main.value):
        why = "it needs PS and AS pairs of the same sentences"
        why = why if readings or not result.notes else result.notes[0]
        return Verdict("none", f"No verdict: 'stereotype' is {main.note}; {why}.")
    if math.isnan(main.low):
        return Verdict("none", f"No verdict: 'stereotype' has {main.note}.")
    defined = {name: estimate for name, estimate in measured.items() if not math.isnan(estimate.low)}
    named = [_cause(name, estimate, readings) for name, estimate in defined.items() if supported(name, estimate)]
    usual = next((cause.direction for cause in named if cause.name == "default_gender"), None)
    # The same default for all jobs is said once.
    named = [cause for cause in named if cause.name != ELSEWHERE or cause.direction != usual]
    # What has a direction comes first, then the larger.
    named.sort(key=lambda cause: (cause.name == "total_error", -abs(cause.estimate.value)))
    missing = [
        f" {estimate.title.capitalize()} cannot be judged: {estimate.note}."
        for estimate in measured.values()
        if math.isnan(estimate.low)
    ]
    if named:
        code: VerdictCode = "error" if named[0].name == "total_error" else "bias"
        sentences = [_sentence(cause, readings, first=cause is named[0]) for cause in named]
        return Verdict(code, " ".join(sentences) + "".join(missing), named)
    values = ", ".join(
        f"{estimate.title} {with_interval(estimate.value, estimate.low, estimate.high, 2, sign=name != 'total_error')}"
        for name, estimate in defined.items()
        if name != ELSEWHERE
    )
    if all(negligible(estimate) for estimate in defined.values()) and not missing:
        almost = "Even at this resolution: jobs are almost never read as anybody's."
        return Verdict("even", f"{almost} All causes lie within 0.05 of 0: {values}.")
    return Verdict("undecided", f"Undecided: no cause is significant on these pairs. {values}.{''.join(missing)}")


def size_of(value: float) -> str:
    """A cause in a word.

    >>> size_of(0.04), size_of(-0.2), size_of(0.3)
    ('slight', 'clear', 'strong')
    """
    return next(word for limit, word in SIZES if abs(value) < limit)


def supported(name: str, estimate: Estimate) -> bool:
    """Whether the interval of a cause supports it."""
    if name.startswith("total_error"):
        return estimate.low > NEGLIGIBLE
    return (estimate.low > 0 or estimate.high < 0) and not negligible(estimate)


def negligible(estimate: Estimate) -> bool:
    """Whether the interval of a cause lies within NEGLIGIBLE of 0."""
    return estimate.low > -NEGLIGIBLE and estimate.high < NEGLIGIBLE


def common_cause(name: str, measured: MeasureResult) -> Cause:
    """Stereotype or total error, which any number of groups has."""
    direction, label = "none", "errors without a direction"
    if not name.startswith("total_error"):
        follows = measured.value > 0
        direction, label = ("stereotypical", "follows stereotypes") if follows else ("anti-stereotypical",) * 2
    return Cause(name, direction, size_of(measured.value), label, measured.estimate)


def common_clause(cause: Cause, thing: str, *, first: bool) -> str:
    """The same two without a number; ``thing`` is what a word is."""
    if cause.name.startswith("total_error"):
        return f"makes {COUNTS[cause.size]} {'' if first else 'further '}errors that favour nobody"
    does = "follows" if cause.estimate.value > 0 else "goes against"
    return f"{ADVERBS[cause.size]} {does} stereotypes about {thing}s"


def common_sentence(cause: Cause, *, first: bool) -> str:
    """The beginning of a sentence about any cause: who does what; a suite adds its numbers."""
    subject, how = "It" if first else "It also", ADVERBS[cause.size]
    if cause.name.startswith("total_error"):
        return f"{subject} makes {COUNTS[cause.size]} {'' if first else 'further '}errors without a direction"
    if cause.direction == "anti-stereotypical":
        return f"{subject} is {how} anti-stereotypical"
    return f"{subject} {how} {cause.label}"


def _cause(name: str, measured: MeasureResult, readings: Sequence[ReadingRow]) -> Cause:
    if name in {"stereotype", "total_error"}:
        return common_cause(name, measured)
    group, noun = group_nouns(readings)[measured.value > 0]
    where = " for stereotyped jobs" if name == ELSEWHERE else ""
    return Cause(name, group, size_of(measured.value), f"assumes {with_article(noun)}{where}", measured.estimate)


def group_nouns(readings: Sequence[ReadingRow]) -> list[tuple[str, str]]:
    """The two groups with their nouns, in alphabetical order."""
    return sorted({(row.reading, row.noun) for row in readings if row.noun})


def _sentence(cause: Cause, readings: Sequence[ReadingRow], *, first: bool) -> str:
    share = {(row.stereotype, row.reading): percent(row.value) for row in readings}
    said, groups = common_sentence(cause, first=first), group_nouns(readings)
    if cause.name == "total_error":
        return f"{said} ({percent(cause.estimate.value)}, averaged over the kinds of jobs)."
    whose = {group: f"{with_article(noun)}'s" for group, noun in groups}
    if cause.name == "stereotype":
        # Class by class: an average over classes of 13 and 87 words is not a share of the sentences.
        read = [
            f"jobs stereotyped {kind} are read as {whose[kind]} in {share[kind, kind]} of the sentences, "
            f"as {whose[other]} in {share[kind, other]}"
            for (kind, _), (other, _) in (groups[::-1], groups)
        ]
        return f"{said}: {'; '.join(read)}."
    (other, _), (group, _) = sorted(groups, key=lambda pair: pair[0] == cause.direction)
    if cause.name == ELSEWHERE:
        read = [f"{share[kind, group]} of the sentences on jobs stereotyped {kind}" for kind, _ in groups]
        return f"{said}, of either kind: read as {whose[group]} are {' and '.join(read)}."
    return (
        f"{said}: jobs without any stereotype are read as {whose[group]} in {share[NO_STEREOTYPE, group]} of the "
        f"sentences, as {whose[other]} in {share[NO_STEREOTYPE, other]}."
    )


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
        clauses=[_clause(cause, result, first=at == 0) for at, cause in enumerate(verdict.causes)],
        even="reads a job as anybody's",
        things="jobs",
        bars=_bars(result),
        numbers=_numbers(result),
        example=typical_pair(sample, [*typical, sample.biased] if typical else [], by_id[~states_group[by_id]]),
        note="The right answer is always “neither”: a job says nothing about who does it.",
    )


def _clause(cause: Cause, result: CoalResult, *, first: bool) -> str:
    if cause.name in {"stereotype", "total_error"}:
        return common_clause(cause, "job", first=first)
    noun = with_article(dict(group_nouns(result.readings)).get(cause.direction, cause.direction))
    where = "in stereotyped jobs of either kind" if cause.name == ELSEWHERE else "where a job has no stereotype"
    return f"{ADVERBS[cause.size]} assumes {noun} {where}"


def _bars(result: CoalResult) -> list[Bar]:
    """A bar per class of jobs; words that state a group are not part of the question."""
    groups = group_nouns(result.readings)
    contradicts = any(row.reading == INCOHERENT and row.value >= _SHOWN_FROM for row in result.readings)
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
    """The three causes; a lean is shown without its sign, which is in its name."""
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
            "total_error": ("Errs without a direction", "wrong answers that cancel out or contradict each other"),
        }
        name, meaning = texts[cause]
        numbers.append(plain_fact(name, estimate, meaning))
    return numbers


def typical_answers(cause: Cause, sample: Sample) -> NDArray[np.bool_]:
    """The answers that a cause is made of, in whichever of the two suites."""
    entailed, subset = sample.predicted == LABELS.index(ENTAILMENT), partial(sample.where, "subset")
    if cause.name in {"stereotype", "stereotype_n"}:
        return np.asarray(entailed & subset("PS" if cause.estimate.value > 0 else "AS"))
    if cause.name.startswith("total_error"):
        return ~sample.is_neutral
    own = subset("PS") | subset("AS") if cause.name == ELSEWHERE else subset("NS")
    return np.asarray(entailed & own & sample.where("group", cause.direction))


def first_screen(
    result: SuiteResult, verdict: Verdict, *, clauses: Sequence[str], even: str, things: str, **parts: Any
) -> Summary:
    """A clause for each cause, joined to a sentence; ``even`` is what a model without a lean almost never does."""
    sentence = verdict.sentence
    if clauses:
        *before, last = clauses
        sentence = f"This model {', '.join(before)} and {last}." if before else f"This model {last}."
    elif verdict.code == "even":
        sentence = f"This model almost never {even}: no lean was found on these sentences."
    elif verdict.code == "undecided":
        sentence = "Undecided: these sentences cannot tell this model's leans from chance."
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
    about = f"a typical one of {rows.size:,} pairs with this kind of answer"
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
