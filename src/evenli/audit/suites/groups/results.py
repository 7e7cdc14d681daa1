"""What suite groups adds to its measures: a row per group, a permutation test, other raters, and how they are shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import msgspec
import numpy as np
import polars as pl

from evenli.audit.predictions import Predictions
from evenli.audit.results import DataCard, SuiteResult
from evenli.audit.suites.about import about_axis
from evenli.audit.suites.base import NS, PUBLISHED, SHOWN_LABELS, data_of, scoring_of, subset_of
from evenli.audit.suites.groups.build import STEREOTYPED
from evenli.audit.suites.groups.measures import (
    GroupItems,
    default_of,
    interaction_of,
    items,
    label_share,
    mean_distance,
    stereotype_of,
)
from evenli.core.blocks import Block
from evenli.core.format import UNDEFINED, number, p_value, with_interval
from evenli.core.labels import CONTRADICTION
from evenli.core.record import Estimate, MeasureResult, Number, Numbers, Record, Scoring
from evenli.stats.intervals import estimate_functions, estimate_measures
from evenli.stats.measure import get_measure
from evenli.stats.sample import Sample, Values
from evenli.words import load_axis
from evenli.words.axes import NO_STEREOTYPE, crossing, shipped_names
from evenli.words.templates import slot_word

PERMUTATIONS = 2_000
DEFAULT, RULED_OUT, INTERACTION = "default", "ruled_out", "interaction"
_COLUMNS = {
    "stereotype": "stereotype",
    "default": "default",
    "default_expected": "default, expected",
    "ruled_out": "ruled out",
    "ruled_out_expected": "ruled out, expected",
}


class GroupRow(Record, frozen=True):
    """One group; intervals hold for all groups at once (Bonferroni).

    Attributes:
        group: Its name.
        noun: What the hypotheses call it.
        words: Words stereotyped with it.
        default: How much more often it beats the others than they beat it, on words without stereotype; -1..1.
        default_expected: The same from probabilities.
        stereotype: The same on words stereotyped with it, against groups that they are not stereotyped with.
        ruled_out: Share of contradiction minus the mean share of the other groups, over all words; -1..1.
        ruled_out_expected: The same from probabilities.
        answers: Shares of the three labels over all its pairs, each with an interval of its own.
        pairs: How many pairs ask for it.
    """

    group: str
    noun: str
    words: int
    default: Estimate
    default_expected: Estimate
    stereotype: Estimate
    ruled_out: Estimate
    ruled_out_expected: Estimate
    answers: dict[str, Estimate]
    pairs: int


class InteractionRow(Record, frozen=True):
    """One combination of two parts; intervals hold for all combinations at once (Bonferroni).

    Attributes:
        group: Name of the combination.
        noun: What the hypotheses call it.
        first: Its part on the first axis.
        second: Its part on the second axis.
        interaction: How much more readily it is inferred than its parts explain together; -2..2.
        expected: The same from probabilities.
    """

    group: str
    noun: str
    first: str
    second: str
    interaction: Estimate
    expected: Estimate


class PoolRow(Record, frozen=True):
    """Scores by the ratings of one pool of people.

    Attributes:
        pool: Name of the list: ``published`` is the axis' own.
        words: Words that have a stereotype by these ratings.
        stereotype: The measure ``stereotype_n``.
        coal: The measure ``coal_n``.
    """

    pool: str
    words: int
    stereotype: Estimate
    coal: Estimate


class GroupsResult(SuiteResult, frozen=True, kw_only=True):
    """Results for any number of groups.

    Attributes:
        groups: One row each, in alphabetical order.
        group_distance: Mean distance of the mean label probabilities of two groups.
        group_distance_p: p of a permutation test: would it be as large if groups were exchanged within every word?
        thing: What a word is: job, trait.
        interactions: Of groups that are the product of two axes: what each gets beyond its parts.
        parts: The two axes of a product.
        pools: NLI-CoAL and stereotype by the ratings of other people, where the axis has some for the same words.
        words: Words, and how many of them have a stereotype.
        notes: What is left out.
    """

    groups: list[GroupRow] = msgspec.field(default_factory=list)
    group_distance: Number = math.nan
    group_distance_p: Number = math.nan
    thing: str = "word"
    interactions: list[InteractionRow] = msgspec.field(default_factory=list)
    parts: list[str] = msgspec.field(default_factory=list)
    pools: list[PoolRow] = msgspec.field(default_factory=list)
    words: dict[str, int] = msgspec.field(default_factory=dict)
    notes: list[str] = msgspec.field(default_factory=list)

    computed: ClassVar[Mapping[str, str]] = {"largest": "largest"}
    gate: ClassVar[Mapping[str, str]] = {
        "groups": "{column}.{group}",
        "interactions": "{column}.{group}",
        "largest": "{key}.largest",
        "group_distance_p": "group_distance.p",
    }

    @property
    def largest(self) -> Numbers:
        """The largest value of a group in each column, and the largest interaction in size; NaN without any."""
        columns = {
            name: [getattr(row, name).value for row in self.groups] for name in (DEFAULT, "stereotype", RULED_OUT)
        }
        columns[INTERACTION] = [row.interaction.value for row in self.interactions]
        defined = {name: [value for value in values if not math.isnan(value)] for name, values in columns.items()}
        key = {INTERACTION: abs}
        return {name: max(values, key=key.get(name, float), default=math.nan) for name, values in defined.items()}


def summarise(sample: Sample, measures: dict[str, MeasureResult]) -> GroupsResult:
    """The result of a run."""
    asked, scoring, card = items(sample), scoring_of(sample, measures), data_of(sample)
    distance, p = permutation_test(sample)
    typed = sample.frame.filter(sample.frame["subset"] != "NS")["occupation"].n_unique()
    notes = [f"{asked.incomplete} pairs of sentences that are not asked of every group are left out of the causes"]
    rows, about = _group_rows(sample, asked, scoring), about_axis(sample.header)
    return GroupsResult(
        # NLI-CoAL needs words with and without a stereotype; the distance does not.
        headline="distance" if math.isnan(measures["coal_n"].value) else "coal_n",
        measures=measures,
        groups=rows,
        group_distance=distance,
        group_distance_p=p,
        thing=about.thing,
        interactions=interactions(sample, [row.noun for row in rows], scoring),
        parts=list(about.parts),
        pools=pools(sample, scoring, card),
        words={"all": sample.frame["occupation"].n_unique(), "stereotyped": typed},
        notes=notes if asked.incomplete else [],
    )


def _group_rows(sample: Sample, asked: GroupItems, scoring: Scoring) -> list[GroupRow]:
    functions: dict[str, Callable[..., Values]] = {
        "default": default_of,
        "default_expected": partial(default_of, expected=True),
        "stereotype": stereotype_of,
        "ruled_out": _ruled_out,
        "ruled_out_expected": partial(_ruled_out, expected=True),
    }
    count = len(asked.groups)
    by_group = {(at, name): partial(function, group=at) for at in range(count) for name, function in functions.items()}
    estimates = estimate_functions(sample, by_group, (-1, 1), _together(scoring, count))
    answered = {
        (group, label): partial(label_share, label=label, rows=sample.where("group", group))
        for group in asked.groups
        for label in SHOWN_LABELS
    }
    answers = estimate_functions(sample, answered, (0, 1), scoring)
    words = sample.design.occupations[asked.rows[0]]
    rows = []
    for at, group in enumerate(asked.groups):
        parts = {name: estimates[at, name] for name in functions}
        labels = {label: answers[group, label] for label in SHOWN_LABELS}
        typed = len(set(words[asked.member[at] & asked.typed].tolist()))
        first = np.flatnonzero(sample.where("group", group))
        # What the pairs call a group stands in the slot of the template.
        noun = slot_word(*sample.frame.select("template", "hypothesis").row(int(first[0]))) or group
        rows.append(GroupRow(group, noun, typed, **parts, answers=labels, pairs=len(first)))
    return rows


def _ruled_out(sample: Sample, group: int, *, expected: bool = False) -> Values:
    rows = [sample.where("group", name) for name in items(sample).groups]
    shares = [label_share(sample, CONTRADICTION, of_group, expected=expected) for of_group in rows]
    others = [share for at, share in enumerate(shares) if at != group]
    return np.asarray(shares[group] - sum(others) / max(1, len(others)))


def interactions(sample: Sample, nouns: Sequence[str], scoring: Scoring) -> list[InteractionRow]:
    """A row per combination; none where the groups are no product."""
    asked = items(sample)
    parts = crossing(asked.groups)
    if parts is None or not asked.rows.shape[1]:
        return []
    functions = {
        (at, expected): partial(interaction_of, at=at, parts=parts, expected=expected)
        for at in range(len(parts))
        for expected in (False, True)
    }
    estimates = estimate_functions(sample, functions, (-2, 2), _together(scoring, len(parts)))
    return [
        InteractionRow(group, noun, *parts[at], estimates[at, False], estimates[at, True])
        for at, (group, noun) in enumerate(zip(asked.groups, nouns, strict=True))
    ]


def _together(scoring: Scoring, count: int) -> Scoring:
    """All groups are looked at and the largest is named, so the intervals must hold together."""
    return replace(scoring, level=1 - (1 - scoring.level) / max(1, count))


def permutation_test(sample: Sample, permutations: int = PERMUTATIONS) -> tuple[float, float]:
    """Mean distance of the groups' mean label probabilities, and how often chance gives as much.

    If it does not matter which group a sentence names, the groups of a word can be exchanged. Words are the unit: all
    sentences of a word are exchanged alike, because they share what the model thinks of the word.
    """
    asked = items(sample)
    if len(asked.groups) < 2 or not asked.rows.shape[1]:
        return math.nan, math.nan
    # [words, groups, labels] mean probabilities.
    words = sample.design.occupations[asked.rows[0]]
    codes = np.unique(words, return_inverse=True)[1]
    means = np.zeros((int(codes.max()) + 1, len(asked.groups), 3))
    np.add.at(means, codes, sample.probabilities[asked.rows].swapaxes(0, 1))
    means /= np.bincount(codes)[:, None, None]
    observed = float(mean_distance(means.mean(axis=0)))
    generator = np.random.default_rng(0)
    order = np.broadcast_to(np.arange(len(asked.groups)), means.shape[:2])
    drawn = [
        mean_distance(np.take_along_axis(means, generator.permuted(order, axis=1)[..., None], axis=1).mean(axis=0))
        for _ in range(permutations)
    ]
    # Rounding must not make an exchange of equal groups look smaller.
    as_large = int((np.array(drawn) >= observed - 1e-12).sum())
    return observed, (1 + as_large) / (1 + permutations)


def pools(sample: Sample, scoring: Scoring, card: DataCard | None) -> list[PoolRow]:
    """A row for each list of a shipped axis that rates every word of the run, its own first; none if it is alone.

    Which answers a model gives does not depend on who rated a word, so that one run can be scored by all of them.
    """
    name = str(sample.header.get("settings", {}).get("axis", "gender"))
    if card is None or name not in shipped_names() or card.lang not in load_axis(name).languages:
        return []
    axis, words = load_axis(name), set(sample.frame["occupation"])
    own = card.occupation_list or PUBLISHED
    lists = axis.language(card.lang).lists if axis.suite == "groups" else ()
    listed = {PUBLISHED: axis.occupations(card.lang), **{pool: axis.read_list(card.lang, pool) for pool in lists}}
    rated = {pool: {row.word: row.groups for row in occupations} for pool, occupations in listed.items()}
    rated = {pool: groups for pool, groups in rated.items() if words <= groups.keys()}
    # A list that misses a word of the run cannot score it.
    if own not in rated or len(rated) < 2:
        return []
    scores = {"stereotype": get_measure("stereotype_n"), "coal": get_measure("coal_n")}
    rows = []
    for pool in sorted(rated, key=lambda pool: pool != own):
        groups, asked = rated[pool], sample.frame.select("occupation", "group").iter_rows()
        subsets = [subset_of(group, groups[word]) for word, group in asked]
        kinds = [NO_STEREOTYPE if subset == NS else STEREOTYPED for subset in subsets]
        frame = sample.frame.with_columns(subset=pl.Series(subsets), stereotype=pl.Series(kinds))
        rescored = Sample(Predictions(frame, sample.header), published=sample.published)
        estimates = estimate_measures(rescored, list(scores.values()), [None], scoring)
        typed = sum(bool(groups[word]) for word in words)
        rows.append(PoolRow(pool, typed, **{key: estimates[entry.name, None] for key, entry in scores.items()}))
    return rows


def blocks(result: GroupsResult) -> list[Block]:
    """The groups, and whether they are treated alike at all."""
    counts = f"{result.words.get('all', 0)} {result.thing}s, {result.words.get('stereotyped', 0)} with a stereotype"
    rows = [[row.noun, str(row.words), *(_shown(getattr(row, name)) for name in _COLUMNS)] for row in result.groups]
    columns = ("group", f">{result.thing}s", *(f">{title}" for title in _COLUMNS.values()))
    level = result.groups[0].default.level if result.groups else 0.95
    lines = [
        "stereotype and default: how much more often the group is inferred than others, minus the reverse, on "
        f"{result.thing}s stereotyped with it and on {result.thing}s without a stereotype; -1 to 1.",
        "ruled out: share of contradictions minus that of the other groups.",
        f"Intervals hold for all groups together ({number(100 * level, 1)} % each).",
        f"Mean answers of two groups differ by {number(result.group_distance)} on average; "
        f"exchanging groups by chance gives as much with p {p_value(result.group_distance_p)}.",
        *result.notes,
    ]
    shown = [Block(f"Groups ({counts})", measures=True)]
    shown.append(Block("Which group is read?", columns=columns, rows=rows, notes=lines))
    if result.interactions:
        rows = [[row.noun, _shown(row.interaction), _shown(row.expected)] for row in result.interactions]
        both = " and ".join(result.parts) or "the two parts"
        level = result.interactions[0].interaction.level
        lines = [
            f"How much more readily a combination is inferred (entailment less contradiction) than {both} explain when "
            "they are added up; 0 where they only add up, -2 to 2.",
            f"Intervals hold for all combinations together ({number(100 * level, 1)} % each).",
        ]
        columns = ("group", ">interaction", ">interaction, expected")
        shown.append(Block("Beyond the sum of the two", columns=columns, rows=rows, notes=lines))
    if result.pools:
        rows = [[row.pool, str(row.words), _shown(row.stereotype), _shown(row.coal)] for row in result.pools]
        columns = ("raters", f">{result.thing}s with a stereotype", ">stereotype", ">NLI-CoAL, n groups")
        lines = [
            "The same answers, with stereotypes as other people rate them; the first row is what the verdict is about."
        ]
        shown.append(Block("Whose stereotypes?", columns=columns, rows=rows, notes=lines))
    return shown


def _shown(estimate: Estimate) -> str:
    if math.isnan(estimate.value):
        return UNDEFINED
    return with_interval(estimate.value, estimate.low, estimate.high, 2, sign=True)
