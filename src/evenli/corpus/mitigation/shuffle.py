"""A new split and a random control of a corpus of any size, in memory that does not grow with it.

Every row has random keys that depend on the seed and on its number alone, so they are never stored: whoever needs them
draws them again. The rows with the lowest keys are dev and test, and the order of a file is that of another key. Only
the numbers of the rows in dev and test are held.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.core.errors import InputError
from evenli.corpus.mitigation.selection import CorpusPlan, Split, random_keys

_ORDER, _SPLIT, _COPY_ORDER, _COPY_SPLIT = 0, 2, 3, 4  # purposes of random keys; 1 is that of a random control
TRAIN, DEV, TEST = range(3)


class Shuffle:
    """Which file every row of the result goes into, and a key that puts the rows of a file in order.

    With the leak guard a row and its copy are one unit; without it each is a unit of its own.
    """

    def __init__(self, plan: CorpusPlan, split: Split, seed: int, total: int) -> None:
        check_split(total, split)
        self._split, self._seed, self._rows = split, seed, plan.corpus.scored.rows
        rooms = {DEV: split.dev, TEST: split.test}
        wanted = sum(rooms.values())
        best = pl.DataFrame(schema={"unit": pl.Int64, "size": pl.Int8, "key": pl.Float64})
        for some in self._units(plan):
            lowest = pl.concat([best, some]).sort("key", maintain_order=True)
            # Two more of size 1 fill a gap that others leave.
            best = pl.concat([lowest[:wanted], lowest[wanted:].filter(pl.col("size") == 1)[:2]])
        self._held: dict[int, int] = {}
        for unit, size, _ in best.iter_rows():
            # A source and its copy may not fit any more; a later single row then fills the place.
            file = next((file for file, room in rooms.items() if room >= size), TRAIN)
            if file != TRAIN:
                rooms[file] -= size
                self._held[unit] = file
        dev, test = split.dev - rooms[DEV], split.test - rooms[TEST]
        self.sizes = [total - dev - test, dev, test]

    def _units(self, plan: CorpusPlan) -> Iterator[pl.DataFrame]:
        """What may go into dev or test: a row of the source, how many rows of the result it stands for, its key."""
        for shard in plan.corpus.shards():
            masks = plan.masks(shard)
            kinds = [(masks.keep, 0, _SPLIT), (masks.copy, self._rows, _COPY_SPLIT)]
            if self._split.leak_guard:
                kinds = [(masks.keep.astype(np.int8) + masks.copy, 0, _SPLIT)]
            for sizes, first, purpose in kinds:
                units = np.arange(len(sizes)) + shard.start + first
                columns = {"unit": units, "size": sizes.astype(np.int8), "key": shard.keys(self._seed, purpose)}
                yield pl.DataFrame(columns).filter(pl.col("size") > 0)

    def keys(self, rows: NDArray[np.int64], *, copies: bool) -> NDArray[np.float64]:
        """The number of the file plus a key below 1, of ascending rows of one shard or of their copies."""
        first = int(rows[0])
        # The keys of all rows in between are drawn as well: that of a row depends on its number alone.
        order = random_keys(self._seed, _COPY_ORDER if copies else _ORDER, first, int(rows[-1]) - first + 1)
        units = rows + self._rows if copies and not self._split.leak_guard else rows
        return order[rows - first] + [self._held.get(unit, TRAIN) for unit in units.tolist()]


def check_split(total: int, split: Split) -> None:
    """Refuse a split that leaves nothing to train on."""
    if split.dev + split.test >= total:
        tenth = max(1, total // 10)
        raise InputError(
            f"{total} rows are too few for {split.dev} in dev, {split.test} in test and some to train on; "
            f"split a tenth each (--split {tenth},{tenth}), or write one file (--split none)"
        )
