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
    from evenli.errors import InputError
    from evenli.evaluate.stored import load_run
    from evenli.report.comparing import COMPARED, compare_runs, comparison_json, shared_suites, show_comparison

    if suite is not None and suite not in COMPARED:
        raise InputError(f"suite '{suite}' cannot be compared; choose {' or '.join(COMPARED)}")
    runs = [load_run(path, needs=suite) for path in (first, *others)]
    suites = shared_suites(runs) if suite is None else [suite]
    found = {name: compare_runs(runs, suite=name, resamples=resamples, seed=seed) for name in suites}
    if as_json:
        shared.print_json(comparison_json(runs, found.get("coal", []), found.get("probe", [])))
        return
    console = shared.console()
    for number, (name, one) in enumerate(found.items()):
        if number:
            console.print()
        show_comparison(runs, one, console, suite=name)
