"""Tokenised pairs: one padded matrix for all of them, cut to the longest row of each batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Tokens:
    """Token ids and segment ids of many pairs; rows are cut out by index, slice or index array.

    Attributes:
        ids: [n, longest], padded with the pad id.
        types: Segment ids of the same shape.
        lengths: Tokens per row.
    """

    ids: IntArray
    types: IntArray
    lengths: NDArray[np.int32]

    @classmethod
    def from_lists(cls, ids: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None, pad_id: int) -> Tokens:
        """Pad ragged lists into one matrix."""
        lengths = np.fromiter((len(row) for row in ids), dtype=np.int32, count=len(ids))
        filled = np.arange(lengths.max(initial=1)) < lengths[:, None]

        def matrix(rows: Sequence[Sequence[int]], fill: int) -> IntArray:
            made = np.full(filled.shape, fill, dtype=np.int64)
            made[filled] = np.fromiter((i for row in rows for i in row), dtype=np.int64, count=int(lengths.sum()))
            return made

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
