"""``evenli card``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def card(
    run: Annotated[Path, typer.Argument(help="Run folder of an audit.")],
    part: Annotated[
        str, typer.Option(help="all, yaml (front matter, top of the README) or markdown (section, anywhere below).")
    ] = "all",
) -> None:
    """Print a model-card section: results in the hub's format and a text for people."""
    from evenli.report.card import card as section

    typer.echo(section(run, part), nl=False)
