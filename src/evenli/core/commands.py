"""Options and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from evenli.core.errors import InputError
from evenli.core.registry import SUITES


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
        from evenli.core.store import check_writable

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
