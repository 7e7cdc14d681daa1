"""The mean size of several association effects, and its change by a mitigation, with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.evaluate.seat.association import NO_SPREAD, RESAMPLES
from evenli.evaluate.seat.effects import Values, unit, weighted_effects
from evenli.evaluate.seat.tests import AssociationTest, TextSet
from evenli.stats.intervals import Estimate


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
    found = _estimate(*_sizes(tests, vectors, _Words(generator, resamples)), level, len(tests))
    return replace(found, low=0.0) if found.low < 0 else found


def average_change(
    tests: Sequence[AssociationTest],
    before: Mapping[str, NDArray[Any]],
    after: Mapping[str, NDArray[Any]],
    *,
    generator: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> Estimate:
    """How much the mean size of the effects differs between two encoders; negative if the second has smaller ones.

    Both are asked with the same words in every resample. What words alone do to an effect, which is most of the width
    of :func:`average_estimate`, drops out of the difference.

    Args:
        tests: Tests to average.
        before: Embedding of every text by the first encoder.
        after: Embedding of every text by the second.
        generator: Draws the words.
        resamples: Bootstrap resamples.
        level: Coverage of the interval.
    """
    texts = [text for test in tests for part in test.sets for text in part.texts]
    if not all(np.any(vectors[text]) for vectors in (before, after) for text in texts):
        note = "undefined: an embedding is zero and has no direction"
        return Estimate(math.nan, math.nan, math.nan, math.nan, level, len(tests), {}, note)
    words = _Words(generator, resamples)
    (first, earlier), (second, later) = (_sizes(tests, vectors, words) for vectors in (before, after))
    return _estimate(second - first, later - earlier, level, len(tests))


class _Words:
    """How often the words of each set are drawn: the same for every test and encoder that asks."""

    def __init__(self, generator: np.random.Generator, resamples: int) -> None:
        self.resamples = resamples
        self._generator = generator
        self._drawn: dict[tuple[str, ...], Values] = {}

    def times(self, part: TextSet) -> Values:
        """How often each text of a set is drawn, [resamples, texts]; those of a word come together."""
        words, which = np.unique(np.asarray(part.words, dtype=str), return_inverse=True)
        key = (part.title, *words.tolist())
        if key not in self._drawn:
            share = np.full(len(words), 1 / len(words))
            counts = self._generator.multinomial(len(words), share, size=self.resamples)
            self._drawn[key] = counts.astype(np.float64)
        return np.asarray(self._drawn[key][:, which])


def _sizes(
    tests: Sequence[AssociationTest], vectors: Mapping[str, NDArray[Any]], words: _Words
) -> tuple[float, Values]:
    """The mean size of the effects, and in every resample, signs held."""
    total, centre = np.zeros(words.resamples), 0.0
    for test in tests:
        x, y, a, b = (unit(np.stack([vectors[text] for text in part.texts])) for part in test.sets)
        targets = np.concatenate([x, y])
        observed = weighted_effects(targets @ (a.mean(axis=0) - b.mean(axis=0)), np.ones((1, len(targets))), len(x))
        s = np.zeros((words.resamples, len(targets)))
        for sign, attributes, part in ((1, a, test.a), (-1, b, test.b)):
            times = words.times(part)
            s += sign * (times @ (attributes @ targets.T)) / times.sum(axis=1, keepdims=True)
        effects = weighted_effects(s, np.concatenate([words.times(test.x), words.times(test.y)], axis=1), len(x))
        total += np.sign(observed[0]) * effects / len(tests)
        centre += abs(float(observed[0])) / len(tests)
    return centre, total


def _estimate(centre: float, drawn: Values, level: float, tests: int) -> Estimate:
    if not np.isfinite(drawn).all():
        return Estimate(centre, math.nan, math.nan, math.nan, level, tests, {}, NO_SPREAD)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    note = "over the words of the tests, signs held"
    return Estimate(centre, float(low), float(high), float(drawn.std(ddof=1)), level, tests, {}, note)
