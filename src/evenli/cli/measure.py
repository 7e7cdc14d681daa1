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
    as_json: shared.Json = False,
) -> None:
    """Score a stored run again, without the model."""
    from evenli.errors import RunError
    from evenli.evaluate.assess import Scoring, assess
    from evenli.evaluate.run_dir import RunFolder, read_header
    from evenli.predictions import Predictions
    from evenli.report.terminal import show_results

    folder = RunFolder(run)
    if not (run / "run.json").is_file():
        raise RunError(f"{run} is not a run folder: no run.json in it")
    with folder.locked():
        header = read_header(run / "run.json")
        if header.get("status") != "complete":
            raise RunError(f"the run in {run} is not complete; run its audit command again to finish it")
        table = Predictions.read(folder.predictions_file, header)
        results = assess(table, Scoring(resamples=resamples, seed=seed, bootstrap=bootstrap))
        folder.write_results(results)
    if as_json:
        shared.print_json({"folder": str(run), **results})
        return
    show_results(results, shared.console(), files=f"{run}/ results.json")
