"""Rows of the ledger and the registry they come from. Other work adds a function with ``@chapter``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

Value = float | int | str | None


@dataclass(frozen=True)
class Row:
    """One published number beside ours.

    Attributes:
        what: What is compared.
        source: Paper and table.
        published: The published value.
        ours: Our value, None where it could not be computed.
        tolerance: Largest difference that counts as agreement.
        reason: Why the two differ, or how ours was obtained.
        known: The difference is a discrepancy of the publication itself and expected; the row breaks if it disappears.
    """

    what: str
    source: str
    published: Value
    ours: Value
    tolerance: float = 0.0
    reason: str = ""
    known: bool = False

    @property
    def agrees(self) -> bool:
        """Whether ours is within the tolerance."""
        if isinstance(self.published, str) or isinstance(self.ours, str):
            return self.published == self.ours
        return self.ours is not None and abs(float(self.ours) - float(self.published or 0)) <= self.tolerance + 1e-12

    @property
    def status(self) -> str:
        """``ok``, ``differs`` (a known discrepancy), ``skipped`` or ``BROKEN``."""
        if self.ours is None:
            return "skipped"
        if self.known:
            return "BROKEN" if self.agrees else "differs"
        return "ok" if self.agrees else "BROKEN"

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "status": self.status}

    @staticmethod
    def shown(value: Value) -> str:
        """A value as text."""
        if value is None:
            return "–"
        return f"{value:.4f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


Chapter = Callable[[Path | None], Iterator[Row]]
_CHAPTERS: list[Chapter] = []


def chapter(function: Chapter) -> Chapter:
    """Register a function that yields rows; it gets the folder of public data or None."""
    _CHAPTERS.append(function)
    return function


def ledger(data: str | Path | None = None) -> list[Row]:
    """Compute all rows.

    Args:
        data: Folder with the public data; default ``$EVENLI_SHARED_DATA``. Rows that need it are skipped without it.
    """
    from evenli.reproduction import (  # noqa: F401 - importing registers
        coal,
        dev,
        dolci,
        meta,
        retraining,
        seat,
        sharma,
    )

    folder = Path(data or os.environ.get("EVENLI_SHARED_DATA", "../shared/data"))
    return [row for rows in _CHAPTERS for row in rows(folder if folder.is_dir() else None)]
