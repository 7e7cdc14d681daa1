"""What several commands share: options, a progress bar, remarks on stderr."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenli.errors import InputError
from evenli.format import drawn_on, printable
from evenli.registry import SUITES

if TYPE_CHECKING:
    from rich.console import Console

    from evenli.encoders.base import Encoder as Encoding
    from evenli.evaluate.predict import Progress


def option(text: str, *names: str, **more: Any) -> Any:
    """An option with its help text first, so that most fit on a line."""
    return typer.Option(*names, help=text, **more)


SEEDS = {"min": 0, "max": 2**32 - 1}
"""What every library takes as a seed."""


def choice(text: str, values: Sequence[str], *, closed: bool = True) -> Any:
    """An option with the values it takes: shown in the help, offered by the shell, and another one refused in a line.

    With ``closed`` as false other values are taken too: a file, or what a plug-in brings.
    """

    # Not an enumeration of typer's: its refusal takes five lines, and the help would not show the open end.
    def check(parameter: typer.CallbackParam, given: Any) -> Any:
        for value in given if isinstance(given, list) else [given]:
            if value is not None and value not in values:
                listed = f"{', '.join(values[:-1])} or {values[-1]}"
                raise InputError(f"{parameter.opts[0]} '{value}' is unknown; choose {listed}")
        return given

    shown = "|".join(values if closed else (*values, "…"))
    checked = {"callback": check} if closed else {}
    return option(text, metavar=f"[{shown}]", autocompletion=lambda: list(values), **checked)


def several(text: str, values: Sequence[str], *, of: str) -> Any:
    """An option for names with commas: all that are known stand in the help and are offered by the shell.

    The library refuses an unknown one, with the same list: files and names of plug-ins are taken, too.
    """
    shown = f"{text} Known: {', '.join(values)}."
    return option(shown, metavar=f"{of},{of},…", autocompletion=lambda: list(values))


def suites(text: str) -> Any:
    """An option for the name of a suite, or of several; packages may bring more than ours."""
    return choice(text, SUITES.builtin, closed=False)


def argument(text: str) -> Any:
    """An argument with its help text."""
    return typer.Argument(help=text)


def output(text: str) -> Any:
    """The option for what is written, which every command calls alike."""
    return option(text, "--out", "-o")


_DEVICES = ("cpu", "cuda", "mps")


def _known_device(device: str | None) -> str | None:
    if device is not None and device.partition(":")[0] not in _DEVICES:
        raise InputError(f"device '{device}' is not available; choose cpu, cuda or mps")
    return device


def _page_file(path: Path | None) -> Path | None:
    if path is not None:
        from evenli.store import check_writable

        check_writable(path)
    return path


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
LANGUAGES = ("en", "ja", "zh")
# Named here so that the help reads no file; a test compares them with what is shipped.
AXES = (
    *("age", "ethnicity", "gender", "gender3", "gender3_neo", "gender3_they", "gender_nationality", "nationality"),
    *("pronouns", "religion"),
)
Pooling = Annotated[
    str | None, choice("How hf and onnx encoders pool; default: as their files say.", ("mean", "cls", "max"))
]
Lang = Annotated[str, choice("Language of the pairs.", LANGUAGES, closed=False)]
Split = Annotated[str, choice("Part of an official release; down is downsampled.", ("full", "down"))]
Tokenised = Annotated[bool, option("Use the pre-segmented Japanese files of a release.", "--tokenised")]
Axis = Annotated[
    str,
    option(
        f"Social axis: {', '.join(AXES)}, one of a package, or the path of a TOML file.",
        metavar="AXIS",
        autocompletion=lambda: list(AXES),
    ),
]
Occupations = Annotated[
    str,
    choice(
        "Occupations; labour is by US labour statistics (en); or a .csv or .tsv file of your own.",
        ("published", "labour"),
        closed=False,
    ),
]
Device = Annotated[
    str | None,
    option(
        "Where to compute, also as cuda:1; default: the fastest there is.",
        metavar="[cpu|cuda|mps]",
        autocompletion=lambda: list(_DEVICES),
        callback=_known_device,
    ),
]
Online = Annotated[
    bool, option("Download from the hub what its local cache lacks; otherwise nothing is asked.", "--online/--offline")
]
Published = Annotated[
    bool, option("Count words that state a gender, such as businessman, in the causes, too.", "--published")
]
OwnMeasures = Annotated[
    list[str] | None, option("Own measure; may be repeated.", "--measure", metavar="MODULE:FUNCTION")
]
Run = Annotated[Path, argument("Run folder of an audit.")]
RunFolder = Annotated[Path | None, output("Run folder; default: named by model, language, data.")]
ReplaceRun = Annotated[bool, option("Replace another run in the folder.", "--overwrite")]
Verbose = Annotated[bool, option("Print every table, too: measures, sets, occupations.", "--verbose", "-v")]
Html = Annotated[Path | None, option("Also write a page for people to this .html file.", "--html", callback=_page_file)]
Json = Annotated[bool, option("Print machine-readable output only.", "--json")]


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


def load_encoder(spec: str, pooling: str | None, device: str | None, online: bool = False) -> Encoding:
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


def say(line: str) -> None:
    """One line on stdout, whatever stands in it."""
    typer.echo(printable(line))


def warn(message: str) -> None:
    """One remark on stderr."""
    print(f"evenli: {printable(' '.join(message.split()))}", file=sys.stderr)


def console() -> Console:
    """The terminal; wide enough for tables where the output is a file or a pipe."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=140)


def print_json(content: Any) -> None:
    """Strict JSON on stdout."""
    print(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


def answer(as_json: bool, content: Any, *lines: str) -> None:
    """What a command has to say: JSON if that is asked for, or else lines for people."""
    if as_json:
        print_json(content)
        return
    for line in lines:
        say(line)


_PAUSE = 10.0
"""Seconds between two lines of progress in a log."""


class ProgressLog:
    """Progress where nobody watches: one line on stderr every ten seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._started = clock, clock()
        self._last = self._started

    def __call__(self, progress: Progress | int) -> None:
        """Say where the work is, if ten seconds have passed since the last line."""
        now = self._clock()
        if now - self._last < _PAUSE:
            return
        self._last, seconds = now, now - self._started
        if isinstance(progress, int):
            warn(f"scoring: {progress:,} rows after {seconds:.0f} s")
            return
        share = progress.done / progress.total if progress.total else 0
        left = f", about {seconds / share - seconds:.0f} s left" if share else ""
        warn(f"{progress.stage}: {progress.done:,} of {progress.total:,} ({share:.0%}) after {seconds:.0f} s{left}")


def is_watched(as_json: bool) -> bool:
    """Whether progress is shown: always on a terminal; in a file or a pipe not beside JSON, for whoever reads both."""
    return not as_json or sys.stderr.isatty()


@contextlib.contextmanager
def heartbeat(as_json: bool, first: str = "") -> Iterator[Callable[[str], None]]:
    """Say every ten seconds on stderr what a command is at, where its work cannot be counted.

    The block announces what it does next; an empty text keeps quiet, for work that speaks itself.
    """
    shown = is_watched(as_json)
    current, ended, started = [first], threading.Event(), time.monotonic()

    def beat() -> None:
        while not ended.wait(_PAUSE):
            if current[0]:
                warn(f"{current[0]}, {time.monotonic() - started:.0f} s so far")

    def announce(text: str) -> None:
        current[0] = text

    # A daemon: a command that is interrupted must not wait for the next beat.
    thread = threading.Thread(target=beat, daemon=True)
    if shown:
        thread.start()
    try:
        yield announce
    finally:
        ended.set()
        if shown:
            thread.join()


@contextlib.contextmanager
def progress_bar(as_json: bool) -> Iterator[Callable[[Progress | int], None]]:
    """A bar with rate and time left on stderr, or a line now and then where stderr is a file or a pipe.

    A number is rows of an unknown total.
    """
    if not is_watched(as_json):
        yield lambda progress: None
        return
    if not sys.stderr.isatty():
        yield ProgressLog()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    text, rate = TextColumn("{task.description}"), TextColumn("{task.fields[rate]}")
    columns = (text, BarColumn(), MofNCompleteColumn(), rate, TimeElapsedColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(file=drawn_on(sys.stderr)), transient=True) as bar:
        task = bar.add_task("loading", total=None, rate="")

        def update(progress: Progress | int) -> None:
            speed = bar.tasks[0].speed
            rate = f"{speed:,.0f} pairs/s" if speed else ""
            if isinstance(progress, int):
                bar.update(task, description="scoring", completed=progress, rate=rate)
            else:
                bar.update(task, description=progress.stage, completed=progress.done, total=progress.total, rate=rate)

        yield update
