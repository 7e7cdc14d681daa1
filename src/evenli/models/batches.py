"""Which pairs are scored together: rows of like length, within a token budget."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


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
