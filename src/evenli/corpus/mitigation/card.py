"""card.json of a fairer corpus: what was taken out and put in, and who is left."""

from __future__ import annotations

from typing import Any, ClassVar

from evenli.core.record import Record
from evenli.corpus.balance import Balance

KIND = "fairer corpus"


class _CorpusRecord(Record, frozen=True):
    """Scores are stored in full: they are compared with a threshold."""

    digits: ClassVar[int | None] = None


class Threshold(_CorpusRecord, frozen=True):
    """The score above which rows are changed."""

    percentile: float
    value: float
    method: str = "exact"
    error_bound: float = 0.0


class Counts(_CorpusRecord, frozen=True):
    """How many rows.

    Attributes:
        rows: In the scored corpus.
        no_gold: Without a gold label, which are left out.
        above_threshold: That score above the threshold.
        removed: Taken out.
        added: Swapped copies put in.
        skipped: Without a copy, because the swap would change what a pair says.
        result: In the fairer corpus.
        splits: In each of its files.
    """

    rows: int
    no_gold: int
    above_threshold: int
    removed: int
    added: int
    skipped: int
    result: int
    splits: dict[str, int]


class PairScores(_CorpusRecord, frozen=True):
    """Percentiles and mean of the scores before and after; None where no row is left."""

    before: dict[str, float] | None
    after: dict[str, float] | None
    after_covers: str


class Balances(_CorpusRecord, frozen=True):
    """Sides and labels of the rows before, after, and of those that were removed."""

    before: Balance
    after: Balance
    removed: Balance


class CorpusCard(_CorpusRecord, frozen=True):
    """What ``card.json`` holds.

    Attributes:
        source: Files of the scored corpus and their hash.
        scorer: What the rows were scored by.
        columns: Text columns.
        threshold: Above it rows are changed.
        counts: Rows before, after and between.
        pair_max: Largest score of a row's texts, over all rows.
        settings: Method and its settings.
        balance: Who leans to which side.
        warnings: Shares that moved by more than two points.
        driving_words: Whether the words behind the scores are shown, or why not.
        files: Hash by file.
    """

    stamped: ClassVar[str] = KIND

    source: dict[str, Any]
    scorer: str
    columns: list[str]
    threshold: Threshold
    counts: Counts
    pair_max: PairScores
    settings: dict[str, Any]
    balance: Balances
    warnings: list[str]
    driving_words: str
    files: dict[str, str]
