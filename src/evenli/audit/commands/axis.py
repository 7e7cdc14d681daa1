"""``evenli axis``: make and check a social axis of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenli.core import commands as shared
from evenli.core import terminal
from evenli.core.commands import output
from evenli.core.errors import InputError


def new(
    name: Annotated[str, typer.Argument(help="Name of the axis, such as region.", show_default=False)],
    out: Annotated[Path, output("Folder to write to.")] = Path(),
    as_json: shared.Json = False,
) -> None:
    """Write a commented axis file and a table of words to begin with."""
    from evenli.audit.suites.groups.axis_file import new_axis

    files = [str(file) for file in new_axis(name, out)]
    lines = f"written: {', '.join(files)}", f"edit them, then: evenli axis check {files[0]}"
    terminal.answer(as_json, {"files": files}, *lines)


def check(
    axis: Annotated[str, typer.Argument(help="A shipped name or the path of a TOML file.", show_default=False)],
    as_json: shared.Json = False,
) -> None:
    """Check an axis file.

    Says what is missing or wrong; exit code 2 if an audit could not use it.
    """
    from evenli.audit.suites.groups.axis_file import check_axis
    from evenli.words import load_axis

    loaded, problems = load_axis(axis), check_axis(axis)
    errors = [problem for problem in problems if problem.kind == "error"]
    words, languages = len(loaded.typed_words), ", ".join(loaded.languages)
    terminal.answer(
        as_json,
        {"axis": loaded.id, "problems": [{"kind": problem.kind, "text": problem.text} for problem in problems]},
        f"{loaded.title}: {len(loaded.groups)} groups, {words} words, {languages}",
        *([f"{problem.kind}: {problem.text}" for problem in problems] or ["nothing is missing"]),
    )
    if errors:
        raise InputError(f"axis '{loaded.id}' has {len(errors)} error(s), first: {errors[0].text}")
