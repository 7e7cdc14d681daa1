"""Settings and results of SentEval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import msgspec

from evenli.errors import InputError
from evenli.evaluate.senteval.data import TASKS
from evenli.io import to_plain
from evenli.types import Number, Numbers, Record

FORMAT = "evenli senteval 1"
CLASSIFIERS = ("torch", "sklearn")


@dataclass(frozen=True)
class SentEvalSettings:
    """How the tasks are run.

    Attributes:
        tasks: Some of TASKS; None for all.
        seed: Of folds, shuffles and initial weights.
        kfold: Folds of the cross-validated tasks, outer and inner.
        hidden: Units of a sigmoid layer before the softmax; 0 for logistic regression.
        classifier: ``torch`` (softmax layer, Adam, early stop) or ``sklearn`` (logistic regression).
        device: Where classifiers are trained: ``cpu``, ``cuda`` or ``mps``; None picks the fastest there is.
        batch_size: Texts the encoder is given at a time; None for all new texts of a task.
    """

    tasks: tuple[str, ...] | None = None
    seed: int = 1111
    kfold: int = 10
    hidden: int = 0
    classifier: str = "torch"
    device: str | None = None
    batch_size: int | None = None

    def __post_init__(self) -> None:
        if self.tasks is not None:
            unknown = [name for name in self.tasks if name not in TASKS]
            if unknown or isinstance(self.tasks, str) or not self.tasks:
                raise InputError(f"no SentEval task '{', '.join(unknown)}'; choose from {', '.join(TASKS)}")
        if self.classifier not in CLASSIFIERS:
            raise InputError(f"no classifier '{self.classifier}'; choose {' or '.join(CLASSIFIERS)}")
        if self.hidden < 0 or (self.hidden and self.classifier == "sklearn"):
            raise InputError(
                f"hidden {self.hidden} with classifier {self.classifier}; give 0, or units for the torch classifier"
            )
        if self.kfold < 2:
            raise InputError(f"kfold {self.kfold}: expected 2 or more")

    @property
    def names(self) -> list[str]:
        """The tasks to run, in the order of the published tables."""
        return [name for name in TASKS if self.tasks is None or name in self.tasks]

    def describe(self, encoder: str) -> dict[str, Any]:
        """What scores depend on besides the data; ``encoder`` is an identity."""
        names = ("seed", "kfold", "hidden", "classifier")
        return {**{name: getattr(self, name) for name in names}, "encoder": encoder}


DEFAULTS = SentEvalSettings()


class TaskResult(Record, frozen=True):
    """One task.

    Attributes:
        name: One of TASKS.
        score: The number that counts for the mean, in percent: accuracy, or 100 times Pearson's r; NaN if undefined.
        metrics: All numbers, in percent as well.
        dev: What the search or the early stop saw, in percent; NaN in STS14, which has no training.
        n: Rows tested.
        note: Why the score is undefined.
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

    tasks: dict[str, TaskResult]
    missing: dict[str, str] = msgspec.field(default_factory=dict)
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    encoder: str = ""

    def __getitem__(self, name: str) -> TaskResult:
        return self.tasks[name]

    def __repr__(self) -> str:
        mean = "" if self.overall is None else f", mean {self.overall:.2f}"
        return f"SentEvalResult({len(self.tasks)} tasks{mean}, {len(self.missing)} missing)"

    @property
    def overall(self) -> float | None:
        """Mean of the twelve scores; None unless all of them are there."""
        scores = [self.tasks[name].score for name in TASKS if name in self.tasks]
        if len(scores) < len(TASKS) or any(map(math.isnan, scores)):
            return None
        return sum(scores) / len(scores)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"format": FORMAT, "overall": to_plain(self.overall), **super().to_dict()}
