"""``evenli export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenli.core import commands as shared
from evenli.core import terminal
from evenli.core.commands import argument, option, output
from evenli.core.errors import InputError
from evenli.core.registry import EXPORTS, Command


def export(
    runs: Annotated[list[Path], argument("Run folders of audits, the newest first.")],
    kind: Annotated[str, option("Format.", "--as", choices=tuple(EXPORTS.builtin), closed=False)],
    out: Annotated[Path | None, output("A file, or a folder for several; default: stdout.")] = None,
    as_json: shared.Json = False,
) -> None:
    """Write audits in the format of another tool.

    An unknown format lists the known ones.
    """
    from evenli.exports.files import export as write

    files = write(runs, kind, out)
    if out is not None:
        folder = out if not out.suffix else out.parent
        names = [str(out)] if out.suffix else [str(folder / name) for name in files]
        terminal.answer(as_json, {"files": names}, *names)
    elif len(files) > 1:
        raise InputError(f"{kind} writes {len(files)} files ({', '.join(files)}); name a folder (-o)")
    else:
        typer.echo(next(iter(files.values())), nl=False)


COMMANDS = (Command(export, "Compare and decide"),)
