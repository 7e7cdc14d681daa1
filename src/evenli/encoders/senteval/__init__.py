"""Run SentEval: choose tasks, continue what a file holds, encode every text once, report progress."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import msgspec

from evenli.audit.models.loading import pick_device
from evenli.core.errors import EvenliError, InputError, RunError, system_failure, translated
from evenli.core.extras import need
from evenli.core.format import number
from evenli.core.io import read_json, to_plain, write_json
from evenli.core.record import Number, Numbers, Record
from evenli.core.store import check_writable, is_stamped
from evenli.encoders.base import EmbeddingCache, Encoder, as_encoder, check_reusable
from evenli.encoders.senteval.data import TASKS, read_task, task_folder
from evenli.encoders.settings import EVERY
from evenli.encoders.settings import SentEvalSettings as SentEvalSettings

_ADVICE = "give another file, or overwrite it (--overwrite)"
DEFAULTS = SentEvalSettings()
OnStep = Callable[[str, str], None]


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

    stamped: ClassVar[str] = "SentEval result"
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


def senteval(
    encoder: Encoder | str,
    data: str | Path,
    settings: SentEvalSettings = DEFAULTS,
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    cache: str | Path | None = None,
    name: str | None = None,
    on_step: OnStep = lambda task, line: None,
) -> SentEvalResult:
    """Evaluate an encoder on the SentEval tasks (Conneau and Kiela 2018; the twelve of Dolci et al. 2023).

    A task whose files are not there, or broken, is reported in ``missing`` with the reason, and the others run. A
    task's result depends on the seed and its own data, not on which tasks run beside it.

    Args:
        encoder: Anything with ``encode(texts)`` that gives [n, d], or a spec as ``load_encoder`` takes it.
        data: Directory with the task files, flat or as SentEval's download lays them out.
        settings: Tasks, seed, folds and classifier.
        out: JSON file, written after every task; tasks in it are not run again, and are part of the result.
        overwrite: Begin anew, whatever ``out`` holds.
        cache: Directory to keep the embeddings in.
        name: What the result calls the encoder; default: its identity.
        on_step: Called with a task and an empty text when it starts, and with what it gave when it is done.

    Raises:
        UnsavedResultError: ``out`` cannot be written at the end; the error holds the result.
    """
    device = pick_device(need("torch", extra="hf", purpose="SentEval"), settings.device)
    settings, data = dataclasses.replace(settings, device=device), task_folder(data)
    file = None if out is None else Path(out)
    if file is not None:
        check_writable(file)
    encoder = as_encoder(encoder)
    if cache is not None or not isinstance(encoder, EmbeddingCache):
        encoder = EmbeddingCache(encoder, cache, batch=settings.batch_size)
    name = name or encoder.identity
    # What scores depend on besides the data.
    description = {field: getattr(settings, field) for field in ("seed", "kfold", "hidden", "classifier")}
    description["encoder"] = encoder.identity
    done = {} if file is None or overwrite or not file.exists() else _kept(file, description, data)
    if done:
        check_reusable(encoder, f"the tasks in {file} may be of the old one; {_ADVICE}")
        for task in done:
            on_step(task, f"{task}: kept from {file}")
    missing: dict[str, str] = {}

    def saved() -> SentEvalResult:
        tasks = {task: done[task] for task in EVERY if task in done}
        result = SentEvalResult(tasks, missing, description, name)
        try:
            if file is not None:
                write_json(file, result.to_dict())
        except RunError as error:
            raise UnsavedResultError(str(error), result) from error
        return result

    for task in (task for task in settings.names if task not in done):
        outcome = _run_task(task, data, encoder, settings, on_step)
        if isinstance(outcome, str):
            missing[task] = outcome
            continue
        done[task] = outcome
        try:
            saved()
        except UnsavedResultError as error:  # the tasks to come are worth having all the same
            on_step(task, f"{task}: {error}")
    return saved()


def _kept(file: Path, settings: Mapping[str, int | str], folder: Path) -> dict[str, TaskResult]:
    """Tasks that are in a file already; a file of another encoder, other settings or other data is refused."""
    stored = None
    with system_failure(f"cannot read {file}: "), suppress(EvenliError, ValueError, KeyError, TypeError):
        content = read_json(file)
        stored = SentEvalResult.from_dict(content) if is_stamped(content, SentEvalResult.stamped) else None
    if stored is None:
        raise InputError(f"{file} holds no SentEval result to continue; {_ADVICE}")
    # Scores of other settings or data in one file would be averaged without notice.
    for setting, now in settings.items():
        if (then := stored.settings.get(setting)) != now:
            what = "another encoder" if setting == "encoder" else f"{setting} {then}, not {now}"
            raise InputError(f"{file} holds a result with {what}; {_ADVICE}")
    for task, result in stored.tasks.items():
        before = f"{file} holds {task}, which cannot be compared: "
        with translated(before, f"; {_ADVICE}", kinds=(InputError,)):
            read = read_task(task, folder)
        if read.sha256 != result.data:
            raise InputError(f"{file} holds {task} on other data than {folder} has; {_ADVICE}")
    return dict(stored.tasks)


def _run_task(
    name: str, data: Path, store: EmbeddingCache, settings: SentEvalSettings, on_step: OnStep
) -> TaskResult | str:
    """The result, or why there is none: a broken task does not stop the others."""
    from evenli.encoders.senteval.fitting import run_task

    try:
        task = read_task(name, data)
    except InputError as error:
        return str(error)
    on_step(name, "")
    started, before = time.perf_counter(), store.encoded
    # An encoder that fails is no fault of the task: it stops the run.
    embeddings = store.encode(task.texts + task.others)
    try:
        result = msgspec.structs.replace(run_task(task, embeddings, settings), data=task.sha256)
    except InputError as error:  # too few rows for the folds
        return f"{name}: {error}"
    cost = f"{time.perf_counter() - started:.1f} s, {store.encoded - before:,} texts encoded"
    on_step(name, f"{name} {number(result.score, 2)} ({cost})")
    return result
