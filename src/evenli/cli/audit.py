"""``evenli audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenli.cli import _shared as shared


def audit(
    model: shared.ModelArgument = None,
    lang: shared.Lang = "en",
    data: shared.Data = None,
    split: shared.Split = "full",
    tokenised: shared.Tokenised = False,
    axis: shared.Axis = "gender",
    labels: shared.Labels = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Run folder; default runs/MODEL-LANG-DATA.", show_default=False)
    ] = None,
    device: shared.Device = None,
    dtype: shared.Dtype = None,
    max_length: shared.MaxLength = 128,
    token_budget: shared.TokenBudget = None,
    offline: shared.Offline = False,
    allow_pickle: shared.AllowPickle = False,
    resamples: shared.Resamples = 2000,
    seed: shared.Seed = 0,
    bootstrap: shared.Bootstrap = "cluster",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace another run in the folder.")] = False,
    report: Annotated[bool, typer.Option("--report", help="Also write report.html into the run folder.")] = False,
    as_json: shared.Json = False,
) -> None:
    """Audit a model with NLI-CoAL: predictions, measures with intervals, competence, verdict."""
    from evenli.auditing import audit as run
    from evenli.auditing import default_folder
    from evenli.reports.results import Scoring

    options = shared.model_options(labels, device, dtype, max_length, token_budget, offline, allow_pickle)
    folder = out or default_folder(model, lang, data, split, tokenised)
    with shared.progress_bar(not as_json) as progress:
        found = run(
            model,
            lang,
            data,
            axis=axis,
            split=split,
            tokenised=tokenised,
            out=folder,
            options=options,
            scoring=Scoring(resamples=resamples, seed=seed, bootstrap=bootstrap),
            overwrite=overwrite,
            on_progress=progress,
            on_warning=shared.warn,
        )
    files = "predictions.parquet, results.json, run.json"
    if report:
        from evenli.reports.html import write_report
        from evenli.reports.runs import load_run

        write_report([load_run(folder)], folder / "report.html")
        files += ", report.html"
    if as_json:
        shared.print_json({"folder": str(folder), **found.results})
        return
    from evenli.reports import show_results

    show_results(found.results, shared.console(), files=f"{folder}/ {files}")
