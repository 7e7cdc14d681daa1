"""Association tests for people: effects, p-values and what was published for a common encoder."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evenli.evaluate.seat import AssociationResult, SeatResult
from evenli.evaluate.seat.run import average_effect
from evenli.evaluate.seat.tests import AVERAGED
from evenli.format import interval, p_value, percent, signed
from evenli.resources import read_table

PUBLISHED = "Original"
"""InferSent on GloVe without any mitigation: the row other encoders are set beside."""


def print_associations(result: SeatResult, console: Console) -> None:
    """Print one line per test, the average of the gender tests and how to read them."""
    published = _published()
    compared = any(test.name in published for test in result.tests)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("test")
    heads = ["effect d", f"{percent(result.settings.coverage)} interval", "p", "Holm", "BH", "texts"]
    for head in [*heads, "published"] if compared else heads:
        table.add_column(head, justify="right", no_wrap=True)
    for test in result.tests:
        table.add_row(
            escape(test.name or "–"),
            signed(test.effect),
            escape(interval(test.low, test.high, 2, sign=True)),
            *(p_value(p) for p in (test.p, test.p_holm, test.p_bh)),
            f"{test.sizes['X']}+{test.sizes['Y']}",
            *([signed(published.get(test.name))] if compared else []),
        )
    if not result.mean.note:  # all gender tests were run, so there are published effects too
        theirs = signed(average_effect(published).signed)
        table.add_row(
            f"mean {AVERAGED[0]} to {AVERAGED[-1]}", signed(result.mean.signed), *[""] * 5, theirs, style="bold"
        )
        table.add_row("  of sizes", signed(result.mean.absolute))
    console.print(table)
    for test in result.tests:
        if test.note:
            console.print(escape(f"{test.name or 'test'}: {test.note}"))
    console.print(escape(_legend(result.tests, compared)), style="dim")


def _published() -> dict[str, float]:
    row = next(row for row in read_table("published_seat.csv", ("model",)) if row["model"] == PUBLISHED)
    return {name: float(value) for name, value in row.items() if name.startswith("C")}


def _legend(results: Sequence[AssociationResult], compared: bool) -> str:
    exact = [result.name for result in results if result.exact]
    sampled = max((result.permutations for result in results if not result.exact), default=0)
    partitions = []
    if exact:
        partitions.append("all partitions" + (f" for {', '.join(exact)}" if sampled else ""))
    if sampled:
        partitions.append(f"{sampled:,} partitions, sampled")
    sides = "two-sided" if any(result.sides == "two" for result in results) else "one-sided"
    return (
        "d: positive if the first targets go with the first attributes, 0 if neither does; interval: bootstrap over "
        "the words of targets and attributes (over the texts of a test file that does not list its words); "
        f"p: {sides}, {' and '.join(partitions) or 'no partitions'}; Holm and BH: "
        "corrected for the tests shown."
        + (" published: InferSent on GloVe, Dolci et al. 2023." if compared else "")
        + " An effect near 0 does not show that a model is free of bias."
    )
