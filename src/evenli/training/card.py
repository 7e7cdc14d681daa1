"""What a finished run says about itself: accuracy with interval, and a model card."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli._version import __version__
from evenli.report.markup import prose, yaml_text
from evenli.stats.proportion import wilson
from evenli.training.data import Examples
from evenli.training.recipe import Recipe


@dataclass(frozen=True)
class Accuracy:
    """Share of right answers with its 95 % Wilson interval."""

    value: float
    low: float
    high: float
    n: int

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """Percent, as people read it."""
        return f"{self.value:.2%} (95 % interval {self.low:.2%} to {self.high:.2%}, n = {self.n:,})"


def accuracy(logits: NDArray[np.float32], labels: NDArray[np.int64]) -> Accuracy:
    """How often the largest logit is that of the gold label (interval: Wilson's).

    >>> logits = np.eye(3, dtype=np.float32)[[0, 1, 2, 0]]
    >>> str(accuracy(logits, np.array([0, 1, 2, 1])))
    '75.00% (95 % interval 30.06% to 95.44%, n = 4)'
    """
    n, share = len(labels), float((logits.argmax(axis=1) == labels).mean())
    return Accuracy(share, *wilson(share, n), n)


def model_card(
    *,
    title: str,
    base: str,
    revision: str,
    train: Examples,
    truncated: int,
    dev: Examples | None,
    shared: int,
    result: Accuracy | None,
    recipe: Recipe,
    machine: str,
    seconds: float,
) -> str:
    """A model card in Markdown.

    Args:
        title: Name of the model.
        base: What it was trained from.
        revision: Commit of a hub base, or empty.
        train: Training pairs.
        truncated: How many of them were cut.
        dev: Dev pairs, if any were given.
        shared: Dev pairs that are also training pairs.
        result: Accuracy on them after the last epoch.
        recipe: Settings.
        machine: Device and versions.
        seconds: Training time.
    """
    origin = prose(base) + (f" at revision {prose(revision)}" if revision else "")
    counts = ", ".join(f"{label} {count:,}" for label, count in train.counts.items())
    settings = "\n".join(f"| {name} | {value} |" for name, value in recipe.as_dict().items())
    if dev is None or result is None:
        measured = "No dev data were given, so nothing is known about its accuracy."
    else:
        measured = f"Accuracy on {prose(', '.join(dev.sources))} after the last epoch: **{result}**."
        if shared:
            measured += f" {shared:,} of these pairs are also training pairs: the figure is too high."
    return f"""---
base_model: {yaml_text(base)}
library_name: transformers
pipeline_tag: text-classification
tags: [natural-language-inference, evenli]
---
# {prose(title)}

A three-label classifier for natural-language inference (entailment, neutral, contradiction), trained by
evenli {__version__} from {origin}.

## Accuracy
{measured}

The figure says how well the model copies the annotators of this data. It says nothing about bias: audit it with
`evenli audit`.

## Data
| | |
|---|---|
| files | {prose(", ".join(train.sources))} |
| sha256 | {train.sha256} |
| pairs | {len(train):,} ({counts}) |
| left out | {train.unlabelled:,} without gold label, {train.empty:,} with an empty sentence |
| truncated | {truncated:,} |
| dev sha256 | {dev.sha256 if dev else "none"} |

The licences of the base and of the data apply to the model.

## Recipe
| setting | value |
|---|---|
{settings}

AdamW, linear decay, gradient clipping; the weights are those after the last step.
{machine}; {seconds:,.0f} s.
"""
