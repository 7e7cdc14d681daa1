"""Run SentEval: choose tasks, continue what a file holds, encode every text once, report progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from evenli._extras import need
from evenli.encoders.base import Embeddings, Encoder, encode_checked, name_of
from evenli.encoders.cache import EmbeddingCache
from evenli.errors import InputError, ModelError, RunError
from evenli.evaluate.senteval.data import TASKS, read_task, task_folder
from evenli.evaluate.senteval.results import DEFAULTS, SentEvalResult, SentEvalSettings, TaskResult
from evenli.evaluate.senteval.stored import ResultFile


@dataclass(frozen=True)
class TaskProgress:
    """Where a run is; ``str`` makes a line of it.

    Attributes:
        task: Name of the task.
        result: Its result; None when it starts.
        seconds: What it took.
        encoded: Texts that the encoder was asked for.
        remark: That the result is an old one, or that it could not be written.
    """

    task: str
    result: TaskResult | None = None
    seconds: float = 0.0
    encoded: int = 0
    remark: str = ""

    def __str__(self) -> str:
        if self.remark:
            return f"{self.task}: {self.remark}"
        if self.result is None:
            return f"{self.task} …"
        return f"{self.task} {self.result.score:.2f} ({self.seconds:.1f} s, {self.encoded:,} texts encoded)"


OnProgress = Callable[[TaskProgress], None]


def senteval(
    encoder: Encoder,
    data: str | Path,
    settings: SentEvalSettings = DEFAULTS,
    *,
    out: ResultFile | str | Path | None = None,
    cache: EmbeddingCache | str | Path | None = None,
    name: str | None = None,
    on_progress: OnProgress | None = None,
) -> SentEvalResult:
    """Evaluate an encoder on the SentEval tasks (Conneau and Kiela 2018; the twelve of Dolci et al. 2023).

    A task whose files are not there, or broken, is reported in ``missing`` with the reason, and the others run. A
    task's result depends on the seed and its own data, not on which tasks run beside it.

    Args:
        encoder: Anything with ``encode(texts)`` that gives [n, d].
        data: Directory with the task files, flat or as SentEval's download lays them out.
        settings: Tasks, seed, folds and classifier.
        out: JSON file, written after every task; tasks in it are not run again, and are part of the result.
        cache: An EmbeddingCache of this encoder, or a directory to keep its embeddings in.
        name: What the result calls the encoder; default: its identity.
        on_progress: Called when a task starts and when it is done.

    Raises:
        UnsavedResultError: ``out`` cannot be written at the end; the error holds the result.
    """
    need("torch", extra="hf", purpose="SentEval")
    from evenli.evaluate.senteval.tasks import TaskRunner

    data = task_folder(data)
    file = out if isinstance(out, ResultFile) or out is None else ResultFile(out)
    store = _cache_of(encoder, cache, settings)
    description, name = settings.describe(store.identity), name or store.identity
    report = on_progress or (lambda progress: None)
    done = {} if file is None else file.open(name, description, data)
    for task, kept in done.items():
        report(TaskProgress(task, kept, remark=f"kept from {getattr(file, 'path', '')}"))
    missing, runner = dict[str, str](), TaskRunner(settings)
    for task in settings.names:
        outcome = done.get(task) or _run_task(task, data, store, runner, report)
        if isinstance(outcome, str):
            missing[task] = outcome
        elif task not in done:
            done[task] = outcome
            _save(file, outcome, report)
    everything = SentEvalResult({task: done[task] for task in TASKS if task in done}, missing, description, name)
    if file is not None:
        file.finish(everything)
    return everything


def _run_task(name: str, data: Path, store: EmbeddingCache, runner: Any, report: OnProgress) -> TaskResult | str:
    """The result, or why there is none: a broken task does not stop the others."""
    try:
        task = read_task(name, data)
    except InputError as error:
        return str(error)
    report(TaskProgress(name))
    started, before = time.perf_counter(), store.encoded
    # An encoder that fails is no fault of the task: it stops the run.
    embeddings = store.encode(task.texts + task.others)
    try:
        result: TaskResult = replace(runner.run(task, embeddings), data=task.sha256)
    except InputError as error:  # too few rows for the folds
        return f"{name}: {error}"
    report(TaskProgress(name, result, time.perf_counter() - started, store.encoded - before))
    return result


def _save(file: ResultFile | None, result: TaskResult, report: OnProgress) -> None:
    try:
        if file is not None:
            file.add(result)
    except RunError as error:  # the tasks to come are worth having all the same
        report(TaskProgress(result.name, result, remark=str(error)))


def _cache_of(
    encoder: Encoder, cache: EmbeddingCache | str | Path | None, settings: SentEvalSettings
) -> EmbeddingCache:
    if isinstance(encoder, EmbeddingCache) and cache is None:
        return encoder
    if isinstance(cache, EmbeddingCache):
        if encoder is not cache and encoder is not cache.encoder:
            raise InputError("the cache is one of another encoder; give that of this one, or a directory")
        return cache
    return EmbeddingCache(_Batched(encoder, settings.batch_size) if settings.batch_size else encoder, cache)


class _Batched:
    """An encoder that is asked for some texts at a time, of similar length."""

    def __init__(self, encoder: Encoder, size: int) -> None:
        self._encoder, self._size = encoder, size
        self.identity = getattr(encoder, "identity", None)

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """[n, d]."""
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        parts = [order[start : start + self._size] for start in range(0, len(order), self._size)]
        batches = [encode_checked(self._encoder, [texts[row] for row in part]) for part in parts]
        widths = sorted({batch.shape[1] for batch in batches})
        if len(widths) > 1:
            raise ModelError(
                f"{name_of(self._encoder)} gave rows of {widths[0]} and of {widths[-1]} numbers; give all one length"
            )
        return np.concatenate(batches)[np.argsort(order)]
