"""Run SentEval: choose tasks, continue what a file holds, encode every text once, report progress."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import msgspec
import numpy as np

from evenli.audit.models.loading import pick_device
from evenli.core.errors import InputError, ModelError, RunError
from evenli.core.extras import need
from evenli.core.format import number
from evenli.core.io import read_json, to_plain, write_json
from evenli.core.record import Number, Numbers, Record
from evenli.core.store import check_writable, is_stamped
from evenli.encoders.base import (
    EmbeddingCache,
    Embeddings,
    Encoder,
    as_encoder,
    check_reusable,
    encode_checked,
    name_of,
)
from evenli.encoders.senteval.data import TASKS, read_task, task_folder
from evenli.encoders.settings import EVERY
from evenli.encoders.settings import SentEvalSettings as SentEvalSettings

KIND = "SentEval result"
_ADVICE = "give another file, or overwrite it (--overwrite)"


DEFAULTS = SentEvalSettings()


class TaskResult(Record, frozen=True):
    """One task.

    Attributes:
        score: The number that counts for the mean, in percent: accuracy, or 100 times Pearson's r; NaN if undefined.
        metrics: All numbers, in percent as well.
        dev: What the search or the early stop saw, in percent; NaN in STS12 to STS16, which have no training.
        n: Rows tested.
        note: Why the score is undefined, and how many pairs have no human score.
        data: Hash of the texts and answers it was computed on.
    """

    name: str
    score: Number
    metrics: Numbers
    dev: Number
    n: int
    note: str = ""
    data: str = ""


class SentEvalResult(Record, frozen=True):
    """All tasks that ran, the tasks that did not with the reason, the settings and the name of the encoder."""

    stamped: ClassVar[str] = KIND
    computed: ClassVar[Mapping[str, str]] = {"overall": "overall"}

    tasks: dict[str, TaskResult]
    missing: dict[str, str] = msgspec.field(default_factory=dict)
    settings: dict[str, int | str] = msgspec.field(default_factory=dict)
    encoder: str = ""

    def __getitem__(self, name: str) -> TaskResult:
        return self.tasks[name]

    def __repr__(self) -> str:
        mean = "" if self.overall is None else f", mean {number(self.overall, 2)}"
        return f"SentEvalResult({len(self.tasks)} tasks{mean}, {len(self.missing)} missing)"

    @property
    def overall(self) -> float | None:
        """Mean of the twelve scores; None unless all of them are there."""
        # NaN passes through the sum: one missing or undefined task leaves no mean.
        scores = [self.tasks[name].score if name in self.tasks else math.nan for name in TASKS]
        mean: float | None = to_plain(sum(scores) / len(scores), None)
        return mean


class UnsavedResultError(RunError):
    """The result could not be written; ``result`` holds it."""

    def __init__(self, message: str, result: SentEvalResult) -> None:
        super().__init__(message)
        self.result = result


class ResultFile:
    """A result file that is written after every task, so that a stopped run continues where it was.

    That it can be written is checked here. ``overwrite`` begins anew, whatever it holds.
    """

    def __init__(self, path: str | Path, *, overwrite: bool = False) -> None:
        self.path, self._overwrite = Path(path), overwrite
        check_writable(self.path)

    def tasks(self, settings: Mapping[str, int | str], folder: Path) -> dict[str, TaskResult]:
        """Tasks that are in the file already; a file of another encoder, other settings or other data is refused."""
        if self._overwrite or not self.path.exists():
            return {}
        # Scores of other settings or data in one file would be averaged without notice.
        stored = self._read()
        for setting, now in settings.items():
            if (then := stored.settings.get(setting)) != now:
                what = "another encoder" if setting == "encoder" else f"{setting} {then}, not {now}"
                raise InputError(f"{self.path} holds a result with {what}; {_ADVICE}")
        for task, result in stored.tasks.items():
            try:
                same = read_task(task, folder).sha256 == result.data
            except InputError as error:
                raise InputError(f"{self.path} holds {task}, which cannot be compared: {error}; {_ADVICE}") from error
            if not same:
                raise InputError(f"{self.path} holds {task} on other data than {folder} has; {_ADVICE}")
        return dict(stored.tasks)

    def _read(self) -> SentEvalResult:
        try:
            content = read_json(self.path)
            if is_stamped(content, KIND):
                return SentEvalResult.from_dict(content)
        except OSError as error:
            raise RunError(f"cannot read {self.path}: {error.strerror or error}") from error
        except (InputError, ValueError, KeyError, TypeError, RunError):
            pass
        raise InputError(f"{self.path} holds no SentEval result to continue; {_ADVICE}")


@dataclass(frozen=True)
class TaskProgress:
    """Where a run is; ``str`` makes a line of it."""

    task: str
    result: TaskResult | None = None  # when the task starts
    seconds: float = 0.0
    encoded: int = 0  # texts that the encoder was asked for
    remark: str = ""  # that the result is an old one, or that it could not be written

    def __str__(self) -> str:
        if self.remark:
            return f"{self.task}: {self.remark}"
        if self.result is None:
            return f"{self.task} …"
        return f"{self.task} {number(self.result.score, 2)} ({self.seconds:.1f} s, {self.encoded:,} texts encoded)"


OnProgress = Callable[[TaskProgress], None]


def senteval(
    encoder: Encoder | str,
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
        encoder: Anything with ``encode(texts)`` that gives [n, d], or a spec as ``load_encoder`` takes it.
        data: Directory with the task files, flat or as SentEval's download lays them out.
        settings: Tasks, seed, folds and classifier.
        out: JSON file, written after every task; tasks in it are not run again, and are part of the result.
        cache: An EmbeddingCache of this encoder, or a directory to keep its embeddings in.
        name: What the result calls the encoder; default: its identity.
        on_progress: Called when a task starts and when it is done.

    Raises:
        UnsavedResultError: ``out`` cannot be written at the end; the error holds the result.
    """
    device = pick_device(need("torch", extra="hf", purpose="SentEval"), settings.device)
    settings, data = dataclasses.replace(settings, device=device), task_folder(data)
    file = out if isinstance(out, ResultFile) or out is None else ResultFile(out)
    encoder, report = as_encoder(encoder), on_progress or (lambda progress: None)
    store = _cache_of(encoder, cache, settings.batch_size)
    description, name = settings.describe(store.identity), name or store.identity
    done = {} if file is None else _kept(file, description, data, encoder, report)
    missing: dict[str, str] = {}

    def result() -> SentEvalResult:
        return SentEvalResult({task: done[task] for task in EVERY if task in done}, missing, description, name)

    for task in (task for task in settings.names if task not in done):
        outcome = _run_task(task, data, store, settings, report)
        if isinstance(outcome, str):
            missing[task] = outcome
            continue
        done[task] = outcome
        try:
            _write(file, result())
        except UnsavedResultError as error:  # the tasks to come are worth having all the same
            report(TaskProgress(task, outcome, remark=str(error)))
    return _write(file, result())


def _kept(
    file: ResultFile, description: Mapping[str, int | str], data: Path, encoder: Encoder, report: OnProgress
) -> dict[str, TaskResult]:
    """The tasks that a file holds already."""
    done = file.tasks(description, data)
    if done:
        check_reusable(encoder, f"the tasks in {file.path} may be of the old one; {_ADVICE}")
    for task, kept in done.items():
        report(TaskProgress(task, kept, remark=f"kept from {file.path}"))
    return done


def _write(file: ResultFile | None, result: SentEvalResult) -> SentEvalResult:
    try:
        if file is not None:
            write_json(file.path, result.to_dict())
    except RunError as error:
        raise UnsavedResultError(str(error), result) from error
    return result


def _run_task(
    name: str, data: Path, store: EmbeddingCache, settings: SentEvalSettings, report: OnProgress
) -> TaskResult | str:
    """The result, or why there is none: a broken task does not stop the others."""
    from evenli.encoders.senteval.fitting import run_task

    try:
        task = read_task(name, data)
    except InputError as error:
        return str(error)
    report(TaskProgress(name))
    started, before = time.perf_counter(), store.encoded
    # An encoder that fails is no fault of the task: it stops the run.
    embeddings = store.encode(task.texts + task.others)
    try:
        result = msgspec.structs.replace(run_task(task, embeddings, settings), data=task.sha256)
    except InputError as error:  # too few rows for the folds
        return f"{name}: {error}"
    report(TaskProgress(name, result, time.perf_counter() - started, store.encoded - before))
    return result


def _cache_of(encoder: Encoder, cache: EmbeddingCache | str | Path | None, batch_size: int | None) -> EmbeddingCache:
    if isinstance(encoder, EmbeddingCache) and cache is None:
        return encoder
    if isinstance(cache, EmbeddingCache):
        if encoder is not cache and encoder is not cache.encoder:
            raise InputError("the cache is one of another encoder; give that of this one, or a directory")
        return cache
    return EmbeddingCache(_Batched(encoder, batch_size) if batch_size else encoder, cache)


class _Batched:
    """An encoder that is asked for some texts at a time, of similar length."""

    def __init__(self, encoder: Encoder, size: int) -> None:
        self.encoder, self._size = encoder, size
        self.identity = getattr(encoder, "identity", None)

    def encode(self, texts: Sequence[str]) -> Embeddings:
        # Texts of similar length need little padding.
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        parts = [order[start : start + self._size] for start in range(0, len(order), self._size)]
        batches = [encode_checked(self.encoder, [texts[row] for row in part]) for part in parts]
        widths = sorted({batch.shape[1] for batch in batches})
        if len(widths) > 1:
            name = name_of(self.encoder)
            raise ModelError(f"{name} gave rows of {widths[0]} and of {widths[-1]} numbers; give all one length")
        return np.concatenate(batches)[np.argsort(order)]
