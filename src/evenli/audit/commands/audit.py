"""``evenli audit``, ``predict``, ``robustness``, ``measure``, ``verify`` and ``compare``: models and stored runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from evenli.audit.settings import AuditSettings, FileSettings
from evenli.core import commands as shared
from evenli.core import terminal
from evenli.core.commands import argument, option, output, suites, with_settings
from evenli.core.errors import InputError
from evenli.core.estimate import Scoring
from evenli.core.extras import check_extra

_WRITTEN = ("predictions.parquet", "results.json", "run.json")


@with_settings(after={"full": ["out"], "calibrate": ["published"], "overwrite": ["report"]})
def audit(
    model: shared.ModelArgument = None,
    lang: shared.Lang = "en",
    data: Annotated[
        list[str] | None,
        option(
            "Release, probe sheet or pair file; may be repeated. Default: the built-in sets.", metavar="[SUITE=]FILE"
        ),
    ] = None,
    suite: Annotated[str | None, suites("Suites, with commas; default: that of the axis.")] = None,
    *,
    settings: AuditSettings,
    out: shared.RunFolder = None,
    report: Annotated[bool, option("Also write report.html, with every suite, into the folder.", "--report")] = False,
    verbose: shared.Verbose = False,
    as_json: shared.Json = False,
) -> None:
    """Audit a model: verdict, causes, scores with intervals.

    Gold pairs come first: a model that does not know them gets no verdict. An interrupted audit continues.
    """
    from evenli.audit.audit import audit as run_audit
    from evenli.audit.audit import default_folder
    from evenli.audit.report.terminal import show_results
    from evenli.audit.suites.base import check_suites, data_by_suite
    from evenli.words import load_axis

    if report:
        check_extra("report", "an HTML report")
    if settings.seed is not None and settings.limit is None:
        terminal.warn("--seed chooses the pairs of --limit; without a limit all are asked, and it has no effect")
    # An unknown suite is refused before the work.
    chosen = check_suites([load_axis(settings.axis).suite] if suite is None else list(map(str.strip, suite.split(","))))
    files = data_by_suite(chosen, data or [])
    out = out or default_folder(model, lang, files, chosen, settings)
    with terminal.progress_bar(as_json) as progress:
        settings = replace(settings, on_progress=progress, on_warning=terminal.warn)
        result = run_audit(model, lang, files, suites=chosen, out=out, settings=settings)
    written = list(_WRITTEN)
    if report:
        from evenli.audit.report.html import write_reports

        written += [file.name for file in write_reports(result, result.path)]
    if as_json:
        terminal.print_json({"folder": str(result.path), **result.to_dict()})
    else:
        show_results(result, terminal.console(), files=f"{result.path}/ {', '.join(written)}", verbose=verbose)


@with_settings(
    settings=("full", "axis", "options", "overwrite"),
    after={"axis": ["out"]},
    texts={"full": "Ask all wordings, not a sample of them."},
)
def robustness(
    target: Annotated[
        str | None, argument("Run folder with wordings, or a model as 'audit' takes it; default: embedded.")
    ] = None,
    lang: shared.Lang = "en",
    data: Annotated[
        str | None, option("More wordings (.csv), templates of your own (.txt) or an official release.", metavar="FILE")
    ] = None,
    *,
    settings: AuditSettings,
    out: shared.RunFolder = None,
    charts: Annotated[bool, option("Also write the specification curve as wordings.svg and .png.", "--charts")] = False,
    as_json: shared.Json = False,
) -> None:
    """Ask a model in other words: does the answer survive?

    How far each number moves, in how many wordings its sign and its verdict hold, and which choice of words moves it.
    """
    from evenli.audit.audit import default_folder, is_run
    from evenli.audit.audit import robustness as ask_wordings
    from evenli.audit.report.terminal import show_results

    if charts:
        check_extra("report", "the chart of the wordings")
    with terminal.progress_bar(as_json) as progress:
        settings = replace(settings, on_progress=progress, on_warning=terminal.warn)
        if out is None and not is_run(target):
            out = default_folder(target, lang, {"robust": data} if data else {}, ("robust",), settings)
        result = ask_wordings(target, lang, data, out=out, settings=settings)
    written = list(_WRITTEN)
    if charts:
        from evenli.audit.report.html import write_charts

        written += [file.name for file in write_charts(result, result.path, "robust")]
    if as_json:
        terminal.print_json({"folder": str(result.path), **result.to_dict()["robust"]})
    else:
        show_results(result, terminal.console(), files=f"{result.path}/ {', '.join(written)}", verbose=True)


@with_settings(after={"data": ["gold_labels"]})
def predict(
    model: shared.ModelArgument = None,
    data: Annotated[Path | None, option("Pair file: .jsonl, .csv, .tsv or .parquet (.xz may follow).")] = None,
    out: Annotated[Path, output("Run folder.")] = Path("runs/predict"),
    lang: shared.Lang = "en",
    *,
    settings: FileSettings,
    as_json: shared.Json = False,
) -> None:
    """Score any pair file with a model.

    One table with your columns and three logits per pair. An interrupted run continues.
    """
    from evenli.audit.audit import predict_file

    if data is None:
        asked = "" if model is None else f" should {model} be asked"
        raise InputError(f"--data: which pairs{asked}? A .jsonl, .csv, .tsv or .parquet file")
    with terminal.progress_bar(as_json) as progress:
        settings = replace(settings, on_progress=progress, on_warning=terminal.warn)
        scored = predict_file(model, data, lang, out=out, settings=settings)
    content = {"folder": str(out), **scored.summary.to_dict(), "notes": list(scored.notes)}
    notes = [f"note: {note}" for note in scored.notes]
    terminal.answer(as_json, content, *notes, *scored.summary.lines(), f"{out}/predictions.parquet")


@with_settings(settings=("scoring", "measures"))
def measure(
    run: shared.Run, *, settings: AuditSettings, verbose: shared.Verbose = False, as_json: shared.Json = False
) -> None:
    """Score a stored run again, without its model."""
    from evenli.audit.audit import measure_run
    from evenli.audit.report.terminal import show_results

    audit = measure_run(run, settings.scoring, settings.measures, terminal.warn)
    if as_json:
        terminal.print_json({"folder": str(run), **audit.to_dict()})
    else:
        show_results(audit, terminal.console(), files=f"{run}/ results.json", verbose=verbose)


def verify(run: shared.Run, as_json: shared.Json = False) -> None:
    """Check a run against its evidence.

    Hashes of its files, and every number scored again from the table.
    """
    from evenli.audit.audit import verify_run

    checked = verify_run(run)
    files = ", ".join(checked.files)
    terminal.answer(as_json, checked.to_dict(), f"verified {run}: {files}; {checked.numbers} numbers scored again")


@with_settings()
def compare(
    first: Annotated[Path, argument("Run folder to compare with.")],
    others: Annotated[list[Path], argument("One or more run folders on the same data.")],
    suite: Annotated[str | None, suites("Suite; default: each that all runs hold.")] = None,
    *,
    scoring: Scoring,
    out: Annotated[
        Path | None, output("Table of causes and score for a paper, too: a .tex, .md, .csv or .parquet file.")
    ] = None,
    as_json: shared.Json = False,
) -> None:
    """Compare runs item by item with the first.

    Differences with intervals and p, and which occupations moved.
    """
    from evenli.audit.compare import compare_runs
    from evenli.audit.report.export import check_suffix
    from evenli.audit.report.terminal import show_comparison

    if out is not None:
        check_suffix(out)  # before any work
    compared = compare_runs(first, *others, suite=suite, scoring=scoring)
    if as_json:
        terminal.print_json(compared.to_dict())
    else:
        show_comparison(compared, terminal.console())
    if out is not None:
        from evenli.audit.report.export import write_comparison

        rows = write_comparison(compared, out)
        if not as_json:
            terminal.say(f"{out}: {rows} rows")
