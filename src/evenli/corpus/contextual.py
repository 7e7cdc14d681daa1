"""The bias score of a sentence by one encoder alone (Dolci et al. 2023, section 6): no word vectors, no word left out.

    b(t) = 0 if t is of a word that states a gender, else cos(output of the token t in its sentence, gender direction)

The direction is the first component of what sentences differ in from their copies of the other gender. Tokens are the
encoder's word-pieces; pieces of one word are counted one by one, so that opposite leans do not cancel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import ClassVar

import numpy as np

from evenli.core.io import hash_text
from evenli.core.record import Record
from evenli.corpus.bias import Note, SentenceBias, WordBias, exempt
from evenli.corpus.importance import FloatArray
from evenli.corpus.transformer import Pieces, TransformerArgmax
from evenli.encoders.base import Embeddings, encode_checked
from evenli.encoders.direction import GenderDirection, Pairs, agreement, direction_from_sentences, read_pairs
from evenli.words import read_table
from evenli.words.lists import GenderWords, is_word, sentence_starts

_VERSION = 2  # raised whenever the same input would score otherwise
_BATCH = 1024
TABLE_1 = ("My mother is there", "My mother is a nurse", "Someone is a nurse")
"""Sentences of which the paper prints the cosine with the direction."""


class ContextualScorer:
    """Scores sentences with the outputs of one encoder.

    ``gender_words`` have b = 0, by default the shipped list and names; ``punctuation`` gives tokens without a letter
    their own bias, too. The direction is in the space of the encoder's outputs.
    """

    note = ""

    def __init__(
        self,
        encoder: TransformerArgmax,
        direction: GenderDirection,
        gender_words: GenderWords | None = None,
        punctuation: bool = False,
    ) -> None:
        self.encoder, self.direction = encoder, direction
        self.gender_words = GenderWords() if gender_words is None else gender_words
        self.punctuation = punctuation
        self.wants_gpu = str(encoder.device).startswith("cuda")
        self._axis = np.asarray(direction.vector, dtype=np.float64)
        listing = "\n".join((encoder.identity, direction.identity, self.gender_words.identity, f"{bool(punctuation)}"))
        self.identity = f"bias-score-contextual/{_VERSION}:{hash_text(listing)[:32]}"

    def score(self, text: str | None) -> SentenceBias:
        """Score one sentence and show its tokens."""
        return self.explain([text])[0]

    def score_many(self, texts: Sequence[str | None]) -> FloatArray:
        """F, M and Abs of many texts, [n, 3]; zeros for empty ones."""
        parts = (texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH))
        scores = [(bias.female, bias.male, bias.absolute) for part in parts for bias in self.explain(part)]
        return np.array(scores, dtype=np.float64).reshape(-1, 3)

    def explain(self, texts: Sequence[str | None]) -> list[SentenceBias]:
        """Score sentences and show their tokens."""
        filled = [text for text in texts if text and text.strip()]
        answers = iter(self.encoder.pieces(filled, self._axis))
        return [
            self._explain(text, next(answers))
            if text and text.strip()
            else SentenceBias(text or "", (), 0.0, 0.0, 0.0, 0.0)
            for text in texts
        ]

    def _explain(self, text: str, pieces: Pieces) -> SentenceBias:
        notes: list[Note] = [
            exempt(word, start, self.gender_words, self.punctuation)
            for word, start in zip(pieces.words, sentence_starts(pieces.words), strict=True)
        ]
        counted = self.encoder.importance == "max"
        rows = []
        for at, owner in enumerate(pieces.owners.tolist()):
            token, share = pieces.tokens[at], float(pieces.shares[at])
            # The apostrophe of "isn't" is a piece without a letter of a word with letters.
            note: Note = notes[owner] or ("" if self.punctuation or is_word(token) else "punctuation")
            bias = 0.0 if note else float(pieces.cosines[at])
            rows.append(WordBias(token, int(pieces.counts[at]) if counted else None, share, bias, bias * share, note))
        female = sum(row.weighted for row in rows if row.weighted > 0)
        male = sum(row.weighted for row in rows if row.weighted < 0)
        markers = 1.0 - float(pieces.shares.sum())
        # Shares are 32-bit floats: what is left of 1 below their rounding is nothing.
        return SentenceBias(text, tuple(rows), female, male, female - male, markers if markers > 1e-6 else 0.0)


def contextual_direction(encoder: TransformerArgmax, pairs: Pairs = "ten") -> GenderDirection:
    """The gender direction of an encoder from sentences in a female and a male version.

    By default 119 sentences of ours; else a ``.csv`` or ``.tsv`` file with the columns female and male, or pairs.
    """
    sentences, female, male = _encoded(encoder, pairs)
    direction = direction_from_sentences(female, male, source=encoder.identity)
    return replace(direction, inputs=hash_text(repr((encoder.identity, sentences))))


class ContextualSummary(Record, frozen=True):
    """The direction of an encoder.

    Attributes:
        encoder: Its spec.
        importance: How its tokens are weighted.
        dimension: Numbers of an embedding.
        sentences: Sentences in two versions that the direction is made of.
        explained: Share of the variance of their differences that the first component explains.
        agreement_of_halves: Cosine of the directions of both halves of the sentences.
        sentence_cosines: Table 1 of the paper.
    """

    digits: ClassVar[int | None] = None

    encoder: str
    importance: str
    dimension: int
    sentences: int
    explained: float
    agreement_of_halves: float
    sentence_cosines: dict[str, float]


def describe_contextual(encoder: TransformerArgmax, pairs: Pairs = "ten") -> ContextualSummary:
    """The direction of an encoder, how alike those of both halves of the sentences are, and Table 1 of the paper."""
    sentences, female, male = _encoded(encoder, pairs)
    whole = direction_from_sentences(female, male)
    halves = (direction_from_sentences(female[at::2], male[at::2]) for at in (0, 1))
    rows = encode_checked(encoder, TABLE_1).astype(np.float64)
    cosines = rows @ whole.vector / np.linalg.norm(rows, axis=1)
    return ContextualSummary(
        encoder=encoder.spec,
        importance=encoder.importance,
        dimension=whole.dimension,
        sentences=len(sentences),
        explained=whole.explained_raw,
        agreement_of_halves=agreement(*halves),
        sentence_cosines=dict(zip(TABLE_1, cosines.tolist(), strict=True)),
    )


def _encoded(encoder: TransformerArgmax, pairs: Pairs) -> tuple[list[tuple[str, str]], Embeddings, Embeddings]:
    """Sentences in two versions, and the embeddings of either version."""
    ours = read_table("gender_text.csv", ("female", "male")) if pairs == "ten" else ()
    sentences = [(row["female"], row["male"]) for row in ours] or read_pairs(pairs)
    rows = encode_checked(encoder, list(chain.from_iterable(sentences)))
    return sentences, rows[::2], rows[1::2]
