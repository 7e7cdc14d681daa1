"""Rows of the ledger and the registry they come from. A new chapter is a function with ``@chapter``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

Value = float | int | str | None
_MODULES = ("coal", "dev", "dolci", "meta", "retraining", "seat", "sharma")
"""Importing these registers their chapters, in this order."""


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
        # Ratios, names and "no corr." are compared as they are written.
        if isinstance(self.published, str) or isinstance(self.ours, str):
            return self.published == self.ours
        return self.ours is not None and abs(float(self.ours) - float(self.published or 0)) <= self.tolerance + 1e-12

    @property
    def status(self) -> str:
        """``ok``, ``differs`` (a known discrepancy), ``skipped`` or ``BROKEN``."""
        if self.ours is None:
            return "skipped"
        # A discrepancy that disappears means that we or the resource changed.
        if self.known:
            return "BROKEN" if self.agrees else "differs"
        return "ok" if self.agrees else "BROKEN"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "status": self.status}

    @staticmethod
    def shown(value: Value) -> str:
        """A value as text."""
        if value is None:
            return "–"
        return f"{value:.4f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Published:
    """A published table, or another place with numbers: makes the rows that compare it with ours.

    Attributes:
        source: Paper and table.
        tolerance: Largest difference that counts as agreement.
        reason: How ours was obtained, for rows without a reason of their own.
    """

    source: str
    tolerance: float = 0.0
    reason: str = ""

    def row(
        self,
        what: str,
        published: Value,
        ours: Value,
        *,
        tolerance: float | None = None,
        reason: str = "",
        differs: str = "",
    ) -> Row:
        """One row.

        Args:
            what: What is compared.
            published: The published value.
            ours: Ours; None where it could not be computed.
            tolerance: Other than that of the table.
            reason: Other than that of the table.
            differs: Why the published value is known to be another one than ours.
        """
        allowed = self.tolerance if tolerance is None else tolerance
        return Row(what, self.source, published, ours, allowed, differs or reason or self.reason, bool(differs))


def public_file(data: Path | None, *parts: str) -> Path | None:
    """A file of the public data, None where it is not at hand."""
    file = data.joinpath(*parts) if data else None
    return file if file is not None and file.is_file() else None


Chapter = Callable[[Path | None], Iterator[Row]]
_CHAPTERS: list[Chapter] = []


def chapter(function: Chapter) -> Chapter:
    """Register a function that yields rows; it gets the directory of public data or None."""
    _CHAPTERS.append(function)
    return function


def ledger(data: str | Path | None = None) -> list[Row]:
    """Compute all rows.

    Args:
        data: Directory with the public data; default ``$EVENLI_SHARED_DATA``. Rows that need it are skipped without it.
    """
    for name in _MODULES:
        import_module(f"evenli.reproduction.{name}")
    folder = Path(data or os.environ.get("EVENLI_SHARED_DATA", "../shared/data"))
    return [row for rows in _CHAPTERS for row in rows(folder if folder.is_dir() else None)]
