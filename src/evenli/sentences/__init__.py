"""The bias score of sentences: their words, how much each counts, and what they lean to (Dolci et al. 2023)."""

from evenli.sentences.bias import (
    BiasScorer,
    ContextualScorer,
    ScoredTexts,
    SentenceBias,
    WordBias,
    reference_score,
)
from evenli.sentences.transformer import TransformerArgmax
from evenli.sentences.weights import (
    Counted,
    Counts,
    Idf,
    Importance,
    MaxPooled,
    Pooled,
    Sif,
    StaticWeights,
    Uniform,
    Weights,
)
from evenli.sentences.words import GenderWords, split_words

__all__ = [
    "BiasScorer",
    "ContextualScorer",
    "Counted",
    "Counts",
    "GenderWords",
    "Idf",
    "Importance",
    "MaxPooled",
    "Pooled",
    "ScoredTexts",
    "SentenceBias",
    "Sif",
    "StaticWeights",
    "TransformerArgmax",
    "Uniform",
    "Weights",
    "WordBias",
    "reference_score",
    "split_words",
]
