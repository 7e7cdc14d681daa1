"""Association tests for people: effects, p-values and what was published for a common encoder."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evenli.evaluate.seat.association import AVERAGED, AssociationResult, average_effect
from evenli.resources import read_table

PUBLISHED = "Original"
"""InferSent on GloVe without any mitigation: the row other encoders are set beside."""


def print_associations(results: Sequence[AssociationResult], console: Console) -> None:
    """Print one line per test, the average of the gender tests and how to read them."""
    published = _published()
    compared = any(result.name in published for result in results)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("test")
    level = f"{results[0].level:.0%} interval" if results else "interval"
    for head in ("effect d", level, "p", "Holm", "BH", "texts", *(["published"] if compared else [])):
        table.add_column(head, justify="right", no_wrap=True)
    for result in results:
        table.add_row(
            escape(result.name or "–"),
            _number(result.effect),
            escape("–" if math.isnan(result.low) else f"[{result.low:+.2f}, {result.high:+.2f}]"),
            _small(result.p),
            _small(result.p_holm),
            _small(result.p_bh),
            f"{result.sizes[0]}+{result.sizes[1]}",
            *([_number(published.get(result.name, math.nan))] if compared else []),
        )
    effects = {result.name: result.effect for result in results}
    mean, theirs = average_effect(effects), average_effect(published)
    if not mean.note:
        cells = [""] * 5 + ([_number(theirs.signed)] if compared else [])
        table.add_row(f"mean {AVERAGED[0]} to {AVERAGED[-1]}", _number(mean.signed), *cells, style="bold")
        table.add_row("  of sizes", _number(mean.absolute), *[""] * 5, *([""] if compared else []))
    console.print(table)
    for result in results:
        if result.note:
            console.print(escape(f"{result.name or 'test'}: {result.note}"))
    console.print(escape(_legend(results, compared)), style="dim")


def _published() -> dict[str, float]:
    row = next(row for row in read_table("published_seat.csv", ("model",)) if row["model"] == PUBLISHED)
    return {name: float(value) for name, value in row.items() if name.startswith("C")}


def _legend(results: Sequence[AssociationResult], compared: bool) -> str:
    exact = [result.name for result in results if result.exact]
    sampled = max((result.permutations for result in results if not result.exact), default=0)
    how = []
    if exact:
        how.append("all partitions" + (f" for {', '.join(exact)}" if sampled else ""))
    if sampled:
        how.append(f"{sampled:,} partitions, sampled")
    sides = "two-sided" if any(result.sides == "two" for result in results) else "one-sided"
    return (
        "d: positive if the first targets go with the first attributes, 0 if neither does; interval: bootstrap over "
        "the words of targets and attributes (over the texts of a test file that does not list its words); "
        f"p: {sides}, {' and '.join(how) or 'no partitions'}; Holm and BH: "
        "corrected for the tests shown."
        + (" published: InferSent on GloVe, Dolci et al. 2023." if compared else "")
        + " An effect near 0 does not show that a model is free of bias."
    )


def _number(value: float) -> str:
    return "n/a" if math.isnan(value) else f"{value:+.3f}"


def _small(p: float) -> str:
    if math.isnan(p):
        return "–"
    return f"{p:.3f}" if p >= 0.001 else f"{p:.0e}".replace("e-0", "e-")
