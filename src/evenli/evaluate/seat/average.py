"""The mean size of several association effects, and its change by a mitigation, with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.evaluate.seat.bootstrap import (
    NO_SPREAD,
    Index,
    Values,
    draw_words,
    percentile_interval,
    resampled_effects,
    unit,
    weighted_effects,
    word_index,
)
from evenli.evaluate.seat.results import DEFAULTS, SeatSettings
from evenli.evaluate.seat.tests import AssociationTest, TextSet, texts_of
from evenli.types import Estimate

Vectors = Mapping[str, NDArray[Any]]


def average_estimate(tests: Sequence[AssociationTest], vectors: Vectors, settings: SeatSettings = DEFAULTS) -> Estimate:
    """Mean size of the effects of several tests, with an interval over the choice of words.

    ``mean |d|``, 0 is neutral. Words are drawn anew for every set, once for all tests that use the set. Noise has no
    sign, so resampled sizes are too large where an effect is near 0: the signs of the effects are held as observed,
    and the interval ends at 0.

    Args:
        tests: Tests to average.
        vectors: Embedding of every text.
        settings: Seed, resamples and coverage.
    """
    return _estimate(*_sizes(tests, vectors, _WordDraws(settings)), settings, len(tests), lowest=0.0)


def average_change(
    tests: Sequence[AssociationTest], before: Vectors, after: Vectors, settings: SeatSettings = DEFAULTS
) -> Estimate:
    """How much the mean size of the effects differs between two encoders; negative if the second has smaller ones.

    Both are asked with the same words in every resample. What words alone do to an effect, which is most of the width
    of :func:`average_estimate`, drops out of the difference.

    Args:
        tests: Tests to average.
        before: Embedding of every text by the first encoder.
        after: Embedding of every text by the second.
        settings: Seed, resamples and coverage.
    """
    if not all(np.any(vectors[text]) for vectors in (before, after) for text in texts_of(tests)):
        return undefined_estimate("undefined: an embedding is zero and has no direction", settings, len(tests))
    draws = _WordDraws(settings)
    (first, earlier), (second, later) = (_sizes(tests, vectors, draws) for vectors in (before, after))
    return _estimate(second - first, later - earlier, settings, len(tests))


def undefined_estimate(note: str, settings: SeatSettings, n: int = 0) -> Estimate:
    """No value, and why."""
    return Estimate(math.nan, math.nan, math.nan, math.nan, settings.coverage, n, {}, note)


class _WordDraws:
    """How often the words of each set are drawn: the same for every test and encoder that asks."""

    def __init__(self, settings: SeatSettings) -> None:
        self.resamples = settings.resamples
        self._generator = np.random.default_rng(settings.seed)
        self._draws: dict[tuple[str, ...], Values] = {}

    def draw(self, part: TextSet, index: Index) -> Values:
        """[resamples, words]."""
        key = (part.title, *sorted(set(part.words)))
        if key not in self._draws:
            self._draws[key] = draw_words(index, self.resamples, self._generator)
        return self._draws[key]


def _sizes(tests: Sequence[AssociationTest], vectors: Vectors, draws: _WordDraws) -> tuple[float, Values]:
    """The mean size of the effects, and in every resample, signs held."""
    resampled, observed = np.zeros(draws.resamples), 0.0
    for test in tests:
        sets = [unit(np.stack([vectors[text] for text in part.texts])) for part in test.sets]
        index = [word_index(part.words) for part in test.sets]
        targets = np.concatenate(sets[:2])
        s = targets @ (sets[2].mean(axis=0) - sets[3].mean(axis=0))
        effect = float(weighted_effects(s, np.ones((1, len(targets))), len(sets[0]))[0])
        # Attributes are drawn first, as in a single test.
        a, b, x, y = (draws.draw(test.sets[at], index[at]) for at in (2, 3, 0, 1))
        # The sign of the observed effect, not of the resampled one: the size of noise is not an effect.
        resampled += np.sign(effect) * resampled_effects(sets, index, (x, y, a, b)) / len(tests)
        observed += abs(effect) / len(tests)
    return observed, resampled


def _estimate(
    value: float, resampled: Values, settings: SeatSettings, tests: int, lowest: float = -math.inf
) -> Estimate:
    low = high = se = math.nan
    note = NO_SPREAD
    if np.isfinite(resampled).all():
        low, high = percentile_interval(resampled, settings.coverage)
        low, se, note = max(low, lowest), float(resampled.std(ddof=1)), "over the words of the tests, signs held"
    return Estimate(value, low, high, se, settings.coverage, tests, {}, note)
