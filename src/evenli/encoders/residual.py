"""What a mitigation leaves of gender: in held-out words, in running text, and in the text that it was fitted on.

An eraser promises something about the sentences of its fit. A linear and a neural probe look for gender in three
places: sentences with words that neither eraser nor probe has seen, running text that nothing was fitted on, and other
sentences with the fitted words. The neighbours of neutral sentences are a fourth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evenli.core.errors import InputError
from evenli.core.estimate import Estimate
from evenli.core.record import Record
from evenli.encoders.base import EmbeddingCache, Encoder, encode_checked
from evenli.encoders.eraser import Erased, Eraser, FloatArray
from evenli.encoders.gendered import FEMALE, MALE, GenderedSet, ProbeText
from evenli.encoders.leakage import Clustering, Leakage, leakage, neighbour_clustering
from evenli.encoders.vectors import WordVectors

_NEIGHBOURS = 20
_FEWEST = 40  # sentence pairs to look for gender in


class Residual(Record, frozen=True):
    """How much of gender is left in embeddings."""

    optional: ClassVar[tuple[str, ...]] = ("on_text", "on_domain")

    linear: Estimate
    """Accuracy of a linear probe on words it has not seen; ``majority``, that without looking, is neutral."""
    mlp: Estimate
    majority: float
    clustering: Estimate
    """Neutral texts that two-means puts on the side they leaned to before; 0.5 is neutral, random ones lie above it."""
    correlation: Estimate
    """Of how far neutral texts leaned before with the side of their neighbours; 0 is neutral."""
    on_text: Leakage | None = None
    """The probes on running text."""
    on_domain: Leakage | None = None
    """The probes on other sentences with the words that were fitted on."""

    @classmethod
    def of(cls, probes: Leakage, clusters: Clustering, *further: Leakage | None) -> Residual:
        """The results of probes, of the clustering, and of probes on text and on the domain."""
        return cls(probes.linear, probes.mlp, probes.majority, clusters.accuracy, clusters.correlation, *further)


class LeakageReport(Record, frozen=True):
    """What is left of gender before and behind an eraser, as ``mitigated.json`` holds it.

    Attributes:
        probe_sentences: Sentences that the probes learn from.
        test_sentences: Sentences that they are tested on.
        neutral_sentences: Sentences on occupations, whose neighbours are looked at.
        probe_text: Where the running text is from.
        sha256: Hash of all of these sentences.
        before: What is left without the eraser.
        after: What is left behind it.
    """

    probe_sentences: int
    test_sentences: int
    neutral_sentences: int
    sha256: str
    before: Residual
    after: Residual
    probe_text: str = ""


@dataclass(frozen=True)
class Labelled:
    """Embeddings and classes, those that train a probe and those that test it."""

    train: NDArray[Any]
    train_classes: NDArray[np.int64]
    test: NDArray[Any]
    test_classes: NDArray[np.int64]

    def erased(self, eraser: Eraser) -> Labelled:
        """The same embeddings behind an eraser."""
        return replace(self, train=eraser(self.train), test=eraser(self.test))

    def leakage(self, seed: int) -> Leakage:
        """How well probes find the classes."""
        generator = np.random.default_rng(seed)
        return leakage(self.train, self.train_classes, self.test, self.test_classes, generator)


@dataclass(frozen=True)
class HeldOut:
    """Embeddings of what was not fitted on: gendered sentences for the probes, neutral ones on occupations, text."""

    words: Labelled
    neutral: NDArray[Any]
    text: Labelled | None = None
    domain: Labelled | None = None

    @classmethod
    def of(cls, encoder: Encoder, sentences: GenderedSet, text: ProbeText | None = None) -> HeldOut:
        """Encode the held-out part of a set, and the text."""
        probe, test = sentences.rows("probe")[1], sentences.rows("test")[1]
        embeddings = encode_checked(encoder, sentences.held_out)
        parts = np.split(embeddings, [len(probe), len(probe) + len(test)])
        return cls(
            Labelled(parts[0], probe, parts[1], test),
            parts[2],
            None if text is None else _labelled(encoder, text.texts, text.classes, len(text.train)),
            _domain(encoder, sentences),
        )

    def erased(self, eraser: Eraser) -> HeldOut:
        """The same embeddings behind an eraser."""
        text, domain = (None if one is None else one.erased(eraser) for one in (self.text, self.domain))
        return HeldOut(self.words.erased(eraser), eraser(self.neutral), text, domain)

    def lean(self) -> FloatArray:
        """How far the neutral sentences lean to the female side: half of them are above 0.

        The cosine of each, centred, with the difference between the mean female and male sentence, less its median.
        """
        probe, classes = self.words.train, self.words.train_classes
        means = [probe[classes == label].mean(axis=0, dtype=np.float64) for label in (FEMALE, MALE)]
        g = means[0] - means[1]
        # Less the mean, which all sentences share, and less the median, so that both sides have as many.
        centred = self.neutral - self.neutral.mean(axis=0, dtype=np.float64)
        scale = np.linalg.norm(centred, axis=1) * np.linalg.norm(g)
        cosine = (centred @ g) / np.where(scale > 0, scale, 1.0)
        return np.asarray(cosine - np.median(cosine), dtype=np.float64)


def _labelled(encoder: Encoder, texts: list[str], classes: NDArray[np.int64], train: int) -> Labelled:
    rows = encode_checked(encoder, texts)
    return Labelled(rows[:train], classes[:train], rows[train:], classes[train:])


def _domain(encoder: Encoder, sentences: GenderedSet) -> Labelled | None:
    """Other sentences with the fitted words; both versions of a pair are in the same half."""
    pairs = sentences.domain
    if len(pairs) < _FEWEST:
        return None
    train = [text for pair in pairs[::2] for text in (pair.female, pair.male)]
    test = [text for pair in pairs[1::2] for text in (pair.female, pair.male)]
    classes = np.tile(np.array([FEMALE, MALE], dtype=np.int64), len(pairs))
    return _labelled(encoder, train + test, classes, len(train))


def known_sentences(encoder: Any, sentences: GenderedSet) -> GenderedSet:
    """The sentences whose words an encoder knows: all of them unless it is made of word vectors."""
    # An eraser or a cache may stand before the encoder that has the vectors.
    while isinstance(encoder, Erased | EmbeddingCache):
        encoder = encoder.encoder
    vectors = getattr(getattr(encoder, "vocabulary", encoder), "vectors", None)
    return sentences.known_to(vectors) if isinstance(vectors, WordVectors) else sentences


def residual_leakage(held: HeldOut, lean_before: FloatArray, *, seed: int = 0) -> Residual:
    """What is left of gender: two probes on gendered sentences and on text, and the neighbours of neutral sentences.

    ``lean_before`` is ``HeldOut.lean`` of the encoder without mitigation.
    """
    side = min(int((lean_before > 0).sum()), int((lean_before < 0).sum()), len(lean_before) // 4)
    if not side:
        raise InputError("the neutral sentences lean to no side: the encoder gives them all the same embedding")
    everyone = np.arange(len(lean_before))
    clusters = neighbour_clustering(
        held.neutral, lean_before, _NEIGHBOURS, generator=np.random.default_rng(seed), most=side, asked=everyone
    )
    further = (None if one is None else one.leakage(seed) for one in (held.text, held.domain))
    return Residual.of(held.words.leakage(seed), clusters, *further)


def leakage_report(
    base: Encoder, eraser: Eraser, sentences: GenderedSet, text: ProbeText, *, seed: int
) -> LeakageReport:
    """Measure what is left of gender before and behind an eraser."""
    before = HeldOut.of(base, sentences, text)
    lean = before.lean()
    return LeakageReport(
        probe_sentences=2 * len(sentences.probe),
        test_sentences=2 * len(sentences.test),
        neutral_sentences=len(before.neutral),
        probe_text=text.source,
        sha256=sentences.sha256["held_out"],
        before=residual_leakage(before, lean, seed=seed),
        after=residual_leakage(before.erased(eraser), lean, seed=seed),
    )
