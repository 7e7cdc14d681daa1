"""The order of the data: batches of one size, of pairs of like length, in an order that the seed fixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LENGTHS = (16, 24, 32, 40, 48, 64, 96, 128)
"""Padded lengths. Few, because each is compiled and captured once; multiples of 8, which attention kernels need."""

CHUNK = 100
"""Batches whose pairs are sorted by length together."""

NOBODY = -1
"""Fills up the last batch of an epoch; such a row weighs nothing."""


@dataclass(frozen=True)
class Plan:
    """One epoch: ``rows[step]`` are the pairs of a batch and ``lengths[step]`` what they are padded to."""

    rows: NDArray[np.int64]
    lengths: list[int]

    def __len__(self) -> int:
        """Number of steps."""
        return len(self.lengths)


def padded_lengths(max_length: int, positions: int | None = None) -> tuple[int, ...]:
    """The padded lengths in use for pairs of up to ``max_length`` tokens.

    Args:
        max_length: Longest pair.
        positions: Longest input the model has position embeddings for, if it has a limit.

    >>> padded_lengths(50), padded_lengths(180), padded_lengths(100, positions=100)
    ((16, 24, 32, 40, 48, 56), (16, 24, 32, 40, 48, 64, 96, 128, 184), (16, 24, 32, 40, 48, 64, 96, 100))
    """
    longest = -(-max_length // 8) * 8
    if positions is not None:
        longest = min(longest, positions)
    return (*(length for length in LENGTHS if length < longest), longest)


def plan_epoch(
    lengths: NDArray[np.int64], batch_size: int, padded: Sequence[int], *, seed: int, epoch: int, chunk: int = CHUNK
) -> Plan:
    """Shuffle all pairs, sort by length inside large chunks, cut into batches, shuffle the batches.

    Every pair comes once and every batch but one is full. Which pairs meet in a batch stays random: a chunk is a
    random sample, and pairs of the same padded length keep their shuffled order in it.
    """
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(lengths))
    bucket = np.searchsorted(padded, lengths)
    span = chunk * batch_size
    order = np.concatenate(
        [part[np.argsort(bucket[part], kind="stable")] for part in np.split(order, range(span, len(order), span))]
    )
    steps = -(-len(order) // batch_size)
    rows = np.full((steps, batch_size), NOBODY, dtype=np.int64)
    rows.reshape(-1)[: len(order)] = order
    rows = rows[generator.permutation(steps)]
    widest = np.where(rows == NOBODY, 0, bucket[rows]).max(axis=1)
    return Plan(rows, [int(padded[index]) for index in widest])
