"""The permutation test: how many equal partitions of the targets separate as much as the observed one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenli.evaluate.seat.bootstrap import Values
from evenli.evaluate.seat.results import Sides

_ROUNDING = 1e-13  # error of one association; sums of n of them tie within n times this
_CHUNK = 1_000_000  # bytes of selections held at once while sampling
_COUNTED = 100_000  # halves held at once where all are counted
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)  # [byte, bit]
_COUNTS = _BITS.sum(axis=1, dtype=np.uint8)
_MASKS = np.array([128 >> bit for bit in range(8)], dtype=np.uint8)


class Permuted(NamedTuple):
    """A p-value and the partitions it rests on."""

    p: float
    exact: bool
    permutations: int


def permutation_p(s: Values, sides: Sides, permutations: int, generator: np.random.Generator) -> Permuted:
    """Share of partitions into equal halves with ``sum s(X') >= sum s(X)``; ties count.

    All partitions are counted if they are no more than ``permutations``. Otherwise ``permutations - 1`` random ones are
    drawn and the observed one added, ``p = (k + 1) / (n + 1)``. Two-sided, the sums are compared by their distance from
    the mean.

    Args:
        s: Association of every target, the first half of them X.
        sides: ``one`` or ``two``.
        permutations: Most partitions to count.
        generator: Draws partitions.
    """
    n = len(s) // 2
    pooled = s - s.mean()
    observed = float(pooled[:n].sum())
    # In sorted order the draws depend on the values only, not on the order of words or on which half is called X.
    pooled.sort()
    partitions = math.comb(2 * n, n)
    exact = partitions <= permutations
    slack = _ROUNDING * len(s)
    hits = 0
    for sums in _all_halves(pooled) if exact else _sampled_halves(pooled, permutations - 1, generator):
        reached = np.abs(sums) >= abs(observed) - slack if sides == "two" else sums >= observed - slack
        hits += int(np.count_nonzero(reached))
    if exact:
        return Permuted(hits / partitions, True, partitions)
    return Permuted((hits + 1) / permutations, False, permutations)


def _all_halves(pooled: Values) -> Iterator[Values]:
    n = len(pooled) // 2
    halves = itertools.combinations(range(len(pooled)), n)
    for _ in range(0, math.comb(len(pooled), n), _COUNTED):
        items = itertools.chain.from_iterable(itertools.islice(halves, _COUNTED))
        yield pooled[np.fromiter(items, dtype=np.intp).reshape(-1, n)].sum(axis=1)


def _sampled_halves(pooled: Values, count: int, generator: np.random.Generator) -> Iterator[Values]:
    """Sums over random halves. Eight items share a byte, and the sum of every byte's items is looked up."""
    padded = np.zeros(-(-len(pooled) // 8) * 8)
    padded[: len(pooled)] = pooled
    tables = padded.reshape(-1, 8) @ _BITS.T
    step = max(1, _CHUNK // len(tables))
    for start in range(0, count, step):
        halves = _random_halves(min(step, count - start), len(pooled), generator)
        sums = np.zeros(halves.shape[1])
        for table, chosen in zip(tables, halves, strict=True):
            sums += table[chosen]
        yield sums


def _random_halves(count: int, size: int, generator: np.random.Generator) -> NDArray[np.uint8]:
    """``count`` random selections of half of ``size`` items, as bits, [size / 8, count]; all halves are equally likely.

    Fair coins choose a set that is uniform among those of its size. Taking random members out, or random others in,
    until half are left keeps it so. That needs about sqrt(size) steps per selection, where a shuffle needs ``size``.
    """
    chosen = generator.integers(256, size=(-(-size // 8), count), dtype=np.uint8)
    chosen[-1] &= 0xFF << (-size % 8) & 0xFF  # the last byte has bits that stand for no item
    surplus = _COUNTS[chosen].sum(axis=0, dtype=np.int32) - size // 2
    columns = np.flatnonzero(surplus)
    while columns.size:
        # One random item per unfinished selection; it is flipped only if that brings the selection nearer to half.
        items = generator.integers(size, size=columns.size)
        byte, bit = items >> 3, _MASKS[items & 7]
        movable = ((chosen[byte, columns] & bit) > 0) == (surplus[columns] > 0)
        moved = columns[movable]
        chosen[byte[movable], moved] ^= bit[movable]
        surplus[moved] -= np.sign(surplus[moved])
        columns = columns[surplus[columns] != 0]
    return chosen
