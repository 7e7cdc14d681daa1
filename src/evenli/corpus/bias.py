"""The bias score of a sentence (Dolci et al. 2023): what its ungendered words lean to, weighted by importance.

    b(w)   = 0 if w states a gender, else cos(vector of w, gender direction)
    F(s)   = sum of I_w b(w) over the words with b > 0        in [0, 1], 0: nothing leans female
    M(s)   = sum of I_w b(w) over the words with b < 0        in [-1, 0], 0: nothing leans male
    Abs(s) = F - M                                            in [0, 1]

Words without a vector are dropped before importance is shared out, as the encoder of the paper drops them. Markers and
tokens without a letter keep their share and have b = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from evenli.corpus.direction import GenderDirection, bias_of
from evenli.corpus.importance import FloatArray, Importance, MaxPooled, StaticWeights, Uniform, Weights
from evenli.corpus.pieces import PieceSums, PieceWords
from evenli.encoders.base import Pooled
from evenli.encoders.vectors import WordVectors
from evenli.errors import InputError
from evenli.io import hash_text
from evenli.resources.words import GenderWords, is_word, sentence_starts, split_words

_Sums = tuple[FloatArray, FloatArray, NDArray[np.int64]]
"""F, M and the number of known tokens of each text."""
Note = Literal["", "gender word", "out of vocabulary", "punctuation"]
_VERSION = 1
"""Raised whenever the same input would score otherwise."""
_PIECES = 1 << 20
"""Pieces a scorer remembers between two batches."""
_BATCH = 4096
"""Texts scored at a time: their words fit the processor's cache."""
_CONTEXT_BATCH = 1024


@dataclass(frozen=True)
class WordBias:
    """One token of a scored sentence.

    Attributes:
        token: The token as it stands in the text.
        count: Dimensions with the maximum in max pooling; None for other weights and for words without a vector.
        importance: Share of the sentence, 0 for words without a vector.
        bias: Cosine with the gender direction, positive towards female.
        weighted: importance times bias.
        note: Why the bias is 0.
    """

    token: str
    count: int | None
    importance: float
    bias: float
    weighted: float
    note: Note = ""


@dataclass(frozen=True)
class SentenceBias:
    """The bias of a sentence and how its words make it up.

    Attributes:
        text: The sentence.
        words: All tokens in order, those without a vector too.
        female: F, 0 or above.
        male: M, 0 or below.
        absolute: F - M.
        markers: Share of importance on special tokens.
    """

    text: str
    words: tuple[WordBias, ...]
    female: float
    male: float
    absolute: float
    markers: float

    @property
    def empty(self) -> bool:
        """True if no token could be weighed, so that the zeros say nothing about the text."""
        return all(word.note == "out of vocabulary" for word in self.words)

    @property
    def unknown(self) -> list[str]:
        """The tokens that were dropped for want of a vector."""
        return [word.token for word in self.words if word.note == "out of vocabulary"]


@dataclass(frozen=True)
class ScoredTexts:
    """The scores of many texts.

    Attributes:
        scores: [n, 3]: F, M and Abs.
        known: Tokens with a vector in each text; where it is 0, the zeros of ``scores`` say nothing.
    """

    scores: FloatArray
    known: NDArray[np.int64]

    @property
    def empty(self) -> NDArray[np.bool_]:
        """Which texts had no token to weigh."""
        return np.equal(self.known, 0)


class BiasScorer:
    """Scores sentences with word vectors.

    With static weights a batch costs one table look-up per word; the scores do not depend on how the texts are cut
    into batches, to the last bit. A scorer fills its table while it works: use one per thread.

    Args:
        vectors: Word vectors; a token is looked up as it stands, then in lower case.
        direction: The gender direction in the space of the vectors, positive towards female.
        gender_words: Words with b = 0; None takes the shipped list and names.
        weights: Importance of words.
        punctuation: Give tokens without a letter their own bias, too.
    """

    def __init__(
        self,
        vectors: WordVectors,
        direction: GenderDirection,
        gender_words: GenderWords | None = None,
        weights: Weights | None = None,
        punctuation: bool = False,
    ) -> None:
        self.vectors = vectors
        self.gender_words = GenderWords() if gender_words is None else gender_words
        self.weights: Weights = Uniform() if weights is None else weights
        self.punctuation = punctuation
        # A vector of zeros leans nowhere.
        self._biases = np.nan_to_num(bias_of(vectors, np.arange(len(vectors.words)), direction), nan=0.0)
        parts = (vectors.identity, direction.identity, self.gender_words.identity, self.weights.identity)
        listing = "\n".join((*parts, f"punctuation={bool(punctuation)}"))
        self.identity = f"bias-score/{_VERSION}:{hash_text(listing)[:32]}"
        self._table: PieceSums | PieceWords | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_table": None}

    @property
    def wants_gpu(self) -> bool:
        """True if an encoder on a GPU gives the importance."""
        return str(getattr(getattr(self.weights, "encoder", None), "device", "")).startswith("cuda")

    @property
    def note(self) -> str:
        """What should be known of the encoder, if anything."""
        return str(getattr(getattr(self.weights, "encoder", None), "note", ""))

    def score(self, text: str | None) -> SentenceBias:
        """Score one sentence and show its words."""
        text = text or ""
        tokens = split_words(text)
        words = [self._word(token, start) for token, start in zip(tokens, sentence_starts(tokens)[0], strict=True)]
        known = [word for word in words if word.note != "out of vocabulary"]
        importance = self.weights.weigh([[word.token for word in known]])[0] if known else Importance(np.zeros(0))
        if isinstance(self.weights, StaticWeights):
            female, male, absolute = self.score_many([text])[0].tolist()
        else:
            female, male, absolute = _sums([word.bias for word in known], importance.shares)
        return _explained(text, words, importance, (female, male, absolute))

    def score_many(self, texts: Sequence[str | None]) -> FloatArray:
        """F, M and Abs of many texts, [n, 3]; zeros where there is nothing to score, see ``measure``."""
        return self.measure(texts).scores

    def measure(self, texts: Sequence[str | None]) -> ScoredTexts:
        """Scores, and how many tokens of each text they rest on."""
        try:
            blocks = [self._block(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH)]
        except TypeError as error:
            raise _not_text(texts) or error from None
        scores, known = np.zeros((0, 3)), np.zeros(0, dtype=np.int64)
        return ScoredTexts(
            np.concatenate([scores, *(block.scores for block in blocks)]),
            np.concatenate([known, *(block.known for block in blocks)]),
        )

    def _block(self, texts: Sequence[str | None]) -> ScoredTexts:
        """Score each distinct text once: pairs repeat their premises."""
        places: dict[str | None, int] = {}
        order = [places.setdefault(text, len(places)) for text in texts]
        distinct = list(places)
        static = isinstance(self.weights, StaticWeights)
        female, male, known = self._static(distinct) if static else self._contextual(distinct)
        scores = np.stack([female, male, female - male], axis=1)
        return ScoredTexts(scores, known) if len(distinct) == len(texts) else ScoredTexts(scores[order], known[order])

    def _static(self, texts: Sequence[str | None]) -> _Sums:
        weights = cast(StaticWeights, self.weights)
        if not isinstance(self._table, PieceSums) or len(self._table) > _PIECES:
            self._table = PieceSums(self._bias, self.gender_words.doubtful, weights.mass)
        rows, owner = self._table.rows(texts)
        # bincount adds in order of position, so that a sentence's sum does not depend on its neighbours.
        mass, female, male, known = (
            np.asarray(np.bincount(owner, weights=column[rows], minlength=len(texts)), dtype=np.float64)
            for column in self._table.columns
        )
        share = np.divide(1.0 - weights.markers, mass, out=np.zeros(len(texts)), where=mass > 0)
        return female * share, male * share, known.astype(np.int64)

    def _contextual(self, texts: Sequence[str | None]) -> _Sums:
        if not isinstance(self._table, PieceWords) or len(self._table) > _PIECES:
            self._table = PieceWords(self._bias, self.gender_words.doubtful)
        words, biases, known = self._table.words(texts)
        ends = np.cumsum(known)
        sides = zip((ends - known).tolist(), ends.tolist(), strict=True)
        sentences = [words[first:end] for first, end in sides if first < end]
        if isinstance(self.weights, MaxPooled):
            shares = self.weights.shares(sentences)
        else:
            shares = np.concatenate([np.zeros(0), *(one.shares for one in self.weights.weigh(sentences))])
        weighted = biases * shares
        owner = np.repeat(np.arange(len(texts)), known)
        above, below = weighted > 0, weighted < 0
        female, male = (_segment_sums(weighted[side], owner[side], len(texts)) for side in (above, below))
        return female, male, known

    def _word(self, token: str, start: bool) -> WordBias:
        """A token with its bias, before importance."""
        bias = self._bias(token, start)
        if bias is None:
            return WordBias(token, None, 0.0, 0.0, 0.0, "out of vocabulary")
        return WordBias(token, None, 0.0, bias, 0.0, _exempt(token, start, self.gender_words, self.punctuation))

    def _bias(self, token: str, start: bool) -> float | None:
        """The bias of a token, None if it has no vector."""
        index = self.vectors.find(token)
        if index < 0:
            return None
        return 0.0 if _exempt(token, start, self.gender_words, self.punctuation) else float(self._biases.item(index))


class ContextualEncoder(Protocol):
    """An encoder that sees words in context and pools by maximum."""

    @property
    def identity(self) -> str:
        """Changes when any output could."""
        ...

    def lean(self, texts: Sequence[str], direction: FloatArray) -> Sequence[tuple[Pooled, FloatArray]]:
        """The counts of the words of every text, and the cosine of each word's output with a direction."""
        ...


class ContextualScorer:
    """Scores sentences with the outputs of one encoder: b(w) = cos(output of w in its sentence, direction).

    The variant of the paper for BERT with max pooling. No word lacks a vector here.

    Args:
        encoder: Gives importance and bias.
        direction: The gender direction in the space of the encoder's outputs.
        gender_words: Words with b = 0; None takes the shipped list and names.
        punctuation: Give tokens without a letter their own bias, too.
    """

    def __init__(
        self,
        encoder: ContextualEncoder,
        direction: GenderDirection,
        gender_words: GenderWords | None = None,
        punctuation: bool = False,
    ) -> None:
        self.encoder = encoder
        self.gender_words = GenderWords() if gender_words is None else gender_words
        self.punctuation = punctuation
        self._axis = np.asarray(direction.vector, dtype=np.float64)
        listing = "\n".join((encoder.identity, direction.identity, self.gender_words.identity, f"{bool(punctuation)}"))
        self.identity = f"bias-score-contextual/{_VERSION}:{hash_text(listing)[:32]}"

    def score(self, text: str | None) -> SentenceBias:
        """Score one sentence and show its words."""
        return self._score([text])[0]

    def score_many(self, texts: Sequence[str | None]) -> FloatArray:
        """F, M and Abs of many texts, [n, 3]; zeros for empty ones."""
        parts = (texts[start : start + _CONTEXT_BATCH] for start in range(0, len(texts), _CONTEXT_BATCH))
        scores = [(one.female, one.male, one.absolute) for part in parts for one in self._score(part)]
        return np.array(scores, dtype=np.float64).reshape(-1, 3)

    def _score(self, texts: Sequence[str | None]) -> list[SentenceBias]:
        answers = iter(self.encoder.lean([text for text in texts if text and text.strip()], self._axis))
        return [
            self._explain(text, *next(answers))
            if text and text.strip()
            else SentenceBias(text or "", (), 0.0, 0.0, 0.0, 0.0)
            for text in texts
        ]

    def _explain(self, text: str, pooled: Pooled, cosines: FloatArray) -> SentenceBias:
        starts, _ = sentence_starts(pooled.tokens)
        words = []
        for token, start, cosine in zip(pooled.tokens, starts, cosines.tolist(), strict=True):
            note = _exempt(token, start, self.gender_words, self.punctuation)
            words.append(WordBias(token, None, 0.0, 0.0 if note else cosine, 0.0, note))
        shares = np.asarray(pooled.counts, dtype=np.float64) / pooled.dimension
        sums = _sums([word.bias for word in words], shares)
        return _explained(text, words, Importance(shares, tuple(map(int, pooled.counts))), sums)


def reference_score(
    text: str,
    vectors: WordVectors,
    direction: GenderDirection,
    gender_words: GenderWords,
    weights: Weights | None = None,
    punctuation: bool = False,
) -> tuple[float, float, float]:
    """F, M and Abs of one sentence, word by word as published; the measure of the fast way in tests and benchmarks."""
    tokens = split_words(text)
    kept = []
    for token, gendered in zip(tokens, gender_words.mark(tokens), strict=True):
        index = vectors.find(token)
        if index >= 0:
            kept.append((token, gendered, vectors.matrix[index].astype(np.float64)))
    shares = (weights or Uniform()).weigh([[token for token, _, _ in kept]])[0].shares
    female = male = 0.0
    for (token, gendered, vector), share in zip(kept, shares, strict=True):
        if gendered or not (punctuation or is_word(token)):
            continue
        norm = np.linalg.norm(vector) * np.linalg.norm(direction.vector)
        bias = float(vector @ direction.vector / norm) if norm > 0 else 0.0
        if bias > 0:
            female += bias * float(share)
        else:
            male += bias * float(share)
    return female, male, female - male


def _exempt(token: str, start: bool, gender_words: GenderWords, punctuation: bool) -> Note:
    """Why a token has no bias of its own, if so."""
    if not (punctuation or is_word(token)):
        return "punctuation"
    return "gender word" if gender_words.has(token, initial=start) else ""


def _sums(biases: Sequence[float], shares: FloatArray) -> tuple[float, float, float]:
    weighted = np.asarray(biases, dtype=np.float64) * shares
    female, male = float(weighted[weighted > 0].sum()), float(weighted[weighted < 0].sum())
    return female, male, female - male


def _segment_sums(values: FloatArray, owner: NDArray[np.int64], size: int) -> FloatArray:
    """The sum of each owner's values, to the last bit what ``sum`` of them alone would give; owners ascend."""
    counts = np.bincount(owner, minlength=size) + 1
    # A leading 0 gives every owner a value; reduceat adds the others to it just as sum does.
    padded = np.zeros(len(values) + size)
    padded[np.arange(1, len(values) + 1) + owner] = values
    return np.asarray(np.add.reduceat(padded, np.cumsum(counts) - counts), dtype=np.float64)


def _not_text(texts: Sequence[object]) -> InputError | None:
    for at, text in enumerate(texts):
        if text is not None and not isinstance(text, str):
            return InputError(f"text {at} is of type {type(text).__name__}; give strings, or None for a missing one")
    return None


def _explained(
    text: str, words: Sequence[WordBias], importance: Importance, sums: tuple[float, float, float]
) -> SentenceBias:
    """Put importance beside the judged words; those without a vector have none."""
    shares = iter(importance.shares.tolist())
    counts = iter(importance.counts or ())
    rows = []
    for word in words:
        if word.note == "out of vocabulary":
            rows.append(word)
            continue
        share = next(shares)
        rows.append(WordBias(word.token, next(counts, None), share, word.bias, word.bias * share, word.note))
    rest = 1.0 - float(importance.shares.sum())
    # Without a token nothing was shared out, and a rest of rounding is none.
    markers = rest if len(importance.shares) and rest > 1e-12 else 0.0
    return SentenceBias(text, tuple(rows), *sums, markers)
