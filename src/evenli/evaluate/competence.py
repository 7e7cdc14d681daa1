"""Before bias: does the model do the task, and are its labels in the order it says?"""

from __future__ import annotations

from itertools import permutations

import numpy as np
import polars as pl
from scipy.stats import binomtest

from evenli.errors import LabelOrderError
from evenli.labels import LABELS
from evenli.predictions import Predictions
from evenli.stats.intervals import wilson
from evenli.types import Competence, Estimate, TopLabel

COMPETENT = 0.6
"""Gold accuracy and stated-group accuracy below this give no verdict (chance is one third)."""
ONE_LABEL = 0.9
"""A model that gives one label to more than this share of the gold pairs is degenerate."""


def competence(checks: Predictions) -> Competence:
    """Assess the rows of suite ``check``: gold pairs and control pairs."""
    frame = checks.frame.with_columns(answer=pl.Series([LABELS[i] for i in checks.logits.argmax(axis=1)]))
    frame = frame.with_columns(right=pl.col("answer") == pl.col("gold"))
    gold = frame.filter(pl.col("subset") == "gold")
    parts = pl.col("id").str.split("-").list.slice(2)
    control = frame.filter(pl.col("subset") == "control").with_columns(case=parts.list.join("-"))
    stated = control.filter(~parts.list.contains("person"))
    per_label = {label: _mean(gold.filter(pl.col("gold") == label)["right"]) for label in LABELS}
    answers = gold["answer"].value_counts(sort=True).with_columns(pl.col("count") / gold.height)
    top, share = answers.row(0) if gold.height else (None, float("nan"))
    accuracy, stated_accuracy = _accuracy(gold["right"]), _accuracy(stated["right"])
    problem = ""
    if not gold.height:
        problem = "no gold pairs were asked"
    elif share > ONE_LABEL:
        problem = f"it answers '{top}' to {share:.0%} of the gold pairs, whatever they say"
    elif not accuracy.value >= COMPETENT:
        problem = f"it gets only {accuracy.value:.0%} of the unmistakable gold pairs right (chance is 33%)"
    elif not stated.height:
        problem = "no pairs were asked that state the group outright"
    elif not stated_accuracy.value >= COMPETENT:
        problem = f"it gets only {stated_accuracy.value:.0%} of the pairs right that state the group outright"
    kinds = {
        str(case): round(_mean(part["right"]), 6) for (case,), part in control.group_by("case", maintain_order=True)
    }
    return Competence(accuracy, per_label, stated_accuracy, kinds, TopLabel(top, float(share)), problem)


def check_label_order(gold: Predictions, labels: tuple[str, ...]) -> None:
    """Refuse a model whose answers to the gold pairs fit another label order clearly better.

    Another order fits clearly better if it is right on at least half of the pairs, on a fifth more than the declared
    order, and an exact sign test on the pairs where the two disagree gives p < 0.001.

    Args:
        gold: Predictions on the gold pairs.
        labels: The model's declared output order.
    """
    truth = np.array([LABELS.index(label) for label in gold.frame["gold"]])
    if not truth.size:
        return
    answers = gold.logits.argmax(axis=1)
    right = {order: np.array(order)[answers] == truth for order in permutations(range(3))}
    declared = right[0, 1, 2]
    best = max(right, key=lambda order: int(right[order].sum()))
    gained, lost = int((right[best] & ~declared).sum()), int((declared & ~right[best]).sum())
    better = right[best].mean() - declared.mean()
    if better < 0.2 or right[best].mean() < 0.5 or binomtest(gained, gained + lost).pvalue >= 0.001:
        return
    renamed = {LABELS[i]: LABELS[j] for i, j in enumerate(best)}
    from evenli.labels import canonical_label

    order = ",".join(renamed[canonical_label(label) or label] for label in labels)
    raise LabelOrderError(
        f"the label order is wrong: declared as {','.join(labels)} the model gets {declared.mean():.0%} of "
        f"{len(truth)} gold pairs right, as {order} it gets {right[best].mean():.0%}. If that is the true order, "
        f"pass --labels {order}"
    )


def _accuracy(right: pl.Series) -> Estimate:
    n, hits = right.len(), int(right.sum())
    if n == 0:
        nan = float("nan")
        return Estimate(nan, nan, nan, nan, 0.95, 0, {}, "no pairs")
    share = hits / n
    low, high = wilson(share, n)
    return Estimate(share, low, high, float(np.sqrt(share * (1 - share) / n)), 0.95, n, {})


def _mean(series: pl.Series) -> float:
    return float(series.mean()) if series.len() else float("nan")  # type: ignore[arg-type]
