"""All trainable weights of a model in one buffer, and AdamW over it.

Faster: the update. One buffer makes the optimiser one kernel, clipping one reduction, an exchange between devices one
call and a checkpoint three tensors. With bfloat16 arithmetic the model computes with bfloat16 copies of fp32 weights;
the optimiser, which has the new weights at hand anyway, writes them, instead of a cast in every step.
Benchmark: ``benchmarks/train.py``, whose plain loop has ``torch.optim.AdamW`` and autocast.
Plain path: the same functions, not compiled; ``tests/test_training.py`` compares them with ``torch.optim.AdamW``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch

from evenli.training.fast.compiler import compile_static
from evenli.training.recipe import Recipe

_ALIGN = 64
"""Elements to which a parameter's start is aligned; 128 bytes in bfloat16."""

_PIECE = 1 << 16


class Slot(NamedTuple):
    """Where a parameter lies in the buffer."""

    start: int
    shape: tuple[int, ...]

    def of(self, buffer: Any) -> Any:
        """The part of ``buffer`` that is this parameter."""
        return buffer[self.start : self.start + math.prod(self.shape)].view(self.shape)


class FlatParameters:
    """The trainable parameters of a model, laid out end to end.

    Attributes:
        master: fp32 weights, what is trained and saved.
        weights: What the model computes with; the same tensor as ``master`` in fp32.
        grad: Gradients, in the dtype of ``weights``.
        leaves: Tensors to differentiate by.
        decayed: Elements at the start of the buffer that weight decay applies to: matrices, not norms or biases.
    """

    def __init__(
        self, model: Any, *, joined: Sequence[Sequence[str]] = (), unused: Iterable[str] = (), dtype: Any
    ) -> None:
        """Move the parameters of ``model`` into one buffer.

        Args:
            model: On its device; its parameters become views.
            dtype: Arithmetic of the model.
            joined: Names of parameters to lay side by side and to differentiate as one, stacked along rows.
            unused: Names of parameters that the loss does not depend on; they are left alone.
        """
        left_out = set(unused)
        parameters = {name: p for name, p in model.named_parameters() if p.requires_grad and name not in left_out}
        inside = {name for unit in joined for name in unit}
        units = [tuple(unit) for unit in joined] + [(name,) for name in parameters if name not in inside]
        # Matrices first: weight decay applies to the beginning of the buffer.
        units.sort(key=lambda unit: parameters[unit[0]].ndim < 2)
        self.slots: dict[str, Slot] = {}
        end = self.decayed = 0
        for unit in units:
            end = -(-end // _ALIGN) * _ALIGN
            for name in unit:
                self.slots[name] = Slot(end, tuple(parameters[name].shape))
                end += parameters[name].numel()
            if parameters[unit[0]].ndim >= 2:
                self.decayed = -(-end // _ALIGN) * _ALIGN
        device = next(iter(parameters.values())).device
        self.master = torch.zeros(max(end, self.decayed), dtype=torch.float32, device=device)
        for name, slot in self.slots.items():
            slot.of(self.master).copy_(parameters[name].detach())
        self.weights = self.master if dtype == torch.float32 else self.master.to(dtype)
        self.grad = torch.zeros_like(self.weights)
        for name, slot in self.slots.items():
            parameters[name].data = slot.of(self.weights)
        self.joints = {unit: self._join(unit, parameters) for unit in units if len(unit) > 1}
        self.leaves = [self.joints.get(unit, parameters[unit[0]]) for unit in units]
        firsts = [self.slots[unit[0]].start for unit in units]
        slots = [Slot(start, tuple(leaf.shape)) for start, leaf in zip(firsts, self.leaves, strict=True)]
        self._grads = [slot.of(self.grad) for slot in slots]

    def _join(self, unit: tuple[str, ...], parameters: dict[str, Any]) -> Any:
        """One parameter over several that lie side by side; they are not differentiated themselves any more."""
        first = self.slots[unit[0]]
        for name in unit:
            parameters[name].requires_grad_(False)
        rows = sum(self.slots[name].shape[0] for name in unit)
        return torch.nn.Parameter(Slot(first.start, (rows, *first.shape[1:])).of(self.weights))

    def take(self, gradients: Sequence[Any]) -> None:
        """Gather the gradients of ``leaves`` in the buffer."""
        torch._foreach_copy_(self._grads, list(gradients))

    def set(self, values: Any) -> None:
        """Overwrite all weights, in place."""
        self.master.copy_(values)
        if self.weights is not self.master:
            self.weights.copy_(self.master)

    def named(self, values: Any) -> dict[str, Any]:
        """A buffer of the same layout as named tensors."""
        return {name: slot.of(values) for name, slot in self.slots.items()}


class AdamW:
    """AdamW with decoupled decay and a clipped gradient (Loshchilov and Hutter 2019), over one buffer."""

    def __init__(self, flat: FlatParameters, recipe: Recipe, *, compiled: bool) -> None:
        self.flat, self.recipe = flat, recipe
        self.mean, self.square = torch.zeros_like(flat.master), torch.zeros_like(flat.master)
        self._update = compile_static(_update) if compiled else _update
        # On a CPU the intermediate results of a small piece stay in its cache, which is five times as fast.
        span = _PIECE if flat.master.device.type == "cpu" else len(flat.master)
        ends = ((0, flat.decayed, recipe.weight_decay), (flat.decayed, len(flat.master), 0.0))
        self._pieces = [
            (slice(at, min(at + span, end)), decay) for start, end, decay in ends for at in range(start, end, span)
        ]

    def step(self, number: Any, lr: Any) -> None:
        """One update.

        Args:
            number: Steps taken before this one, as a tensor.
            lr: Learning rate, as a tensor.
        """
        flat, recipe = self.flat, self.recipe
        time = number.float() + 1
        scale = torch.ones_like(time)
        if recipe.clip:
            norm = torch.linalg.vector_norm(flat.grad, dtype=torch.float32)
            scale = (recipe.clip / (norm + 1e-6)).clamp(max=1.0).view_as(time)
        correct = 1 - recipe.beta1**time, 1 - recipe.beta2**time
        for part, decay in self._pieces:
            copy = None if flat.weights is flat.master else flat.weights[part]
            piece = Piece(flat.master[part], copy, flat.grad[part], self.mean[part], self.square[part])
            self._update(piece, Rates(scale, lr, *correct, decay, recipe.beta1, recipe.beta2, recipe.eps))


class Piece(NamedTuple):
    """Parts of all buffers, at the same place; ``copy`` is None in fp32."""

    master: Any
    copy: Any | None
    grad: Any
    mean: Any
    square: Any


class Rates(NamedTuple):
    """Numbers of a step; the first four are tensors, which change between replays of a captured step."""

    scale: Any
    lr: Any
    correct1: Any
    correct2: Any
    decay: float
    beta1: float
    beta2: float
    eps: float


def _update(piece: Piece, r: Rates) -> None:
    """Elementwise, so that the compiler makes it one pass over memory, which is what it costs."""
    master, copy, grad, mean, square = piece
    grad = grad.float() * r.scale
    mean.lerp_(grad, 1 - r.beta1)
    square.lerp_(grad * grad, 1 - r.beta2)
    master.mul_(1 - r.lr * r.decay)
    master.sub_(r.lr / r.correct1 * mean / ((square / r.correct2).sqrt() + r.eps))
    if copy is not None:
        copy.copy_(master)
