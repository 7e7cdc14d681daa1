"""Texts in the order of their keys, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

BUCKET = 200_000
"""Rows whose keys are sorted at a time."""
_WAITING_ROWS = 50_000
_WAITING_BYTES = 16 << 20  # texts that are held before they go to the disk


class Sorter:
    """Puts texts into the order of their keys; equal keys keep the order in which they came.

    The texts go into a file for each range of keys first, ``borders`` between them. Then the keys of one file after the
    other are sorted, and its texts are read one by one: however long they are, few are in memory.
    """

    def __init__(self, folder: Path, borders: NDArray[np.float64], name: str = "order") -> None:
        self._borders = borders
        self._files = [folder / f".{name}-{number:04d}" for number in range(len(borders) + 1)]
        self._keys: list[float] = []
        self._texts: list[bytes] = []
        self._bytes = 0
        self._spilled = False

    def add(self, keys: Iterable[float], texts: Iterable[str]) -> None:
        """Take in texts with their keys."""
        encoded = [text.encode() for text in texts]
        self._keys.extend(keys)
        self._texts.extend(encoded)
        self._bytes += sum(map(len, encoded))
        if len(self._texts) >= _WAITING_ROWS or self._bytes >= _WAITING_BYTES:
            self._spill()

    def _spill(self) -> None:
        """Append what waits to the files: keys, lengths of the texts, texts end to end."""
        keys, texts = np.array(self._keys, dtype=np.float64), self._texts
        self._keys, self._texts, self._bytes, self._spilled = [], [], 0, True
        file_of = np.searchsorted(self._borders, keys, side="right")
        order = np.argsort(file_of, kind="stable")
        ends = np.cumsum(np.bincount(file_of, minlength=len(self._files)))
        for file, rows in zip(self._files, np.split(order, ends[:-1]), strict=True):
            if len(rows):
                chosen = [texts[row] for row in rows.tolist()]
                lengths = np.fromiter(map(len, chosen), dtype=np.int64, count=len(chosen))
                with file.open("ab") as stream:
                    for array in (np.array([len(chosen)]), keys[rows], lengths):
                        stream.write(array.tobytes())
                    stream.writelines(chosen)

    def sorted(self) -> Generator[bytes, None, None]:
        """All texts in the order of their keys."""
        if not self._spilled:
            order = np.argsort(np.array(self._keys, dtype=np.float64), kind="stable")
            yield from (self._texts[row] for row in order.tolist())
            return
        if self._texts:
            self._spill()
        for file in self._files:
            if file.is_file():
                try:
                    yield from _texts(file)
                finally:  # who has read the last text may not ask for another
                    file.unlink()


def _texts(file: Path) -> Iterator[bytes]:
    """The texts of a spilled file in order, read where they stand."""
    keys, starts, lengths = (np.concatenate(parts) for parts in zip(*_blocks(file), strict=True))
    order = np.argsort(keys, kind="stable")
    with file.open("rb", buffering=0) as stream:  # a buffer would be read anew for every text
        for start, length in zip(starts[order].tolist(), lengths[order].tolist(), strict=True):
            stream.seek(start)
            yield stream.read(length) or b""


def _blocks(file: Path) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Keys, places and lengths of the texts, of one spill at a time."""
    with file.open("rb") as stream:
        while head := stream.read(8):
            count = int(np.frombuffer(head, dtype=np.int64)[0])
            keys = np.frombuffer(stream.read(8 * count), dtype=np.float64)
            lengths = np.frombuffer(stream.read(8 * count), dtype=np.int64)
            ends = np.cumsum(lengths)
            yield keys, stream.tell() + ends - lengths, lengths
            stream.seek(int(ends[-1]), os.SEEK_CUR)
