"""How much of gender is left in embeddings of sentences, and in word vectors, after a mitigation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.corpus.direction import GenderDirection, bias_of
from evenli.encoders.base import EmbeddingCache, Encoder, encode_checked
from evenli.encoders.vectors import WordVectors
from evenli.errors import InputError
from evenli.mitigate.erasers import Erased, Eraser
from evenli.mitigate.gendered import FEMALE, MALE, GenderedSet
from evenli.mitigate.hard_debias import gender_specific_words
from evenli.resources import read_table
from evenli.stats.intervals import Estimate
from evenli.stats.leakage import Clustering, Leakage, leakage, neighbour_clustering

FloatArray = NDArray[np.float64]
_NEIGHBOURS = 20
_WORDS = 50_000  # most frequent words of a vocabulary that are looked at
_SIDE = 500  # most biased words of each side, as Gonen and Goldberg take them
_FEWEST = 50


@dataclass(frozen=True)
class Residual:
    """How much of gender is left in embeddings."""

    linear: Estimate
    """Accuracy of a linear probe on words it has not seen; ``majority``, that without looking, is neutral."""
    mlp: Estimate
    majority: float
    clustering: Estimate
    """Neutral texts that two-means puts on the side they leaned to before; 0.5 is neutral, random ones lie above it."""
    correlation: Estimate
    """Of how far neutral texts leaned before with the side of their neighbours; 0 is neutral."""

    @classmethod
    def of(cls, probes: Leakage, clusters: Clustering) -> Residual:
        """The results of probes and of the clustering."""
        return cls(probes.linear, probes.mlp, probes.majority, clusters.accuracy, clusters.correlation)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; NaN becomes null."""
        estimates = {name: getattr(self, name).as_dict() for name in ("linear", "mlp", "clustering", "correlation")}
        return {**estimates, "majority": round(self.majority, 6)}


@dataclass(frozen=True)
class HeldOut:
    """Embeddings of the held-out sentences: gendered ones to train and test probes, neutral ones on occupations."""

    probe: NDArray[Any]
    probe_classes: NDArray[np.int64]
    test: NDArray[Any]
    test_classes: NDArray[np.int64]
    neutral: NDArray[Any]

    @classmethod
    def of(cls, encoder: Encoder, sentences: GenderedSet) -> HeldOut:
        """Encode the held-out part of a set."""
        (probe, probe_classes), (test, test_classes) = sentences.rows("probe"), sentences.rows("test")
        embeddings = encode_checked(encoder, [*probe, *test, *sentences.neutral])
        parts = np.split(embeddings, [len(probe), len(probe) + len(test)])
        return cls(parts[0], probe_classes, parts[1], test_classes, parts[2])

    def erased(self, eraser: Eraser) -> HeldOut:
        """The same embeddings behind an eraser."""
        return replace(self, probe=eraser(self.probe), test=eraser(self.test), neutral=eraser(self.neutral))

    def lean(self) -> FloatArray:
        """How far the neutral sentences lean to the female side: half of them are above 0.

        The cosine of each, centred, with the difference between the mean female and male sentence, less its median.
        """
        means = [self.probe[self.probe_classes == label].mean(axis=0, dtype=np.float64) for label in (FEMALE, MALE)]
        g = means[0] - means[1]
        # Less the mean, which all sentences share, and less the median, so that both sides have as many.
        centred = self.neutral - self.neutral.mean(axis=0, dtype=np.float64)
        scale = np.linalg.norm(centred, axis=1) * np.linalg.norm(g)
        cosine = (centred @ g) / np.where(scale > 0, scale, 1.0)
        return np.asarray(cosine - np.median(cosine), dtype=np.float64)


def known_sentences(encoder: Any, sentences: GenderedSet) -> GenderedSet:
    """The sentences whose words an encoder knows: all of them unless it is made of word vectors."""
    # An eraser or a cache may stand before the encoder that has the vectors.
    while isinstance(encoder, Erased | EmbeddingCache):
        encoder = encoder.encoder
    vectors = getattr(getattr(encoder, "vocabulary", encoder), "vectors", None)
    return sentences.known_to(vectors) if isinstance(vectors, WordVectors) else sentences


def residual_leakage(held: HeldOut, lean_before: FloatArray, *, seed: int = 0) -> Residual:
    """What is left of gender: two probes on gendered sentences, and the neighbours of neutral ones.

    ``lean_before`` is ``HeldOut.lean`` of the encoder without mitigation.
    """
    generator = np.random.default_rng(seed)
    probes = leakage(held.probe, held.probe_classes, held.test, held.test_classes, generator)
    side = min(int((lean_before > 0).sum()), int((lean_before < 0).sum()), len(lean_before) // 4)
    if not side:
        raise InputError("the neutral sentences lean to no side: the encoder gives them all the same embedding")
    everyone = np.arange(len(lean_before))
    clusters = neighbour_clustering(
        held.neutral, lean_before, _NEIGHBOURS, generator=generator, most=side, asked=everyone
    )
    return Residual.of(probes, clusters)


def word_leakage(
    before: WordVectors, after: WordVectors, direction: GenderDirection, *, seed: int = 0
) -> tuple[Residual, Residual]:
    """What hard debiasing leaves: can a probe still predict to which side neutral words leaned?

    The most biased neutral words of each side, among the frequent ones, are the two classes: a half, drawn at random,
    trains the probes and the other half tests them. Gonen and Goldberg 2019, "Lipstick on a pig".
    """
    if before.words != after.words:
        raise InputError("the mitigated vectors are of other words; give the vectors they were made from")
    specific = {word.lower() for word in gender_specific_words()}
    neutral = (row for row, word in enumerate(before.words[:_WORDS]) if word.lower() not in specific)
    frequent = np.fromiter(neutral, dtype=np.int64)
    rows = frequent[before.matrix[frequent].any(axis=1) & after.matrix[frequent].any(axis=1)]
    bias = bias_of(before, rows, direction)
    side = min(int((bias > 0).sum()), int((bias < 0).sum()), _SIDE)
    if side < _FEWEST:
        raise InputError(
            f"only {side} neutral words lean to one of the sides; {_FEWEST} or more are needed to measure what leaks"
        )
    order = np.argsort(bias, kind="stable")
    chosen = np.concatenate([order[:side], order[-side:]])
    classes = np.repeat([MALE, FEMALE], side)
    mixed = np.random.default_rng(seed).permutation(2 * side)
    train, test = mixed[:side], mixed[side:]
    # Of words that differ in case only the most frequent counts, which comes first and is put in last.
    place = {before.words[row].lower(): at for at, row in reversed(list(enumerate(rows)))}
    professions = [place[row["word"]] for row in read_table("professions.csv", ("word",)) if row["word"] in place]
    k = min(100, len(rows) // 10)

    def measure(vectors: WordVectors) -> Residual:
        generator = np.random.default_rng(seed)
        some = vectors.matrix[rows[chosen]]
        probes = leakage(some[train], classes[train], some[test], classes[test], generator)
        clusters = neighbour_clustering(
            vectors.matrix[rows], bias, k, generator=generator, most=side, asked=professions
        )
        return Residual.of(probes, clusters)

    return measure(before), measure(after)
