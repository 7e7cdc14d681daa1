"""``evenli table``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def table(
    run: Annotated[Path, typer.Argument(help="Run folder of an audit.")],
    what: Annotated[str, typer.Option(help="measures or occupations.")] = "measures",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="A .csv, .parquet, .md or .tex file; default: Markdown on stdout.", show_default=False
        ),
    ] = None,
) -> None:
    """Write the results of a run as a table."""
    from evenli.errors import InputError
    from evenli.report.export import TABLES, markdown, tables, write_table
    from evenli.report.runs import load_run

    if what not in TABLES:
        raise InputError(f"no table '{what}'; choose {', '.join(TABLES)}")
    frame = tables(load_run(run).results)[what]
    if out is None:
        typer.echo(markdown(frame), nl=False)
    else:
        write_table(frame, out)
        typer.echo(f"{out}: {frame.height} rows")
