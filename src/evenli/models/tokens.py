"""Ragged token batches: padding is added only where lengths differ, and then masked exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class TokenItem:
    """Token ids and segment ids of one pair."""

    ids: Sequence[int]
    types: Sequence[int]


def stack(items: Sequence[TokenItem], pad_id: int) -> tuple[IntArray, IntArray, IntArray | None]:
    """Ids, segment ids and mask of a batch; the mask is None if nothing was padded."""
    lengths = [len(item.ids) for item in items]
    longest = max(lengths)
    if min(lengths) == longest:
        return (
            np.array([item.ids for item in items], dtype=np.int64),
            np.array([item.types for item in items], dtype=np.int64),
            None,
        )
    ids = np.full((len(items), longest), pad_id, dtype=np.int64)
    types = np.zeros((len(items), longest), dtype=np.int64)
    mask = np.zeros((len(items), longest), dtype=np.int64)
    for row, (item, length) in enumerate(zip(items, lengths, strict=True)):
        ids[row, :length] = item.ids
        types[row, :length] = item.types
        mask[row, :length] = 1
    return ids, types, mask
