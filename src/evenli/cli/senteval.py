"""``evenli senteval``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenli.cli import _shared as shared

if TYPE_CHECKING:
    from evenli.evaluate.senteval import SentEvalResult, TaskProgress


def senteval(
    encoder: shared.Encoder,
    data: Annotated[
        Path | None,
        typer.Option(help="Directory with the task files, flat or SentEval's own layout.", show_default=False),
    ] = None,
    tasks: Annotated[
        str | None, typer.Option(help="Names such as MR,CR,STS14; default: all twelve.", show_default=False)
    ] = None,
    pooling: shared.Pooling = "mean",
    seed: Annotated[int, shared.seed_option("Seed of folds, shuffles and initial weights.")] = 1111,
    kfold: Annotated[int, typer.Option(help="Folds of cross-validated tasks, outer and inner.", min=2)] = 10,
    classifier: Annotated[str, typer.Option(help="torch (softmax layer, Adam) or sklearn.")] = "torch",
    hidden: Annotated[int, typer.Option(help="Units of a sigmoid layer before the softmax; 0: none.", min=0)] = 0,
    batch_size: Annotated[
        int | None, typer.Option(help="Texts the encoder takes at a time.", min=1, show_default=False)
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Directory that keeps embeddings between runs.", show_default=False)
    ] = None,
    device: shared.Device = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="JSON file for the result, written after every task; what is in it is not run again.",
            show_default=False,
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Begin anew in a file that is there.")] = False,
    as_json: shared.Json = False,
) -> None:
    """Evaluate an encoder on the twelve SentEval tasks of Dolci et al. 2023."""
    from evenli.errors import InputError
    from evenli.evaluate.senteval import ResultFile, SentEvalSettings, UnsavedResultError
    from evenli.evaluate.senteval import senteval as run_senteval

    if data is None:
        raise InputError("--data: where are the SentEval files? A flat directory, or SentEval's downstream directory")
    chosen = None if tasks is None else tuple(name.strip() for name in tasks.split(",") if name.strip())
    settings = SentEvalSettings(chosen, seed, kfold, hidden, classifier, device, batch_size)
    file = None if out is None else ResultFile(out, overwrite=overwrite)  # checked before the encoder is loaded
    loaded = shared.load_encoder(encoder, pooling, device)
    try:
        result = run_senteval(loaded, data, settings, out=file, cache=cache, name=encoder, on_progress=_print_progress)
    except UnsavedResultError as error:
        _print(error.result, as_json)
        raise
    if not result.tasks:
        raise InputError(f"no task could run: {next(iter(result.missing.values()))}")
    _print(result, as_json)


def _print(result: SentEvalResult, as_json: bool) -> None:
    from evenli.report.senteval import print_senteval

    if not as_json:
        print_senteval(result, shared.console())
        return
    for reason in result.missing.values():
        shared.warn(f"not run: {reason}")
    shared.print_json(result.to_dict())


def _print_progress(progress: TaskProgress) -> None:
    if progress.result is not None:
        shared.warn(str(progress))
    elif sys.stderr.isatty():  # the line of the result will replace it
        print(f"evenli: {progress}", end="\r", file=sys.stderr, flush=True)
