"""Rows of the ledger, the registry they come from, and samples with the label shares or probabilities of a paper.

A new chapter is a function with ``@chapter``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import ClassVar

import numpy as np
import polars as pl

from evenli.audit.pairs import PAIR_COLUMNS
from evenli.audit.predictions import Predictions
from evenli.core.labels import ENTAILMENT, LABELS
from evenli.core.record import Record
from evenli.stats.sample import Sample

Value = float | int | str | None
SUBSETS = ("PS", "AS", "NS")
KINDS = {
    "arithmetic": "our formula on numbers that the publication itself prints: checks its tables, measures no model",
    "data": "word lists, released files, or a closed form",
    "models": "models that were trained for evenli, or that would be needed",
}
"""What a row of the ledger rests on."""
_MODULES = ("coal", "dolci", "trained", "seat", "sharma")  # importing these registers their chapters, in this order


class Row(Record, frozen=True):
    """One published number beside ours; None where ours could not be computed."""

    digits: ClassVar[int | None] = None
    computed: ClassVar[Mapping[str, str]] = {"status": "status"}

    what: str
    source: str
    published: Value
    ours: Value
    tolerance: float = 0.0  # largest difference that counts as agreement
    reason: str = ""  # why the two differ, or how ours was obtained
    # The difference is a discrepancy of the publication itself and expected; the row breaks if it disappears.
    known: bool = False
    kind: str = "data"  # what ours rests on, one of KINDS

    @property
    def agrees(self) -> bool:
        """Whether ours is within the tolerance."""
        # Ratios, names and "no corr." are compared as they are written.
        if isinstance(self.published, str) or isinstance(self.ours, str):
            return self.published == self.ours
        return self.ours is not None and abs(float(self.ours) - float(self.published or 0)) <= self.tolerance + 1e-12

    @property
    def status(self) -> str:
        """``ok``, ``differs`` (a known discrepancy), ``skipped`` or ``BROKEN``."""
        if self.ours is None:
            return "skipped"
        # A discrepancy that disappears means that we or the resource changed.
        if self.known:
            return "BROKEN" if self.agrees else "differs"
        return "ok" if self.agrees else "BROKEN"

    @staticmethod
    def shown(value: Value) -> str:
        """A value as text."""
        if value is None:
            return "–"
        return f"{value:.4f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Published:
    """A published table, or another place with numbers: makes the rows that compare it with ours."""

    source: str
    tolerance: float = 0.0
    reason: str = ""
    kind: str = "data"

    def row(
        self, what: str, published: Value, ours: Value, *, tolerance: float = -1, reason: str = "", differs: str = ""
    ) -> Row:
        """One row; ``differs`` says why the published value is known to be another one than ours."""
        allowed = self.tolerance if tolerance < 0 else tolerance
        why = differs or reason or self.reason
        return Row(what, self.source, published, ours, allowed, why, bool(differs), self.kind)


def public_file(data: Path | None, *parts: str) -> Path | None:
    """A file of the public data, None where it is not at hand."""
    file = data.joinpath(*parts) if data else None
    return file if file is not None and file.is_file() else None


Chapter = Callable[[Path | None], Iterator[Row]]
_CHAPTERS: list[Chapter] = []


def chapter(function: Chapter) -> Chapter:
    """Register a function that yields rows; it gets the directory of public data or None."""
    _CHAPTERS.append(function)
    return function


def ledger(data: str | Path | None = None) -> list[Row]:
    """Compute all rows; those that need the public data (default ``$EVENLI_SHARED_DATA``) are skipped without it."""
    for name in _MODULES:
        import_module(f"studies.ledger.{name}")
    # In the order of the list, whichever module was imported first.
    chapters = sorted(_CHAPTERS, key=lambda rows: _MODULES.index(rows.__module__.rpartition(".")[2]))
    folder = Path(data or os.environ.get("EVENLI_SHARED_DATA", "../shared/data"))
    return [row for rows in chapters for row in rows(folder if folder.is_dir() else None)]


def sample_of_shares(row: Mapping[str, str | float], sizes: Sequence[int]) -> Sample:
    """A sample with label shares ``ps_e``, ``ps_c`` … ``ns_n``: a weighted row per subset and label."""
    rows, weights = [], []
    for subset, size in zip(SUBSETS, sizes, strict=True):
        printed = [float(row[f"{subset.lower()}_{label[0]}"]) for label in LABELS]
        # Printed shares sum to 1 only up to rounding.
        for index, share in enumerate(printed):
            rows.append((subset, *(float(i == index) for i in range(3))))
            weights.append(share / sum(printed) * size)
    return _weighted("coal", pl.DataFrame(rows, schema=["subset", *LABELS], orient="row"), weights)


def sample_of_split(shares: Mapping[str, float], male: float, female: float) -> Sample:
    """A sample with given dP and B per half, weighted: in each, one premise follows the dominant gender, one defies it.

    ``shares`` are ``dP_male``, ``dP_female``, ``B_male``, ``B_female`` from 0 to 1.
    """
    rows, weights = [], []
    for dominant, size in (("male", male), ("female", female)):
        gap, share = shares[f"dP_{dominant}"], shares[f"B_{dominant}"]
        for sign, weight in ((1, share), (-1, 1 - share)):
            for group in ("female", "male"):
                probability = 0.5 + (1 if group == dominant else -1) * sign * gap / 2
                # With the other two logits at 0 and neutral left out, the margin is the log odds.
                margin = math.log(probability / (1 - probability))
                rows.append((f"{dominant}{sign}-{group}", dominant, dominant, group, margin))
                weights.append(size * weight)
    columns = ["id", "occupation", "stereotype", "group", ENTAILMENT]
    return _weighted("probe", pl.DataFrame(rows, schema=columns, orient="row"), weights)


def _weighted(suite: str, frame: pl.DataFrame, weights: Sequence[float]) -> Sample:
    """The rows as predictions of a suite; texts that are not given are null, logits zero."""
    texts = [pl.lit(None, pl.String).alias(name) for name in PAIR_COLUMNS if name not in frame.columns]
    logits = [pl.lit(0.0).alias(label) for label in LABELS if label not in frame.columns]
    table = Predictions(frame.with_columns(pl.lit(suite).alias("suite"), *texts, *logits))
    return Sample(table, np.array(weights, dtype=np.float32))
