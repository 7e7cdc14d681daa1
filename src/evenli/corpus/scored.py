"""The folder of a scored corpus, and how its files are written.

scores.json            where the rows came from, who scored them, how many there are; status running or complete
shards/NNNNNN.parquet  the rows, in order, at most 50,000 in each

A shard has one line per row of the source: ``row`` (from 0), ``COLUMN_F``, ``COLUMN_M`` and ``COLUMN_Abs`` for each
text column, ``pair_max`` (the largest Abs of the row), the flags ``empty``, ``too_long``, ``invalid_utf8`` and
``no_gold``, and ``original``: the whole row of the source as JSON, so that later steps need no second file.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenli._headers import UNREADABLE, read_versioned, refuse_newer
from evenli.errors import InputError, RunError

if TYPE_CHECKING:
    import polars as pl

SCHEMA = 1
"""Version of scores.json and of the shards; raised when a column changes its meaning."""

FLAGS = ("empty", "too_long", "invalid_utf8", "no_gold")
SCORES = ("F", "M", "Abs")


@dataclass(frozen=True)
class CorpusScores:
    """A finished scored corpus on disk.

    Attributes:
        path: The folder.
        header: The content of scores.json.
    """

    path: Path
    header: Mapping[str, Any]

    @classmethod
    def read(cls, path: str | Path) -> CorpusScores:
        """Open a scored folder; a foreign or an unfinished one is refused."""
        path = Path(path)
        if not path.is_dir():
            raise InputError(f"no such folder: {path}; score the corpus first")
        header = read_header(path)
        if header is None:
            raise RunError(f"{path} is not a scored corpus: it has no scores.json")
        if header["status"] != "complete":
            raise RunError(f"{path} is not finished; run the command that scores it again, it goes on where it stopped")
        scores = cls(path, header)
        missing = [file.name for file in scores.shards if not file.is_file()]
        if missing:
            raise RunError(f"{path} lacks {', '.join(missing[:3])}; score the corpus again with overwrite")
        return scores

    @property
    def rows(self) -> int:
        """How many rows the source has."""
        return int(self.header["rows"])

    @property
    def columns(self) -> tuple[str, ...]:
        """The text columns that were scored."""
        return tuple(self.header["columns"])

    @property
    def shards(self) -> list[Path]:
        """The shard files, in the order of the rows."""
        return [shard_file(self.path, number) for number in range(int(self.header["shards"]))]

    def frames(self, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """The shards one after the other, all columns or those named."""
        import polars as pl

        for file in self.shards:
            try:
                yield pl.read_parquet(file, columns=list(columns) if columns else None)
            except (OSError, pl.exceptions.PolarsError) as error:
                raise RunError(f"{file} is damaged; score the corpus again with overwrite") from error

    def array(self, column: str) -> NDArray[Any]:
        """One column of all rows, without those flagged ``no_gold``."""
        parts = [frame.filter(~frame["no_gold"])[column].to_numpy() for frame in self.frames([column, "no_gold"])]
        return np.concatenate(parts)


def shard_file(out: Path, number: int) -> Path:
    """Where a shard lies."""
    return out / "shards" / f"{number:06d}.parquet"


def read_header(out: Path) -> dict[str, Any] | None:
    """The stored header, None for a new folder; a foreign folder is refused."""
    file = out / "scores.json"
    if not file.is_file():
        if not all(_left_behind(entry) for entry in out.iterdir()):
            raise RunError(f"{out} is not empty and not a scored corpus; choose another folder")
        return None
    try:
        header = read_versioned(file)
        needed = {"status", "columns"} | ({"rows", "shards", "counts"} if header["status"] == "complete" else set())
        if not needed <= header.keys():
            raise ValueError(f"no {', '.join(sorted(needed - header.keys()))}")
    except UNREADABLE as error:
        raise RunError(f"{file} is not a readable header ({error}); choose another folder") from error
    refuse_newer(header, SCHEMA, made=out, advice="Upgrade evenli or choose another folder")
    return header


def _left_behind(entry: Path) -> bool:
    """Whether a run that was killed without a header may have left this."""
    if entry.name == "shards" and entry.is_dir():
        return all(re.fullmatch(r"\d{6}\.parquet|\.\d{6}\.parquet\.tmp", file.name) for file in entry.iterdir())
    return entry.name in {".lock", ".scores.json.tmp"}


def replace(file: Path, content: bytes) -> None:
    """Write a file under its final name in one step, on the disk before it is there."""
    with writing(file.parent):
        temporary = file.with_name(f".{file.name}.tmp")
        with temporary.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(file)


@contextlib.contextmanager
def writing(out: Path) -> Iterator[None]:
    """Turn a failure to write into one line that says what to do."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"cannot write to {out}: {error.strerror or error}; finished shards are kept, run the same command again"
        ) from error
