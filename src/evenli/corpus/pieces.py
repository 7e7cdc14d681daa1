"""What the pieces between two spaces mean to a scorer: worked out when first met, looked up from then on.

A corpus repeats its pieces, so that scoring it is one look-up per piece and arithmetic on arrays. New pieces and their
tokens are noted while a block is looked up, and worked out together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import chain, compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.words.lists import SENTENCE_ENDS, cut, sentence_starts

Bias = Callable[[str, bool], float | None]
"""Bias of a token that begins a sentence (True) or stands within one; None for a token to leave out."""

_FloatArray = NDArray[np.float64]
_IntArray = NDArray[np.int64]

_MARK = "\0"  # stands between two texts while a whole block is split at once, which is far cheaper than text by text
_PASSES, _ENDS, _GOES_ON = 0, 1, 2
"""What a token does to the next one: nothing, make it begin a sentence, make it stand within one."""


def _judged(bias: Bias, mass: Callable[[str], float] | None, token: str) -> tuple[float, float, int]:
    """Bias of a token within a sentence and its mass, NaN for one to leave out, and what it does to the next."""
    state = _GOES_ON if any(map(str.isalnum, token)) else _ENDS if token in SENTENCE_ENDS else _PASSES
    leans = bias(token, False)
    return np.nan if leans is None else leans, np.nan if leans is None or mass is None else mass(token), state


class PieceTable(dict[str, int], ABC):
    """The rows of the pieces met.

    A piece has two rows: the second holds where it begins a sentence, which matters for ``doubtful`` tokens: names that
    are also words. ``mass`` is the weight of a token before the sentence is normalised, if it needs no sentence.
    """

    def __init__(self, bias: Bias, doubtful: frozenset[str], mass: Callable[[str], float] | None = None) -> None:
        super().__init__()
        self._bias, self._names = bias, doubtful
        self._judge = cache(partial(_judged, bias, mass))
        self._new: list[str] = [""]
        self._size = 0
        self._doubtful = np.zeros(0, dtype=np.bool_)
        self._after = np.zeros(0, dtype=np.bool_)
        # Row 0 is the mark: it adds nothing, and what follows it begins a sentence.
        self[_MARK] = 0
        self._keep_new()
        self._after[:2] = True

    @abstractmethod
    def _store(self, rows: slice, owner: _IntArray, words: list[str], masses: _FloatArray, biases: _FloatArray) -> None:
        """Keep new pieces in these rows: of each known token its piece, itself, its mass and its two biases."""

    def __missing__(self, piece: str) -> int:
        # Noted before it is known, so that an interrupt leaves no piece with the row of another.
        row = self._size + 2 * len(self._new)
        self._new.append(piece)
        self[piece] = row
        return row

    def rows(self, texts: Sequence[str | None]) -> tuple[_IntArray, _IntArray]:
        """The row of every piece and the number of its text; a mark between two texts is a piece that adds nothing."""
        pieces = _pieces(texts)
        rows = np.fromiter(map(self.__getitem__, pieces), dtype=np.int64, count=len(pieces))
        if self._new:
            self._keep_new()
        for at in np.flatnonzero(self._doubtful[rows]).tolist():
            rows[at] += self._begins(rows, at)
        return rows, np.cumsum(rows == 0)

    def _begins(self, rows: _IntArray, at: int) -> bool:
        """True if the piece at a position begins a sentence."""
        while at:
            at -= 1
            row = int(rows[at]) & ~1
            if self._after[row] == self._after[row + 1]:  # else the piece is punctuation that passes the state on
                return bool(self._after[row])
        return True

    def _keep_new(self) -> None:
        first, size = self._size, self._size + 2 * len(self._new)
        cuts = [cut(piece) for piece in self._new]
        owner = np.repeat(np.arange(len(cuts)), np.fromiter(map(len, cuts), dtype=np.int64, count=len(cuts)))
        flat = list(chain.from_iterable(cuts))
        bias, masses, states = np.array([self._judge(token) for token in flat], dtype=np.float64).reshape(-1, 3).T
        biases = np.stack([bias, bias])
        # A name that is also a word leans otherwise where it begins a sentence: its piece is weighed for both places.
        for piece in sorted({int(owner[at]) for at, token in enumerate(flat) if token in self._names}):
            for initial, column in enumerate(biases):
                starts = sentence_starts(cuts[piece], bool(initial))
                column[owner == piece] = np.array([*map(self._bias, cuts[piece], starts)], dtype=np.float64)
        self._doubtful, self._after = grown(self._doubtful, size), grown(self._after, size)
        # Only pieces for which the place makes a difference are looked at again in a text.
        known = ~np.isnan(bias)
        self._doubtful[first + 2 * owner[known & (biases[0] != biases[1])]] = True
        decides = states != _PASSES
        # The last token that decides does so for the piece; assignment keeps the last of several.
        state = np.full(len(cuts), _PASSES)
        state[owner[decides]] = states[decides]
        self._after[first:size:2], self._after[first + 1 : size : 2] = state == _ENDS, state != _GOES_ON
        words = list(compress(flat, known.tolist()))
        self._store(slice(first, size), owner[known], words, masses[known], biases[:, known])
        self._size, self._new = size, []


class PieceSums(PieceTable):
    """What a piece adds to a sentence, for weights that need no sentence.

    Attributes:
        columns: By row: mass of the known tokens, its product with the biases above and below 0, and their number.
    """

    columns = np.zeros((4, 0))

    def _store(self, rows: slice, owner: _IntArray, words: list[str], masses: _FloatArray, biases: _FloatArray) -> None:
        self.columns = grown(self.columns, rows.stop)
        for place, bias in enumerate(biases):
            adds = (masses, masses * np.maximum(bias, 0.0), masses * np.minimum(bias, 0.0), np.ones(len(masses)))
            for column, add in zip(self.columns, adds, strict=True):
                part = column[rows.start + place : rows.stop : 2]
                part[:] = np.bincount(owner, weights=add, minlength=len(part))


class PieceWords(PieceTable):
    """The known words of a piece and their biases, for weights that depend on the sentence."""

    def __init__(self, bias: Bias, doubtful: frozenset[str]) -> None:
        self._words: list[str] = []
        self._biases = np.zeros((2, 0))
        self._firsts, self._lengths = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        super().__init__(bias, doubtful)

    def words(self, texts: Sequence[str | None]) -> tuple[list[str], _FloatArray, _IntArray]:
        """The known words of all texts end to end, their biases, and the number of words of every text."""
        rows, owner = self.rows(texts)
        begins, pieces = rows & 1, rows >> 1
        lengths = self._lengths[pieces]
        ends = np.cumsum(lengths)
        # Where the words of every piece stand in the list of all words, end to end.
        places = np.repeat(self._firsts[pieces] - ends + lengths, lengths) + np.arange(ends[-1])
        words = list(map(self._words.__getitem__, places.tolist()))
        counts = np.bincount(owner, weights=lengths, minlength=len(texts)).astype(np.int64)
        return words, self._biases[np.repeat(begins, lengths), places], counts

    def _store(self, rows: slice, owner: _IntArray, words: list[str], masses: _FloatArray, biases: _FloatArray) -> None:
        filled, first, size = len(self._words), rows.start // 2, rows.stop // 2
        self._words += words
        self._biases = grown(self._biases, len(self._words))
        self._biases[:, filled : len(self._words)] = biases
        self._firsts, self._lengths = grown(self._firsts, size), grown(self._lengths, size)
        lengths = np.bincount(owner, minlength=size - first)
        self._firsts[first:size] = filled + np.cumsum(lengths) - lengths
        self._lengths[first:size] = lengths


def grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    """The array with room for ``size`` columns, and for as many again, so that it is seldom copied."""
    if array.shape[-1] >= size:
        return array
    larger = np.zeros((*array.shape[:-1], max(2 * size, 1 << 12)), dtype=array.dtype)
    larger[..., : array.shape[-1]] = array
    return larger


def _pieces(texts: Sequence[str | None]) -> list[str]:
    """The pieces of all texts, with a mark between two texts."""
    try:
        joined = f" {_MARK} ".join(texts)  # type: ignore[arg-type]
    except TypeError:
        joined = f" {_MARK} ".join("" if text is None else text for text in texts)
    if joined.count(_MARK) < len(texts):
        return joined.split()
    # A text has the mark itself: as a piece, it gets a name that no piece can have.
    pieces = []
    for text in texts:
        pieces += [f"{piece} " if piece == _MARK else piece for piece in (text or "").split()]
        pieces.append(_MARK)
    return pieces[:-1]
