"""``evenli compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenli.cli import _shared as shared


def compare(
    first: Annotated[Path, typer.Argument(help="Run folder to compare with.")],
    others: Annotated[list[Path], typer.Argument(help="One or more run folders on the same data.")],
    resamples: shared.Resamples = 2000,
    seed: shared.Seed = 0,
    as_json: shared.Json = False,
) -> None:
    """Compare runs item by item with the first: differences, intervals, p, which occupations moved."""
    from evenli.reports.comparing import compare_runs, comparison_json, show_comparison
    from evenli.reports.stored import load_run

    runs = [load_run(path) for path in (first, *others)]
    found = compare_runs(runs, resamples=resamples, seed=seed)
    if as_json:
        shared.print_json(comparison_json(runs, found))
        return
    show_comparison(runs, found, shared.console())
