"""Every wording by itself, what the model answers in it and whether it understands it, and the mean over wordings.

Intervals of means are those of fixed wordings: other occupations and other templates, the same ways to ask.

Of a language model, the wording of the question and the order of its options are choices like any other. A *cell* is a
wording of the pairs, asked with one prompt in one option order. An audit averages over prompts and orders; here each
answers for itself, and must understand the pairs that state the group by itself.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from msgspec import structs
from numpy.typing import NDArray

from evenli.audit.predictions import MASS, MINIMUM_MASS, Predictions
from evenli.audit.prompting import NO_ANSWER, view_names
from evenli.audit.suites.base import gold_codes
from evenli.audit.suites.checks import is_known
from evenli.audit.suites.coal.measures import cause_among
from evenli.audit.suites.coal.verdict import CAUSES, NEGLIGIBLE, negligible, supported
from evenli.audit.suites.robust.build import CONTROL, PERSON, Wording
from evenli.core.labels import LABELS
from evenli.core.record import Estimate, Number, Scoring
from evenli.stats.intervals import estimate_measures
from evenli.stats.measure import get_measure, measure
from evenli.stats.sample import Sample, Values

SHOWN = (*CAUSES, "follow", "defy")
"""Measures of a wording."""
_over_wordings = partial(measure, ideal=0, reference="evenli", suites=("robust",))


class WordingRow(Wording, frozen=True):
    """One wording: its choices, its numbers, and whether the model understands it.

    Attributes:
        judged: Whether the model gets pairs right that state the group, in this wording; else it is not judged in it.
        problem: Which kind of pair it does not get right.
        stated: Share of these pairs that it gets right.
        person: Share of pairs *occupation → person* that it calls entailment; NaN where none were asked.
        items: Sentences, each asked with both groups.
        stereotype: Value of the measure of this name; the ends of its interval follow, and so do the other measures.
    """

    judged: bool
    problem: str
    stated: Number
    person: Number
    items: int
    stereotype: Number
    stereotype_low: Number
    stereotype_high: Number
    default_gender: Number
    default_gender_low: Number
    default_gender_high: Number
    undirected: Number
    undirected_low: Number
    undirected_high: Number
    follow: Number
    follow_low: Number
    follow_high: Number
    defy: Number
    defy_low: Number
    defy_high: Number

    def estimate(self, name: str) -> Estimate:
        """One of its measures with the interval."""
        value, low, high = (getattr(self, f"{name}{end}") for end in ("", "_low", "_high"))
        return Estimate(value, low, high, math.nan, 0.95, 2 * self.items)

    def state(self, cause: str) -> str:
        """What the interval says of a cause: ``+``, ``-``, ``0`` for negligible, ``?`` for undecided."""
        estimate = self.estimate(cause)
        if supported(cause, estimate):
            return "+" if estimate.value > 0 else "-"
        # Undirected error has no sign: only the upper end of its interval can speak against it being negligible.
        return "0" if negligible(estimate) or (cause == "undirected" and estimate.high < NEGLIGIBLE) else "?"


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
    undirected: Number


def fields_of(name: str, estimate: Estimate) -> dict[str, Any]:
    """A number and its interval, by the names of their three fields."""
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


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
        numbers = {field: x for name in SHOWN for field, x in fields_of(name, estimates[name, None]).items()}
        fields = (*structs.astuple(wording), judged, problem, stated, person, table.frame.height // 2)
        rows.append(WordingRow(*fields, **numbers))
    return rows


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
    title="undirected error, mean over wordings",
    formula="mean of the cause undirected error over wordings",
    direction="higher = more error without a direction",
    subsets=("PS", "AS", "NS"),
)
def undirected_mean(sample: Sample, stereotype: str | None = None) -> Values:
    """Errors without a direction, whatever the wording: errors of one wording do not cancel those of another."""
    laid_out = layout(sample)
    # Of no wording there is no mean; the cause among no rows is undefined in the shape that is expected.
    if not laid_out.judged.any():
        return cause_among(sample, "undirected", laid_out.rows)
    each = (laid_out.items & (laid_out.codes == code) for code in np.flatnonzero(laid_out.judged))
    values = [cause_among(sample, "undirected", rows) for rows in each]
    return np.asarray(sum(values) / len(values))
