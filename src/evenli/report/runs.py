"""A finished run as a report sees it: the stored run, its day and its rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from evenli.errors import RunError
from evenli.evaluate import stored
from evenli.stats.sample import Sample

_NEEDED = ("proportions", "rows", "measures", "order_condition", "occupations", "standing")


@dataclass(frozen=True)
class Run(stored.StoredRun):
    """One audit on disk, with what a report adds to it."""

    @property
    def lang(self) -> str:
        """Language of the audited pairs, empty if unknown."""
        return str(self.results.get("lang") or self.data.get("lang") or "")

    @property
    def date(self) -> str:
        """Day on which the run was started (UTC)."""
        return str(self.header.get("created", ""))[:10] or "unknown"

    @cached_property
    def sample(self) -> Sample:
        """The audited rows, with probabilities and answers."""
        return Sample(self.predictions.suite("coal"))


def load_run(folder: str | Path) -> Run:
    """Read a finished run; an unfinished, damaged or newer one is refused with what is missing."""
    found = stored.load_run(folder)
    missing = [f"coal.{name}" for name in _NEEDED if name not in found.results["coal"]]
    if missing:
        raise RunError(
            f"{found.path / 'results.json'} lacks {', '.join(missing)}; make it anew with 'evenli measure {found.path}'"
        )
    return Run(found.path, found.header, found.results, found.predictions)
