"""Settings and results of an encoder report."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from evenli._version import __version__
from evenli.evaluate.seat import AssociationResult, SeatSettings
from evenli.evaluate.seat.association import DEFAULTS as SEAT_DEFAULTS
from evenli.evaluate.seat.tests import AVERAGED
from evenli.evaluate.senteval import SentEvalResult, SentEvalSettings
from evenli.evaluate.senteval.results import DEFAULTS as SENTEVAL_DEFAULTS
from evenli.mitigate.residual import Residual
from evenli.types import Estimate, Number, Record

FORMAT = "evenli encoder-report 1"
FIGURES = ("seat", "linear", "mlp", "clustering", "correlation", "senteval")
"""What encoders are compared by."""


@dataclass(frozen=True)
class ReportSettings:
    """What a report depends on besides the encoders.

    Attributes:
        seat: Of the association tests; probes for leakage take its seed.
        senteval: Of SentEval; without ``tasks`` all are run that there is data for.
        pooling: Of ``hf`` and ``onnx`` encoders.
        device: ``cpu``, ``cuda`` or ``mps``; None picks the fastest there is.
    """

    seat: SeatSettings = SEAT_DEFAULTS
    senteval: SentEvalSettings = SENTEVAL_DEFAULTS
    pooling: str = "mean"
    device: str | None = None


DEFAULTS = ReportSettings()


class SeatFigures(Record, frozen=True):
    """Association tests of one encoder.

    Attributes:
        mean: Mean size of the effects C6 to C8b.
        signed: Mean of the same effects with their signs; NaN if one is undefined.
        tests: All eight tests.
        change: Difference of ``mean`` to the base encoder; None for the base itself or without a mean.
    """

    mean: Estimate
    signed: Number
    tests: tuple[AssociationResult, ...]
    change: Estimate | None = None


@dataclass(frozen=True)
class EncoderFigures:
    """All figures of one encoder.

    Attributes:
        spec: The encoder as it was given.
        label: A short name.
        identity: Changes when its outputs could.
        method: Mitigations, the first applied first; empty for none.
        note: What should be known of it.
        seat: Association tests.
        leakage: What is left of gender.
        senteval: SentEval tasks; None without data.
        senteval_mean: Mean over the tasks that all encoders of the report have.
        difference: Every one of FIGURES less that of the first encoder; None where one is undefined.
    """

    spec: str
    label: str
    identity: str
    method: str
    note: str
    seat: SeatFigures
    leakage: Residual
    senteval: SentEvalResult | None = None
    senteval_mean: float | None = None
    difference: dict[str, float | None] = field(default_factory=dict)

    def figure(self, name: str) -> float | None:
        """One of FIGURES; None where it is undefined."""
        if name == "senteval":
            return self.senteval_mean
        value: float = (self.seat.mean if name == "seat" else getattr(self.leakage, name)).value
        return None if math.isnan(value) else value

    def score(self, task: str) -> float | None:
        """Score of one SentEval task; None where it is missing or undefined."""
        result = None if self.senteval is None else self.senteval.tasks.get(task)
        return None if result is None or math.isnan(result.score) else result.score

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        names = ("spec", "label", "identity", "method", "note")
        scores = None
        if self.senteval is not None:
            tasks = {name: task.to_dict() for name, task in self.senteval.tasks.items()}
            scores = {"tasks": tasks, "missing": dict(self.senteval.missing), "overall": self.senteval_mean}
        return {
            **{name: getattr(self, name) for name in names},
            "seat": self.seat.to_dict(),
            "leakage": self.leakage.to_dict(),
            "senteval": scores,
            "difference": dict(self.difference),
        }


@dataclass(frozen=True, repr=False)
class EncoderReport:
    """Encoders beside the first of them.

    Attributes:
        encoders: The unmitigated one first.
        tasks: SentEval tasks that all of them have a score for.
        settings: Seeds and sizes.
    """

    encoders: tuple[EncoderFigures, ...]
    tasks: tuple[str, ...] = ()
    settings: ReportSettings = DEFAULTS

    def __repr__(self) -> str:
        parts = (f"{one.label} {one.figure('seat')}" for one in self.encoders)
        return f"EncoderReport(mean SEAT effect: {', '.join(parts)})"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        settings = {name: getattr(self.settings.seat, name) for name in ("seed", "permutations", "resamples")}
        settings |= {"senteval_seed": self.settings.senteval.seed, "pooling": self.settings.pooling}
        return {
            "format": FORMAT,
            "version": __version__,
            "settings": {**settings, "averaged": list(AVERAGED)},
            "tasks": list(self.tasks),
            "encoders": [one.to_dict() for one in self.encoders],
        }


def difference(value: float | None, base: float | None) -> float | None:
    """How much a figure differs from that of the base; None where one is undefined."""
    return None if value is None or base is None else round(value - base, 6)
