"""Two axes at once: what a group that is the product of two gets beyond what its two parts explain.

How readily a group is inferred is its share of entailment minus its share of contradiction, ``y``. Over all
combinations of the parts ``a`` (a woman, a man) and ``b`` (American, Nigerian, ...), the interaction is

    i_ab = y_ab - y_a. - y_.b + y_..

with dots for means over a part. It is 0 for every combination if the two parts only add up: a model that infers women
less readily, and Nigerians less readily, has no interaction until it infers Nigerian women less readily than both
together say. In every sentence it is one number, a contrast of the answers to all groups, so that its interval is that
of any mean of sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from evenli.audit.suites.groups.measures import items, mean_of_items, sides
from evenli.core.estimate import Estimate, Scoring
from evenli.core.record import Record
from evenli.stats.intervals import estimate_functions
from evenli.stats.sample import Sample, Values
from evenli.words.axes import TIMES


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


Parts = list[tuple[str, str]]
"""The two parts of every group, in the order of the groups."""


def crossing(groups: Sequence[str]) -> Parts | None:
    """The parts of groups such as ``female__nigerian``; None unless every combination of two or more is there.

    >>> crossing(["a__x", "a__y", "b__x", "b__y"])
    [('a', 'x'), ('a', 'y'), ('b', 'x'), ('b', 'y')]
    >>> crossing(["a__x", "a__y", "b__x"]) is None
    True
    """
    split = [name.split(TIMES) for name in groups]
    if not split or any(len(names) != 2 for names in split):
        return None
    parts = [(first, second) for first, second in split]
    sizes = [len(set(side)) for side in zip(*parts, strict=True)]
    return parts if min(sizes) >= 2 and len(set(parts)) == sizes[0] * sizes[1] else None


def contrast(parts: Parts, at: int) -> NDArray[np.float64]:
    """Weights of the groups in the interaction of one of them.

    >>> contrast([("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")], 0).tolist()
    [0.25, -0.25, -0.25, 0.25]
    """
    first, second = (
        np.array([name == names[at] for name in names]) - 1 / len(set(names)) for names in zip(*parts, strict=True)
    )
    return np.asarray(first * second)


def interaction_of(sample: Sample, at: int, parts: Parts, *, expected: bool = False) -> Values:
    """How much more readily a combination is inferred than its parts explain; -2..2."""
    side = sides(sample, expected=expected).astype(np.float64)
    return mean_of_items(sample, contrast(parts, at) @ side, np.ones(side.shape[1], dtype=bool), signed=True)


def interactions(sample: Sample, nouns: Sequence[str], scoring: Scoring) -> list[InteractionRow]:
    """A row per combination; none where the groups are no product."""
    asked = items(sample)
    parts = crossing(asked.groups)
    if parts is None or not asked.rows.shape[1]:
        return []
    functions = {
        (at, expected): partial(interaction_of, at=at, parts=parts, expected=expected)
        for at in range(len(asked.groups))
        for expected in (False, True)
    }
    together = replace(scoring, level=1 - (1 - scoring.level) / len(asked.groups))
    estimates = estimate_functions(sample, functions, (-2, 2), together)
    return [
        InteractionRow(group, noun, *parts[at], estimates[at, False], estimates[at, True])
        for at, (group, noun) in enumerate(zip(asked.groups, nouns, strict=True))
    ]
