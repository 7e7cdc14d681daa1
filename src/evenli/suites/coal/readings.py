"""How jobs are read and which labels are given, with an interval for every share."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from evenli.labels import LABELS
from evenli.resources.axes import NO_STEREOTYPE
from evenli.stats.intervals import Scoring, estimate_functions
from evenli.stats.sample import Sample, Values
from evenli.suites.coal.causes import DEFINING, EVEN, FIRST, INCOHERENT, OUTCOMES, SECOND, items, share
from evenli.types import Number, Record

Mask = NDArray[np.bool_]


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

    def value(sample: Sample, rows: Mask, label: str) -> Values:
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
