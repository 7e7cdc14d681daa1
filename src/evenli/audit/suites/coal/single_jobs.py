"""Do single jobs have leans of their own? Then errors without a common direction are about jobs."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtri

from evenli.audit.suites.coal.measures import DEFINING, answers, items
from evenli.core.record import Estimate, Record
from evenli.stats.sample import Codes, Sample, Values

_DRAWS = 199
"""Permutations: the smallest p is 0.005."""


class SingleJobs(Record, frozen=True):
    """How many jobs are read mostly in one way, and how far jobs differ.

    Attributes:
        words: Words that state no group.
        first: Those read as the first group's in more than half of their sentences.
        second: Those read as the second group's.
        spread: Standard deviation of the leans of words within their class, beyond what their sentences explain. Its p
            is of the hypothesis that all words of a class are read alike.
    """

    words: int
    first: int
    second: int
    spread: Estimate


def single_jobs(sample: Sample, *, expected: bool = False, level: float = 0.95) -> SingleJobs:
    """One-way random effects of words within their class, on the lean of an item: 1, 0 or -1, or its expectation.

    The variance between words is that of the analysis of variance, with the interval of Searle (1971) from the F
    distribution; p is of a permutation test, in which the sentences of a class are dealt to its words anew.
    """
    asked = items(sample)
    chosen = asked.classes != DEFINING
    if not chosen.any():
        return SingleJobs(0, 0, 0, Estimate.undefined("no sentences are asked with two groups", level))
    second, first = answers(sample, expected=expected)[chosen, :2].T.astype(np.float64)
    words = sample.design.occupations[asked.rows[0, chosen]]
    # Items of a word, and words of a class, follow each other.
    order = np.lexsort((words, asked.classes[chosen]))
    starts = np.flatnonzero(np.diff(words[order], prepend=-1))
    sizes = np.diff(starts, append=len(order))
    mostly = [int((2 * np.add.reduceat(column[order], starts) > sizes).sum()) for column in (first, second)]
    spread = _spread((second - first)[order], starts, asked.classes[chosen][order], level)
    return SingleJobs(len(starts), mostly[0], mostly[1], spread)


def _spread(lean: Values, starts: Codes, classes: NDArray[np.object_], level: float) -> Estimate:
    """Standard deviation between words; the words of a class differ around its own mean."""
    sizes = np.diff(starts, append=len(lean))
    codes = np.unique(classes, return_inverse=True)[1]
    of_word = codes[starts]
    inside = lean - (np.bincount(codes, lean) / np.bincount(codes))[codes]
    totals = np.add.reduceat(inside, starts)
    df, rest = len(starts) - len(set(of_word.tolist())), len(lean) - len(starts)
    if df < 1 or rest < 1:
        return Estimate.undefined("every job is asked once, or alone in its class", level)
    between = float((totals**2 / sizes).sum()) / df
    within = max(0.0, float((inside**2).sum()) - between * df) / rest
    rows = np.bincount(of_word, sizes)
    # Rows of a word, corrected for words of unequal size.
    mean_size = float((rows - np.bincount(of_word, sizes.astype(np.float64) ** 2) / rows).sum()) / df
    tail = (1 - level) / 2
    by = (1.0, float(fdtri(df, rest, 1 - tail)), float(fdtri(df, rest, tail)))
    value, low, high = (math.sqrt(max(0.0, between / part - within) / mean_size) for part in by)
    p = _p_of_words(lean, starts, codes)
    return Estimate(value, low, high, math.nan, level, len(lean), {"occupations": len(starts)}, p=p)


def _p_of_words(lean: Values, starts: Codes, classes: Codes) -> float:
    """(k + 1) / (n + 1), with k of n permutations at least as far between words as the answers are."""
    sizes = np.diff(starts, append=len(lean))
    parts = [np.flatnonzero(classes == code) for code in range(int(classes.max()) + 1)]
    if all(np.ptp(lean[part]) == 0 for part in parts):
        return 1.0
    generator = np.random.default_rng(0)

    def between(values: Values) -> float:
        return float((np.add.reduceat(values, starts) ** 2 / sizes).sum())

    found, shuffled, further = between(lean), lean.copy(), 0
    for _ in range(_DRAWS):
        for part in parts:
            shuffled[part] = generator.permutation(lean[part])
        further += between(shuffled) >= found - 1e-9
    return (further + 1) / (_DRAWS + 1)
