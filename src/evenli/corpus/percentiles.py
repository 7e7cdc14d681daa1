"""Percentiles of the pair score of a scored corpus, exact or, beyond what fits in memory, with a known error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenli.corpus.scored import CorpusScores
from evenli.errors import InputError


@dataclass(frozen=True)
class Thresholds:
    """Percentiles of the pair score.

    Attributes:
        values: Percentile to threshold.
        method: ``exact`` (numpy, linear interpolation) or ``histogram``.
        error_bound: No threshold is further than this from the exact one; 0 for ``exact``.
        rows: Rows they were taken over; pairs without gold label are left out.
    """

    values: Mapping[float, float]
    method: Literal["exact", "histogram"]
    error_bound: float
    rows: int


EXACT_ROWS = 20_000_000
"""Up to so many scores, 160 MB, are sorted at once."""
Parts = Callable[[], Iterable[NDArray[np.float64]]]
"""Gives the values anew, a part at a time, each time it is called."""


def thresholds(
    scored: CorpusScores | str | Path,
    percentiles: Iterable[float],
    *,
    exact_rows: int = EXACT_ROWS,
    bins: int = 10**6,
) -> Thresholds:
    """Percentiles of the pair score over all pairs with a gold label; see ``percentiles_of``."""
    scored = CorpusScores.read(scored)
    if scored.gold_rows == 0:
        raise InputError(f"{scored.path} has no row with a gold label")

    def parts() -> Iterator[NDArray[np.float64]]:
        return (frame["pair_max"].to_numpy() for frame in scored.gold_frames(["pair_max"]))

    return percentiles_of(parts, scored.gold_rows, percentiles, exact_rows=exact_rows, bins=bins)


def percentiles_of(
    parts: Parts, rows: int, percentiles: Iterable[float], *, exact_rows: int = EXACT_ROWS, bins: int = 10**6
) -> Thresholds:
    """Percentiles of any number of values, as numpy's linear interpolation gives them.

    Up to ``exact_rows`` rows they are exact. Beyond, a first pass finds the range and a second one counts in ``bins``
    bins of equal width, each with the smallest and largest score in it. The true order statistic lies between these
    two, so their middle is wrong by half of their distance at most; that is the error bound given.
    """
    wanted = [float(percentile) for percentile in percentiles]
    wrong = [percentile for percentile in wanted if not 0 <= percentile <= 100]
    if wrong or not wanted:
        raise InputError(f"percentiles must lie between 0 and 100, not {', '.join(map(str, wrong)) or 'be missing'}")
    if rows <= exact_rows:
        exact = np.percentile(np.concatenate([*parts()]), wanted).tolist()
        return Thresholds(dict(zip(wanted, exact, strict=True)), "exact", 0.0, rows)
    values, bound = _histogram_percentiles(parts, rows, wanted, bins)
    return Thresholds(dict(zip(wanted, values, strict=True)), "histogram", bound, rows)


def _histogram_percentiles(
    parts: Parts, rows: int, percentiles: Sequence[float], bins: int
) -> tuple[list[float], float]:
    def sorted_parts() -> Iterator[NDArray[np.float64]]:
        return (np.sort(part) for part in parts() if len(part))

    low, high = np.inf, -np.inf
    for values in sorted_parts():
        low, high = min(low, values[0]), max(high, values[-1])
    scale = bins / (high - low) if high > low else 0.0
    counts = np.zeros(bins, dtype=np.int64)
    smallest, largest = np.full(bins, np.inf), np.full(bins, -np.inf)
    for values in sorted_parts():
        place = np.minimum(((values - low) * scale).astype(np.int64), bins - 1)
        used, first, count = np.unique(place, return_index=True, return_counts=True)
        counts[used] += count
        smallest[used] = np.minimum(smallest[used], values[first])
        largest[used] = np.maximum(largest[used], values[first + count - 1])
    # The bin of an order statistic is the first one with more than that many scores up to its end.
    below = np.cumsum(counts)
    results, bound = [], 0.0
    for percentile in percentiles:
        rank = (rows - 1) * percentile / 100
        lower = int(rank)
        ends = np.searchsorted(below, [lower, min(lower + 1, rows - 1)], side="right")
        left, right = (smallest[ends] + largest[ends]) / 2
        results.append(float(left + (right - left) * (rank - lower)))
        bound = max(bound, float((largest[ends] - smallest[ends]).max() / 2))
    return results, bound
