"""Cut a corpus anew into train, dev and test, a swapped copy in the split of its source."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenli.errors import InputError


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
    return np.random.default_rng([seed, purpose])
