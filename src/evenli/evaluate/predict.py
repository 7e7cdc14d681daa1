"""The prediction loop: tokenise once, group by length, score each distinct pair once, survive anything."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from evenli.models.base import Items
from evenli.models.batches import plan_batches
from evenli.pairs import PairSet
from evenli.predictions import COLUMNS, Predictions


@dataclass(frozen=True)
class Progress:
    """What a progress bar needs: distinct pairs done and in total, and what is going on."""

    done: int
    total: int
    stage: str


def predict(
    model: NLIModel,
    sets: Sequence[PairSet],
    folder: RunFolder | None = None,
    *,
    seed: int = 0,
    settings: dict[str, Any] | None = None,
    overwrite: bool = False,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_warning: Callable[[str], None] = lambda message: None,
    check_first: Callable[[Predictions], None] | None = None,
) -> Predictions:
    """Score every pair of every set and return the table.

    With a folder, finished batches are on disk at once: after a crash the same call continues where it stopped, and a
    complete run is returned without asking the model again. Sets are scored in order; ``check_first`` sees the rows of
    the first set before any other is scored and before anything is written, and may raise.

    Args:
        model: The model.
        sets: Pair sets; ids must be unique within a suite.
        folder: Run folder, or None to keep everything in memory.
        seed: Seed of the run, stored in the header (prediction itself uses none).
        settings: Anything else the header should remember.
        overwrite: Begin anew, whatever run is in the folder and however damaged.
        on_progress: Called after every batch.
        on_warning: Called with one line for each thing a person should know.
        check_first: Gate on the first set.
    """
    asked = pl.concat([s.frame.select(pl.lit(s.suite).alias("suite"), *COLUMNS[1:-3]) for s in sets])
    repeated = asked.select(pl.struct("suite", "id").is_duplicated().sum()).item()
    if repeated:
        raise RunError(f"{repeated} rows share an id within their suite")
    info = model.info
    header = {
        "status": "running",
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "model": info.as_dict(),
        "data": [s.card() for s in sets],
        "seed": seed,
        "settings": settings or {},
    }
    answers = (info.fingerprint, info.dtype, info.device, info.labels, info.max_length)
    header["plan"] = hash_text(repr((answers, [s.sha256 for s in sets])))
    if folder is None:
        return _score(model, sets, asked, header, None, on_progress, on_warning, check_first)
    note = str(getattr(model, "note", ""))
    if note:
        on_warning(note)
    with folder.locked():
        # A run that is replaced may be damaged in any way, so nothing of it is read.
        stored = None if overwrite else folder.header()
        if stored is not None and stored.get("plan") != header["plan"]:
            raise RunError(
                f"{folder.path} holds another run{_described(stored)}; choose another --out or pass --overwrite"
                + (f"; {note}" if note else "")
            )
        # A table that is gone although the header says complete was being cleared when the process was killed.
        if stored is not None and stored["status"] == "complete" and folder.predictions_file.is_file():
            done = Predictions.read(folder.predictions_file, stored)
            if check_first is not None:
                check_first(Predictions(done.frame.head(len(sets[0])), stored))
            on_warning(f"the run in {folder.path} is complete; its predictions are reused")
            return done
        store = _Store(folder, header, anew=stored is None)
        return _score(model, sets, asked, header, store, on_progress, on_warning, check_first)


def _score(
    model: NLIModel,
    sets: Sequence[PairSet],
    asked: pl.DataFrame,
    header: dict[str, Any],
    store: _Store | None,
    on_progress: Callable[[Progress], None],
    on_warning: Callable[[str], None],
    check_first: Callable[[Predictions], None] | None,
) -> Predictions:
    started = time.perf_counter()
    if store is not None and (check_first is None or not len(sets[0])):
        store.open()
    on_progress(Progress(0, asked.height, "tokenising"))
    # The same pair is asked once, however often it stands in the sets.
    distinct = asked.select("premise", "hypothesis").unique(maintain_order=True).with_row_index("unique")
    where = asked.join(distinct, on=["premise", "hypothesis"], how="left", maintain_order="left")["unique"].to_numpy()
    prepared = model.prepare(distinct["premise"].to_list(), distinct["hypothesis"].to_list())
    if prepared.truncated:
        on_warning(f"{prepared.truncated} pairs are longer than {model.info.max_length} tokens and were truncated")
    tokenised = time.perf_counter()

    logits = np.full((distinct.height, len(LABELS)), np.nan, dtype=np.float32)
    done = 0
    if store is not None and not store.anew:
        logits, damaged = store.folder.read_shards(distinct.height)
        if damaged:
            on_warning(f"{len(damaged)} damaged shard(s) are scored again: {', '.join(damaged)}")
        done = int((~np.isnan(logits[:, 0])).sum())
        if done:
            on_warning(f"continuing an interrupted run: {done} of {distinct.height} pairs are done")

    ask = _Asker(model, on_warning)
    first = np.zeros(distinct.height, dtype=bool)
    first[where[: len(sets[0])]] = True
    # The gate's rows are planned apart from the rest, so that a batch is the same whether or not a run was interrupted.
    for rows in (np.flatnonzero(first), np.flatnonzero(~first)):
        if not rows.size:
            continue
        lengths = prepared.lengths[rows]
        for batch in plan_batches(lengths, bucket=model.bucket, token_budget=model.token_budget):
            chosen = rows[batch]
            if not np.isnan(logits[chosen]).any():
                continue
            scores = ask(prepared.take(chosen), int(prepared.lengths[chosen].max()))
            _refuse_nan(scores, chosen, distinct)
            done += int(np.isnan(logits[chosen, 0]).sum())
            logits[chosen] = scores
            if store is not None:
                store.keep(chosen, scores)
            on_progress(Progress(done, distinct.height, "scoring"))
        if first[rows[0]] and check_first is not None:
            head = _table(asked.head(len(sets[0])), logits, where[: len(sets[0])])
            check_first(Predictions(head, header))
            if store is not None:
                store.open()

    table = _table(asked, logits, where)
    finished = time.perf_counter()
    header["timings"] = {
        "tokenise_seconds": round(tokenised - started, 4),
        "score_seconds": round(finished - tokenised, 4),
        "pairs": asked.height,
        "distinct_pairs": distinct.height,
        "truncated": prepared.truncated,
    }
    if store is not None:
        store.folder.finish(table, header)
    return Predictions(table, {**header, "status": "complete"})


def _table(asked: pl.DataFrame, logits: NDArray[np.float32], where: NDArray[Any]) -> pl.DataFrame:
    return asked.with_columns(*(pl.Series(label, logits[where, i]) for i, label in enumerate(LABELS))).select(COLUMNS)


def _described(stored: dict[str, Any]) -> str:
    """Whose run a header is of, as far as it says so: that of an unfinished run may have been cut by hand."""
    model, data = stored.get("model"), stored.get("data")
    if not isinstance(model, dict) or not isinstance(data, list):
        return ""
    names = [str(entry.get("name", "?")) for entry in data if isinstance(entry, dict)]
    return f" ({model.get('name', '?')} on {', '.join(names)})"


class _Store:
    """Where batches go: until it is opened they wait, so that a run refused at the gate leaves no trace on disk."""

    def __init__(self, folder: RunFolder, header: dict[str, Any], *, anew: bool) -> None:
        self.folder, self.anew = folder, anew
        self._header = header
        self._waiting: list[tuple[NDArray[np.int64], NDArray[np.float32]]] = []
        self._next: int | None = None

    def open(self) -> None:
        """Write the header and what waits; what was in the folder goes only now if the run begins anew."""
        if self._next is not None:
            return
        if self.anew:
            # Also what a crash left before there was a header: shards without one are of nobody knows which model.
            self.folder.clear()
        self.folder.write_header(self._header)
        self._next = self.folder.next_shard()
        for rows, scores in self._waiting:
            self.keep(rows, scores)
        self._waiting.clear()

    def keep(self, rows: NDArray[np.int64], scores: NDArray[np.float32]) -> None:
        """Store one finished batch."""
        if self._next is None:
            self._waiting.append((rows, scores))
            return
        self.folder.write_shard(self._next, rows, scores)
        self._next += 1


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


def _refuse_nan(scores: NDArray[np.float32], rows: NDArray[np.int64], distinct: pl.DataFrame) -> None:
    bad = ~np.isfinite(scores).all(axis=1)
    if bad.any():
        pair = distinct.row(int(rows[int(np.argmax(bad))]), named=True)
        raise ModelError(
            f"the model gave {scores[int(np.argmax(bad))].tolist()} for premise '{pair['premise']}', "
            f"hypothesis '{pair['hypothesis']}'; {int(bad.sum())} pair(s) of the batch are not finite"
        )
