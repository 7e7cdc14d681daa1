"""``evenli reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenli.cli import _shared as shared


def reproduce(
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder with the public data (nli_coal/…); default $EVENLI_SHARED_DATA. Rows that need it are skipped "
            "without it.",
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
        raise InputError(f"--data: no such folder: {data}")
    rows = ledger(data)
    broken = [row for row in rows if row.status == "BROKEN"]
    if as_json:
        shared.print_json([row.as_dict() for row in rows])
        raise typer.Exit(1 if broken else 0)
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column, justify in (("what", "left"), ("published", "right"), ("ours", "right"), ("±", "right"), ("", "left")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    table.add_column("source / reason", overflow="fold")
    colours = {"ok": "green", "differs": "yellow", "skipped": "dim", "BROKEN": "bold red"}
    for row in rows:
        reason = f"{row.source}: {row.reason}" if row.reason and (verbose or row.status != "ok") else row.source
        table.add_row(
            escape(row.what),
            row.shown(row.published),
            row.shown(row.ours),
            f"{row.tolerance:g}",
            row.status,
            escape(reason),
            style=colours[row.status] if row.status != "ok" else None,
        )
    console = shared.console()
    console.print(table)
    counts = {status: sum(row.status == status for row in rows) for status in colours}
    console.print(", ".join(f"{n} {status}" for status, n in counts.items() if n))
    raise typer.Exit(1 if broken else 0)
