"""``evenli reproduce``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenli.core import commands as shared
from evenli.core import terminal
from evenli.core.commands import option
from evenli.core.errors import InputError

if TYPE_CHECKING:
    from evenli.reproduction import Row

_COLOURS = {"ok": None, "differs": "yellow", "skipped": "dim", "BROKEN": "bold red"}


def reproduce(
    data: Annotated[Path | None, option("Public data, for the rows that need it; default $EVENLI_SHARED_DATA.")] = None,
    verbose: Annotated[bool, option("Print the reasons in full.", "--verbose", "-v")] = False,
    as_json: shared.Json = False,
) -> None:
    """Check published numbers against ours.

    Those that need no model; exit code 1 if a row breaks.
    """
    from evenli.reproduction import ledger

    if data is not None and not data.is_dir():
        raise InputError(f"--data: no such directory: {data}")
    rows = ledger(data)
    if as_json:
        terminal.print_json([row.to_dict() for row in rows])
    else:
        _print_table(rows, verbose)
    raise typer.Exit(1 if any(row.status == "BROKEN" for row in rows) else 0)


def _print_table(rows: Sequence[Row], verbose: bool) -> None:
    from rich.markup import escape
    from rich.table import Table

    from evenli.reproduction.ledger import KINDS

    table = Table("what", box=None, pad_edge=False)
    for column in ("published", "ours", "±"):
        table.add_column(column, justify="right")
    table.add_column("")
    table.add_column("kind")
    table.add_column("source / reason", overflow="fold")
    for row in rows:
        reason = f"{row.source}: {row.reason}" if row.reason and (verbose or row.status != "ok") else row.source
        numbers = (row.shown(row.published), row.shown(row.ours), f"{row.tolerance:g}")
        table.add_row(escape(row.what), *numbers, row.status, row.kind, escape(reason), style=_COLOURS[row.status])
    console = terminal.console()
    console.print(table)
    counts = {status: sum(row.status == status for row in rows) for status in _COLOURS}
    console.print(", ".join(f"{n} {status}" for status, n in counts.items() if n))
    for kind, meaning in KINDS.items():
        console.print(f"{kind} ({sum(row.kind == kind for row in rows)}): {meaning}")
