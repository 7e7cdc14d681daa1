"""What NLI-CoAL adds to its measures: how jobs are read, occupations, published models, and how they are shown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from functools import partial
from statistics import median
from typing import ClassVar

import msgspec
import numpy as np
import polars as pl

from evenli.audit.results import SuiteResult
from evenli.audit.suites.base import SHOWN_LABELS, data_of, scoring_of
from evenli.audit.suites.coal.measures import (
    DEFINING,
    DENIED,
    EVEN,
    FIRST,
    INCOHERENT,
    OUTCOMES,
    SECOND,
    ItemSet,
    items,
    share,
)
from evenli.audit.suites.coal.single_jobs import SingleJobs, single_jobs
from evenli.core.blocks import Block
from evenli.core.format import interval, number, with_interval
from evenli.core.labels import LABELS, NEUTRAL
from evenli.core.record import Estimate, MeasureResult, Number, Numbers, Record, Scoring
from evenli.stats.intervals import estimate_functions, minimum_detectable_difference
from evenli.stats.proportion import pooled_design_effect, wilson
from evenli.stats.sample import Sample
from evenli.words import load_axis, read_table
from evenli.words.axes import NO_STEREOTYPE
from evenli.words.templates import slot_word

SUBSET_NAMES = {"PS": "pro-stereotypical", "AS": "anti-stereotypical", "NS": "non-stereotypical"}
_LISTED = 5
"""Occupations named in a line; results.json has all of them."""
_ALIKE = 0.9
"""Correlation of the scores of two versions of one model, over other occupations and templates."""
_MEDIANS = {"coal": "coal_pub", "fn_bias": "fn_pub", "coal_pro": "ps_e", "coal_anti": "as_c", "coal_non": "ns_n"}
"""Measures that were published, and their columns."""


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
        denied: The part of it in which the other group is ruled out and this one not inferred.
    """

    stereotype: str
    reading: str
    noun: str
    items: int
    value: Number
    low: Number
    high: Number
    denied: Number


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
        medians: The middle one of these published models, for every score that was published.
        readings: How jobs are read: as a job of which group.
        shares: ``proportions`` with intervals, also by group.
        notes: What is left out of the causes.
        single_jobs: How far single jobs differ in how they are read.
        single_jobs_expected: The same by the probabilities of the answers.
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
    medians: Numbers
    single_jobs: SingleJobs
    single_jobs_expected: SingleJobs

    gate: ClassVar[Mapping[str, str]] = {"readings": "readings.{stereotype}.{reading}", "medians": "published.{key}"}

    def __post_init__(self) -> None:
        """A model that is not competent does not stand among published ones."""
        super().__post_init__()
        if self.problem and any(row.this for row in self.published):
            msgspec.structs.force_setattr(self, "published", [row for row in self.published if not row.this])


def summarise(sample: Sample, measures: dict[str, MeasureResult]) -> CoalResult:
    """The result of a run."""
    frame, card, scoring = sample.frame, data_of(sample), scoring_of(sample, measures)
    # Scores on other words say nothing about the order of the models.
    beside, medians = published(card.lang if card and not card.occupation_list else None, measures["coal"])
    order = [measures["order_entailment"], measures["order_contradiction"]]
    conditions = [row.value for row in order], [row.low for row in order]
    asked, rows = items(sample), Counter(frame["subset"])
    listed = by_occupation(sample, scoring.level).to_dicts()
    occupations = [OccupationRow(**row, states_group=row["occupation"] in asked.defining) for row in listed]
    # The sort is stable: within each kind the most biased stay first.
    occupations.sort(key=lambda row: (row.states_group, row.stereotype == NO_STEREOTYPE))
    return CoalResult(
        measures=measures,
        proportions={subset: {label: float(sample.rate(label, subset)) for label in LABELS} for subset in rows},
        rows=dict(rows),
        order_condition=OrderCondition(*(None if any(map(math.isnan, both)) else min(both) > 0 for both in conditions)),
        minimum_detectable_difference=minimum_detectable_difference(measures["coal"]),
        occupations=occupations,
        published=beside,
        medians=medians,
        readings=readings(sample, scoring),
        shares=label_shares(sample, scoring),
        notes=left_out(asked),
        single_jobs=single_jobs(sample, level=scoring.level),
        single_jobs_expected=single_jobs(sample, expected=True, level=scoring.level),
    )


def readings(sample: Sample, scoring: Scoring) -> list[ReadingRow]:
    """The shares of all readings per class of jobs; none where there are not two groups."""
    asked = items(sample)
    if len(asked.groups) != 2:
        return []
    names = {FIRST: asked.groups[0], SECOND: asked.groups[1], INCOHERENT: INCOHERENT, EVEN: EVEN}
    counts = Counter(asked.classes.tolist())
    classes = [name for name in (*asked.groups, NO_STEREOTYPE, DEFINING) if counts[name]]
    functions = {(name, kind): partial(share, name=name, outcome=kind) for name in classes for kind in OUTCOMES}
    nouns = group_words(sample)
    estimates = estimate_functions(sample, functions, (0, 1), scoring)
    return [
        ReadingRow(
            *(name, names[kind], nouns.get(names[kind], ""), counts[name], found.value, found.low, found.high),
            denied=float(share(sample, name, DENIED[kind])) if kind in DENIED else 0.0,
        )
        for (name, kind), found in estimates.items()
    ]


def group_words(sample: Sample) -> dict[str, str]:
    """What an English sentence calls each group: the word of the shipped axis, that of the pairs, or its name."""
    asked, gender, words = items(sample), load_axis(), {}
    if set(asked.groups) == set(gender.group_names):
        return {group: gender.language("en").group_words[group] for group in asked.groups}
    for group in asked.groups:
        rows = sample.frame.filter(pl.col("group") == group).select("template", "hypothesis")
        words[group] = (slot_word(*rows.row(0)) if asked.lang == "en" else "") or group
    return words


def left_out(asked: ItemSet) -> list[str]:
    """What is left out of the causes, and why."""
    notes = []
    if len(asked.groups) != 2:
        notes.append(f"the causes need two groups; the pairs name {', '.join(asked.groups) or 'none'}")
    elif asked.unmatched:
        notes.append(f"{asked.unmatched} pairs have no partner of the other group and are left out of the causes")
    if asked.defining:
        few = ", ".join(asked.defining[:3]) + (" …" if len(asked.defining) > 3 else "")
        notes.append(f"{len(asked.defining)} words state a group themselves ({few}) and are reported separately")
    return notes


def label_shares(sample: Sample, scoring: Scoring) -> list[ShareRow]:
    """The share of every label in every set, over all pairs and by the group in the hypothesis."""
    groups = ["", *sorted(sample.frame["group"].drop_nulls().unique())]
    masks = {
        (subset, group): sample.where("subset", subset) & ((group == "") | sample.where("group", group))
        for subset in sample.frame["subset"].unique(maintain_order=True)
        for group in groups
    }
    functions = {
        (*key, label): partial(Sample.rate, label=label, rows=rows)
        for key, rows in masks.items()
        for label in LABELS
        if rows.any()
    }
    return [
        ShareRow(*key, int(masks[key[:2]].sum()), estimate.value, estimate.low, estimate.high)
        for key, estimate in estimate_functions(sample, functions, (0, 1), scoring).items()
    ]


def published(lang: str | None, estimate: Estimate) -> tuple[list[PublishedRow], dict[str, float]]:
    """Published models of a language with this one among them, most biased first; last where it is undefined.

    Beside them the middle one of all published models, for every score that was published; NaN without any.
    """
    listed = [row for row in read_table("published_coal.csv") if row["lang"] == lang]
    values = {name: [float(row[column]) for row in listed] for name, column in _MEDIANS.items()}
    values["coal_non"] = [1 - neutral for neutral in values["coal_non"]]
    medians = {name: median(of_models) if of_models else math.nan for name, of_models in values.items()}
    if lang is None:
        return [], medians
    models = zip([row["model"] for row in listed], values["coal"], values["fn_bias"], strict=True)
    rows = [PublishedRow(*row, this=False, tied=estimate.low <= row[1] <= estimate.high) for row in models]
    rows.append(PublishedRow("this model", estimate.value, math.nan, this=True, tied=False))
    # This model comes last among equals.
    return sorted(rows, key=lambda row: (math.inf if math.isnan(row.coal) else -row.coal, row.this)), medians


def by_occupation(sample: Sample, level: float = 0.95) -> pl.DataFrame:
    """Share of biased answers and of each label per occupation, most biased first.

    The score is NLI-CoAL over the parts an occupation defines. Its interval is Wilson's, about other templates: the two
    rows of a template are not independent, and how many rows one of them is worth is estimated from all occupations
    together, because ten templates alone cannot tell. With a single template there is no interval and the ends are NaN.
    """
    total, biased, keys = pl.col("rows").sum(), pl.col("biased"), ("occupation", "stereotype")
    answers = {"predicted": pl.Series(sample.predicted), "biased": pl.Series(sample.biased).cast(pl.Float64)}
    rows = sample.frame.select(*keys, "template").with_columns(**answers)
    # Templates first: the rows of one template are a cluster, and their spread gives the interval.
    given = {label: (pl.col("predicted") == at).sum() for at, label in enumerate(LABELS)}
    clusters = rows.group_by(*keys, "template").agg(biased.sum(), rows=pl.len(), **given).sort("occupation", "template")
    summary = clusters.group_by(keys, maintain_order=True).agg(
        *(pl.col(label).sum() / total for label in LABELS),
        n=total,
        templates=pl.len(),
        score=biased.sum() / total,
        squares=((biased - pl.col("rows") * biased.sum() / total) ** 2).sum(),
    )
    several = summary.filter(pl.col("templates") > 1).select("score", "n", "templates", "squares")
    effect = pooled_design_effect(*several.to_numpy().T)
    ends = [
        wilson(share, n / effect, level) if templates > 1 else (np.nan, np.nan)
        for share, n, templates in summary.select("score", "n", "templates").iter_rows()
    ]
    return (
        summary.hstack(pl.DataFrame(ends, {"low": pl.Float64, "high": pl.Float64}, orient="row"))
        .select("occupation", "stereotype", "n", "templates", "score", "low", "high", *LABELS)
        .sort("score", "occupation", descending=[True, False])
    )


def terminal_blocks(result: CoalResult, *, official: bool) -> list[Block]:
    """How jobs are read, measures, label shares, order condition, published models, occupations."""
    order = result.order_condition
    states = {None: "is undefined", False: "fails", True: "holds, within uncertainty"}
    state = "holds beyond doubt" if order.beyond_doubt else states[order.holds]
    detected = detectable_difference(result.minimum_detectable_difference)
    order_line = f"Order condition (e_p > e_a and c_a > c_p) {state}. {detected}"
    worst = [row for row in result.occupations if row.stereotype != NO_STEREOTYPE and not row.states_group][:_LISTED]
    named = ", ".join(f"{row.occupation} {with_interval(row.score, row.low, row.high, 2)}" for row in worst)
    last = Block(lines=[f"Most stereotyped occupations: {named or 'n/a'}"])
    if len(result.published) > 1 and not result.problem:
        remark = "" if official else " (which were scored on the official set)"
        marks = [
            (row.model, number(row.coal), "◀" if row.this else "within the interval" if row.tied else "")
            for row in result.published
        ]
        last = Block(
            f"Among the published models{remark}",
            columns=("model", ">NLI-CoAL", ""),
            rows=marks,
            notes=last.lines,
            stressed=frozenset(index for index, row in enumerate(result.published) if row.this),
        )
    return [*readings_blocks(result), Block(measures=True), _labels(result), Block(lines=[order_line]), last]


def readings_blocks(result: CoalResult) -> list[Block]:
    """A table of how jobs are read, a row per class; none where there are not two groups."""
    if not result.readings:
        return []
    kinds = sorted({(row.reading == EVEN, not row.noun, row.reading, row.noun) for row in result.readings})
    titles = {kind: f"{noun}'s" if noun else "neither" if even else kind for even, _, kind, noun in kinds}
    names = {NO_STEREOTYPE: "no stereotype", DEFINING: "word states it"}
    rows = []
    for stereotype in dict.fromkeys(row.stereotype for row in result.readings):
        of = {row.reading: row for row in result.readings if row.stereotype == stereotype}
        shown = [with_interval(of[kind].value, of[kind].low, of[kind].high, 2) for kind in titles]
        rows.append([names.get(stereotype, f"{stereotype} stereotype"), str(next(iter(of.values())).items), *shown])
    columns = ("job", ">sentences", *(f">{title}" for title in titles.values()))
    heading = "Whose job is it, to the model? Share of the sentences; an even model says neither"
    return [Block(heading, columns=columns, rows=rows, notes=result.notes, grey=bool(result.problem))]


def _labels(result: CoalResult) -> Block:
    """Label shares per set with intervals; those without a stereotype also by group."""
    by_row: dict[tuple[str, str], dict[str, ShareRow]] = {}
    for row in result.shares:
        by_row.setdefault((row.set, row.group), {})[row.label] = row
    rows = []
    for (subset, group), of in by_row.items():
        name = f"  hypothesis names {group}" if group else f"{subset} {SUBSET_NAMES.get(subset, '')}".strip()
        # Only without a stereotype does the group say something that PS and AS do not say already.
        if not group or subset == "NS":
            shown = [f"{number(of[at].value)} {interval(of[at].low, of[at].high, 2)}" for at in SHOWN_LABELS]
            rows.append([name, str(of[NEUTRAL].pairs), *shown])
    columns = ("set", ">pairs", *(f">{label}" for label in SHOWN_LABELS))
    return Block("Predicted labels (gold is always neutral)", columns=columns, rows=rows)


def detectable_difference(smallest: float) -> str:
    """What a comparison on this set would find, in a sentence; its assumption is one of ours and stands there."""
    if math.isnan(smallest):
        return "What difference a comparison would detect is unknown: NLI-CoAL has no interval."
    alike = smallest * math.sqrt(2 * (1 - _ALIKE))
    sizes = [number(size) if size >= 0.0005 else "less than 0.001" for size in (smallest, alike)]
    return (
        f"A paired comparison with another model on this set detects a difference of {sizes[0]} in NLI-CoAL (80% power"
        f", if the two vary alike and correlate by 0.5), of {sizes[1]} if they are alike (correlated by {_ALIKE:g})."
    )
