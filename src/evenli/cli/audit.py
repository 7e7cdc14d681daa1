"""``evenli audit``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenli.cli import _shared as shared

if TYPE_CHECKING:
    from evenli.evaluate.audit import Audit


def audit(
    model: shared.ModelArgument = None,
    lang: shared.Lang = "en",
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="Official release (folder or .tar.xz), probe sheet or pair file; with several suites SUITE=FILE, may "
            "be repeated. Default: the built-in sets.",
            show_default=False,
        ),
    ] = None,
    suite: Annotated[
        str,
        typer.Option(help="What to ask, with commas: coal (NLI-CoAL), probe (entailment probe), dev2020 (Dev et al.)."),
    ] = "coal",
    split: shared.Split = "full",
    tokenised: shared.Tokenised = False,
    axis: shared.Axis = "gender",
    labels: shared.Labels = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Run folder; default runs/MODEL-LANG-DATA, other suites than coal in its name.",
            show_default=False,
        ),
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
    report: Annotated[
        bool,
        typer.Option(
            "--report", help="Also write report.html (coal) and probe.svg, probe.png (probe) into the folder."
        ),
    ] = False,
    measures: shared.OwnMeasures = None,
    as_json: shared.Json = False,
) -> None:
    """Audit a model with NLI-CoAL or other suites: predictions, measures with intervals, competence, verdict."""
    from evenli.evaluate.audit import AuditSettings, default_folder
    from evenli.evaluate.audit import audit as run
    from evenli.report.terminal import show_results
    from evenli.stats.intervals import Scoring
    from evenli.suites.base import Request, check_suites, data_by_suite

    options = shared.model_options(labels, device, dtype, max_length, token_budget, offline, allow_pickle)
    suites = check_suites([shared.suite_name(name) for name in suite.split(",")])
    files = data_by_suite(suites, data or [])
    request = Request(lang, axis=axis, split=split, tokenised=tokenised)
    folder = out or default_folder(model, files, request, suites)
    scoring = Scoring(resamples=resamples, seed=seed, bootstrap=bootstrap)
    own = shared.own_measures(measures)
    with shared.progress_bar(not as_json) as progress:
        settings = AuditSettings(axis, split, tokenised, options, scoring, own, overwrite, progress, shared.warn)
        result = run(model, lang, files, suites=suites, out=folder, settings=settings)
    written = ["predictions.parquet", "results.json", "run.json"]
    if report:
        written += _write_reports(folder, result)
    if as_json:
        shared.print_json({"folder": str(folder), **result.to_dict()})
    else:
        show_results(result.result, shared.console(), files=f"{folder}/ {', '.join(written)}")


def _write_reports(folder: Path, audit: Audit) -> list[str]:
    """Write what ``--report`` adds to a run folder; returns the names of the files."""
    written = []
    if "coal" in audit.result.suites:
        from evenli.report.html import report

        written.append(report(audit, folder / "report.html").path.name)
    if "probe" in audit.result.suites:
        from evenli.report.probe_chart import write_probe_chart

        written += [file.name for file in write_probe_chart(audit.result, folder)]
    return written
