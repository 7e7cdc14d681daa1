"""The command line: heavy imports only inside the command that needs them."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, NoReturn, cast

import typer
from typer.core import TyperCommand
from typer.main import get_command

from evenli._version import __version__
from evenli.core import commands as shared
from evenli.core import terminal
from evenli.core.commands import FullHelp, argument, option, output, with_settings
from evenli.core.errors import EvenliError
from evenli.core.mitigation import Apply, Method
from evenli.core.parse import check_name
from evenli.core.registry import MITIGATIONS, commands
from evenli.core.settings import Settings, offered_fields
from evenli.core.startup import leave
from evenli.core.terminal import drop_output, guard, kept_stdout, warn


class Command(TyperCommand):
    """A command that has stdout to itself while it runs."""

    def invoke(self, ctx: Any) -> Any:
        """Run it."""
        with kept_stdout():
            return super().invoke(ctx)


class MitigateGroup(FullHelp):
    """The commands of ``evenli mitigate``, with one for every method; methods are loaded when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of the help."""
        return list(dict.fromkeys([*super().list_commands(ctx), *MITIGATIONS]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command by name; that of a method comes from the registry."""
        command = super().get_command(ctx, cmd_name)
        return method_command(cmd_name) if command is None and cmd_name in MITIGATIONS else command


def method_command(name: str) -> Any:
    """The command of a method. One of a broken package says so when it is run, and does not disturb the others."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    try:
        run = _runner(MITIGATIONS.get(name))
    except EvenliError as error:
        failure = error

        def run() -> None:
            raise failure

        run.__doc__ = str(error)
    app.command(name, cls=Command)(run)
    return get_command(app)


def _runner(method: Method) -> Callable[..., None]:
    """A function with the common options and those of the method, from which typer makes the command."""
    common: tuple[str, ...] = ()
    work: Callable[..., None] = _apply
    place = "out"
    if method.kind == "encoder":
        from evenli.encoders.commands import mitigate_with

        work, place = mitigate_with, "probe"
        common = ("fit", "probe", "seed", "pooling", "device", "online")
    own = [one.name for one in offered_fields(type(method.settings))]
    run = partial(work, method)
    run.__doc__ = f"{method.title}.\n\n{method.reference}."
    return with_settings(bases={"options": method.settings}, after={place: own}, settings=common)(run)


def _apply(
    method: Method,
    source: Annotated[str, argument("What to make fairer: a file or a directory.")],
    out: Annotated[Path, output("File or directory to write.")],
    *,
    options: Settings,
    overwrite: Annotated[bool, option("Replace what is there.", "--overwrite")] = False,
    as_json: shared.Json = False,
) -> None:
    about = cast(Apply, method.apply)(source, out, options, overwrite)
    about = about.to_dict() if hasattr(about, "to_dict") else about
    details = (f"{name}: {value}" for name, value in (about or {}).items())
    terminal.answer(as_json, about, f"{out}: written by {method.name}", *details)


_INSTALLED = "Data and installation"
GROUPS = {
    "mitigate": ("Mitigate", "Mitigate bias in corpora, word vectors and encoders.", MitigateGroup),
    "train": ("Train", "Train models.", FullHelp),
    "batch": ("Audit a model", "Ask a language model through files of requests and answers.", FullHelp),
    "build": (_INSTALLED, "Build pair sets.", FullHelp),
    "axis": (_INSTALLED, "Make and check a social axis of your own.", FullHelp),
}
"""Commands with commands of their own: where they are listed, their help, and their class."""
SECTIONS = ("Audit a model", "Audit a sentence encoder", "Compare and decide", "Mitigate", "Train", _INSTALLED)


class Root(FullHelp):
    """All commands, in sections."""

    sections: ClassVar[dict[str, list[str]]] = {title: [] for title in SECTIONS}

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """The names in the order of the sections."""
        return [name for names in self.sections.values() for name in names]


def assemble() -> typer.Typer:
    """The command line that the rooms make up."""
    root = typer.Typer(
        name="evenli",
        help="Assess and mitigate gender bias in language-inference models.",
        cls=Root,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},  # those of commands follow
    )
    listed = commands()
    groups: dict[str, typer.Typer] = {}
    for name, (section, text, cls) in GROUPS.items():
        if any(command.section == name for command in listed):
            groups[name] = typer.Typer(help=text, no_args_is_help=True, rich_markup_mode=None, cls=cls)
            root.add_typer(groups[name], name=name)
            Root.sections[section].append(name)
    for command in listed:
        groups.get(command.section, root).command(command.spelled, cls=Command)(command.run)
        if command.section not in groups:
            Root.sections.setdefault(command.section, []).append(command.spelled)
    return root


app = assemble()


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
_arrived: list[int] = []  # signals that asked this process to end


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
        ended = isinstance(error, SystemExit) and error.code in {None, 0, 1, 3}  # passed, failed or undecided
        stopped = isinstance(error, SystemExit) and error.code == _INTERRUPTED
        if stopped or isinstance(error, KeyboardInterrupt) or (_arrived and not ended):
            return True
        raise
    return False


def _command() -> None:
    try:
        try:
            for word in sys.argv[1:]:
                check_name(word)
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
