"""WEAT and SEAT: are the targets X closer to the attributes A, and Y to B, than chance would have it?

Embeddings in, effect sizes out. The statistics are those of Caliskan et al. 2017 as May et al. 2019 compute them; what
is added is a two-sided p, an interval and corrections for several tests. A small p says that the order of X and Y is
no accident of these texts; an effect of 0 does not show that a model is free of bias.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenli.errors import InputError
from evenli.evaluate.compare import holm
from evenli.evaluate.seat.effects import CONSTANT, Values, unit, weighted_effects
from evenli.evaluate.seat.tests import AssociationTest
from evenli.io import hash_text

Sides = Literal["one", "two"]

AVERAGED = ("C6", "C6b", "C7", "C7b", "C8", "C8b")
"""The gender tests, over which Dolci et al. 2023 average."""
PERMUTATIONS = 100_000
RESAMPLES = 2_000
NO_SPREAD = "no interval: some choices of words leave no spread between targets"
_SETS = ("X", "Y", "A", "B")
_FEWEST = 2
_ROUNDING = 1e-13  # error of one association; sums of n of them tie within n times this
_CHUNK = 1_000_000  # bytes of selections held at once while sampling
_COUNTED = 100_000  # halves held at once where all are counted
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)  # [byte, bit]
_COUNTS = _BITS.sum(axis=1, dtype=np.uint8)
_MASKS = np.array([128 >> bit for bit in range(8)], dtype=np.uint8)


@dataclass(frozen=True)
class AssociationResult:
    """One association test.

    Attributes:
        effect: ``d``, standard deviations between the means of X and Y; 0 no difference, positive if X goes with A.
            Between -2 and 2 for equal sets (up to ``ddof``). NaN with a note where it is undefined.
        p: Share of equal partitions of the targets that separate at least as much; never 0.
        low: Lower end of the bootstrap interval of ``d`` over the words behind targets and attributes.
        high: Upper end.
        level: Coverage of the interval.
        exact: Whether all partitions were counted.
        permutations: Partitions counted, the observed one among them.
        sides: ``one`` (X goes with A) or ``two`` (either way).
        ddof: Of the standard deviation.
        sizes: Number of X, Y, A and B.
        p_holm: ``p`` corrected by Holm for the tests run together.
        p_bh: ``p`` corrected by Benjamini and Hochberg (false discovery rate).
        name: Name of the test.
        note: Why there is no value or no interval.
    """

    effect: float
    p: float
    low: float
    high: float
    level: float
    exact: bool
    permutations: int
    sides: Sides
    ddof: int
    sizes: tuple[int, int, int, int]
    p_holm: float = math.nan
    p_bh: float = math.nan
    name: str = ""
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; NaN becomes null."""
        values = {key: None if isinstance(v, float) and math.isnan(v) else v for key, v in asdict(self).items()}
        return {**values, "sizes": dict(zip(_SETS, self.sizes, strict=True))}


@dataclass(frozen=True)
class AverageEffect:
    """Mean of the effects of several tests, with their signs and without; NaN with a note if one is missing."""

    signed: float
    absolute: float
    note: str = ""


def association_test(
    x: ArrayLike,
    y: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    *,
    generator: np.random.Generator,
    ddof: int = 1,
    permutations: int = PERMUTATIONS,
    sides: Sides = "one",
    resamples: int = RESAMPLES,
    level: float = 0.95,
    words: Sequence[Sequence[str]] | None = None,
) -> AssociationResult:
    """Test whether X goes with A, and Y with B.

    ``s(w) = mean cos(w, A) - mean cos(w, B)`` and ``d = (mean s(X) - mean s(Y)) / std s(X and Y)``. ``p`` is the share
    of partitions of the targets into equal halves with ``sum s(X') >= sum s(X)``; ties count. All partitions are
    counted if they are no more than ``permutations``. Otherwise ``permutations - 1`` random ones are drawn and the
    observed one added, ``p = (k + 1) / (n + 1)``. Two-sided, the sums are compared by their distance from the mean.

    The interval is a percentile bootstrap: the words behind X, Y, A and B are drawn anew, each set on its own, and all
    sentences of a word come along. It speaks of the choice of words.

    Args:
        x: Embeddings of the first targets, [n, dimensions].
        y: Embeddings of the second targets, as many.
        a: Embeddings of the first attributes.
        b: Embeddings of the second attributes.
        generator: Source of partitions and resamples.
        ddof: 1 for the sample standard deviation (as published), 0 for that of the population.
        permutations: Most partitions to count; at least 100.
        sides: ``one`` or ``two``.
        resamples: Bootstrap resamples, or 0 for no interval.
        level: Coverage of the interval.
        words: The word behind every embedding, for each of the four sets; default: each is its own.
    """
    if sides not in ("one", "two"):
        raise InputError(f"a test has one or two sides, not '{sides}'; choose one or two")
    if ddof not in (0, 1):
        raise InputError(f"ddof is {ddof}; choose 1 (sample, as published) or 0 (population)")
    if permutations < 100:
        raise InputError(f"{permutations} permutations are too few for a p-value; use at least 100")
    if resamples and resamples < 100:
        raise InputError(f"{resamples} resamples are too few for an interval; use at least 100, or 0 for none")
    if not 0 < level < 1:
        raise InputError(f"the level is {level}; it lies between 0 and 1, such as 0.95")
    given = [_matrix(part, name) for part, name in zip((x, y, a, b), _SETS, strict=True)]
    widths = {part.shape[1] for part in given if len(part)}
    if len(widths) > 1:
        raise InputError(f"embeddings of {sorted(widths)} dimensions do not compare; encode all sets with one model")
    clusters = _clusters(words, given)
    sizes = (len(given[0]), len(given[1]), len(given[2]), len(given[3]))
    nothing = AssociationResult(
        math.nan, math.nan, math.nan, math.nan, level, False, 0, sides, ddof, sizes, note=_why_undefined(given)
    )
    if nothing.note:
        return nothing
    units = [unit(part) for part in given]
    targets, n = np.concatenate(units[:2]), len(units[0])
    s = targets @ (units[2].mean(axis=0) - units[3].mean(axis=0))
    spread = float(s.std(ddof=ddof))
    if spread <= CONSTANT:
        return replace(nothing, note="undefined: all targets have the same association, so nothing separates X from Y")
    effect = float((s[:n].mean() - s[n:].mean()) / spread)
    p, exact, counted = _p_value(s, n, sides, permutations, generator)
    low, high, note = math.nan, math.nan, ""
    if resamples:
        low, high, note = _interval(targets, units[2], units[3], clusters, ddof, resamples, level, generator)
    return replace(nothing, effect=effect, p=p, low=low, high=high, exact=exact, permutations=counted, note=note)


def run_associations(
    tests: Sequence[AssociationTest],
    vectors: Mapping[str, ArrayLike],
    *,
    generator: np.random.Generator,
    ddof: int = 1,
    permutations: int = PERMUTATIONS,
    sides: Sides = "one",
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> list[AssociationResult]:
    """Run several tests and correct their p-values for each other.

    The draws of a test depend on the generator and on the test's name: what it finds alone it finds among others, but
    for the correction.

    Args:
        tests: From ``seat_tests`` or ``read_test``.
        vectors: Embedding of every text of the tests. A text has one vector wherever it occurs.
        generator: Source of the seed of all partitions and resamples.
        ddof: As in :func:`association_test`, like all further settings.
        permutations: Most partitions to count per test.
        sides: ``one`` or ``two``.
        resamples: Bootstrap resamples, or 0.
        level: Coverage of the interval.
    """
    missing = [text for test in tests for part in test.sets for text in part.texts if text not in vectors]
    if missing:
        more = f" and {len(set(missing)) - 1} more texts" if len(set(missing)) > 1 else ""
        raise InputError(f"no vector for '{missing[0]}'{more}; give one for every text of the tests")
    seed = int(generator.integers(2**63))
    results = []
    for test in tests:
        arrays = [[np.asarray(vectors[text]) for text in part.texts] for part in test.sets]
        result = association_test(
            *arrays,
            generator=np.random.default_rng([seed, int(hash_text(test.name), 16)]),
            ddof=ddof,
            permutations=permutations,
            sides=sides,
            resamples=resamples,
            level=level,
            words=[part.words for part in test.sets],
        )
        results.append(replace(result, name=test.name))
    p_values = [result.p for result in results]
    corrected = zip(results, holm(p_values), benjamini_hochberg(p_values), strict=True)
    return [replace(result, p_holm=by_holm, p_bh=by_bh) for result, by_holm, by_bh in corrected]


def average_effect(effects: Mapping[str, float], names: Sequence[str] = AVERAGED) -> AverageEffect:
    """Mean effect of the gender tests C6 to C8b, signed as published, and of the sizes without signs.

    Opposite effects cancel in the signed mean, hence the second one; 0 is neutral in both.

    Args:
        effects: Effect size per test.
        names: Tests to average.
    """
    missing = [name for name in names if math.isnan(effects.get(name, math.nan))]
    if missing:
        return AverageEffect(math.nan, math.nan, f"undefined: no effect for {', '.join(missing)}")
    chosen = np.array([effects[name] for name in names])
    return AverageEffect(float(chosen.mean()), float(np.abs(chosen).mean()))


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's step-up correction (1995); an undefined p stays undefined and does not count.

    Rejecting what is at most ``q`` keeps the expected share of false rejections at ``q``.

    >>> [round(p, 4) for p in benjamini_hochberg([0.01, 0.04, 0.03])]
    [0.03, 0.04, 0.04]
    """
    defined = sorted((p, i) for i, p in enumerate(p_values) if not math.isnan(p))
    corrected = [math.nan] * len(p_values)
    smallest = 1.0
    for rank, (p, i) in reversed(list(enumerate(defined, start=1))):
        smallest = min(smallest, p * len(defined) / rank)
        corrected[i] = smallest
    return corrected


def _p_value(
    s: Values, n: int, sides: Sides, permutations: int, generator: np.random.Generator
) -> tuple[float, bool, int]:
    pooled = s - s.mean()
    observed = float(pooled[:n].sum())
    # In sorted order the draws depend on the values only, not on the order of words or on which half is called X.
    pooled.sort()
    partitions = math.comb(2 * n, n)
    exact = partitions <= permutations
    sums = _all_halves(pooled) if exact else _sampled_halves(pooled, permutations - 1, generator)
    slack = _ROUNDING * len(s)
    hits = 0
    for part in sums:
        reached = np.abs(part) >= abs(observed) - slack if sides == "two" else part >= observed - slack
        hits += int(np.count_nonzero(reached))
    return (hits / partitions, True, partitions) if exact else ((hits + 1) / permutations, False, permutations)


def _all_halves(pooled: Values) -> Iterator[Values]:
    n = len(pooled) // 2
    halves = itertools.combinations(range(len(pooled)), n)
    for _ in range(0, math.comb(len(pooled), n), _COUNTED):
        items = itertools.chain.from_iterable(itertools.islice(halves, _COUNTED))
        yield pooled[np.fromiter(items, dtype=np.intp).reshape(-1, n)].sum(axis=1)


def _sampled_halves(pooled: Values, count: int, generator: np.random.Generator) -> Iterator[Values]:
    """Sums over random halves. Eight items share a byte, and the sum of every byte's items is looked up."""
    padded = np.zeros(-(-len(pooled) // 8) * 8)
    padded[: len(pooled)] = pooled
    tables = padded.reshape(-1, 8) @ _BITS.T
    step = max(1, _CHUNK // len(tables))
    for start in range(0, count, step):
        halves = _random_halves(min(step, count - start), len(pooled), generator)
        sums = np.zeros(halves.shape[1])
        for table, chosen in zip(tables, halves, strict=True):
            sums += table[chosen]
        yield sums


def _random_halves(count: int, size: int, generator: np.random.Generator) -> NDArray[np.uint8]:
    """``count`` random selections of half of ``size`` items, as bits, [size / 8, count]; all halves are equally likely.

    Fair coins choose a set that is uniform among those of its size. Taking random members out, or random others in,
    until half are left keeps it so. That needs about sqrt(size) steps per selection, where a shuffle needs ``size``.
    """
    chosen = generator.integers(256, size=(-(-size // 8), count), dtype=np.uint8)
    chosen[-1] &= 0xFF << (-size % 8) & 0xFF
    surplus = _COUNTS[chosen].sum(axis=0, dtype=np.int32) - size // 2
    columns = np.flatnonzero(surplus)
    while columns.size:
        items = generator.integers(size, size=columns.size)
        byte, bit = items >> 3, _MASKS[items & 7]
        movable = ((chosen[byte, columns] & bit) > 0) == (surplus[columns] > 0)
        moved = columns[movable]
        chosen[byte[movable], moved] ^= bit[movable]
        surplus[moved] -= np.sign(surplus[moved])
        columns = columns[surplus[columns] != 0]
    return chosen


def _interval(
    targets: Values,
    a: Values,
    b: Values,
    clusters: Sequence[NDArray[np.intp]],
    ddof: int,
    resamples: int,
    level: float,
    generator: np.random.Generator,
) -> tuple[float, float, str]:
    single = [name for name, cluster in zip(_SETS, clusters, strict=True) if cluster.max() == 0]
    if single:
        return math.nan, math.nan, f"no interval: only one word behind {' and '.join(single)}"
    s = np.zeros((resamples, len(targets)))
    for sign, attributes, cluster in ((1, a, clusters[2]), (-1, b, clusters[3])):
        # The sentences of a word come together, so one product per word is enough.
        by_word = np.zeros((int(cluster.max()) + 1, attributes.shape[1]))
        np.add.at(by_word, cluster, attributes)
        drawn = _drawn_words(cluster, resamples, generator)
        s += sign * (drawn @ (by_word @ targets.T)) / (drawn @ np.bincount(cluster))[:, None]
    x_weights, y_weights = (_drawn_words(cluster, resamples, generator)[:, cluster] for cluster in clusters[:2])
    effects = weighted_effects(s, np.concatenate([x_weights, y_weights], axis=1), x_weights.shape[1], ddof)
    if np.isnan(effects).any():
        return math.nan, math.nan, NO_SPREAD
    low, high = np.quantile(effects, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high), ""


def _drawn_words(cluster: NDArray[np.intp], resamples: int, generator: np.random.Generator) -> Values:
    """How often every word is drawn with replacement, [resamples, words]."""
    words = int(cluster.max()) + 1
    return generator.multinomial(words, np.full(words, 1 / words), size=resamples).astype(np.float64)


def _clusters(words: Sequence[Sequence[str]] | None, given: Sequence[Values]) -> list[NDArray[np.intp]]:
    if words is None:
        return [np.arange(len(part)) for part in given]
    counts = [len(part) for part in words]
    if counts != [len(part) for part in given]:
        raise InputError(f"{counts} words for {[len(part) for part in given]} embeddings; give one word for each")
    return [np.unique(np.asarray(part, dtype=str), return_inverse=True)[1].astype(np.intp) for part in words]


def _matrix(values: ArrayLike, what: str) -> Values:
    try:
        rows = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"the embeddings of {what} are not a table of numbers: {error}") from error
    if rows.size == 0:
        return rows.reshape(0, 0)
    if rows.ndim != 2:
        raise InputError(f"the embeddings of {what} have the shape {rows.shape}; give one row per text")
    return rows


def _why_undefined(given: Sequence[Values]) -> str:
    small = [f"|{name}| = {len(part)}" for name, part in zip(_SETS, given, strict=True) if len(part) < _FEWEST]
    if small:
        return f"undefined: {', '.join(small)}; every set needs at least {_FEWEST}"
    if len(given[0]) != len(given[1]):
        return f"undefined: |X| = {len(given[0])} and |Y| = {len(given[1])}; the test needs equal sizes"
    for name, part in zip(_SETS, given, strict=True):
        bad = int(np.count_nonzero(~np.isfinite(part).all(axis=1)))
        if bad:
            return f"undefined: {bad} of {len(part)} embeddings of {name} hold values that are no numbers"
        zeros = int(np.count_nonzero(~part.any(axis=1)))
        if zeros:
            return f"undefined: {zeros} of {len(part)} embeddings of {name} are zero and have no direction"
    return ""
