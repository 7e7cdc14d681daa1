"""The one table on disk: what was asked, and three logits for each pair."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.audit.pairs import PAIR_COLUMNS
from evenli.core.binary import read_parquet
from evenli.core.errors import InputError, RunError, translated
from evenli.core.labels import LABELS
from evenli.core.store import ANEW
from evenli.stats.sample import LogitTable, Sample

COLUMNS = ("suite", *PAIR_COLUMNS, *LABELS)
"""Columns of predictions.parquet: the pair, then its logits under the label names; columns of the user's own follow."""
ABSTAINED, MASS = "abstained", "mass"
"""Further columns of language models: whether the row is no answer, and what the labels had of the probability."""
MINIMUM_MASS = 0.5
"""Labels that have less of the probability are no answer: the model would rather say something else."""


class Predictions(LogitTable):
    """Rows with logits, plus the header of the run that made them: the one table on disk."""

    def suite(self, name: str) -> Predictions:
        """Rows of one suite."""
        chosen = (self.frame["suite"] == name).fill_null(False)
        start, count = chosen.arg_max() or 0, int(chosen.sum())
        # Suites stand one after the other, and then nothing is copied.
        together = chosen.slice(start, count).all()
        return Predictions(self.frame.slice(start, count) if together else self.frame.filter(chosen), self.header)

    def sample(self, suite: str, *, published: bool = False) -> Sample:
        """The answered rows of a suite, as its measures read them; one for everything that is made of these rows."""
        if (suite, published) not in self._samples:
            self._samples[suite, published] = Sample(self.suite(suite).answered(), published=published)
        return self._samples[suite, published]

    @cached_property
    def _samples(self) -> dict[tuple[str, bool], Sample]:
        return {}

    def subset(self, *names: str) -> Predictions:
        """Rows of the named subsets."""
        return Predictions(self.frame.filter(pl.col("subset").is_in(names)), self.header)

    @property
    def answers(self) -> list[str]:
        """The most probable label of each row; empty where the model abstained."""
        labels = (LABELS[i] for i in self.logits.argmax(axis=1))
        return ["" if out else label for label, out in zip(labels, self.abstained.tolist(), strict=True)]

    @property
    def abstained(self) -> NDArray[np.bool_]:
        """Rows without an answer; only language models have any."""
        if ABSTAINED not in self.frame.columns:
            return np.zeros(self.frame.height, dtype=bool)
        return (self.frame[ABSTAINED] > 0.5).to_numpy()

    def answered(self, silent: NDArray[np.bool_] | None = None) -> Predictions:
        """The rows with an answer, in whole pairs where the ids of two rows differ in their group only.

        ``silent`` are the rows to leave out; by default those that the model abstained on.
        """
        silent = self.abstained if silent is None else silent
        if not silent.any():
            return self
        # One half of a pair alone would compare groups on different questions.
        paired = pl.col("id").str.ends_with(pl.concat_str(pl.lit("-"), pl.col("group"))).fill_null(False)
        key = pl.when(paired).then(pl.col("id").str.replace("-[^-]*$", "")).otherwise(pl.col("id"))
        keys = self.frame.select(pl.struct("suite", key.alias("key"))).to_series()
        return Predictions(self.frame.filter(~keys.is_in(keys.filter(pl.Series(silent)).implode())), self.header)

    @classmethod
    def read(cls, path: str | Path, header: dict[str, Any] | None = None) -> Predictions:
        """Read a stored table; a missing, damaged or foreign one is refused, and so is one that its header belies."""
        if not Path(path).exists():
            raise RunError(f"{path} is missing; run the command that made it again")
        with translated("", f"; {ANEW}", into=RunError, kinds=(InputError,)):
            frame = read_parquet(Path(path))
        header = dict(header or {})
        if missing := [name for name in COLUMNS if name not in frame.columns]:
            raise RunError(f"{path} is not a prediction table: missing column(s) {', '.join(missing)}")
        if problem := _damage(frame, header.get("data", [])):
            raise RunError(f"{path} is damaged: {problem}; {ANEW}")
        # Read as numbers whatever they are stored as: these columns are not part of the layout that was checked.
        further = _further(frame, header)
        numbers = [pl.col(name).cast(pl.Float32, strict=False).fill_null(0) for name in further]
        own = [name for name in frame.columns if name not in {*COLUMNS, *further}]
        return cls(frame.select(*COLUMNS, *numbers, *own), header)


def _further(frame: pl.DataFrame, header: dict[str, Any]) -> list[str]:
    """Columns that a language model adds to the three numbers, as its header says."""
    asked = header.get("prompting")
    named = asked.get("columns") if isinstance(asked, dict) else None
    given = {name for name in named if isinstance(name, str)} if isinstance(named, list) else set()
    return [name for name in frame.columns if name in given and name not in COLUMNS]


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
