"""WEAT and SEAT: are the targets X closer to the attributes A, and Y to B, than chance would have it?

Embeddings in, effect sizes out. The statistics are those of Caliskan et al. 2017 as May et al. 2019 compute them; what
is added is a two-sided p, an interval and corrections for several tests. A small p says that the order of X and Y is
no accident of these texts; an effect of 0 does not show that a model is free of bias.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike

from evenli.errors import InputError
from evenli.evaluate.seat.bootstrap import (
    CONSTANT,
    NO_SPREAD,
    Index,
    Values,
    draw_words,
    percentile_interval,
    resampled_effects,
    unit,
    word_index,
)
from evenli.evaluate.seat.partitions import permutation_p
from evenli.evaluate.seat.results import DEFAULTS, SETS, AssociationResult, SeatSettings

_FEWEST = 2


def association_test(
    x: ArrayLike,
    y: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    settings: SeatSettings = DEFAULTS,
    *,
    words: Sequence[Sequence[str]] | None = None,
    generator: np.random.Generator | None = None,
) -> AssociationResult:
    """Test whether X goes with A, and Y with B.

    ``s(w) = mean cos(w, A) - mean cos(w, B)`` and ``d = (mean s(X) - mean s(Y)) / std s(X and Y)``. ``p`` is that of
    ``permutation_p``. The interval is a percentile bootstrap: the words behind X, Y, A and B are drawn anew, each set
    on its own, and all sentences of a word come along. It speaks of the choice of words.

    Args:
        x: Embeddings of the first targets, [n, dimensions].
        y: Embeddings of the second targets, as many.
        a: Embeddings of the first attributes.
        b: Embeddings of the second attributes.
        settings: Permutations, resamples and the like; its ``level`` is not used.
        words: The word behind every embedding, for each of the four sets; default: each is its own.
        generator: Source of partitions and resamples; default: one from the seed of the settings.
    """
    # Wrong input is an error; input on which the test is undefined is a result without a number.
    sets = [_matrix(part, name) for part, name in zip((x, y, a, b), SETS, strict=True)]
    widths = {part.shape[1] for part in sets if len(part)}
    if len(widths) > 1:
        raise InputError(f"embeddings of {sorted(widths)} dimensions do not compare; encode all sets with one model")
    index = _word_indices(words, sets)
    sizes = {name: len(part) for name, part in zip(SETS, sets, strict=True)}
    empty = AssociationResult(sizes, settings.coverage, settings.sides, settings.ddof, note=_why_undefined(sets))
    if empty.note:
        return empty
    units = [unit(part) for part in sets]
    n = len(units[0])
    s = np.concatenate(units[:2]) @ (units[2].mean(axis=0) - units[3].mean(axis=0))
    spread = float(s.std(ddof=settings.ddof))
    if spread <= CONSTANT:
        return replace(empty, note="undefined: all targets have the same association, so nothing separates X from Y")
    effect = float((s[:n].mean() - s[n:].mean()) / spread)
    generator = generator or np.random.default_rng(settings.seed)
    permuted = permutation_p(s, settings.sides, settings.permutations, generator)
    low, high, note = _interval(units, index, settings, generator)
    return replace(empty, effect=effect, low=low, high=high, note=note, **permuted._asdict())


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's correction (1995); an undefined p stays undefined and does not count.

    Rejecting what is at most ``q`` keeps the expected share of false rejections at ``q``.

    >>> [round(p, 4) for p in benjamini_hochberg([0.01, 0.04, 0.03])]
    [0.03, 0.04, 0.04]
    """
    from scipy.stats import false_discovery_control

    corrected = np.asarray(p_values, dtype=np.float64)
    defined = ~np.isnan(corrected)
    if defined.any():
        corrected[defined] = false_discovery_control(corrected[defined])
    return [float(p) for p in corrected]


def _interval(
    units: Sequence[Values], index: Sequence[Index], settings: SeatSettings, generator: np.random.Generator
) -> tuple[float, float, str]:
    if not settings.resamples:
        return math.nan, math.nan, ""
    single = [name for name, words in zip(SETS, index, strict=True) if words.max() == 0]
    if single:
        return math.nan, math.nan, f"no interval: only one word behind {' and '.join(single)}"
    # Attributes are drawn first; another order would give other intervals for the same seed.
    a, b, x, y = (draw_words(index[at], settings.resamples, generator) for at in (2, 3, 0, 1))
    effects = resampled_effects(units, index, (x, y, a, b), settings.ddof)
    if np.isnan(effects).any():
        return math.nan, math.nan, NO_SPREAD
    return (*percentile_interval(effects, settings.coverage), "")


def _word_indices(words: Sequence[Sequence[str]] | None, sets: Sequence[Values]) -> list[Index]:
    if words is None:
        return [np.arange(len(part)) for part in sets]
    counts, expected = [len(part) for part in words], [len(part) for part in sets]
    if counts != expected:
        raise InputError(f"{counts} words for {expected} embeddings; give one word for each")
    return [word_index(part) for part in words]


def _matrix(values: ArrayLike, name: str) -> Values:
    try:
        rows = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"the embeddings of {name} are not a table of numbers: {error}") from error
    if rows.size == 0:
        return rows.reshape(0, 0)
    if rows.ndim != 2:
        raise InputError(f"the embeddings of {name} have the shape {rows.shape}; give one row per text")
    return rows


def _why_undefined(sets: Sequence[Values]) -> str:
    small = [f"|{name}| = {len(part)}" for name, part in zip(SETS, sets, strict=True) if len(part) < _FEWEST]
    if small:
        return f"undefined: {', '.join(small)}; every set needs at least {_FEWEST}"
    if len(sets[0]) != len(sets[1]):
        return f"undefined: |X| = {len(sets[0])} and |Y| = {len(sets[1])}; the test needs equal sizes"
    for name, part in zip(SETS, sets, strict=True):
        bad = int(np.count_nonzero(~np.isfinite(part).all(axis=1)))
        if bad:
            return f"undefined: {bad} of {len(part)} embeddings of {name} are not finite numbers"
        zeros = int(np.count_nonzero(~part.any(axis=1)))
        if zeros:
            return f"undefined: {zeros} of {len(part)} embeddings of {name} are zero and have no direction"
    return ""
