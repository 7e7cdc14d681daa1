"""Arithmetic that association tests share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
CONSTANT = 1e-12
"""A spread of associations up to this is none."""


def unit(rows: NDArray[Any]) -> Values:
    """Rows at length 1."""
    rows = rows.astype(np.float64)
    scaled = rows / np.abs(rows).max(axis=1, keepdims=True)  # squares of very large or small numbers would overflow
    made: Values = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
    return made


def weighted_effects(s: Values, weights: Values, n: int, ddof: int = 1) -> Values:
    """Effect sizes where each of n + n targets counts ``weights`` times, [resamples]; NaN where nothing varies.

    Args:
        s: Association of every target, [targets] or [resamples, targets].
        weights: How often every target counts, [resamples, targets].
        n: Number of the first targets.
        ddof: Of the standard deviation.
    """
    s = np.broadcast_to(s, weights.shape)
    apart = (_share(weights[:, :n]) * s[:, :n]).sum(axis=1) - (_share(weights[:, n:]) * s[:, n:]).sum(axis=1)
    centred = s - (_share(weights) * s).sum(axis=1, keepdims=True)
    spread = np.sqrt((weights * centred**2).sum(axis=1) / (weights.sum(axis=1) - ddof))
    made: Values = apart / np.where(spread > CONSTANT, spread, np.nan)
    return made


def _share(weights: Values) -> Values:
    share: Values = weights / weights.sum(axis=1, keepdims=True)
    return share
