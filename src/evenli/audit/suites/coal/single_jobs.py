"""Are single jobs read alike in all their sentences, more than by chance? Then errors without a lean are about jobs."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from evenli.audit.suites.coal.measures import DEFINING, answers, items
from evenli.core.record import Number, Record
from evenli.stats.sample import Codes, Sample, Values

_DRAWS = 199
"""Permutations: the smallest p is 0.005."""


class SingleJobs(Record, frozen=True):
    """How many jobs are read mostly in one way, and whether that is chance.

    Attributes:
        words: Words that state no group.
        first: Those read as the first group's in more than half of their sentences.
        second: Those read as the second group's.
        p: Of the hypothesis that all words of a class are read alike; NaN without two groups.
    """

    words: int
    first: int
    second: int
    p: Number


def single_jobs(sample: Sample) -> SingleJobs:
    """Permutation test: within a class the sentences are dealt to the words anew, with their answers.

    The statistic is the sum of squares between words of the lean of an item, 1, 0 or -1.
    """
    asked = items(sample)
    chosen = asked.classes != DEFINING
    if not chosen.any():
        return SingleJobs(0, 0, 0, math.nan)
    second, first = answers(sample)[chosen, :2].T
    words = sample.design.occupations[asked.rows[0, chosen]]
    # Items of a word, and words of a class, follow each other.
    order = np.lexsort((words, asked.classes[chosen]))
    starts = np.flatnonzero(np.diff(words[order], prepend=-1))
    sizes = np.diff(starts, append=len(order))
    mostly = [int((2 * np.add.reduceat(column[order], starts) > sizes).sum()) for column in (first, second)]
    lean = (second - first)[order].astype(np.float64)
    return SingleJobs(len(starts), mostly[0], mostly[1], _p_of_words(lean, starts, asked.classes[chosen][order]))


def _p_of_words(lean: Values, starts: Codes, classes: NDArray[np.object_]) -> float:
    """(k + 1) / (n + 1), with k of n permutations at least as far between words as the answers are."""
    sizes = np.diff(starts, append=len(lean))
    parts = [np.flatnonzero(classes == name) for name in dict.fromkeys(classes.tolist())]
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
