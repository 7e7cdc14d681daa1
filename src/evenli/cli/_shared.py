"""What several commands share: options, a progress bar, remarks on stderr."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from evenli.errors import InputError
from evenli.format import printable

if TYPE_CHECKING:
    from rich.console import Console

    from evenli.encoders.base import Encoder as Encoding
    from evenli.evaluate.predict import Progress


def option(text: str, *names: str, **more: Any) -> Any:
    """An option with its help text first, so that most fit on a line."""
    return typer.Option(*names, help=text, **more)


SEEDS = {"min": 0, "max": 2**32 - 1}
"""What every library takes as a seed."""


def argument(text: str, **more: Any) -> Any:
    """An argument with its help text."""
    return typer.Argument(help=text, **more)


class SeedCommand(TyperCommand):
    """A command whose seed option may be repeated; ``--seed 0 1 2``, which older versions took, is explained."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse several numbers after one option in one line."""
        option = next(name for parameter in self.params for name in parameter.opts if name.startswith("--seed"))
        for at, word in enumerate(args):
            numbers = list(itertools.takewhile(str.isdigit, args[at + 1 :])) if word in {"--seed", "--seeds"} else []
            if len(numbers) > 1:
                spelled = " ".join(f"{option} {number}" for number in numbers)
                raise InputError(f"{word} takes one number; repeat the option: {spelled}")
        return super().parse_args(ctx, args)


def _known_device(device: str | None) -> str | None:
    if device is not None and device.partition(":")[0] not in {"cpu", "cuda", "mps"}:
        raise InputError(f"device '{device}' is not available; choose cpu, cuda or mps")
    return device


def _no_resampling(given: list[str] | None) -> None:
    if given:
        warn("--resamples, --seed and --bootstrap have no effect: intervals are computed without resampling now")


ModelArgument = Annotated[
    str | None,
    argument(
        "Hub id[@revision], checkpoint folder, onnx:FILE, py:module:function, chat:URL#MODEL, causal:FOLDER, "
        "fake:kind; default: embedded."
    ),
]
Encoder = Annotated[
    str,
    argument(
        "st:NAME, hf:ID or a folder, infersent:FOLDER[,VECTORS], onnx:FOLDER, vectors:FILE, mitigated:FOLDER "
        "or py:module:function."
    ),
]
Pooling = Annotated[str, option("Of hf and onnx encoders: mean, cls or max.")]
Lang = Annotated[str, option("Language: en, ja or zh.")]
Split = Annotated[str, option("full or down (downsampled), for official releases.")]
Tokenised = Annotated[bool, option("Use the pre-segmented Japanese files of a release.", "--tokenised")]
Axis = Annotated[str, option("Social axis: a shipped name or the path of a TOML file.")]
Occupations = Annotated[
    str, option("Occupations: published, labour (US labour statistics; en), or a .csv or .tsv file of your own.")
]
Labels = Annotated[str | None, option("Order of the model's outputs, e.g. entailment,neutral,contradiction.")]
Device = Annotated[str | None, option("cpu, cuda or mps; default: the fastest there is.", callback=_known_device)]
Dtype = Annotated[str | None, option("float32, bfloat16 or float16; default: bfloat16 on CUDA, else float32.")]
MaxLength = Annotated[int, option("Longest input in tokens; longer pairs are truncated and counted.", min=8)]
TokenBudget = Annotated[int | None, option("Tokens per batch; default by device.", min=1)]
Online = Annotated[
    bool, option("Download from the hub what its local cache lacks; otherwise nothing is asked.", "--online/--offline")
]
AllowPickle = Annotated[bool, option("Accept pickle checkpoints; they can run code when loaded.", "--allow-pickle")]
Resampling = Annotated[
    list[str] | None,
    option("No effect.", "--resamples", "--seed", "--bootstrap", hidden=True, callback=_no_resampling),
]
Published = Annotated[
    bool, option("Count words that state a gender, such as businessman, in the causes, too.", "--published")
]
OwnMeasures = Annotated[list[str] | None, option("Own measure as module:function; may be repeated.", "--measure")]
Verbose = Annotated[bool, option("Print every table, too: measures, sets, occupations.", "--verbose", "-v")]
Json = Annotated[bool, option("Print machine-readable output only.", "--json")]


Prompts = Annotated[int, option("Wordings in which a language model is asked.", min=1)]
Orders = Annotated[int, option("Orders of the options for a language model: 3 (cyclic) or 6 (all).")]
Concurrency = Annotated[int, option("Requests to a chat server at a time.", min=1)]
Samples = Annotated[int, option("Answers per question, where a chat server gives no log-probabilities.", min=1)]
Price = Annotated[str | None, option("What a million tokens cost, as PROMPT,ANSWER: for the estimate and --max-cost.")]
MaxCost = Annotated[float | None, option("Ask nothing beyond this cost; needs --price.", min=0)]


def prices(text: str | None) -> tuple[float, float] | None:
    """Two numbers with a comma between them."""
    if text is None:
        return None
    try:
        prompt, answer = map(float, text.split(","))
    except ValueError as error:
        raise InputError(f"--price is '{text}'; write PROMPT,ANSWER per million tokens, e.g. 0.15,0.60") from error
    return prompt, answer


def split_names(text: str | None) -> tuple[str, ...] | None:
    """Names with commas between them; None where the option was not given."""
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def load_encoder(spec: str, pooling: str, device: str | None, online: bool = False) -> Encoding:
    """Load an encoder, and say what should be known of it."""
    from evenli import encoders

    loaded = encoders.load_encoder(spec, pooling=pooling, device=device, online=online)
    if note := getattr(loaded, "note", ""):
        warn(note)
    return loaded


def own_measures(specs: list[str] | None) -> tuple[Any, ...]:
    """Functions named on the command line; only what the user types is ever imported, never what a file says."""
    from evenli._extras import import_object
    from evenli.stats.measure import as_measure

    return tuple(as_measure(import_object(spec, "--measure"), name=spec.partition(":")[2]) for spec in specs or [])


def suite_name(text: str) -> str:
    """A suite as typed, without spaces; the old name of dev2020 still works."""
    name = text.strip()
    if name == "dev":
        warn("suite dev is now called dev2020; the old name goes with the next release")
        return "dev2020"
    return name


def say(line: str) -> None:
    """One line on stdout, whatever stands in it."""
    typer.echo(printable(line))


def warn(message: str) -> None:
    """One remark on stderr."""
    print(f"evenli: {printable(' '.join(message.split()))}", file=sys.stderr)


@contextlib.contextmanager
def deprecations() -> Iterator[None]:
    """Show deprecated names as remarks; Python hides their warnings by default."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DeprecationWarning)
        yield
    for entry in caught:
        warn(str(entry.message))


def console() -> Console:
    """The terminal; wide enough for tables where the output is a file or a pipe."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=140)


def print_json(content: Any) -> None:
    """Strict JSON on stdout."""
    print(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


@contextlib.contextmanager
def progress_bar(shown: bool) -> Iterator[Callable[[Progress | int], None]]:
    """A bar with rate and time left on stderr, where a person is watching; a number is rows of an unknown total."""
    if not shown or not sys.stderr.isatty():
        yield lambda progress: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    text, rate = TextColumn("{task.description}"), TextColumn("{task.fields[rate]}")
    columns = (text, BarColumn(), MofNCompleteColumn(), rate, TimeElapsedColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("loading", total=None, rate="")

        def update(progress: Progress | int) -> None:
            speed = bar.tasks[0].speed
            done, total, stage = (
                (progress, None, "scoring")
                if isinstance(progress, int)
                else (progress.done, progress.total, progress.stage)
            )
            rate = f"{speed:,.0f} pairs/s" if speed else ""
            bar.update(task, description=stage, completed=done, total=total, rate=rate)

        yield update
