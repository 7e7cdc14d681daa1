"""Optional homes for the figures of a run besides ``metrics.jsonl``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from evenli._extras import need
from evenli.errors import InputError

Tracker = Callable[[dict[str, float], int], None]
TRACKERS = ("tensorboard", "mlflow")


@contextmanager
def make_trackers(names: Sequence[str], folder: Path, settings: dict[str, Any]) -> Iterator[list[Tracker]]:
    """Functions that take figures by name and the step they belong to; what they write to ends with the block."""
    made: list[Tracker] = []
    with ExitStack() as opened:
        for name in names:
            if name == "tensorboard":
                need("tensorboard", extra="tracking", purpose="--log tensorboard")
                from torch.utils.tensorboard import SummaryWriter

                made.append(_to_tensorboard(opened.enter_context(SummaryWriter(str(folder / "tensorboard")))))
            elif name == "mlflow":
                mlflow = need("mlflow", extra="tracking", purpose="--log mlflow")
                # Nested in a run of the caller's, if there is one; a run that fails is marked as such.
                opened.enter_context(mlflow.start_run(run_name=folder.name, nested=True))
                mlflow.log_params(settings)
                made.append(_to_mlflow(mlflow))
            else:
                raise InputError(f"no tracker '{name}'; choose {', '.join(TRACKERS)}")
        yield made


def _to_tensorboard(writer: Any) -> Tracker:
    def track(figures: dict[str, float], step: int) -> None:
        for name, value in figures.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return track


def _to_mlflow(mlflow: Any) -> Tracker:
    def track(figures: dict[str, float], step: int) -> None:
        mlflow.log_metrics(figures, step=step)

    return track
