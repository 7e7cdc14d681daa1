"""WEAT and SEAT: are the targets X closer to the attributes A, and Y to B, than chance would have it?

Embeddings in, effect sizes out. The effect is that of Caliskan et al. 2017 as May et al. 2019 compute it. Their p deals
out texts, as if sentences of one word were independent, and finds something in up to a quarter of comparisons of like
with like. Ours deals out words, with all their sentences; the published one stands beside it. A small p says that the
order of X and Y is no accident of these words; an effect of 0 does not show that a model is free of bias.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike, NDArray

from evenli.core.errors import InputError, translated
from evenli.core.record import Estimate, Number, Record
from evenli.encoders.settings import SeatSettings, Sides

Values = NDArray[np.float64]
Index = NDArray[np.intp]

_NO_SPREAD = "no interval: some choices of words leave no spread between targets"
_SETS = ("X", "Y", "A", "B")
_CONSTANT = 1e-12  # a spread of associations up to this is none
_ROUNDING = 1e-13  # error of one association; sums of n of them tie within n times this
_CHUNK = 1_000_000  # bytes of selections held at once while sampling
_COUNTED = 100_000  # halves held at once where all are counted
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)  # [byte, bit]
_COUNTS = _BITS.sum(axis=1, dtype=np.uint8)
_MASKS = np.array([128 >> bit for bit in range(8)], dtype=np.uint8)
DEFAULTS = SeatSettings()


class AssociationResult(Record, frozen=True):
    """One association test.

    Attributes:
        sizes: Number of X, Y, A and B.
        sides: As in the settings, like ``ddof``.
        effect: ``d``, standard deviations between the means of X and Y; 0 no difference, positive if X goes with A.
            Between -2 and 2 for equal sets (up to ``ddof``). Its interval is over the words behind targets and
            attributes; its note says why there is no value or no interval, or what distorts it.
        p: Share of partitions of the target words, each with all its texts, that separate at least as much; never 0.
        p_published: The same over partitions of texts (May et al. 2019). Too small where a word has several texts.
        exact: Whether all partitions were counted.
        permutations: Partitions counted, the observed one among them.
        p_holm: ``p`` corrected by Holm for the tests run together.
        p_bh: ``p`` corrected by Benjamini and Hochberg (false discovery rate).
        title: What is compared, such as "male and female names, with career and family".
        kind: ``word`` or ``sentence``.
        missing_vectors: Words of the test that the encoder has no vector for.
    """

    sizes: dict[str, int]
    sides: Sides
    ddof: int
    effect: Estimate
    p: Number = math.nan
    p_published: Number = math.nan
    exact: bool = False
    permutations: int = 0
    p_holm: Number = math.nan
    p_bh: Number = math.nan
    name: str = ""
    title: str = ""
    kind: str = ""
    missing_vectors: tuple[str, ...] = ()


def association_test(
    sets: Sequence[ArrayLike],
    settings: SeatSettings = DEFAULTS,
    *,
    words: Sequence[Sequence[str]] | None = None,
    generator: np.random.Generator | None = None,
) -> AssociationResult:
    """Test whether X goes with A, and Y with B.

    ``s(w) = mean cos(w, A) - mean cos(w, B)`` and ``d = (mean s(X) - mean s(Y)) / std s(X and Y)``. For ``p`` a word
    counts once, with the mean of ``s`` over its texts, and words are dealt out anew. The interval is a
    percentile bootstrap: the words behind X, Y, A and B are drawn anew, each set on its own, and all sentences of a
    word come along. It speaks of the choice of words.

    ``sets`` are the embeddings of X, Y, A and B, each [n, dimensions]; ``words`` names the word behind every embedding
    of each set, by default each is its own. The level of the settings is not used.
    """
    # Wrong input is an error; input on which the test is undefined is a result without a number.
    tables = [_matrix(part, name) for part, name in zip(sets, _SETS, strict=True)]
    widths = {part.shape[1] for part in tables if len(part)}
    if len(widths) > 1:
        raise InputError(f"embeddings of {sorted(widths)} dimensions do not compare; encode all sets with one model")
    sizes = [len(part) for part in tables]
    if words is not None and [len(part) for part in words] != sizes:
        raise InputError(f"{[len(part) for part in words]} words for {sizes} embeddings; give one word for each")
    note = _why_undefined(tables)
    units = None if note else UnitSets(tables, words, settings.ddof)
    if units is not None and math.isnan(units.effect):
        note = "undefined: all targets have the same association, so nothing separates X from Y"
    effect = Estimate.undefined(note, settings.coverage, sizes[0] + sizes[1])
    result = AssociationResult(dict(zip(_SETS, sizes, strict=True)), settings.sides, settings.ddof, effect)
    if note or units is None:
        return result
    generator = generator or np.random.default_rng(settings.seed)
    rule = (settings.sides, settings.permutations)
    published = p, exact, counted = _permutation_p(units.associations, sizes[0], *rule, generator)
    words_of_x = int(units.index[0].max()) + 1
    owner = np.concatenate([units.index[0], units.index[1] + words_of_x])
    by_word = np.bincount(owner, units.associations) / np.bincount(owner)
    if len(by_word) < len(owner):  # a word has several texts
        # Draws of its own, so that the published p and the interval do not depend on it.
        p, exact, counted = _permutation_p(by_word, words_of_x, *rule, generator.spawn(1)[0])
    single = [name for name, index in zip(_SETS, units.index, strict=True) if index.max() == 0]
    note = f"no interval: only one word behind {' and '.join(single)}" if single else ""
    effect = replace(effect, value=units.effect, note=note)
    if settings.resamples and not single:
        resampled = units.resampled(lambda at: draw_words(units.index[at], settings.resamples, generator))
        effect = bootstrapped(units.effect, resampled, settings.coverage, effect.n)
    return replace(result, effect=effect, p=p, p_published=published[0], exact=exact, permutations=counted)


def _matrix(values: ArrayLike, name: str) -> Values:
    with translated(f"the embeddings of {name} are not a table of numbers: ", kinds=(TypeError, ValueError)):
        rows = np.asarray(values, dtype=np.float64)
    if rows.size and rows.ndim != 2:
        raise InputError(f"the embeddings of {name} have the shape {rows.shape}; give one row per text")
    return rows if rows.size else rows.reshape(0, 0)


def _why_undefined(sets: Sequence[Values]) -> str:
    small = [f"|{name}| = {len(part)}" for name, part in zip(_SETS, sets, strict=True) if len(part) < 2]
    if small:
        return f"undefined: {', '.join(small)}; every set needs at least 2"
    if len(sets[0]) != len(sets[1]):
        return f"undefined: |X| = {len(sets[0])} and |Y| = {len(sets[1])}; the test needs equal sizes"
    for name, part in zip(_SETS, sets, strict=True):
        faults = {"not finite numbers": ~np.isfinite(part).all(axis=1)}
        faults["zero and have no direction"] = ~part.any(axis=1)
        for fault, rows in faults.items():
            if rows.any():
                return f"undefined: {rows.sum()} of {len(part)} embeddings of {name} are {fault}"
    return ""


class UnitSets:
    """Vectors of X, Y, A and B at length 1, and a number for the word behind every one, in alphabetical order."""

    def __init__(self, sets: Sequence[NDArray[Any]], words: Sequence[Sequence[str]] | None, ddof: int) -> None:
        self.units, self._ddof = [_unit(part) for part in sets], ddof
        self.index: list[Index] = [np.arange(len(part)) for part in sets]
        if words is not None:
            self.index = [np.unique(np.asarray(part, dtype=str), return_inverse=True)[1] for part in words]

    @cached_property
    def associations(self) -> Values:
        """``s`` of every target."""
        x, y, a, b = self.units
        return np.asarray(np.concatenate([x, y]) @ (a.mean(axis=0) - b.mean(axis=0)))

    @cached_property
    def effect(self) -> float:
        """``d``; NaN where nothing varies."""
        return float(self._effects(self.associations[None], np.ones((1, len(self.associations))))[0])

    def resampled(self, draw: Callable[[int], Values]) -> Values:
        """The effect in every resample; ``draw`` tells how often each word of a set is drawn, [resamples, words]."""
        # Attributes are drawn first; another order would give other intervals for the same seed.
        draws = {at: draw(at) for at in (2, 3, 0, 1)}
        targets = np.concatenate(self.units[:2])
        s = np.zeros((len(draws[0]), len(targets)))
        for sign, at in ((1, 2), (-1, 3)):
            # The sentences of a word come together, so one product per word is enough.
            by_word = np.zeros((draws[at].shape[1], targets.shape[1]))
            np.add.at(by_word, self.index[at], self.units[at])
            s += sign * (draws[at] @ (by_word @ targets.T)) / (draws[at] @ np.bincount(self.index[at]))[:, None]
        return self._effects(s, np.concatenate([draws[at][:, self.index[at]] for at in (0, 1)], axis=1))

    def _effects(self, s: Values, weights: Values) -> Values:
        """Effects where every target counts ``weights`` times; both are [resamples, targets]."""
        n = len(self.units[0])

        def mean(part: slice) -> Values:
            return np.asarray((weights[:, part] * s[:, part]).sum(axis=1) / weights[:, part].sum(axis=1))

        centred = s - mean(slice(None))[:, None]
        spread = np.sqrt((weights * centred**2).sum(axis=1) / (weights.sum(axis=1) - self._ddof))
        return np.asarray((mean(slice(n)) - mean(slice(n, None))) / np.where(spread > _CONSTANT, spread, np.nan))


def _unit(rows: NDArray[Any]) -> Values:
    rows = rows.astype(np.float64)
    scaled = rows / np.abs(rows).max(axis=1, keepdims=True)  # squares of very large or small numbers would overflow
    return np.asarray(scaled / np.linalg.norm(scaled, axis=1, keepdims=True))


def draw_words(index: Index, resamples: int, generator: np.random.Generator) -> Values:
    """How often every word is drawn with replacement, [resamples, words]."""
    words = int(index.max()) + 1
    return generator.multinomial(words, np.full(words, 1 / words), size=resamples).astype(np.float64)


def bootstrapped(value: float, resampled: Values, coverage: float, n: int, note: str = "") -> Estimate:
    """A value with the ends between which the middle ``coverage`` of the resampled values lies."""
    if not np.isfinite(resampled).all():
        return replace(Estimate.undefined(_NO_SPREAD, coverage, n), value=value)
    low, high = np.quantile(resampled, [(1 - coverage) / 2, (1 + coverage) / 2])
    return Estimate(value, float(low), float(high), float(resampled.std(ddof=1)), coverage, n, {}, note)


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's correction (1995); an undefined p stays undefined and does not count.

    >>> [round(p, 4) for p in benjamini_hochberg([0.01, 0.04, 0.03])]
    [0.03, 0.04, 0.04]
    """
    from scipy.stats import false_discovery_control

    corrected = np.asarray(p_values, dtype=np.float64)
    defined = ~np.isnan(corrected)
    if defined.any():
        corrected[defined] = false_discovery_control(corrected[defined])
    return [float(p) for p in corrected]


def _permutation_p(
    s: Values, size: int, sides: Sides, permutations: int, generator: np.random.Generator
) -> tuple[float, bool, int]:
    """Share of parts of this size with ``mean s(X') >= mean s(X)``, whether all were counted, and how many.

    The first ``size`` values are those of X. All partitions are counted if they are no more than ``permutations``.
    Otherwise ``permutations - 1`` random ones are drawn and the observed one added, ``p = (k + 1) / (n + 1)``.
    Two-sided, the means are compared by their distance from that of all. Ties count.
    """
    pooled = s - s.mean()
    observed = float(pooled[:size].sum())
    # In sorted order the draws depend on the values only, not on the order of words or on which part is called X.
    pooled.sort()
    partitions = math.comb(len(s), size)
    exact = partitions <= permutations
    slack = _ROUNDING * len(s)
    hits = 0
    for sums in _all_parts(pooled, size) if exact else _sampled_parts(pooled, size, permutations - 1, generator):
        reached = np.abs(sums) >= abs(observed) - slack if sides == "two" else sums >= observed - slack
        hits += int(np.count_nonzero(reached))
    return (hits / partitions, True, partitions) if exact else ((hits + 1) / permutations, False, permutations)


def _all_parts(pooled: Values, size: int) -> Iterator[Values]:
    parts = itertools.combinations(range(len(pooled)), size)
    for _ in range(0, math.comb(len(pooled), size), _COUNTED):
        items = itertools.chain.from_iterable(itertools.islice(parts, _COUNTED))
        yield pooled[np.fromiter(items, dtype=np.intp).reshape(-1, size)].sum(axis=1)


def _sampled_parts(pooled: Values, size: int, count: int, generator: np.random.Generator) -> Iterator[Values]:
    """Sums over random parts. Eight items share a byte, and the sum of every byte's items is looked up."""
    padded = np.pad(pooled, (0, -len(pooled) % 8))
    tables = padded.reshape(-1, 8) @ _BITS.T
    step = max(1, _CHUNK // len(tables))
    for start in range(0, count, step):
        parts = _random_parts(min(step, count - start), len(pooled), size, generator)
        sums = np.zeros(parts.shape[1])
        for table, chosen in zip(tables, parts, strict=True):
            sums += table[chosen]
        yield sums


def _random_parts(count: int, size: int, chosen_size: int, generator: np.random.Generator) -> NDArray[np.uint8]:
    """``count`` random selections of ``chosen_size`` of ``size`` items, as bits, [size / 8, count], all equally likely.

    Fair coins choose a set that is uniform among those of its size. Taking random members out, or random others in,
    until as many are left as asked for keeps it so. For halves that needs about sqrt(size) steps per selection, where a
    shuffle needs ``size``.
    """
    chosen = generator.integers(256, size=(-(-size // 8), count), dtype=np.uint8)
    chosen[-1] &= 0xFF << (-size % 8) & 0xFF  # the last byte has bits that stand for no item
    surplus = _COUNTS[chosen].sum(axis=0, dtype=np.int32) - chosen_size
    columns = np.flatnonzero(surplus)
    while columns.size:
        # One random item per unfinished selection; it is flipped only if that brings the selection nearer to its size.
        items = generator.integers(size, size=columns.size)
        byte, bit = items >> 3, _MASKS[items & 7]
        movable = ((chosen[byte, columns] & bit) > 0) == (surplus[columns] > 0)
        moved = columns[movable]
        chosen[byte[movable], moved] ^= bit[movable]
        surplus[moved] -= np.sign(surplus[moved])
        columns = columns[surplus[columns] != 0]
    return chosen
