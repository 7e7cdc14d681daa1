"""What is said of a model: the causes that the intervals support, and a first screen for a reader with ten seconds."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from evenli.audit.results import Cause, Competence, SuiteResult, Verdict, VerdictCode
from evenli.audit.suites.base import LIMIT, refuse
from evenli.audit.suites.coal.measures import EVEN, INCOHERENT
from evenli.audit.suites.coal.results import CoalResult, ReadingRow
from evenli.core.blocks import Bar, Example, Fact, Share, Summary, of_hundred, plain_fact
from evenli.core.format import p_value, percent, printable, with_interval
from evenli.core.labels import ENTAILMENT, LABELS
from evenli.core.record import Estimate, MeasureResult
from evenli.stats.intervals import holm
from evenli.stats.sample import Sample
from evenli.words.axes import NO_STEREOTYPE
from evenli.words.english import with_article

Key = TypeVar("Key", bound=Hashable)
CAUSES = ("stereotype", "default_gender", "total_error")
ELSEWHERE = "default_of_stereotyped"
"""Where stereotyped jobs lean to one group as a whole and the others do not, the default shows in this measure only."""
EXPECTED = "_expected"
"""The end of the name of a lean in the probabilities, where the likeliest answers have none."""
_ANSWERED = ("stereotype", "default_gender", ELSEWHERE)
LEANS = (*_ANSWERED, *(f"{name}{EXPECTED}" for name in _ANSWERED))
"""What a verdict tests, corrected for one another (Holm 1979)."""
UNSURE = f"total_error{EXPECTED}"
HESITANT = 0.3
"""A model whose answers are right is unsure if its probabilities read a gender in more than so many sentences."""
NEGLIGIBLE = 0.05
"""A cause whose interval lies within this of 0 is negligible: fewer than one sentence in twenty goes astray."""
SIZES = ((0.1, "slight"), (0.3, "clear"), (math.inf, "strong"))
"""Up to which value a cause has which size: one sentence in ten, and about one in three."""
WRONG = "wrong answers in all"
ADVERBS = {"slight": "slightly", "clear": "clearly", "strong": "strongly"}
COUNTS = {"slight": "a few", "clear": "some", "strong": "many"}
_SHOWN_FROM = 0.005  # contradicting answers get a part of their own where a bar has at least so many
_KINDS = ("first", "second")


def judge(result: CoalResult, competence: Competence | None) -> Verdict:
    """Name every lean that is significant after Holm's correction and not negligible, and the errors altogether.

    The total error, which is never below 0, is named if its interval lies above NEGLIGIBLE; that of the probabilities,
    where nothing else is named, if it lies above HESITANT. A model is even if every lean and the total error are
    negligible. Without a competence the gate is skipped.
    """
    if (refused := refuse(competence)) is not None:
        return refused
    main = result.measures["stereotype"]
    if math.isnan(main.value):
        why = "it needs PS and AS pairs of the same sentences"
        why = why if result.readings or not result.notes else result.notes[0]
        return Verdict("none", f"No verdict: 'stereotype' is {main.note}; {why}.")
    if math.isnan(main.low):
        return Verdict("none", f"No verdict: 'stereotype' has {main.note}.")
    error = result.measures["total_error"]
    leans = {name: result.measures[name].estimate for name in LEANS}
    leans |= {name: _of_either_kind(result.measures[name]) for name in (ELSEWHERE, f"{ELSEWHERE}{EXPECTED}")}
    defined = {name: lean for name, lean in leans.items() if not math.isnan(lean.low)}
    found = significant(defined, main.level)
    # What the answers say is said once: not again of the probabilities, nor of stereotyped jobs.
    found = [name for name in found if name.removesuffix(EXPECTED) == name or name.removesuffix(EXPECTED) not in found]
    usual = [lean for name, lean in defined.items() if name == "default_gender" and name in found]
    found = [name for name in found if ELSEWHERE not in name or not usual or usual[0].value * leans[name].value < 0]
    named = [_cause(name, defined[name], result) for name in sorted(found, key=lambda name: -abs(defined[name].value))]
    if above(error):
        named.append(error_cause("total_error", error))
    elif not named and result.measures[UNSURE].low > HESITANT:
        named.append(error_cause(UNSURE, result.measures[UNSURE]))
    missing = [
        f" {measured.title.capitalize()} cannot be judged: {measured.note}."
        for measured in map(result.measures.__getitem__, (*LEANS[:2], "total_error"))
        if math.isnan(measured.low)
    ]
    if named:
        code: VerdictCode = "bias" if found else "error"
        sentences = [_sentence(cause, result, first=cause is named[0]) for cause in named]
        return Verdict(code, " ".join(sentences) + "".join(missing), named)
    shown = {"stereotype": main, "default gender": result.measures["default_gender"], "total error": error}
    values = ", ".join(
        f"{title} {with_interval(of.value, of.low, of.high, 2, sign=title != 'total error')}"
        for title, of in shown.items()
        if not math.isnan(of.low)
    )
    if not missing and all(map(negligible, (*defined.values(), error))):
        almost = "Even at this resolution: jobs are almost never read as anybody's."
        return Verdict("even", f"{almost} All leans, and all wrong answers together, lie within 0.05 of 0: {values}.")
    unknown = "Undecided: these sentences cannot tell this model's leans from chance."
    return Verdict("undecided", f"{unknown} {values}.{''.join(missing)}")


def size_of(estimate: Estimate) -> str:
    """A cause in a word, by the end of its interval that is nearer to 0: what is certain, not what was drawn.

    >>> [size_of(Estimate(0.3, low, high, 0.1, 0.95, 9)) for low, high in ((0.02, 0.6), (0.2, 0.4), (0.3, 0.4))]
    ['slight', 'clear', 'strong']
    """
    near = max(0.0, estimate.low) if estimate.value > 0 else min(0.0, estimate.high)
    return next(word for limit, word in SIZES if abs(near) < limit)


def significant(leans: Mapping[Key, Estimate], level: float) -> list[Key]:
    """The leans whose p, corrected for the others by Holm's method, is significant, and which are not negligible."""
    corrected = holm([lean.p for lean in leans.values()])
    tested = zip(leans.items(), corrected, strict=True)
    return [key for (key, lean), p in tested if p < 1 - level and not negligible(lean)]


def supported(name: str, estimate: Estimate) -> bool:
    """Whether the interval of a cause supports it, where nothing else is tested beside it."""
    return above(estimate) if name.startswith("total_error") else bool(significant({name: estimate}, estimate.level))


def above(error: Estimate) -> bool:
    """Whether the interval of an error, which is never below 0, lies above NEGLIGIBLE."""
    return error.low > NEGLIGIBLE


def negligible(estimate: Estimate) -> bool:
    """Whether the interval of a cause lies within NEGLIGIBLE of 0."""
    return estimate.low > -NEGLIGIBLE and estimate.high < NEGLIGIBLE


def _of_either_kind(lean: MeasureResult) -> Estimate:
    """The lean of all stereotyped jobs, with the larger p of their two kinds.

    It is true of either kind only if both lean to the same side (an intersection-union test, Berger 1982).
    """
    kinds = list(lean.by_stereotype.values())
    alike = len({kind.value > 0 for kind in kinds}) == 1
    return structs.replace(lean.estimate, p=max(kind.p for kind in kinds) if alike else 1.0)


def error_cause(name: str, measured: Estimate) -> Cause:
    """The total error as a cause, which any number of groups has."""
    return Cause(name, "none", size_of(measured), WRONG, measured)


def stereotype_cause(name: str, measured: Estimate) -> Cause:
    """The stereotype as a cause, which any number of groups has."""
    follows = measured.value > 0
    direction, label = ("stereotypical", "follows stereotypes") if follows else ("anti-stereotypical",) * 2
    return Cause(name, direction, size_of(measured), label, measured)


def common_clause(cause: Cause, thing: str, *, alone: bool) -> str:
    """The same two without a number; ``thing`` is what a word is, ``alone`` whether no lean stands before the error."""
    if cause.direction == "none":
        return f"makes {COUNTS[cause.size]} errors in no consistent direction" if alone else ""
    does = "follows" if cause.estimate.value > 0 else "goes against"
    return f"{ADVERBS[cause.size]} {does} stereotypes about {thing}s"


def common_sentence(cause: Cause, *, first: bool) -> str:
    """The beginning of a sentence about any cause: who does what; a suite adds its numbers."""
    subject, how = "It" if first else "It also", ADVERBS[cause.size]
    if cause.direction == "none":
        return f"It makes {COUNTS[cause.size]} errors in no consistent direction"
    if cause.direction == "anti-stereotypical":
        return f"{subject} is {how} anti-stereotypical"
    return f"{subject} {how} {cause.label}"


def _cause(name: str, measured: Estimate, result: CoalResult) -> Cause:
    of, silent = name.removesuffix(EXPECTED), name.endswith(EXPECTED)
    if of == "stereotype":
        cause = stereotype_cause(name, measured)
        return structs.replace(cause, label=f"{cause.label} in its probabilities") if silent else cause
    (_, other), (group, noun) = group_nouns(result.readings)[:: 1 if measured.value > 0 else -1]
    where = " for stereotyped jobs" if of == ELSEWHERE else ""
    label = f"assumes {with_article(noun)}{where}"
    if silent:
        label = f"leans to {with_article(noun)}{where} in its probabilities"
    elif name == "default_gender" and _denies(_reading(result, NO_STEREOTYPE, group)):
        label = f"rules out {with_article(other)}"
    return Cause(name, group, size_of(measured), label, measured)


def group_nouns(readings: Sequence[ReadingRow]) -> list[tuple[str, str]]:
    """The two groups with their nouns, in alphabetical order."""
    return sorted({(row.reading, row.noun) for row in readings if row.noun})


def _reading(result: CoalResult, kind: str, reading: str) -> ReadingRow:
    """How often jobs of one class are read in one way."""
    return next(row for row in result.readings if (row.stereotype, row.reading) == (kind, reading))


def _denies(row: ReadingRow) -> bool:
    """Whether a group is mostly read from a job by ruling the other one out: it is not inferred itself."""
    return row.denied > row.value / 2


def _said(result: CoalResult, kind: str, *readings: str) -> str:
    """How the sentences of one class are read, in words."""
    rows, nouns = [_reading(result, kind, reading) for reading in readings], dict(group_nouns(result.readings))
    said = [f"as {with_article(row.noun)}'s in {percent(row.value)}" for row in rows]
    if any(map(_denies, rows)):
        others = [next(noun for group, noun in nouns.items() if group != row.reading) for row in rows]
        ruled = [f"{with_article(other)} in {percent(row.value)}" for other, row in zip(others, rows, strict=True)]
        return f"rule out {', '.join(ruled)} of the sentences"
    return " of the sentences, ".join([f"are read {said[0]}", *said[1:]]) + " of the sentences" * (len(said) == 1)


def _sentence(cause: Cause, result: CoalResult, *, first: bool) -> str:
    groups, number = group_nouns(result.readings), of_hundred(abs(cause.estimate.value))
    if cause.name == "total_error":
        wrong = f"a gender is read from a job in {percent(cause.estimate.value)} of the sentences"
        crossed = result.measures["contradictory"].value
        wrong += f"; {percent(crossed)} of all sentences get contradictory answers" if crossed >= _SHOWN_FROM else ""
        return f"{_error(cause, result)}: {wrong}." if first else f"Altogether {wrong}."
    if cause.name == UNSURE:
        return (
            "It answers “cannot know”, but is not sure of it: by its probabilities a gender is read from a job in "
            f"{number} of 100 sentences."
        )
    if cause.name.endswith(EXPECTED):
        to = cause.label.removesuffix(" in its probabilities")
        subject = "It answers “cannot know”, but" if first else "Where it answers “cannot know”, it"
        return f"{subject} {to}: expected {number} of 100 sentences, by its probabilities."
    said = common_sentence(cause, first=first)
    if cause.name == "stereotype":
        # Class by class: an average over classes of 13 and 87 words is not a share of the sentences.
        read = [
            f"jobs stereotyped {kind} {_said(result, kind, kind, other)}"
            for (kind, _), (other, _) in (groups[::-1], groups)
        ]
        return f"{said}: {'; '.join(read)}."
    (other, _), (group, _) = sorted(groups, key=lambda pair: pair[0] == cause.direction)
    if cause.name == ELSEWHERE:
        read = [f"jobs stereotyped {kind} {_said(result, kind, group)}" for kind, _ in groups]
        return f"{said}, of either kind: {', '.join(read)}."
    return f"{said}: jobs without any stereotype {_said(result, NO_STEREOTYPE, group, other)}."


def _error(cause: Cause, result: CoalResult) -> str:
    """What errors without a lean are: genders of single jobs, if those are more alike than by chance."""
    jobs = result.single_jobs
    if not jobs.p < 1 - cause.estimate.level:
        return common_sentence(cause, first=True)
    (_, first), (_, second) = group_nouns(result.readings)
    mostly = f"of {jobs.words} jobs it reads {jobs.first} mostly as {with_article(first)}'s, {jobs.second} mostly as "
    return f"It assigns genders to single jobs ({mostly}{with_article(second)}'s; p {p_value(jobs.p)})"


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
        return "answers “cannot know”, but is not sure of it"
    if cause.name.endswith(EXPECTED):
        to = cause.label.removesuffix(" in its probabilities")
        return f"answers “cannot know”, but {ADVERBS[cause.size]} {to} in its probabilities"
    if cause.name == "total_error" and alone and result.single_jobs.p < 1 - cause.estimate.level:
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
            "total_error": ("Wrong answers in all", "a gender is read from the job, whichever it is"),
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
