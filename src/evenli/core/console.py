"""Blocks on a terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from evenli.core.blocks import Bar, Block, Share, Summary
from evenli.core.format import percent

COLOURS = {"bias": "red", "error": "yellow", "undecided": "yellow", "even": "green", "none": "magenta"}
_FILLS = {"first": ("█", "magenta"), "second": ("▓", "blue"), "both": ("▒", "yellow"), "neither": ("░", "green")}
"""Shades tell the parts apart where there is no colour."""
_FEW = 3  # bars whose sizes are listed one by one
_BAR, _WIDE = 36, 130  # columns of a bar, and of a terminal that has room for the numbers beside it


def print_block(block: Block, console: Console) -> None:
    """A table under its heading, and the sentences."""
    if block.rows:
        titled(block.heading, table(block.columns, block.rows, block.stressed, wrap=True), console, grey=block.grey)
    for line in chain(block.lines, block.notes):
        console.print(escape(line))


def titled(heading: str, shown: Table, console: Console, *, grey: bool = False) -> None:
    """A table with its heading, after an empty line."""
    style = "dim" if grey else ""
    console.print()
    console.print(escape(heading), style=f"italic {style}".strip())
    console.print(shown, style=style or None)


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    main: Collection[int] = (),
    *,
    wrap: bool = False,
    tight: bool = False,
) -> Table:
    """A table without lines; columns whose title begins with ``>`` are right-aligned, the rows ``main`` are bold."""
    grid = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0) if tight else (0, 1))
    for title in columns:
        right = title.startswith(">")
        name = escape(title.removeprefix(">"))
        grid.add_column(name, justify="right" if right else "left", no_wrap=right and not wrap)
    for at, row in enumerate(rows):
        grid.add_row(*map(escape, row), style="bold" if at in main else None)
    return grid


def greyed_out(problem: str, console: Console) -> None:
    """Why the numbers below mean nothing."""
    console.print(f"Greyed out, these numbers say nothing about bias: {escape(problem)}.", style="magenta")


def print_summary(summary: Summary, code: str, console: Console) -> None:
    """Verdict, bars, numbers and example."""
    console.print(f"[bold {COLOURS.get(code, 'magenta')}]Verdict[/]  [bold]{escape(summary.sentence)}[/]")
    style = "dim" if summary.problem else ""
    if summary.problem:
        greyed_out(summary.problem, console)
    if summary.bars:
        console.print()
        _print_bars(summary, console, style)
    if summary.numbers:
        console.print()
        if summary.scale:
            console.print(escape(summary.scale), style="dim")
        name, value = Column(style="bold", no_wrap=True), Column(justify="right", style="bold", no_wrap=True)
        columns = (name, value, Column(no_wrap=True), Column())
        facts = Table(*columns, box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for fact in summary.numbers:
            ends = fact.text if fact.text.startswith("[") or not fact.text else f"({fact.text})"
            facts.add_row(*map(escape, (fact.name, fact.value, ends, fact.meaning)))
        console.print(facts, style=style or None)
    if summary.beside:
        console.print(escape(summary.beside))
    if (example := summary.example) is not None:
        console.print()
        premise, hypothesis = escape(example.premise), escape(example.hypothesis)
        console.print(f"[bold]Example[/]  “{premise}”  Does it follow: “{hypothesis}”?")
        answers = [
            f"{'[bold]' if own else ''}{word} {percent(share)}{'[/]' if own else ''}{' (right)' if right else ''}"
            for word, share, own, right in example.answers
        ]
        console.print(f"         The model: {' · '.join(answers)}  [dim]({escape(example.about)})[/]")
    console.print(escape(summary.limit), style="dim")


def _print_bars(summary: Summary, console: Console, style: str) -> None:
    """A bar per kind of jobs, with the shares beside it, or below it where the terminal is narrow."""
    marks = [_mark(share, style) for share in summary.bars[0].shares]
    question = Text(summary.question, style=f"bold {style}".strip())
    if console.width >= _WIDE:
        heads = (Column(head, no_wrap=True, justify="left") for head in (question, Text(""), *marks))
        shown = Table(*heads, box=None, pad_edge=False, padding=(0, 2, 0, 0), style=style)
        for bar in summary.bars:
            shown.add_row(bar.name, _drawn(bar, style), *(share.shown for share in bar.shares))
        console.print(shown)
    else:
        line = Text("  ").join([question, *marks])
        # What would wrap inside a name is two lines instead.
        for part in [line] if line.cell_len <= console.width else [question, Text("  ").join(marks)]:
            console.print(part)
        width = max(len(bar.name) for bar in summary.bars)
        beside = console.width >= width + 2 + _BAR
        for bar in summary.bars:
            name = Text(f"{bar.name:<{width}}  " if beside else f"{bar.name}\n", style=style)
            console.print(name.append(_drawn(bar, style)))
            shares = (f"{_FILLS[share.kind][0]} {share.shown}" for share in bar.shares)
            console.print(Text("  ".join(["", *shares]), style=style))
    sizes = [f"{bar.sentences:,}" for bar in summary.bars]
    counts = sizes[0] if len(sizes) > _FEW and len(set(sizes)) == 1 else ", ".join(sizes)
    console.print(f"Shares of {counts} sentences, with {percent(summary.level)} intervals.", style="dim")


def _drawn(bar: Bar, style: str) -> Text:
    drawn = Text()
    for share, length in zip(bar.shares, bar_lengths([share.value for share in bar.shares]), strict=True):
        drawn.append(_FILLS[share.kind][0] * length, style=style or _FILLS[share.kind][1])
    return drawn


def _mark(share: Share, style: str) -> Text:
    fill, colour = _FILLS[share.kind]
    return Text().append(fill * 2, style=style or colour).append(f" {share.label}", style="not bold")


def bar_lengths(values: Sequence[float]) -> list[int]:
    """Columns of each part of a bar: they add up to its width, and a part that is there is seen."""
    # Rounding leaves some columns over; they go where they change least, to the largest part.
    lengths = [round(_BAR * value) or int(value > 0) for value in values]
    largest = lengths.index(max(lengths))
    lengths[largest] += _BAR - sum(lengths)
    return lengths
