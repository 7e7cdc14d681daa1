"""NLI-CoAL and the causes for any number of groups. For two groups and one stereotype a word, the same numbers.

``e_p, c_a, n_n`` are shares of entailment in PS, contradiction in AS and neutral in NS, averaged within a word first.
A group *beats* another on a sentence if its answer stands higher: entailment above neutral above contradiction. Then
``M`` is the share of comparisons that a group wins, ``F`` the share it loses, and ``X`` the share in which both get the
same answer and that is not neutral.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from evenli.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.stats.measure import measure
from evenli.stats.sample import Sample, Values
from evenli.suites.groups.items import Mask, compare, items, mean_of_items, mean_of_words

_measure = partial(measure, ideal=0, suites=("groups",), reference="evenli")
_sets = partial(_measure, direction="higher = more biased", reference="after Anantaprayoon et al. 2024")
_follows = partial(
    _measure,
    bounds=(-1, 1),
    direction="above 0 = follows stereotypes, below 0 = goes against them",
    subsets=("PS", "AS"),
)
_errs = partial(_measure, direction="higher = more error without a direction")


def label_share(sample: Sample, label: str, rows: Mask, *, expected: bool = False) -> Values:
    """Share of a label among some rows, within each word first, or its mean probability."""
    at = LABELS.index(label)
    column = sample.probabilities[:, at] if expected else (sample.predicted == at).astype(np.float64)
    return mean_of_words(sample, column, rows)


def _share(sample: Sample, label: str, subset: str, *, expected: bool = False) -> Values:
    return label_share(sample, label, sample.where("subset", subset), expected=expected)


def _coal(sample: Sample, *, expected: bool = False) -> Values:
    part = partial(_share, sample, expected=expected)
    return np.asarray((part(ENTAILMENT, "PS") + part(CONTRADICTION, "AS") + 1 - part(NEUTRAL, "NS")) / 3)


@_sets(title="NLI-CoAL, n groups", formula="(e_p + c_a + (1 - n_n)) / 3")
def coal_n(sample: Sample, stereotype: str | None = None) -> Values:
    """Bias over all three labels; undefined where all words, or none, have a stereotype."""
    return _coal(sample)


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
    return _coal(sample, expected=True)


def _against(
    sample: Sample, group: int, rivals: Mask, chosen: Mask, *, expected: bool
) -> tuple[Values, Values, Values]:
    """M, F and X of a group against its rivals on the chosen items."""
    count = np.maximum(rivals.sum(axis=0), 1)
    parts = compare(sample, group, expected=expected)
    won, lost, alike = (mean_of_items(sample, (part * rivals).sum(axis=0) / count, chosen) for part in parts)
    return won, lost, alike


def of_stereotype(sample: Sample, group: int, *, expected: bool = False) -> tuple[Values, Values, Values] | None:
    """M, F and X of a group where a word is stereotyped with it, against groups that it is not stereotyped with."""
    asked = items(sample)
    chosen = asked.typed & asked.member[group]
    return _against(sample, group, ~asked.member, chosen, expected=expected) if chosen.any() else None


def of_default(sample: Sample, group: int, *, expected: bool = False) -> tuple[Values, Values, Values] | None:
    """M, F and X of a group against all others, where a word has no stereotype."""
    asked = items(sample)
    if len(asked.groups) < 2 or not asked.untyped.any():
        return None
    rivals = np.ones(asked.rows.shape, dtype=bool)
    rivals[group] = False
    return _against(sample, group, rivals, asked.untyped, expected=expected)


def default_of(sample: Sample, group: int, *, expected: bool = False) -> Values:
    """How much more often a group beats the others than they beat it, where no stereotype says so; -1..1."""
    parts = of_default(sample, group, expected=expected)
    return sample.undefined if parts is None else np.asarray(parts[0] - parts[1])


def stereotype_of(sample: Sample, group: int, *, expected: bool = False) -> Values:
    """M - F of a group where a word is stereotyped with it; -1..1."""
    parts = of_stereotype(sample, group, expected=expected)
    return sample.undefined if parts is None else np.asarray(parts[0] - parts[1])


def _stereotype(sample: Sample, *, expected: bool = False) -> Values:
    asked = items(sample)
    having = [at for at in range(len(asked.groups)) if (asked.typed & asked.member[at]).any()]
    if not having:
        return sample.undefined
    # Groups weigh the same: a default for one group is a gain to it and a loss to the others, and cancels.
    return np.asarray(sum(stereotype_of(sample, at, expected=expected) for at in having) / len(having))


def _undirected(sample: Sample, *, expected: bool = False) -> Values:
    groups = range(len(items(sample).groups))
    means = []
    for part in (of_stereotype, of_default):
        sides = [one for one in (part(sample, at, expected=expected) for at in groups) if one is not None]
        if sides:
            means.append(sum(2 * sample.smaller(won, lost) + alike for won, lost, alike in sides) / len(sides))
    if len(means) < 2:
        return np.asarray(means[0]) if means else sample.undefined
    # Two classes with a stereotype to one without, as in NLI-CoAL.
    return np.asarray((2 * means[0] + means[1]) / 3)


@_follows(title="stereotype", formula="mean over groups of M - F on words stereotyped with the group")
def stereotype_n(sample: Sample, stereotype: str | None = None) -> Values:
    """How much more readily the stereotyped group is inferred than the others."""
    return _stereotype(sample)


@_errs(
    title="undirected error",
    formula="mean over groups of 2 min(M, F) + X, words with a stereotype weighing two thirds",
)
def undirected_n(sample: Sample, stereotype: str | None = None) -> Values:
    """Answers that cancel out between groups or are the same for all and not neutral."""
    return _undirected(sample)


@_follows(title="stereotype, expected answers", formula="stereotype of P(a, b) = p(a) p(b)")
def stereotype_n_expected(sample: Sample, stereotype: str | None = None) -> Values:
    """The same from probabilities."""
    return _stereotype(sample, expected=True)


@_errs(title="undirected error, expected answers", formula="undirected error of P(a, b) = p(a) p(b)")
def undirected_n_expected(sample: Sample, stereotype: str | None = None) -> Values:
    """The same from probabilities; doubt between answers counts as error here."""
    return _undirected(sample, expected=True)


@_measure(
    title="distance between groups",
    formula="mean over sentences and pairs of groups of 1/2 sum |p_g - p_h|",
    direction="higher = answers depend more on the group",
)
def distance(sample: Sample, stereotype: str | None = None) -> Values:
    """Mean distance of the label probabilities of two groups in one sentence; needs no stereotypes."""
    asked = items(sample)
    count = len(asked.groups)
    if count < 2 or not asked.rows.shape[1]:
        return sample.undefined
    p = sample.probabilities[asked.rows]
    total = np.zeros(asked.rows.shape[1])
    for at in range(count - 1):
        total += np.abs(p[at + 1 :] - p[at]).sum(axis=(0, 2)) / 2
    return mean_of_items(sample, total / (count * (count - 1) / 2), np.ones(len(total), dtype=bool))


CAUSES = ("stereotype_n", "undirected_n")
OWN = (*CAUSES, "stereotype_n_expected", "undirected_n_expected", "distance")
"""Measures of our own; the others generalise published ones."""
