"""The prediction loop: tokenise once, group by length, score each distinct pair once, resume after a crash.

A batch that does not fit into memory is halved. A sample is asked twice, because a model may not repeat itself.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from itertools import count
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import softmax

from evenli.audit.models import NLIModel, OutOfMemory
from evenli.audit.models.base import Items, ModelInfo, Prepared, plan_batches
from evenli.audit.pairs import PAIR_COLUMNS, PairSet, distinct_pairs
from evenli.audit.predictions import Predictions, RunFolder
from evenli.audit.results import Repeat
from evenli.audit.settings import RunSettings
from evenli.core.errors import ModelError, RunError, foreign_code
from evenli.core.io import hash_text, to_plain
from evenli.core.labels import LABELS
from evenli.core.terminal import Progress

_SHARE, _MOST = 16, 64
"""One pair in so many is asked again, at most this many."""
_ROUNDING, _COARSE = 1e-3, 5e-2
_COARSE_TYPES = {"bfloat16", "float16", "int8"}
"""Types whose rounding depends on the batch: half precision, and activations that are scaled batch by batch."""


def predict(
    model: NLIModel,
    sets: Sequence[PairSet],
    folder: RunFolder | None = None,
    settings: RunSettings | None = None,
    *,
    seed: int = 0,
    details: Mapping[str, Any] | None = None,
    check_first: Callable[[Predictions], None] | None = None,
) -> Predictions:
    """Score every pair of every set, in order, and return the table.

    With a directory, finished batches are on disk at once: after a crash the same call continues where it stopped, and
    a complete run is returned without asking the model again. Without one the same is done with tables that the
    settings have kept. Ids must be unique within a suite. ``seed`` and
    ``details`` are stored in the header. ``check_first`` sees the rows of the first set before any other is scored and
    before anything is written; it may raise.
    """
    settings = settings or RunSettings()
    job = _Job(model, sets, settings, check_first, {"seed": seed, "settings": dict(details or {})})
    if folder is None:
        kept, plan = {} if settings.kept is None else settings.kept, job.header["plan"]
        if plan not in kept:
            kept[plan] = job.score()
        return kept[plan]
    note = str(getattr(model, "note", ""))
    with folder.locked():
        # A run that is replaced may be damaged in any way, so nothing of it is read.
        stored = None if settings.overwrite else folder.header()
        if stored is not None and stored.get("plan") != job.header["plan"]:
            advice = "; ".join(filter(None, ("choose another directory (--out) or overwrite it (--overwrite)", note)))
            raise RunError(f"{folder.path} holds another run{_described(stored, model.info)}; {advice}")
        # A table that is gone although the header says complete was being cleared when the process was killed.
        if stored is not None and stored["status"] == "complete" and folder.predictions_file.is_file():
            complete = folder.read_predictions(stored)
            if check_first is not None:
                check_first(Predictions(complete.frame.head(len(sets[0])), stored))
            shutil.rmtree(folder.path / "shards", ignore_errors=True)  # left where the process was killed before this
            settings.on_warning(f"the run in {folder.path} is complete; its predictions are reused")
            return complete
        predictions = job.score(folder, resume=stored is not None)
    if note:  # said at the end: a run that is refused has one line to say
        settings.on_warning(note)
    return predictions


def plan_of(model: ModelInfo, pairs: Sequence[str]) -> str:
    """A hash of the model and of the pairs, which have hashes of their own.

    Two runs with the same plan have the same predictions, so one may continue the other.
    """
    answers = (model.fingerprint, model.dtype, model.device, model.labels, model.max_length)
    return hash_text(repr((answers, list(pairs))))


def _described(stored: dict[str, Any], info: ModelInfo) -> str:
    """Describe the run of a header, which may be incomplete."""
    model, data = stored.get("model"), stored.get("data")
    if not isinstance(model, dict) or not isinstance(data, list):
        return ""
    names = [str(entry.get("name", "?")) for entry in data if isinstance(entry, dict)]
    same = model.get("name") == info.name and model.get("fingerprint") != info.fingerprint
    return f" ({model.get('name', '?')}{', another model of that name,' if same else ''} on {', '.join(names)})"


class _Job:
    """The pairs of one run, the model that is asked, and the directory that finished batches go to."""

    def __init__(
        self,
        model: NLIModel,
        sets: Sequence[PairSet],
        settings: RunSettings,
        check_first: Callable[[Predictions], None] | None,
        told: Mapping[str, Any],  # what the header takes over
    ) -> None:
        self.model, self.check_first = model, check_first
        self.progress, self.warn = settings.on_progress, settings.on_warning
        asked = [s.frame.select(pl.lit(s.suite).alias("suite"), *PAIR_COLUMNS, *s.extra) for s in sets]
        self.asked = pl.concat(asked, how="diagonal")
        ids = self.asked.group_by("suite").agg(pl.col("id").n_unique())["id"].sum()
        if repeated := self.asked.height - ids:
            raise RunError(f"{repeated} rows have the id of another row of their suite")
        # The same pair is asked once, however often it stands in the sets.
        first, self.where = distinct_pairs(self.asked)
        self.distinct = self.asked.select("premise", "hypothesis")[first]
        self.head = len(sets[0])
        # Three numbers for each pair, and what a language model adds to them.
        self.columns = (*LABELS, *getattr(model, "details", ()))
        self._folder: RunFolder | None = None
        self._numbers = count()
        self._tokens: int | None = None  # of a batch that fits into memory, once one did not
        info = model.info
        self.header: dict[str, Any] = {
            "status": "running",
            "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "model": info.to_dict(),
            "data": [pairs.card().to_dict() for pairs in sets],
            **told,
            "plan": plan_of(info, [pairs.sha256 for pairs in sets]),
            # How a language model was asked, and what its server can do.
            **({"prompting": model.prompting} if hasattr(model, "prompting") else {}),
        }

    def score(self, folder: RunFolder | None = None, *, resume: bool = False) -> Predictions:
        """Ask everything that is not stored yet."""
        started = time.perf_counter()
        self.progress(Progress(0, self.asked.height, "tokenising"))
        # A checkpoint whose parts do not fit each other fails in any way its library likes.
        with foreign_code(f"{self.model.info.name} cannot read the pairs: "):
            prepared = self.model.prepare(self.distinct["premise"].to_list(), self.distinct["hypothesis"].to_list())
        if prepared.truncated:
            limit = self.model.info.max_length
            self.warn(f"{prepared.truncated} pairs are longer than {limit} tokens and were truncated")
        tokenised = time.perf_counter()

        logits = np.full((self.distinct.height, len(self.columns)), np.nan, dtype=np.float32)
        if folder is not None and resume:
            if damaged := folder.read_shards(logits, self.columns, self.header["plan"]):
                self.warn(f"{len(damaged)} damaged shard(s) are scored again: {', '.join(damaged)}")
            if done := int((~np.isnan(logits[:, 0])).sum()):
                self.warn(f"continuing an interrupted run: {done} of {len(logits)} pairs are done")
        if hasattr(self.model, "begin"):  # who is paid says what it will cost
            self.model.begin(prepared, logits, self.warn)
        if self.check_first is None:  # not before: a run that is refused until here leaves no trace
            self._open(folder, resume)
        # The first set is planned apart from the rest, so that batches do not depend on whether a run was interrupted.
        first = np.zeros(self.distinct.height, dtype=bool)
        first[self.where[: self.head]] = True
        rows = np.flatnonzero(first)
        self._score_rows(rows, prepared, logits)
        if self.check_first is not None:
            # Nothing is on disk yet, so that a run that is refused here leaves no trace.
            self.check_first(Predictions(self._table(logits, self.head), self.header))
            self._open(folder, resume)
            self._keep(rows, logits[rows])
        # In no order of classes or groups: what changes while a server answers must not look like a lean.
        self._score_rows(np.random.default_rng(0).permutation(np.flatnonzero(~first)), prepared, logits)

        table = self._table(logits)
        self.header["timings"] = {
            "tokenise_seconds": round(tokenised - started, 4),
            "score_seconds": round(time.perf_counter() - tokenised, 4),
            "pairs": self.asked.height,
            "distinct_pairs": self.distinct.height,
            "truncated": prepared.truncated,
        }
        self.header["repeat"] = self._ask_again(prepared, logits).to_dict()
        if hasattr(self.model, "usage"):
            self.header["usage"] = to_plain(self.model.usage())
        complete = {**self.header, "status": "complete"} if folder is None else folder.finish(table, self.header)
        return Predictions(table, complete)

    def _open(self, folder: RunFolder | None, resume: bool) -> None:
        """Write the header; only now is an old run deleted if this one begins anew."""
        if folder is None:
            return
        if not resume:
            # Also what a crash left before there was a header: nobody knows which model such shards are of.
            folder.clear()
        folder.write_manifest(self.header)
        # Numbers are never reused: a shard of an interrupted run is not replaced by one with other rows.
        self._numbers = count(max((int(file.stem[:6]) for file in folder.shard_files()), default=-1) + 1)
        self._folder = folder

    def _keep(self, rows: NDArray[np.int64], scores: NDArray[np.float32]) -> None:
        """Store finished rows if there is an open directory."""
        if self._folder is not None:
            self._folder.write_shard(next(self._numbers), rows, scores, self.columns, self.header["plan"])

    def _score_rows(self, rows: NDArray[np.int64], prepared: Prepared, logits: NDArray[np.float32]) -> None:
        """Fill the logits of some distinct pairs, batch by batch."""
        done = int((~np.isnan(logits[:, 0])).sum())
        for chosen, scores in self._batches(rows, prepared, logits):
            bad = np.flatnonzero(~np.isfinite(scores).all(axis=1))
            if bad.size:
                pair = self.distinct.row(int(chosen[bad[0]]), named=True)
                raise ModelError(
                    f"the model gave {scores[bad[0], : len(LABELS)].tolist()} for premise '{pair['premise']}', "
                    f"hypothesis '{pair['hypothesis']}'; {bad.size} pair(s) of the batch are not finite"
                )
            done += int(np.isnan(logits[chosen, 0]).sum())
            logits[chosen] = scores
            self._keep(chosen, scores)
            stage = " ".join(["scoring", getattr(self.model, "status", "")]).strip()
            self.progress(Progress(done, self.distinct.height, stage))

    def _batches(
        self, rows: NDArray[np.int64], prepared: Prepared, scores: NDArray[np.float32]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Score the given rows that are not in ``scores`` yet: rows and numbers, as they come."""
        model = self.model
        if hasattr(model, "stream"):
            missing = rows[np.isnan(scores[rows]).any(axis=1)]
            for at, numbers in model.stream(prepared.take(missing)) if missing.size else ():
                yield missing[at], numbers
            return
        if hasattr(model, "plan") and rows.size:
            batches = model.plan(prepared.take(rows))
        else:
            batches = plan_batches(prepared.lengths[rows], bucket=model.bucket, token_budget=model.token_budget)
        for batch in batches:
            chosen = rows[batch]
            if np.isnan(scores[chosen]).any():
                yield chosen, self._ask(prepared.take(chosen), int(prepared.lengths[chosen].max()))

    def _ask(self, items: Items, length: int) -> NDArray[np.float32]:
        """Score a batch, ``length`` tokens its longest item; one that does not fit is halved, and later ones too."""
        size = len(items) if self._tokens is None else max(1, self._tokens // length)
        if len(items) > size:
            return np.concatenate([self._ask(items[i : i + size], length) for i in range(0, len(items), size)])
        try:
            with foreign_code(f"{self.model.info.name} failed on a batch: "):
                return self.model.logits(items)
        except OutOfMemory:
            if len(items) == 1:
                raise ModelError(
                    "out of memory on a single pair; use a smaller model or shorter inputs (--max-length)"
                ) from None
        self._tokens = len(items) // 2 * length
        self.warn(f"out of memory at {len(items)} pairs in a batch; going on with {len(items) // 2}")
        return self._ask(items, length)

    def _ask_again(self, prepared: Prepared, logits: NDArray[np.float32]) -> Repeat:
        """Ask a sample once more, and say so where the answers differ.

        Answers that an interrupted run left are asked again like any other: a run that continues ends with the result
        of one that was never interrupted, and a model that differs from process to process is noticed.
        """
        model, size = self.model, min(_MOST, -(-len(logits) // _SHARE))
        rows = np.sort(np.random.default_rng(0).choice(len(logits), size, replace=False))
        again = np.empty((size, len(LABELS)), dtype=np.float64)
        for batch in plan_batches(prepared.lengths[rows], bucket=model.bucket, token_budget=model.token_budget):
            batch = batch[::-1]  # another place in the batch as well
            again[batch] = self._ask(prepared.take(rows[batch]), int(prepared.lengths[rows[batch]].max()))[:, :3]
        with np.errstate(invalid="ignore"):
            first, second = (softmax(run, axis=1) for run in (logits[rows, :3].astype(np.float64), again))
        changed = int((first.argmax(axis=1) != second.argmax(axis=1)).sum())
        tolerance = _COARSE if model.info.dtype in _COARSE_TYPES else _ROUNDING
        repeat = Repeat(size, float(np.abs(first - second).max()), changed, tolerance)
        if not repeat.stable:
            self.warn(
                f"{model.info.name} does not repeat itself: {size} pairs asked again in other batches have "
                f"probabilities that differ by up to {repeat.largest:.2g} ({changed} answers changed); numbers of two "
                "runs will differ"
            )
        return repeat

    def _table(self, logits: NDArray[np.float32], rows: int | None = None) -> pl.DataFrame:
        """The first rows of the table, or all, with the logits of each pair."""
        values = logits[self.where[:rows]]
        columns = (pl.Series(name, values[:, i]) for i, name in enumerate(self.columns))
        ours = ["suite", *PAIR_COLUMNS, *self.columns]  # columns of the user's own stand last
        return self.asked.head(len(values)).with_columns(*columns).select(*ours, pl.exclude(ours))
