"""All trainable weights of a model in one buffer, AdamW over it, and the settings of the compiler.

Faster: the update. One buffer makes the optimiser one kernel, clipping one reduction, an exchange between devices one
call and a checkpoint three tensors. With bfloat16 arithmetic the model computes with bfloat16 copies of fp32 weights;
the optimiser, which has the new weights at hand anyway, writes them, instead of a cast in every step.
Benchmark: ``benchmarks/train.py``, whose plain loop has ``torch.optim.AdamW`` and autocast.
Plain path: the same functions, not compiled; ``tests/training/test_training.py`` compares them with
``torch.optim.AdamW``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch

from evenli.training.recipe import Recipe

STABLE = True  # let no timing decide how code is generated: the same code, hence the same rounding, in every process
_ALIGN = 64  # elements to which a parameter's start is aligned; 128 bytes in bfloat16
_PIECE = 1 << 16


def compile_static(function: Any, compiled: bool = True) -> Any:
    """The whole function compiled for fixed shapes; itself if not ``compiled``."""
    if not compiled:
        return function
    # Both modules are private, and nothing public sets either; only a compiled run needs them.
    import torch._dynamo.config as dynamo
    import torch._inductor.config as inductor

    # Eight shapes of one function are the compiler's default limit; a ninth would not be compiled.
    dynamo.recompile_limit = max(dynamo.recompile_limit, 64)
    # Older compilers have no such setting, and refuse an option that they do not know.
    known = hasattr(inductor, "deterministic")
    return torch.compile(function, dynamic=False, fullgraph=True, options={"deterministic": STABLE} if known else None)


class Slot(NamedTuple):
    """Where a parameter lies in the buffer."""

    start: int
    shape: tuple[int, ...]

    def of(self, buffer: Any) -> Any:
        """The part of ``buffer`` that is this parameter."""
        return buffer[self.start : self.start + math.prod(self.shape)].view(self.shape)


class FlatParameters:
    """The trainable parameters of a model, which become views of one buffer.

    ``master`` are the fp32 weights, what is trained and saved, ``weights`` what the model computes with (the same
    tensor in fp32), ``grad`` their gradients, and ``leaves`` the tensors to differentiate by. Weight decay applies to
    the first ``decayed`` elements: matrices, not norms or biases.

    Parameters of a ``joined`` group lie side by side and are differentiated as one, stacked along rows. The loss does
    not depend on ``unused`` ones; they are left alone. ``dtype`` is the arithmetic of the model.
    """

    def __init__(
        self, model: Any, *, joined: Sequence[Sequence[str]] = (), unused: Iterable[str] = (), dtype: Any
    ) -> None:
        left_out = set(unused)
        parameters = {name: p for name, p in model.named_parameters() if p.requires_grad and name not in left_out}
        inside = {name for unit in joined for name in unit}
        units = [tuple(unit) for unit in joined] + [(name,) for name in parameters if name not in inside]
        # Matrices first: weight decay applies to the beginning of the buffer.
        units.sort(key=lambda unit: parameters[unit[0]].ndim < 2)
        self.slots: dict[str, Slot] = {}
        end = self.decayed = 0
        for unit in units:
            # Vectorised loads need aligned starts; a joined group has none inside, because it is read as one matrix.
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
        # Through .data, so that the model's modules keep their parameter objects and see the buffer from now on.
        for name, slot in self.slots.items():
            parameters[name].data = slot.of(self.weights)
        # One parameter over several that lie side by side, which are not differentiated themselves any more.
        self.joints = {}
        for unit in (unit for unit in units if len(unit) > 1):
            for name in unit:
                parameters[name].requires_grad_(False)
            start, shape = self.slots[unit[0]]
            rows = sum(self.slots[name].shape[0] for name in unit)
            self.joints[unit] = torch.nn.Parameter(Slot(start, (rows, *shape[1:])).of(self.weights))
        self.leaves = [self.joints.get(unit, parameters[unit[0]]) for unit in units]
        starts = [self.slots[unit[0]].start for unit in units]
        self._grads = [
            Slot(start, tuple(leaf.shape)).of(self.grad) for start, leaf in zip(starts, self.leaves, strict=True)
        ]

    def take(self, gradients: Sequence[Any]) -> None:
        """Gather the gradients of ``leaves`` in the buffer."""
        # Private, but what torch.optim calls as well: one launch for all tensors, where a loop has hundreds.
        torch._foreach_copy_(self._grads, list(gradients))

    def set(self, values: Any) -> None:
        """Overwrite all weights, in place."""
        self.master.copy_(values)
        if self.weights is not self.master:
            self.weights.copy_(self.master)

    def named(self, values: Any) -> dict[str, torch.Tensor]:
        """A buffer of the same layout as named tensors."""
        return {name: slot.of(values) for name, slot in self.slots.items()}


class AdamW:
    """AdamW with decoupled decay and a clipped gradient (Loshchilov and Hutter 2019), over one buffer."""

    def __init__(self, flat: FlatParameters, recipe: Recipe, *, compiled: bool) -> None:
        self.flat, self.recipe = flat, recipe
        self.mean, self.square = torch.zeros_like(flat.master), torch.zeros_like(flat.master)
        self._update = compile_static(_update, compiled)
        # On a CPU the intermediate results of a small piece stay in its cache, which is five times as fast.
        span = _PIECE if flat.master.device.type == "cpu" else len(flat.master)
        ends = ((0, flat.decayed, recipe.weight_decay), (flat.decayed, len(flat.master), 0.0))
        self._pieces = [
            (slice(at, min(at + span, end)), decay) for start, end, decay in ends for at in range(start, end, span)
        ]

    def step(self, number: Any, lr: Any) -> None:
        """One update; ``number`` is how many there were before, a tensor as ``lr`` is."""
        flat, recipe = self.flat, self.recipe
        time = number.float() + 1
        scale = torch.ones_like(time)
        if recipe.clip:
            # Padding between parameters is zero and adds nothing. 1e-6 as in torch.nn.utils.clip_grad_norm_.
            norm = torch.linalg.vector_norm(flat.grad, dtype=torch.float32)
            scale = (recipe.clip / (norm + 1e-6)).clamp(max=1.0).view_as(time)
        # Both moments start at zero and are too small at first by these factors.
        correct = 1 - recipe.beta1**time, 1 - recipe.beta2**time
        for part, decay in self._pieces:
            copy = None if flat.weights is flat.master else flat.weights[part]
            buffers = flat.master[part], copy, flat.grad[part], self.mean[part], self.square[part]
            self._update(buffers, (scale, lr, *correct), decay, recipe.beta1, recipe.beta2, recipe.eps)


def _update(
    buffers: tuple[Any, ...], rates: tuple[Any, ...], decay: float, beta1: float, beta2: float, eps: float
) -> None:
    """Elementwise, so that the compiler makes it one pass over memory, which is what it costs.

    ``rates`` are tensors: they change between replays of a captured step.
    """
    master, copy, grad, mean, square = buffers
    scale, lr, correct1, correct2 = rates
    grad = grad.float() * scale
    mean.lerp_(grad, 1 - beta1)
    square.lerp_(grad * grad, 1 - beta2)
    # Decoupled: decay acts on the weights and never enters the moments, which is what tells AdamW from Adam.
    master.mul_(1 - lr * decay)
    master.sub_(lr / correct1 * mean / ((square / correct2).sqrt() + eps))
    if copy is not None:
        copy.copy_(master)
