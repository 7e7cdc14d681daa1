"""``vectors:FILE``: the mean of word vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenli.encoders.base import Embeddings, EncoderRequest
from evenli.encoders.vectors.base import WordVectors
from evenli.encoders.vectors.files import load_vectors
from evenli.resources.words import split_words


class VectorMean:
    """The mean of the vectors of a text's words; words without a vector are left out."""

    def __init__(self, vectors: WordVectors) -> None:
        self.vectors = vectors
        self.identity = f"mean:{vectors.identity}"

    def unknown(self, words: Sequence[str]) -> list[str]:
        """Words or phrases of which no part has a vector."""
        return [word for word in words if not (self.vectors.rows(split_words(word)) >= 0).any()]

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """[n, d]; a text without a known word is a row of zeros."""
        embeddings = np.zeros((len(texts), self.vectors.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            known = self.vectors.rows(split_words(text))
            known = known[known >= 0]
            if known.size:
                embeddings[row] = self.vectors.matrix[known].mean(axis=0)
        return embeddings


def load(target: str, request: EncoderRequest) -> VectorMean:
    """The encoder of a vector file."""
    return VectorMean(load_vectors(target))
