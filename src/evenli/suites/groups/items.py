"""Items of any number of groups: one sentence about one word, asked once for each group.

``S(a)`` is the set of groups that word ``a`` is stereotyped with: those that its PS pairs name. It may hold several
groups, or none. Every mean is taken within a word first and then over words, so that a word with many stereotypes or
many sentences weighs no more than another, and nothing grows with the number of groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenli.labels import CONTRADICTION, ENTAILMENT, LABELS
from evenli.stats.sample import Sample, Values

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Items:
    """The items of a sample."""

    groups: tuple[str, ...]  # in alphabetical order
    rows: NDArray[np.int64]  # [groups, items] row that asks for each group
    member: Mask  # [groups, items] whether the group is in S of the item's word
    incomplete: int  # rows of sentences that are not asked of every group

    @property
    def typed(self) -> Mask:
        """Items whose word is stereotyped with some groups and not with others."""
        return np.asarray(self.member.any(axis=0) & ~self.member.all(axis=0))

    @property
    def untyped(self) -> Mask:
        """Items whose word is stereotyped with no group."""
        return np.asarray(~self.member.any(axis=0))


def items(sample: Sample) -> Items:
    """The items of a sample, found once for all weightings."""
    return sample.once("group items", _find)


def _find(sample: Sample) -> Items:
    named = sample.frame["group"].fill_null("").to_numpy()
    groups = sorted({str(one) for one in named if one})
    cells = sample.design.cells
    table = np.full((len(groups), int(cells.max()) + 1), -1, dtype=np.int64)
    for at, group in enumerate(groups):
        # Backwards, so that of two equal pairs the first counts.
        rows = np.flatnonzero(named == group)[::-1]
        table[at, cells[rows]] = rows
    rows = table[:, (table >= 0).all(axis=0)] if groups else table
    member = sample.where("subset", "PS")[rows]
    return Items(tuple(groups), rows, member, sample.frame.height - rows.size)


def mean_of_words(sample: Sample, values: NDArray[np.floating], rows: Mask) -> Values:
    """Mean of a column over words: within each word first."""
    words = sample.design.occupations
    counts = np.bincount(words[rows], minlength=int(words.max()) + 1)
    if len(set(counts[counts > 0].tolist())) <= 1:
        # The same number. A plain mean of shares also gets the interval of shares, which is not empty at 0 and 1.
        return sample.mean(values, rows=rows)
    weight = 1 / np.maximum(counts, 1)[words]
    with np.errstate(invalid="ignore", divide="ignore"):
        # A ratio of two means: both see the weights of a resample, and the variance sees both.
        return np.asarray(sample.mean(values * weight, rows=rows) / sample.mean(weight, rows=rows))


def mean_of_items(sample: Sample, values: NDArray[np.floating], chosen: Mask) -> Values:
    """The same for a number per item."""
    first = items(sample).rows[0]
    column, rows = np.zeros(sample.frame.height), np.zeros(sample.frame.height, dtype=bool)
    column[first], rows[first[chosen]] = values, True
    return mean_of_words(sample, column, rows)


def compare(sample: Sample, group: int, *, expected: bool = False) -> tuple[Values, Values, Values]:
    """How a group's answer stands to that of every group: [groups, items] above, below, alike but not neutral.

    Contradiction stands below neutral, neutral below entailment. ``expected`` gives probabilities of the three, as if
    the two answers were given independently of each other.
    """
    rows = items(sample).rows
    yes, no = LABELS.index(ENTAILMENT), LABELS.index(CONTRADICTION)
    if not expected:
        answers = sample.predicted[rows]
        side = (answers == yes).astype(np.int8) - (answers == no)
        own = side[group]
        return tuple(np.asarray(one, dtype=np.float64) for one in (own > side, own < side, (own == side) & (own != 0)))  # type: ignore[return-value]
    p = sample.probabilities[rows]
    own_yes, own_no, other_yes, other_no = p[group, :, yes], p[group, :, no], p[..., yes], p[..., no]
    above = own_yes * (1 - other_yes) + (1 - own_yes - own_no) * other_no
    below = other_yes * (1 - own_yes) + (1 - other_yes - other_no) * own_no
    return above, below, own_yes * other_yes + own_no * other_no
