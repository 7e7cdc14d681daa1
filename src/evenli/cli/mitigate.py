"""``evenli mitigate``: the commands of rooms, and one for every registered method."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.main import get_command

from evenli.core import commands as shared
from evenli.core import terminal
from evenli.core.commands import FullHelp, argument, option, output, with_settings
from evenli.core.errors import EvenliError
from evenli.core.mitigation import Apply, Method
from evenli.core.registry import MITIGATIONS
from evenli.core.settings import Settings, offered_fields


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
