"""How jobs are read and which labels are given, with an interval for every share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from evenli.labels import LABELS
from evenli.resources.axes import NO_STEREOTYPE
from evenli.stats.intervals import Scoring, estimate_measures
from evenli.stats.measure import Measure
from evenli.stats.sample import Sample, Values
from evenli.suites.coal.causes import DEFINING, EVEN, FIRST, INCOHERENT, OUTCOMES, SECOND, items, share
from evenli.types import Estimate, Number, Record


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
    estimates = _estimates(sample, functions, scoring)
    rows = []
    for (name, kind), one in zip(functions, estimates, strict=True):
        count = int((asked.classes == name).sum())
        noun = asked.nouns.get(names[kind], "")
        rows.append(ReadingRow(name, names[kind], noun, count, one.value, one.low, one.high))
    return rows


def label_shares(sample: Sample, scoring: Scoring) -> list[ShareRow]:
    """The share of every label in every set, over all pairs and by the group in the hypothesis."""
    subsets = sample.frame["subset"].unique(maintain_order=True).to_list()
    groups = ["", *sorted(sample.frame["group"].drop_nulls().unique())]
    of_row = sample.frame["group"].fill_null("").to_numpy()
    keys = [(subset, group, label) for subset in subsets for group in groups for label in LABELS]
    masks = [
        (sample.frame["subset"] == subset).to_numpy() & ((of_row == group) | (group == "")) for subset, group, _ in keys
    ]

    def value(sample: Sample, at: int) -> Values:
        return sample.mean((sample.predicted == LABELS.index(keys[at][2])).astype(np.float32), rows=masks[at])

    estimates = _estimates(sample, {key: partial(value, at=at) for at, key in enumerate(keys)}, scoring)
    counted = [(key, int(mask.sum()), one) for key, mask, one in zip(keys, masks, estimates, strict=True)]
    return [ShareRow(*key, pairs, one.value, one.low, one.high) for key, pairs, one in counted if pairs]


def _estimates(sample: Sample, functions: Mapping[Any, Callable[[Sample], Values]], scoring: Scoring) -> list[Estimate]:
    """An interval for each function of a sample."""
    entries = [Measure("/".join(key), "", "", partial(_whole, function), 0, 1) for key, function in functions.items()]
    estimates = estimate_measures(sample, entries, [None], scoring)
    return [estimates[entry.name, None] for entry in entries]


def _whole(function: Callable[[Sample], Values], sample: Sample, stereotype: str | None) -> Values:
    """A measure is asked for a slice as well; these are slices already."""
    return function(sample)
