"""Cut a corpus anew into train, dev and test, a swapped copy in the split of its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli._rows import COLUMNS
from evenli.errors import InputError
from evenli.mitigation.augment import SUFFIX


@dataclass(frozen=True)
class Split:
    """How a corpus is cut anew.

    Attributes:
        dev: Rows of the development set.
        test: Rows of the test set; the rest is for training.
        leak_guard: Keep a swapped copy in the split of its source; off only to replicate a plain shuffle.
    """

    dev: int = 10_000
    test: int = 10_000
    leak_guard: bool = True

    def __post_init__(self) -> None:
        if self.dev < 0 or self.test < 0:
            raise InputError(f"split sizes must be 0 or more, not {self.dev} and {self.test}")


@dataclass(frozen=True)
class Splits:
    """The rows after a new split, and how many were left out for want of a gold label."""

    train: list[dict[str, Any]]
    dev: list[dict[str, Any]]
    test: list[dict[str, Any]]
    no_gold: int


def resplit(
    rows: Sequence[Mapping[str, Any]],
    *,
    dev: int = 10_000,
    test: int = 10_000,
    seed: int = 0,
    leak_guard: bool = True,
    sources: Sequence[int] | None = None,
) -> Splits:
    """Shuffle rows and cut them into train, dev and test; rows with the gold label ``-`` are left out first.

    Args:
        rows: Pairs or sentences as dictionaries.
        dev: Rows of the development set.
        test: Rows of the test set.
        seed: Of the shuffle.
        leak_guard: Keep a swapped copy in the split of its source.
        sources: For each row the index of the row it is a copy of, or its own. By default the ids tell:
            ``7-swapped`` is the copy of ``7``.
    """
    if sources is None:
        sources = _sources_by_id(rows)
    elif len(sources) != len(rows):
        raise InputError(f"{len(rows)} rows but {len(sources)} sources; give one for each row")
    gold = [next((str(row[name]) for name in COLUMNS["gold"] if name in row), "") for row in rows]
    kept = np.array([index for index, label in enumerate(gold) if label.strip() not in {"-", "-1"}], dtype=np.int64)
    split = Split(dev, test, leak_guard)
    groups = np.asarray(sources, dtype=np.int64)[kept] if len(kept) else kept
    part, order = assign(groups, split, seed)
    parts = [[dict(rows[kept[item]]) for item in order[part[order] == which]] for which in range(3)]
    return Splits(parts[0], parts[1], parts[2], len(rows) - len(kept))


def _sources_by_id(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    ids = [next((str(row[name]) for name in COLUMNS["id"] if row.get(name) is not None), None) for row in rows]
    first: dict[str, int] = {}
    for index, name in enumerate(ids):
        if name is not None:
            first.setdefault(name, index)
    return [first.get(name.removesuffix(SUFFIX), index) if name else index for index, name in enumerate(ids)]


def assign(groups: NDArray[np.int64], split: Split, seed: int) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Part of each item (0 train, 1 dev, 2 test) and a shuffled order of the items."""
    total = len(groups)
    if split.dev + split.test >= total:
        raise InputError(
            f"{total} rows cannot give {split.dev} for dev and {split.test} for test and leave some to train on; "
            "choose smaller splits or none"
        )
    rng = generator(seed, 0)
    order = rng.permutation(total)
    part = np.zeros(total, dtype=np.int8)
    if not split.leak_guard:
        part[order[: split.dev]] = 1
        part[order[split.dev : split.dev + split.test]] = 2
        return part, order
    _, unit, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    left = {1: split.dev, 2: split.test}
    part_of_unit = np.zeros(len(sizes), dtype=np.int8)
    for index in rng.permutation(len(sizes)):
        size = int(sizes[index])
        # A source and its copy may not fit any more; a later single row then fills the place.
        which = next((which for which, room in left.items() if room >= size), 0)
        if which:
            part_of_unit[index] = which
            left[which] -= size
        if not any(left.values()):
            break
    return part_of_unit[unit], order


def generator(seed: int, purpose: int) -> np.random.Generator:
    """The random numbers of a seed, others for each purpose: 0 shuffles, 1 picks the rows of a control."""
    if seed < 0:
        raise InputError(f"the seed must be 0 or more, not {seed}")
    return np.random.default_rng([seed, purpose])
