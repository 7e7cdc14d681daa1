"""What a finished run says about itself: accuracy with interval, and a model card."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli._version import __version__
from evenli.report.markup import prose, yaml_text
from evenli.stats.proportion import wilson
from evenli.training.base import Base
from evenli.training.data import TrainingData
from evenli.training.recipe import Recipe

_CARD = """---
base_model: {base_yaml}
library_name: transformers
pipeline_tag: text-classification
tags: [natural-language-inference, evenli]
---
# {title}

A three-label classifier for natural-language inference (entailment, neutral, contradiction), trained by
evenli {version} from {origin}.

## Accuracy
{accuracy}

The figure says how well the model copies the annotators of this data. It says nothing about bias: audit it with
`evenli audit`.

## Data
| | |
|---|---|
| files | {files} |
| sha256 | {train.sha256} |
| pairs | {pairs:,} ({counts}) |
| left out | {train.unlabelled:,} without gold label, {train.empty:,} with an empty sentence |
| truncated | {truncated:,} |
| dev sha256 | {dev_sha256} |

The licences of the base and of the data apply to the model.

## Recipe
| setting | value |
|---|---|
{recipe}

AdamW, linear decay, gradient clipping; the weights are those after the last step.
{machine}; {seconds:,.0f} s.
"""


@dataclass(frozen=True)
class Accuracy:
    """Share of right answers with its 95 % Wilson interval."""

    value: float
    low: float
    high: float
    n: int

    def to_dict(self) -> dict[str, Any]:
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
    title: str, base: Base, data: TrainingData, recipe: Recipe, *, dev: Accuracy | None, machine: str, seconds: float
) -> str:
    """A model card in Markdown; nothing in a name can be taken for markup.

    Args:
        title: Name of the model.
        base: What it was trained from.
        data: Its data.
        recipe: Its settings.
        dev: Accuracy on the dev data after the last epoch, if there were any.
        machine: Device and versions.
        seconds: Training time.
    """
    if data.dev is None or dev is None:
        measured = "No dev data were given, so nothing is known about its accuracy."
    else:
        measured = f"Accuracy on {prose(', '.join(data.dev.sources))} after the last epoch: **{dev}**."
        if data.shared:
            measured += f" {data.shared:,} of these pairs are also training pairs: the figure is too high."
    return _CARD.format(
        base_yaml=yaml_text(base.name),
        title=prose(title),
        version=__version__,
        origin=prose(base.name) + (f" at revision {prose(base.revision)}" if base.revision else ""),
        accuracy=measured,
        files=prose(", ".join(data.train.sources)),
        train=data.train,
        pairs=len(data.train),
        counts=", ".join(f"{label} {count:,}" for label, count in data.train.counts.items()),
        truncated=data.tokens.truncated,
        dev_sha256=data.dev.sha256 if data.dev else "none",
        recipe="\n".join(f"| {name} | {value} |" for name, value in recipe.to_dict().items()),
        machine=machine,
        seconds=seconds,
    )
