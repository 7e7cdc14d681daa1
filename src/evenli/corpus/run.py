"""Score every sentence of a corpus of any size, in constant memory; ``evenli.corpus.scored`` describes the output.

Where shards end depends on the source alone. A killed run therefore continues after its last shard, and neither the
batch size nor the number of workers changes a byte of the result. That rests on the scorer: its score of a sentence
must not depend on the sentences beside it.
"""

from __future__ import annotations

import contextlib
import io
import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.core.errors import InputError, RunError
from evenli.core.io import hash_files
from evenli.corpus.rows import KeptRows, plain_rows, plain_texts, table_rows, texts_of
from evenli.corpus.scored import COUNTS, FLAGS, SCORER_SETTINGS, SCORES, CorpusScores, ScoredDir
from evenli.corpus.settings import ReadSettings as ReadSettings
from evenli.corpus.source import (
    SourceRecord,
    choose_columns,
    fingerprint,
    is_plain,
    read_lines,
    read_records,
    source_files,
)

SHARD_ROWS = 50_000
_SHARD_BYTES = 64 << 20
LONG_TEXT = 1_000_000
"""Characters of a text that are scored; a longer one is kept whole and flagged."""
_BLOCK_ROWS = 500  # rows of a table that are read before they are counted
_CACHED = 100_000
_CACHED_CHARACTERS = 1_000


class Scorer(Protocol):
    """Scores sentences one by one: the result for a sentence does not depend on its neighbours."""

    @property
    def identity(self) -> str:
        """What fixes the scores: method, vectors, word lists; two scorers of one identity agree."""

    def score_many(self, sentences: list[str], /) -> NDArray[np.float64]:
        """F, M and Abs of each sentence, shape [n, 3]."""


def score_corpus(
    source: str | Path,
    out: str | Path,
    scorer: Scorer,
    settings: ReadSettings | None = None,
    *,
    on_progress: Callable[[int], None] | None = None,
    overwrite: bool = False,
) -> CorpusScores:
    """Score every text of a corpus and write the directory ``out``.

    The source is a JSON Lines, CSV, TSV, Parquet or plain text file (all but Parquet may be compressed), a directory of
    such files or a glob pattern, local or remote (``s3://bucket/folder``, see ``evenli.corpus.source``); several files
    are read in the order of their names. In plain text each line is a row. Nothing is dropped: an empty text scores 0
    and is flagged, bytes that are not UTF-8 are replaced and flagged, of a text with more than a million characters the
    first million is scored. Blank lines between JSON Lines are not rows. Rows whose gold label is ``-`` are scored and
    flagged ``no_gold``; percentiles and fairer corpora leave them out.

    ``on_progress`` is called with the number of rows done. An unfinished directory of the same job is continued;
    ``overwrite`` starts again in any scored corpus.
    """
    settings = settings or ReadSettings()
    job = Job(source, out, scorer.identity, settings)
    worker = Worker(scorer, job.columns, settings.batch)
    with job.opened(overwrite=overwrite):
        for rows in _work_through(job, worker):
            if on_progress is not None:
                on_progress(rows)
        return job.finish()


def _work_through(job: Job, worker: Worker) -> Iterator[int]:
    """Score and store the missing shards; the number of rows done, shard by shard.

    One shard is packed and written by a second thread while the next is scored: neither needs the interpreter. However
    this ends, a shard that was scored is stored.
    """
    with ThreadPoolExecutor(1) as writer:
        done, stored = 0, None
        for chunk in job.chunks():
            table = None if job.has(chunk) else worker(chunk)
            if stored is not None:
                stored.result()
                yield done
            done += len(chunk.records)
            stored = writer.submit(job.store, chunk.number, table)
        if stored is not None:
            stored.result()
            yield done


def corpus_texts(
    source: str | Path, columns: Sequence[str] | None = None, keep: KeptRows | None = None
) -> Iterator[str]:
    """Every text of a corpus, one after the other; source and columns are those of ``score_corpus``.

    ``keep`` gets the rows of a table or of JSON Lines, so that ``score_corpus`` need not parse them again.
    """
    job = Job(source, Path(), "", ReadSettings(columns))
    for chunk in job.chunks():
        if job.plain:
            # Only the texts are needed: to write each line as JSON would take as long as to count its words.
            yield from plain_texts(cast("list[bytes]", chunk.records))[0]
            continue
        rows = parse(chunk, job.columns)
        if keep is not None:
            keep.add(chunk.number, rows)
        for texts in zip(*texts_of(rows), strict=True):
            yield from texts
    if keep is not None:
        keep.blank = job.blank


class Chunk(NamedTuple):
    """The rows of one shard: lines of plain text, records, or parsed rows; ``start`` is the number of the first."""

    number: int
    start: int
    records: list[bytes] | list[SourceRecord] | pl.DataFrame


def parse(chunk: Chunk, columns: Sequence[str]) -> pl.DataFrame:
    """The rows of a chunk."""
    records: Any = chunk.records
    if isinstance(records, pl.DataFrame):
        return records
    return plain_rows(records) if isinstance(records[0], bytes) else table_rows(records, columns)


class Worker:
    """Turns chunks into the tables of shards; each distinct sentence of a chunk is scored once."""

    def __init__(self, scorer: Scorer, columns: Sequence[str], batch: int) -> None:
        self._scorer, self._columns, self._batch = scorer, tuple(columns), batch
        self._recent: dict[str, tuple[float, float, float]] = {}

    def __call__(self, chunk: Chunk) -> pl.DataFrame:
        """The shard as a table."""
        rows = parse(chunk, self._columns)
        # All columns in one list: a sentence that stands in two of them is scored once.
        flat = list(itertools.chain.from_iterable(texts_of(rows)))
        lengths = np.fromiter(map(len, flat), dtype=np.int64, count=len(flat))
        too_long = lengths > LONG_TEXT
        if too_long.any():
            flat = [text[:LONG_TEXT] for text in flat]
        shape = len(self._columns), rows.height
        scores = self._score(flat).reshape(*shape, 3)
        table: dict[str, Any] = {"row": np.arange(chunk.start, chunk.start + shape[1], dtype=np.int64)}
        for index, name in enumerate(self._columns):
            table |= {f"{name}_{kind}": scores[index, :, place] for place, kind in enumerate(SCORES)}
        table["pair_max"] = scores[:, :, 2].max(axis=0)
        empty = np.fromiter((not text or text.isspace() for text in flat), dtype=np.bool_, count=len(flat))
        table |= {"empty": empty.reshape(shape).any(axis=0), "too_long": too_long.reshape(shape).any(axis=0)}
        return pl.DataFrame({**table, **rows.select("invalid_utf8", "no_gold", "gold", "original").to_dict()})

    def _score(self, texts: list[str]) -> NDArray[np.float64]:
        # Such a scorer is faster than the search among the sentences of earlier shards.
        if getattr(self._scorer, "cheap", False):
            starts = range(0, len(texts), self._batch)
            return np.concatenate([self._checked(texts[start : start + self._batch]) for start in starts])
        known = {text: self._recent[text] for text in dict.fromkeys(texts) if text in self._recent}
        fresh = [text for text in dict.fromkeys(texts) if text not in known and text.strip()]
        for start in range(0, len(fresh), self._batch):
            part = fresh[start : start + self._batch]
            known.update(zip(part, map(tuple, self._checked(part).tolist()), strict=True))
        scores = np.array([known.get(text, (0.0, 0.0, 0.0)) for text in texts], dtype=np.float64)
        self._recent |= {text: known[text] for text in fresh if len(text) <= _CACHED_CHARACTERS}
        # A dictionary keeps its order, so the first entries are the oldest.
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


def _fitting(block: Sequence[bytes | SourceRecord], rows: int, size: int) -> tuple[int, int]:
    """How many rows of a block, and bytes, go into a shard with room for so many; its last row may exceed the bytes."""
    lengths = [len(row if isinstance(row, bytes) else row.data) for row in block[:rows]]
    total = sum(lengths)
    if total <= size:
        return len(lengths), total
    ends = itertools.accumulate(lengths)
    return next((count, end) for count, end in enumerate(ends, 1) if end >= size)


def parquet(table: pl.DataFrame) -> bytes:
    """A shard as the content of a file."""
    buffer = io.BytesIO()
    table.write_parquet(buffer, compression="zstd", statistics=False)
    return buffer.getvalue()


class Job:
    """One corpus to score: its files, columns and output directory; both engines work through it."""

    def __init__(self, source: str | Path, out: str | Path, identity: str, settings: ReadSettings) -> None:
        self._files = source_files(source)
        columns = tuple(settings.columns) if settings.columns is not None else None
        if columns is not None and (not columns or len(set(columns)) < len(columns)):
            raise InputError(f"columns must be different names, at least one, not {', '.join(columns) or 'none'}")
        kinds = {is_plain(file, columns) for file in self._files}
        if len(kinds) > 1:
            raise InputError(f"{source} mixes plain text with tables; score them one by one")
        self.run, self.columns = ScoredDir(out), choose_columns(self._files[0], columns)
        self.plain = kinds == {True}
        # What decides every byte of the result; a run that was begun with others is not continued.
        self._settings = {
            "source": fingerprint(self._files),
            "scorer": identity,
            "columns": list(self.columns),
            "shard_rows": SHARD_ROWS,
            "long_text": LONG_TEXT,
        }
        self._scorer, self._kept = settings.scorer, settings.kept
        self._shards = self._rows = self.blank = 0
        self._hashes: dict[str, str] = {}

    @contextlib.contextmanager
    def opened(self, *, overwrite: bool) -> Iterator[None]:
        """Hold the directory: new, unfinished of this very job, or cleared."""
        with self.run.locked():
            stored = None if overwrite else self.run.header()
            if stored is None:
                # The old shards go before the manifest changes: it never describes the shards of another job.
                self.run.clear(["shards", COUNTS])
                self.run.write_manifest({**self._settings, "status": "running"})
                self.run.add_hash()
            elif different := [key for key, value in self._settings.items() if stored.get(key) != value]:
                names = ", ".join(different)
                raise RunError(
                    f"{self.run.path} holds another job (other {names}); choose another or overwrite it (--overwrite)"
                )
            self._hashes = (stored or {}).get("files") or self.run.read_hashes()
            yield

    def chunks(self) -> Iterator[Chunk]:
        """The source, cut into the rows of one shard each."""
        self._shards = self._rows = self.blank = 0
        for records in self._shard_records():
            yield Chunk(self._shards, self._rows, records)
            self._shards, self._rows = self._shards + 1, self._rows + len(records)

    def _shard_records(self) -> Iterator[Any]:
        if self._kept is not None and not self.plain:
            self.blank = self._kept.blank
            yield from self._kept
            return
        records: list[Any] = []
        size = 0
        for block in self._blocks():
            # A block goes into one shard or into several; what does not fit begins the next one.
            while block:
                count, length = _fitting(block, SHARD_ROWS - len(records), _SHARD_BYTES - size)
                records += block[:count]
                size, block = size + length, block[count:]
                if len(records) == SHARD_ROWS or size >= _SHARD_BYTES:
                    yield records
                    records, size = [], 0
        if records:
            yield records

    def _blocks(self) -> Iterator[list[Any]]:
        """The rows of all files, many at a time: lines of plain text, or records."""
        for file in self._files:
            choose_columns(file, self.columns)
            if self.plain:
                yield from (lines for _, lines in read_lines(file))
                continue
            records = read_records(file)
            while block := list(itertools.islice(records, _BLOCK_ROWS)):
                rows = [record for record in block if record is not None]
                self.blank += len(block) - len(rows)
                yield rows

    def has(self, chunk: Chunk) -> bool:
        """Whether the shard of these rows exists and is the one that this job wrote."""
        file = self.run.shard(chunk.number)
        return file.is_file() and self._hashes.get(file.name) == hash_files([file])

    def store(self, number: int, shard: bytes | pl.DataFrame | None) -> None:
        """Write one shard, if any, atomically, then its hash: one that is killed in between is scored again."""
        if shard is not None:
            content = parquet(shard) if isinstance(shard, pl.DataFrame) else shard
            self.run.add_hash(self.run.write(str(self.run.shard(number).relative_to(self.run.path)), content))

    def finish(self) -> CorpusScores:
        """Count the flags and mark the directory complete."""
        if self._rows == 0:
            self.run.clear()
            raise InputError(f"{self._files[0]} has no rows")
        size = {"rows": self._rows, "shards": self._shards}
        scores = CorpusScores(self.run.path, size)
        # Hashing needs no interpreter, so that threads share the work; of many files it is most of what is left.
        with ThreadPoolExecutor() as pool:
            hashes = pool.map(hash_files, [[file] for file in scores.shards])
            files = {file.name: digest for file, digest in zip(scores.shards, hashes, strict=True)}
        written = self.run.read_hashes()
        if changed := [name for name, digest in files.items() if written.get(name, digest) != digest]:
            raise RunError(f"{', '.join(changed[:3])} changed after it was written; run the same command again")
        counts, highest = {**dict.fromkeys(FLAGS, 0), "blank_lines": self.blank}, 0.0
        for frame in scores.frames([*FLAGS, "pair_max"]):
            for flag in FLAGS:
                counts[flag] += int(frame[flag].sum())
            highest = max(highest, float(frame["pair_max"].to_numpy().max()))
        done = {"status": "complete", **size, "counts": counts, "highest_pair_max": highest, "files": files}
        scorer = {SCORER_SETTINGS: self._scorer} if self._scorer else {}
        self.run.write_manifest({**self._settings, **done, **scorer})
        self.run.hash_file.unlink(missing_ok=True)
        return CorpusScores.read(self.run.path)
