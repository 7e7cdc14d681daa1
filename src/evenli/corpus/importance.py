"""How much each word of a sentence counts.

``StaticWeights`` know a word's weight without its sentence, which lets a whole corpus be scored by table look-ups.
``MaxPooled`` is the published importance: the share of an encoder's dimensions in which a token has the maximum. What
a sentence's shares lack to 1 is on the encoder's markers, such as ``<s>`` or ``[CLS]``.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.core.binary import read_parquet
from evenli.core.errors import InputError
from evenli.core.io import hash_text
from evenli.words.lists import split_words

FloatArray = NDArray[np.float64]
_FORMAT = "evenli word counts 1"


@dataclass(frozen=True)
class Importance:
    """The shares of a sentence's tokens, and the dimensions of each where the shares come from max pooling.

    Shares sum to 1 at most; the rest is on markers.
    """

    shares: FloatArray
    counts: tuple[int, ...] | None = None


@dataclass(frozen=True)
class StaticWeights(ABC):
    """Weights that need no sentence: share = (1 - markers) * mass / sum of the masses.

    ``markers`` is the share of the special tokens, the same in every sentence.
    """

    markers: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        if not 0 <= self.markers < 1:
            raise InputError(f"the share of the markers must be at least 0 and below 1, not {self.markers}")

    @property
    def identity(self) -> str:
        """Name, counts, other numbers and the share of the markers."""
        # Counts are millions of numbers and are known by their hash; other fields by their value.
        own = [getattr(self, field.name) for field in fields(self) if field.name != "markers"]
        parts = [str(getattr(value, "identity", repr(value))) for value in own]
        return ":".join([type(self).__name__.lower(), *parts, repr(self.markers)])

    @abstractmethod
    def mass(self, token: str) -> float:
        """Weight of a token before the sentence is normalised, never negative."""

    def of(self, tokens: Sequence[str]) -> FloatArray:
        """Shares that sum to 1 - markers, or zeros where no token has weight."""
        masses = np.array([self.mass(token) for token in tokens], dtype=np.float64)
        total = masses.sum()
        return masses * ((1.0 - self.markers) / total) if total > 0 else np.zeros(len(tokens))

    def weigh(self, sentences: Sequence[Sequence[str]]) -> list[Importance]:
        """Each sentence on its own."""
        return [Importance(self.of(tokens)) for tokens in sentences]


class Uniform(StaticWeights):
    """Every token counts the same.

    >>> Uniform().of(["a", "pink", "dress", "a"]).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    def mass(self, token: str) -> float:
        """1 for any token."""
        return 1.0


@dataclass(frozen=True)
class WordCounts:
    """How often words occur in a corpus, in lower case: texts and tokens in all, tokens and texts per word."""

    documents: int
    tokens: int
    occurrences: Mapping[str, int] = field(repr=False)
    texts: Mapping[str, int] = field(repr=False)

    @classmethod
    def count(cls, texts: Iterable[str | None]) -> WordCounts:
        """Count a corpus; empty texts are left out."""
        occurrences: Counter[str] = Counter()
        spread: Counter[str] = Counter()
        documents = 0
        for text in texts:
            words = split_words(text.lower()) if text else []
            if words:
                documents += 1
                # Both are counted in one pass: sif asks how often a word occurs, idf in how many texts.
                occurrences.update(words)
                spread.update(set(words))
        if not documents:
            raise InputError("no text to count words in; give at least one that is not empty")
        return cls(documents, sum(occurrences.values()), dict(occurrences), dict(spread))

    def save(self, file: Path) -> None:
        """Write all counts as Parquet."""
        import polars as pl

        rows = [(word, count, self.texts[word]) for word, count in self.occurrences.items()]
        frame = pl.DataFrame(rows, schema=["word", "occurrences", "texts"], orient="row")
        # The totals stand in every row: equal values take next to no space, and one file holds all there is to know.
        frame = frame.with_columns(documents=pl.lit(self.documents), tokens=pl.lit(self.tokens))
        frame.write_parquet(file, compression="zstd")

    @classmethod
    def load(cls, file: Path) -> WordCounts:
        """What ``save`` wrote; InputError for another file."""
        frame = read_parquet(file, ["word", "occurrences", "texts", "documents", "tokens"])
        try:
            words, occurrences, texts, documents, tokens = (frame[name].to_list() for name in frame.columns)
            counted = (dict(zip(words, map(int, some), strict=True)) for some in (occurrences, texts))
            return cls(int(documents[0]), int(tokens[0]), *counted)
        except (TypeError, ValueError, IndexError) as error:
            raise InputError(f"{file} does not hold counts of words") from error

    @property
    def identity(self) -> str:
        """Hash of all counts, in any order of the words."""
        words = {word: [self.occurrences[word], self.texts[word]] for word in sorted(self.occurrences)}
        about = {"format": _FORMAT, "documents": self.documents, "tokens": self.tokens, "words": words}
        return hash_text(json.dumps(about, ensure_ascii=False))[:16]


@dataclass(frozen=True)
class Idf(StaticWeights):
    """Rare words count more: mass(w) = 1 + log((1 + N) / (1 + n_w)), with n_w of N texts holding the word."""

    counts: WordCounts

    def mass(self, token: str) -> float:
        """The smoothed inverse document frequency, at least 1."""
        # A word of every text still counts, hence the 1 in front; those inside are for a word that no text has.
        return 1.0 + math.log((1 + self.counts.documents) / (1 + self.counts.texts.get(token.lower(), 0)))


@dataclass(frozen=True)
class Sif(StaticWeights):
    """Smooth inverse frequency: mass(w) = a / (a + p(w)), with p the word's share of all tokens (Arora et al. 2017)."""

    counts: WordCounts
    a: float = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.a > 0:
            raise InputError(f"the smoothing a of SIF must be above 0, not {self.a}; 0.001 is usual")

    def mass(self, token: str) -> float:
        """Between 0 and 1; 1 for a word the corpus does not have."""
        return self.a / (self.a + self.counts.occurrences.get(token.lower(), 0) / self.counts.tokens)


@dataclass(frozen=True)
class MaxPooled:
    """The published importance: the share of dimensions in which a token has the maximum, markers included.

    ``I_t = #{d : argmax_s h_{s,d} = t} / D`` over all tokens of the encoder (Dolci et al. 2023). The encoder has an
    ``identity``, a ``dimension`` and ``argmax_counts(sentences)``, which gives the counts of all words, end to end and
    without its markers, and the number of words of each sentence; sentences are given as their words.
    """

    encoder: Any

    @property
    def identity(self) -> str:
        """That of the encoder."""
        return f"max-pooled:{self.encoder.identity}"

    def weigh(self, sentences: Sequence[Sequence[str]]) -> list[Importance]:
        """The shares and counts of many sentences; an empty one is not encoded."""
        counts = self._counts([tokens for tokens in sentences if tokens])
        own = np.split(counts, np.cumsum([*map(len, sentences)], dtype=np.int64)[:-1])
        shares = (Importance(some / float(self.encoder.dimension), tuple(some.tolist())) for some in own)
        return [weighed for _, weighed in zip(sentences, shares, strict=False)]

    def shares(self, sentences: Sequence[Sequence[str]]) -> FloatArray:
        """The shares of ``weigh`` end to end, without any work per sentence."""
        return np.asarray(self._counts(sentences) / float(self.encoder.dimension), dtype=np.float64)

    def _counts(self, sentences: Sequence[Sequence[str]]) -> NDArray[np.int64]:
        if not sentences:
            return np.zeros(0, dtype=np.int64)
        counts, lengths = self.encoder.argmax_counts(sentences)
        given = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
        # A word that the encoder left out would shift the shares of all that follow.
        if not np.array_equal(lengths, given) or len(counts) != given.sum():
            raise InputError(f"the encoder counted {len(counts)} words; it was given {given.sum()}, and must count all")
        return np.asarray(counts, dtype=np.int64)


Weights = StaticWeights | MaxPooled
"""Importance of the tokens of a sentence; ``identity`` changes when any weight could."""
