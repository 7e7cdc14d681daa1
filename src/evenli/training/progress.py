"""What a run shows and keeps: figures, a line on stderr, ``metrics.jsonl``, trackers, and its output directory."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from evenli.core.binary import read_tensors
from evenli.core.errors import InputError, RunError, system_failure, translated
from evenli.core.extras import need
from evenli.core.format import drawn_on, number, percent, printable
from evenli.core.io import read_text, split_lines, write_atomic
from evenli.core.parse import parse_json_object
from evenli.core.record import Estimate, RecordError
from evenli.core.store import RunDir, read_manifest
from evenli.stats.proportion import share_of

METRICS, CHECKPOINT = "metrics.jsonl", "checkpoint.safetensors"
_OF_SAFETENSORS = ".tmp??????"
"""Temporary files of the library, beside the file that it writes."""
Tracker = Callable[[dict[str, float], int], None]
_OWNED = (METRICS, "tensorboard", "wandb", CHECKPOINT, _OF_SAFETENSORS)
"""What an unfinished run may have left."""
_BROKEN = (OSError, InputError, RecordError, ValueError, KeyError, TypeError, AttributeError, RuntimeError)
_PAUSE = 10.0  # seconds between lines where stderr is a file

T = TypeVar("T")


def accuracy(logits: NDArray[np.float32], labels: NDArray[np.int64]) -> Estimate:
    """How often the largest logit is that of the gold label.

    >>> logits = np.eye(3, dtype=np.float32)[[0, 1, 2, 0]]
    >>> accuracy_text(accuracy(logits, np.array([0, 1, 2, 1])))
    '75.00% (95 % interval 30.06% to 95.44%, n = 4)'
    """
    return share_of(int((logits.argmax(axis=1) == labels).sum()), len(labels))


def accuracy_text(measured: Estimate) -> str:
    """An accuracy with its interval, for people."""
    share, low, high = (percent(value, 2) for value in (measured.value, measured.low, measured.high))
    return f"{share} (95 % interval {low} to {high}, n = {measured.n:,})"


@dataclass(frozen=True)
class Report:
    """Where a run is after some steps."""

    step: int  # steps taken since the start of the run
    epoch: int  # from 0
    loss: float  # mean over the pairs since the last report
    accuracy: float  # share of those pairs that were labelled right while training, dropout on
    lr: float  # of the last step
    pairs: int  # since the last report
    seconds: float  # since the last report

    @property
    def speed(self) -> float:
        """Pairs per second."""
        return self.pairs / max(self.seconds, 1e-9)


class ProgressLine:
    """Shows reports: one line rewritten in a terminal, a line now and then in a file, nothing if not ``shown``."""

    def __init__(self, *, shown: bool = True) -> None:
        self._shown, self._live = shown, sys.stderr.isatty()
        self._speed, self._last = 0.0, -_PAUSE

    def report(self, report: Report, trainer: Any) -> None:
        """Show where a trainer is, of whatever kind: its steps and its recipe are needed."""
        # The first reports contain compiling, so the average forgets quickly.
        self._speed = report.speed if not self._speed else 0.7 * self._speed + 0.3 * report.speed
        if not self._shown or (not self._live and time.monotonic() - self._last < _PAUSE):
            return
        self._last = time.monotonic()
        left = (trainer.steps - report.step) * trainer.recipe.batch_size / self._speed
        line = (
            f"epoch {report.epoch + 1}/{trainer.recipe.epochs}  step {report.step:,}/{trainer.steps:,}  "
            f"loss {number(report.loss, 4)}  accuracy {number(report.accuracy)}  "
            f"{self._speed:,.0f} pairs/s  {clock(left)} left"
        )
        shown, end = (f"\r{line}\033[K", "") if self._live else (line, "\n")
        print(shown, end=end, file=drawn_on(sys.stderr), flush=True)

    def note(self, text: str) -> None:
        """Print a remark on a line of its own."""
        if self._shown:
            text = printable(text)
            print(f"\r\033[K{text}" if self._live else text, file=drawn_on(sys.stderr), flush=True)


def clock(seconds: float) -> str:
    """A duration as people say it.

    >>> clock(75), clock(3 * 3600 + 120), clock(9)
    ('1 min 15 s', '3 h 2 min', '9 s')
    """
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


def _step(line: str) -> float:
    """The step of a line of figures, infinite where the line is damaged."""
    with contextlib.suppress(InputError, KeyError, TypeError, ValueError):
        return float(parse_json_object(line, METRICS)["step"])
    return math.inf


class Metrics:
    """Writes figures as they come; a run that continues after ``step`` writes later lines again."""

    def __init__(self, folder: Path, step: int, trackers: Sequence[Tracker] = ()) -> None:
        self._path, self._trackers = folder / METRICS, trackers
        if self._path.is_file():
            # A killed process may leave the beginning of a line.
            kept = [line for line in split_lines(read_text(self._path)) if _step(line) <= step]
            write_atomic(self._path, "".join(f"{line}\n" for line in kept))

    def add(self, step: int, epoch: int, **figures: float) -> None:
        """Write figures of some steps, or of an epoch, and tell the trackers."""
        with system_failure(f"cannot write {self._path}: "), self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"step": step, "epoch": epoch, **figures}) + "\n")
        for track in self._trackers:
            track(figures, step)


@contextmanager
def make_trackers(names: Sequence[str], folder: Path, settings: dict[str, Any]) -> Iterator[list[Tracker]]:
    """Functions that take figures by name and their step; what they write to is closed at the end of the block."""
    trackers: list[Tracker] = []
    with ExitStack() as stack:
        for name in names:
            library = need(name, extra="tracking", purpose=f"logging to {name}")
            if name == "tensorboard":
                from torch.utils.tensorboard import SummaryWriter

                trackers.append(partial(_to_tensorboard, stack.enter_context(SummaryWriter(str(folder / name)))))
            elif name == "wandb":
                # Offline unless the user's environment says otherwise; `wandb sync` uploads the run later.
                place = {"project": "evenli", "name": folder.name, "dir": str(folder)}
                mode = os.environ.get("WANDB_MODE", "offline")
                run = stack.enter_context(library.init(**place, config=settings, mode=mode, reinit="create_new"))
                trackers.append(run.log)
            else:
                # Nested in a run of the caller's, if there is one; a run that fails is marked as such.
                stack.enter_context(library.start_run(run_name=folder.name, nested=True))
                library.log_params(settings)
                trackers.append(library.log_metrics)
        yield trackers


def _to_tensorboard(writer: Any, figures: dict[str, float], step: int) -> None:
    for name, value in figures.items():
        writer.add_scalar(name, value, step)
    writer.flush()


class TrainingDir(RunDir):
    """The directory of one run, of an NLI model or of an encoder.

    While the run lasts there is a checkpoint, afterwards a manifest. Either says that the directory is ours. Without
    them only the files of a run that was killed before its first checkpoint are accepted: a directory with a model
    that was trained elsewhere is never written to. A run continues only if its whole ``identity``, everything the
    result depends on, is the same.
    """

    def __init__(self, path: str | Path, *, kind: str, identity: Mapping[str, Any]) -> None:
        super().__init__(path, kind=kind, manifest="training.json", owned=_OWNED, schema=2, option="directory (-o)")
        self.identity = dict(identity)
        self.checkpoint = self.path / CHECKPOINT

    def is_ours(self) -> bool:
        """Whether there is a record or a checkpoint; whether it can be used is seen when it is read."""
        return self.exists() or self.checkpoint.is_file()

    def finished(self, parse: Callable[[dict[str, Any]], T]) -> T | None:
        """What ``parse`` makes of the record of this run, None if the run is not finished."""
        if not self.exists():
            return None
        with self._reading(self.manifest_file):
            record = read_manifest(self.manifest_file, kind=self.kind, schema=self.schema)
            self._check_identity(record["identity"])
            outcome = parse(record)
        # Left where the process was killed between the record and this: it is as large as three models.
        with contextlib.suppress(OSError):
            self.checkpoint.unlink(missing_ok=True)
        return outcome

    @contextmanager
    def resuming(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]] | None]:
        """Tensors and facts of this run's checkpoint, None if there is none; a block that fails says it is damaged."""
        if not self.checkpoint.is_file():
            yield None
            return
        with self._reading(self.checkpoint):
            tensors, about = read_tensors(self.checkpoint)
            facts = parse_json_object(about["evenli"], self.checkpoint.name)
            self._check_identity(facts["identity"])
            yield tensors, facts

    def save_checkpoint(self, tensors: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """Replace the checkpoint atomically; ``facts`` are plain values: where the run is, results so far."""
        from safetensors.torch import save_file

        # Temporary files of killed processes, ours and those of safetensors, are as large as a checkpoint.
        self.clear([_OF_SAFETENSORS])
        about = {"evenli": json.dumps({"identity": self.identity, **facts})}
        self.write(CHECKPOINT, lambda file: save_file(dict(tensors), file, metadata=about))

    @contextmanager
    def finishing(self, record: Mapping[str, Any]) -> Iterator[Path]:
        """A directory whose files are moved in at the end of the block; then the record is written.

        The checkpoint is deleted last: whenever the process is killed, the same command can complete the run.
        """
        # Not ``store.replacing``, which exchanges the directory: its checkpoint has to outlive the record.
        staging = self.path / ".result.partial.d"
        with self.writing():
            try:
                shutil.rmtree(staging, ignore_errors=True)
                staging.mkdir()
                yield staging
                for file in sorted(staging.iterdir()):
                    file.replace(self.path / file.name)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
        self.write_manifest({"identity": self.identity, **record})
        self.clear([f"{CHECKPOINT}*"])

    def _reading(self, file: Path) -> AbstractContextManager[None]:
        advice = f"); choose another {self.option} or delete it"
        return translated(f"{file} is damaged or not of a {self.kind} (", advice, into=RunError, kinds=_BROKEN)

    def _check_identity(self, before: Mapping[str, Any]) -> None:
        """Refuse to continue another run, and say what is different."""
        if changed := changes(before, self.identity):
            what = f"{self.path} holds another run ({changed})"
            raise RunError(f"{what}; choose another {self.option} or delete the directory")


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What differs, as text, a hash by its first digits; only what is given now is compared."""

    def short(value: Any) -> Any:
        return f"{value[:12]}…" if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) else value

    return "; ".join(
        f"{name} was {short(before.get(name, 'not recorded'))}, now {short(value)}"
        for name, value in now.items()
        if before.get(name, ...) != value
    )
