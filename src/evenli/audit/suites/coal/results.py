"""What NLI-CoAL adds to its measures: how jobs are read, occupations, published models, and how they are shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from statistics import median

import msgspec
import numpy as np
from numpy.typing import NDArray

from evenli.audit.results import DataCard, SuiteResult
from evenli.audit.suites.base import SHOWN_LABELS, Section, Value, with_ends
from evenli.audit.suites.coal.breakdown import by_occupation
from evenli.audit.suites.coal.causes import DEFINING, EVEN, FIRST, INCOHERENT, OUTCOMES, SECOND, items, share
from evenli.core.estimate import Estimate, MeasureResult, Scoring
from evenli.core.format import interval, number, with_interval
from evenli.core.labels import LABELS
from evenli.core.record import Number, Numbers, Record
from evenli.stats.intervals import estimate_functions, minimum_detectable_difference
from evenli.stats.sample import Sample, Values
from evenli.words import read_table
from evenli.words.axes import NO_STEREOTYPE

SUBSET_NAMES = {"PS": "pro-stereotypical", "AS": "anti-stereotypical", "NS": "non-stereotypical"}
_LISTED = 5
"""Occupations named in a line; results.json has all of them."""
_ALIKE = 0.9
"""Correlation of the scores of two versions of one model, over other occupations and templates."""


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
    states_group: bool
    """The word itself states a group, so that the right answer is not neutral; it is in none of the causes."""


class PublishedRow(Record, frozen=True):
    """A published model, or this one among them. ``tied``: its score lies inside this model's interval."""

    model: str
    coal: Number
    fn: Number
    this: bool
    tied: bool


class ReadingRow(Record, frozen=True):
    """How often the jobs of one class are read in one way.

    Attributes:
        stereotype: A group, ``neutral``, or ``defining`` for words that state a group themselves.
        reading: The group whose job it is taken for, ``incoherent`` or ``even``.
        noun: How an English sentence calls that group; empty for the other two.
        items: Sentences, each asked with both groups.
        value: Share of the items.
        low: Lower end of its interval.
        high: Upper end.
    """

    stereotype: str
    reading: str
    noun: str
    items: int
    value: Number
    low: Number
    high: Number


class ShareRow(Record, frozen=True):
    """How often one label is given.

    Attributes:
        set: PS, AS or NS.
        group: Group in the hypothesis; empty for all.
        label: The answer.
        pairs: Pairs of the set and group.
        value: Share of the pairs.
        low: Lower end of its interval.
        high: Upper end.
    """

    set: str
    group: str
    label: str
    pairs: int
    value: Number
    low: Number
    high: Number


class CoalResult(SuiteResult, frozen=True, kw_only=True):
    """Results of NLI-CoAL.

    Attributes:
        proportions: Share of each label per set.
        rows: Pairs per set.
        order_condition: Do errors follow the stereotype?
        minimum_detectable_difference: Smallest difference to another model that a paired comparison would detect.
        occupations: One row each, most biased first: stereotyped words, other words, words that state a group.
        published: Published models with this one among them, most biased first; a model without competence is not.
        readings: How jobs are read: as a job of which group.
        shares: ``proportions`` with intervals, also by group.
        notes: What is left out of the causes.
    """

    proportions: dict[str, Numbers]
    rows: dict[str, int]
    order_condition: OrderCondition
    minimum_detectable_difference: Number
    occupations: list[OccupationRow]
    published: list[PublishedRow]
    readings: list[ReadingRow]
    shares: list[ShareRow]
    notes: list[str]

    def __post_init__(self) -> None:
        """A model that is not competent does not stand among published ones."""
        super().__post_init__()
        if self.problem and any(row.this for row in self.published):
            msgspec.structs.force_setattr(self, "published", [row for row in self.published if not row.this])


def summarise(
    sample: Sample, measures: dict[str, MeasureResult], scoring: Scoring, card: DataCard | None
) -> CoalResult:
    """The result of a run."""
    frame = sample.frame
    order = [measures["order_entailment"], measures["order_contradiction"]]
    is_defined = not any(math.isnan(one.value) for one in order)
    is_bounded = not any(math.isnan(one.low) for one in order)
    asked = items(sample)
    listed = by_occupation(sample, scoring.level).to_dicts()
    occupations = [OccupationRow(**row, states_group=row["occupation"] in asked.defining) for row in listed]
    # The sort is stable: within each kind the most biased stay first.
    occupations.sort(key=lambda row: (row.states_group, row.stereotype == NO_STEREOTYPE))
    return CoalResult(
        measures=measures,
        proportions={
            subset: {label: float(sample.rate(label, subset)) for label in LABELS}
            for subset in frame["subset"].unique(maintain_order=True)
        },
        rows={str(key): int(n) for key, n in frame.group_by("subset", maintain_order=True).len().iter_rows()},
        order_condition=OrderCondition(
            all(one.value > 0 for one in order) if is_defined else None,
            all(one.low > 0 for one in order) if is_bounded else None,
        ),
        minimum_detectable_difference=minimum_detectable_difference(measures["coal"]),
        occupations=occupations,
        # Scores on other words say nothing about the order of the models.
        published=published(card.lang, measures["coal"]) if card and not card.occupation_list else [],
        readings=readings(sample, scoring),
        shares=label_shares(sample, scoring),
        notes=asked.notes,
    )


def readings(sample: Sample, scoring: Scoring) -> list[ReadingRow]:
    """The shares of all readings per class of jobs; none where there are not two groups."""
    asked = items(sample)
    if len(asked.groups) != 2:
        return []
    names = {FIRST: asked.groups[0], SECOND: asked.groups[1], INCOHERENT: INCOHERENT, EVEN: EVEN}
    classes = [name for name in (*asked.groups, NO_STEREOTYPE, DEFINING) if (asked.classes == name).any()]
    functions = {(name, kind): partial(share, name=name, outcome=kind) for name in classes for kind in OUTCOMES}
    rows = []
    for (name, kind), one in estimate_functions(sample, functions, (0, 1), scoring).items():
        count = int((asked.classes == name).sum())
        noun = asked.nouns.get(names[kind], "")
        rows.append(ReadingRow(name, names[kind], noun, count, one.value, one.low, one.high))
    return rows


def label_shares(sample: Sample, scoring: Scoring) -> list[ShareRow]:
    """The share of every label in every set, over all pairs and by the group in the hypothesis."""
    subsets = sample.frame["subset"].unique(maintain_order=True).to_list()
    groups = ["", *sorted(sample.frame["group"].drop_nulls().unique())]
    of_row = sample.frame["group"].fill_null("").to_numpy()
    masks = {
        (subset, group): sample.where("subset", subset) & ((of_row == group) | (group == ""))
        for subset in subsets
        for group in groups
    }

    def value(sample: Sample, rows: NDArray[np.bool_], label: str) -> Values:
        return sample.mean((sample.predicted == LABELS.index(label)).astype(np.float32), rows=rows)

    functions = {
        (*key, label): partial(value, rows=rows, label=label) for key, rows in masks.items() for label in LABELS
    }
    estimates = estimate_functions(sample, functions, (0, 1), scoring)
    counts = {key: int(rows.sum()) for key, rows in masks.items()}
    return [
        ShareRow(*key, counts[key[:2]], one.value, one.low, one.high)
        for key, one in estimates.items()
        if counts[key[:2]]
    ]


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
    """How jobs are read, label shares, order condition, published models, occupations."""
    parts = [*_readings(result), _labels(result)]
    order = result.order_condition
    state = "holds beyond doubt" if order.beyond_doubt else "holds, within uncertainty" if order.holds else "fails"
    if order.holds is None:
        state = "is undefined"
    worst = [row for row in result.occupations if row.stereotype != NO_STEREOTYPE and not row.states_group][:_LISTED]
    named = ", ".join(f"{row.occupation} {with_interval(row.score, row.low, row.high, 2)}" for row in worst)
    order_line = (
        f"Order condition (e_p > e_a and c_a > c_p) {state}. "
        f"{detectable_difference(result.minimum_detectable_difference)}"
    )
    parts.append(Section("", lines=[order_line]))
    occupations_line = f"Most stereotyped occupations: {named or 'n/a'}"
    if len(result.published) < 2 or result.problem:
        return [*parts, Section("", lines=[occupations_line])]
    remark = "" if card is not None and card.name.startswith("official") else " (which were scored on the official set)"
    marks = [
        (row.model, number(row.coal), "◀" if row.this else "within the interval" if row.tied else "")
        for row in result.published
    ]
    this = frozenset(index for index, row in enumerate(result.published) if row.this)
    heading = f"Among the published models{remark}"
    return [*parts, Section(heading, ("model", ">NLI-CoAL", ""), marks, [occupations_line], this)]


def _readings(result: CoalResult) -> list[Section]:
    """A table of how jobs are read, a row per class; none where there are not two groups."""
    if not result.readings:
        return []
    kinds = sorted({(row.reading, row.noun) for row in result.readings}, key=lambda kind: (not kind[1], kind))
    kinds.sort(key=lambda kind: kind[0] == EVEN)
    titles = {kind: f"{noun}'s" if noun else "neither" if kind == EVEN else kind for kind, noun in kinds}
    names = {NO_STEREOTYPE: "no stereotype", DEFINING: "word states it"}
    rows = []
    for stereotype in dict.fromkeys(row.stereotype for row in result.readings):
        of = {row.reading: row for row in result.readings if row.stereotype == stereotype}
        shown = [with_interval(of[kind].value, of[kind].low, of[kind].high, 2) for kind in titles]
        rows.append([names.get(stereotype, f"{stereotype} stereotype"), str(next(iter(of.values())).items), *shown])
    columns = ("job", ">sentences", *(f">{title}" for title in titles.values()))
    heading = "Whose job is it, to the model? Share of the sentences; an even model says neither"
    return [Section(heading, columns, rows, result.notes)]


def _labels(result: CoalResult) -> Section:
    """Label shares per set with intervals; those without a stereotype also by group."""
    intervals = {(row.set, row.group, row.label): row for row in result.shares}

    def shown(subset: str, group: str, shares: Mapping[str, float]) -> list[str]:
        by_label = {label: intervals[subset, group, label] for label in SHOWN_LABELS}
        return [f"{number(shares[at])} {interval(row.low, row.high, 2)}" for at, row in by_label.items()]

    rows = []
    for subset, of in result.proportions.items():
        name = f"{subset} {SUBSET_NAMES.get(subset, '')}".strip()
        rows.append([name, str(result.rows[subset]), *shown(subset, "", of)])
        # Only without a stereotype does the group say something that PS and AS do not say already.
        by_group = {row.group: row.pairs for row in result.shares if row.set == subset == "NS" and row.group}
        for group, pairs in by_group.items():
            shares = {row.label: row.value for row in result.shares if (row.set, row.group) == (subset, group)}
            rows.append([f"  hypothesis names {group}", str(pairs), *shown(subset, group, shares)])
    columns = ("set", ">pairs", *(f">{label}" for label in SHOWN_LABELS))
    return Section("Predicted labels (gold is always neutral)", columns, rows)


def detectable_difference(smallest: float) -> str:
    """What a comparison on this set would find, in a sentence; its assumption is one of ours and stands there."""
    if math.isnan(smallest):
        return "What difference a comparison would detect is unknown: NLI-CoAL has no interval."
    alike = smallest * math.sqrt(2 * (1 - _ALIKE))
    sizes = [number(one) if one >= 0.0005 else "less than 0.001" for one in (smallest, alike)]
    return (
        f"A paired comparison with another model on this set detects a difference of {sizes[0]} in NLI-CoAL (80% power"
        f", if the two vary alike and correlate by 0.5), of {sizes[1]} if they are alike (correlated by {_ALIKE:g})."
    )


def fields(result: CoalResult) -> dict[str, Value]:
    """What a gate can name beside the measures."""
    values: dict[str, Value] = {f"rows.{subset}": count for subset, count in result.rows.items()}
    for row in result.readings:
        values |= with_ends(f"readings.{row.stereotype}.{row.reading}", row)
    for subset, shares in result.proportions.items():
        values |= {f"proportions.{subset}.{label}": share for label, share in shares.items()}
    return {
        **values,
        "order_condition.holds": result.order_condition.holds,
        "order_condition.beyond_doubt": result.order_condition.beyond_doubt,
        "minimum_detectable_difference": result.minimum_detectable_difference,
        **{f"published.{name}": value for name, value in published_medians(result).items()},
    }


def published_medians(result: CoalResult) -> dict[str, float | None]:
    """The middle one of the published models of the language, for every score that was published; None without any."""
    names = {row.model for row in result.published if not row.this}
    rows = [row for row in read_table("published_coal.csv") if row["model"] in names]
    columns = {"coal": "coal_pub", "fn_bias": "fn_pub", "coal_pro": "ps_e", "coal_anti": "as_c", "coal_non": "ns_n"}
    values = {name: [float(row[column]) for row in rows] for name, column in columns.items()}
    values["coal_non"] = [1 - neutral for neutral in values["coal_non"]]
    return {name: median(of_models) if of_models else None for name, of_models in values.items()}
