"""Effect sizes, and how they vary with the choice of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Index = NDArray[np.intp]

CONSTANT = 1e-12
"""A spread of associations up to this is none."""
NO_SPREAD = "no interval: some choices of words leave no spread between targets"


def unit(rows: NDArray[Any]) -> Values:
    """Rows at length 1."""
    rows = rows.astype(np.float64)
    scaled = rows / np.abs(rows).max(axis=1, keepdims=True)  # squares of very large or small numbers would overflow
    return np.asarray(scaled / np.linalg.norm(scaled, axis=1, keepdims=True))


def word_index(words: Sequence[str]) -> Index:
    """A number for the word behind every text, in the order of the alphabet."""
    return np.unique(np.asarray(words, dtype=str), return_inverse=True)[1].astype(np.intp)


def draw_words(index: Index, resamples: int, generator: np.random.Generator) -> Values:
    """How often every word is drawn with replacement, [resamples, words]."""
    words = int(index.max()) + 1
    return generator.multinomial(words, np.full(words, 1 / words), size=resamples).astype(np.float64)


def weighted_effects(s: Values, weights: Values, n: int, ddof: int = 1) -> Values:
    """Effect sizes where each of n + n targets counts ``weights`` times, [resamples]; NaN where nothing varies.

    Args:
        s: Association of every target, [targets] or [resamples, targets].
        weights: How often every target counts, [resamples, targets].
        n: Number of the first targets.
        ddof: Of the standard deviation.
    """
    s = np.broadcast_to(s, weights.shape)

    def mean(part: slice) -> Values:
        return np.asarray((weights[:, part] * s[:, part]).sum(axis=1) / weights[:, part].sum(axis=1))

    centred = s - mean(slice(None))[:, None]
    spread = np.sqrt((weights * centred**2).sum(axis=1) / (weights.sum(axis=1) - ddof))
    return np.asarray((mean(slice(n)) - mean(slice(n, None))) / np.where(spread > CONSTANT, spread, np.nan))


def resampled_effects(sets: Sequence[Values], index: Sequence[Index], draws: Sequence[Values], ddof: int = 1) -> Values:
    """The effect in every resample of the words behind X, Y, A and B; all texts of a word come along.

    Args:
        sets: Unit vectors of X, Y, A and B.
        index: The word behind every text of each set.
        draws: How often every word of each set is drawn, [resamples, words].
        ddof: Of the standard deviation.
    """
    targets = np.concatenate(sets[:2])
    s = np.zeros((len(draws[0]), len(targets)))
    for sign, attributes, words, drawn in zip((1, -1), sets[2:], index[2:], draws[2:], strict=True):
        # The sentences of a word come together, so one product per word is enough.
        by_word = np.zeros((drawn.shape[1], attributes.shape[1]))
        np.add.at(by_word, words, attributes)
        s += sign * (drawn @ (by_word @ targets.T)) / (drawn @ np.bincount(words))[:, None]
    weights = np.concatenate([drawn[:, words] for drawn, words in zip(draws[:2], index[:2], strict=True)], axis=1)
    return weighted_effects(s, weights, len(sets[0]), ddof)


def percentile_interval(values: Values, coverage: float) -> tuple[float, float]:
    """The ends between which the middle ``coverage`` of the resampled values lies."""
    low, high = np.quantile(values, [(1 - coverage) / 2, (1 + coverage) / 2])
    return float(low), float(high)
