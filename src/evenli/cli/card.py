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
    from evenli.errors import InputError
    from evenli.report.card import PARTS
    from evenli.report.card import card as section
    from evenli.report.runs import load_run

    if part not in PARTS:
        raise InputError(f"no part '{part}'; choose {', '.join(PARTS)}")
    typer.echo(section(load_run(run), part), nl=False)
