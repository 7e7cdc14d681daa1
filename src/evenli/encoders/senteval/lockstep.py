"""Many small classifiers trained at the same time.

The fits of a task differ in the rows they may see and in their weight decay only, so one shuffle, one batch and one
product serve all of them. ``benchmarks/senteval.py`` compares this with scikit-learn's solvers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F  # noqa: N812 - its name everywhere

from evenli.encoders.senteval.data import Rows

Tensor = Any
Masks = NDArray[np.bool_]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class FitRecipe:
    """How a model is trained."""

    batch: int = 64  # rows a step
    passes: int = 4  # over the rows, between two looks at the validation rows
    most: int = 200  # no further look after that many passes
    tenacity: int = 5  # looks without a better score that are forgiven, counted over the whole run
    rate: float = 1e-3
    hidden: int = 0  # units of a sigmoid layer before the softmax; 0 for none


class Objective(NamedTuple):
    """What models learn from, and what stops them; outputs are [rows, classes, models]."""

    classes: int
    loss: Callable[[Tensor, Tensor], Tensor]  # of outputs and row numbers: [rows, models]
    watched: Rows  # rows that validate some model
    score: Callable[[Tensor, Rows], Values]  # of some models, from their outputs for the watched rows


def train_together(
    features: Tensor, objective: Objective, train: Masks, decays: Values, recipe: FitRecipe, generator: torch.Generator
) -> tuple[Callable[[Rows], Tensor], Values]:
    """Train one model for every row of ``train`` [models, rows] and every entry of ``decays``, all at the same time.

    Models differ in the rows they may see and in their weight decay only. They share shuffles, batches and products; a
    mask takes rows of other folds out of a model's loss. A batch is as much larger as the folds leave rows out, so a
    step has as many rows of a model, on average, as if it were trained alone. A model that has stopped leaves.

    Returns:
        The outputs [rows, classes, models] at the best weights of every model for any rows, and their validation
        scores; NaN if a model never had one.
    """
    inputs = features.shape[1]
    # A column of ones for the bias, and zeros up to a round width, at which equal rows give equal outputs.
    table = F.pad(F.pad(features, (0, 1), value=1.0), (0, padding := -(inputs + 1) % 8))
    sizes = [(recipe.hidden, inputs), (objective.classes, recipe.hidden or inputs)][not recipe.hidden :]
    # All models start from one draw, uniform in ±1/√inputs as in torch.nn.Linear: [units, models, inputs].
    draws = [(2 * torch.rand(units, 1, width + 1, generator=generator) - 1) / width**0.5 for units, width in sizes]
    draws[0] = F.pad(draws[0], (0, padding))
    layers = [draw.repeat(1, len(train), 1).to(table.device).requires_grad_() for draw in draws]
    kept = [layer.detach().clone() for layer in layers]
    moments = [(torch.zeros_like(layer), torch.zeros_like(layer)) for layer in kept]
    pool = torch.from_numpy(np.flatnonzero(train.any(axis=0)))
    batch = max(1, round(recipe.batch / float(train[:, pool.numpy()].mean())))
    masks = torch.from_numpy(train.T.astype(np.float32)).to(table.device)
    decay = torch.from_numpy(decays.astype(np.float32)).to(table.device)[:, None]
    models, step = np.arange(len(train)), 0  # the models that are still trained
    best, misses = np.full(len(train), -np.inf), np.zeros(len(train), dtype=np.int64)
    for _ in range(0, recipe.most + 1, recipe.passes):
        for _ in range(recipe.passes):
            order = pool[torch.randperm(len(pool), generator=generator)].to(table.device)
            for rows in order.split(batch):
                share = masks[rows] / masks[rows].sum(dim=0).clamp(min=1)
                loss = (objective.loss(_outputs(layers, table[rows]), rows) * share).sum()
                gradients, step = torch.autograd.grad(loss, layers), step + 1
                # Adam with its usual constants; torch's own has one weight decay for all models.
                for layer, gradient, (first, second) in zip(layers, gradients, moments, strict=True):
                    gradient = gradient.addcmul(layer.data, decay)
                    first.lerp_(gradient, 1 - 0.9)
                    second.lerp_(gradient.square(), 1 - 0.999)
                    spread = (second / (1 - 0.999**step)).sqrt_().add_(1e-8)
                    layer.data.addcdiv_(first, spread, value=-recipe.rate / (1 - 0.9**step))
        scores = objective.score(_all_outputs(layers, table, objective.watched), models)
        better = scores > best[models]
        best[models[better]] = scores[better]
        for best_layer, layer in zip(kept, layers, strict=True):
            best_layer[:, models[better]] = layer.data[:, better]
        # SentEval counts every look without a gain, not only those in a row.
        misses[models] += ~better
        going = misses[models] <= recipe.tenacity
        if not going.any():
            break
        models, masks, decay = models[going], masks[:, going], decay[going]
        layers = [layer.data[:, going].requires_grad_() for layer in layers]
        moments = [(first[:, going], second[:, going]) for first, second in moments]
    return lambda rows: _all_outputs(kept, table, rows), np.where(np.isfinite(best), best, np.nan)


def _outputs(layers: Sequence[Tensor], batch: Tensor) -> Tensor:
    """Outputs [rows, classes, models]; one product gives those of all models."""
    first = layers[0]
    outputs = (batch @ first.flatten(0, 1).T).view(len(batch), *first.shape[:2])
    for layer in layers[1:]:
        outputs = torch.einsum("bhm,cmh->bcm", F.pad(outputs.sigmoid(), (0, 0, 0, 1), value=1.0), layer)
    return outputs


def _all_outputs(layers: Sequence[Tensor], table: Tensor, rows: Rows) -> Tensor:
    """The same for many rows, some at a time."""
    parts = torch.from_numpy(rows).to(table.device).split(1024)
    with torch.no_grad():
        return torch.cat([_outputs(layers, table[part]) for part in parts])
