"""What is left of a concept in embeddings after it was erased: probes, and neighbours.

An eraser promises something about linear classifiers or about one direction. Three questions show how far that goes:
can a linear probe predict the classes, can a small neural one, and are words that leaned to the same side still
neighbours? Needs scikit-learn.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from evenli._extras import need
from evenli.errors import InputError
from evenli.stats.intervals import Estimate, wilson

FloatArray = NDArray[np.float64]
_HIDDEN = 64
_FEWEST = 10  # training rows of a class: fewer teach a probe nothing
_CHUNK = 512  # words whose neighbours are found at a time


@dataclass(frozen=True)
class Leakage:
    """Accuracy of two probes on rows they were not trained on.

    Range [0, 1]; neutral is ``majority``, what always naming the most frequent class of the training rows gives. Higher
    leaks more. A probe at the majority shows that this probe fails, not that nothing is left.

    Attributes:
        linear: Logistic regression.
        mlp: One hidden layer of 64 units.
        majority: Accuracy without looking at the embeddings.
    """

    linear: Estimate
    mlp: Estimate
    majority: float


@dataclass(frozen=True)
class Clustering:
    """Whether words that leaned to one side before are still neighbours.

    Attributes:
        accuracy: Words of the two most biased groups that two-means puts on the right side; in [0.5, 1], 0.5 is none of
            the old bias, 1 is all of it.
        correlation: Pearson correlation, over the words asked about, of the old bias with the share of their nearest
            neighbours whose old bias is positive; 0 is neutral, NaN is undefined.
        clustered: Words clustered.
        asked: Words in the correlation.
        note: Why a value is undefined.
    """

    accuracy: float
    correlation: float
    clustered: int
    asked: int
    note: str = ""


def leakage(
    x_train: ArrayLike,
    y_train: ArrayLike,
    x_test: ArrayLike,
    y_test: ArrayLike,
    generator: np.random.Generator,
    *,
    level: float = 0.95,
) -> Leakage:
    """Train a linear and a neural probe for a class and test them on other rows.

    Columns are standardised by the training rows. Intervals are Wilson's, over the test rows with the probe held
    fixed; the choice of training rows is not in them.

    Fit the eraser on rows that neither probe nor test uses. On the rows of its own fit a linear probe is at the
    majority by construction, which says nothing about new rows. An eraser that saw the test rows as well pushes the
    probe below the majority: what it balanced over both parts leans the other way in one of them.

    Args:
        x_train: Embeddings [n, d] to learn from.
        y_train: Their classes.
        x_test: Embeddings [m, d] to test on; share no word or sentence with the former.
        y_test: Their classes.
        generator: Starts the neural probe.
        level: Coverage of the intervals.
    """
    train, test = _table(x_train, "training"), _table(x_test, "test")
    known, asked = np.asarray(y_train), np.asarray(y_test)
    if train.shape[1] != test.shape[1]:
        raise InputError(f"training embeddings have {train.shape[1]} numbers, test embeddings {test.shape[1]}")
    if known.shape != train.shape[:1] or asked.shape != test.shape[:1]:
        raise InputError(
            f"{len(train)} training and {len(test)} test rows need as many classes, found {known.shape} "
            f"and {asked.shape}"
        )
    names, counts = np.unique(known, return_counts=True)
    if len(names) < 2 or counts.min() < _FEWEST:
        listed = ", ".join(f"{count} of {name}" for name, count in zip(names, counts, strict=True))
        raise InputError(f"training rows must be {_FEWEST} or more of each of two or more classes, found {listed}")
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1, not {level}")
    linear = need("sklearn.linear_model", extra="encoders", purpose="a probe")
    neural = need("sklearn.neural_network", extra="encoders", purpose="a probe")
    mean, spread = train.mean(axis=0), train.std(axis=0)
    # A column that erasure made constant is left with rounding, which scaling would blow up into a feature.
    spread[spread <= 1e-9 * np.abs(train).max()] = np.inf
    train, test = (train - mean) / spread, (test - mean) / spread
    seed = int(generator.integers(2**31))
    probes = (
        linear.LogisticRegression(max_iter=1000),
        neural.MLPClassifier((_HIDDEN,), alpha=0.01, max_iter=100, random_state=seed),
    )
    scored = [_accuracy(_fitted(probe, train, known).predict(test) == asked, level) for probe in probes]
    return Leakage(scored[0], scored[1], float(np.mean(asked == names[counts.argmax()])))


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

    The bias is that of the embeddings before the mitigation, so it stays what it was; x are the embeddings after it.
    Rows are compared by cosine. Compare with the values of the unmitigated embeddings: random ones give an accuracy
    somewhat above 0.5, because the better of the two namings of the clusters counts.

    Gonen and Goldberg 2019, "Lipstick on a pig".

    Args:
        x: Embeddings [n, d] of the vocabulary, mitigated.
        bias_before: Cosine of each row with the gender direction before; positive is one side, negative the other.
        k: Neighbours to count, among all rows.
        generator: Starts the clustering.
        most: Words of each side to cluster, the most biased first.
        asked: Rows for the correlation, such as the occupations; by default the words that are clustered, whose
            two-sided choice makes the correlation larger.
    """
    rows, bias = _table(x, "vocabulary"), np.asarray(bias_before, dtype=np.float64)
    if bias.shape != rows.shape[:1] or not np.isfinite(bias).all():
        raise InputError(f"expected one finite bias for each of the {len(rows)} rows, found shape {bias.shape}")
    if not 1 <= k < len(rows):
        raise InputError(f"k must be from 1 to {len(rows) - 1}, one less than the rows, not {k}")
    sides = int((bias > 0).sum()), int((bias < 0).sum())
    if most < 1 or min(sides) < most:
        raise InputError(f"{most} words of each side asked for, {sides[0]} lean to one and {sides[1]} to the other")
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = rows / np.where(length > 0, length, 1.0)
    order = np.argsort(bias, kind="stable")
    chosen = np.concatenate([order[:most], order[-most:]])
    which = chosen if asked is None else np.asarray(asked, dtype=np.int64).reshape(-1)
    if which.size and not (which.min() >= 0 and which.max() < len(rows)):
        raise InputError(f"asked must name rows 0 to {len(rows) - 1}; drop words without a vector first")

    cluster = need("sklearn.cluster", extra="encoders", purpose="the clustering of neighbours")
    means = cluster.KMeans(2, n_init=10, random_state=int(generator.integers(2**31)))
    hits = float(np.mean(_fitted(means, rows[chosen]).labels_ == (bias[chosen] > 0)))
    share = neighbour_bias(rows, which, bias > 0, k)
    defined = len(which) > 2 and np.ptp(share) > 0 and np.ptp(bias[which]) > 0
    correlation = float(np.corrcoef(bias[which], share)[0, 1]) if defined else float("nan")
    note = "" if defined else "no correlation: fewer than three words, or all of them alike"
    return Clustering(max(hits, 1 - hits), correlation, len(chosen), len(which), note)


def neighbour_bias(rows: FloatArray, which: NDArray[np.int64], positive: NDArray[np.bool_], k: int) -> FloatArray:
    """Share of positive rows among the k nearest of each row asked about, itself left out; rows have length 1."""
    share = np.empty(len(which))
    for start in range(0, len(which), _CHUNK):
        part = which[start : start + _CHUNK]
        cosines = rows[part] @ rows.T
        cosines[np.arange(len(part)), part] = -np.inf
        nearest = np.argpartition(cosines, -k, axis=1)[:, -k:]
        share[start : start + _CHUNK] = positive[nearest].mean(axis=1)
    return share


def _table(x: ArrayLike, what: str) -> FloatArray:
    rows = np.asarray(x, dtype=np.float64)
    if rows.ndim != 2 or not rows.size:
        raise InputError(f"expected {what} embeddings [n, d], found shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise InputError(f"the {what} embeddings hold numbers that are not finite")
    return rows


def _fitted(model: Any, *data: Any) -> Any:
    with warnings.catch_warnings():
        # A probe that could still improve is a probe all the same, and clusters of equal rows are a finding.
        sklearn = need("sklearn.exceptions", extra="encoders", purpose="a probe")
        warnings.simplefilter("ignore", sklearn.ConvergenceWarning)
        return model.fit(*data)


def _accuracy(right: NDArray[np.bool_], level: float) -> Estimate:
    n, value = len(right), float(np.mean(right))
    low, high = wilson(value, n, level)
    se = (high - low) / (2 * float(norm.ppf((1 + level) / 2)))
    return Estimate(value, low, high, se, level, n, {}, "over test rows, the probe fixed")
