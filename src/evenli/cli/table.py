"""``evenli table``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def table(
    run: Annotated[Path, typer.Argument(help="Run folder of an audit.")],
    what: Annotated[str, typer.Option(help="measures, occupations, or another table of the suite.")] = "measures",
    suite: Annotated[str | None, typer.Option(help="Suite of the run; default: its first.", show_default=False)] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="A .csv, .parquet, .md or .tex file; default: Markdown on stdout.", show_default=False
        ),
    ] = None,
) -> None:
    """Write the results of a run as a table."""
    from evenli.errors import InputError
    from evenli.evaluate.audit import load_run
    from evenli.report.export import markdown, tables, write_table

    found = tables(load_run(run, needs=suite).result, suite)
    if what not in found:
        raise InputError(f"no table '{what}'; choose {', '.join(found)}")
    if out is None:
        typer.echo(markdown(found[what]), nl=False)
    else:
        write_table(found[what], out)
        typer.echo(f"{out}: {found[what].height} rows")
