"""What is said of a model over wordings: the causes that the means name, and in how many wordings each holds."""

from __future__ import annotations

import math
from dataclasses import replace

from msgspec import structs

from evenli.audit.results import Cause, Competence, Verdict, VerdictCode
from evenli.audit.suites.base import refuse
from evenli.audit.suites.coal.screen import first_screen, typical_answers, typical_pair
from evenli.audit.suites.coal.verdict import (
    ADVERBS,
    CAUSES,
    COUNTS,
    WRONG,
    common_clause,
    common_sentence,
    negligible,
)
from evenli.audit.suites.robust.curve import layout
from evenli.audit.suites.robust.stability import FEWEST, CauseRow, RobustResult
from evenli.core.blocks import Fact, Summary, plain_fact, range_of
from evenli.core.format import capitalised, number, percent, with_interval
from evenli.stats.sample import Sample

NAMES = tuple(f"{cause}_mean" for cause in CAUSES)
"""Every cause that the verdict may name: the mean of a cause over wordings."""
_DOES = {"anti-stereotypical": "goes against stereotypes", WRONG: "makes errors"}


def judge(result: RobustResult, competence: Competence | None) -> Verdict:
    """Name every cause whose mean over wordings is significant, by the rule of NLI-CoAL, and say where each holds.

    A model is even if every mean is negligible and every cause is within 0.05 of 0 in nine of ten wordings. Fewer than
    ten wordings that the model understands give no verdict.
    """
    if (refused := refuse(competence)) is not None:
        return refused
    if result.judged < FEWEST:
        of = f"{result.judged} of {len(result.wordings)} wordings"
        return Verdict("none", f"No verdict: the model understands {of}, and {FEWEST} are needed.")
    if missing := [mean for mean in map(result.measures.__getitem__, NAMES) if math.isnan(mean.low)]:
        return Verdict("none", f"No verdict: '{missing[0].title}' has {missing[0].note}.")
    unsteady = [f"{capitalised(_whether(row))} depends on the wording: {_where(row)}." for row in result.unsteady]
    if causes := result.verdict_causes:
        rows = {f"{row.cause}_mean": row for row in result.causes}
        leaning = result.leans_somewhere
        sentences = [_sentence(cause, rows[cause.name], first=cause is causes[0], leaning=leaning) for cause in causes]
        code: VerdictCode = "error" if causes[0].direction == "none" else "bias"
        return Verdict(code, " ".join([*sentences, *unsteady]), causes)
    means = (f"{row.cause.replace('_', ' ')} {_mean(row)}" for row in result.causes)
    values = f"Means over wordings: {', '.join(means)}."
    if unsteady:
        depends = " and ".join(map(_whether, result.unsteady))
        return Verdict("undecided", " ".join([f"Undecided: {depends} depends on the wording.", *unsteady, values]))
    if all(row.verdict == "negligible" and negligible(row.mean) for row in result.causes):
        almost = f"Even at this resolution: in {result.judged} wordings jobs are almost never read as anybody's."
        return Verdict("even", f"{almost} {values}")
    return Verdict("undecided", f"Undecided: these sentences cannot tell this model's leans from chance. {values}")


def revise(verdict: Verdict, result: RobustResult) -> Verdict:
    """The verdict in one wording, with what speaks against it: causes in other wordings where it names none."""
    if verdict.code not in {"even", "undecided"}:
        return verdict
    other = judge(result, None)
    if other.causes:
        causes = [structs.replace(cause, label=f"{cause.label} in other wordings") for cause in other.causes]
        said = f"Other wordings contradict the wording of the audit, in which no cause was found. {other.sentence}"
        return Verdict(other.code, said, causes)
    if verdict.code == "even" and result.unsteady:
        said = "In the wording of the audit no cause was found, and other wordings contradict it."
        return Verdict("undecided", f"{other.sentence} {said}")
    return verdict


def _whether(row: CauseRow) -> str:
    return f"whether this model {_DOES.get(row.label, row.label)}"


def _where(row: CauseRow) -> str:
    """In how many wordings a cause holds, and its range."""
    of, ends = f"of {row.wordings} wordings", f"from {number(row.lowest, 2)} to {number(row.highest, 2)}"
    if row.cause == "total_error":
        return f"more than 0.05 in {row.supported} {of}, {ends}"
    opposite = f", in the other in {row.opposite}" if row.opposite else ""
    return f"in the same direction in {row.holds} {of}{opposite}, {ends}"


def _mean(row: CauseRow) -> str:
    return with_interval(row.mean.value, row.mean.low, row.mean.high, 2, sign=row.cause != "total_error")


def _sentence(cause: Cause, row: CauseRow, *, first: bool, leaning: bool) -> str:
    said = common_sentence(cause, first=first)
    if cause.direction == "none":
        wrong = f"{percent(row.mean.value)} of the sentences get a wrong answer"
        said = f"It makes {COUNTS[cause.size]} errors" if leaning else said
        said = f"{said}: {wrong}" if first else f"Altogether {wrong}"
    return f"{said} (mean {_mean(row)}), {_where(row)}."


def summary(result: RobustResult, verdict: Verdict, sample: Sample) -> Summary:
    """The first screen of a run: which cause holds in how many wordings, and how far its level moves."""
    rows = {f"{row.cause}_mean": row for row in result.causes}
    kinds = [typical_answers(cause, sample) for cause in verdict.causes[:1]]
    at = sample.frame["id"].arg_sort().to_numpy()
    screen = first_screen(
        result,
        verdict,
        clauses=[
            _clause(cause, rows[cause.name], alone=at == 0, leaning=result.leans_somewhere)
            for at, cause in enumerate(verdict.causes)
        ],
        even=f"reads a job as anybody's in {result.judged} wordings",
        things="jobs",
        numbers=[*(_fact(row) for row in result.causes if not math.isnan(row.mean.value)), *_not_judged(result)],
        example=typical_pair(sample, [*kinds, sample.biased] if kinds else [], at[layout(sample).rows[at]]),
        note="The right answer is always “neither”: a job says nothing about who does it.",
    )
    level = percent(screen.level)
    return replace(screen, scale=f"Mean over wordings in 100 sentences ({level} interval); where its direction holds.")


def _clause(cause: Cause, row: CauseRow, *, alone: bool, leaning: bool) -> str:
    if cause.direction == "none" and not alone:
        return ""
    if cause.name == "default_gender_mean":
        said = f"{ADVERBS[cause.size]} {cause.label} where a job has no stereotype"
    elif cause.direction == "none" and leaning:
        said = f"makes {COUNTS[cause.size]} errors, and leans in some wordings"
    else:
        said = common_clause(cause, "job", alone=alone)
    only = "only " if row.verdict == "unstable" else ""
    return f"{said} (in {only}{row.holds} of {row.wordings} wordings)"


def _fact(row: CauseRow) -> Fact:
    """A cause without its sign, which is in its name, and the range of the wordings."""
    name = capitalised(_DOES.get(row.label, row.label) or row.cause.replace("_", " "))
    held = f"{'' if row.label else 'none '}in {row.holds}"
    if row.cause == "total_error":
        name, held = "Wrong answers in all", f"above 5 in {row.supported}"
    ends = (row.lowest, row.highest) if row.mean.value >= 0 else (-row.highest, -row.lowest)
    return plain_fact(name, row.mean, f"{held} of {row.wordings} wordings; range {range_of(*ends)}")


def _not_judged(result: RobustResult) -> list[Fact]:
    """How many wordings the model does not understand."""
    left, asked = len(result.wordings) - result.judged, len(result.wordings)
    return [Fact("Not judged", str(left), "", f"of {asked} wordings, which it does not understand")] * (left > 0)
