"""A finished audit: results, the table behind them, and what can be made of both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, cast

from evenli.audit.predictions import Predictions
from evenli.audit.results import AuditResult, SuiteResult, Verdict

if TYPE_CHECKING:
    import polars as pl

    from evenli.audit.compare import RunComparison
    from evenli.stats.sample import Sample


@dataclass(frozen=True, repr=False)
class Audit:
    """What an audit gives back: typed results, the table behind them, and the folder both are in.

    Suites are attributes: ``audit.coal.value``, ``audit.coal.follow.low``, ``audit.probe.labour``. In a notebook it
    shows the first screen of the report.

    Attributes:
        result: Everything that ``results.json`` holds, as typed values.
        predictions: Every pair with its three logits: ``predictions.frame`` is a polars table.
        folder: The run folder, or None if nothing was written.
    """

    result: AuditResult
    predictions: Predictions
    folder: Path | None = None

    @property
    def verdict(self) -> Verdict:
        """Code and sentence."""
        return self.result.verdict

    @property
    def header(self) -> dict[str, Any]:
        """Contents of run.json: model, data, settings."""
        return self.predictions.header

    @property
    def name(self) -> str:
        """The model's name, with its revision where it has one."""
        return self.result.model.title

    @property
    def path(self) -> Path:
        """The run folder, or where it would be."""
        return self.folder or Path("-")

    def __getattr__(self, name: str) -> SuiteResult:
        """A suite of the audit by name."""
        if name.startswith("_"):
            raise AttributeError(name)
        return cast(SuiteResult, getattr(self.result, name))

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self.result.suites]

    def to_dict(self) -> dict[str, Any]:
        """results.json as plain values."""
        return self.result.to_dict()

    def sample(self, suite: str) -> Sample:
        """The answered rows of a suite, as its measures read them."""
        from evenli.stats.sample import Sample

        return Sample(self.predictions.suite(suite).answered(), published=self.result.scoring.published)

    def to_frame(self) -> pl.DataFrame:
        """One row per suite, measure and stereotype: value, interval, standard error, n."""
        import polars as pl

        numbers = ("value", "low", "high", "se", "n", "note")
        rows = [
            {"suite": suite, "measure": measure, "slice": stereotype or "all"}
            | {name: getattr(estimate, name) for name in numbers}
            for suite, measure, stereotype, estimate in self.result.estimates()
        ]
        return pl.DataFrame(rows, schema_overrides=dict.fromkeys(numbers[:4], pl.Float64), infer_schema_length=None)

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name} {result.main.shown}" for name, result in self.result.suites.items())
        return f"<Audit of {self.name} ({self.result.lang}): {numbers}; verdict {self.verdict.code}>"

    # Reports stand to the right of this folder: they are named here and imported when they are used.
    def _repr_html_(self) -> str:
        """The first screen, for notebooks: verdict, who the model sees, three numbers, one pair."""
        return str(resolve_name("evenli.audit.report.notebook:show")(self))

    def report(self, path: str | Path = "report.html", charts: str | Path | None = None) -> Any:
        """Write the HTML report; one file that needs nothing else. The arguments are those of ``evenli.report``."""
        return resolve_name("evenli.audit.report.html:report")(self, path, charts)

    def compare(self, *others: Audit | str | Path, suite: str | None = None) -> RunComparison:
        """Compare further runs on the same pairs with this one, item by item; see ``evenli.compare``."""
        from evenli.audit.compare import compare_runs

        return compare_runs(self, *others, suite=suite)

    def plot(self, name: str | None = None) -> Any:
        """A Vega-Altair chart by name; without one, who the model sees. An unknown name says which there are."""
        return resolve_name("evenli.audit.report.notebook:plot")(self, name)
