"""``evenli reproduce``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenli.cli import _shared as shared

if TYPE_CHECKING:
    from evenli.reproduction import Row

_COLOURS = {"ok": None, "differs": "yellow", "skipped": "dim", "BROKEN": "bold red"}


def reproduce(
    data: Annotated[
        Path | None,
        typer.Option(
            help="Directory with the public data (nli_coal/…); default $EVENLI_SHARED_DATA. Rows that need it are "
            "skipped without it.",
            show_default=False,
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print the reasons in full.")] = False,
    as_json: shared.Json = False,
) -> None:
    """Check every published number that needs no model against ours; exit 1 if a row breaks."""
    from evenli.errors import InputError
    from evenli.reproduction import ledger

    if data is not None and not data.is_dir():
        raise InputError(f"--data: no such directory: {data}")
    rows = ledger(data)
    if as_json:
        shared.print_json([row.to_dict() for row in rows])
    else:
        _print_table(rows, verbose)
    raise typer.Exit(1 if any(row.status == "BROKEN" for row in rows) else 0)


def _print_table(rows: Sequence[Row], verbose: bool) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("what")
    for column in ("published", "ours", "±"):
        table.add_column(column, justify="right")
    table.add_column("")
    table.add_column("source / reason", overflow="fold")
    for row in rows:
        reason = f"{row.source}: {row.reason}" if row.reason and (verbose or row.status != "ok") else row.source
        numbers = (row.shown(row.published), row.shown(row.ours), f"{row.tolerance:g}")
        table.add_row(escape(row.what), *numbers, row.status, escape(reason), style=_COLOURS[row.status])
    console = shared.console()
    console.print(table)
    counts = {status: sum(row.status == status for row in rows) for status in _COLOURS}
    console.print(", ".join(f"{n} {status}" for status, n in counts.items() if n))
