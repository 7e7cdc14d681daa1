"""The first screen of an audit: on a terminal, and in Markdown for a model card."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from evenli.audit.audit import Audit
from evenli.audit.report.export import pipe_table
from evenli.audit.report.hero import share_text
from evenli.audit.suites.base import get_suite, judging
from evenli.audit.suites.summary import Bar, Example, PlainNumber, Share, Summary, range_of
from evenli.core.format import interval, number, percent, prose

COLOURS = {"bias": "red", "error": "yellow", "undecided": "yellow", "even": "green", "none": "magenta"}
_FILLS = {"first": ("█", "magenta"), "second": ("▓", "blue"), "both": ("▒", "yellow"), "neither": ("░", "green")}
"""Shades tell the parts apart where there is no colour."""
_FEW = 3  # bars whose sizes are listed one by one
_BAR, _WIDE = 36, 130  # columns of a bar, and of a terminal that has room for the numbers beside it


def summarise(audit: Audit) -> Summary:
    """The first screen of a run: that of the suite that gave the verdict, else the measures of its first suite."""
    suite = judging(audit.result.suites) or get_suite(next(iter(audit.result.suites)))
    result = audit.result.suites[suite.name]
    if suite.summary is not None:
        return suite.summary(result, audit.verdict, audit.sample(suite.name))
    stressed = [one for key, one in result.measures.items() if key in suite.stressed] or [result.main]
    numbers = [
        PlainNumber(one.title, number(one.value), interval(one.low, one.high), f"{one.direction}; even: {one.ideal:g}")
        for one in stressed[:3]
    ]
    return Summary(audit.verdict.sentence, problem=result.problem, numbers=numbers, level=result.main.level)


def print_summary(summary: Summary, code: str, console: Console) -> None:
    """Verdict, bars, numbers and example on a terminal."""
    console.print(f"[bold {COLOURS.get(code, 'magenta')}]Verdict[/]  [bold]{escape(summary.sentence)}[/]")
    style = ""
    if summary.problem:
        style = "dim"
        console.print(f"Greyed out, these numbers say nothing about bias: {escape(summary.problem)}.", style="magenta")
    if summary.bars:
        console.print()
        _print_bars(summary, console, style)
    if summary.numbers:
        console.print()
        if summary.scale:
            console.print(escape(summary.scale), style="dim")
        console.print(_number_table(summary.numbers), style=style or None)
    if summary.example is not None:
        console.print()
        _print_example(summary.example, console)
    console.print()
    console.print(escape(summary.limit), style="dim")


def _print_bars(summary: Summary, console: Console, style: str) -> None:
    """A bar per kind of jobs, with the shares beside it, or below it where the terminal is narrow."""
    marks = [_mark(share, style) for share in summary.bars[0].shares]
    question = Text(summary.question, style=f"bold {style}".strip())
    if console.width >= _WIDE:
        shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), style=style)
        for head in (question, Text(""), *marks):
            shown.add_column(head, no_wrap=True, justify="left")
        for bar in summary.bars:
            shown.add_row(bar.name, _drawn(bar, style), *map(share_text, bar.shares))
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
            shares = (f"{_FILLS[share.kind][0]} {share_text(share)}" for share in bar.shares)
            console.print(Text("  ".join(["", *shares]), style=style))
    sizes = [f"{bar.sentences:,}" for bar in summary.bars]
    counts = sizes[0] if len(sizes) > _FEW and len(set(sizes)) == 1 else ", ".join(sizes)
    console.print(f"Shares of {counts} sentences, with {percent(summary.level)} intervals.", style="dim")


def _drawn(bar: Bar, style: str) -> Text:
    drawn = Text()
    for share, length in zip(bar.shares, _lengths([share.value for share in bar.shares]), strict=True):
        drawn.append(_FILLS[share.kind][0] * length, style=style or _FILLS[share.kind][1])
    return drawn


def _mark(share: Share, style: str) -> Text:
    fill, colour = _FILLS[share.kind]
    return Text().append(fill * 2, style=style or colour).append(f" {share.label}", style="not bold")


def _lengths(values: Sequence[float]) -> list[int]:
    """Columns of each part of a bar: they add up to its width, and a part that is there is seen."""
    # Rounding leaves some columns over; they go where they change least, to the largest part.
    lengths = [round(_BAR * value) or int(value > 0) for value in values]
    largest = lengths.index(max(lengths))
    lengths[largest] += _BAR - sum(lengths)
    return lengths


def _number_table(numbers: Sequence[PlainNumber]) -> Table:
    shown = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    shown.add_column(style="bold", no_wrap=True)
    shown.add_column(justify="right", style="bold", no_wrap=True)
    shown.add_column(no_wrap=True)
    shown.add_column()
    for one in numbers:
        ends = one.text if one.text.startswith("[") or not one.text else f"({one.text})"
        shown.add_row(*map(escape, (one.name, one.value, ends, one.meaning)))
    return shown


def _print_example(example: Example, console: Console) -> None:
    console.print(f"[bold]Example[/]  “{escape(example.premise)}”  Does it follow: “{escape(example.hypothesis)}”?")
    answers = [
        f"{'[bold]' if own else ''}{word} {percent(share)}{'[/]' if own else ''}{' (right)' if right else ''}"
        for word, share, own, right in example.answers
    ]
    console.print(f"         The model: {' · '.join(answers)}  [dim]({escape(example.about)})[/]")


def to_markdown(summary: Summary) -> str:
    """The first screen as Markdown: sentence, table of the bars, numbers, example, limit."""
    parts = [f"**{prose(summary.sentence)}**", ""]
    if summary.problem:
        parts += [f"Greyed out, these numbers say nothing about bias: {prose(summary.problem)}.", ""]
    if summary.bars:
        columns = [summary.question, *(f">{prose(share.label)}" for share in summary.bars[0].shares)]
        rows = []
        for bar in summary.bars:
            cells = [f"{percent(one.value)} ({range_of(one.low, one.high)})" for one in bar.shares]
            rows.append([f"{prose(bar.name)}, {bar.sentences:,} sentences", *cells])
        parts.append(pipe_table(columns, rows))
    parts += [f"{summary.scale}", ""] if summary.scale else []
    for one in summary.numbers:
        parts.append(f"- **{prose(one.name)}: {one.value}** ({prose(one.text)}) {prose(one.meaning)}")
    if summary.example is not None:
        answers = ", ".join(f"{word} {percent(share)}" for word, share, _, _ in summary.example.answers)
        said = f"“{prose(summary.example.premise)}” Does it follow: “{prose(summary.example.hypothesis)}”?"
        parts += ["", f"Example ({prose(summary.example.about)}): {said} The model: {answers}; *cannot know* is right."]
    return "\n".join(parts) + "\n"
