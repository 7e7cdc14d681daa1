"""Many small classifiers trained as one.

Every fit of a task differs from the others in the rows it may see and in its weight decay only. So all of them walk
through one shuffle of the rows together: a batch is gathered once, a single product gives the outputs of all models,
and a mask takes the rows of other folds out of each model's loss. A batch is made as much larger as the folds leave
rows out, so that a model sees as many rows a step, on average, as if it had been trained alone; each model still sees
its own rows once in a pass, in random order. A model that stops early keeps its best weights and leaves the product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

_BETAS, _EPSILON = (0.9, 0.999), 1e-8  # Adam's own defaults
_SHRINK = 0.6  # leave finished models behind once no more than this share still learns: each time costs a copy
_LARGEST = 1 << 27  # numbers that one look at the validation rows may hold at once

Tensor = Any


@dataclass(frozen=True)
class Recipe:
    """How a model is trained."""

    batch: int = 64  # rows a step
    passes: int = 4  # over the rows, between two looks at the validation rows
    most: int = 200  # no further look after that many passes
    tenacity: int = 5  # looks without a better score that are forgiven, counted over the whole run
    rate: float = 1e-3
    hidden: int = 0  # units of a sigmoid layer before the softmax; 0 for none


@dataclass(frozen=True, eq=False)
class Table:
    """Features on their device, with a column of ones for the bias, and zeros up to a round width."""

    matrix: Tensor
    inputs: int

    @classmethod
    def of(cls, features: Tensor) -> Table:
        """Append bias and padding."""
        rows, inputs = features.shape
        matrix = features.new_zeros(rows, -(-(inputs + 1) // 8) * 8)
        matrix[:, :inputs] = features
        matrix[:, inputs] = 1
        return cls(matrix, inputs)


class Objective(Protocol):
    """What is learned, and when to stop."""

    def slope(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Gradient of each row's loss: outputs [batch, classes, models], targets [batch, classes]."""

    def score(self, outputs: Tensor, models: NDArray[np.int64]) -> NDArray[np.float64]:
        """Score of these models on their validation rows, from outputs [rows, classes, models]."""


class Network:
    """The weights of many models: [units, models, inputs], one layer or two with a sigmoid between them."""

    def __init__(self, layers: Sequence[Tensor]) -> None:
        self.layers = list(layers)

    @classmethod
    def fresh(cls, table: Table, classes: int, models: int, hidden: int, generator: torch.Generator) -> Network:
        """All models start from one draw, uniform in ±1/√inputs as in torch.nn.Linear."""
        sizes = [(hidden, table.inputs), (classes, hidden)] if hidden else [(classes, table.inputs)]
        layers = [
            torch.rand(units, 1, inputs + 1, generator=generator).mul_(2).sub_(1).div_(inputs**0.5)
            for units, inputs in sizes
        ]
        # The zeros that round up the width have weights of zero, and no gradient ever reaches them.
        padding = table.matrix.shape[1] - table.inputs - 1
        layers[0] = torch.nn.functional.pad(layers[0], (0, padding))
        return cls([layer.to(table.matrix.device).repeat(1, models, 1) for layer in layers])

    @property
    def models(self) -> int:
        """How many models there are."""
        return int(self.layers[0].shape[1])

    def forward(self, batch: Tensor) -> tuple[Tensor | None, Tensor]:
        """What the hidden layer gives, if there is one, and the outputs [batch, classes, models]."""
        # The weights of all models side by side: one product gives the outputs of all of them.
        first = self.layers[0]
        outputs = (batch @ first.flatten(0, 1).T).view(len(batch), *first.shape[:2])
        if len(self.layers) == 1:
            return None, outputs
        inner = torch.cat([outputs.sigmoid_(), outputs.new_ones(len(batch), 1, self.models)], dim=1)
        return inner, torch.einsum("bhm,cmh->bcm", inner, self.layers[1])

    def gradients(self, batch: Tensor, inner: Tensor | None, slope: Tensor) -> list[Tensor]:
        """Gradient of every layer, from that of the outputs."""
        first = self.layers[0]
        if inner is None:
            return [(slope.flatten(1).T @ batch).view_as(first)]
        second = torch.einsum("bcm,bhm->cmh", slope, inner)
        # Back through the sigmoid; the last hidden unit is the bias and has no inputs.
        units = inner[:, :-1]
        back = torch.einsum("bcm,cmh->bhm", slope, self.layers[1])[:, :-1] * units * (1 - units)
        return [(back.flatten(1).T @ batch).view_as(first), second]

    def outputs(self, table: Table, rows: Tensor) -> Tensor:
        """Outputs [rows, classes, models], some rows at a time."""
        wide = max(int(layer.shape[0]) for layer in self.layers) * self.models + table.matrix.shape[1]
        size = max(1, _LARGEST // wide)
        parts = [self.forward(table.matrix.index_select(0, part))[1] for part in rows.split(size)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)


class Trained(NamedTuple):
    """The best weights of every model, and the score they had on the validation rows; NaN if it never had one."""

    network: Network
    scores: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Problem:
    """What the models have in common, and the fold and weight decay of each."""

    table: Table
    targets: Tensor  # [rows, classes], a share for every class
    train: NDArray[np.bool_]  # [folds, rows], true where a fold learns from a row
    watched: NDArray[np.int64]  # rows whose outputs the objective scores
    folds: NDArray[np.int64]
    decays: NDArray[np.float64]


def train_together(problem: Problem, objective: Objective, recipe: Recipe, generator: torch.Generator) -> Trained:
    """Train all models of a problem; ``generator`` is on the CPU, so that shuffles are the same on every device."""
    steps = _Steps(problem, objective, recipe, generator)
    models = np.arange(len(problem.folds))
    best = np.full(len(models), -np.inf)
    misses = np.zeros(len(models), dtype=np.int64)
    kept = Network([layer.clone() for layer in steps.network.layers])
    watched = torch.from_numpy(problem.watched).to(problem.table.matrix.device)
    learning, passes = np.ones(len(models), dtype=bool), 0
    while learning.any() and passes <= recipe.most:
        for _ in range(recipe.passes):
            steps.run()
        passes += recipe.passes
        # ``models`` maps the models that are still trained to their places among all of them.
        scores = objective.score(steps.network.outputs(problem.table, watched), models)
        better = learning & (scores > best[models])
        if better.any():
            best[models[better]] = scores[better]
            places = np.stack([np.flatnonzero(better), models[better]])
            here, there = torch.from_numpy(places).to(watched.device)
            for mine, layer in zip(kept.layers, steps.network.layers, strict=True):
                mine.index_copy_(1, there, layer.index_select(1, here))
        # SentEval counts every look without a gain, not only those in a row.
        misses[models[learning & ~better]] += 1
        learning &= misses[models] <= recipe.tenacity
        # Finished models cost as much as the others in the shared product, so they leave it from time to time.
        if 0 < learning.sum() <= _SHRINK * len(models):
            steps.keep(np.flatnonzero(learning))
            models, learning = models[learning], np.ones(int(learning.sum()), dtype=bool)
    return Trained(kept, np.where(np.isfinite(best), best, np.nan))


class _Steps:
    """Adam on all models at once; on CUDA a pass over the rows is recorded once and played back."""

    def __init__(self, problem: Problem, objective: Objective, recipe: Recipe, generator: torch.Generator) -> None:
        device = problem.table.matrix.device
        classes = int(problem.targets.shape[1])
        self._problem, self._objective, self._recipe, self._generator = problem, objective, recipe, generator
        self.network = Network.fresh(problem.table, classes, len(problem.folds), recipe.hidden, generator)
        self._first = [torch.zeros_like(layer) for layer in self.network.layers]
        self._second = [torch.zeros_like(layer) for layer in self.network.layers]
        self._pool = torch.from_numpy(np.flatnonzero(problem.train.any(axis=0)))
        # The mean share of the pool that a model may see: batches are larger by it, so that steps are not.
        share = problem.train[problem.folds][:, self._pool.numpy()].mean()
        self._batch = max(1, round(recipe.batch / float(share)))
        self._masks = torch.from_numpy(problem.train.T[:, problem.folds].astype(np.float32)).to(device)
        self._decays = torch.from_numpy(problem.decays.astype(np.float32)).to(device)[:, None]
        # Filled in place before every pass, as a recorded CUDA graph reads from fixed addresses.
        self._order = torch.empty(len(self._pool), dtype=torch.int64, device=device)
        self._rates = torch.empty(2, -(-len(self._pool) // self._batch), device=device)
        self._taken = 0
        self._stream: Any = _stream_of(device) if device.type == "cuda" else None
        self._graph: Any = None
        self._warm = False

    def run(self) -> None:
        """One pass over the rows."""
        shuffled = torch.randperm(len(self._pool), generator=self._generator)
        self._order.copy_(self._pool[shuffled])
        self._rates.copy_(torch.from_numpy(self._next_rates()))
        if self._stream is None:
            self._pass()
        elif not self._warm:  # kernels are loaded by a first pass, which must not happen while recording
            self._beside(self._pass)
            self._warm = True
        else:
            if self._graph is None:
                self._graph = torch.cuda.CUDAGraph()
                self._beside(self._record)
            self._graph.replay()

    def keep(self, which: NDArray[np.int64]) -> None:
        self._graph, self._warm = None, False  # recorded for other shapes
        chosen = torch.from_numpy(which).to(self._masks.device)
        for tensors in (self.network.layers, self._first, self._second):
            tensors[:] = [tensor.index_select(1, chosen) for tensor in tensors]
        self._masks = self._masks.index_select(1, chosen)
        self._decays = self._decays.index_select(0, chosen)

    def _next_rates(self) -> NDArray[np.float32]:
        """Factor and summand that turn √v into the divisor of the first moment, with Adam's corrections in them."""
        count = int(self._rates.shape[1])
        step = np.arange(self._taken + 1, self._taken + count + 1, dtype=np.float64)
        self._taken += count
        first, second = (1 - beta**step for beta in _BETAS)
        scaled = first / self._recipe.rate
        return np.stack([scaled / np.sqrt(second), scaled * _EPSILON]).astype(np.float32)

    def _pass(self) -> None:
        for step, rows in enumerate(self._order.split(self._batch)):
            self._step(rows, self._rates[0, step], self._rates[1, step])

    def _step(self, rows: Tensor, factor: Tensor, summand: Tensor) -> None:
        batch = self._problem.table.matrix.index_select(0, rows)
        inner, outputs = self.network.forward(batch)
        slope = self._objective.slope(outputs, self._problem.targets.index_select(0, rows))
        # A model learns from the rows of its own folds only, and from their mean.
        mask = self._masks.index_select(0, rows)
        slope *= (mask / mask.sum(dim=0).clamp_min_(1))[:, None]
        gradients = self.network.gradients(batch, inner, slope)
        # Adam in place, with the corrections of both moments in factor and summand.
        tensors = zip(self.network.layers, gradients, self._first, self._second, strict=True)
        for layer, gradient, first, second in tensors:
            gradient.addcmul_(layer, self._decays)
            first.lerp_(gradient, 1 - _BETAS[0])
            second.mul_(_BETAS[1]).addcmul_(gradient, gradient, value=1 - _BETAS[1])
            layer.addcdiv_(first, torch.addcmul(summand, second.sqrt(), factor), value=-1)

    def _beside(self, work: Callable[[], None]) -> None:
        """Run something in the stream of recordings, after what is under way and before what comes."""
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
        with torch.cuda.stream(self._stream):
            work()
        torch.cuda.current_stream(self._stream.device).wait_stream(self._stream)

    def _record(self) -> None:
        # The context manager of torch.cuda collects garbage each time, which costs more than the recording.
        self._graph.capture_begin()
        try:
            self._pass()
        finally:
            self._graph.capture_end()


@cache
def _stream_of(device: Any) -> Any:
    """One stream per device for all recordings: each stream has work space of its own."""
    return torch.cuda.Stream(device)
