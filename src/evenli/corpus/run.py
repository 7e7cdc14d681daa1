"""Score every sentence of a corpus of any size, in constant memory; ``evenli.corpus.scored`` describes the output.

Where shards end depends on the source alone. A killed run therefore continues after its last shard, and neither the
batch size nor the number of workers changes a byte of the result. That rests on the scorer: its score of a sentence
must not depend on the sentences beside it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evenli.corpus.scored import FLAGS, CorpusScores, ScoredDir
from evenli.corpus.shards import LONG_TEXT, Chunk, Scorer, Worker
from evenli.corpus.source import (
    Record,
    SourceFile,
    choose_columns,
    fingerprint,
    is_plain,
    parse,
    read_records,
    source_files,
)
from evenli.errors import InputError, RunError

SHARD_ROWS = 50_000
_SHARD_BYTES = 64 << 20


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
    """Score every text of a corpus and write the directory ``out``.

    The source is a JSON Lines, CSV, TSV, Parquet or plain text file (all but Parquet may be compressed), a directory of
    such files or a glob pattern, local or remote (``s3://bucket/folder``, see ``evenli.corpus.remote``); several files
    are read in the order of their names. In plain text each line is a row. Nothing is dropped: an empty text scores 0
    and is flagged, bytes that are not UTF-8 are replaced and flagged, of a text with more than a million characters the
    first million is scored. Blank lines between JSON Lines are not rows. Rows whose gold label is ``-`` are scored and
    flagged ``no_gold``; percentiles and fairer corpora leave them out.

    Args:
        source: File, directory or glob pattern; or the address of one.
        out: The output directory; an unfinished one of the same job is continued.
        scorer: Gives F, M and Abs of sentences.
        columns: Text columns; by default premise and hypothesis under their usual names, else text or sentence.
        batch: Sentences handed to the scorer at once.
        on_progress: Called with the number of rows done, after each shard.
        overwrite: Start again where ``out`` holds another or a finished scored corpus.
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
    """Every text of a corpus, one after the other; source and columns are those of ``score_corpus``."""
    job = Job.prepare(source, Path(), "", columns)
    for chunk in job.chunks():
        for record in chunk.records:
            yield from parse(record, job.columns, plain=chunk.plain).texts


class Job:
    """One corpus to score: its files, columns and output directory; both engines work through it."""

    def __init__(self, files: Sequence[SourceFile], out: Path, settings: Mapping[str, Any], *, plain: bool) -> None:
        self.run, self.columns = ScoredDir(out), tuple(settings["columns"])
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
        settings = {
            "source": fingerprint(files),
            "scorer": identity,
            "columns": list(choose_columns(files[0], columns)),
            "shard_rows": SHARD_ROWS,
            "long_text": LONG_TEXT,
        }
        return cls(files, Path(out), settings, plain=kinds == {True})

    @contextlib.contextmanager
    def opened(self, *, overwrite: bool) -> Iterator[None]:
        """Hold the directory: new, unfinished of this very job, or cleared."""
        with self.run.locked():
            stored = None if overwrite else self.run.header()
            if stored is not None:
                self._check_same_job(stored)
            else:
                # The old shards go before the manifest changes: it never describes the shards of another job.
                self.run.clear(["shards", ".scores.json.tmp"])
                self.run.write_manifest({**self._settings, "status": "running"})
            yield

    def _check_same_job(self, stored: Mapping[str, Any]) -> None:
        different = [key for key, value in self._settings.items() if stored.get(key) != value]
        if different:
            raise RunError(
                f"{self.run.path} holds the scores of another job (other {', '.join(different)}); choose another "
                "--out or pass --overwrite"
            )

    def chunks(self) -> Iterator[Chunk]:
        """The source, cut into the rows of one shard each."""
        self._shards = self._rows = self._blank = 0
        records: list[Record] = []
        size = 0
        for file in self._files:
            choose_columns(file, self.columns)
            for record in read_records(file, plain=self._plain):
                if record is None:
                    self._blank += 1
                    continue
                records.append(record)
                size += len(record.data)
                if len(records) == SHARD_ROWS or size >= _SHARD_BYTES:
                    yield self._chunk(records)
                    records, size = [], 0
        if records:
            yield self._chunk(records)

    def _chunk(self, records: list[Record]) -> Chunk:
        chunk = Chunk(self._shards, self._rows, records, self._plain)
        self._shards += 1
        self._rows += len(records)
        return chunk

    def has(self, chunk: Chunk) -> bool:
        """Whether the shard of these rows exists and is complete."""
        import polars as pl

        file = self.run.shard(chunk.number)
        if not file.is_file():
            return False
        try:
            rows = pl.read_parquet(file, columns=["row"])["row"]
        except (OSError, pl.exceptions.PolarsError):
            return False
        return len(rows) == len(chunk.records) and rows[0] == chunk.start

    def store(self, number: int, content: bytes) -> None:
        """Write one shard atomically."""
        self.run.write(str(self.run.shard(number).relative_to(self.run.path)), content)

    def finish(self) -> CorpusScores:
        """Count the flags and mark the directory complete."""
        if self._rows == 0:
            self.run.clear()
            raise InputError(f"{self._files[0]} has no rows")
        size = {"rows": self._rows, "shards": self._shards}
        counts, highest = dict.fromkeys(FLAGS, 0), 0.0
        for frame in CorpusScores(self.run.path, size).frames([*FLAGS, "pair_max"]):
            for flag in FLAGS:
                counts[flag] += int(frame[flag].sum())
            highest = max(highest, float(frame["pair_max"].to_numpy().max()))
        counts["blank_lines"] = self._blank
        done = {"status": "complete", **size, "counts": counts, "highest_pair_max": highest}
        self.run.write_manifest({**self._settings, **done})
        return CorpusScores.read(self.run.path)
