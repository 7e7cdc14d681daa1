"""``evenli train nli`` and ``evenli train encoder``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenli.cli import _shared as shared

if TYPE_CHECKING:
    from evenli.training import Outcome

Files = Annotated[
    list[Path], typer.Option(help="Training file: .jsonl, .csv, .tsv or .parquet (.xz may follow); may be repeated.")
]


def train_nli(
    base: Annotated[str, typer.Option(help="Model to start from: hf:ID, ID@REVISION or a checkpoint folder.")],
    data: Files,
    out: Annotated[Path, typer.Option("--out", "-o", help="Output directory; several seeds get one each in it.")],
    dev: Annotated[
        list[Path] | None, typer.Option(help="File to evaluate on after each epoch; may be repeated.")
    ] = None,
    recipe: Annotated[str, typer.Option(help="Preset: coal, control or sharma.")] = "coal",
    epochs: Annotated[int | None, typer.Option(help="Passes over the data; default by recipe.", min=1)] = None,
    lr: Annotated[float | None, typer.Option(help="Peak learning rate; default by recipe.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Pairs per step; default by recipe.", min=1)] = None,
    max_length: Annotated[
        int | None, typer.Option(help="Longest pair in tokens, longer ones are cut; default by recipe.", min=8)
    ] = None,
    warmup: Annotated[float | None, typer.Option(help="Share of the steps with a rising learning rate.")] = None,
    seed: Annotated[list[int] | None, shared.seed_option("Seed; repeat the option to train a model for each.")] = None,
    style: Annotated[
        str | None,
        typer.Option(help="Column style: snli, mnli, ocnli, jnli, jsick, jsick-en, sick or hf; default: detected."),
    ] = None,
    device: shared.Device = None,
    dtype: Annotated[
        str | None, typer.Option(help="float32 or bfloat16; default: bfloat16 on CUDA, else float32.")
    ] = None,
    no_graph: Annotated[bool, typer.Option("--no-graph", help="No CUDA graphs and no compiler.")] = False,
    log: Annotated[list[str] | None, typer.Option(help="Also log to tensorboard or mlflow.")] = None,
    checkpoint_minutes: Annotated[
        float, typer.Option(help="Time between checkpoints inside an epoch; one follows every epoch anyway.", min=0)
    ] = 10.0,
    offline: shared.Offline = False,
    as_json: shared.Json = False,
) -> None:
    """Fine-tune a three-label classifier; a killed run continues when the same command is given again."""
    from evenli.training import TrainSettings, make_recipe, train

    chosen = make_recipe(
        recipe, epochs=epochs, lr=lr, batch_size=batch_size, max_length=max_length, warmup=warmup, dtype=dtype
    )
    settings = TrainSettings(
        style=style,
        device=device,
        graph=not no_graph,
        log=log or [],
        checkpoint_minutes=checkpoint_minutes,
        offline=offline,
        shown=not as_json,
    )
    outcomes = train(base, data, out, dev=dev or [], recipe=chosen, seeds=seed or [chosen.seed], settings=settings)
    if as_json:
        shared.print_json({"runs": [outcome.to_dict() for outcome in outcomes]})
    else:
        _print_outcomes(outcomes)


def _print_outcomes(outcomes: Sequence[Outcome]) -> None:
    """One line a run, and the spread over several seeds."""
    for outcome in outcomes:
        figure = f"dev accuracy {outcome.dev}" if outcome.dev else "no dev data"
        typer.echo(f"{outcome.folder}: {figure}; {outcome.pairs_per_second:,.0f} pairs/s")
    shares = [outcome.dev.value for outcome in outcomes if outcome.dev]
    if len(shares) > 1:
        mean = sum(shares) / len(shares)
        typer.echo(f"{len(shares)} seeds: mean {mean:.2%}, from {min(shares):.2%} to {max(shares):.2%}")


def train_encoder(
    data: Annotated[
        Path, typer.Option(help="Folder that evenli mitigate wrote (train.jsonl, dev.jsonl), or a training file.")
    ],
    vectors: Annotated[Path, typer.Option(help="Word vectors: GloVe, word2vec or fastText.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Output directory.")],
    dev: Annotated[
        Path | None, typer.Option(help="File to choose the epoch by, if --data is a file.", show_default=False)
    ] = None,
    hidden: Annotated[int, typer.Option(help="Width of each direction of the LSTM.", min=1)] = 2048,
    epochs: Annotated[int, typer.Option(help="Passes over the data.", min=1)] = 8,
    batch_size: Annotated[int, typer.Option(help="Pairs per step.", min=1)] = 64,
    lr: Annotated[float, typer.Option(help="First learning rate of SGD.")] = 0.1,
    v1_padding: Annotated[
        bool, typer.Option("--v1-padding", help="Let padding take part in the maximum, as InferSent V1 did.")
    ] = False,
    dtype: Annotated[
        str, typer.Option(help="float32, on CUDA also tf32 and bfloat16; auto is bfloat16 on CUDA.")
    ] = "auto",
    seed: Annotated[int, shared.seed_option("Seed.")] = 1234,
    device: shared.Device = None,
    as_json: shared.Json = False,
) -> None:
    """Train a BiLSTM-max sentence encoder on NLI pairs (InferSent V1); a killed run continues."""
    from evenli.encoders.vectors.files import load_vectors
    from evenli.training.bilstm.recipe import EncoderRecipe
    from evenli.training.bilstm.run import EncoderSettings
    from evenli.training.bilstm.run import train_encoder as run
    from evenli.training.data import read_examples, split_files

    train_file, dev_file = split_files(data, dev)
    recipe = EncoderRecipe(
        hidden=hidden, epochs=epochs, batch_size=batch_size, lr=lr, v1_padding=v1_padding, dtype=dtype
    )
    outcome = run(
        load_vectors(vectors),
        read_examples([train_file]),
        read_examples([dev_file]),
        out,
        recipe=recipe,
        seed=seed,
        settings=EncoderSettings(device=device, shown=not as_json),
    )
    if as_json:
        shared.print_json(outcome.to_dict())
    else:
        typer.echo(f"{out}: dev accuracy {outcome.dev:.2%} after epoch {outcome.best}; {outcome.words:,} words")
