"""What a run of SentEval gives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evenli.errors import InputError
from evenli.evaluate.senteval.data import TASKS


@dataclass(frozen=True)
class TaskResult:
    """One task.

    Attributes:
        name: One of TASKS.
        score: The number that counts for the mean, in percent: accuracy, or 100 times Pearson's r; NaN if undefined.
        metrics: All numbers, in percent as well.
        dev: What the search or the early stop saw, in percent; None in STS14, which has no training.
        n: Rows tested.
        note: Why the score is undefined.
        data: Hash of the texts and answers it was computed on.
    """

    name: str
    score: float
    metrics: dict[str, float]
    dev: float | None
    n: int
    note: str = ""
    data: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON; an undefined number is null."""
        return {
            "name": self.name,
            "score": _plain(self.score),
            "metrics": {name: _plain(value) for name, value in self.metrics.items()},
            "dev": None if self.dev is None else _plain(self.dev),
            "n": self.n,
            "note": self.note,
            "data": self.data,
        }


@dataclass(frozen=True)
class SentEvalResult:
    """All tasks that ran, the tasks that did not with the reason, and the settings."""

    tasks: dict[str, TaskResult]
    missing: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def overall(self) -> float | None:
        """Mean of the twelve scores; None unless all of them are there."""
        scores = [self.tasks[name].score for name in TASKS if name in self.tasks]
        if len(scores) < len(TASKS) or any(map(math.isnan, scores)):
            return None
        return sum(scores) / len(scores)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "overall": self.overall,
            "tasks": {name: task.as_dict() for name, task in self.tasks.items()},
            "missing": dict(self.missing),
            "settings": dict(self.settings),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> SentEvalResult:
        """Read what ``as_dict`` made."""
        try:
            tasks = {name: _task(task) for name, task in content["tasks"].items()}
            return cls(tasks, dict(content.get("missing", {})), dict(content.get("settings", {})))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"no SentEval result: {error!r}; expected what `evenli senteval -o` writes") from error


def settings_of(encoder: str, *, seed: int, kfold: int, hidden: int, classifier: str) -> dict[str, Any]:
    """What scores depend on besides the data; ``encoder`` is an identity."""
    return {"seed": seed, "kfold": kfold, "hidden": hidden, "classifier": classifier, "encoder": encoder}


def _task(content: Mapping[str, Any]) -> TaskResult:
    return TaskResult(
        content["name"],
        _number(content["score"]),
        {name: _number(value) for name, value in content["metrics"].items()},
        content["dev"],
        int(content["n"]),
        content.get("note", ""),
        content.get("data", ""),
    )


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
