"""Sentences as numbers: the words that have a vector, with markers around them, packed for an LSTM."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenli.encoders.vectors import WordVectors
from evenli.words.lists import split_words

MARKERS = ("<s>", "</s>")


@dataclass(frozen=True)
class JoinedTokens:
    """Sentences as vocabulary ids end to end: sentence ``i`` is ``ids[starts[i] : starts[i] + lengths[i]]``."""

    ids: NDArray[np.int32]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]


def surround(ids: NDArray[np.int32], sizes: NDArray[np.int64]) -> JoinedTokens:
    """Sentences from the numbers of all their words: unknown words (-1) are left out, markers put around the rest.

    >>> tokens = surround(np.array([7, -1, 8, -1], dtype=np.int32), np.array([3, 0, 1]))
    >>> tokens.ids.tolist(), tokens.starts.tolist(), tokens.lengths.tolist()
    ([0, 7, 8, 1, 0, 1, 0, 1], [0, 4, 6], [4, 2, 2])
    """
    # Known words before each position give the new lengths without a loop over sentences.
    known = ids >= 0
    upto = np.concatenate([[0], np.cumsum(known)])
    ends = np.cumsum(sizes)
    lengths = upto[ends] - upto[ends - sizes] + 2
    starts = np.cumsum(lengths) - lengths
    placed = np.full(int(lengths.sum()), -1, dtype=np.int32)
    placed[starts], placed[starts + lengths - 1] = 0, 1
    placed[placed < 0] = ids[known]
    return JoinedTokens(placed, starts, lengths)


class Vocabulary:
    """The words in use and their vectors; the markers come first.

    Only vectors of words met are kept. Where the vectors have no ``<s>`` or ``</s>`` and no ``markers`` are given, each
    gets a fixed normal vector of standard deviation 0.1, the same for every encoder of that dimension.
    """

    def __init__(self, vectors: WordVectors, markers: NDArray[np.float32] | None = None) -> None:
        self.vectors = vectors
        if markers is None:
            markers = np.stack([np.random.default_rng([5, at]).normal(0.0, 0.1, vectors.dimension) for at in range(2)])
            for at, row in enumerate(map(vectors.index.get, MARKERS)):
                markers[at] = markers[at] if row is None else vectors.matrix[row]
        self.markers = np.asarray(markers, dtype=np.float32)
        self._numbers = {word: at for at, word in enumerate(MARKERS)}  # by the spelling of the vectors
        self._matrix = self.markers
        self._rows: list[int] = [-1, -1]
        self._id = cache(self._find)  # a word is looked up once

    def __len__(self) -> int:
        """Words in use, markers included."""
        return len(self._rows)

    @property
    def words(self) -> list[str]:
        """Words in use, as the vectors spell them."""
        return list(self._numbers)

    def known(self, words: Iterable[str]) -> list[str]:
        """The words that have a vector."""
        return [word for word in words if self._id(word) >= 0]

    def ids(self, words: Sequence[str]) -> NDArray[np.int32]:
        """Numbers of many words."""
        return np.fromiter(map(self._id, words), dtype=np.int32, count=len(words))

    def tokens(self, texts: Iterable[str | Sequence[str]]) -> JoinedTokens:
        """Markers around the known words of every text; a text may be given as its words."""
        lists = [words_of(text) for text in texts]
        sizes = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
        return surround(self.ids(list(itertools.chain.from_iterable(lists))), sizes)

    def matrix(self) -> NDArray[np.float32]:
        """The vectors of the words in use."""
        if len(self._matrix) < len(self):
            rows = np.array(self._rows[len(self._matrix) :])
            # Sorted reads are kind to a memory-mapped file.
            order = np.argsort(rows)
            block = np.empty((len(rows), self.vectors.dimension), dtype=np.float32)
            block[order] = self.vectors.matrix[rows[order]]
            self._matrix = np.concatenate([self._matrix, block])
        return self._matrix

    def _find(self, word: str) -> int:
        row = self.vectors.find(word)
        if word not in MARKERS:
            if row < 0:
                return -1
            word = self.vectors.words[row]  # two spellings can lead to one row: they share a number
        if word not in self._numbers:
            self._numbers[word] = len(self._rows)
            self._rows.append(row)
        return self._numbers[word]


class Packed(NamedTuple):
    """How the sentences of a batch share the time steps."""

    ids: NDArray[np.int32]  # token ids, time step after time step, longest sentence first within each
    sizes: NDArray[np.int64]  # sentences still running at every time step
    places: NDArray[np.int32]
    """[time, sentence in the order given] -> position in the packed outputs. Behind the end of a sentence its last
    output is repeated, which leaves the maximum and its gradient as they are."""
    lengths: NDArray[np.int64]  # tokens of every sentence, in the order given


def pack(tokens: JoinedTokens, rows: NDArray[np.int64]) -> Packed:
    """Pack some sentences.

    >>> tokens = JoinedTokens(np.array([0, 1, 0, 7, 8, 1], dtype=np.int32), np.array([0, 2]), np.array([2, 4]))
    >>> packed = pack(tokens, np.array([0, 1]))
    >>> packed.ids.tolist(), packed.sizes.tolist()
    ([0, 0, 7, 1, 8, 1], [2, 2, 1, 1])
    >>> packed.places.T.tolist()
    [[1, 3, 3, 3], [0, 2, 4, 5]]
    """
    # Packed sequences have the longest sentence first; ``rank`` leads back to the order given.
    lengths, starts = tokens.lengths[rows], tokens.starts[rows]
    order = np.argsort(-lengths, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    time = np.arange(lengths[order[0]])[:, None]
    running = time < lengths[order]
    sizes = running.sum(axis=1)
    ids = tokens.ids[(starts[order] + time)[running]]
    first = np.cumsum(sizes) - sizes
    places = first[np.minimum(time, lengths - 1)] + rank
    return Packed(ids, sizes, places.astype(np.int32), lengths)


def words_of(text: str | Sequence[str]) -> Sequence[str]:
    """The words of a text, which may be given as such."""
    return split_words(text) if isinstance(text, str) else text
