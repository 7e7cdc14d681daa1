"""``evenli report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenli.cli import _shared as shared


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders of audits; several are compared and ranked.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path("report.html"),
    charts: Annotated[
        Path | None, typer.Option(help="Folder for the charts as SVG and PNG files, too.", show_default=False)
    ] = None,
    as_json: shared.Json = False,
) -> None:
    """Write one HTML file about one or several runs; it needs no network and no other file."""
    from evenli.report.html import report as write

    written = write(runs, out, charts)
    if as_json:
        paths = {"runs": list(map(str, runs)), "charts": list(map(str, written.charts))}
        shared.print_json({"report": str(written.path), "bytes": written.size, **paths})
        return
    typer.echo(f"{written.path}: {len(runs)} run{'s' * (len(runs) > 1)}, {written.size / 1e6:.2f} MB")
    if charts is not None:
        typer.echo(f"{charts}/: {len(written.charts)} chart files")
