"""Words and their vectors, in memory or mapped from a file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenli.errors import InputError


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words and their vectors; row i of ``matrix`` belongs to ``words[i]``, in file order (frequent words first)."""

    words: tuple[str, ...]
    matrix: NDArray[np.float32]
    index: dict[str, int] = field(repr=False)
    name: str
    identity: str
    """SHA-256 of words and numbers: the same for the same vectors, whatever the file format."""
    notes: tuple[str, ...] = ()
    file: Path | None = None
    """Where they were read from."""

    @classmethod
    def of(cls, words: Iterable[str], matrix: ArrayLike, name: str = "vectors") -> WordVectors:
        """Vectors that are in memory already; words must be distinct."""
        words = tuple(words)
        rows = np.ascontiguousarray(matrix, dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(words) or not words:
            raise InputError(f"{name}: {len(words)} words need a matrix of as many rows, not one of shape {rows.shape}")
        if not np.isfinite(rows).all():
            raise InputError(f"{name}: the matrix holds numbers that are not finite")
        index = {word: row for row, word in enumerate(words)}
        if len(index) < len(words):
            twice = next(word for row, word in enumerate(words) if index[word] != row)
            raise InputError(f"{name}: '{twice}' is there more than once; keep one vector a word")
        digest = hashlib.sha256(rows.tobytes())
        return cls(words, rows, index, name, identity_of(digest.hexdigest(), words, rows.shape[1]))

    @property
    def dimension(self) -> int:
        """Numbers in a vector."""
        return int(self.matrix.shape[1])

    def __len__(self) -> int:
        return len(self.words)

    def find(self, word: str) -> int:
        """Row of a word: its exact form, else its lower-case form, else -1."""
        row = self.index.get(word)
        return row if row is not None else self.index.get(word.lower(), -1)

    def rows(self, words: Iterable[str]) -> NDArray[np.int64]:
        """Rows of many words, -1 for those without a vector."""
        return np.fromiter((self.find(word) for word in words), dtype=np.int64)

    def vector(self, word: str) -> NDArray[np.float32]:
        """The vector of a word, as stored."""
        row = self.find(word)
        if row < 0:
            raise InputError(f"{self.name} has no vector for '{word}' nor for '{word.lower()}'")
        return np.array(self.matrix[row])

    def unit(self, rows: ArrayLike) -> NDArray[np.float64]:
        """Vectors of the given rows at length 1; NaN for a zero vector, which has no direction."""
        which = np.asarray(rows, dtype=np.int64)
        if which.size and not (which.min() >= 0 and which.max() < len(self)):
            raise InputError(f"{self.name} has rows 0 to {len(self) - 1}; drop words without a vector (row -1) first")
        chosen = np.asarray(self.matrix[which], dtype=np.float64)
        length = np.linalg.norm(chosen, axis=-1, keepdims=True)
        return np.asarray(chosen / np.where(length > 0, length, np.nan), dtype=np.float64)


def identity_of(numbers: str, words: Iterable[str], dimension: int) -> str:
    """SHA-256 over the digest of the numbers, their count in a vector, and the words."""
    digest = hashlib.sha256(f"{numbers}|{dimension}".encode())
    for word in words:
        digest.update(b"\n" + word.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
