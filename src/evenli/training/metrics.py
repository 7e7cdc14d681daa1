"""The figures of a run: lines of ``metrics.jsonl`` and, if asked for, TensorBoard or MLflow."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from evenli._extras import need
from evenli.errors import InputError, RunError
from evenli.training.card import Accuracy
from evenli.training.progress import Report
from evenli.training.run_dir import METRICS

Tracker = Callable[[dict[str, float], int], None]
TRACKERS = ("tensorboard", "mlflow")


class Metrics:
    """Writes figures as they come.

    Args:
        folder: Output directory; lines after ``step``, which a continued run writes again, are dropped.
        step: Where the run begins or continues.
        trackers: Also get the figures.
    """

    def __init__(self, folder: Path, step: int, trackers: Sequence[Tracker] = ()) -> None:
        self._path, self._trackers = folder / METRICS, trackers
        if self._path.is_file():
            lines = self._path.read_text(encoding="utf-8").splitlines()
            # A killed process may leave the beginning of a line.
            kept = [line for line in lines if line.endswith("}") and json.loads(line)["step"] <= step]
            self._path.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")

    def add_steps(self, report: Report) -> None:
        """Figures of some training steps."""
        speed = report.pairs / max(report.seconds, 1e-9)
        figures = {"loss": report.loss, "accuracy": report.accuracy, "lr": report.lr}
        self._write(report.step, report.epoch + 1, {**figures, "pairs_per_second": round(speed, 1)})

    def add_epoch(self, epoch: int, step: int, result: Accuracy) -> None:
        """Accuracy on the dev data."""
        interval = {"dev_low": result.low, "dev_high": result.high}
        self._write(step, epoch, {**interval, "dev_n": result.n, "dev_accuracy": result.value})

    def _write(self, step: int, epoch: int, figures: dict[str, float]) -> None:
        try:
            with self._path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({"step": step, "epoch": epoch, **figures}) + "\n")
        except OSError as error:
            raise RunError(f"cannot write {self._path}: {error.strerror or error}") from error
        for track in self._trackers:
            track(figures, step)


@contextmanager
def make_trackers(names: Sequence[str], folder: Path, settings: dict[str, Any]) -> Iterator[list[Tracker]]:
    """Functions that take figures by name and their step; what they write to is closed at the end of the block."""
    trackers: list[Tracker] = []
    with ExitStack() as stack:
        for name in names:
            if name == "tensorboard":
                need("tensorboard", extra="tracking", purpose="--log tensorboard")
                from torch.utils.tensorboard import SummaryWriter

                trackers.append(_to_tensorboard(stack.enter_context(SummaryWriter(str(folder / "tensorboard")))))
            elif name == "mlflow":
                mlflow = need("mlflow", extra="tracking", purpose="--log mlflow")
                # Nested in a run of the caller's, if there is one; a run that fails is marked as such.
                stack.enter_context(mlflow.start_run(run_name=folder.name, nested=True))
                mlflow.log_params(settings)
                trackers.append(mlflow.log_metrics)
            else:
                raise InputError(f"no tracker '{name}'; choose {', '.join(TRACKERS)}")
        yield trackers


def _to_tensorboard(writer: Any) -> Tracker:
    def track(figures: dict[str, float], step: int) -> None:
        for name, value in figures.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return track
