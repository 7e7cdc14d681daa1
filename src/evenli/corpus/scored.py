"""The directory of a scored corpus, and what it says as a whole (Dolci et al. 2023).

scores.json            where the rows came from, which scorer, how many rows; status running or complete
shards/NNNNNN.parquet  the rows, in order, at most 50,000 in each
counts.parquet         how often words occur, where their weight depends on it

A shard has one line per row of the source: ``row`` (from 0), ``COLUMN_F``, ``COLUMN_M`` and ``COLUMN_Abs`` for each
text column, ``pair_max`` (the largest Abs of the row), the flags ``empty``, ``too_long``, ``invalid_utf8`` and
``no_gold``, the label ``gold``, and ``original``: the whole row of the source as JSON, so that later steps need no
second file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.core.binary import read_parquet
from evenli.core.errors import InputError, RunError
from evenli.core.io import hash_files, read_text, split_lines
from evenli.core.parse import parse_json_object
from evenli.core.store import RunDir
from evenli.core.temporary import is_temporary

FLAGS = ("empty", "too_long", "invalid_utf8", "no_gold")
SCORES = ("F", "M", "Abs")
COUNTS = "counts.parquet"
SCORER_SETTINGS = "made_with"  # a key of scores.json
PERCENTILES = (90.0, 93.0, 95.0, 97.0)
"""Of the published corpora."""
SIDES = {"female": "F", "male": "M"}
HELD_ROWS = 1_000_000
"""Up to so many scores, 8 MB, are held at once."""
_BITS = 8  # of a value that are found in one pass
_SIGN = np.uint64(1 << 63)  # the first bit of a number
Parts = Callable[[], Iterable[NDArray[np.float64]]]
"""Gives the values anew, a part at a time, each time it is called."""
_SHARD = re.compile(r"\d{6}\.parquet|evenli-hashes\.txt")


class ScoredDir(RunDir):
    """The output directory; shards that a killed run left without a manifest are ours, anything else is not."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path, kind="scored corpus", manifest="scores.json", owned=("shards", COUNTS), schema=2)

    def foreign_files(self) -> list[str]:
        """Names that we do not write, in the directory and among the shards."""
        shards = sorted((self.path / "shards").glob("*"))
        strange = [entry.name for entry in shards if not (is_temporary(entry) or _SHARD.fullmatch(entry.name))]
        return super().foreign_files() + [f"shards/{name}" for name in strange]

    def header(self) -> dict[str, Any] | None:
        """The manifest, None for a new directory; one without the keys that its status asks for is refused."""
        stored = self.read_manifest(("status", "columns"))
        # A run that is not finished has neither counts nor hashes yet.
        if stored is not None and stored["status"] == "complete":
            self.read_manifest(("rows", "shards", "counts", "files"))
        return stored

    def shard(self, number: int) -> Path:
        """Where a shard lies."""
        return self.path / "shards" / f"{number:06d}.parquet"

    @property
    def hash_file(self) -> Path:
        """Hashes of the shards of a run that is not finished, a line each; afterwards the manifest has them."""
        return self.path / "shards" / "evenli-hashes.txt"

    def read_hashes(self) -> dict[str, str]:
        """Name to hash of every shard that an unfinished run has written.

        A torn line names no shard, which is scored again then.
        """
        if not self.hash_file.is_file():
            return {}
        lines = (line.split() for line in split_lines(read_text(self.hash_file, fallback="latin-1")))
        return {line[1]: line[0] for line in lines if len(line) == 2}

    def add_hash(self, file: Path | None = None) -> None:
        """Remember the hash of a shard, or begin the list; a line is added, because that of a large corpus is long."""
        with self.writing():
            self.hash_file.parent.mkdir(exist_ok=True)
            with self.hash_file.open("a", encoding="utf-8") as stream:
                # The end of a line stands before it, so that a torn line does not swallow the next one.
                stream.write(f"\n{hash_files([file])} {file.name}" if file else "")


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
    # Shards whose hash was found right: percentiles read them several times, and hashing takes longer than reading.
    verified: set[str] = field(default_factory=set, repr=False, compare=False)

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
            raise RunError(
                f"{path} lacks {', '.join(missing[:3])}; score the corpus again and overwrite it (--overwrite)"
            )
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
        """The shards one after the other, all columns or those named; one that scores.json does not know is refused."""
        hashes = self.header.get("files", {})  # none while the run that wrote them counts its flags
        for file in self.shards:
            try:
                if hashes and file.name not in self.verified and hashes.get(file.name) != hash_files([file]):
                    raise InputError("the hash differs")
                self.verified.add(file.name)
                yield read_parquet(file, columns or None)
            except InputError as error:
                raise RunError(f"{file} is damaged; score the corpus again and overwrite it (--overwrite)") from error

    def gold_frames(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """The same without the rows that have no gold label."""
        for frame in self.frames([*columns, "no_gold"]):
            yield frame.filter(~frame["no_gold"])


@dataclass(frozen=True)
class Distribution:
    """Histograms over bins of equal width from 0 to the highest score; rows without gold label are left out."""

    # Borders of the bins, one more than there are bins; a score on a border lies in the bin above it.
    edges: NDArray[np.float64]
    rows: NDArray[np.int64]  # rows by their score, the largest Abs of their texts
    female: NDArray[np.int64]  # texts by F
    male: NDArray[np.int64]  # texts by -M
    thresholds: Mapping[float, float]  # percentiles of the row score, over rows with a gold label


def thresholds(
    scored: CorpusScores | str | Path, percentiles: Iterable[float], parts: Parts | None = None
) -> dict[float, float]:
    """Percentiles of the pair score over all pairs with a gold label, which ``parts`` gives where they are at hand."""
    scored = CorpusScores.read(scored)
    if scored.gold_rows == 0:
        raise InputError(f"{scored.path} has no row with a gold label")

    stored: Parts = lambda: (frame["pair_max"].to_numpy() for frame in scored.gold_frames(["pair_max"]))  # noqa: E731
    return percentiles_of(parts or stored, scored.gold_rows, percentiles)


def percentiles_of(parts: Parts, rows: int, percentiles: Iterable[float]) -> dict[float, float]:
    """Percentiles of any number of values, exactly as numpy's linear interpolation gives them.

    They rest on ``order_statistics``, so that memory does not depend on the number of values.
    """
    wanted = [float(percentile) for percentile in percentiles]
    wrong = [percentile for percentile in wanted if not 0 <= percentile <= 100]
    if wrong or not wanted:
        raise InputError(f"percentiles must lie between 0 and 100, not {', '.join(map(str, wrong)) or 'be missing'}")
    places = [(rows - 1) * (percentile / 100) for percentile in wanted]
    ranks = {rank for place in places for rank in (int(place), min(int(place) + 1, rows - 1))}
    ordered = order_statistics(parts, rows, ranks)
    exact = {}
    for percentile, place in zip(wanted, places, strict=True):
        nearest = ordered[int(place)], ordered[min(int(place) + 1, rows - 1)]
        exact[percentile] = float(np.quantile(nearest, place - int(place)))
    return exact


def order_statistics(parts: Parts, rows: int, ranks: Iterable[int]) -> dict[int, float]:
    """The values at some ranks of any number of values, counted from 0.

    Up to ``HELD_ROWS`` values are sorted at once. Of more, every pass finds the next ``_BITS`` bits of the value of
    each rank: it counts how the values go on that begin with the bits found so far.
    """
    if rows <= HELD_ROWS:
        values = np.concatenate([*parts()])
        values.sort()
        return {rank: float(values[rank]) for rank in ranks}
    # Of each rank the bits found, and its rank among the values that begin with them.
    found = {rank: (0, rank) for rank in ranks}
    for shift in range(64 - _BITS, -1, -_BITS):
        counts = {bits: np.zeros(1 << _BITS, dtype=np.int64) for bits, _ in found.values()}
        for part in parts():
            begin, go_on = np.divmod(_ordered_bits(part) >> np.uint64(shift), np.uint64(1 << _BITS))
            for bits, count in counts.items():
                count += np.bincount(go_on[begin == bits].astype(np.int64), minlength=1 << _BITS)
        for rank, (bits, within) in found.items():
            ends = np.cumsum(counts[bits])
            # The first bits with more than that many values up to theirs.
            at = int(np.searchsorted(ends, within, side="right"))
            found[rank] = (bits << _BITS) + at, within - int(ends[at] - counts[bits][at])
    bits_of = np.array([bits for bits, _ in found.values()], dtype=np.uint64)
    values = np.where(bits_of & _SIGN, bits_of ^ _SIGN, ~bits_of).view(np.float64)
    return dict(zip(found, values.tolist(), strict=True))


def _ordered_bits(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """The bits of numbers, changed so that as whole numbers they are in the same order."""
    bits = (values + 0.0).view(np.uint64)  # + 0.0: -0 is 0
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def distribution(
    scored: CorpusScores | str | Path, percentiles: Iterable[float] = PERCENTILES, *, bins: int = 60
) -> Distribution:
    """Count the scores of a corpus shard by shard, in memory that does not depend on its size."""
    if bins < 1:
        raise InputError(f"bins must be 1 or more, not {bins}")
    scored = CorpusScores.read(scored)
    # F and -M are at most Abs, so that the highest score of a row bounds all three.
    edges = np.linspace(0.0, float(scored.header["highest_pair_max"]) or 1.0, bins + 1)
    sides = {side: [f"{name}_{score}" for name in scored.columns] for side, score in SIDES.items()}
    columns = {"rows": ["pair_max"], **sides}
    counts = {name: np.zeros(bins, dtype=np.int64) for name in columns}
    for frame in scored.gold_frames([column for some in columns.values() for column in some]):
        for name, some in columns.items():
            for column in some:
                counts[name] += np.histogram(np.abs(frame[column].to_numpy()), edges)[0]
    return Distribution(edges=edges, **counts, thresholds=thresholds(scored, percentiles))


def top_sentences(scored: CorpusScores | str | Path, count: int = 10) -> dict[str, list[tuple[float, str]]]:
    """The ``count`` distinct sentences with the largest F and the lowest M, strongest first.

    Ties are broken by the text, so that the list does not depend on the order of the corpus. As everywhere else, rows
    without a gold label are left out.
    """
    scored = CorpusScores.read(scored)
    best: dict[str, dict[str, float]] = {side: {} for side in SIDES}
    scores = [f"{column}_{name}" for column in scored.columns for name in SIDES.values()]
    for frame in scored.gold_frames(["original", *scores]):
        for side, name in SIDES.items():
            # Sorted upwards, the strongest come first on either side.
            sign = -1 if side == "female" else 1
            for column in scored.columns:
                for text, value in _first(frame["original"], frame[f"{column}_{name}"], column, side, count):
                    best[side].setdefault(text, value)
            ranked = sorted((sign * value, text) for text, value in best[side].items())
            best[side] = {text: sign * value for value, text in ranked[:count]}
    return {side: [(value, text) for text, value in best[side].items()] for side in SIDES}


def _first(originals: pl.Series, values: pl.Series, column: str, side: str, count: int) -> Iterator[tuple[str, float]]:
    """The strongest texts of a column, until ``count`` distinct ones and all that tie with the last were seen."""
    seen: set[str] = set()
    last = 0.0
    for row in values.arg_sort(descending=side == "female"):
        value = float(values[row])
        if len(seen) >= count and value != last:
            return
        text = str(parse_json_object(originals[row], "scored corpus", halves=True)[column])
        if text not in seen:
            seen.add(text)
            last = value
            yield text, value
