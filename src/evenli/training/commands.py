"""``evenli train nli``, ``evenli train encoder``, ``evenli onnx`` and ``evenli meta``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from evenli.core import commands as shared
from evenli.core import terminal
from evenli.core.commands import argument, option, output, with_settings
from evenli.core.errors import InputError
from evenli.core.extras import check_extra
from evenli.core.format import percent
from evenli.core.registry import Command
from evenli.core.settings import SEEDS, Given
from evenli.training.recipe import (
    RECIPES,
    Design,
    EncoderRecipe,
    EncoderSettings,
    Recipe,
    SweepSettings,
    TrainSettings,
    make_recipe,
)

Files = Annotated[list[Path], option("Training file: .jsonl, .csv, .tsv or .parquet; may be repeated.")]


@with_settings(
    changes=("epochs", "lr", "batch_size", "max_length", "warmup", "dtype"),
    settings=("style", "device", "graph", "log", "checkpoint_minutes", "online"),
    after={"device": ["dtype"]},
    texts={
        "epochs": "Passes over the data; default by recipe.",
        "lr": "Peak learning rate; default by recipe.",
        "batch_size": "Pairs per step; default by recipe.",
        "max_length": "Longest pair in tokens; default by recipe.",
    },
)
def train_nli(
    data: Files,
    out: Annotated[Path, output("Output directory; several seeds get one each in it.")],
    model: Annotated[str | None, argument("Model to start from: hf:ID, ID@REVISION or a checkpoint folder.")] = None,
    dev: Annotated[list[Path] | None, option("File to evaluate on after each epoch; may be repeated.")] = None,
    recipe: Annotated[str, option("Preset.", choices=tuple(RECIPES))] = "coal",
    *,
    changes: Given[Recipe],
    seed: Annotated[list[int] | None, option("Seed; repeat the option to train a model for each.", **SEEDS)] = None,
    settings: TrainSettings,
    as_json: shared.Json = False,
) -> None:
    """Fine-tune a three-label classifier.

    A killed run continues when the same command is given again.
    """
    if model is None:
        raise InputError("which model should training start from? evenli train nli MODEL --data FILE -o FOLDER")
    # What is missing is said before the imports, which take seconds.
    check_extra("hf", "training")
    for tracker in settings.log:
        check_extra("tracking", f"--log {tracker}", tracker)
    from evenli.training.nli import train
    from evenli.training.progress import accuracy_text

    chosen = make_recipe(recipe, **changes)
    settings = replace(settings, shown=terminal.is_watched(as_json))
    outcomes = train(model, data, out, dev=dev or [], recipe=chosen, seeds=seed or [chosen.seed], settings=settings)
    if as_json:
        terminal.print_json({"runs": [outcome.to_dict() for outcome in outcomes]})
        return
    for outcome in outcomes:
        figure = f"dev accuracy {accuracy_text(outcome.dev)}" if outcome.dev else "no dev data"
        terminal.say(f"{outcome.folder}: {figure}; {outcome.pairs_per_second:,.0f} pairs/s")
    shares = [outcome.dev.value for outcome in outcomes if outcome.dev]
    if len(shares) > 1:
        mean = sum(shares) / len(shares)
        terminal.say(
            f"{len(shares)} seeds: mean {percent(mean, 2)}, from {percent(min(shares), 2)} to {percent(max(shares), 2)}"
        )


@with_settings(recipe=("hidden", "epochs", "batch_size", "lr", "v1_padding", "dtype"), settings=("device",))
def train_encoder(
    data: Annotated[Path, option("Folder that evenli mitigate wrote (train.jsonl, dev.jsonl), or a training file.")],
    vectors: Annotated[Path, option("Word vectors: GloVe, word2vec or fastText.")],
    out: Annotated[Path, output("Output directory.")],
    dev: Annotated[Path | None, option("File to choose the epoch by, if --data is a file.")] = None,
    *,
    recipe: EncoderRecipe,
    seed: Annotated[int, option("Seed.", **SEEDS)] = 1234,
    settings: EncoderSettings,
    as_json: shared.Json = False,
) -> None:
    """Train a BiLSTM-max sentence encoder (InferSent V1).

    On NLI pairs; a killed run continues.
    """
    check_extra("hf", "training", "torch", "safetensors")
    from evenli.training.bilstm import train_encoder as run

    settings = replace(settings, shown=terminal.is_watched(as_json))
    outcome = run(vectors, data, dev, out, recipe=recipe, seed=seed, settings=settings)
    line = f"{out}: dev accuracy {percent(outcome.dev, 2)} after epoch {outcome.best}; {outcome.words:,} words"
    terminal.answer(as_json, outcome.to_dict(), line)


def onnx(
    model: Annotated[Path, argument("Checkpoint folder with safetensors weights.")],
    out: Annotated[Path, output("A file that ends in .onnx, or a folder for model.onnx.")],
    int8: Annotated[bool, option("Store weights in int8; arithmetic stays fp32.", "--int8")] = False,
    check: Annotated[Path | None, option("Pair file to compare on; default: the built-in gold pairs.")] = None,
    lang: shared.Lang = "en",
    as_json: shared.Json = False,
) -> None:
    """Write a checkpoint as one ONNX file.

    Its tokenizer and label names stand beside it.
    """
    check_extra("hf", "exporting a checkpoint")
    check_extra("onnx", "exporting to ONNX")
    from evenli.training.export import export_onnx

    report = export_onnx(model, out, int8, check=check, lang=lang)
    terminal.answer(
        as_json,
        report.to_dict(),
        f"{report.path}: {report.bytes / 1e6:.1f} MB{', weights in int8' if int8 else ''}",
        f"against the fp32 checkpoint on {report.pairs:,} pairs: same label {percent(report.agreement, 2)}, "
        f"largest difference of a logit {report.max_difference:.2g}",
    )


@with_settings(
    design=(
        *("lang", "rates", "noise", "stereotype", "default", "error", "balanced", "ns_words", "data", "captions"),
        "width",
    ),
    settings=("seeds", "device", "graph", "online"),
    recipe=("epochs", "lr", "batch_size"),
    after={"seeds": ["measure", "quick", "epochs", "lr", "batch_size"], "graph": ["stage"]},
    texts={
        "lang": "Language; default en.",
        "rates": "Bias rates; default 0:1:0.1.",
        "captions": "Captions to make training templates of.",
        "width": "Training templates per word, default 500.",
    },
)
def meta(
    model: Annotated[
        str | None, argument("NLI classifier to start from: hub id or checkpoint directory; none to score again.")
    ] = None,
    out: Annotated[Path | None, output("Directory of the sweep, new or to continue.")] = None,
    *,
    design: Given[Design],
    settings: SweepSettings,
    measure: Annotated[
        list[str] | None, option("Own measure; may be repeated.", "--measure", metavar="MODULE:FUNCTION")
    ] = None,
    quick: Annotated[bool, option("A first look: three rates and a tenth of the pairs.", "--quick")] = False,
    recipe: Given[Recipe],
    stage: Annotated[str, option("Stop after this stage.", choices=("prepare", "train", "score"))] = "score",
    as_json: shared.Json = False,
) -> None:
    """Train models of known bias: which measures rank them?

    A killed sweep continues with the same command.
    """
    from evenli.training.meta import meta_evaluation

    if out is None:
        raise InputError("which sweep? evenli meta MODEL -o DIRECTORY, or -o alone to score an earlier one again")
    settings = replace(settings, recipe=recipe, shown=terminal.is_watched(as_json))
    chosen = design | ({"quick": True} if quick else {})
    with terminal.heartbeat(as_json) as step:
        results = meta_evaluation(
            out, model, design=chosen, settings=settings, measures=measure or [], stage=stage, on_step=step
        )
    if stage == "prepare":
        terminal.say(f"{out}: prepared; train with evenli meta MODEL -o {out}")
    elif results and as_json:
        terminal.print_json({"folder": str(out), **results.to_dict()})
    elif results:
        from evenli.training.meta.charts import print_meta, written_files

        print_meta(results, terminal.console())
        terminal.say(f"files: {out}/ {', '.join(written_files(results))}")


@with_settings(design=("lang", "rates", "balanced", "captions", "width", "seed", "axis"))
def controlled(
    out: Annotated[Path, output("Directory to write.")], *, design: Design, as_json: shared.Json = False
) -> None:
    """Write training, dev and test sets of known bias."""
    from evenli.training.meta.controlled import write_controlled

    content = {"folder": str(out), **write_controlled(out, design).to_dict()}
    terminal.answer(as_json, content, f"{out}: {len(design.rates)} training and dev sets, two test sets; see card.json")


COMMANDS = (
    Command(train_nli, "train", "nli"),
    Command(train_encoder, "train", "encoder"),
    *(Command(run, "Train") for run in (onnx, meta)),
    Command(controlled, "build"),
)
