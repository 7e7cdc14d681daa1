"""``evenli measure``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenli.cli import _shared as shared


def measure(
    run: Annotated[Path, typer.Argument(help="Run folder of an audit.")],
    resamples: shared.Resamples = 2000,
    seed: shared.Seed = 0,
    bootstrap: shared.Bootstrap = "cluster",
    measures: shared.OwnMeasures = None,
    as_json: shared.Json = False,
) -> None:
    """Score a stored run again, without the model."""
    from evenli.evaluate.stored import measure_run
    from evenli.report.terminal import show_results
    from evenli.stats.intervals import Scoring

    scoring = Scoring(resamples=resamples, seed=seed, bootstrap=bootstrap)
    audit = measure_run(run, scoring, shared.own_measures(measures))
    if as_json:
        shared.print_json({"folder": str(run), **audit.to_dict()})
    else:
        show_results(audit.result, shared.console(), files=f"{run}/ results.json")
