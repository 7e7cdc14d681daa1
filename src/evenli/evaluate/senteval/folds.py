"""Folds and shuffles that depend on the seed and the task alone."""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from numpy.typing import NDArray

from evenli.errors import InputError


def _number(seed: int, *names: object) -> int:
    content = "|".join(str(one) for one in (seed, *names))
    return int.from_bytes(hashlib.sha256(content.encode()).digest()[:7], "big")


def numpy_generator(seed: int, *names: object) -> np.random.Generator:
    """A generator of its own for every seed, task and purpose."""
    return np.random.default_rng(_number(seed, *names))


def torch_generator(seed: int, *names: object) -> torch.Generator:
    """The same for torch, always on the CPU."""
    return torch.Generator().manual_seed(_number(seed, *names))


def stratified_folds(labels: NDArray[np.int64], count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Deal the rows of every class in random order to ``count`` folds; the fold of every row.

    The deal goes on where the class before ended, so that folds differ by one row at most, also within a class.
    """
    smallest = int(np.bincount(labels)[np.unique(labels)].min())
    if not 2 <= count <= smallest:
        raise InputError(f"{count} folds: the smallest class has {smallest} rows; choose 2 to {smallest} folds")
    folds = np.empty(len(labels), dtype=np.int64)
    dealt = 0
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == label))
        folds[rows] = (np.arange(len(rows)) + dealt) % count
        dealt += len(rows)
    return folds
