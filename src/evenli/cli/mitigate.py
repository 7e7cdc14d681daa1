"""``evenli mitigate``: the commands of rooms, and one for every registered method."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command

from evenli.core import commands as shared
from evenli.core import terminal
from evenli.core.commands import argument, choice, option, output
from evenli.core.errors import EvenliError
from evenli.core.options import FullHelp, signed
from evenli.core.registry import MITIGATIONS

if TYPE_CHECKING:
    from evenli.core.mitigation import Method


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
    app.command(name)(run)
    return get_command(app)


def _runner(method: Method) -> Any:
    """A function with the common options and those of the method, from which typer makes the command."""
    # Typer reads a signature, so one is put together: the options of the method stand before the one that is named.
    work: Callable[..., None] = _apply
    before = "overwrite"
    if method.kind == "encoder":
        from evenli.encoders.commands import mitigate_with

        work, before = mitigate_with, "seed"
    _, _, *common = inspect.signature(work, eval_str=True).parameters.values()  # all but method and options
    own = [
        inspect.Parameter(
            given.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=given.default,
            annotation=Annotated[
                type(given.default),
                choice(given.help, given.choices) if given.choices else option(given.help, min=given.minimum),
            ],
        )
        for given in method.options
    ]
    place = [parameter.name for parameter in common].index(before)

    def run(**given: Any) -> None:
        options = {one.name: given.pop(one.name) for one in method.options}
        work(method, options, **given)

    run.__doc__ = f"{method.title}.\n\n{method.reference}."
    return signed(run, [*common[:place], *own, *common[place:]])


def _apply(
    method: Any,
    options: Any,
    source: Annotated[str, argument("What to make fairer: a file or a directory.")],
    out: Annotated[Path, output("File or directory to write.")],
    overwrite: Annotated[bool, option("Replace what is there.", "--overwrite")] = False,
    as_json: shared.Json = False,
) -> None:
    about = method.apply(source, out, method.settings(options), overwrite)
    about = about.to_dict() if hasattr(about, "to_dict") else about
    details = (f"{name}: {value}" for name, value in (about or {}).items())
    terminal.answer(as_json, about, f"{out}: written by {method.name}", *details)
