"""Models of known causes with any number of groups: what is taught is what the measures of suite groups find."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest

from evenli.audit.predictions import Predictions
from evenli.audit.suites.groups import measures
from evenli.core.errors import InputError
from evenli.core.labels import LABELS
from evenli.stats.measure import get_measure
from evenli.stats.sample import Sample
from studies.axes.mixture import GroupMixture

Mixture = tuple[float, float, float]
SIZE = 10
LEVELS = [levels for levels in itertools.product((0.0, 0.4, 1.0), (0.0, 0.4, 0.8), (0.0, 0.4, 0.8)) if sum(levels) <= 1]


def perfect(mixture: GroupMixture) -> Sample:
    """A model that answers as it was taught."""
    labels, _ = mixture.patterns()
    rows = [
        {
            "id": f"{word}-{group}",
            "subset": "NS" if word // SIZE == mixture.groups else "PS" if word // SIZE == group else "AS",
            "premise": f"w{word}",
            "hypothesis": f"g{group}",
            "gold": "neutral",
            "occupation": f"w{word}",
            "stereotype": "neutral" if word // SIZE == mixture.groups else "stereotyped",
            "template": "the [Sub] waits.",
            "group": f"g{group}",
        }
        for word, group in itertools.product(range(len(labels)), range(mixture.groups))
    ]
    logits = 20 * np.eye(3, dtype=np.float32)[labels.reshape(-1)]
    return Sample(
        Predictions(pl.DataFrame(rows).with_columns(pl.Series(k, logits[:, i]) for i, k in enumerate(LABELS)))
    )


@pytest.mark.parametrize("groups", [2, 3, 5])
@pytest.mark.parametrize("levels", LEVELS)
def test_what_is_taught_is_what_is_measured(groups: int, levels: Mixture) -> None:
    mixture = GroupMixture(levels, groups, SIZE)
    sample = perfect(mixture)
    found = (
        float(get_measure("stereotype_n")(sample)),
        float(measures.default_of(sample, groups - 1)),
        error(sample, groups),
    )
    assert found == pytest.approx(levels, abs=1e-6)
    labels, _ = mixture.patterns()
    assert mixture.learnt(np.repeat(labels[:, None], 4, axis=1)) == pytest.approx(levels, abs=1e-6)


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_total_error_rises_with_every_cause_alone(groups: int) -> None:
    # A stereotype touches two thirds by weight; a default wins all comparisons of one group, and one of each other's.
    for levels, expected in (((0.4, 0, 0), 0.4 * 2 / 3), ((0, 0.4, 0), 0.4 * 2 / groups), ((0, 0, 0.4), 0.4)):
        sample = perfect(GroupMixture(levels, groups, SIZE))
        assert float(get_measure("total_error_n")(sample)) == pytest.approx(expected, abs=1e-6)


def error(sample: Sample, groups: int) -> float:
    """Error in no direction, 2 min(M, F) + X, words with a stereotype weighing two thirds."""
    means = []
    for typed in (True, False):
        parts = [measures.against_others(sample, at, typed=typed) for at in range(groups)]
        means.append(
            np.mean([2 * min(float(won), float(lost)) + float(alike) for won, lost, alike in filter(None, parts)])
        )
    return float((2 * means[0] + means[1]) / 3)


def test_what_was_not_learnt_does_not_count() -> None:
    mixture = GroupMixture((0.4, 0.4, 0.2), 3, SIZE)
    labels, _ = mixture.patterns()
    half = np.repeat(labels[:, None], 4, axis=1)
    half[:, :2] = LABELS.index("neutral")
    assert mixture.learnt(half) == pytest.approx((0.2, 0.2, 0.1), abs=1e-6)


def test_shares_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="exceed"):
        GroupMixture((0.8, 0.4, 0.0), 3, SIZE).patterns()
    with pytest.raises(InputError, match="split"):
        GroupMixture((0.45, 0.0, 0.0), 3, SIZE).patterns()
