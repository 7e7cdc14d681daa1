"""The mean size of several association effects, with an interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.datasets.seat import AssociationTest, TextSet
from evenli.measures._effects import Values, unit, weighted_effects
from evenli.measures.association import NO_SPREAD, RESAMPLES
from evenli.measures.estimate import Estimate


def average_estimate(
    tests: Sequence[AssociationTest],
    vectors: Mapping[str, NDArray[Any]],
    *,
    generator: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> Estimate:
    """Mean size of the effects of several tests, with an interval over the choice of words.

    ``mean |d|``, 0 is neutral. Words are drawn anew for every set, once for all tests that use the set. Noise has no
    sign, so resampled sizes are too large where an effect is near 0: the signs of the effects are held as observed,
    and the interval ends at 0.

    Args:
        tests: Tests to average.
        vectors: Embedding of every text.
        generator: Draws the words.
        resamples: Bootstrap resamples.
        level: Coverage of the interval.
    """
    drawn: dict[tuple[str, ...], Values] = {}

    def weights(part: TextSet) -> Values:
        """How often each text of a set is drawn, [resamples, texts]; those of a word come together."""
        words, which = np.unique(np.asarray(part.words, dtype=str), return_inverse=True)
        key = (part.title, *words.tolist())
        if key not in drawn:
            share = np.full(len(words), 1 / len(words))
            drawn[key] = generator.multinomial(len(words), share, size=resamples).astype(np.float64)
        return np.asarray(drawn[key][:, which])

    total, centre = np.zeros(resamples), 0.0
    for test in tests:
        x, y, a, b = (unit(np.stack([vectors[text] for text in part.texts])) for part in test.sets)
        targets = np.concatenate([x, y])
        observed = weighted_effects(targets @ (a.mean(axis=0) - b.mean(axis=0)), np.ones((1, len(targets))), len(x))
        s = np.zeros((resamples, len(targets)))
        for sign, attributes, part in ((1, a, test.a), (-1, b, test.b)):
            times = weights(part)
            s += sign * (times @ (attributes @ targets.T)) / times.sum(axis=1, keepdims=True)
        effects = weighted_effects(s, np.concatenate([weights(test.x), weights(test.y)], axis=1), len(x))
        total += np.sign(observed[0]) * effects / len(tests)
        centre += abs(float(observed[0])) / len(tests)
    if not np.isfinite(total).all():
        return Estimate(centre, math.nan, math.nan, math.nan, level, len(tests), {}, NO_SPREAD)
    low, high = np.quantile(total, [(1 - level) / 2, (1 + level) / 2])
    note = "over the words of the tests, signs held"
    se = float(total.std(ddof=1))
    return Estimate(centre, max(0.0, float(low)), float(high), se, level, len(tests), {}, note)
