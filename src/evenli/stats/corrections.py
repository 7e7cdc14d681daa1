"""Corrections of p-values for several tests. Needs no polars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction (1979); an undefined p stays undefined and does not count.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected = np.array(p_values, dtype=np.float64)
    order = np.argsort(corrected)[: np.count_nonzero(~np.isnan(corrected))]  # NaN sorts to the end
    # The smallest is multiplied by the number of tests, the next by one less; none may come out below a smaller one.
    multiplied = corrected[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(multiplied), 1)
    return [float(p) for p in corrected]
