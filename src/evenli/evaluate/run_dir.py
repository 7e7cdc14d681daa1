"""The run folder: one writer at a time, atomic files, versioned headers.

run.json               what was asked of whom; status running or complete
shards/NNNNNN.parquet  one finished batch each, removed at the end
predictions.parquet    the table, there only when complete
results.json           the measures
report.html, probe.*   what ``audit --report`` adds
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli._headers import UNREADABLE, read_versioned, refuse_newer
from evenli._version import __version__
from evenli.errors import RunError
from evenli.labels import LABELS
from evenli.store import hold

SCHEMA = 1
"""Version of run.json and results.json; raised when a key changes its meaning."""

_SHARD = re.compile(r"\d{6}\.parquet|\.\d{6}\.tmp")
_REPORTS = ("report.html", "probe.svg", "probe.png")
"""What commands add to a finished run; it speaks of that run and goes with it."""
_OTHERWISE = "choose another --out, or begin anew with --overwrite"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class RunFolder:
    """A folder that holds one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.predictions_file = self.path / "predictions.parquet"
        self.results_file = self.path / "results.json"
        self._header_file = self.path / "run.json"
        self._shards = self.path / "shards"
        reports = (self.path / name for name in _REPORTS)
        # In the order of clearing.
        self._files = (*reports, self.results_file, self.predictions_file, self._header_file)
        self._held = False

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder; a second process is refused, a killed one leaves no trace. May be nested.

        A folder of someone else is refused before it is touched, and a new one in which nothing came to be is removed.
        """
        if self._held:
            yield
            return
        self._refuse_foreign()
        made = not self.path.exists()
        with self._writing():
            self.path.mkdir(parents=True, exist_ok=True)
            lock = hold(self.path, f"another process is working in {self.path}; wait for it or choose another --out")
        with lock:
            self._held = True
            try:
                yield
            except BaseException:
                if made:
                    self._remove_empty()
                raise
            finally:
                self._held = False

    def header(self) -> dict[str, Any] | None:
        """The stored header, None for a new folder."""
        self._refuse_foreign()
        return read_header(self._header_file) if self._header_file.is_file() else None

    def write_header(self, header: dict[str, Any]) -> None:
        """Replace run.json."""
        self._write_json(self._header_file, {"schema": SCHEMA, "evenli": __version__, **header})

    def write_results(self, results: dict[str, Any]) -> None:
        """Replace results.json."""
        self._write_json(self.results_file, {"schema": SCHEMA, "evenli": __version__, **results})

    def write_shard(self, number: int, rows: NDArray[np.int64], logits: NDArray[np.float32]) -> None:
        """Store one finished batch under its final name in one step."""
        frame = pl.DataFrame({"row": rows, **{label: logits[:, i] for i, label in enumerate(LABELS)}})
        with self._writing():
            self._shards.mkdir(exist_ok=True)
            with _temporary(self._shards / f".{number:06d}.tmp") as temporary:
                frame.write_parquet(temporary, compression="uncompressed", statistics=False)
                temporary.replace(self._shards / f"{number:06d}.parquet")

    def read_shards(self, total: int) -> tuple[NDArray[np.float32], list[str]]:
        """Logits of all finished rows (NaN elsewhere) and the names of damaged shards, which are dropped."""
        logits = np.full((total, len(LABELS)), np.nan, dtype=np.float32)
        damaged = []
        for file in sorted(self._shards.glob("*.parquet")):
            if not _SHARD.fullmatch(file.name):
                raise RunError(f"{file} is no shard of this run; move it away and run the same command again")
            try:
                frame = pl.read_parquet(file)
                rows = frame["row"].to_numpy()
                logits[rows] = frame.select(LABELS).to_numpy()
            except (OSError, IndexError, pl.exceptions.PolarsError):
                damaged.append(file.name)
                file.unlink()
        return logits, damaged

    def next_shard(self) -> int:
        """Number of the next shard; numbers are never reused."""
        numbers = [int(file.stem) for file in self._shards.glob("*.parquet") if _SHARD.fullmatch(file.name)]
        return max(numbers, default=-1) + 1

    def finish(self, table: pl.DataFrame, header: dict[str, Any]) -> None:
        """Write the table, mark the run complete, drop the shards; safe to be killed anywhere in between."""
        with self._writing(), _temporary(_beside(self.predictions_file)) as temporary:
            table.write_parquet(temporary, compression="zstd")
            _sync(temporary)
            temporary.replace(self.predictions_file)
        self.write_header({**header, "status": "complete"})
        shutil.rmtree(self._shards, ignore_errors=True)

    def clear(self) -> None:
        """Forget everything but the lock; the header goes last, so that a killed clearing can be taken up again."""
        with self._writing():
            if self._shards.is_dir():
                shutil.rmtree(self._shards)
            for file in self._files:
                _beside(file).unlink(missing_ok=True)
                file.unlink(missing_ok=True)

    def _refuse_foreign(self) -> None:
        """Refuse a folder without a header of ours in which there is anything that we did not write."""
        if not self.path.is_dir():
            return
        ours: tuple[Path, ...] = ()
        if self._header_file.is_file():
            try:
                read_versioned(self._header_file)
                return
            except UNREADABLE:
                # Damaged, or the run.json of another program: the files beside it tell.
                ours = self._files
        try:
            foreign = [entry for entry in self.path.iterdir() if entry not in ours and not self._leftover(entry)]
        except OSError as error:
            raise RunError(f"cannot read {self.path}: {error.strerror}; choose another --out") from error
        if foreign:
            raise RunError(f"{self.path} is not empty and not a run folder; choose another --out")

    def _remove_empty(self) -> None:
        """Remove the folder if there is nothing but the lock in it."""
        with contextlib.suppress(OSError):
            if all(entry.name == ".lock" for entry in self.path.iterdir()):
                (self.path / ".lock").unlink(missing_ok=True)
                self.path.rmdir()

    def _leftover(self, entry: Path) -> bool:
        """Whether an entry of a folder without header is what a crash of ours leaves, and no one's own file."""
        if entry == self._shards and entry.is_dir():
            return all(_is_shard(file) for file in entry.iterdir())
        return entry.name == ".lock" or entry in map(_beside, self._files)

    def _write_json(self, file: Path, content: dict[str, Any]) -> None:
        with self._writing(), _temporary(_beside(file)) as temporary:
            temporary.write_text(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")
            _sync(temporary)
            temporary.replace(file)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pl.exceptions.ComputeError) as error:
            code = getattr(error, "errno", None)
            text = str(error)
            if code in _FULL or "No space left" in text or "File too large" in text:
                raise RunError(
                    f"no space left in {self.path}; finished batches are kept, free some space and run the same "
                    "command again"
                ) from error
            reason = getattr(error, "strerror", None) or text
            raise RunError(f"cannot write to {self.path}: {reason}; choose another --out") from error


def read_header(file: Path) -> dict[str, Any]:
    """Read run.json; refuse a broken one or one of a newer evenli."""
    try:
        header = read_versioned(file)
    except UNREADABLE as error:
        raise RunError(f"{file} is not a readable run header ({error}); {_OTHERWISE}") from error
    refuse_newer(header, SCHEMA, made=file.parent, advice="Upgrade evenli or choose another --out")
    if header.get("status") == "running":
        return header
    model, data = header.get("model"), header.get("data")
    sound = {
        "status": header.get("status") == "complete",
        "model": isinstance(model, dict) and "name" in model,
        "data": isinstance(data, list) and all(isinstance(entry, dict) for entry in data),
    }
    missing = [key for key, there in sound.items() if not there]
    if missing:
        raise RunError(f"{file} lacks a usable {' and '.join(missing)}; {_OTHERWISE}")
    return header


def _beside(file: Path) -> Path:
    """Where a file is written before it gets its name."""
    return file.with_name(f".{file.name}.tmp")


@contextlib.contextmanager
def _temporary(file: Path) -> Iterator[Path]:
    """A file that is gone afterwards unless it was renamed: half a file on a full disk takes space and is no use."""
    try:
        yield file
    finally:
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)


def _is_shard(file: Path) -> bool:
    """Whether we wrote it; the name alone could be a part of anyone's data set."""
    if not _SHARD.fullmatch(file.name):
        return False
    try:
        return file.suffix == ".tmp" or pl.read_parquet_schema(file).keys() == {"row", *LABELS}
    except (OSError, pl.exceptions.PolarsError):
        return False


def _sync(file: Path) -> None:
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
