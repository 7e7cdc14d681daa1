"""Rows of a corpus to scores: what one process does with the rows of one shard."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evenli.corpus.scored import FLAGS, SCORES
from evenli.corpus.source import Record, parse
from evenli.errors import InputError

LONG_TEXT = 1_000_000
"""Characters of a text that are scored; a longer one is kept whole and flagged."""

_CACHED = 100_000
_CACHED_CHARACTERS = 1_000


class Scorer(Protocol):
    """Scores sentences one by one: the result for a sentence does not depend on its neighbours."""

    @property
    def identity(self) -> str:
        """What fixes the scores: method, vectors, word lists; two scorers of one identity agree."""

    def score_many(self, sentences: list[str], /) -> NDArray[np.float64]:
        """F, M and Abs of each sentence, shape [n, 3]."""


@dataclass(frozen=True)
class Chunk:
    """The rows of one shard, not parsed yet.

    Attributes:
        number: Of the shard.
        start: Number of its first row.
        records: The rows.
        plain: Whether the records are lines of plain text.
    """

    number: int
    start: int
    records: list[Record]
    plain: bool


class Worker:
    """Turns chunks into the bytes of shards; each distinct sentence of a chunk is scored once."""

    def __init__(self, scorer: Scorer, columns: Sequence[str], batch: int) -> None:
        self._scorer, self._columns, self._batch = scorer, tuple(columns), batch
        self._recent: dict[str, tuple[float, float, float]] = {}

    def __call__(self, chunk: Chunk) -> bytes:
        """The shard as the content of a Parquet file."""
        import polars as pl

        names = self._columns
        originals: list[str] = []
        texts: list[list[str]] = [[] for _ in names]
        flags: dict[str, list[bool]] = {flag: [] for flag in FLAGS}
        for record in chunk.records:
            row = parse(record, names, plain=chunk.plain)
            originals.append(row.original)
            for column, text in zip(texts, row.texts, strict=True):
                column.append(text[:LONG_TEXT])
            flags["empty"].append(any(not text.strip() for text in row.texts))
            flags["too_long"].append(any(len(text) > LONG_TEXT for text in row.texts))
            flags["invalid_utf8"].append(row.invalid)
            flags["no_gold"].append(row.no_gold)
        scores = self._score(itertools.chain.from_iterable(texts)).reshape(len(names), len(originals), 3)
        table: dict[str, Any] = {"row": np.arange(chunk.start, chunk.start + len(originals), dtype=np.int64)}
        for index, name in enumerate(names):
            table |= {f"{name}_{kind}": scores[index, :, place] for place, kind in enumerate(SCORES)}
        table["pair_max"] = scores[:, :, 2].max(axis=0)
        table |= {flag: pl.Series(values, dtype=pl.Boolean) for flag, values in flags.items()}
        table["original"] = pl.Series(originals, dtype=pl.String)
        buffer = io.BytesIO()
        pl.DataFrame(table).write_parquet(buffer, compression="zstd", statistics=False)
        return buffer.getvalue()

    def _score(self, texts: Iterable[str]) -> NDArray[np.float64]:
        texts = list(texts)
        known = {text: self._recent[text] for text in dict.fromkeys(texts) if text in self._recent}
        fresh = [text for text in dict.fromkeys(texts) if text not in known and text.strip()]
        for start in range(0, len(fresh), self._batch):
            part = fresh[start : start + self._batch]
            known.update(zip(part, map(tuple, self._checked(part).tolist()), strict=True))
        scores = np.array([known.get(text, (0.0, 0.0, 0.0)) for text in texts], dtype=np.float64)
        for text in fresh:
            if len(text) <= _CACHED_CHARACTERS:
                self._recent[text] = known[text]
        for text in list(itertools.islice(self._recent, max(0, len(self._recent) - _CACHED))):
            del self._recent[text]
        return scores

    def _checked(self, part: list[str]) -> NDArray[np.float64]:
        scores = np.asarray(self._scorer.score_many(part), dtype=np.float64)
        if scores.shape != (len(part), 3):
            raise InputError(f"the scorer gave an array {scores.shape} for {len(part)} sentences, not ({len(part)}, 3)")
        bad = np.flatnonzero(~np.isfinite(scores).all(axis=1))
        if len(bad):
            raise InputError(f"the scorer gave no finite score for '{part[bad[0]][:80]}'")
        return scores
