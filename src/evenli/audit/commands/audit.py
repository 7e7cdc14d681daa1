"""Commands on models (``audit``, ``predict``, ``robustness``) and on what is stored of their runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from evenli.audit.settings import AuditSettings, FileSettings
from evenli.core import commands as shared
from evenli.core import terminal
from evenli.core.commands import argument, option, output, suites, with_settings
from evenli.core.errors import InputError
from evenli.core.extras import check_extra
from evenli.core.record import Scoring

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
    from evenli.audit.suites.base import check_suites, data_by_suite, usual_suites

    if report:
        check_extra("report", "an HTML report")
    if settings.seed is not None and settings.limit is None:
        terminal.warn("--seed chooses the pairs of --limit; without a limit all are asked, and it has no effect")
    # An unknown suite is refused before the work.
    named = usual_suites(lang, settings, data) if suite is None else list(map(str.strip, suite.split(",")))
    chosen = check_suites(named)
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
    verbose: shared.Verbose = False,
    as_json: shared.Json = False,
) -> None:
    """Ask a model in other words: does the answer survive?

    In how many wordings each cause holds and how far its level moves; with --verbose which choice of words moves it.
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
        content = result.to_dict()
        terminal.print_json({"folder": str(result.path), "verdict": content["verdict"], **content["robust"]})
    else:
        show_results(result, terminal.console(), files=f"{result.path}/ {', '.join(written)}", verbose=verbose)


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


def report(
    runs: Annotated[list[Path], argument("Run folders of audits; several are compared and ranked.")],
    out: Annotated[Path, output("HTML file to write.")] = Path("report.html"),
    charts: Annotated[Path | None, option("Folder for the charts as SVG and PNG files, too.")] = None,
    as_json: shared.Json = False,
) -> None:
    """Write one HTML file about one or several runs.

    The file needs no network and no other file.
    """
    check_extra("report", "an HTML report")
    from evenli.audit.report.html import report as write

    written = write(runs, out, charts)
    paths = {"runs": list(map(str, runs)), "charts": list(map(str, written.charts))}
    lines = [f"{written.path}: {len(runs)} run{'s' * (len(runs) > 1)}, {written.size / 1e6:.2f} MB"]
    if charts is not None:
        lines.append(f"{charts}/: {len(written.charts)} chart files")
    terminal.answer(as_json, {"report": str(written.path), "bytes": written.size, **paths}, *lines)


def gate(
    run: shared.Run,
    fail_if: Annotated[
        list[str] | None,
        option(
            "Condition that fails the gate, e.g. \"verdict == 'bias'\"; may be repeated.",
            "--fail-if",
            metavar="CONDITION",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        option(
            "Policy, or a TOML file of your own; default: standard, or none with --fail-if.",
            choices=("standard", "none"),
            closed=False,
        ),
    ] = None,
    baseline: Annotated[Path | None, option("Older run on the same data to compare with.")] = None,
    max_worse: Annotated[
        float | None,
        option(
            "Rise of NLI-CoAL over the baseline that is allowed; a larger one fails if its interval lies above "
            "0. Default 0.02."
        ),
    ] = None,
    junit: Annotated[Path | None, option("Write JUnit XML here.")] = None,
    as_json: shared.Json = False,
) -> None:
    """Pass or fail a run, for continuous integration.

    Exit code 0: passed, 1: failed, 2: bad input, 3: undecided.
    """
    from evenli.audit.gate import gate as decide

    result = decide(run, fail_if or [], baseline, max_worse, junit, policy=policy)
    terminal.answer(as_json, result.to_dict(), *repr(result).split("\n"))
    # Raised only now, so that the other checks are read as well.
    if result.passed is None:
        terminal.warn(result.problem)
    if not result.passed:
        raise typer.Exit(1 if result.passed is False else 3)


def card(
    run: shared.Run,
    part: Annotated[
        str, option("yaml is front matter for the top, markdown a section below.", choices=("all", "yaml", "markdown"))
    ] = "all",
    into: Annotated[
        Path | None, option("Write into this model card instead, e.g. README.md; older results there are replaced.")
    ] = None,
    push: Annotated[
        str | None,
        option("Open a pull request with it for this model on the hub, e.g. me/model. Uses the network.", metavar="ID"),
    ] = None,
) -> None:
    """Print a section for a model card, or write it into one.

    Results in the hub's format and a text for people.
    """
    from evenli.audit.report.card import card as section
    from evenli.audit.report.card import merge_card, push_card

    if (into or push) and part != "all":
        raise InputError("--part is for printing; leave it out with --into and --push")
    if into is not None:
        merge_card(run, into)
        terminal.say(f"{into}: results of {run} are in it")
    if push is not None:
        terminal.say(push_card(run, push))
    if into is None and push is None:
        terminal.show(section(run, part))


def table(
    run: shared.Run,
    what: Annotated[
        str,
        option(
            "Table; others by suite, an unknown name lists them.", choices=("measures", "occupations"), closed=False
        ),
    ] = "measures",
    suite: Annotated[str | None, suites("Suite of the run; default: the first with this table.")] = None,
    out: Annotated[Path | None, output("A .csv, .parquet, .md or .tex file; default: Markdown on stdout.")] = None,
) -> None:
    """Write the results of a run as a table."""
    from evenli.audit.report.export import markdown, run_table

    shown = run_table(run, what, suite, out)
    if out is None:
        terminal.show(markdown(shown))
    else:
        terminal.say(f"{out}: {shown.height} rows")


def view(
    folder: Annotated[Path, argument("Folder with runs, at any depth.")] = Path("runs"),
    port: Annotated[int, option("Port; 0 takes a free one.", minimum=0, maximum=65535)] = 0,
    out: Annotated[
        Path | None,
        option("Write list, reports and comparisons as files for a web host, and serve nothing.", "--export"),
    ] = None,
    browser: Annotated[bool, option("Open the page in the browser.", "--open")] = False,
    as_json: shared.Json = False,
) -> None:
    """Look through all runs of a folder in the browser.

    List, filter, reports, comparisons of two runs, and sentences of your own for their models. The server listens on
    this machine only, and the address holds a random token.
    """
    check_extra("report", "the pages of runs")
    if out is not None:
        from evenli.audit.report.gallery import export

        written = export(folder, out)
        for name, problem in written.problems.items():
            terminal.warn(f"not shown: {name}: {problem}")
        names = [file.name for file in written.files]
        content = {"folder": str(out), "files": names, "problems": dict(written.problems)}
        terminal.answer(as_json, content, f"{out}/: {len(names)} files; open {written.files[0]}")
        return
    check_extra("view", "the server of the pages")
    from evenli.audit.report.gallery import serve

    def ready(address: str) -> None:
        terminal.answer(as_json, {"address": address}, address, "only on this machine; stop with Ctrl-C")
        if browser:
            import webbrowser

            webbrowser.open(address)

    serve(folder, port, ready)
