"""Score every sentence of a corpus of any size, in constant memory.

A scored corpus is a folder:

scores.json            where the rows came from, who scored them, how many there are; status running or complete
shards/NNNNNN.parquet  the rows, in order, at most 50,000 in each

A shard has one line per row of the source: ``row`` (from 0), ``COLUMN_F``, ``COLUMN_M`` and ``COLUMN_Abs`` for each
text column, ``pair_max`` (the largest Abs of the row), the flags ``empty``, ``too_long``, ``invalid_utf8`` and
``no_gold``, and ``original``: the whole row of the source as JSON, so that later steps need no second file.

Where shards end depends on the source alone. A run that was killed therefore continues behind its last shard, and
neither the batch size nor the number of workers changes a byte of the result. That rests on the scorer: what it says
of a sentence must not depend on the sentences beside it.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evenli._locking import hold
from evenli._version import __version__
from evenli.errors import InputError, RunError
from evenli.sentences.source import (
    SourceFile,
    choose_columns,
    fingerprint,
    is_plain,
    parse,
    read_records,
    source_files,
)

if TYPE_CHECKING:
    import polars as pl

SCHEMA = 1
"""Version of scores.json and of the shards; raised when a column changes its meaning."""

SHARD_ROWS = 50_000
LONG_TEXT = 1_000_000
"""Characters of a text that are scored; a longer one is kept whole and flagged."""

_SHARD_BYTES = 64 << 20
_CACHED = 100_000
_CACHED_CHARACTERS = 1_000
_FLAGS = ("empty", "too_long", "invalid_utf8", "no_gold")
_SCORES = ("F", "M", "Abs")


class Scorer(Protocol):
    """Scores sentences one by one: the result for a sentence does not depend on its neighbours."""

    @property
    def identity(self) -> str:
        """What fixes the scores: method, vectors, word lists; two scorers of one identity agree."""

    def score_many(self, sentences: list[str], /) -> NDArray[np.float64]:
        """F, M and Abs of each sentence, shape [n, 3]."""


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
        header = _read_header(path)
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
        return [_shard_file(self.path, number) for number in range(int(self.header["shards"]))]

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


def score_corpus(
    source: str | Path,
    out: str | Path,
    scorer: Scorer,
    *,
    columns: Sequence[str] | None = None,
    batch: int = 4_096,
    on_progress: Callable[[int], None] | None = None,
    overwrite: bool = False,
) -> CorpusScores:
    """Score every text of a corpus and write the scored folder ``out``.

    The source is a JSON Lines, CSV, TSV, Parquet or plain text file (all but Parquet also as ``.gz`` or ``.xz``), a
    folder of such files or a glob pattern, on this machine or behind an address (``s3://bucket/folder``, see
    ``evenli.sentences.remote``); several files are read in the order of their names. In plain text each line is a row.
    Nothing is dropped: an empty text scores 0 and is flagged, bytes that are not UTF-8 are replaced and flagged, of a
    text with more than a million characters the first million is scored. Blank lines between JSON Lines are no rows.
    Rows whose gold label is ``-`` are scored and flagged ``no_gold``; percentiles and corpora leave them out.

    Args:
        source: File, folder or glob pattern; or the address of one.
        out: The folder to write; an unfinished one of the same job is continued.
        scorer: Gives F, M and Abs of sentences.
        columns: Text columns; by default premise and hypothesis under their usual names, else text or sentence.
        batch: Sentences handed to the scorer at once.
        on_progress: Called with the number of rows done, after each shard.
        overwrite: Start anew where ``out`` holds another or a finished scored corpus.
    """
    if batch < 1:
        raise InputError(f"batch must be 1 or more, not {batch}")
    job = Job.prepare(source, out, scorer.identity, columns)
    worker = Worker(scorer, job.columns, batch)
    with job.opened(overwrite=overwrite):
        for chunk in job.chunks():
            if not job.has(chunk):
                job.store(chunk.number, worker(chunk))
            if on_progress is not None:
                on_progress(chunk.start + len(chunk.records))
        return job.finish()


def corpus_texts(source: str | Path, columns: Sequence[str] | None = None) -> Iterator[str]:
    """Every text of a corpus, one after the other; the source and its columns are those of ``score_corpus``."""
    job = Job.prepare(source, Path(), "", columns)
    for chunk in job.chunks():
        for record, origin in zip(chunk.records, chunk.origins, strict=True):
            yield from parse(record, origin, job.columns, plain=chunk.plain).texts


@dataclass(frozen=True)
class Chunk:
    """The rows of one shard, not parsed yet.

    Attributes:
        number: Of the shard.
        start: Number of its first row.
        records: One row each: a JSON object, or the line of a plain text.
        origins: File and line of each record, for messages.
        plain: Whether the records are lines of plain text.
    """

    number: int
    start: int
    records: list[bytes]
    origins: list[tuple[str, int]]
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
        flags: dict[str, list[bool]] = {flag: [] for flag in _FLAGS}
        for record, origin in zip(chunk.records, chunk.origins, strict=True):
            row = parse(record, origin, names, plain=chunk.plain)
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
            table |= {f"{name}_{kind}": scores[index, :, place] for place, kind in enumerate(_SCORES)}
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
        nothing = (0.0, 0.0, 0.0)
        scores = np.array([known.get(text, nothing) for text in texts], dtype=np.float64)
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


class Job:
    """One corpus to score: its files, columns and output folder; both engines work through it."""

    def __init__(self, files: Sequence[SourceFile], out: Path, settings: Mapping[str, Any], *, plain: bool) -> None:
        self.out, self.columns = out, tuple(settings["columns"])
        self._files, self._settings, self._plain = files, settings, plain
        self._shards = self._rows = self._blank = 0

    @classmethod
    def prepare(cls, source: str | Path, out: str | Path, identity: str, columns: Sequence[str] | None) -> Job:
        """Look at the source: which files, which columns."""
        files = source_files(source)
        columns = tuple(columns) if columns is not None else None
        if columns is not None and (not columns or len(set(columns)) < len(columns)):
            raise InputError(f"columns must be different names, at least one, not {', '.join(columns) or 'none'}")
        kinds = {is_plain(file, columns) for file in files}
        if len(kinds) > 1:
            raise InputError(f"{source} mixes plain text with tables; score them one by one")
        found = choose_columns(files[0], columns)
        settings = {
            "schema": SCHEMA,
            "source": fingerprint(files),
            "scorer": identity,
            "columns": list(found),
            "shard_rows": SHARD_ROWS,
            "long_text": LONG_TEXT,
        }
        return cls(files, Path(out), settings, plain=kinds == {True})

    @contextlib.contextmanager
    def opened(self, *, overwrite: bool) -> Iterator[None]:
        """Hold the folder: new, unfinished of this very job, or cleared."""
        with _writing(self.out):
            stored = _read_header(self.out) if self.out.is_dir() else None
            self.out.mkdir(parents=True, exist_ok=True)
            lock = hold(self.out, f"another process is working in {self.out}; wait for it")
        with lock:
            # Read again: the process that held the lock a moment ago may have written.
            stored = _read_header(self.out)
            if stored is not None and overwrite:
                (self.out / "scores.json").unlink()
                shutil.rmtree(self.out / "shards", ignore_errors=True)
                stored = None
            if stored is not None:
                self._compare(stored)
            with _writing(self.out):
                (self.out / "shards").mkdir(exist_ok=True)
            if stored is None:
                self._write_header({"status": "running"})
            yield

    def chunks(self) -> Iterator[Chunk]:
        """The source, cut into the rows of one shard each."""
        self._shards = self._rows = self._blank = 0
        records: list[bytes] = []
        origins: list[tuple[str, int]] = []
        size = 0
        for file in self._files:
            choose_columns(file, self.columns)
            for line, record in read_records(file, plain=self._plain):
                if record is None:
                    self._blank += 1
                    continue
                records.append(record)
                origins.append((file.name, line))
                size += len(record)
                if len(records) == SHARD_ROWS or size >= _SHARD_BYTES:
                    yield self._chunk(records, origins)
                    records, origins, size = [], [], 0
        if records:
            yield self._chunk(records, origins)

    def _chunk(self, records: list[bytes], origins: list[tuple[str, int]]) -> Chunk:
        chunk = Chunk(self._shards, self._rows, records, origins, self._plain)
        self._shards += 1
        self._rows += len(records)
        return chunk

    def has(self, chunk: Chunk) -> bool:
        """Whether the shard of these rows is there and whole."""
        import polars as pl

        file = _shard_file(self.out, chunk.number)
        if not file.is_file():
            return False
        try:
            rows = pl.read_parquet(file, columns=["row"])["row"]
        except (OSError, pl.exceptions.PolarsError):
            return False
        return len(rows) == len(chunk.records) and rows[0] == chunk.start

    def store(self, number: int, content: bytes) -> None:
        """Write one shard under its final name in one step."""
        _replace(_shard_file(self.out, number), content)

    def finish(self) -> CorpusScores:
        """Count the flags, mark the folder complete."""
        if self._rows == 0:
            shutil.rmtree(self.out / "shards")
            (self.out / "scores.json").unlink()
            raise InputError(f"{self._files[0]} has no rows")
        scores = CorpusScores(self.out, {**self._settings, "rows": self._rows, "shards": self._shards})
        counts = dict.fromkeys(_FLAGS, 0)
        highest = 0.0
        for frame in scores.frames([*_FLAGS, "pair_max"]):
            for flag in _FLAGS:
                counts[flag] += int(frame[flag].sum())
            highest = max(highest, float(frame["pair_max"].to_numpy().max()))
        counts["blank_lines"] = self._blank
        self._write_header(
            {
                "status": "complete",
                "rows": self._rows,
                "shards": self._shards,
                "counts": counts,
                "highest_pair_max": highest,
            }
        )
        return CorpusScores.read(self.out)

    def _compare(self, stored: Mapping[str, Any]) -> None:
        different = [key for key, value in self._settings.items() if stored.get(key) != value]
        if different:
            raise RunError(
                f"{self.out} holds the scores of another job (other {', '.join(different)}); choose another folder "
                "or overwrite it"
            )

    def _write_header(self, more: Mapping[str, Any]) -> None:
        content = {**self._settings, "evenli": __version__, **more}
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        _replace(self.out / "scores.json", text.encode())


def _shard_file(out: Path, number: int) -> Path:
    return out / "shards" / f"{number:06d}.parquet"


def _read_header(out: Path) -> dict[str, Any] | None:
    """The stored header, None for a new folder; a foreign folder is refused."""
    file = out / "scores.json"
    if not file.is_file():
        if any(entry.name != ".lock" for entry in out.iterdir()):
            raise RunError(f"{out} is not empty and not a scored corpus; choose another folder")
        return None
    try:
        header = dict(json.loads(file.read_text(encoding="utf-8")))
        schema = int(header["schema"])
        needed = {"status", "columns"} | ({"rows", "shards", "counts"} if header["status"] == "complete" else set())
        if not needed <= header.keys():
            raise ValueError(f"no {', '.join(sorted(needed - header.keys()))}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{file} is not a readable header ({error}); choose another folder") from error
    if schema > SCHEMA:
        raise RunError(
            f"{out} was made by evenli {header.get('evenli', '?')} (schema {schema}); this is evenli {__version__} "
            f"(schema {SCHEMA}). Upgrade evenli or choose another folder"
        )
    return header


def _replace(file: Path, content: bytes) -> None:
    """Write a file under its final name in one step, on the disk before it is there."""
    with _writing(file.parent):
        temporary = file.with_name(f".{file.name}.tmp")
        with temporary.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(file)


@contextlib.contextmanager
def _writing(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(
            f"cannot write to {out}: {error.strerror or error}; finished shards are kept, run the same command again"
        ) from error
