"""Score every sentence of a corpus of any size, in constant memory, into the folder of ``evenli.corpus.scored``.

Where shards end depends on the source alone. A run that was killed therefore continues behind its last shard, and
neither the batch size nor the number of workers changes a byte of the result. That rests on the scorer: what it says
of a sentence must not depend on the sentences beside it.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evenli._version import __version__
from evenli.corpus.scored import FLAGS, SCHEMA, CorpusScores, read_header, replace, shard_file, writing
from evenli.corpus.shards import LONG_TEXT, Chunk, Scorer, Worker
from evenli.corpus.source import SourceFile, choose_columns, fingerprint, is_plain, parse, read_records, source_files
from evenli.errors import InputError, RunError
from evenli.store import hold

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
    """Score every text of a corpus and write the scored folder ``out``.

    The source is a JSON Lines, CSV, TSV, Parquet or plain text file (all but Parquet also as ``.gz`` or ``.xz``), a
    folder of such files or a glob pattern, on this machine or behind an address (``s3://bucket/folder``, see
    ``evenli.corpus.remote``); several files are read in the order of their names. In plain text each line is a row.
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
        with writing(self.out):
            stored = read_header(self.out) if self.out.is_dir() else None
            self.out.mkdir(parents=True, exist_ok=True)
            lock = hold(self.out, f"another process is working in {self.out}; wait for it")
        with lock:
            # Read again: the process that held the lock a moment ago may have written.
            stored = read_header(self.out)
            if stored is not None and not overwrite:
                self._compare(stored)
            else:
                # Shards go before their header and come after it: a header never speaks of the shards of another job,
                # and a run killed in between leaves a folder that is still known as ours.
                with writing(self.out):
                    if (self.out / "shards").exists():
                        shutil.rmtree(self.out / "shards")
                self._write_header({"status": "running"})
            with writing(self.out):
                (self.out / "shards").mkdir(exist_ok=True)
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

        file = shard_file(self.out, chunk.number)
        if not file.is_file():
            return False
        try:
            rows = pl.read_parquet(file, columns=["row"])["row"]
        except (OSError, pl.exceptions.PolarsError):
            return False
        return len(rows) == len(chunk.records) and rows[0] == chunk.start

    def store(self, number: int, content: bytes) -> None:
        """Write one shard under its final name in one step."""
        replace(shard_file(self.out, number), content)

    def finish(self) -> CorpusScores:
        """Count the flags, mark the folder complete."""
        if self._rows == 0:
            shutil.rmtree(self.out / "shards")
            (self.out / "scores.json").unlink()
            raise InputError(f"{self._files[0]} has no rows")
        scores = CorpusScores(self.out, {**self._settings, "rows": self._rows, "shards": self._shards})
        counts = dict.fromkeys(FLAGS, 0)
        highest = 0.0
        for frame in scores.frames([*FLAGS, "pair_max"]):
            for flag in FLAGS:
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
        replace(self.out / "scores.json", text.encode())
