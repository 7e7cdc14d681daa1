"""Language models: the wording of the question and the order of its options are choices like any other.

A *cell* is a wording of the pairs, asked with one prompt in one option order. An audit averages over prompts and
orders; here each answers for itself, and must understand the pairs that state the group by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import polars as pl

from evenli.labels import LABELS
from evenli.predictions import MASS, MINIMUM_MASS, Predictions
from evenli.stats.prompting import NO_ANSWER, view_answers
from evenli.stats.sample import Sample
from evenli.suites.coal.causes import cause_among
from evenli.suites.coal.verdict import CAUSES
from evenli.suites.robust.build import CONTROL
from evenli.suites.robust.curve import Choices, WordingRow, judged_rows, layout
from evenli.suites.robust.design import Wording
from evenli.suites.robust.stability import VarianceRow, judgement, side, variance_shares
from evenli.suites.robust.wordings import DIMENSIONS
from evenli.types import Estimate, Number, Record

CHOICES = (*DIMENSIONS, "prompt", "order")
"""Dimensions of a cell."""


class ViewRow(Choices, frozen=True):
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

    def estimate(self, cause: str) -> Estimate:
        """One of its causes, without an interval."""
        value = getattr(self, cause)
        return Estimate(value, math.nan, math.nan, math.nan, 0.95, 2 * self.items)


class ViewCause(Record, frozen=True):
    """One cause across cells.

    Attributes:
        cause: Name of the measure.
        cells: How many were asked.
        judged: In how many the model understands what is asked.
        holds: In how many of these the sign is that of the usual wording, averaged over prompts and orders.
        opposite: In how many it is the other one.
        lowest: Smallest value of a judged cell.
        highest: Largest value.
        verdict: ``stable``, ``unstable``, ``negligible`` or ``not judged``, as for wordings.
    """

    cause: str
    cells: int
    judged: int
    holds: int
    opposite: int
    lowest: Number
    highest: Number
    verdict: str


def view_rows(sample: Sample) -> list[ViewRow]:
    """Every cell, by prompt and order; none where the model is no language model."""
    return [row for prompt, order in view_answers(sample.frame) for row in _of_view(sample, prompt, order)]


def _of_view(sample: Sample, prompt: str, order: str) -> list[ViewRow]:
    """The wordings as one prompt in one order answers them."""
    name = f"{prompt}-{order}"
    stated = sample.frame["subset"] == CONTROL
    silent = sample.frame[f"{name}:{MASS}"] < MINIMUM_MASS
    frame = sample.frame.with_columns(pl.col(f"{name}:{label}").alias(label) for label in LABELS)
    table = Predictions(frame.with_columns(_silent=silent), sample.header).answered((silent & ~stated).to_numpy())
    if not table.frame.height:
        return []
    alone = Sample(table, published=sample.published)
    # No answer to a pair that states the group is a wrong one.
    alone.predicted = np.where(table.frame["_silent"].to_numpy(), NO_ANSWER, alone.predicted)
    laid_out = layout(alone)
    rows = []
    for code, key in enumerate(laid_out.keys):
        here = laid_out.items & (laid_out.codes == code)
        values: dict[str, Any] = dict.fromkeys(CAUSES, math.nan)
        if here.any():
            values = {cause: float(cause_among(alone, cause, here)) for cause in CAUSES}
        judged = bool(laid_out.judged[code]) and not any(map(math.isnan, values.values()))
        rows.append(
            ViewRow(
                **asdict(Wording.of(key)),
                prompt=prompt,
                order=order,
                judged=judged,
                items=int(here.sum()) // 2,
                **values,
            )
        )
    return rows


def across_views(cells: Sequence[ViewRow], wordings: Sequence[WordingRow]) -> list[ViewCause]:
    """Every cause across cells; the usual wording, averaged over prompts and orders, gives the sign."""
    known = [cell for cell in cells if cell.judged]
    usual = judged_rows(wordings[:1])
    causes = []
    for cause in CAUSES if cells else ():
        values = [getattr(cell, cause) for cell in known]
        reference = getattr(usual[0], cause) if usual else float(np.mean(values)) if values else math.nan
        sign = 0 if math.isnan(reference) else side(cause, reference)
        holds = sum(side(cause, value) == sign for value in values)
        ends = (min(values, default=math.nan), max(values, default=math.nan))
        opposite = sum(side(cause, value) * sign < 0 for value in values)
        causes.append(ViewCause(cause, len(cells), len(known), holds, opposite, *ends, judgement(values, holds)))
    return causes


def view_shares(cells: Sequence[ViewRow]) -> list[VarianceRow]:
    """Which choice moves the number, prompt and order among them."""
    return variance_shares(cells, CHOICES) if cells else []
