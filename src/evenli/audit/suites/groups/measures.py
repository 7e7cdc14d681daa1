"""NLI-CoAL and the causes for any number of groups. For two groups and one stereotype a word, the same numbers.

``e_p, c_a, n_n`` are shares of entailment in PS, contradiction in AS and neutral in NS, averaged within a word first.
A group *beats* another on a sentence if its answer stands higher: entailment above neutral above contradiction. Then
``M`` is the share of comparisons that a group wins, ``F`` the share it loses, and ``X`` the share in which both get the
same answer and that is not neutral.

An item is one sentence about one word, asked once for each group. ``S(a)`` is the set of groups that word ``a`` is
stereotyped with: those that its PS pairs name. It may hold several groups, or none. Every mean is taken within a word
first and then over words, so that a word with many stereotypes or many sentences weighs no more than another, and
nothing grows with the number of groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.stats.measure import measure
from evenli.stats.sample import Sample, Values

Mask = NDArray[np.bool_]
Parts = tuple[Values, ...]  # M, F and X
_measure = partial(measure, ideal=0, suites=("groups",), reference="evenli")
_sets = partial(_measure, direction="higher = more biased", reference="after Anantaprayoon et al. 2024")
_follows = partial(
    _measure,
    bounds=(-1, 1),
    direction="above 0 = follows stereotypes, below 0 = goes against them",
    subsets=("PS", "AS"),
)
_errs = partial(_measure, direction="higher = more wrong answers, of any kind")


@dataclass(frozen=True, eq=False)
class GroupItems:
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


def items(sample: Sample) -> GroupItems:
    """The items of a sample, found once for all weightings."""
    return sample.once("group items", _find_items)


def _find_items(sample: Sample) -> GroupItems:
    groups = sorted(set(sample.frame["group"].drop_nulls().unique()) - {""})
    cells = sample.design.cells
    table = np.full((len(groups), int(cells.max()) + 1), -1, dtype=np.int64)
    for at, group in enumerate(groups):
        # Backwards, so that of two equal pairs the first counts.
        rows = np.flatnonzero(sample.where("group", group))[::-1]
        table[at, cells[rows]] = rows
    rows = table[:, (table >= 0).all(axis=0)] if groups else table
    member = sample.where("subset", "PS")[rows]
    return GroupItems(tuple(groups), rows, member, sample.frame.height - rows.size)


def mean_of_words(sample: Sample, values: NDArray[np.floating], rows: Mask, *, signed: bool = False) -> Values:
    """Mean of a column over words: within each word first; ``signed`` as in ``Sample.mean``."""
    words = sample.design.occupations
    counts = np.bincount(words[rows], minlength=int(words.max()) + 1)
    if len(set(counts[counts > 0].tolist())) <= 1:
        # The same number. A plain mean of shares also gets the interval of shares, which is not empty at 0 and 1.
        return sample.mean(values, rows=rows, signed=signed)
    weight = 1 / np.maximum(counts, 1)[words]
    with np.errstate(invalid="ignore", divide="ignore"):
        # A ratio of two means: both see the weights of a resample, and the variance sees both.
        weighted = sample.mean(values * weight, rows=rows, signed=signed)
        return np.asarray(weighted / sample.mean(weight, rows=rows, fixed=True))


def mean_of_items(sample: Sample, values: NDArray[np.floating], chosen: Mask, *, signed: bool = False) -> Values:
    """The same for a number per item."""
    first = items(sample).rows[0]
    column, rows = np.zeros(sample.frame.height), np.zeros(sample.frame.height, dtype=bool)
    column[first], rows[first[chosen]] = values, True
    return mean_of_words(sample, column, rows, signed=signed)


def answers(sample: Sample, *, expected: bool) -> NDArray[np.floating]:
    """[groups, items, labels] 1 for the likeliest answer and 0 for the others, or their probabilities."""
    rows = items(sample).rows
    return np.asarray(sample.probabilities[rows] if expected else np.eye(len(LABELS))[sample.predicted[rows]])


def label_share(sample: Sample, label: str, rows: Mask, *, expected: bool = False) -> Values:
    """Share of a label among some rows, within each word first, or its mean probability."""
    at = LABELS.index(label)
    column = sample.probabilities[:, at] if expected else (sample.predicted == at).astype(np.float64)
    return mean_of_words(sample, column, rows)


def _share(sample: Sample, label: str, subset: str, *, expected: bool = False) -> Values:
    return label_share(sample, label, sample.where("subset", subset), expected=expected)


@_sets(title="NLI-CoAL, n groups", formula="(e_p + c_a + (1 - n_n)) / 3", stressed=True)
def coal_n(sample: Sample, stereotype: str | None = None, *, expected: bool = False) -> Values:
    """Bias over all three labels; undefined where all words, or none, have a stereotype."""
    part = partial(_share, sample, expected=expected)
    return np.asarray((part(ENTAILMENT, "PS") + part(CONTRADICTION, "AS") + 1 - part(NEUTRAL, "NS")) / 3)


@_sets(title="  entailment in PS", formula="e_p", subsets=("PS",))
def coal_n_pro(sample: Sample, stereotype: str | None = None) -> Values:
    """How often a group is inferred from a word that is stereotyped with it."""
    return _share(sample, ENTAILMENT, "PS")


@_sets(title="  contradiction in AS", formula="c_a", subsets=("AS",))
def coal_n_anti(sample: Sample, stereotype: str | None = None) -> Values:
    """How often a group is ruled out by a word that is stereotyped with others."""
    return _share(sample, CONTRADICTION, "AS")


@_sets(title="  not neutral in NS", formula="1 - n_n", subsets=("NS",))
def coal_n_non(sample: Sample, stereotype: str | None = None) -> Values:
    """How often a group is inferred or ruled out by a word without stereotype."""
    return np.asarray(1 - _share(sample, NEUTRAL, "NS"))


@_sets(title="NLI-CoAL, n groups, expected answers", formula="coal_n of mean probabilities")
def coal_n_expected(sample: Sample, stereotype: str | None = None) -> Values:
    """The same from probabilities: it speaks also where the likeliest answer is always neutral."""
    return coal_n(sample, expected=True)


def against_others(sample: Sample, group: int, *, typed: bool, expected: bool = False) -> Parts | None:
    """M, F and X of a group, None where it has no rivals.

    Where a word is stereotyped with it (``typed``) the rivals are groups that it is not stereotyped with; where a word
    has no stereotype, all others. Contradiction stands below neutral, neutral below entailment. ``expected`` gives
    probabilities of the three, as if the two answers were given independently of each other.
    """
    asked = items(sample)
    rivals = ~asked.member if typed else np.arange(len(asked.groups))[:, None] != group
    count = rivals.sum(axis=0)
    chosen = (asked.typed & asked.member[group] if typed else asked.untyped) & (count > 0)
    if not chosen.any():
        return None
    p = answers(sample, expected=expected)
    yes, no = p[..., LABELS.index(ENTAILMENT)], p[..., LABELS.index(CONTRADICTION)]
    above = yes[group] * (1 - yes) + (1 - yes[group] - no[group]) * no
    below = yes * (1 - yes[group]) + (1 - yes - no) * no[group]
    alike = yes[group] * yes + no[group] * no
    shares = ((part * rivals).sum(axis=0) / np.maximum(count, 1) for part in (above, below, alike))
    return tuple(mean_of_items(sample, share, chosen) for share in shares)


def _lead(sample: Sample, group: int, *, typed: bool, expected: bool = False) -> Values:
    parts = against_others(sample, group, typed=typed, expected=expected)
    return sample.undefined if parts is None else np.asarray(parts[0] - parts[1])


default_of, stereotype_of = partial(_lead, typed=False), partial(_lead, typed=True)
"""M - F of a group, -1..1: how much more often it beats the others than they beat it."""


@_follows(title="stereotype", formula="mean over groups of M - F on words stereotyped with the group", stressed=True)
def stereotype_n(sample: Sample, stereotype: str | None = None, *, expected: bool = False) -> Values:
    """How much more readily the stereotyped group is inferred than the others."""
    parts = (against_others(sample, at, typed=True, expected=expected) for at in range(len(items(sample).groups)))
    leads = [won - lost for won, lost, _ in filter(None, parts)]
    # Groups weigh the same: a default for one group is a gain to it and a loss to the others, and cancels.
    return np.asarray(sum(leads) / len(leads)) if leads else sample.undefined


@_errs(
    title="total error",
    formula="mean over groups of M + F + X, words with a stereotype weighing two thirds",
    stressed=True,
)
def total_error_n(sample: Sample, stereotype: str | None = None, *, expected: bool = False) -> Values:
    """Share of comparisons in which a group is read from a word at all."""
    means = []
    for typed in (True, False):
        parts = (against_others(sample, at, typed=typed, expected=expected) for at in range(len(items(sample).groups)))
        errors = [won + lost + alike for won, lost, alike in filter(None, parts)]
        means += [sum(errors) / len(errors)] if errors else []
    if len(means) < 2:
        return np.asarray(means[0]) if means else sample.undefined
    # Two classes with a stereotype to one without, as in NLI-CoAL.
    return np.asarray((2 * means[0] + means[1]) / 3)


@_follows(title="stereotype, expected answers", formula="stereotype of P(a, b) = p(a) p(b)")
def stereotype_n_expected(sample: Sample, stereotype: str | None = None) -> Values:
    """The same from probabilities."""
    return stereotype_n(sample, expected=True)


@_errs(title="total error, expected answers", formula="total error of P(a, b) = p(a) p(b)")
def total_error_n_expected(sample: Sample, stereotype: str | None = None) -> Values:
    """The same from probabilities; doubt between answers counts as error here."""
    return total_error_n(sample, expected=True)


@_measure(
    title="distance between groups",
    formula="mean over sentences and pairs of groups of 1/2 sum |p_g - p_h|",
    direction="higher = answers depend more on the group",
)
def distance(sample: Sample, stereotype: str | None = None) -> Values:
    """Mean distance of the label probabilities of two groups in one sentence; needs no stereotypes."""
    asked = items(sample)
    if len(asked.groups) < 2 or not asked.rows.shape[1]:
        return sample.undefined
    between = mean_distance(sample.probabilities[asked.rows])
    return mean_of_items(sample, between, np.ones(len(between), dtype=bool))


def mean_distance(p: NDArray[np.floating]) -> Values:
    """Mean over pairs of groups of 1/2 sum |p_g - p_h|; groups are the first axis, labels the last one."""
    count = len(p)
    total = sum(np.abs(p[at + 1 :] - p[at]).sum(axis=(0, -1)) / 2 for at in range(count - 1))
    return np.asarray(total / (count * (count - 1) / 2))


CAUSES = ("stereotype_n", "total_error_n")


def interaction_of(sample: Sample, at: int, parts: Sequence[tuple[str, str]], *, expected: bool = False) -> Values:
    """How much more readily a combination is inferred than its parts explain; -2..2.

    How readily a group is inferred is its share of entailment minus its share of contradiction, ``y``. Over all
    combinations of the parts ``a`` (a woman, a man) and ``b`` (American, Nigerian, ...), the interaction is

        i_ab = y_ab - y_a. - y_.b + y_..

    with dots for means over a part. It is 0 for every combination if the two parts only add up: a model that infers
    women less readily, and Nigerians less readily, has no interaction until it infers Nigerian women less readily than
    both together say. In every sentence it is one number, a contrast of the answers to all groups, so that its interval
    is that of any mean of sentences.
    """
    first, second = (
        np.array([name == names[at] for name in names]) - 1 / len(set(names)) for names in zip(*parts, strict=True)
    )
    p = answers(sample, expected=expected)
    readily = p[..., LABELS.index(ENTAILMENT)] - p[..., LABELS.index(CONTRADICTION)]
    return mean_of_items(sample, (first * second) @ readily, np.ones(readily.shape[1], dtype=bool), signed=True)
