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
    from evenli.evaluate.comparison import compare_runs
    from evenli.report import gate as gates
    from evenli.report.runs import load_run
    from evenli.stats.intervals import Scoring

    if not fail_if and baseline is None:
        raise InputError('the gate has nothing to check; pass --fail-if "coal.low > 0.30" or --baseline OLD_RUN')
    if max_worse is not None and baseline is None:
        raise InputError("--max-worse needs --baseline OLD_RUN")
    stored = load_run(run)
    checks = [gates.check_competence(stored.results), *gates.check_conditions(stored.results, fail_if or [])]
    if baseline is not None:
        old = load_run(baseline)
        if old.results["verdict"]["code"] == "none":
            sentence = old.results["verdict"]["sentence"]
            raise InputError(f"the baseline {baseline} has no verdict; choose another one ({sentence})")
        compared = compare_runs(
            old.audit, stored.audit, suite="coal", scoring=Scoring(resamples=resamples, seed=seed)
        ).suites["coal"][0]
        checks.append(gates.check_baseline(compared, gates.MAX_WORSE if max_worse is None else max_worse))
    if junit is not None:
        gates.write_junit(checks, junit, suite=f"evenli gate {stored.model}")
    undecided: InputError | None = None
    try:
        good: bool | None = gates.passed(checks)
    except InputError as error:
        good, undecided = None, error
    if as_json:
        content = {"run": str(run), "model": stored.model, "passed": good}
        shared.print_json(content | {"checks": [check.__dict__ for check in checks]})
    else:
        for check in checks:
            typer.echo(f"{check.status:<7} {check.name}: {check.detail}")
        said = {True: "passed", False: "FAILED", None: "UNDECIDED"}[good]
        typer.echo(f"{said}: {stored.model} ({run})")
    # Raised only now, so that the other checks are read as well.
    if undecided is not None:
        raise undecided
    if not good:
        raise typer.Exit(1)
