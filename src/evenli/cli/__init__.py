"""The command line: heavy imports only inside the command that needs them."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NoReturn

import typer

from evenli._interrupt import leave
from evenli._version import __version__
from evenli.cli import about, audit, axis, build, encoders, leaderboard, mitigate, report, score, train
from evenli.cli._groups import FullHelp
from evenli.cli._shared import warn
from evenli.cli._stream import drop_output, guard
from evenli.errors import EvenliError


class Root(FullHelp):
    """All commands, in sections."""

    sections: ClassVar[Mapping[str, Sequence[str]]] = {
        "Audit a model": ("audit", "predict", "measure", "verify", "report", "view", "card", "table"),
        "Audit a sentence encoder": ("seat", "senteval", "encoder-report"),
        "Compare and decide": ("compare", "robustness", "gate", "leaderboard", "reproduce"),
        "Mitigate": ("mitigate", "score", "direction"),
        "Train": ("train", "export", "meta"),
        "Data and installation": ("build", "axis", "data", "models", "doctor"),
    }


app = typer.Typer(
    name="evenli",
    help="Assess and mitigate gender bias in language-inference models.",
    cls=Root,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},  # those of commands follow
)
for command in (
    *(audit.audit, audit.predict, audit.measure, audit.verify, report.report, report.view, report.card, report.table),
    *(encoders.seat, encoders.senteval, encoders.encoder_report),
    *(audit.compare, audit.robustness, report.gate, about.reproduce),
    *(score.score, score.direction, train.export, train.meta, about.data, about.models, about.doctor),
):
    app.command(command.__name__.replace("_", "-"))(command)


def _group(name: str, text: str, *commands: Callable[..., None], cls: type[FullHelp] = FullHelp) -> typer.Typer:
    group = typer.Typer(help=text, no_args_is_help=True, rich_markup_mode=None, cls=cls)
    for command in commands:
        group.command(command.__name__.replace("_", "-"))(command)
    app.add_typer(group, name=name)
    return group


_group("build", "Build pair sets.", build.coal, build.probe, build.dev2020, build.controlled)
_group("axis", "Make and check a social axis of your own.", axis.new, axis.check)
_group("leaderboard", "Keep a leaderboard of models.", leaderboard.submit, leaderboard.page)
_group(
    "mitigate",
    "Mitigate bias in corpora, word vectors and encoders.",
    *(mitigate.swap, mitigate.subtract, mitigate.augment, mitigate.hard_debias),
    cls=mitigate.MitigateGroup,
)
_train = _group("train", "Train models.")  # where a command has another name than its function
_train.command("nli")(train.train_nli)
_train.command("encoder")(train.train_encoder)


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an unexpected error."),
) -> None:
    if debug:
        os.environ[_DEBUG] = "1"
    if version:
        typer.echo(f"evenli {__version__}")
        raise typer.Exit


_INTERRUPTED = 130
_DEBUG = "EVENLI_DEBUG"
_arrived: list[int] = []
"""Signals that asked this process to end."""


def main() -> None:
    """Run the command line; an expected failure is one line and exit code 2."""
    guard()
    _arrived.clear()
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, _interrupt)
        # nohup and & ignore it, and so it stays.
        if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, leave):
            signal.signal(signal.SIGINT, _interrupt)
    try:
        if _run():
            _ignore_interrupts()
            # Python ends by the signal, and not by our code, if it came within an exec; another one resets that.
            exec("")
            print("evenli: interrupted; what a folder holds is kept, and the same command continues", file=sys.stderr)
            raise SystemExit(_INTERRUPTED)
    finally:
        # The interpreter takes a while to end. All is said by then, and an interrupt would kill it without a word.
        atexit.register(_ignore_interrupts)


def _interrupt(number: int, frame: object) -> NoReturn:
    _arrived.append(number)
    raise KeyboardInterrupt


def _ignore_interrupts() -> None:
    with contextlib.suppress(ValueError):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


def _run() -> bool:
    """Run a command; returns whether it was interrupted.

    That is said by the caller, when the frames are gone: one that was left half-way may still keep stderr to itself.
    """
    try:
        _command()
    except BaseException as error:
        # Typer turns an interrupt into an exit of its own, without a word, and an import into an error of another kind.
        ended = isinstance(error, SystemExit) and error.code in {None, 0, 1}  # passed or failed
        stopped = isinstance(error, SystemExit) and error.code == _INTERRUPTED
        if stopped or isinstance(error, KeyboardInterrupt) or (_arrived and not ended):
            return True
        raise
    return False


def _command() -> None:
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # here, where a full disk can still be told
    except Exception as error:
        if _arrived:
            raise
        _fail(error)


def _fail(error: Exception) -> NoReturn:
    """One line and exit code 2."""
    if isinstance(error, EvenliError):
        message = str(error)
    elif isinstance(error, OSError):
        reason = error.strerror or str(error)
        drop_output()
        message = f"{error.filename}: {reason}" if error.filename else f"cannot write the output: {reason}"
    elif os.environ.get(_DEBUG):
        raise error
    else:
        # A defect of ours, or of a plug-in: exit code 1 would mean that a gate failed.
        message = f"unexpected {type(error).__name__}: {error}; {_log_traceback()} Please report it"
    warn(message)
    raise SystemExit(2) from None


def _log_traceback() -> str:
    """Keep the traceback where the user can find it."""
    import tempfile
    import traceback

    try:
        with tempfile.NamedTemporaryFile("w", prefix="evenli-", suffix=".log", delete=False, encoding="utf-8") as log:
            traceback.print_exc(file=log)
        return f"the traceback is in {log.name} (or pass evenli --debug)."
    except OSError:
        return "pass evenli --debug for the traceback."
