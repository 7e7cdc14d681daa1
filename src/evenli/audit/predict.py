"""The prediction loop: tokenise once, group by length, score each distinct pair once, resume after a crash.

Files of a run directory:
    run.json               what was asked of whom; status running or complete
    shards/NNNNNN-HASH.parquet  one finished batch each, removed at the end
    predictions.parquet, results.json, and what ``audit --report`` adds
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from hashlib import sha256
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli._version import __version__
from evenli.audit.asking import Asker, ask_again, remark
from evenli.audit.models import NLIModel
from evenli.audit.models.base import ModelInfo, Prepared
from evenli.audit.pairs import PAIR_COLUMNS, PairSet, distinct_pairs
from evenli.audit.predictions import Predictions
from evenli.core.binary import decoding, read_parquet, silence_fd
from evenli.core.errors import InputError, ModelError, RunError, foreign_code
from evenli.core.io import hash_files, hash_text, to_plain
from evenli.core.labels import LABELS
from evenli.core.parse import check_regular
from evenli.core.store import ANEW, RunDir, read_manifest
from evenli.core.temporary import is_temporary
from evenli.core.terminal import Progress


@dataclass(frozen=True)
class PredictSettings:
    """How a prediction run is stored and checked.

    ``seed`` and ``details`` are stored in the header. ``overwrite`` begins anew, whatever run is in the directory and
    however damaged. ``check_first`` sees the rows of the first set before any other is scored and before anything is
    written; it may raise.
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
    a complete run is returned without asking the model again. Ids must be unique within a suite.
    """
    settings = settings or PredictSettings()
    job = _Job(model, sets, settings, on_progress, on_warning)
    if folder is None:
        return job.score()
    note = str(getattr(model, "note", ""))
    with folder.locked():
        # A run that is replaced may be damaged in any way, so nothing of it is read.
        stored = None if settings.overwrite else folder.header()
        if stored is not None and stored.get("plan") != job.header["plan"]:
            advice = "; ".join(filter(None, ("choose another directory (--out) or overwrite it (--overwrite)", note)))
            raise RunError(f"{folder.path} holds another run{_described(stored, model.info)}; {advice}")
        # A table that is gone although the header says complete was being cleared when the process was killed.
        if stored is not None and stored["status"] == "complete" and folder.predictions_file.is_file():
            folder.verify(folder.predictions_file.name)
            complete = Predictions.read(folder.predictions_file, stored)
            if settings.check_first is not None:
                settings.check_first(Predictions(complete.frame.head(len(sets[0])), stored))
            shutil.rmtree(folder.path / "shards", ignore_errors=True)  # left where the process was killed before this
            on_warning(f"the run in {folder.path} is complete; its predictions are reused")
            return complete
        predictions = job.score(folder, resume=stored is not None)
    if note:  # said at the end: a run that is refused has one line to say
        on_warning(note)
    return predictions


def _header(model: NLIModel, sets: Sequence[PairSet], settings: PredictSettings) -> dict[str, Any]:
    info = model.info
    # Two runs with the same plan have the same predictions, so one may continue the other.
    answers = (info.fingerprint, info.dtype, info.device, info.labels, info.max_length)
    return {
        "status": "running",
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "model": info.to_dict(),
        "data": [pairs.card().to_dict() for pairs in sets],
        "seed": settings.seed,
        "settings": dict(settings.details),
        "plan": hash_text(repr((answers, [pairs.sha256 for pairs in sets]))),
        # How a language model was asked, and what its server can do.
        **({"prompting": model.prompting} if hasattr(model, "prompting") else {}),
    }


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
        settings: PredictSettings,
        on_progress: Callable[[Progress], None],
        on_warning: Callable[[str], None],
    ) -> None:
        self.model, self.header, self.check_first = model, _header(model, sets, settings), settings.check_first
        self.progress, self.warn, self.ask = on_progress, on_warning, Asker(model, on_warning)
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

    def score(self, folder: RunFolder | None = None, *, resume: bool = False) -> Predictions:
        """Ask everything that is not stored yet."""
        started = time.perf_counter()
        if self.check_first is None:
            self._open(folder, resume)
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
            self._read(folder, logits)
        if hasattr(self.model, "begin"):  # who is paid says what it will cost
            self.model.begin(prepared, logits, self.warn)
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
        self._score_rows(np.flatnonzero(~first), prepared, logits)

        table = self._table(logits)
        self.header["timings"] = {
            "tokenise_seconds": round(tokenised - started, 4),
            "score_seconds": round(time.perf_counter() - tokenised, 4),
            "pairs": self.asked.height,
            "distinct_pairs": self.distinct.height,
            "truncated": prepared.truncated,
        }
        repeat = ask_again(self.model, self.ask, prepared, logits)
        self.header["repeat"] = repeat.to_dict()
        if not repeat.stable:
            self.warn(remark(repeat, self.model.info.name))
        if hasattr(self.model, "usage"):
            self.header["usage"] = to_plain(self.model.usage())
        if folder is not None:
            folder.finish(table, self.header)
        return Predictions(table, {**self.header, "status": "complete"})

    def _read(self, folder: RunFolder, logits: NDArray[np.float32]) -> None:
        """Fill in what an interrupted run left."""
        if damaged := folder.read_shards(logits, self.columns):
            self.warn(f"{len(damaged)} damaged shard(s) are scored again: {', '.join(damaged)}")
        done = int((~np.isnan(logits[:, 0])).sum())
        if done:
            self.warn(f"continuing an interrupted run: {done} of {len(logits)} pairs are done")

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
            self._folder.write_shard(next(self._numbers), rows, scores, self.columns)

    def _score_rows(self, rows: NDArray[np.int64], prepared: Prepared, logits: NDArray[np.float32]) -> None:
        """Fill the logits of some distinct pairs, batch by batch."""
        done = int((~np.isnan(logits[:, 0])).sum())
        for chosen, scores in self.ask.batches(rows, prepared, logits):
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

    def _table(self, logits: NDArray[np.float32], rows: int | None = None) -> pl.DataFrame:
        """The first rows of the table, or all, with the logits of each pair."""
        values = logits[self.where[:rows]]
        columns = (pl.Series(name, values[:, i]) for i, name in enumerate(self.columns))
        ours = ("suite", *PAIR_COLUMNS, *self.columns)
        extra = [name for name in self.asked.columns if name not in ours]  # columns of the user's own stand last
        return self.asked.head(len(values)).with_columns(*columns).select(*ours, *extra)


SCHEMA = 3
"""Version of run.json and results.json; raised when a key changes its meaning."""

_KIND = "prediction run"
_CHARTS = ("probe.svg", "probe.png", "wordings.svg", "wordings.png")
_FILES = ("report.html", *_CHARTS, "results.json", "predictions.parquet")
"""What a run consists of beside run.json and the shards; all of it goes when the run is replaced."""
_SHARD = re.compile(r"\d{6}-[0-9a-f]{16}\.parquet")
"""Number and hash of a shard."""


class RunFolder(RunDir):
    """A directory that holds one prediction run."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path, kind=_KIND, manifest="run.json", owned=(*_FILES, "shards"), schema=SCHEMA)
        self.predictions_file = self.path / "predictions.parquet"
        self.results_file = self.path / "results.json"
        self._shards = self.path / "shards"

    def foreign_files(self) -> list[str]:
        """Names in the directory that we did not write; names that anyone might use count only beside a run.json."""
        foreign = super().foreign_files()
        if not self.exists():
            foreign += [name for name in _FILES if (self.path / name).exists()]
        if self._shards.is_dir() and not all(_is_shard(file) for file in self._shards.iterdir()):
            foreign.append("shards")
        return foreign

    def header(self) -> dict[str, Any] | None:
        """The stored header, None for a new directory."""
        self.check()
        return read_header(self.manifest_file) if self.exists() else None

    def write_results(self, results: dict[str, Any]) -> None:
        """Replace results.json, and its hash in run.json."""
        file = self.write_json(self.results_file.name, {"schema": SCHEMA, "evenli": __version__, **results})
        if not self.exists():
            return
        header = read_header(self.manifest_file)
        self.write_manifest({**header, "files": {**header.get("files", {}), file.name: hash_files([file])}})

    def verify(self, *names: str) -> None:
        """Refuse files that are not those that run.json describes; a file without a hash there is refused as well."""
        stored = read_header(self.manifest_file).get("files", {})
        for name in names:
            file = self.path / name
            if not file.is_file() or hash_files([file]) != stored.get(name):
                again = f"score it again with 'evenli measure {self.path}'" if file == self.results_file else ANEW
                raise RunError(f"{file} is not the file that run.json describes: it was damaged or edited; {again}")

    def write_shard(
        self, number: int, rows: NDArray[np.int64], scores: NDArray[np.float32], columns: Sequence[str] = LABELS
    ) -> None:
        """Store one finished batch atomically."""
        frame = pl.DataFrame({"row": rows, **{name: scores[:, i] for i, name in enumerate(columns)}})
        buffer = BytesIO()
        frame.write_parquet(buffer, compression="uncompressed", statistics=False)
        # The hash in the name finds a damaged shard. Not synced: a power cut costs at most the last batches, and a sync
        # per batch would cost more than scoring it.
        content = buffer.getvalue()
        self.write(f"shards/{number:06d}-{sha256(content).hexdigest()[:16]}.parquet", content, sync=False)

    def shard_files(self) -> list[Path]:
        """Finished shards in order; a file of another name among them is refused."""
        files = sorted(file for file in self._shards.glob("*.parquet") if not is_temporary(file))
        for file in files:
            if not _SHARD.fullmatch(file.name):
                raise RunError(f"unexpected file {file} among the shards; remove it and run the same command again")
        return files

    def read_shards(self, scores: NDArray[np.float32], columns: Sequence[str] = LABELS) -> list[str]:
        """Fill in the numbers of all finished rows; returns the names of damaged shards, which are deleted."""
        damaged = []
        for file in self.shard_files():
            try:
                check_regular(file)
                content = file.read_bytes()
                if not file.stem.endswith(sha256(content).hexdigest()[:16]):
                    raise OSError("the hash differs")
                frame = read_parquet(file, content=content)
                scores[frame["row"].to_numpy()] = frame.select(columns).to_numpy()
            except (OSError, InputError, IndexError, pl.exceptions.PolarsError):
                damaged.append(file.name)
                shutil.rmtree(file) if file.is_dir() else file.unlink()
        return damaged

    def finish(self, table: pl.DataFrame, header: dict[str, Any]) -> None:
        """Write the table, mark the run complete, delete the shards; a kill in between loses nothing."""
        self.write(self.predictions_file.name, lambda file: table.write_parquet(file, compression="zstd"))
        files = {self.predictions_file.name: hash_files([self.predictions_file])}
        self.write_manifest({**header, "status": "complete", "files": files})
        shutil.rmtree(self._shards, ignore_errors=True)


def read_header(file: Path) -> dict[str, Any]:
    """Read run.json; refuse a damaged one or one of another version."""
    header = read_manifest(file, kind=_KIND, schema=SCHEMA)
    if header.get("status") == "running":
        return header
    model, data = header.get("model"), header.get("data")
    usable = {
        "status": header.get("status") == "complete",
        "model": isinstance(model, dict) and "name" in model,
        "data": isinstance(data, list) and all(isinstance(entry, dict) for entry in data),
    }
    missing = [key for key, ok in usable.items() if not ok]
    if missing:
        raise RunError(f"{file} lacks a usable {' and '.join(missing)}; {ANEW}")
    return header


def _is_shard(file: Path) -> bool:
    """Whether we wrote it; the name alone could be a part of anyone's data set."""
    if is_temporary(file):
        return True
    try:
        named = file.is_file() and _SHARD.fullmatch(file.name)
        with decoding(file), silence_fd():
            return bool(named) and {"row", *LABELS} <= pl.scan_parquet(file, glob=False).collect_schema().keys()
    except (OSError, InputError):
        return False
