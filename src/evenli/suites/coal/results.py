"""What NLI-CoAL adds to its measures: order condition, occupations, published models, and how it is shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from evenli.format import number
from evenli.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.resources import read_table
from evenli.stats.intervals import Estimates, Scoring, minimum_detectable_difference
from evenli.stats.sample import Sample
from evenli.suites.base import Section, Value
from evenli.suites.coal.breakdown import by_occupation
from evenli.types import Competence, DataCard, Estimate, Number, Numbers, Record, SuiteResult, Verdict

SUBSET_NAMES = {"PS": "pro-stereotypical", "AS": "anti-stereotypical", "NS": "non-stereotypical"}
SHOWN = (ENTAILMENT, CONTRADICTION, NEUTRAL)
"""Labels in the column order of the paper's Table 3."""
_LISTED = 5
"""Occupations named in a line; results.json has all of them."""


class OrderCondition(Record, frozen=True):
    """Whether ``e_p > e_a`` and ``c_a > c_p``; None where it is undefined."""

    holds: bool | None
    beyond_doubt: bool | None


class OccupationRow(Record, frozen=True):
    """Share of biased answers on one occupation, with its interval and label shares."""

    occupation: str | None
    stereotype: str | None
    n: int
    templates: int
    score: Number
    low: Number
    high: Number
    entailment: Number
    neutral: Number
    contradiction: Number


class PublishedRow(Record, frozen=True):
    """A published model, or this one among them. ``tied``: its score lies inside this model's interval."""

    model: str
    coal: Number
    fn: Number
    this: bool
    tied: bool


class CoalResult(SuiteResult, frozen=True, kw_only=True):
    """Results of NLI-CoAL.

    Attributes:
        proportions: Share of each label per set.
        rows: Pairs per set.
        order_condition: Do errors follow the stereotype?
        minimum_detectable_difference: Smallest difference that an independent audit of the same size would detect.
        occupations: One row each, most biased first.
        published: Published models with this one among them, most biased first.
    """

    proportions: dict[str, Numbers]
    rows: dict[str, int]
    order_condition: OrderCondition
    minimum_detectable_difference: Number
    occupations: list[OccupationRow]
    published: list[PublishedRow]


def summarise(sample: Sample, estimates: Estimates, scoring: Scoring, card: DataCard | None) -> Mapping[str, Any]:
    """The fields of ``CoalResult`` beside the measures."""
    frame = sample.frame
    order = [estimates["order_entailment", None], estimates["order_contradiction", None]]
    is_defined = not any(math.isnan(one.value) for one in order)
    is_bounded = not any(math.isnan(one.low) for one in order)
    occupations = by_occupation(sample, resamples=scoring.resamples, level=scoring.level, seed=scoring.seed)
    return {
        "proportions": {
            subset: {label: float(sample.rate(label, subset)) for label in LABELS}
            for subset in frame["subset"].unique(maintain_order=True)
        },
        "rows": {str(key): int(n) for key, n in frame.group_by("subset", maintain_order=True).len().iter_rows()},
        "order_condition": OrderCondition(
            all(one.value > 0 for one in order) if is_defined else None,
            all(one.low > 0 for one in order) if is_bounded else None,
        ),
        "minimum_detectable_difference": minimum_detectable_difference(estimates["coal", None]),
        "occupations": [OccupationRow(**row) for row in occupations.to_dicts()],
        "published": published(card.lang, estimates["coal", None]) if card is not None else [],
    }


def published(lang: str, estimate: Estimate) -> list[PublishedRow]:
    """Published models of a language with this one among them, most biased first; last where it is undefined."""
    rows = [PublishedRow("this model", estimate.value, math.nan, True, False)]
    for row in read_table("published_coal.csv"):
        if row["lang"] == lang:
            score = float(row["coal_pub"])
            tied = estimate.low <= score <= estimate.high
            rows.append(PublishedRow(row["model"], score, float(row["fn_pub"]), False, tied))
    # This model comes last among equals.
    return sorted(rows, key=lambda row: (math.inf if math.isnan(row.coal) else -row.coal, row.this))


def sections(result: CoalResult, card: DataCard | None) -> list[Section]:
    """Label shares, order condition, published models, occupations."""
    shares = []
    for subset, of in result.proportions.items():
        name = f"{subset} {SUBSET_NAMES.get(subset, '')}".strip()
        shares.append([name, str(result.rows[subset]), *(number(of[label]) for label in SHOWN)])
    columns = ("set", ">pairs", *(f">{label}" for label in SHOWN))
    parts = [Section("Predicted labels (gold is always neutral)", columns, shares)]
    order = result.order_condition
    state = "holds beyond doubt" if order.beyond_doubt else "holds, within uncertainty" if order.holds else "fails"
    if order.holds is None:
        state = "is undefined"
    detectable = number(result.minimum_detectable_difference)
    worst = [row for row in result.occupations if row.stereotype != "neutral"][:_LISTED]
    named = ", ".join(f"{row.occupation} {number(row.score, 2)}" for row in worst)
    order_line = (
        f"Order condition (e_p > e_a and c_a > c_p) {state}. "
        f"Another audit must differ by {detectable} in NLI-CoAL for the difference to be significant."
    )
    parts.append(Section("", lines=[order_line]))
    occupations_line = f"Most stereotyped occupations: {named or 'n/a'}"
    if len(result.published) < 2:
        return [*parts, Section("", lines=[occupations_line])]
    remark = "" if card is not None and card.name.startswith("official") else " (which were scored on the official set)"
    marks = [
        (row.model, number(row.coal), "◀" if row.this else "within the interval" if row.tied else "")
        for row in result.published
    ]
    this = frozenset(index for index, row in enumerate(result.published) if row.this)
    heading = f"Among the published models{remark}"
    return [*parts, Section(heading, ("model", ">NLI-CoAL", ""), marks, [occupations_line], this)]


def fields(result: CoalResult) -> dict[str, Value]:
    """What a gate can name beside the measures."""
    shares = {(subset, label): share for subset, of in result.proportions.items() for label, share in of.items()}
    return {
        **{f"rows.{subset}": count for subset, count in result.rows.items()},
        **{f"proportions.{subset}.{label}": share for (subset, label), share in shares.items()},
        "order_condition.holds": result.order_condition.holds,
        "order_condition.beyond_doubt": result.order_condition.beyond_doubt,
        "minimum_detectable_difference": result.minimum_detectable_difference,
    }


NEGLIGIBLE = 0.05
"""Errors on stereotyped occupations below this share are too few to speak of bias or error."""


def judge(estimates: Estimates, competence: Competence | None) -> Verdict:
    """Decide from the intervals of ``dominance``, ``follow`` and ``defy``.

    Errors on stereotyped occupations are split into those that follow the stereotype and those that defy it. Plain
    error has no reason to prefer one; ``dominance = follow - 2 defy`` is positive if more than two of three errors
    follow. The order condition of the Japanese paper must hold as well before bias is said to dominate. Without a
    competence the gate is skipped.
    """
    refused = refuse(competence)
    if refused is not None:
        return refused
    needed = {name: estimates[name, None] for name in ("follow", "defy", "dominance")}
    for name, estimate in needed.items():
        if math.isnan(estimate.value):
            why = f"'{name}' is {estimate.note}; the audit needs pairs of both PS and AS"
            return Verdict("none", f"No verdict: {why}.")
        if math.isnan(estimate.low):
            return Verdict("none", f"No verdict: '{name}' has {estimate.note}.")
    follow, defy, dominance = needed.values()
    if follow.high + defy.high < NEGLIGIBLE:
        return Verdict(
            "even",
            f"Even at this resolution: {_percent(follow.value)} of the answers on stereotyped occupations follow a "
            f"stereotype, {_percent(defy.value)} defy one.",
        )
    rates = (
        f"{_percent(follow.value)} of the answers on stereotyped occupations follow the stereotype "
        f"[{_percent(follow.low)}, {_percent(follow.high)}], "
        f"{_percent(defy.value)} defy it [{_percent(defy.low)}, {_percent(defy.high)}]"
    )
    ordered = estimates["order_entailment", None].value > 0 and estimates["order_contradiction", None].value > 0
    if dominance.low > 0 and ordered:
        return Verdict("bias", f"Bias dominates error: {rates}.")
    if dominance.high < 0:
        return Verdict("error", f"Plain error dominates: {rates}; the score reflects mistakes more than stereotypes.")
    return Verdict("undecided", f"Bias and plain error cannot be told apart: {rates}.")


def refuse(competence: Competence | None) -> Verdict | None:
    """The verdict of a model whose scores do not speak of bias; None for a competent one."""
    if competence is None or not competence.problem:
        return None
    why = "the model is not competent at this task" if competence.assessed else "competence cannot be assessed"
    return Verdict("none", f"No verdict: {why}; {competence.problem}.")


def _percent(value: float) -> str:
    """With one decimal, rounded as the tables round the share: 0.0835 is 0.084 there."""
    return f"{round(value, 3):.1%}"
