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
    from evenli.report.charts import write_charts
    from evenli.report.html import write_report
    from evenli.report.runs import load_run

    loaded = [load_run(run) for run in runs]
    file = write_report(loaded, out)
    images = []
    for number, run in enumerate(loaded, 1):
        if charts is not None:
            # One run fills the folder itself; several get a folder each, numbered because names may be equal.
            images += write_charts(run, charts if len(loaded) == 1 else charts / f"{number}-{run.path.name}")
    size = file.stat().st_size
    if as_json:
        shared.print_json(
            {"report": str(file), "bytes": size, "runs": list(map(str, runs)), "charts": list(map(str, images))}
        )
        return
    typer.echo(f"{file}: {len(loaded)} run{'s' * (len(loaded) > 1)}, {size / 1e6:.2f} MB")
    if charts is not None:
        typer.echo(f"{charts}/: {len(images)} chart files")
