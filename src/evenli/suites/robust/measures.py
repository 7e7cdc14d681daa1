"""The three causes, averaged over the wordings that a model understands.

Their intervals are those of fixed wordings: other occupations and other templates, the same ways to ask.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from evenli.stats.measure import measure
from evenli.stats.sample import Sample, Values
from evenli.suites.coal.causes import cause_among
from evenli.suites.robust.curve import layout

_over_wordings = partial(measure, ideal=0, reference="evenli", suites=("robust",))
MEANS = {"stereotype": "stereotype_mean", "default_gender": "default_gender_mean", "undirected": "undirected_mean"}
"""Measure of the mean over wordings, by cause."""


@_over_wordings(
    title="stereotype, mean over wordings",
    formula="mean of the cause stereotype over wordings",
    bounds=(-1, 1),
    direction="above 0 = follows stereotypes, below 0 = goes against them",
    subsets=("PS", "AS"),
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
    if not laid_out.judged.any():
        return cause_among(sample, "undirected", laid_out.rows)
    each = (laid_out.items & (laid_out.codes == code) for code in np.flatnonzero(laid_out.judged))
    values = [cause_among(sample, "undirected", rows) for rows in each]
    return np.asarray(sum(values) / len(values))
