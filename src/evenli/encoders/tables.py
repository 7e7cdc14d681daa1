"""Tables of encoders on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from evenli.core.blocks import Block
from evenli.core.console import table
from evenli.core.estimate import Estimate
from evenli.core.format import interval, number, printable, signed

LIMIT = "An effect near 0 shows that these tests find nothing, not that an encoder is free of bias."


def cells(estimate: Estimate, digits: int = 3, *, sign: bool = False) -> list[str]:
    """Value and interval; the ends have two decimals."""
    shown = (signed if sign else number)(estimate.value, digits)
    return [shown, interval(estimate.low, estimate.high, 2, sign=sign)]


def print_block(block: Block, console: Console) -> None:
    """Print a table, its notes and how to read it; the row of a mean is bold."""
    means = [at for at, row in enumerate(block.rows) if row[0].startswith("mean")]
    console.print(table(block.columns, block.rows, means, tight=True))
    for note in block.notes:
        console.print(escape(printable(note)))  # a stored note may be anyone's
    if block.caption:
        console.print(escape(block.caption), style="dim")
