"""``evenli export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenli.cli import _shared as shared


def export(
    model: Annotated[Path, typer.Argument(help="Checkpoint folder with safetensors weights.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="A file that ends in .onnx, or a folder for model.onnx.")],
    onnx: Annotated[bool, typer.Option("--onnx", help="Export to ONNX, the one format there is.")] = True,
    int8: Annotated[bool, typer.Option("--int8", help="Store weights in int8; arithmetic stays fp32.")] = False,
    check: Annotated[
        Path | None,
        typer.Option(help="Pair file on which to compare with the checkpoint; default: the built-in gold pairs."),
    ] = None,
    lang: shared.Lang = "en",
    as_json: shared.Json = False,
) -> None:
    """Write a checkpoint as one ONNX file with its tokenizer and label names beside it."""
    from evenli.suites.checks import gold_pairs
    from evenli.suites.files import read_pairs
    from evenli.training import export_onnx

    pairs = read_pairs(check, lang, suite="check") if check else gold_pairs(lang)
    columns = pairs.frame["premise"].to_list(), pairs.frame["hypothesis"].to_list()
    report = export_onnx(model, out, int8, check=list(zip(*columns, strict=True)))
    if as_json:
        shared.print_json(report.to_dict())
        return
    typer.echo(f"{report.path}: {report.bytes / 1e6:.1f} MB{', weights in int8' if int8 else ''}")
    typer.echo(
        f"against the fp32 checkpoint on {report.pairs:,} pairs: same label {report.agreement:.2%}, "
        f"largest difference of a logit {report.max_difference:.2g}"
    )
