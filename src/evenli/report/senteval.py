"""SentEval for people: a line per task, and what was published for a common encoder."""

from __future__ import annotations

import math

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evenli.evaluate.senteval.data import TASKS
from evenli.evaluate.senteval.results import SentEvalResult
from evenli.format import number

PUBLISHED = dict(zip(TASKS, (80.7, 85.2, 92.7, 90.2, 86.2, 82.0, 44.1, 74.7, 88.7, 85.7, 68.0, 75.6), strict=True))
"""InferSent on GloVe without any mitigation (Dolci et al. 2023, Table 8), the first number of every task."""
PUBLISHED_OVERALL = 79.45
_SECOND = ("f1", "spearman")
"""Second numbers that papers print beside the first."""


def print_senteval(result: SentEvalResult, console: Console) -> None:
    """Print one line per task and the mean."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("task")
    for head in ("score", "second", "dev", "rows", "published"):
        table.add_column(head, justify="right", no_wrap=True)
    for name, task in result.tasks.items():
        table.add_row(
            name,
            number(task.score, 2),
            next((f"{key} {number(task.metrics[key], 2)}" for key in _SECOND if key in task.metrics), ""),
            "" if math.isnan(task.dev) else number(task.dev, 2),
            f"{task.n:,}",
            number(PUBLISHED[name], 1),
        )
    if result.overall is not None:
        table.add_row("mean", number(result.overall, 2), "", "", "", number(PUBLISHED_OVERALL, 2), style="bold")
    console.print(table)
    for name, task in result.tasks.items():
        if task.note:
            console.print(escape(f"{name}: {task.note}"))
    for reason in result.missing.values():
        console.print(escape(f"not run: {reason}"))
    legend = (
        "score: accuracy in percent, 100 times Pearson's r for STSB, SICKR and STS14; dev: what the search for the "
        "regularisation saw. published: InferSent on GloVe, Dolci et al. 2023."
    )
    short = "" if result.overall is not None else f" No mean: it needs all {len(TASKS)} tasks."
    console.print(escape(legend + short), style="dim")
