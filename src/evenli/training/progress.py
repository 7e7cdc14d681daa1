"""What a run reports, and one line on stderr that shows it."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

_PAUSE = 15.0
"""Seconds between lines where stderr is a file."""


@dataclass(frozen=True)
class Report:
    """Where a run is after some steps.

    Attributes:
        step: Steps taken since the start of the run.
        epoch: Current epoch, from 0.
        loss: Mean over the pairs since the last report.
        accuracy: Share of those pairs that were labelled right while training, dropout on.
        lr: Learning rate of the last step.
        pairs: Pairs since the last report.
        seconds: Time since the last report.
    """

    step: int
    epoch: int
    loss: float
    accuracy: float
    lr: float
    pairs: int
    seconds: float


class Progress:
    """Shows reports: one line rewritten in a terminal, a line now and then in a file.

    Args:
        shown: Nothing is printed if false.
    """

    def __init__(self, *, shown: bool = True) -> None:
        self._shown, self._live = shown, sys.stderr.isatty()
        self._speed, self._last = 0.0, -_PAUSE

    def report(self, report: Report, trainer: Any) -> None:
        """Show where a trainer is, of whatever kind: its steps and its recipe are needed."""
        speed = report.pairs / max(report.seconds, 1e-9)
        # The first reports contain compiling, so the average forgets quickly.
        self._speed = speed if not self._speed else 0.7 * self._speed + 0.3 * speed
        if not self._shown or (not self._live and time.monotonic() - self._last < _PAUSE):
            return
        self._last = time.monotonic()
        left = (trainer.steps - report.step) * trainer.recipe.batch_size / self._speed
        line = (
            f"epoch {report.epoch + 1}/{trainer.recipe.epochs}  step {report.step:,}/{trainer.steps:,}  "
            f"loss {report.loss:.4f}  accuracy {report.accuracy:.3f}  {self._speed:,.0f} pairs/s  {clock(left)} left"
        )
        print(f"\r{line}\033[K" if self._live else line, end="" if self._live else "\n", file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        """Print a remark on a line of its own."""
        if self._shown:
            print(f"\r\033[K{text}" if self._live else text, file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    """A duration as people say it.

    >>> clock(75), clock(3 * 3600 + 120), clock(9)
    ('1 min 15 s', '3 h 2 min', '9 s')
    """
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"
