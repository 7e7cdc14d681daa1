"""The training loop: the whole of it can be read here.

Everything a step needs lies on the device: tokens, labels, the order of the epoch, the step counter, weights and
moments. A step therefore takes no argument but its padded length, reads its own batch, and leaves its loss in a
buffer. On CUDA each padded length is captured once in a graph and replayed; elsewhere the same function just runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F  # noqa: N812 - its name everywhere

from evenli.errors import ModelError
from evenli.models.positions import position_limit
from evenli.training.batches import NOBODY, Plan, padded_lengths, plan_epoch
from evenli.training.data import FlatTokens
from evenli.training.fast.compiler import compile_static
from evenli.training.fast.encoder import FusedForward, PlainForward, can_fuse, joined_names, unused_parameters
from evenli.training.fast.flat import AdamW, FlatParameters
from evenli.training.fast.resident import Resident, score
from evenli.training.recipe import Recipe
from evenli.training.world import World

_WARMUPS = 3


@dataclass(frozen=True)
class Report:
    """Where a run stands after some steps.

    Attributes:
        step: Steps taken since the start of the run.
        epoch: Current epoch, from 0.
        loss: Mean over the pairs since the last report.
        accuracy: Share of those pairs that were labelled right while training, dropout on.
        lr: Learning rate of the last step.
        pairs: Pairs since the last report.
        seconds: Time since the last report.
    """

    step: int
    epoch: int
    loss: float
    accuracy: float
    lr: float
    pairs: int
    seconds: float


class Trainer:
    """Trains one model on one set of tokens; can be set back and used again with other labels or another seed.

    Args:
        model: A three-label ``transformers`` classifier in fp32.
        data: Training pairs.
        recipe: Settings.
        device: ``cpu``, ``cuda`` or ``mps``.
        graph: Capture steps in CUDA graphs and compile the encoder layer; only on CUDA.
        fresh: Names of parameters the base did not have; they are drawn anew from the seed.
        world: This process among those of a distributed run.
    """

    def __init__(
        self,
        model: Any,
        data: FlatTokens,
        recipe: Recipe,
        *,
        device: str = "cpu",
        graph: bool = True,
        fresh: tuple[str, ...] = (),
        world: World | None = None,
    ) -> None:
        self.model, self.data, self.recipe = model.to(device), data, recipe
        self.device, self._fresh, self.world = torch.device(device), fresh, world or World()
        self._cuda = self.device.type == "cuda"
        self.graphed = graph and self._cuda
        if self._cuda:
            # The other kernels for masked attention add up their gradients in the same order every time.
            torch.backends.cuda.enable_cudnn_sdp(False)
        dtype = getattr(torch, recipe.dtype_on(self.device.type))
        if recipe.dropout is not None:
            for module in model.modules():
                if isinstance(module, torch.nn.Dropout):
                    module.p = recipe.dropout
        self._tokens = Resident(data, self.device, compiled=self.graphed)
        self.fused = can_fuse(model)
        if self.fused:
            self.flat = FlatParameters(model, dtype=dtype, joined=joined_names(model))
            self._forward: Any = FusedForward(model, self.flat, compiled=self.graphed)
        else:
            few = self._tokens.batch(torch.arange(min(2, len(data)), device=self.device), 16)
            self.flat = FlatParameters(model, dtype=dtype, unused=unused_parameters(model, *few))
            self._forward = PlainForward(model)
        self._judge = compile_static(judge) if self.graphed else judge
        self._optimiser = AdamW(self.flat, recipe, compiled=self.graphed)
        self.padded = padded_lengths(recipe.max_length, position_limit(model.config))
        self.steps_per_epoch = -(-len(data) // recipe.batch_size)
        self.steps = self.steps_per_epoch * recipe.epochs
        self._rows_here = -(-recipe.batch_size // self.world.size)
        # A few rows more than an epoch has: warming up for a capture runs past the end.
        room = self.steps_per_epoch + _WARMUPS + 1
        self._order = torch.full((room, self._rows_here), NOBODY, dtype=torch.int64, device=self.device)
        self._counts = torch.ones(room, device=self.device)
        self._losses = torch.zeros(room, device=self.device)
        self._correct = torch.zeros(room, device=self.device)
        self._at = torch.zeros(1, dtype=torch.int64, device=self.device)
        self._step = torch.zeros(1, dtype=torch.int64, device=self.device)
        self._graphs: dict[int, Any] = {}
        self._pool = torch.cuda.graph_pool_handle() if self.graphed else None
        self._initial = self.flat.master.cpu().clone()
        self.step = 0
        self.reset()

    def reset(self, seed: int | None = None) -> None:
        """Back to the base's weights, in place; a new classifier and the dropout follow the seed."""
        if seed is not None:
            self.recipe = replace(self.recipe, seed=seed)
        values = self._initial.clone()
        generator = torch.Generator().manual_seed(self.recipe.seed)
        spread = getattr(self.model.config, "initializer_range", 0.02)
        for name, tensor in self.flat.named(values).items():
            if name in self._fresh:
                if tensor.ndim > 1:
                    tensor.normal_(0.0, spread, generator=generator)
                else:
                    tensor.fill_(0.0 if name.endswith("bias") else 1.0)
        self.flat.set(values)
        self._optimiser.mean.zero_()
        self._optimiser.square.zero_()
        self._step.zero_()
        self.step = 0
        torch.manual_seed(self.recipe.seed + 1_000_003 * self.world.rank)
        self._random = self._generator_state()

    def set_labels(self, labels: NDArray[np.int64]) -> None:
        """Train on other labels for the same pairs; captured graphs stay valid."""
        if labels.shape != self.data.labels.shape:
            raise ValueError(f"expected {len(self.data)} labels, found {labels.shape}")
        self._tokens.labels.copy_(torch.from_numpy(labels))

    def run(self, *, every: int = 50) -> Iterator[Report]:
        """Train to the end of the recipe from wherever this trainer stands."""
        while self.step < self.steps:
            yield from self.run_epoch(every=every)

    def run_epoch(self, *, every: int = 50) -> Iterator[Report]:
        """Finish the current epoch; a report every so many steps and at its end.

        Raises:
            ModelError: The loss is not a number; the pairs of the first such batch are named.
        """
        epoch, first = divmod(self.step, self.steps_per_epoch)
        plan = self.plan(epoch)
        self._load(plan, first)
        self.prepare(plan)
        began = time.perf_counter()
        for at in range(first - first % every, len(plan), every):
            until = min(at + every, len(plan))
            start = max(at, first)
            # The generator is everybody's: what others draw between two reports must not change this run.
            self._set_generator(self._random)
            for length in plan.lengths[start:until]:
                self._advance(length)
            self._random = self._generator_state()
            self.step += until - start
            losses, correct = self._read(plan, start, until)
            counts = (plan.rows[start:until] != NOBODY).sum(axis=1)
            now = time.perf_counter()
            yield Report(
                step=self.step,
                epoch=epoch,
                loss=float((losses * counts).sum() / counts.sum()),
                accuracy=float(correct.sum() / counts.sum()),
                lr=float(self._rate(torch.tensor([self.step - 1]))),
                pairs=int(counts.sum()),
                seconds=now - began,
            )
            began = time.perf_counter()

    def prepare(self, plan: Plan) -> None:
        """Capture what an epoch will replay; longest first, so that the others fit into its memory."""
        self.model.train()
        for length in sorted(set(plan.lengths) - set(self._graphs), reverse=True):
            if not self.graphed:
                return
            try:
                self._capture(length)
            except RuntimeError:
                if self.fused:
                    raise
                # Models that are not ours may do things that cannot be captured; they train all the same.
                self.graphed = False

    def plan(self, epoch: int) -> Plan:
        """The batches of an epoch."""
        recipe = self.recipe
        return plan_epoch(self.data.lengths, recipe.batch_size, self.padded, seed=recipe.seed, epoch=epoch)

    def logits(self, tokens: FlatTokens) -> NDArray[np.float32]:
        """Logits of the current model, in LABELS order, without dropout."""
        self.model.eval()
        return score(self._forward, tokens, self.device, self.padded[-1])

    def weights(self) -> dict[str, Any]:
        """The trained weights by their names in ``transformers``, fp32, on the CPU."""
        return {name: tensor.clone() for name, tensor in self.flat.named(self.flat.master.cpu()).items()}

    def state(self) -> dict[str, Any]:
        """Everything a later process needs to continue as if nothing had happened, on the CPU."""
        return {
            "weights": self.flat.master.cpu(),
            "mean": self._optimiser.mean.cpu(),
            "square": self._optimiser.square.cpu(),
            "random": self.world.gather(self._random),
        }

    def load_state(self, state: dict[str, Any], step: int) -> None:
        """Continue from ``state``, taken after ``step`` steps."""
        self.flat.set(state["weights"])
        self._optimiser.mean.copy_(state["mean"])
        self._optimiser.square.copy_(state["square"])
        self._step.fill_(step)
        self.step = step
        self._random = state["random"][self.world.rank].clone()

    def seconds_per_step(self) -> float:
        """Time of one step of middling length, measured; the run is not changed."""
        plan = self.plan(0)
        self._load(plan, 0)
        self.model.train()
        length = sorted(plan.lengths)[len(plan) // 2]
        with self._undisturbed():
            self._take_step(length)
            began = time.perf_counter()
            self._take_step(length)
            return time.perf_counter() - began

    def _take_step(self, length: int) -> None:
        """Forward, loss, backward, clip, update: all on the device, the same code captured or not."""
        rows = self._order.index_select(0, self._at).squeeze(0)
        real = rows != NOBODY
        rows = rows.clamp(min=0)
        logits = self._forward(*self._tokens.batch(rows, length))
        labels = self._tokens.labels.index_select(0, rows)
        loss, correct = self._judge(logits, labels, real, self._counts.index_select(0, self._at))
        self.flat.take(torch.autograd.grad(loss, self.flat.leaves))
        with torch.no_grad():
            self.world.add_up(self.flat.grad)
            self._optimiser.step(self._step, self._rate(self._step))
            self._losses.index_copy_(0, self._at, loss.detach().view(1))
            self._correct.index_copy_(0, self._at, correct.view(1))
            self._at += 1
            self._step += 1

    def _rate(self, step: Any) -> Any:
        """Learning rate after ``step`` steps: up over the warm-up, then down to zero in a straight line."""
        warm = round(self.recipe.warmup * self.steps)
        done = step.float()
        rise, fall = done / max(1, warm), (self.steps - done) / max(1, self.steps - warm)
        return self.recipe.lr * torch.where(done < warm, rise, fall).clamp(min=0.0)

    def _advance(self, length: int) -> None:
        if not self.graphed:
            self._take_step(length)
            return
        self._graphs[length].replay()

    def _capture(self, length: int) -> None:
        """Record the step for one padded length; compiling and warming up leave no trace in the run."""
        with self._undisturbed():
            aside = torch.cuda.Stream(self.device)
            aside.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(aside):
                for _ in range(_WARMUPS):
                    self._take_step(length)
            torch.cuda.current_stream(self.device).wait_stream(aside)
            graph = torch.cuda.CUDAGraph()
            # The exchange between processes has a thread of its own that may not disturb the capture.
            mode = "thread_local" if self.world.size > 1 else "global"
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode=mode):
                self._take_step(length)
        self._graphs[length] = graph

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Whatever happens inside, the run stands afterwards where it stood before."""
        held = [self.flat.weights, self.flat.master, self._optimiser.mean, self._optimiser.square]
        held += [self._at, self._step, self._losses, self._correct]
        kept = [tensor.clone() for tensor in held]
        try:
            yield
        finally:
            for tensor, before in zip(held, kept, strict=True):
                tensor.copy_(before)

    def _generator_state(self) -> Any:
        return torch.cuda.get_rng_state(self.device) if self._cuda else torch.get_rng_state()

    def _set_generator(self, state: Any) -> None:
        if self._cuda:
            torch.cuda.set_rng_state(state, self.device)
        else:
            torch.set_rng_state(state)

    def _load(self, plan: Plan, first: int) -> None:
        """Put an epoch's order on the device: of every batch the share of this process."""
        room = self._rows_here * self.world.size
        rows = np.full((len(plan), room), NOBODY, dtype=np.int64)
        rows[:, : plan.rows.shape[1]] = plan.rows
        self._order[: len(plan)].copy_(torch.from_numpy(rows[:, self.world.rank :: self.world.size].copy()))
        counts = (plan.rows != NOBODY).sum(axis=1).astype(np.float32)
        self._counts[: len(plan)].copy_(torch.from_numpy(counts))
        self._at.fill_(first)

    def _read(self, plan: Plan, start: int, until: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Losses and right answers of some steps; this is where the host waits for the device."""
        both = torch.stack([self._losses[start:until], self._correct[start:until]])
        self.world.add_up(both)
        losses, correct = both.cpu().numpy()
        broken = np.flatnonzero(~np.isfinite(losses))
        if len(broken):
            at = start + int(broken[0])
            names = ", ".join(self.data.names[row] for row in plan.rows[at] if row != NOBODY)
            raise ModelError(
                f"the loss is {losses[broken[0]]} at step {self.step - (until - start) + int(broken[0]) + 1}; "
                f"lower --lr, or look at the pairs of this batch: {names}"
            )
        return losses, correct


def judge(logits: Any, labels: Any, real: Any, count: Any) -> tuple[Any, Any]:
    """Mean cross-entropy in fp32 over the ``count`` pairs of a batch, and how many of the real rows are right."""
    logits = logits.float()
    losses = F.cross_entropy(logits, labels, reduction="none") * real
    return losses.sum() / count.squeeze(0), ((logits.argmax(1) == labels) & real).sum().float()
