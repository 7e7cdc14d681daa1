"""The bias score of a sentence (Dolci et al. 2023): what its ungendered words lean to, weighted by importance.

    b(w)   = 0 if w states a gender, else cos(vector of w, gender direction)
    F(s)   = sum of I_w b(w) over the words with b > 0        in [0, 1], 0: nothing leans female
    M(s)   = sum of I_w b(w) over the words with b < 0        in [-1, 0], 0: nothing leans male
    Abs(s) = F - M                                            in [0, 1]

Words without a vector are dropped before importance is shared out, as the encoder of the paper drops them. Markers and
tokens without a letter keep their share and have b = 0.

With GloVe all but one of 117 function words lean male (*the* by -0.14), and they carry half of all absolute bias: the
published score finds sentences with many of them, most of all short ones. So there are four ways to count, ``Centre``:

none            the published score
mean            the lean of a word less the mean lean of the frequent words without a gender
function-words  function words have no lean, like gender words
length          that, and five words without lean are added to every sentence, so that a short one does not come out
                on top because it is short

``docs/explanation/sentences.md`` has how well each finds 300 sentences that were labelled before any was scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from evenli.core.errors import InputError
from evenli.core.io import hash_text
from evenli.corpus.importance import FloatArray, Importance, MaxPooled, StaticWeights, Uniform, Weights
from evenli.corpus.pieces import PieceSums, PieceWords
from evenli.corpus.segment import Segmenter
from evenli.corpus.settings import PUBLISHED
from evenli.encoders.direction import GenderDirection, bias_of
from evenli.encoders.vectors import WordVectors
from evenli.words import read_lines
from evenli.words.lists import GenderWords, is_word, sentence_starts, split_words

Centre = Literal["none", "mean", "function-words", "length"]
DEFAULT: Centre = "length"
_ADDED = 5  # words without lean that ``length`` adds to a sentence
_FREQUENT = 10_000  # words at the top of a file of vectors, which are the frequent ones
Note = Literal["", "gender word", "function word", "out of vocabulary", "punctuation"]
_VERSION = 1  # raised whenever the same input would score otherwise
_PIECES = 1 << 20  # pieces a scorer remembers between two batches
_BATCH = 4096  # texts scored at a time: their words fit the processor's cache


@dataclass(frozen=True)
class WordBias:
    """One token of a scored sentence."""

    token: str
    # Dimensions with the maximum in max pooling; None for other weights and for words without a vector.
    count: int | None
    importance: float  # share of the sentence, 0 for words without a vector
    bias: float  # cosine with the gender direction, positive towards female
    weighted: float  # importance times bias
    note: Note = ""  # why the bias is 0


@dataclass(frozen=True)
class SentenceBias:
    """The bias of a sentence, F, M and Abs, and how its words make it up."""

    text: str
    words: tuple[WordBias, ...]  # all tokens in order, those without a vector too
    female: float
    male: float
    absolute: float
    markers: float  # share of importance on special tokens
    added: float = 0.0  # share of the words without lean that were added against the pull of short sentences

    @property
    def empty(self) -> bool:
        """True if no token could be weighed, so that the zeros say nothing about the text."""
        return all(word.note == "out of vocabulary" for word in self.words)


class BiasScorer:
    """Scores sentences with word vectors.

    With static weights a batch costs one table look-up per word; the scores do not depend on how the texts are cut
    into batches, to the last bit. A scorer fills its table while it works: use one per thread.

    A token is looked up as it stands, then in lower case. ``gender_words`` have b = 0, by default the shipped list and
    names. ``punctuation`` gives tokens without a letter their own bias, too. ``centre`` is how the male offset of word
    vectors is taken out; the published score leaves it in. ``segmenter`` cuts texts that are written without spaces.
    """

    def __init__(
        self,
        vectors: WordVectors,
        direction: GenderDirection,
        gender_words: GenderWords | None = None,
        weights: Weights | None = None,
        punctuation: bool = False,
        centre: Centre = PUBLISHED,
        segmenter: Segmenter | None = None,
    ) -> None:
        if centre not in get_args(Centre):
            raise InputError(f"centre {centre} is unknown; choose {', '.join(get_args(Centre))}")
        self.vectors = vectors
        self.gender_words = GenderWords() if gender_words is None else gender_words
        self.weights: Weights = Uniform() if weights is None else weights
        self.punctuation = punctuation
        self.centre, self._added = centre, _ADDED if centre == "length" else 0
        # English function words without a gender, in lower case.
        self._empty = frozenset(read_lines("function_words.txt") if centre in {"function-words", "length"} else ())
        biases = bias_of(vectors, np.arange(len(vectors.words)), direction)
        if centre == "mean":
            # The mean bias of the frequent words that state no gender.
            frequent = [at for at, word in enumerate(vectors.words[:_FREQUENT]) if word.isalpha()]
            rows = [at for at in frequent if not self.gender_words.has(vectors.words[at], initial=False)]
            biases -= float(np.nanmean(biases[rows])) if rows else 0.0
        # A vector of zeros leans nowhere.
        self._biases = np.nan_to_num(biases, nan=0.0)
        parts = (vectors.identity, direction.identity, self.gender_words.identity, self.weights.identity)
        centred = () if centre == PUBLISHED else (f"centre={centre}", *sorted(self._empty), str(self._added))
        listing = "\n".join((*parts, f"punctuation={bool(punctuation)}", *centred))
        cut = "" if segmenter is None else f"+cut:{segmenter.identity}"
        self.identity = f"bias-score/{_VERSION}:{hash_text(listing)[:32]}{cut}"
        self._segmenter = segmenter
        # Whether a text is scored faster than found among those scored.
        self.cheap = isinstance(self.weights, StaticWeights) and segmenter is None
        self._table: PieceSums | PieceWords | None = None
        encoder = getattr(self.weights, "encoder", None)
        self.wants_gpu = str(getattr(encoder, "device", "")).startswith("cuda")
        self.note = str(getattr(encoder, "note", ""))  # what should be known of the encoder, if anything

    def __getstate__(self) -> dict[str, Any]:
        # The table is a cache; another process fills its own.
        return {**self.__dict__, "_table": None}

    def score(self, text: str | None) -> SentenceBias:
        """Score one sentence and show its words."""
        return self.explain([text])[0]

    def explain(self, texts: Sequence[str | None]) -> list[SentenceBias]:
        """Score sentences and show their words; a network weighs the words of all of them at once."""
        judged, judge = [], cache(self._word)  # a word occurs many times
        for text in self._cut(texts):
            tokens = split_words(text or "")
            judged.append([*map(judge, tokens, sentence_starts(tokens))])
        # Importance is shared out among the words that have a vector, as the encoder of the paper sees no others.
        known = [[word for word in words if word.note != "out of vocabulary"] for words in judged]
        importance = self.weights.weigh([[word.token for word in words] for words in known])
        # A corpus and a single sentence are to have the same score to the last bit.
        static = isinstance(self.weights, StaticWeights)
        sums = self.score_many(texts).tolist() if static else [None] * len(judged)
        rows = zip(texts, judged, importance, sums, strict=True)
        return [_explained(text or "", words, shares, total, self._added) for text, words, shares, total in rows]

    def _shrink(self, words: NDArray[Any]) -> FloatArray:
        """By how much the scores of texts with so many known words go down for the words that are added."""
        return np.asarray(words / np.maximum(words + self._added, 1), dtype=np.float64) if self._added else np.ones(1)

    def score_many(self, texts: Sequence[str | None]) -> FloatArray:
        """F, M and Abs of many texts, [n, 3]; zeros where there is nothing to score."""
        try:
            texts = self._cut(texts)
            blocks = [self._block(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH)]
        # Types are looked at only once something failed: to check every text would take longer than to score it.
        except TypeError:
            for at, text in enumerate(texts):
                if text is not None and not isinstance(text, str):
                    kind = type(text).__name__
                    raise InputError(f"text {at} is of type {kind}; give strings, or None for a missing one") from None
            raise
        return np.concatenate([np.zeros((0, 3)), *blocks])

    def _cut(self, texts: Sequence[str | None]) -> Sequence[str | None]:
        return texts if self._segmenter is None else [text and self._segmenter(text) for text in texts]

    def _block(self, texts: Sequence[str | None]) -> FloatArray:
        """Score each distinct text once: pairs repeat their premises."""
        places: dict[str | None, int] = {}
        # setdefault numbers a text when it is first met and gives the same number from then on.
        order = [places.setdefault(text, len(places)) for text in texts]
        score = self._static if isinstance(self.weights, StaticWeights) else self._contextual
        female, male = score(list(places))
        scores = np.stack([female, male, female - male], axis=1)
        return scores if len(places) == len(texts) else scores[order]

    def _static(self, texts: Sequence[str | None]) -> tuple[FloatArray, ...]:
        weights = cast(StaticWeights, self.weights)
        if not isinstance(self._table, PieceSums) or len(self._table) > _PIECES:
            self._table = PieceSums(self._bias, self.gender_words.doubtful, weights.mass)
        rows, owner = self._table.rows(texts)
        # bincount adds in order of position, so that a sentence's sum does not depend on its neighbours.
        sums = (np.bincount(owner, weights=column[rows], minlength=len(texts)) for column in self._table.columns)
        mass, female, male, words = (np.asarray(part, dtype=np.float64) for part in sums)
        share = np.divide(1.0 - weights.markers, mass, out=np.zeros(len(texts)), where=mass > 0) * self._shrink(words)
        return female * share, male * share

    def _contextual(self, texts: Sequence[str | None]) -> tuple[FloatArray, ...]:
        if not isinstance(self._table, PieceWords) or len(self._table) > _PIECES:
            self._table = PieceWords(self._bias, self.gender_words.doubtful)
        words, biases, known = self._table.words(texts)
        ends = np.cumsum(known)
        sides = zip((ends - known).tolist(), ends.tolist(), strict=True)
        # The network is not given a text without a known word.
        sentences = [words[first:end] for first, end in sides if first < end]
        weighted = biases * cast(MaxPooled, self.weights).shares(sentences)
        owner = np.repeat(np.arange(len(texts)), known)
        above, below = weighted > 0, weighted < 0
        shrink = self._shrink(known)
        return tuple(_segment_sums(weighted[side], owner[side], len(texts)) * shrink for side in (above, below))

    def _word(self, token: str, start: bool) -> WordBias:
        """A token with its bias, before importance."""
        bias = self._bias(token, start)
        note: Note = "out of vocabulary" if bias is None else self._exempt(token, start)
        return WordBias(token, None, 0.0, 0.0 if bias is None else bias, 0.0, note)

    def _exempt(self, token: str, start: bool) -> Note:
        note = exempt(token, start, self.gender_words, self.punctuation)
        return "function word" if not note and token.lower() in self._empty else note

    def _bias(self, token: str, start: bool) -> float | None:
        """The bias of a token, None if it has no vector."""
        index = self.vectors.find(token)
        if index < 0:
            return None
        return 0.0 if self._exempt(token, start) else float(self._biases.item(index))


def exempt(token: str, start: bool, gender_words: GenderWords, punctuation: bool) -> Note:
    """Why a token has no bias of its own, if so."""
    if not (punctuation or is_word(token)):
        return "punctuation"
    return "gender word" if gender_words.has(token, initial=start) else ""


def _segment_sums(values: FloatArray, owner: NDArray[np.int64], size: int) -> FloatArray:
    """The sum of each owner's values, to the last bit what ``sum`` of them alone would give; owners ascend."""
    counts = np.bincount(owner, minlength=size) + 1
    # A leading 0 gives every owner a value; reduceat adds the others to it just as sum does.
    padded = np.zeros(len(values) + size)
    padded[np.arange(1, len(values) + 1) + owner] = values
    return np.asarray(np.add.reduceat(padded, np.cumsum(counts) - counts), dtype=np.float64)


def _explained(
    text: str, words: Sequence[WordBias], importance: Importance, sums: Sequence[float] | None, added: int
) -> SentenceBias:
    """Put importance beside the judged words; those without a vector have none. ``sums`` are F, M and Abs if known."""
    known = len(importance.shares)
    scale = known / (known + added) if known else 1.0
    shares = iter((importance.shares * scale).tolist())
    counts = iter(importance.counts or ())
    rows = []
    for word in words:
        if word.note != "out of vocabulary":
            share = next(shares)
            word = replace(word, count=next(counts, None), importance=share, weighted=word.bias * share)
        rows.append(word)
    rest = 1.0 - float(importance.shares.sum())
    # Without a token nothing was shared out, and a rest of rounding is none.
    markers = rest * scale if known and rest > 1e-12 else 0.0
    if sums is None:
        biases = [word.bias for word in words if word.note != "out of vocabulary"]
        weighted = np.array(biases, dtype=np.float64) * importance.shares
        above, below = float(weighted[weighted > 0].sum()), float(weighted[weighted < 0].sum())
        sums = above * scale, below * scale, (above - below) * scale
    female, male, absolute = sums
    return SentenceBias(text, tuple(rows), female, male, absolute, markers, 1.0 - scale)
