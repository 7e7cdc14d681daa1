"""The directory of a scored corpus.

scores.json            where the rows came from, which scorer, how many rows; status running or complete
shards/NNNNNN.parquet  the rows, in order, at most 50,000 in each

A shard has one line per row of the source: ``row`` (from 0), ``COLUMN_F``, ``COLUMN_M`` and ``COLUMN_Abs`` for each
text column, ``pair_max`` (the largest Abs of the row), the flags ``empty``, ``too_long``, ``invalid_utf8`` and
``no_gold``, and ``original``: the whole row of the source as JSON, so that later steps need no second file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from evenli.errors import InputError, RunError
from evenli.io import is_temporary
from evenli.store import RunDir

FLAGS = ("empty", "too_long", "invalid_utf8", "no_gold")
SCORES = ("F", "M", "Abs")
# The second is what earlier versions named a file that they were writing.
_SHARD = re.compile(r"\d{6}\.parquet|\.\d{6}\.parquet\.tmp")


class ScoredDir(RunDir):
    """The output directory; shards that a killed run left without a manifest are ours, anything else is not."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path, kind="scored corpus", manifest="scores.json", owned=("shards", ".scores.json.tmp"))

    def foreign_files(self) -> list[str]:
        """Names that we do not write, in the directory and among the shards."""
        shards = sorted((self.path / "shards").glob("*"))
        strange = [entry.name for entry in shards if not (is_temporary(entry) or _SHARD.fullmatch(entry.name))]
        return super().foreign_files() + [f"shards/{name}" for name in strange]

    def header(self) -> dict[str, Any] | None:
        """The manifest, None for a new directory; one without the keys that its status asks for is refused."""
        stored = self.read_manifest(("status", "columns"))
        if stored is not None and stored["status"] == "complete":
            self.read_manifest(("rows", "shards", "counts"))
        return stored

    def shard(self, number: int) -> Path:
        """Where a shard lies."""
        return self.path / "shards" / f"{number:06d}.parquet"


def is_scored(path: str | Path) -> bool:
    """Whether a directory holds a scored corpus, finished or not."""
    try:
        return ScoredDir(path).exists()
    except (OSError, ValueError):  # a long sentence is not a file name
        return False


@dataclass(frozen=True)
class CorpusScores:
    """A finished scored corpus on disk; ``header`` is the content of its scores.json."""

    path: Path
    header: Mapping[str, Any]

    @classmethod
    def read(cls, scored: CorpusScores | str | Path) -> CorpusScores:
        """Open a scored corpus; another directory or an unfinished one is refused."""
        if isinstance(scored, CorpusScores):
            return scored
        path = Path(scored)
        if not path.is_dir():
            raise InputError(f"no such directory: {path}; score the corpus first")
        header = ScoredDir(path).header()
        if header is None:
            raise RunError(f"{path} is not a scored corpus: it has no scores.json")
        if header["status"] != "complete":
            raise RunError(f"{path} is not finished; run the command that scores it again, it goes on where it stopped")
        scores = cls(path, header)
        missing = [file.name for file in scores.shards if not file.is_file()]
        if missing:
            raise RunError(f"{path} lacks {', '.join(missing[:3])}; score the corpus again with --overwrite")
        return scores

    @property
    def rows(self) -> int:
        """How many rows the source has."""
        return int(self.header["rows"])

    @property
    def gold_rows(self) -> int:
        """Rows without those flagged ``no_gold``."""
        return self.rows - int(self.header["counts"]["no_gold"])

    @property
    def columns(self) -> tuple[str, ...]:
        """The text columns that were scored."""
        return tuple(self.header["columns"])

    @property
    def shards(self) -> list[Path]:
        """The shard files, in the order of the rows."""
        return [ScoredDir(self.path).shard(number) for number in range(int(self.header["shards"]))]

    def frames(self, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """The shards one after the other, all columns or those named."""
        for file in self.shards:
            try:
                yield pl.read_parquet(file, columns=list(columns) if columns else None)
            except (OSError, pl.exceptions.PolarsError) as error:
                raise RunError(f"{file} is damaged; score the corpus again with --overwrite") from error

    def gold_frames(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """The same without the rows that have no gold label."""
        for frame in self.frames([*columns, "no_gold"]):
            yield frame.filter(~frame["no_gold"])
