"""A finished run as a report sees it: the audit, its plain values, its day and its rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from evenli.evaluate.audit import Audit
from evenli.evaluate.stored import load_run as load_audit
from evenli.predictions import Predictions
from evenli.stats.sample import Sample


@dataclass(frozen=True)
class Run:
    """One audit on disk, with what a report adds to it."""

    audit: Audit

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.audit.path

    @property
    def header(self) -> dict[str, Any]:
        """run.json."""
        return self.audit.header

    @property
    def predictions(self) -> Predictions:
        """predictions.parquet."""
        return self.audit.predictions

    @property
    def model(self) -> str:
        """Name of the model."""
        return self.audit.name

    @property
    def suites(self) -> list[str]:
        """The suites it was audited with."""
        return list(self.audit.result.suites)

    @cached_property
    def results(self) -> dict[str, Any]:
        """results.json."""
        return self.audit.to_dict()

    @property
    def data(self) -> dict[str, Any]:
        """Card of the audited NLI-CoAL pairs."""
        return audited_data(self.results)

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
    return Run(load_audit(folder, needs="coal"))


def audited_data(results: dict[str, Any], suite: str = "coal") -> dict[str, Any]:
    """Card of an audited pair set in run.json or results.json; empty where there is none."""
    return next((dict(entry) for entry in results.get("data", []) if entry.get("suite") == suite), {})
