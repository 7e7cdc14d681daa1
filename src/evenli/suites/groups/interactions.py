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
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from evenli.labels import CONTRADICTION, ENTAILMENT, LABELS
from evenli.resources.axes import TIMES
from evenli.stats.intervals import Scoring, estimate_functions
from evenli.stats.sample import Sample, Values
from evenli.suites.groups.measures import items, mean_of_items
from evenli.types import Estimate, Record


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


@dataclass(frozen=True)
class Crossing:
    """Groups that are all combinations of two sets of parts."""

    parts: tuple[tuple[str, str], ...]  # of every group, in its order

    def contrast(self, at: int) -> NDArray[np.float64]:
        """Weights of the groups in the interaction of one of them."""
        first, second = self.parts[at]
        factors = []
        for side, own in enumerate((first, second)):
            names = [part[side] for part in self.parts]
            factors.append(np.array([name == own for name in names]) - 1 / len(set(names)))
        return np.asarray(factors[0] * factors[1])


def crossing(groups: Sequence[str]) -> Crossing | None:
    """The parts of groups such as ``female__nigerian``; None unless every combination of two or more is there.

    >>> crossing(["a__x", "a__y", "b__x", "b__y"]).contrast(0).tolist()
    [0.25, -0.25, -0.25, 0.25]
    >>> crossing(["a__x", "a__y", "b__x"]) is None
    True
    """
    parts = [tuple(name.split(TIMES)) for name in groups]
    if not parts or any(len(one) != 2 for one in parts):
        return None
    first, second = ({one[side] for one in parts} for side in (0, 1))
    if min(len(first), len(second)) < 2 or len(set(parts)) != len(first) * len(second):
        return None
    return Crossing(tuple((one[0], one[1]) for one in parts))


def interaction_of(sample: Sample, at: int, crossed: Crossing, *, expected: bool = False) -> Values:
    """How much more readily a combination is inferred than its parts explain; -2..2."""
    asked = items(sample)
    yes, no = LABELS.index(ENTAILMENT), LABELS.index(CONTRADICTION)
    if expected:
        p = sample.probabilities[asked.rows]
        side = p[..., yes] - p[..., no]
    else:
        answers = sample.predicted[asked.rows]
        side = (answers == yes).astype(np.float64) - (answers == no)
    return mean_of_items(sample, crossed.contrast(at) @ side, np.ones(asked.rows.shape[1], dtype=bool))


def interactions(sample: Sample, nouns: Sequence[str], scoring: Scoring) -> list[InteractionRow]:
    """A row per combination; none where the groups are no product."""
    asked = items(sample)
    crossed = crossing(asked.groups)
    if crossed is None or not asked.rows.shape[1]:
        return []
    functions = {
        (at, expected): partial(interaction_of, at=at, crossed=crossed, expected=expected)
        for at in range(len(asked.groups))
        for expected in (False, True)
    }
    together = replace(scoring, level=1 - (1 - scoring.level) / len(asked.groups))
    estimates = estimate_functions(sample, functions, (-2, 2), together)
    return [
        InteractionRow(group, noun, *crossed.parts[at], estimates[at, False], estimates[at, True])
        for at, (group, noun) in enumerate(zip(asked.groups, nouns, strict=True))
    ]
