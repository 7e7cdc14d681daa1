"""How the scores of a scored corpus are distributed, with the thresholds of fairer corpora (Fig. 5 of Dolci et al.)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenli.corpus.percentiles import Thresholds, thresholds
from evenli.corpus.scored import CorpusScores
from evenli.errors import InputError

PERCENTILES = (90.0, 93.0, 95.0, 97.0)
"""Of the published corpora."""


@dataclass(frozen=True)
class Distribution:
    """Histograms over bins of equal width from 0 to the highest score; rows without gold label are left out.

    Attributes:
        edges: Borders of the bins, one more than there are bins; a score on a border lies in the bin above it.
        rows: Rows by their score, the largest Abs of their texts.
        female: Texts by F.
        male: Texts by -M.
        thresholds: Percentiles of the row score.
    """

    edges: NDArray[np.float64]
    rows: NDArray[np.int64]
    female: NDArray[np.int64]
    male: NDArray[np.int64]
    thresholds: Thresholds


def distribution(
    scored: CorpusScores | str | Path, percentiles: Iterable[float] = PERCENTILES, *, bins: int = 60
) -> Distribution:
    """Count the scores of a corpus shard by shard, in memory that does not depend on its size."""
    if bins < 1:
        raise InputError(f"bins must be 1 or more, not {bins}")
    scored = CorpusScores.read(scored)
    # F and -M are at most Abs, so that the highest score of a row bounds all three.
    edges = np.linspace(0.0, float(scored.header["highest_pair_max"]) or 1.0, bins + 1)
    sides = {"female": [f"{name}_F" for name in scored.columns], "male": [f"{name}_M" for name in scored.columns]}
    columns = {"rows": ["pair_max"], **sides}
    counts = {name: np.zeros(bins, dtype=np.int64) for name in columns}
    for frame in scored.gold_frames([column for some in columns.values() for column in some]):
        for name, some in columns.items():
            for column in some:
                counts[name] += np.histogram(np.abs(frame[column].to_numpy()), edges)[0]
    return Distribution(edges=edges, **counts, thresholds=thresholds(scored, percentiles))
