"""What people see of SentEval: the table of a terminal, and the page with a chart."""

from __future__ import annotations

import math

from evenli.core.blocks import Block, Figure
from evenli.core.drawing import Dot, dots
from evenli.core.format import number, printable
from evenli.core.page import render
from evenli.encoders.senteval import SentEvalResult
from evenli.encoders.senteval.data import TASKS

PUBLISHED = dict(zip(TASKS, (80.7, 85.2, 92.7, 90.2, 86.2, 82.0, 44.1, 74.7, 88.7, 85.7, 68.0, 75.6), strict=True))
"""SentEval of InferSent on GloVe without mitigation (Dolci et al. 2023, Table 8), the first number of every task."""
PUBLISHED_OVERALL = 79.45
_SECOND = ("f1", "spearman")  # second numbers that papers print beside the first
_ABOUT = {
    "MR": "film reviews",
    "CR": "product reviews",
    "SUBJ": "fact or opinion",
    "MPQA": "opinions in news",
    "TREC": "kinds of questions",
    "SST2": "sentiment, 2 grades",
    "SST5": "sentiment, 5 grades",
    "STSB": "likeness (STSB)",
    "SICKR": "likeness (SICK)",
    "SICKE": "inference (SICK)",
    "STS14": "likeness (STS14)",
    "MRPC": "paraphrases",
}
"""What the tasks ask, in words that fit beside a chart."""


def scores(result: SentEvalResult) -> Block:
    """A row for each task, and the mean."""
    rows = []
    for name, task in result.tasks.items():
        second = next((f"{key} {number(task.metrics[key], 2)}" for key in _SECOND if key in task.metrics), "")
        dev = "" if math.isnan(task.dev) else number(task.dev, 2)
        rows.append([name, number(task.score, 2), second, dev, f"{task.n:,}", number(PUBLISHED.get(name), 1)])
    caption = (
        "score: accuracy in percent, 100 times Pearson's r for STS tasks and SICKR; dev: what the search for the "
        "regularisation saw. published: InferSent on GloVe, Dolci et al. 2023."
    )
    if result.overall is None:
        caption += f" No mean: it needs all {len(TASKS)} tasks."
    else:
        rows.append(["mean", number(result.overall, 2), "", "", "", number(PUBLISHED_OVERALL, 2)])
    notes = [f"{name}: {task.note}" for name, task in result.tasks.items() if task.note]
    notes += [f"not run: {reason}" for reason in result.missing.values()]
    columns = ("task", ">score", ">second", ">dev", ">rows", ">published")
    return Block("", columns=columns, rows=rows, caption=caption, notes=notes)


def senteval_page(result: SentEvalResult, name: str) -> str:
    """SentEval: what an encoder is worth on twelve tasks."""
    lead = f"{len(result.tasks)} tasks were run; an average needs all twelve."
    if result.overall is not None:
        lead = f"On twelve tasks this encoder reaches {number(result.overall, 1)} on average."
    rows, points = [], []
    for key, task in result.tasks.items():
        named = f"{key}: {_ABOUT[key]}" if key in _ABOUT else key
        rows.append([named, number(task.score, 2), number(task.dev, 2), f"{task.n:,}", task.note])
        points.append(Dot(_ABOUT.get(key, key), task.score / 100, math.nan, math.nan))
    block = Block(
        "Tasks",
        lines=[
            "What an encoder is worth: a simple classifier learns each task from its sentences alone.",
            "Compare an encoder with itself before and after a mitigation: what the mitigation costs stands here.",
        ],
        columns=("task", ">score", ">development set", ">rows", "note"),
        rows=rows,
        figures=[Figure.of_svg("Score by task; 1 is the best there can be", dots("score", points))],
        caption="Accuracy in percent; 100 times Pearson's r for STSB, SICKR and STS14",
        notes=[f"Not run: {reason}" for reason in result.missing.values()],
    )
    return render(f"SentEval of {printable(name)}", lead, [block])
