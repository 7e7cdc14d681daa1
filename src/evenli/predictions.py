"""The one table on disk: what was asked, and three logits for each pair."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.binary import read_parquet
from evenli.errors import InputError, RunError
from evenli.labels import LABELS
from evenli.pairs import PAIR_COLUMNS

COLUMNS = ("suite", *PAIR_COLUMNS, *LABELS)
"""Columns of predictions.parquet: the pair, then its logits under the label names."""
_ANEW = "make it anew: run the command that made it again, with --overwrite"


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
        chosen = (self.frame["suite"] == name).fill_null(False)
        start, count = chosen.arg_max() or 0, int(chosen.sum())
        # Suites stand one after the other, and then nothing is copied.
        together = chosen.slice(start, count).all()
        return Predictions(self.frame.slice(start, count) if together else self.frame.filter(chosen), self.header)

    def subset(self, *names: str) -> Predictions:
        """Rows of the named subsets."""
        return Predictions(self.frame.filter(pl.col("subset").is_in(names)), self.header)

    def summary(self) -> dict[str, Any]:
        """How often each label was predicted, and the accuracy on the pairs with a gold label (None without any)."""
        answers = [LABELS[i] for i in self.logits.argmax(axis=1)]
        gold = self.frame["gold"].to_list()
        right = [answer == label for answer, label in zip(answers, gold, strict=True) if label]
        return {
            "pairs": len(answers),
            "predicted": {label: answers.count(label) for label in LABELS},
            "gold": len(right),
            "accuracy": round(sum(right) / len(right), 6) if right else None,
            "timings": self.header.get("timings"),
        }

    @classmethod
    def read(cls, path: str | Path, header: dict[str, Any] | None = None) -> Predictions:
        """Read a stored table; a missing, damaged or foreign one is refused, and so is one that its header belies."""
        if not Path(path).exists():
            raise RunError(f"{path} is missing; run the command that made it again")
        try:
            frame = read_parquet(Path(path))
        except InputError as error:
            raise RunError(f"{error}; {_ANEW}") from error
        missing = [name for name in COLUMNS if name not in frame.columns]
        if missing:
            raise RunError(f"{path} is not a prediction table: missing column(s) {', '.join(missing)}")
        problem = _damage(frame, (header or {}).get("data", []))
        if problem:
            raise RunError(f"{path} is damaged: {problem}; {_ANEW}")
        # Suite dev2020 was called dev before version 0.2.
        frame = frame.with_columns(pl.col("suite").replace("dev", "dev2020"))
        return cls(frame.select(COLUMNS), _renamed(header or {}))


def _renamed(header: dict[str, Any]) -> dict[str, Any]:
    cards = [{**card, "suite": "dev2020"} if card.get("suite") == "dev" else card for card in header.get("data", [])]
    return {**header, "data": cards} if cards else header


def _damage(frame: pl.DataFrame, data: list[dict[str, Any]]) -> str:
    """What is wrong with the rows, or nothing; ``data`` are the cards of the pair sets that were asked."""
    finite = pl.all_horizontal(pl.col(LABELS).cast(pl.Float64, strict=False).is_finite().fill_null(False))
    bad = frame.height - int(frame.select(finite.sum()).item())
    if bad:
        return f"the logits of {bad} row(s) are not finite numbers"
    repeated = frame.height - frame.select(pl.struct("suite", "id").n_unique()).item()
    if repeated:
        return f"{repeated} row(s) stand there twice"
    counts = [entry["rows"] for entry in data if isinstance(entry.get("rows"), int)]
    if counts and len(counts) == len(data) and sum(counts) != frame.height:
        return f"it has {frame.height} rows, and {sum(counts)} were asked"
    return ""
