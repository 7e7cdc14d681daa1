"""SentEval for people: a line per task, and what was published for a common encoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evenli.evaluate.senteval.data import TASKS

PUBLISHED = dict(zip(TASKS, (80.7, 85.2, 92.7, 90.2, 86.2, 82.0, 44.1, 74.7, 88.7, 85.7, 68.0, 75.6), strict=True))
"""InferSent on GloVe without any mitigation (Dolci et al. 2023, Table 8), the first number of every task."""
PUBLISHED_OVERALL = 79.45
_SHOWN = ("f1", "spearman")
"""Second numbers that papers print beside the first."""


def print_senteval(result: Mapping[str, Any], console: Console) -> None:
    """Print one line per task and the mean, from what ``SentEvalResult.as_dict`` gives."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("task")
    for head in ("score", "second", "dev", "rows", "published"):
        table.add_column(head, justify="right", no_wrap=True)
    for name in TASKS:
        if name not in result["tasks"]:
            continue
        task = result["tasks"][name]
        table.add_row(
            name,
            _number(task["score"]),
            next((f"{key} {_number(task['metrics'][key])}" for key in _SHOWN if key in task["metrics"]), ""),
            _number(task["dev"]) if task["dev"] is not None else "",
            f"{task['n']:,}",
            f"{PUBLISHED[name]:.1f}",
        )
    if result["overall"] is not None:
        table.add_row("mean", f"{result['overall']:.2f}", "", "", "", f"{PUBLISHED_OVERALL:.2f}", style="bold")
    console.print(table)
    for name, task in result["tasks"].items():
        if task["note"]:
            console.print(escape(f"{name}: {task['note']}"))
    for reason in result["missing"].values():
        console.print(escape(f"not run: {reason}"))
    console.print(escape(_legend(result)), style="dim")


def _legend(result: Mapping[str, Any]) -> str:
    short = "" if result["overall"] is not None else f" No mean: it needs all {len(TASKS)} tasks."
    return (
        "score: accuracy in percent, 100 times Pearson's r for STSB, SICKR and STS14; dev: what the search for the "
        "regularisation saw. published: InferSent on GloVe, Dolci et al. 2023." + short
    )


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}"
