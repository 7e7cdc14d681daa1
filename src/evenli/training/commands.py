"""``evenli train nli``, ``evenli train encoder``, ``evenli export`` and ``evenli meta``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from evenli.core import commands as shared
from evenli.core import terminal
from evenli.core.commands import SEEDS, argument, choice, option, output
from evenli.core.errors import InputError
from evenli.core.extras import check_extra
from evenli.core.format import percent
from evenli.core.options import grouped
from evenli.core.rooms import Command

if TYPE_CHECKING:
    from evenli.training.nli import Outcome

_STYLES = ("snli", "mnli", "ocnli", "jnli", "jsick", "jsick-en", "sick", "hf")
_LEVELS = "START:STOP:STEP or NUMBER,NUMBER"
Files = Annotated[list[Path], option("Training file: .jsonl, .csv, .tsv or .parquet; may be repeated.")]


def train_nli(
    data: Files,
    out: Annotated[Path, output("Output directory; several seeds get one each in it.")],
    model: Annotated[str | None, argument("Model to start from: hf:ID, ID@REVISION or a checkpoint folder.")] = None,
    dev: Annotated[list[Path] | None, option("File to evaluate on after each epoch; may be repeated.")] = None,
    recipe: Annotated[str, choice("Preset.", ("coal", "control", "sharma"))] = "coal",
    epochs: Annotated[int | None, option("Passes over the data; default by recipe.", min=1)] = None,
    lr: Annotated[float | None, option("Peak learning rate; default by recipe.")] = None,
    batch_size: Annotated[int | None, option("Pairs per step; default by recipe.", min=1)] = None,
    max_length: Annotated[int | None, option("Longest pair in tokens; default by recipe.", min=8)] = None,
    warmup: Annotated[float | None, option("Share of the steps with a rising learning rate.")] = None,
    seed: Annotated[list[int] | None, option("Seed; repeat the option to train a model for each.", **SEEDS)] = None,
    style: Annotated[str | None, choice("Column style of the files; default: found.", _STYLES)] = None,
    device: shared.Device = None,
    dtype: Annotated[
        str | None, choice("Numbers to compute in; default: bfloat16 on CUDA, else float32.", ("float32", "bfloat16"))
    ] = None,
    no_graph: Annotated[bool, option("No CUDA graphs and no compiler.", "--no-graph")] = False,
    log: Annotated[
        list[str] | None, choice("Also log there; may be repeated.", ("tensorboard", "mlflow", "wandb"))
    ] = None,
    checkpoint_minutes: Annotated[float, option("Minutes between checkpoints inside an epoch.", min=0)] = 10.0,
    online: shared.Online = False,
    as_json: shared.Json = False,
) -> None:
    """Fine-tune a three-label classifier.

    A killed run continues when the same command is given again.
    """
    if model is None:
        raise InputError("which model should training start from? evenli train nli MODEL --data FILE -o FOLDER")
    # What is missing is said before the imports, which take seconds.
    check_extra("hf", "training")
    for tracker in log or []:
        check_extra("tracking", f"--log {tracker}", tracker)
    from evenli.training.nli import TrainSettings, train
    from evenli.training.recipe import make_recipe

    chosen = make_recipe(
        recipe, epochs=epochs, lr=lr, batch_size=batch_size, max_length=max_length, warmup=warmup, dtype=dtype
    )
    settings = TrainSettings(
        style=style,
        device=device,
        graph=not no_graph,
        log=log or [],
        checkpoint_minutes=checkpoint_minutes,
        online=online,
        shown=terminal.is_watched(as_json),
    )
    outcomes = train(model, data, out, dev=dev or [], recipe=chosen, seeds=seed or [chosen.seed], settings=settings)
    if as_json:
        terminal.print_json({"runs": [outcome.to_dict() for outcome in outcomes]})
    else:
        _print_outcomes(outcomes)


def _print_outcomes(outcomes: Sequence[Outcome]) -> None:
    """A line for every seed, and where there are several the mean."""
    from evenli.training.progress import accuracy_text

    for outcome in outcomes:
        figure = f"dev accuracy {accuracy_text(outcome.dev)}" if outcome.dev else "no dev data"
        terminal.say(f"{outcome.folder}: {figure}; {outcome.pairs_per_second:,.0f} pairs/s")
    shares = [outcome.dev.value for outcome in outcomes if outcome.dev]
    if len(shares) > 1:
        mean = sum(shares) / len(shares)
        terminal.say(
            f"{len(shares)} seeds: mean {percent(mean, 2)}, from {percent(min(shares), 2)} to {percent(max(shares), 2)}"
        )


def train_encoder(
    data: Annotated[Path, option("Folder that evenli mitigate wrote (train.jsonl, dev.jsonl), or a training file.")],
    vectors: Annotated[Path, option("Word vectors: GloVe, word2vec or fastText.")],
    out: Annotated[Path, output("Output directory.")],
    dev: Annotated[Path | None, option("File to choose the epoch by, if --data is a file.")] = None,
    hidden: Annotated[int, option("Width of each direction of the LSTM.", min=1)] = 2048,
    epochs: Annotated[int, option("Passes over the data.", min=1)] = 8,
    batch_size: Annotated[int, option("Pairs per step.", min=1)] = 64,
    lr: Annotated[float, option("First learning rate of SGD.")] = 0.1,
    v1_padding: Annotated[bool, option("Padding takes part in the maximum, as in V1.", "--v1-padding")] = False,
    dtype: Annotated[
        str, choice("Numbers to compute in; auto is bfloat16 on CUDA.", ("auto", "float32", "tf32", "bfloat16"))
    ] = "auto",
    seed: Annotated[int, option("Seed.", **SEEDS)] = 1234,
    device: shared.Device = None,
    as_json: shared.Json = False,
) -> None:
    """Train a BiLSTM-max sentence encoder (InferSent V1).

    On NLI pairs; a killed run continues.
    """
    check_extra("hf", "training", "torch", "safetensors")
    from evenli.training.bilstm import EncoderSettings, train_encoder_files
    from evenli.training.recipe import EncoderRecipe

    recipe = EncoderRecipe(
        hidden=hidden, epochs=epochs, batch_size=batch_size, lr=lr, v1_padding=v1_padding, dtype=dtype
    )
    settings = EncoderSettings(device=device, shown=terminal.is_watched(as_json))
    outcome = train_encoder_files(data, vectors, out, dev, recipe=recipe, seed=seed, settings=settings)
    line = f"{out}: dev accuracy {percent(outcome.dev, 2)} after epoch {outcome.best}; {outcome.words:,} words"
    terminal.answer(as_json, outcome.to_dict(), line)


def export(
    model: Annotated[Path, argument("Checkpoint folder with safetensors weights.")],
    out: Annotated[Path, output("A file that ends in .onnx, or a folder for model.onnx.")],
    onnx: Annotated[bool, option("Export to ONNX, the one format there is.", "--onnx")] = True,
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
    from evenli.training.export import export_checked

    report = export_checked(model, out, int8, check=check, lang=lang)
    terminal.answer(
        as_json,
        report.to_dict(),
        f"{report.path}: {report.bytes / 1e6:.1f} MB{', weights in int8' if int8 else ''}",
        f"against the fp32 checkpoint on {report.pairs:,} pairs: same label {percent(report.agreement, 2)}, "
        f"largest difference of a logit {report.max_difference:.2g}",
    )


@dataclass(frozen=True)
class DesignFlags:
    """What a sweep trains: the pairs and their levels of bias. None is as in an earlier sweep, or the default."""

    lang: Annotated[str | None, choice("Language; default en.", shared.LANGUAGES, closed=False)] = None
    rates: Annotated[str | None, option("Bias rates; default 0:1:0.1.", metavar=_LEVELS)] = None
    noise: Annotated[str | None, option("Levels of the noise axis; none by default.", metavar=_LEVELS)] = None
    stereotype: Annotated[str | None, option("Levels of the stereotype cause, -1 to 1.", metavar=_LEVELS)] = None
    default: Annotated[
        str | None, option("Levels of the default gender, -1 to 1: share of words read as a man.", metavar=_LEVELS)
    ] = None
    undirected: Annotated[
        str | None, option("Levels of undirected error, 0 to 1; all mixtures are trained.", metavar=_LEVELS)
    ] = None
    balanced: Annotated[bool | None, option("Roles to female and male words in turn.", "--balanced")] = None
    ns_words: Annotated[str | None, choice("NS words; default train, as in the paper.", ("train", "released"))] = None
    data: Annotated[
        str | None, option("Official release to evaluate on; default: own templates.", metavar="FOLDER")
    ] = None
    captions: Annotated[str | None, option("Captions to make training templates of.", metavar="FILE")] = None
    width: Annotated[int | None, option("Training templates per word, default 500.", min=1)] = None


@dataclass(frozen=True)
class RecipeFlags:
    """How the models of a sweep are trained; None is as in an earlier sweep, or the recipe's default."""

    epochs: Annotated[int | None, option("Passes over the data.", min=1)] = None
    lr: Annotated[float | None, option("Peak learning rate.")] = None
    batch_size: Annotated[int | None, option("Pairs per step.", min=1)] = None


_DESIGN, _RECIPE = DesignFlags(), RecipeFlags()


@grouped
def meta(
    model: Annotated[
        str | None, argument("NLI classifier to start from: hub id or checkpoint directory; none to score again.")
    ] = None,
    out: Annotated[Path | None, output("Directory of the sweep, new or to continue.")] = None,
    design: DesignFlags = _DESIGN,
    seed: Annotated[list[int] | None, option("Training seed, default 0; repeat for several sweeps.", **SEEDS)] = None,
    measure: shared.OwnMeasures = None,
    quick: Annotated[bool, option("A first look: three rates and a tenth of the pairs.", "--quick")] = False,
    recipe: RecipeFlags = _RECIPE,
    device: shared.Device = None,
    no_graph: Annotated[bool, option("No CUDA graphs and no compiler.", "--no-graph")] = False,
    stage: Annotated[str, choice("Stop after this stage.", ("prepare", "train", "score"))] = "score",
    online: shared.Online = False,
    as_json: shared.Json = False,
) -> None:
    """Train models of known bias: which measures rank them?

    A killed sweep continues with the same command.
    """
    from evenli.training.meta import DesignOptions, SweepSettings, meta_evaluation

    if out is None:
        raise InputError("which sweep? evenli meta MODEL -o DIRECTORY, or -o alone to score an earlier one again")
    settings = SweepSettings(
        seeds=tuple(seed or [0]),
        recipe={name: value for name, value in asdict(recipe).items() if value is not None},
        device=device,
        graph=not no_graph,
        online=online,
        shown=terminal.is_watched(as_json),
    )
    chosen = DesignOptions(**asdict(design), quick=quick)
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


def controlled(
    out: Annotated[Path, output("Directory to write.")],
    lang: shared.Lang = "en",
    rates: Annotated[str, option("Bias rates.", metavar="START:STOP:STEP or NUMBER,NUMBER")] = "0:1:0.1",
    balanced: Annotated[bool, option("Roles to female and male words in turn.", "--balanced")] = False,
    captions: Annotated[
        str | None, option("Captions to make templates of; default: composed ones.", metavar="FILE")
    ] = None,
    width: Annotated[int, option("Training templates per word.", min=1)] = 500,
    seed: Annotated[int, option("Seed of the order of templates.", **SEEDS)] = 0,
    axis: shared.Axis = "gender",
    as_json: shared.Json = False,
) -> None:
    """Write training, dev and test sets of known bias."""
    from evenli.training.meta.controlled import write_controlled
    from evenli.training.meta.design import Design, parse_rates

    chosen = parse_rates(rates)
    design = Design(lang, rates=chosen, balanced=balanced, captions=captions, width=width, seed=seed, axis=axis)
    content = {"folder": str(out), **write_controlled(out, design).to_dict()}
    terminal.answer(as_json, content, f"{out}: {len(design.rates)} training and dev sets, two test sets; see card.json")


COMMANDS = (
    Command(train_nli, "train", "nli"),
    Command(train_encoder, "train", "encoder"),
    *(Command(run, "Train") for run in (export, meta)),
    Command(controlled, "build"),
)
