"""Bias scores on a terminal: of one sentence, word by word, and of a corpus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evenli.corpus.bias import SentenceBias


def print_sentence(bias: SentenceBias, console: Console) -> None:
    """Print the words of a sentence with importance, gender bias and their product, and the score they add up to."""
    counted = any(word.count is not None for word in bias.words)
    table = Table(box=None, pad_edge=False)
    table.add_column("token", overflow="fold", max_width=24)
    if counted:
        table.add_column("count", justify="right", no_wrap=True)
    for heading in ("importance", "gender bias", "weighted"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, style="dim")
    for word in bias.words:
        known = word.note != "out of vocabulary"
        cells = [f"{word.importance:.2%}", _signed(word.bias), _signed(word.weighted)] if known else ["", "", ""]
        counts = ["" if word.count is None else f"{word.count:,}"] if counted else []
        colour = "magenta" if word.weighted > 0 else "cyan" if word.weighted < 0 else None
        table.add_row(escape(word.token), *counts, *cells, word.note, style=colour)
    if bias.markers:
        blank = [""] if counted else []
        table.add_row("(markers)", *blank, f"{bias.markers:.2%}", _signed(0.0), _signed(0.0), "special tokens")
    console.print(table)
    if bias.empty:
        console.print("No word of this text has a vector: the score of 0 says nothing about it.", style="yellow")
    console.print(
        f"[bold]F {bias.female:.5f}[/] (female)  [bold]M {_signed(bias.male)}[/] (male)  "
        f"[bold]Abs {bias.absolute:.5f}[/]"
    )


def _signed(value: float) -> str:
    return f"{value:.5f}" if round(value, 5) else "0"


def print_corpus(summary: Mapping[str, Any]) -> None:
    """Print what ``evenli.corpus.scoring.summarise`` says of a scored corpus, one line per fact."""
    flags = ", ".join(f"{count:,} {name}" for name, count in summary["counts"].items() if count)
    columns = ", ".join(summary["columns"])
    print(f"{summary['folder']}: {summary['rows']:,} rows, columns {columns}{f'; {flags}' if flags else ''}")
    shown = ", ".join(f"{name} % {value:.4f}" for name, value in summary["percentiles"].items())
    print(f"score of a row (largest of its columns), percentiles ({summary['method']}): {shown}")
    for side, sentences in summary["top"].items():
        print(f"most {side}:")
        for value, text in sentences:
            print(f"  {value:+.4f}  {text}")
    if summary["charts"]:
        print(f"charts: {', '.join(summary['charts'])}")
