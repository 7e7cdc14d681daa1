"""The run directory of an audit or a prediction.

run.json               what was asked of whom; status running or complete
shards/NNNNNN.parquet  one finished batch each, removed at the end
predictions.parquet    the table, there only when complete
results.json           the measures
report.html, probe.*   what ``audit --report`` adds
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli._version import __version__
from evenli.errors import RunError
from evenli.io import is_temporary
from evenli.labels import LABELS
from evenli.store import RunDir, read_manifest

SCHEMA = 2
"""Version of run.json and results.json; raised when a key changes its meaning."""

_KIND = "prediction run"
_FILES = ("report.html", "probe.svg", "probe.png", "results.json", "predictions.parquet")
"""What a run consists of beside run.json and the shards; all of it goes when the run is replaced."""
_SHARD = re.compile(r"\d{6}\.parquet")


class RunFolder(RunDir):
    """A directory that holds one prediction run."""

    def __init__(self, path: str | Path) -> None:
        # Temporary files were once called .NAME.tmp; a run that was killed then may have left some.
        old = [f".{name}.tmp" for name in (*_FILES, "run.json")]
        super().__init__(path, kind=_KIND, manifest="run.json", owned=(*_FILES, *old, "shards"), schema=SCHEMA)
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
        """Replace results.json."""
        self.write_json(self.results_file.name, {"schema": SCHEMA, "evenli": __version__, **results})

    def write_shard(self, number: int, rows: NDArray[np.int64], logits: NDArray[np.float32]) -> None:
        """Store one finished batch atomically."""
        frame = pl.DataFrame({"row": rows, **{label: logits[:, i] for i, label in enumerate(LABELS)}})
        # Not synced: a power cut costs at most the last batches, and a sync per batch would cost more than scoring it.
        self.write(
            f"shards/{number:06d}.parquet",
            lambda file: frame.write_parquet(file, compression="uncompressed", statistics=False),
            sync=False,
        )

    def shard_files(self) -> list[Path]:
        """Finished shards in order; a file of another name among them is refused."""
        files = sorted(file for file in self._shards.glob("*.parquet") if not is_temporary(file))
        for file in files:
            if not _SHARD.fullmatch(file.name):
                raise RunError(f"{file} is no shard of this run; move it away and run the same command again")
        return files

    def read_shards(self, logits: NDArray[np.float32]) -> list[str]:
        """Fill in the logits of all finished rows; returns the names of damaged shards, which are deleted."""
        damaged = []
        for file in self.shard_files():
            try:
                frame = pl.read_parquet(file)
                logits[frame["row"].to_numpy()] = frame.select(LABELS).to_numpy()
            except (OSError, IndexError, pl.exceptions.PolarsError):
                damaged.append(file.name)
                file.unlink()
        return damaged

    def finish(self, table: pl.DataFrame, header: dict[str, Any]) -> None:
        """Write the table, mark the run complete, delete the shards; a kill in between loses nothing."""
        self.write(self.predictions_file.name, lambda file: table.write_parquet(file, compression="zstd"))
        self.write_manifest({**header, "status": "complete"})
        shutil.rmtree(self._shards, ignore_errors=True)


def read_header(file: Path) -> dict[str, Any]:
    """Read run.json; refuse a damaged one or one of a newer evenli."""
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
        advice = "choose another --out, or begin anew with --overwrite"
        raise RunError(f"{file} lacks a usable {' and '.join(missing)}; {advice}")
    return header


def _is_shard(file: Path) -> bool:
    """Whether we wrote it; the name alone could be a part of anyone's data set."""
    if is_temporary(file) or re.fullmatch(r"\.\d{6}\.tmp", file.name):
        return True
    try:
        return bool(_SHARD.fullmatch(file.name)) and pl.read_parquet_schema(file).keys() == {"row", *LABELS}
    except (OSError, pl.exceptions.PolarsError):
        return False
