"""What is left of gender in embeddings after it was erased: probes, and neighbours. Needs scikit-learn.

An eraser promises something about linear classifiers or about one direction, on the sentences of its fit. Three
questions show how far that goes: can a linear probe predict the classes, can a small neural one, and are words that
leaned to the same side still neighbours? Probes look in sentences with words that neither eraser nor probe has seen, in
running text that nothing was fitted on, and in other sentences with the fitted words.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from evenli.core.errors import InputError
from evenli.core.extras import need
from evenli.core.record import Estimate, Record
from evenli.encoders.base import Encoder, encode_checked, layers, table
from evenli.encoders.eraser import Eraser, FloatArray, unit_rows
from evenli.encoders.gendered import FEMALE, MALE, GenderedSet, ProbeText
from evenli.encoders.vectors import WordVectors
from evenli.stats.intervals import wilson

_LEVEL = 0.95
_HIDDEN = 64
SEEDS = 5  # times that a probe is trained
_FEWEST = 10  # training rows of a class: fewer teach a probe nothing
_STARTS, _TRIES = 10, 5  # two-means ends elsewhere from start to start: ten figures, each the best of five tries
_CHUNK = 512  # words whose neighbours are found at a time
_NEIGHBOURS = 20
_FEWEST_PAIRS = 40  # sentence pairs to look for gender in


class Leakage(Record, frozen=True):
    """Accuracy of a linear and a neural probe on rows they were not trained on; ``majority`` is neutral.

    A probe at the majority shows that this probe fails, not that nothing is left.
    """

    linear: Estimate
    mlp: Estimate
    majority: float  # accuracy of always naming the most frequent class of the training rows


class Clustering(NamedTuple):
    """Whether words that leaned to one side before are still neighbours."""

    accuracy: Estimate  # of two-means on the most biased words of both sides; 1 is all of the old bias
    correlation: Estimate  # of the old bias with the share of neighbours whose old bias is positive


def leakage(
    x_train: ArrayLike, y_train: ArrayLike, x_test: ArrayLike, y_test: ArrayLike, generator: np.random.Generator
) -> Leakage:
    """Train a linear and a neural probe for a class and test them on other rows, five times.

    Each time they learn from four fifths of the training rows, drawn anew. The accuracy is the mean; the interval is
    Wilson's over the test rows, widened by what the five differ. Columns are standardised by the training rows.
    Fit the eraser on rows that neither probe nor test uses: on the rows of its own fit a linear probe is at the
    majority by construction, which says nothing about new rows. ``generator`` draws rows and starts the
    neural probe.
    """
    train, test = table(x_train, "the training embeddings"), table(x_test, "the test embeddings")
    known, asked = np.asarray(y_train), np.asarray(y_test)
    names, counts = np.unique(known, return_counts=True)
    if train.shape[1] != test.shape[1] or known.shape != train.shape[:1] or asked.shape != test.shape[:1]:
        shapes = f"{train.shape} and {test.shape} with classes {known.shape} and {asked.shape}"
        raise InputError(f"expected training and test embeddings of one width and a class for each row, found {shapes}")
    if len(counts) < 2 or counts.min() < _FEWEST:
        raise InputError(f"training needs {_FEWEST} or more rows of two or more classes, found {counts.tolist()}")
    linear_model = need("sklearn.linear_model", extra="encoders", purpose="a probe")
    neural_network = need("sklearn.neural_network", extra="encoders", purpose="a probe")
    mean, spread = train.mean(axis=0), train.std(axis=0)
    # A column that erasure made constant is left with rounding, which scaling would blow up into a feature.
    spread[spread <= 1e-9 * np.abs(train).max()] = np.inf
    train, test = (train - mean) / spread, (test - mean) / spread
    right: dict[str, list[float]] = {"linear": [], "mlp": []}
    for _ in range(SEEDS):
        rows = np.concatenate([_part(np.flatnonzero(known == name), generator) for name in names])
        # scikit-learn takes a seed; drawing it from the generator keeps one source of randomness.
        seed = int(generator.integers(2**31))
        probes = {
            "linear": linear_model.LogisticRegression(max_iter=1000),
            "mlp": neural_network.MLPClassifier((_HIDDEN,), alpha=0.01, max_iter=100, random_state=seed),
        }
        for name, probe in probes.items():
            right[name].append(float(np.mean(_fitted(probe, train[rows], known[rows]).predict(test) == asked)))
    note = f"over test rows and {SEEDS} draws of the training rows"
    linear, mlp = (_over_seeds(values, len(asked), note) for values in right.values())
    return Leakage(linear, mlp, float(np.mean(asked == names[counts.argmax()])))


def neighbour_clustering(
    x: ArrayLike,
    bias_before: ArrayLike,
    k: int = 100,
    *,
    generator: np.random.Generator,
    most: int = 500,
    asked: ArrayLike | None = None,
) -> Clustering:
    """Cluster the words that were most biased, and count on which side the neighbours of words were.

    Rows of ``x``, the mitigated vocabulary, are compared by cosine; ``bias_before`` is the cosine of each with the
    gender direction before. The ``most`` biased words of each side are clustered; ``k`` neighbours among all rows are
    counted for those ``asked`` about, such as the occupations, by default the words that are clustered. Compare with
    the values of the unmitigated embeddings: random ones give an accuracy somewhat above 0.5, because the better of the
    two namings of the clusters counts. Gonen and Goldberg 2019, "Lipstick on a pig".
    """
    rows, bias = table(x, "the embeddings"), np.asarray(bias_before, dtype=np.float64)
    if bias.shape != rows.shape[:1] or not np.isfinite(bias).all():
        raise InputError(f"expected one finite bias for each of the {len(rows)} rows, found shape {bias.shape}")
    if not 1 <= k < len(rows):
        raise InputError(f"k must be from 1 to {len(rows) - 1}, one less than the rows, not {k}")
    sides = int((bias > 0).sum()), int((bias < 0).sum())
    if most < 1 or min(sides) < most:
        raise InputError(f"{most} words of each side asked for, {sides[0]} lean to one and {sides[1]} to the other")
    rows = unit_rows(rows)  # at which distances of the clustering and cosines of the neighbours agree
    order = np.argsort(bias, kind="stable")
    chosen = np.concatenate([order[:most], order[-most:]])
    which = chosen if asked is None else np.asarray(asked, dtype=np.int64).reshape(-1)
    if which.size and not (which.min() >= 0 and which.max() < len(rows)):
        raise InputError(f"asked must name rows 0 to {len(rows) - 1}; drop words without a vector first")
    cluster = need("sklearn.cluster", extra="encoders", purpose="the clustering of neighbours")
    hits = []
    for seed in generator.integers(2**31, size=_STARTS):
        means = _fitted(cluster.KMeans(2, n_init=_TRIES, random_state=int(seed)), rows[chosen])
        right = float(np.mean(means.labels_ == (bias[chosen] > 0)))
        # Which cluster is which side is arbitrary, so the better of the two namings counts.
        hits.append(max(right, 1 - right))
    accuracy = _over_seeds(hits, len(chosen), f"over texts and {_STARTS} starts of the clustering")
    return Clustering(accuracy, _correlation(bias[which], _neighbour_bias(rows, which, bias > 0, k)))


class Residual(Leakage, frozen=True):
    """How much of gender is left in embeddings; the probes are tested on words that they have not seen."""

    optional: ClassVar[tuple[str, ...]] = ("on_text", "on_domain")

    clustering: Estimate  # neutral texts that two-means puts on the side they leaned to before; 0.5 is neutral
    correlation: Estimate  # of how far neutral texts leaned before with the side of their neighbours; 0 is neutral
    on_text: Leakage | None = None  # the probes on running text
    on_domain: Leakage | None = None  # the probes on other sentences with the words that were fitted on


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


class Labelled(NamedTuple):
    """Embeddings and classes, those that train a probe and those that test it."""

    train: NDArray[Any]
    train_classes: NDArray[np.int64]
    test: NDArray[Any]
    test_classes: NDArray[np.int64]

    def erased(self, eraser: Eraser) -> Labelled:
        """The same embeddings behind an eraser."""
        return self._replace(train=eraser(self.train), test=eraser(self.test))


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
        running = None if text is None else _labelled(encoder, text.texts, text.classes, len(text.train))
        pairs, domain = sentences.domain, None
        if len(pairs) >= _FEWEST_PAIRS:  # both versions of a pair are in the same half
            mixed = [version for pair in (*pairs[::2], *pairs[1::2]) for version in (pair.female, pair.male)]
            domain = _labelled(encoder, mixed, np.tile([FEMALE, MALE], len(pairs)), 2 * len(pairs[::2]))
        return cls(Labelled(parts[0], probe, parts[1], test), parts[2], running, domain)

    def erased(self, eraser: Eraser) -> HeldOut:
        """The same embeddings behind an eraser."""
        text, domain = (rows.erased(eraser) if rows else None for rows in (self.text, self.domain))
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


def known_sentences(encoder: Any, sentences: GenderedSet) -> GenderedSet:
    """The sentences whose words an encoder knows: all of them unless it is made of word vectors."""
    *_, inner = layers(encoder)
    vectors = getattr(getattr(inner, "vocabulary", inner), "vectors", None)
    return sentences.known_to(vectors) if isinstance(vectors, WordVectors) else sentences


def residual_leakage(held: HeldOut, lean_before: FloatArray, *, seed: int = 0) -> Residual:
    """What is left of gender: two probes on gendered sentences and on text, and the neighbours of neutral sentences.

    ``lean_before`` is ``HeldOut.lean`` of the encoder without mitigation.
    """
    side = min(int((lean_before > 0).sum()), int((lean_before < 0).sum()), len(lean_before) // 4)
    if not side:
        raise InputError("the neutral sentences lean to no side: the encoder gives them all the same embedding")
    generator, everyone = np.random.default_rng(seed), np.arange(len(lean_before))
    clusters = neighbour_clustering(
        held.neutral, lean_before, _NEIGHBOURS, generator=generator, most=side, asked=everyone
    )
    probes = leakage(*held.words, np.random.default_rng(seed))
    further = (leakage(*rows, np.random.default_rng(seed)) if rows else None for rows in (held.text, held.domain))
    return Residual(probes.linear, probes.mlp, probes.majority, *clusters, *further)


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


def _neighbour_bias(rows: FloatArray, which: NDArray[np.int64], positive: NDArray[np.bool_], k: int) -> FloatArray:
    """Share of positive rows among the k nearest of each row asked about, itself left out; rows have length 1."""
    share = np.empty(len(which))
    for start in range(0, len(which), _CHUNK):
        part = which[start : start + _CHUNK]
        cosines = rows[part] @ rows.T
        cosines[np.arange(len(part)), part] = -np.inf
        nearest = np.argpartition(cosines, -k, axis=1)[:, -k:]
        share[start : start + _CHUNK] = positive[nearest].mean(axis=1)
    return share


def _fitted(model: Any, *data: Any) -> Any:
    with warnings.catch_warnings():
        # A probe that could still improve is a probe all the same, and clusters of equal rows are a finding.
        sklearn = need("sklearn.exceptions", extra="encoders", purpose="a probe")
        warnings.simplefilter("ignore", sklearn.ConvergenceWarning)
        # The neural probe takes an interrupt for the end of its training and would be judged half-trained.
        warnings.filterwarnings("error", message="Training interrupted")
        try:
            return model.fit(*data)
        except UserWarning as stop:
            raise KeyboardInterrupt from stop


def _part(rows: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    """Four fifths of the rows, drawn at random."""
    return generator.permutation(rows)[: -(-4 * len(rows) // 5)]


def _over_seeds(values: Sequence[float], n: int, note: str) -> Estimate:
    """Mean of a share over several seeds; the interval adds what the seeds vary to what the ``n`` texts do."""
    value = float(np.mean(values))
    low, high = wilson(value, n, _LEVEL)
    z = float(norm.ppf((1 + _LEVEL) / 2))
    spread = z * float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    # Each side of Wilson's interval is widened on its own, so that the ends stay within 0 and 1.
    low, high = max(0.0, value - math.hypot(value - low, spread)), min(1.0, value + math.hypot(high - value, spread))
    return Estimate(value, low, high, (high - low) / (2 * z), _LEVEL, n, {}, note)


def _correlation(x: FloatArray, y: FloatArray) -> Estimate:
    """Pearson's correlation with Fisher's interval; NaN with a reason where it is undefined."""
    n, value, low, high = len(x), math.nan, math.nan, math.nan
    note = "no correlation: fewer than three words, or all of them alike"
    if n >= 3 and np.ptp(x) and np.ptp(y):
        value, note = float(np.corrcoef(x, y)[0, 1]), "no interval: three texts or fewer"
        if n > 3:
            # Kept off 1, where the transformation is infinite.
            middle, half = math.atanh(max(-0.999999, min(0.999999, value))), 1.959964 / math.sqrt(n - 3)
            low, high, note = math.tanh(middle - half), math.tanh(middle + half), "over texts, Fisher's z"
    return Estimate(value, low, high, (high - low) / 3.92, _LEVEL, n, {}, note)
