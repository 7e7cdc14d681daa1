"""The interval of a share. Needs no polars, so that training machines can do without it."""

from __future__ import annotations

import math

from scipy.special import ndtri


def wilson(share: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Ends of the interval of a share of n independent cases (Wilson 1927).

    >>> [round(end, 4) for end in wilson(0.75, 4)]
    [0.3006, 0.9544]
    """
    z = float(ndtri((1 + level) / 2))
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    # At 0 and 1 one end is the share itself, but for rounding.
    return (middle - half if share > 0 else 0.0), (middle + half if share < 1 else 1.0)
