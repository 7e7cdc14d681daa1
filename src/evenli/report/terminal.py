"""Results on a terminal: what was measured, how sure it is, what it means."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evenli.format import interval, number, percent
from evenli.suites.base import Section, Suite, get_suite
from evenli.types import AuditResult, Competence, DataCard, SuiteResult

_COLOURS = {"bias": "red", "error": "yellow", "undecided": "yellow", "even": "green", "none": "magenta"}
_WIDE = 110
"""Columns a terminal needs for slices and readings; a narrower one gets the ideal value instead."""


def show_results(result: AuditResult, console: Console, *, files: str | None = None) -> None:
    """Print an audit: every suite with its measures, competence, verdict, and what helps to place the numbers."""
    _heading(result, console)
    below_verdict: list[Section] = []
    for name, of_suite in result.suites.items():
        first, *rest = get_suite(name).sections(of_suite, result.data_of(name)) or [Section("")]
        _show_suite(get_suite(name), of_suite, first, console)
        below_verdict += rest
    console.print()
    _competence(result.competence, console)
    console.print()
    colour = _COLOURS.get(result.verdict.code, "magenta")
    console.print(f"[bold {colour}]Verdict[/]  {escape(result.verdict.sentence)}")
    for section in below_verdict:
        _show_section(section, console)
    console.print(
        "A low score shows that this probe found no bias of this kind in this checkpoint, not that there is none.",
        style="dim",
    )
    if files:
        console.print(f"Files: {escape(files)}")


def _heading(result: AuditResult, console: Console) -> None:
    """Model, pair sets and what must be known about them."""
    cards = [result.data_of(suite) or DataCard("?", suite) for suite in result.suites]
    name = f"[bold]{escape(result.model.title)}[/bold]"
    machine = f"{result.model.device} {result.model.dtype}"
    if len(cards) == 1:
        (card,) = cards
        console.print(f"{name} on {escape(card.name)} ({escape(card.lang)}, {card.rows} pairs, {machine})")
    else:
        console.print(f"{name} ({machine}) on")
        for card in cards:
            console.print(f"  {card.suite}: {escape(card.name)} ({escape(card.lang)}, {card.rows} pairs)")
    for card in cards:
        for note in card.notes:
            console.print(f"note: {escape(note)}", style="dim")


def _show_suite(suite: Suite, result: SuiteResult, first: Section, console: Console) -> None:
    """The first section of a suite and its measures; a section without a table is the heading of the measures."""
    if first.rows:
        _show_section(first, console)
    heading = "Measures" if first.rows else first.heading or suite.title
    _titled(heading, _measures(suite, result, wide=console.width >= _WIDE), console)
    for line in () if first.rows else first.lines:
        console.print(escape(line))


def _show_section(section: Section, console: Console) -> None:
    if section.rows:
        _titled(section.heading, _rows(section.columns, section.rows, section.main), console)
    for line in section.lines:
        console.print(escape(line))


def _titled(heading: str, table: Table, console: Console) -> None:
    console.print()
    console.print(escape(heading), style="italic")
    console.print(table)


def _rows(columns: Sequence[str], rows: Sequence[Sequence[str]], main: frozenset[int]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in columns:
        table.add_column(escape(title.removeprefix(">")), justify="right" if title.startswith(">") else "left")
    for index, row in enumerate(rows):
        table.add_row(*map(escape, row), style="bold" if index in main else None)
    return table


def _measures(suite: Suite, result: SuiteResult, *, wide: bool) -> Table:
    slices = list(result.main.by_stereotype) if wide else []
    table = Table(box=None, pad_edge=False)
    table.add_column("measure", no_wrap=wide)
    table.add_column("value", justify="right")
    table.add_column(f"{percent(result.main.level)} interval", justify="right", no_wrap=True)
    for name in slices:
        table.add_column(escape(suite.slice_title.format(name)), justify="right")
    if wide:
        table.add_column("range", justify="right", no_wrap=True)
        table.add_column("reading")
    else:
        table.add_column("ideal", justify="right")
    for name, one in result.measures.items():
        title = escape(f"  {one.title}" if name in suite.indented else one.title)
        if math.isnan(one.value):  # the note takes the place of the numbers
            table.add_row(title, number(one.value), escape(one.note))
            continue
        meaning = [one.span, escape(one.direction)] if wide else [f"{one.ideal:g}"]
        table.add_row(
            title,
            number(one.value),
            escape(interval(one.low, one.high)),
            *(number(one.by_stereotype[part].value) for part in slices),
            *meaning,
            style="bold" if name in suite.stressed else None,
        )
    return table


def _competence(competence: Competence | None, console: Console) -> None:
    if competence is None:
        console.print("Competence: not assessed (the table holds no gold pairs)", style="yellow")
        return
    labels, controls = (
        ", ".join(f"{name} {number(share, 2)}" for name, share in shares.items())
        for shares in (competence.per_label, competence.controls)
    )
    line = f"Competence: gold pairs {competence.gold.shown} ({labels}); stated groups {competence.stated.shown}"
    console.print(escape(f"{line} ({controls})"))
