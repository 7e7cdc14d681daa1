"""``evenli mitigate inlp``, ``leace`` and ``sent-debias``: an encoder in, one with less gender out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from evenli.cli import _shared as shared

Out = Annotated[Path, typer.Option("--out", "-o", help="Folder to write; mitigated:FOLDER is the encoder then.")]
Fit = Annotated[
    str,
    typer.Option(
        help="Sentences to fit on: built-in, or an English corpus (.txt with a sentence a line, or .jsonl, .csv, .tsv, "
        ".parquet with a column text, sentence, premise or hypothesis; .xz may follow)."
    ),
]
Seed = Annotated[int, shared.seed_option("Seed of the fit and of the probes.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a mitigated encoder in the folder.")]


def inlp(
    encoder: shared.Encoder,
    out: Out,
    fit: Fit = "built-in",
    iterations: Annotated[
        int, typer.Option(help="Rounds at most; it ends early once a round finds nothing.", min=1)
    ] = 35,
    seed: Seed = 0,
    pooling: shared.Pooling = "mean",
    device: shared.Device = None,
    overwrite: Overwrite = False,
    as_json: shared.Json = False,
) -> None:
    """Project out what linear classifiers find of gender, round by round (Ravfogel et al. 2020)."""
    given = {"method": "inlp", "fit": fit, "iterations": iterations, "seed": seed}
    _mitigate(encoder, out, given, pooling, device, overwrite, as_json)


def leace(
    encoder: shared.Encoder,
    out: Out,
    fit: Fit = "built-in",
    seed: Seed = 0,
    pooling: shared.Pooling = "mean",
    device: shared.Device = None,
    overwrite: Overwrite = False,
    as_json: shared.Json = False,
) -> None:
    """Erase what any linear classifier could find of gender, with the least change (Belrose et al. 2023)."""
    _mitigate(encoder, out, {"method": "leace", "fit": fit, "seed": seed}, pooling, device, overwrite, as_json)


def sent_debias(
    encoder: shared.Encoder,
    out: Out,
    fit: Fit = "built-in",
    components: Annotated[int, typer.Option(help="Directions to remove.", min=1)] = 1,
    seed: Seed = 0,
    pooling: shared.Pooling = "mean",
    device: shared.Device = None,
    overwrite: Overwrite = False,
    as_json: shared.Json = False,
) -> None:
    """Remove the directions in which sentences differ from their gender-swapped copies (Liang et al. 2020)."""
    given = {"method": "sent-debias", "fit": fit, "components": components, "seed": seed}
    _mitigate(encoder, out, given, pooling, device, overwrite, as_json)


def _mitigate(
    encoder: str, out: Path, given: dict[str, Any], pooling: str, device: str | None, overwrite: bool, as_json: bool
) -> None:
    from evenli.mitigate.encoder import MitigationSettings, mitigate_encoder

    about = mitigate_encoder(
        encoder, out, MitigationSettings(**given), pooling=pooling, device=device, overwrite=overwrite
    )
    if about["note"]:
        shared.warn(about["note"])
    if as_json:
        shared.print_json({"folder": str(out), **about})
        return
    from evenli.report.encoder import print_leakage

    fit, eraser = about["fit"], about["eraser"]
    typer.echo(
        f"{out}: {about['method']} on {fit['pairs']:,} sentence pairs ({fit['source']}), {eraser['rank']} of "
        f"{eraser['dimension']} dimensions removed; use it as mitigated:{out}"
    )
    left_out = ", ".join(f"{count:,} with {reason}" for reason, count in fit["skipped"].items() if count)
    if left_out:
        typer.echo(f"left out of the fit: {left_out.replace('with without', 'without')}")
    print_leakage(about["leakage"]["before"], about["leakage"]["after"], shared.console())
