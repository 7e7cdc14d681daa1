"""The prediction loop: tokenise once, group by length, score each distinct pair once, resume after a crash."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.errors import ModelError, RunError
from evenli.evaluate.run_dir import RunFolder
from evenli.io import hash_text
from evenli.labels import LABELS
from evenli.models import NLIModel, OutOfMemory
from evenli.models.base import Items, Prepared
from evenli.models.batches import plan_batches
from evenli.pairs import PairSet
from evenli.predictions import COLUMNS, Predictions


@dataclass(frozen=True)
class Progress:
    """What a progress bar needs: distinct pairs done and in total, and what is going on."""

    done: int
    total: int
    stage: str


@dataclass(frozen=True)
class PredictSettings:
    """How a prediction run is stored and checked.

    Attributes:
        seed: Seed of the run, stored in the header (prediction itself uses none).
        details: Anything else the header should remember.
        overwrite: Begin anew, whatever run is in the directory and however damaged.
        check_first: Sees the rows of the first set before any other is scored and before anything is written; it may
            raise.
    """

    seed: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)
    overwrite: bool = False
    check_first: Callable[[Predictions], None] | None = None


def predict(
    model: NLIModel,
    sets: Sequence[PairSet],
    folder: RunFolder | None = None,
    settings: PredictSettings | None = None,
    *,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_warning: Callable[[str], None] = lambda message: None,
) -> Predictions:
    """Score every pair of every set, in order, and return the table.

    With a directory, finished batches are on disk at once: after a crash the same call continues where it stopped, and
    a complete run is returned without asking the model again.

    Args:
        model: The model.
        sets: Pair sets; ids must be unique within a suite.
        folder: Run directory, or None to keep everything in memory.
        settings: What to store, whether to overwrite, what to check first.
        on_progress: Called after every batch.
        on_warning: Called with one line for each thing a person should know.
    """
    settings = settings or PredictSettings()
    header = _header(model, sets, settings)
    job = _Job(model, sets, settings.check_first, on_progress, on_warning)
    if folder is None:
        return job.score(_Store(None, header, resume=False))
    note = str(getattr(model, "note", ""))
    if note:
        on_warning(note)
    with folder.locked():
        # A run that is replaced may be damaged in any way, so nothing of it is read.
        stored = None if settings.overwrite else folder.header()
        if stored is not None and stored.get("plan") != header["plan"]:
            raise RunError(
                f"{folder.path} holds another run{_described(stored)}; choose another --out or pass --overwrite"
                + (f"; {note}" if note else "")
            )
        # A table that is gone although the header says complete was being cleared when the process was killed.
        if stored is not None and stored["status"] == "complete" and folder.predictions_file.is_file():
            complete = Predictions.read(folder.predictions_file, stored)
            if settings.check_first is not None:
                settings.check_first(Predictions(complete.frame.head(len(sets[0])), stored))
            on_warning(f"the run in {folder.path} is complete; its predictions are reused")
            return complete
        return job.score(_Store(folder, header, resume=stored is not None))


def summarise(predictions: Predictions) -> dict[str, Any]:
    """How often each label was predicted, and the accuracy on the pairs with a gold label (None without any)."""
    answers = [LABELS[i] for i in predictions.logits.argmax(axis=1)]
    gold = predictions.frame["gold"].to_list()
    right = [answer == label for answer, label in zip(answers, gold, strict=True) if label]
    return {
        "pairs": len(answers),
        "predicted": {label: answers.count(label) for label in LABELS},
        "gold": len(right),
        "accuracy": round(sum(right) / len(right), 6) if right else None,
        "timings": predictions.header.get("timings"),
    }


def _header(model: NLIModel, sets: Sequence[PairSet], settings: PredictSettings) -> dict[str, Any]:
    info = model.info
    # Two runs with the same plan have the same predictions, so one may continue the other.
    answers = (info.fingerprint, info.dtype, info.device, info.labels, info.max_length)
    return {
        "status": "running",
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "model": info.to_dict(),
        "data": [pairs.card() for pairs in sets],
        "seed": settings.seed,
        "settings": dict(settings.details),
        "plan": hash_text(repr((answers, [pairs.sha256 for pairs in sets]))),
    }


def _described(stored: dict[str, Any]) -> str:
    """Whose run a header is of, as far as it says so: that of an unfinished run may have been cut by hand."""
    model, data = stored.get("model"), stored.get("data")
    if not isinstance(model, dict) or not isinstance(data, list):
        return ""
    names = [str(entry.get("name", "?")) for entry in data if isinstance(entry, dict)]
    return f" ({model.get('name', '?')} on {', '.join(names)})"


class _Job:
    """The pairs of one run and the model that is asked."""

    def __init__(
        self,
        model: NLIModel,
        sets: Sequence[PairSet],
        check_first: Callable[[Predictions], None] | None,
        on_progress: Callable[[Progress], None],
        on_warning: Callable[[str], None],
    ) -> None:
        self.model, self.check_first = model, check_first
        self.progress, self.warn = on_progress, on_warning
        self.asked = pl.concat([s.frame.select(pl.lit(s.suite).alias("suite"), *COLUMNS[1:-3]) for s in sets])
        repeated = self.asked.select(pl.struct("suite", "id").is_duplicated().sum()).item()
        if repeated:
            raise RunError(f"{repeated} rows share an id within their suite")
        self.head = len(sets[0])
        # The same pair is asked once, however often it stands in the sets.
        texts = ["premise", "hypothesis"]
        self.distinct = self.asked.select(texts).unique(maintain_order=True).with_row_index("unique")
        joined = self.asked.join(self.distinct, on=texts, how="left", maintain_order="left")
        self.where: NDArray[Any] = joined["unique"].to_numpy()

    def score(self, store: _Store) -> Predictions:
        """Ask everything that is not stored yet."""
        started = time.perf_counter()
        if self.check_first is None:
            store.open()
        self.progress(Progress(0, self.asked.height, "tokenising"))
        prepared = self.model.prepare(self.distinct["premise"].to_list(), self.distinct["hypothesis"].to_list())
        if prepared.truncated:
            limit = self.model.info.max_length
            self.warn(f"{prepared.truncated} pairs are longer than {limit} tokens and were truncated")
        tokenised = time.perf_counter()

        logits = store.read(self.distinct.height, self.warn)
        ask = _Asker(self.model, self.warn)
        first = np.zeros(self.distinct.height, dtype=bool)
        first[self.where[: self.head]] = True
        # The first set is planned apart from the rest, so that batches do not depend on whether a run was interrupted.
        self._score_rows(np.flatnonzero(first), prepared, logits, ask, store)
        if self.check_first is not None:
            self.check_first(Predictions(self._table(logits, self.head), store.header))
            store.open()
        self._score_rows(np.flatnonzero(~first), prepared, logits, ask, store)

        table = self._table(logits)
        timings = {
            "tokenise_seconds": round(tokenised - started, 4),
            "score_seconds": round(time.perf_counter() - tokenised, 4),
            "pairs": self.asked.height,
            "distinct_pairs": self.distinct.height,
            "truncated": prepared.truncated,
        }
        return Predictions(table, store.finish(table, timings))

    def _score_rows(
        self, rows: NDArray[np.int64], prepared: Prepared, logits: NDArray[np.float32], ask: _Asker, store: _Store
    ) -> None:
        """Fill the logits of some distinct pairs, batch by batch."""
        done = int((~np.isnan(logits[:, 0])).sum())
        lengths = prepared.lengths[rows]
        for batch in plan_batches(lengths, bucket=self.model.bucket, token_budget=self.model.token_budget):
            chosen = rows[batch]
            if not np.isnan(logits[chosen]).any():
                continue
            scores = ask(prepared.take(chosen), int(prepared.lengths[chosen].max()))
            self._check_finite(scores, chosen)
            done += int(np.isnan(logits[chosen, 0]).sum())
            logits[chosen] = scores
            store.keep(chosen, scores)
            self.progress(Progress(done, self.distinct.height, "scoring"))

    def _table(self, logits: NDArray[np.float32], rows: int | None = None) -> pl.DataFrame:
        """The first rows of the table, or all, with the logits of each pair."""
        values = logits[self.where[:rows]]
        columns = (pl.Series(label, values[:, i]) for i, label in enumerate(LABELS))
        return self.asked.head(len(values)).with_columns(*columns).select(COLUMNS)

    def _check_finite(self, scores: NDArray[np.float32], rows: NDArray[np.int64]) -> None:
        bad = ~np.isfinite(scores).all(axis=1)
        if bad.any():
            first = int(np.argmax(bad))
            pair = self.distinct.row(int(rows[first]), named=True)
            raise ModelError(
                f"the model gave {scores[first].tolist()} for premise '{pair['premise']}', "
                f"hypothesis '{pair['hypothesis']}'; {int(bad.sum())} pair(s) of the batch are not finite"
            )


class _Store:
    """Where batches go; until it is opened they wait, so that a run refused by the check leaves nothing on disk.

    Without a directory nothing is stored.
    """

    def __init__(self, folder: RunFolder | None, header: dict[str, Any], *, resume: bool) -> None:
        self.header = header
        self._folder, self._resume = folder, resume
        self._waiting: list[tuple[NDArray[np.int64], NDArray[np.float32]]] = []
        self._next: int | None = None

    def read(self, total: int, warn: Callable[[str], None]) -> NDArray[np.float32]:
        """Logits that an interrupted run left, NaN elsewhere."""
        if self._folder is None or not self._resume:
            return np.full((total, len(LABELS)), np.nan, dtype=np.float32)
        logits, damaged = self._folder.read_shards(total)
        if damaged:
            warn(f"{len(damaged)} damaged shard(s) are scored again: {', '.join(damaged)}")
        done = int((~np.isnan(logits[:, 0])).sum())
        if done:
            warn(f"continuing an interrupted run: {done} of {total} pairs are done")
        return logits

    def open(self) -> None:
        """Write the header and what waits; only now is an old run deleted if this one begins anew."""
        if self._folder is None or self._next is not None:
            return
        if not self._resume:
            # Also what a crash left before there was a header: nobody knows which model such shards are of.
            self._folder.clear()
        self._folder.write_manifest(self.header)
        # Numbers are never reused, so that an old shard is not replaced by a shorter one.
        self._next = max((int(file.stem) for file in self._folder.shard_files()), default=-1) + 1
        for rows, scores in self._waiting:
            self.keep(rows, scores)
        self._waiting.clear()

    def keep(self, rows: NDArray[np.int64], scores: NDArray[np.float32]) -> None:
        """Store one finished batch."""
        if self._folder is None:
            return
        if self._next is None:
            self._waiting.append((rows, scores))
            return
        self._folder.write_shard(self._next, rows, scores)
        self._next += 1

    def finish(self, table: pl.DataFrame, timings: dict[str, Any]) -> dict[str, Any]:
        """Store the table; returns the header of the complete run."""
        header = {**self.header, "status": "complete", "timings": timings}
        if self._folder is not None:
            self._folder.finish(table, header)
        return header


class _Asker:
    """Score batches; one that does not fit is halved, and later ones start at the size that did."""

    def __init__(self, model: NLIModel, on_warning: Callable[[str], None]) -> None:
        self._model, self._warn = model, on_warning
        self._tokens: int | None = None

    def __call__(self, items: Items, length: int) -> NDArray[np.float32]:
        size = len(items) if self._tokens is None else max(1, self._tokens // length)
        if len(items) > size:
            return np.concatenate([self(items[i : i + size], length) for i in range(0, len(items), size)])
        try:
            return self._model.logits(items)
        except OutOfMemory:
            if len(items) == 1:
                raise ModelError("out of memory on a single pair; use a smaller model or --max-length") from None
        self._tokens = len(items) // 2 * length
        self._warn(f"out of memory at {len(items)} pairs in a batch; going on with {len(items) // 2}")
        return self(items, length)
