"""``evenli compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenli.cli import _shared as shared


def compare(
    first: Annotated[Path, typer.Argument(help="Run folder to compare with.")],
    others: Annotated[list[Path], typer.Argument(help="One or more run folders on the same data.")],
    suite: Annotated[
        str | None, typer.Option(help="coal or probe; default: each that all runs hold.", show_default=False)
    ] = None,
    resamples: shared.Resamples = 2000,
    seed: shared.Seed = 0,
    as_json: shared.Json = False,
) -> None:
    """Compare runs item by item with the first: differences, intervals, p, which occupations moved."""
    from evenli.evaluate.comparison import compare_runs
    from evenli.report.comparing import show_comparison
    from evenli.stats.intervals import Scoring

    compared = compare_runs(first, *others, suite=suite, scoring=Scoring(resamples=resamples, seed=seed))
    if as_json:
        shared.print_json(compared.to_dict())
    else:
        show_comparison(compared, shared.console())
