"""``evenli report``, ``card``, ``table`` and ``gate``: what is made of stored runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from evenli.core import commands as shared
from evenli.core import terminal
from evenli.core.commands import argument, option, output, suites
from evenli.core.errors import InputError
from evenli.core.extras import check_extra
from evenli.core.format import printable


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

    Exit code 0: passed, 1: failed, 2: bad input or undecidable.
    """
    from evenli.audit.gate import gate as decide

    result = decide(run, fail_if or [], baseline, max_worse, junit, policy=policy)
    terminal.answer(as_json, result.to_dict(), *repr(result).split("\n"))
    # Raised only now, so that the other checks are read as well.
    if result.passed is None:
        raise InputError(result.problem)
    if not result.passed:
        raise typer.Exit(1)


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
        typer.echo(f"{printable(str(into))}: results of {printable(str(run))} are in it")
    if push is not None:
        typer.echo(printable(push_card(run, push)))
    if into is None and push is None:
        typer.echo(section(run, part), nl=False)


def table(
    run: shared.Run,
    what: Annotated[
        str,
        option(
            "Table; others by suite, an unknown name lists them.", choices=("measures", "occupations"), closed=False
        ),
    ] = "measures",
    suite: Annotated[str | None, suites("Suite of the run; default: its first.")] = None,
    out: Annotated[Path | None, output("A .csv, .parquet, .md or .tex file; default: Markdown on stdout.")] = None,
) -> None:
    """Write the results of a run as a table."""
    from evenli.audit.report.export import markdown, run_table

    shown = run_table(run, what, suite, out)
    if out is None:
        typer.echo(markdown(shown), nl=False)
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
        sys.stdout.flush()  # whoever started the server waits for the address
        if browser:
            import webbrowser

            webbrowser.open(address)

    serve(folder, port, ready)
