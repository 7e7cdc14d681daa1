"""Check published numbers against ours; exit code 1 if a row is broken.

    python -m studies.ledger [--data FOLDER] [--verbose] [--json]

No model is needed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evenli.core.errors import EvenliError
from studies.ledger import Row, ledger
from studies.ledger.ledger import KINDS

_COLOURS = {"ok": None, "differs": "yellow", "skipped": "dim", "BROKEN": "bold red"}


def main(words: Sequence[str] | None = None) -> int:
    """Print the ledger; 1 if a row is broken."""
    parser = argparse.ArgumentParser("python -m studies.ledger", description="Check published numbers against ours.")
    parser.add_argument("--data", type=Path, help="public data for the rows that need it; default $EVENLI_SHARED_DATA")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the reasons in full")
    parser.add_argument("--json", action="store_true", help="print machine-readable output only")
    given = parser.parse_args(words)
    if given.data is not None and not given.data.is_dir():
        parser.exit(2, f"evenli: --data: no such directory: {given.data}\n")
    try:
        rows = ledger(given.data)
    except EvenliError as error:
        parser.exit(2, f"evenli: {error}\n")
    if given.json:
        print(json.dumps([row.to_dict() for row in rows], indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _print_table(rows, given.verbose)
    return int(any(row.status == "BROKEN" for row in rows))


def _print_table(rows: Sequence[Row], verbose: bool) -> None:
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
    console = Console() if sys.stdout.isatty() else Console(width=140)
    console.print(table)
    counts = {status: sum(row.status == status for row in rows) for status in _COLOURS}
    console.print(", ".join(f"{n} {status}" for status, n in counts.items() if n))
    for kind, meaning in KINDS.items():
        console.print(f"{kind} ({sum(row.kind == kind for row in rows)}): {meaning}")


if __name__ == "__main__":
    raise SystemExit(main())
