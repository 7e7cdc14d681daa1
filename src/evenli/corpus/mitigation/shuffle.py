"""A new split and a random control of a corpus of any size, in memory that does not grow with it.

Every row has random keys that depend on the seed and on its number alone, so they are never stored: whoever needs them
draws them again. The rows with the lowest keys are dev and test, and the order of a file is that of another key. Only
the numbers of the rows in dev and test are held.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenli.core.errors import InputError
from evenli.corpus.mitigation.selection import CorpusPlan, Split, random_keys

_ORDER, _SPLIT, _COPY_ORDER, _COPY_SPLIT = 0, 2, 3, 4  # purposes of random keys; 1 is that of a random control
TRAIN, DEV, TEST = range(3)


class Candidates(NamedTuple):
    """Units that may go into dev or test: a row of the source, how many rows of the result it stands for, its key."""

    units: NDArray[np.int64]
    sizes: NDArray[np.int8]
    keys: NDArray[np.float64]

    def lowest(self, count: int) -> Candidates:
        """Those with the lowest keys in their order, and two more of size 1, which fill a gap that others leave."""
        order = np.argsort(self.keys, kind="stable")
        later = order[count:]
        order = np.concatenate([order[:count], later[self.sizes[later] == 1][:2]])
        return Candidates(self.units[order], self.sizes[order], self.keys[order])


class Shuffle:
    """Which file every row of the result goes into, and a key that puts the rows of a file in order.

    With the leak guard a row and its copy are one unit; without it each is a unit of its own.
    """

    def __init__(self, plan: CorpusPlan, split: Split, seed: int, total: int) -> None:
        check_split(total, split)
        self._plan, self._split, self._seed = plan, split, seed
        self._rows = plan.corpus.scored.rows
        rooms = {DEV: split.dev, TEST: split.test}
        held: list[tuple[int, int, int]] = []
        best = Candidates(np.zeros(0, np.int64), np.zeros(0, np.int8), np.zeros(0))
        for some in self._units():
            both = (np.concatenate([getattr(best, name), getattr(some, name)]) for name in Candidates._fields)
            best = Candidates(*both).lowest(split.dev + split.test)
        for unit, size in zip(best.units.tolist(), best.sizes.tolist(), strict=True):
            # A source and its copy may not fit any more; a later single row then fills the place.
            file = next((file for file, room in rooms.items() if room >= size), TRAIN)
            if file != TRAIN:
                rooms[file] -= size
                held.append((unit, file, size))
        held.sort()
        self._held = np.array([unit for unit, _, _ in held], dtype=np.int64)
        self._file = np.array([file for _, file, _ in held], dtype=np.int8)
        sizes = {file: sum(size for _, place, size in held if place == file) for file in rooms}
        self.sizes = [total - sum(sizes.values()), sizes[DEV], sizes[TEST]]

    def _units(self) -> Iterator[Candidates]:
        for shard in self._plan.corpus.shards():
            masks = self._plan.masks(shard)
            rows = np.arange(shard.start, shard.start + len(masks.keep))
            keys = shard.keys(self._seed, _SPLIT)
            if self._split.leak_guard:
                sizes = masks.keep.astype(np.int8) + masks.copy
                yield Candidates(rows[sizes > 0], sizes[sizes > 0], keys[sizes > 0])
                continue
            others = shard.keys(self._seed, _COPY_SPLIT)
            for mask, first, values in ((masks.keep, 0, keys), (masks.copy, self._rows, others)):
                yield Candidates(rows[mask] + first, np.ones(mask.sum(), np.int8), values[mask])

    def keys(self, rows: NDArray[np.int64], *, copies: bool) -> NDArray[np.float64]:
        """The number of the file plus a key below 1, of ascending rows of one shard or of their copies."""
        first = int(rows[0])
        # The keys of all rows in between are drawn as well: that of a row depends on its number alone.
        order = random_keys(self._seed, _COPY_ORDER if copies else _ORDER, first, int(rows[-1]) - first + 1)
        units = rows + self._rows if copies and not self._split.leak_guard else rows
        at = np.searchsorted(self._held, units)
        file = np.zeros(len(rows))
        if len(self._held):
            inside = np.minimum(at, len(self._held) - 1)
            file = np.where(self._held[inside] == units, self._file[inside], TRAIN).astype(np.float64)
        return file + order[rows - first]

    def borders(self, bucket: int) -> NDArray[np.float64]:
        """Keys between which there are about ``bucket`` rows or fewer, and those between two files."""
        parts = []
        for file, size in enumerate(self.sizes):
            pieces = max(1, -(-size // bucket))
            parts.append(file + np.arange(pieces) / pieces)
        return np.concatenate(parts)[1:]


def check_split(total: int, split: Split) -> None:
    """Refuse a split that leaves nothing to train on."""
    if split.dev + split.test >= total:
        tenth = max(1, total // 10)
        raise InputError(
            f"{total} rows are too few for {split.dev} in dev, {split.test} in test and some to train on; "
            f"split a tenth each (--split {tenth},{tenth}), or write one file (--split none)"
        )
