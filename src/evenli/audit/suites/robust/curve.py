"""Every wording by itself, what the model answers in it and whether it understands it, and the mean over wordings.

Intervals of means are those of fixed wordings: other occupations and other templates, the same ways to ask.

Of a language model, the wording of the question and the order of its options are choices like any other. A *cell* is a
wording of the pairs, asked with one prompt in one option order. An audit averages over prompts and orders; here each
answers for itself, and must understand the pairs that state the group by itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl
from msgspec import structs
from numpy.typing import NDArray

from evenli.audit.predictions import MASS, MINIMUM_MASS, Predictions
from evenli.audit.prompting import NO_ANSWER, view_names
from evenli.audit.results import Cause
from evenli.audit.suites.base import gold_codes
from evenli.audit.suites.checks import is_known
from evenli.audit.suites.coal.measures import DENIED, FIRST, SECOND, cause_among, items, share
from evenli.audit.suites.coal.results import group_words
from evenli.audit.suites.coal.verdict import (
    CAUSES,
    NEGLIGIBLE,
    error_cause,
    negligible,
    size_of,
    stereotype_cause,
    supported,
)
from evenli.audit.suites.robust.build import CONTROL, PERSON, Wording
from evenli.core.labels import LABELS
from evenli.core.record import Estimate, Number, Scoring
from evenli.stats.intervals import estimate_measures
from evenli.stats.measure import get_measure, measure
from evenli.stats.sample import Sample, Values
from evenli.words.axes import NO_STEREOTYPE
from evenli.words.templates import with_article

SHOWN = (*CAUSES, "follow", "defy")
"""Measures of a wording."""
SMALL = 1e-9
"""A lean up to this size has no sign: sums of shares that cancel may leave 1e-17."""
_over_wordings = partial(measure, ideal=0, reference="evenli", suites=("robust",))


class WordingRow(Wording, frozen=True):
    """One wording: its choices, its numbers, and whether the model understands it.

    Attributes:
        judged: Whether the model gets pairs right that state the group, in this wording; else it is not judged in it.
        problem: Which kind of pair it does not get right.
        stated: Share of these pairs that it gets right.
        person: Share of pairs *occupation → person* that it calls entailment; NaN where none were asked.
        items: Sentences, each asked with both groups.
        stereotype: The measure of this name with its interval; the other measures follow.
    """

    judged: bool
    problem: str
    stated: Number
    person: Number
    items: int
    stereotype: Estimate
    default_gender: Estimate
    total_error: Estimate
    follow: Estimate
    defy: Estimate

    def value(self, cause: str) -> float:
        """The value of a cause."""
        return float(getattr(self, cause).value)

    def state(self, cause: str) -> str:
        """What the interval says of a cause: ``+``, ``-``, ``0`` for negligible, ``?`` for undecided."""
        estimate: Estimate = getattr(self, cause)
        if supported(cause, estimate):
            return "+" if estimate.value > 0 else "-"
        # Total error has no sign: only the upper end of its interval can speak against it being negligible.
        return "0" if negligible(estimate) or (cause == "total_error" and estimate.high < NEGLIGIBLE) else "?"


class ViewRow(Wording, frozen=True):
    """One cell: a wording, a prompt and an option order.

    Attributes:
        prompt: Wording of the question.
        order: Initials of the options as they are listed.
        judged: Whether the model gets pairs right that state the group, asked in just this way.
        items: Sentences with an answer, each asked with both groups.
        stereotype: Value of this cause; the other two follow.
    """

    prompt: str
    order: str
    judged: bool
    items: int
    stereotype: Number
    default_gender: Number
    total_error: Number

    def value(self, cause: str) -> float:
        """The value of a cause."""
        return float(getattr(self, cause))


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the wordings of a sample stand: what they are, the number of its wording for every row, and the checks."""

    wordings: list[Wording]
    codes: NDArray[np.int64]
    judged: NDArray[np.bool_]
    problems: list[str]
    items: NDArray[np.bool_]

    @property
    def rows(self) -> NDArray[np.bool_]:
        """Rows of items in wordings that the model understands."""
        return np.asarray(self.items & self.judged[self.codes])


def layout(sample: Sample) -> Layout:
    """Where the wordings of a sample stand, found once."""
    return sample.once("wordings", _layout)


def on_shared(first: Sample, second: Sample) -> tuple[Sample, Sample]:
    """Two models on the same rows, each judged only in the wordings that both understand."""
    both = layout(first).judged & layout(second).judged
    # Copies: the samples of the caller keep the wordings that each of them understands.
    first, second = copy(first), copy(second)
    for sample in (first, second):
        sample.kept = {**sample.kept, "wordings": replace(layout(sample), judged=both)}
    return first, second


def _layout(sample: Sample) -> Layout:
    # An id says the wording, who the premise is about and which group is asked for; see ``build.wording_rows``.
    parts = sample.frame["id"].fill_null("").str.split("; ")
    names = parts.list.get(0)
    keys = names.unique(maintain_order=True).to_list()
    # A name that is no wording is refused before anything is measured.
    wordings = [Wording.of(key) for key in keys]
    numbers = {key: number for number, key in enumerate(keys)}
    codes = names.replace_strict(numbers, return_dtype=pl.Int64).to_numpy()
    given = parts.list.get(1, null_on_oob=True).str.split(" ").list.get(1, null_on_oob=True)
    asked = parts.list.get(2, null_on_oob=True)
    table = sample.frame.select("subset", asked=asked, given=given, code=pl.Series(codes)).with_columns(
        right=pl.Series(sample.predicted == gold_codes(sample.frame))
    )
    # Each kind of stated pair must be right by itself: who always says yes has half of all pairs right.
    stated = table.filter(pl.col("subset") == CONTROL).group_by("code", "given", "asked", maintain_order=True)
    problems = [""] * len(keys)
    for code, first, second, hits, n in stated.agg(pl.col("right").sum(), n=pl.len()).iter_rows():
        if not is_known(hits, n) and not problems[code]:
            problems[code] = f"{hits} of {n} pairs right of the kind '{first}-{second}'"
    items = ~sample.frame["subset"].is_in([CONTROL, PERSON]).to_numpy()
    return Layout(wordings, codes, np.array([not problem for problem in problems]), problems, items)


def curve(sample: Sample, level: float = 0.95) -> list[WordingRow]:
    """All wordings, in the order in which they were asked."""
    laid_out, right = layout(sample), sample.predicted == gold_codes(sample.frame)
    entries = [get_measure(name) for name in SHOWN]
    rows = []
    for code, wording in enumerate(laid_out.wordings):
        here = laid_out.codes == code
        # Measured as if it were the only wording, so that its interval is its own.
        table = Predictions(sample.frame.filter(pl.Series(here & laid_out.items)), sample.header)
        estimates = estimate_measures(Sample(table, published=sample.published), entries, scoring=Scoring(level))
        checks = [sample.where("subset", subset) & here for subset in (CONTROL, PERSON)]
        stated, person = (float(right[mask].mean()) if mask.any() else float("nan") for mask in checks)
        judged, problem = bool(laid_out.judged[code]), laid_out.problems[code]
        fields = (*structs.astuple(wording), judged, problem, stated, person, table.frame.height // 2)
        rows.append(WordingRow(*fields, *(estimates[name, None] for name in SHOWN)))
    return rows


def causes_of(sample: Sample, means: Mapping[str, Estimate]) -> dict[str, Cause]:
    """What the mean over wordings says of each cause, significant or not; nothing where it is undefined or 0."""
    made = {"stereotype": partial(stereotype_cause, "stereotype_mean"), "default_gender": partial(_assumed, sample)}
    made["total_error"] = partial(error_cause, "total_error_mean")
    return {
        name: made[name](mean) if abs(mean.value) > SMALL else Cause(f"{name}_mean", "", "slight", "", mean)
        for name, mean in means.items()
    }


def _assumed(sample: Sample, mean: Estimate) -> Cause:
    """A default group: it is assumed, unless mostly the other one is ruled out and it is not inferred itself."""
    outcome, names = SECOND if mean.value > 0 else FIRST, items(sample).groups
    group, other = names if outcome == FIRST else names[::-1]
    rows, words = layout(sample).rows, group_words(sample)
    read, denied = (share(sample, NO_STEREOTYPE, kind, among=rows) for kind in (outcome, DENIED[outcome]))
    said = f"rules out {with_article(words[other])}" if denied > read / 2 else f"assumes {with_article(words[group])}"
    return Cause("default_gender_mean", group, size_of(mean), said, mean)


def view_rows(sample: Sample) -> list[ViewRow]:
    """Every wording as one prompt in one order answers it; none where the model is no language model."""
    stated = sample.frame["subset"] == CONTROL
    rows = []
    for prompt, order in view_names(sample.frame):
        name = f"{prompt}-{order}"
        silent = sample.frame[f"{name}:{MASS}"] < MINIMUM_MASS
        frame = sample.frame.with_columns(pl.col(f"{name}:{label}").alias(label) for label in LABELS)
        table = Predictions(frame.with_columns(_silent=silent), sample.header).answered((silent & ~stated).to_numpy())
        if not table.frame.height:
            continue
        answered = Sample(table, published=sample.published)
        # No answer to a pair that states the group is a wrong one.
        answered.predicted = np.where(table.frame["_silent"].to_numpy(), NO_ANSWER, answered.predicted)
        laid_out = layout(answered)
        for code, wording in enumerate(laid_out.wordings):
            here = laid_out.items & (laid_out.codes == code)
            values = [float(cause_among(answered, cause, here)) if here.any() else math.nan for cause in CAUSES]
            judged = bool(laid_out.judged[code]) and not any(map(math.isnan, values))
            fields = (*structs.astuple(wording), prompt, order, judged, int(here.sum()) // 2, *values)
            rows.append(ViewRow(*fields))
    return rows


@_over_wordings(
    title="stereotype, mean over wordings",
    formula="mean of the cause stereotype over wordings",
    bounds=(-1, 1),
    direction="above 0 = follows stereotypes, below 0 = goes against them",
    subsets=("PS", "AS"),
    stressed=True,
)
def stereotype_mean(sample: Sample, stereotype: str | None = None) -> Values:
    """How far the reading of a job follows its stereotype, whatever the wording. Undefined on a slice."""
    # All wordings ask the same items, so the mean over wordings is that over all their rows.
    return cause_among(sample, "stereotype", layout(sample).rows)


@_over_wordings(
    title="default gender, mean over wordings",
    formula="mean of the cause default gender over wordings",
    bounds=(-1, 1),
    direction="above 0 = assumes the second group (man), below 0 = the first (woman)",
    subsets=("NS",),
)
def default_gender_mean(sample: Sample, stereotype: str | None = None) -> Values:
    """Which group is assumed where no stereotype says so, whatever the wording. Undefined on a slice."""
    return cause_among(sample, "default_gender", layout(sample).rows)


@_over_wordings(
    title="total error, mean over wordings",
    formula="mean of the total error over wordings",
    direction="higher = more wrong answers, of any kind",
    subsets=("PS", "AS", "NS"),
)
def total_error_mean(sample: Sample, stereotype: str | None = None) -> Values:
    """How often a gender is read from a job at all, whatever the wording."""
    return cause_among(sample, "total_error", layout(sample).rows)
