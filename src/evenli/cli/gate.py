"""``evenli gate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenli.cli import _shared as shared


def gate(
    run: Annotated[Path, typer.Argument(help="Run folder of an audit.")],
    fail_if: Annotated[
        list[str] | None,
        typer.Option("--fail-if", help='Condition that fails the gate, e.g. "coal.low > 0.30"; may be repeated.'),
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="Older run on the same data to compare with.", show_default=False)
    ] = None,
    max_worse: Annotated[
        float | None,
        typer.Option(
            help="Rise of NLI-CoAL over the baseline that is allowed; a larger one fails if its interval lies above 0. "
            "Default 0.02.",
            show_default=False,
        ),
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML here.", show_default=False)] = None,
    resamples: shared.Resamples = 2000,
    seed: shared.Seed = 0,
    as_json: shared.Json = False,
) -> None:
    """Pass or fail a run: exit code 0 passed, 1 failed, 2 bad input or undecidable."""
    from evenli.errors import InputError
    from evenli.report.gate import gate as decide
    from evenli.stats.intervals import Scoring

    if not fail_if and baseline is None:
        raise InputError('the gate has nothing to check; pass --fail-if "coal.low > 0.30" or --baseline OLD_RUN')
    with shared.deprecations():
        result = decide(run, fail_if or [], baseline, max_worse, junit, Scoring(resamples=resamples, seed=seed))
    if as_json:
        shared.print_json(result.to_dict())
    else:
        typer.echo(repr(result))
    # Raised only now, so that the other checks are read as well.
    if result.passed is None:
        raise InputError(result.problem)
    if not result.passed:
        raise typer.Exit(1)
