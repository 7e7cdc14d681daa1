"""Tokenised pairs: one padded matrix for all of them, and which of them are scored together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Tokens:
    """Token ids (padded) and segment ids of many pairs, and tokens per row; rows are taken by slice or index array."""

    ids: IntArray
    types: IntArray
    lengths: NDArray[np.int32]

    @classmethod
    def from_lists(cls, ids: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None, pad_id: int) -> Tokens:
        """Pad ragged lists into one matrix."""
        lengths = np.fromiter((len(row) for row in ids), dtype=np.int32, count=len(ids))
        filled = np.arange(lengths.max(initial=1)) < lengths[:, None]

        def matrix(rows: Sequence[Sequence[int]], fill: int) -> IntArray:
            values = np.full(filled.shape, fill, dtype=np.int64)
            values[filled] = np.fromiter((i for row in rows for i in row), dtype=np.int64, count=int(lengths.sum()))
            return values

        return cls(matrix(ids, pad_id), matrix(types, 0) if types else np.zeros(filled.shape, np.int64), lengths)

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.lengths)

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> Tokens:
        """The chosen rows."""
        return Tokens(self.ids[rows], self.types[rows], self.lengths[rows])

    def __iter__(self) -> Iterator[Tokens]:
        """One pair at a time."""
        return (self[i : i + 1] for i in range(len(self)))

    def batch(self) -> tuple[IntArray, IntArray, IntArray | None]:
        """Ids, segment ids and mask, cut to the longest row; the mask is None if nothing is padded."""
        longest = int(self.lengths.max())
        if int(self.lengths.min()) == longest:
            return self.ids[:, :longest], self.types[:, :longest], None
        mask = (np.arange(longest) < self.lengths[:, None]).astype(np.int64)
        return self.ids[:, :longest], self.types[:, :longest], mask


def tokenise(
    tokenizer: Any, pairs: Sequence[tuple[str, str]], limit: int, *, pad_id: int = 0, side: str = "right"
) -> tuple[Tokens, int]:
    """Tokenise pairs with a tokenizer of the ``tokenizers`` library; the longer sentence is cut where both do not fit.

    Returns the tokens and how many pairs were too long.
    """
    tokenizer.no_padding()
    tokenizer.no_truncation()
    # The fast call leaves out the offsets, which nobody reads here.
    encoded = tokenizer.encode_batch_fast(pairs)
    truncated = sum(len(one) > limit for one in encoded)
    if truncated:
        tokenizer.enable_truncation(limit, direction=side)
        encoded = tokenizer.encode_batch_fast(pairs)
    return Tokens.from_lists([one.ids for one in encoded], [one.type_ids for one in encoded], pad_id), truncated


def plan_batches(lengths: NDArray[np.int32], *, bucket: int, token_budget: int) -> Iterator[NDArray[np.int64]]:
    """Group rows of like length; a batch never holds more than ``token_budget`` tokens, padding included.

    Rows are ordered by length, so a batch is padded at most to the next multiple of ``bucket``.

    >>> [batch.tolist() for batch in plan_batches(np.array([3, 2, 3, 2, 9]), bucket=1, token_budget=6)]
    [[1, 3], [0, 2], [4]]
    """
    if not len(lengths):
        return
    padded = -(-lengths // bucket) * bucket
    order = np.argsort(padded, kind="stable")
    ordered = padded[order]
    bounds = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), len(ordered)]
    for start, stop in pairwise(bounds):
        size = max(1, token_budget // int(ordered[start]))
        # Even parts: a last batch of three rows costs nearly as much as a full one.
        yield from np.array_split(order[start:stop], -(-(stop - start) // size))
