"""``evenli encoder-report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenli.cli import _shared as shared


def encoder_report(
    base: Annotated[
        str,
        typer.Argument(
            help="The unmitigated encoder: st:NAME, hf:ID or a folder, infersent:FOLDER, onnx:FOLDER, vectors:FILE or "
            "py:module:function."
        ),
    ],
    mitigated: Annotated[
        list[str] | None,
        typer.Argument(help="Encoders to set beside it: mitigated:FOLDER or any of the above.", show_default=False),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the SentEval data; default: without SentEval.", show_default=False)
    ] = None,
    tasks: Annotated[
        str | None,
        typer.Option(help="SentEval tasks such as MR,CR; default: all there is data for.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder for report.json and the chart; what is in it is not computed again.",
            show_default=False,
        ),
    ] = None,
    pooling: shared.Pooling = "mean",
    permutations: Annotated[
        int, typer.Option(help="Permutations of SEAT; fewer if all can be tried.", min=100)
    ] = 100_000,
    seed: Annotated[int, shared.seed_option("Seed of permutations, bootstrap and probes.")] = 0,
    device: shared.Device = None,
    as_json: shared.Json = False,
) -> None:
    """Mitigated encoders beside their base: SEAT, what leaks of gender, and SentEval."""
    import sys

    from evenli.errors import InputError, MissingExtraError
    from evenli.evaluate.encoder_report import encoder_report as run_report
    from evenli.evaluate.encoder_results import ReportSettings
    from evenli.evaluate.seat import SeatSettings
    from evenli.evaluate.senteval import SentEvalSettings
    from evenli.report.encoder import print_encoders, write_encoder_chart

    chosen = tuple(task.strip() for task in tasks.split(",")) if tasks else None
    tests = SeatSettings(seed=seed, permutations=permutations)
    settings = ReportSettings(tests, SentEvalSettings(chosen), pooling, device)
    steps = (lambda encoder, figure: shared.warn(f"{encoder}: {figure}")) if sys.stderr.isatty() else None
    report = run_report([base, *(mitigated or [])], settings, data=data, out=out, on_step=steps)
    files = [] if out is None else [out / "report.json"]
    if out is not None:
        try:
            files += write_encoder_chart(report, out)
        except (InputError, MissingExtraError) as error:
            # The figures are there and stored; without a chart they are still a report.
            shared.warn(f"no chart: {error}")
    if as_json:
        shared.print_json(report.to_dict())
        return
    print_encoders(report, shared.console())
    if files:
        typer.echo(f"written: {', '.join(map(str, files))}")
