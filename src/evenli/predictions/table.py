"""The one table on disk: what was asked, and three logits for each pair."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.datasets import PAIR_COLUMNS
from evenli.errors import RunError
from evenli.labels import LABELS

COLUMNS = ("suite", *PAIR_COLUMNS, *LABELS)
"""Columns of predictions.parquet: the pair, then its logits under the label names."""


@dataclass(frozen=True)
class Predictions:
    """Rows with logits, plus the header of the run that made them."""

    frame: pl.DataFrame
    header: dict[str, Any] = field(default_factory=dict)

    @property
    def logits(self) -> NDArray[np.float64]:
        """[n, 3] in LABELS order."""
        return self.frame.select(LABELS).to_numpy().astype(np.float64)

    def suite(self, name: str) -> Predictions:
        """Rows of one suite."""
        return Predictions(self.frame.filter(pl.col("suite") == name), self.header)

    def subset(self, *names: str) -> Predictions:
        """Rows of the named subsets."""
        return Predictions(self.frame.filter(pl.col("subset").is_in(names)), self.header)

    @classmethod
    def read(cls, path: str | Path, header: dict[str, Any] | None = None) -> Predictions:
        """Read a stored table; a damaged or foreign one is refused."""
        try:
            frame = pl.read_parquet(path)
        except (OSError, pl.exceptions.PolarsError) as error:
            reason = str(error).splitlines()[0]
            raise RunError(f"{path} cannot be read ({reason}); delete it and run the same command again") from error
        missing = [name for name in COLUMNS if name not in frame.columns]
        if missing:
            raise RunError(f"{path} is not a prediction table: missing column(s) {', '.join(missing)}")
        return cls(frame.select(COLUMNS), header or {})
