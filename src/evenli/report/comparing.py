"""A comparison on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evenli.evaluate.compare import Comparison, RunComparison
from evenli.format import interval, number, p_bound, signed
from evenli.stats.measure import get_measure
from evenli.suites.base import get_suite

MOVED = 10
"""Occupations shown on a terminal; JSON has all of them."""


def show_comparison(compared: RunComparison, console: Console) -> None:
    """Print every further run against the first, suite by suite."""
    for index, suite in enumerate(compared.suites):
        if index:
            console.print()
        _show_suite(compared, suite, console)


def _show_suite(compared: RunComparison, suite: str, console: Console) -> None:
    first, *others = compared.runs
    described = get_suite(suite)
    card = first.result.data_of(suite)
    items, answers = (described.items.name, described.items.answers) if described.items else ("items", "Biased answers")
    for index, (run, one) in enumerate(zip(others, compared.suites[suite], strict=True)):
        if index:
            console.print()
        console.print(f"first   [bold]{escape(first.name)}[/bold] ({escape(str(first.path))})")
        console.print(f"second  [bold]{escape(run.name)}[/bold] ({escape(str(run.path))})")
        console.print(
            f"{one.n:,} shared {items} of {escape(card.name if card else '?')} "
            f"({escape(card.lang if card else '?')}), {one.clusters['occupations']} occupations, "
            f"{one.clusters['templates']} templates"
        )
        console.print()
        console.print(_measures(one, described.stressed, corrected=len(others) > 1))
        console.print()
        test = one.mcnemar
        corrected = f", Holm {p_bound(test.p_holm)}" if len(others) > 1 else ""
        console.print(
            f"{answers}: {test.both:,} {items} in both, {test.only_first:,} only in the first, {test.only_second:,} "
            f"only in the second, {test.neither:,} in neither (exact McNemar p {p_bound(test.p)}{corrected}; takes "
            f"{items} as independent)"
        )
        _moved(one, console)
        console.print(f"[bold]Conclusion[/bold]  {escape(compared.conclusion(suite, index))}")
    console.print("A lower score shows that this probe finds less, not that the model is fair.", style="dim")


def _measures(found: Comparison, stressed: frozenset[str], *, corrected: bool) -> Table:
    table = Table(box=None, pad_edge=False)
    level = next(iter(found.measures.values())).level
    table.add_column("measure")
    for name in ("first", "second", "difference", f"{level:.0%} interval", "p", *(["p (Holm)"] if corrected else [])):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("reading")
    for name, d in found.measures.items():
        entry = get_measure(name)
        table.add_row(
            escape(entry.title),
            number(d.first),
            number(d.second),
            signed(d.value),
            escape(interval(d.low, d.high, sign=True)),
            p_bound(d.p),
            *([p_bound(d.p_holm)] if corrected else []),
            escape(d.note or entry.direction),
            style="bold" if name in stressed else None,
        )
    return table


def _moved(found: Comparison, console: Console) -> None:
    moved = found.occupations.filter(found.occupations["difference"] != 0)
    if not moved.height:
        console.print("No occupation moved.")
        return
    shown = ", ".join(
        f"{escape(str(row['occupation']))} {row['first']:.2f} -> {row['second']:.2f}"
        for row in moved.head(MOVED).iter_rows(named=True)
    )
    more = f", and {moved.height - MOVED} more" if moved.height > MOVED else ""
    console.print(f"Occupations that moved ({moved.height} of {found.occupations.height}): {shown}{more}")
