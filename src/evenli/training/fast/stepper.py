"""Training steps that never wait for the host, captured as CUDA graphs, over tokens that live on the device.

Faster: fine-tuning of models up to BERT-base, where launching the kernels of a step takes longer than running them.
Batches are cut and padded on the device, which would otherwise wait for the host.
Benchmark: ``benchmarks/train.py`` (a ``transformers`` loop, the same batches; figures: ``docs/reference/training.md``).
Plain path: ``graph=False``, and every device but CUDA: ``take_step`` is then called directly. It is the code that is
captured, and ``tests/training/test_training.py`` compares it with a loop of ``transformers`` and ``torch.optim.AdamW``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F  # noqa: N812 - its name everywhere

from evenli.core.extras import need
from evenli.training.data import NOBODY, EpochPlan, FlatTokens
from evenli.training.fast.encoder import FusedForward, PlainForward, can_fuse, joined_names, unused_parameters
from evenli.training.fast.flat import AdamW, FlatParameters, compile_static
from evenli.training.recipe import Recipe

_WARMUPS = 3  # runs before a capture, in which libraries set up what may not be set up within one
_ROWS, _TOKENS = 256, 16_384
"""Largest batch when nothing is learnt."""


@dataclass(frozen=True)
class World:
    """This process among all of a run; ``device`` is its own where the launcher chose one."""

    rank: int = 0
    size: int = 1
    device: str | None = None

    @property
    def leads(self) -> bool:
        """Whether this process writes and prints."""
        return self.rank == 0

    def add_up(self, tensor: Any) -> None:
        """Sum a tensor over all processes, in place."""
        if self.size > 1:
            torch.distributed.all_reduce(tensor)

    def gather(self, tensor: Any) -> Any:
        """One row per process."""
        if self.size == 1:
            return tensor[None]
        rows: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(rows, tensor)
        return torch.stack(rows)

    def agree(self, wanted: bool) -> bool:
        """What the leading process wants, told to all: clocks differ, and what all do together all must begin."""
        if self.size == 1:
            return wanted
        flag = torch.tensor([float(wanted and self.leads)], device=self.device)
        self.add_up(flag)
        return bool(flag.item())

    def wait(self) -> None:
        """Until all are here."""
        if self.size > 1:
            torch.distributed.barrier()


def join_world(device: str | None = None) -> World:
    """Join the processes that ``accelerate launch`` or ``torchrun`` started; alone without either."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return World()
    accelerate = need("accelerate", extra="train", purpose="training on several devices")
    state = accelerate.PartialState(cpu=device == "cpu" or not torch.cuda.is_available())
    return World(state.process_index, state.num_processes, str(state.device))


class Resident:
    """Tokens on the device, cut into padded batches there."""

    def __init__(self, data: FlatTokens, device: Any, *, compiled: bool = False) -> None:
        arrays = (data.ids, data.types, data.starts, data.lengths, data.labels)
        ids, types, starts, lengths, self.labels = (torch.from_numpy(array).to(device, copy=True) for array in arrays)
        self._all = ids, types, starts, lengths
        self._cut = compile_static(cut, compiled)

    def batch(self, rows: Any, length: int) -> tuple[Any, Any, Any]:
        """Token ids, segment ids and a mask that is true on tokens, each [rows, length]."""
        return self._cut(rows, *self._all, length)  # type: ignore[no-any-return]


def cut(rows: Any, ids: Any, types: Any, starts: Any, lengths: Any, length: int) -> tuple[Any, Any, Any]:
    """A padded batch out of flat tokens; pairs longer than ``length`` lose their end."""
    # No shape depends on the pairs, and nothing is read back: a recorded step may do neither.
    places = torch.arange(length, device=rows.device)
    keep = places < lengths[rows][:, None]
    index = torch.where(keep, starts[rows][:, None] + places, len(ids) - 1)  # the last entry is that of padding
    return ids[index].long(), types[index].long(), keep


def score(forward: Any, data: FlatTokens, device: Any, longest: int) -> NDArray[np.float32]:
    """Logits of all pairs in batches of like length, none padded beyond ``longest``.

    ``forward`` takes ids, segments and mask; dropout follows the mode of its model.
    """
    resident = Resident(data, device)
    order = np.argsort(data.lengths, kind="stable")
    result = np.empty((len(data), 3), dtype=np.float32)
    at = 0
    with torch.inference_mode():
        while at < len(order):
            # Sorted by length, so the last row of a batch is its longest.
            widest = int(data.lengths[order[min(at + _ROWS, len(order)) - 1]])
            rows = order[at : at + max(1, min(_ROWS, _TOKENS // widest))]
            # Multiples of 8: tensor cores work on tiles of that size, and fewer shapes occur.
            length = min(-(-int(data.lengths[rows[-1]]) // 8) * 8, longest)
            batch = resident.batch(torch.from_numpy(rows).to(device), length)
            result[rows] = forward(*batch).float().cpu().numpy()
            at += len(rows)
    return result


class Stepper:
    """A model, its optimiser and the training pairs on a device, moved forward one batch at a time.

    The order of an epoch is loaded once, and losses are read now and then; between the two nothing travels between
    host and device. ``rate`` gives the learning rate after so many steps, tensor to tensor.
    """

    def __init__(
        self, model: Any, data: FlatTokens, recipe: Recipe, rate: Callable[[Any], Any], *, graph: bool, world: World
    ) -> None:
        self.device = next(model.parameters()).device
        self.graphed = graph and self.device.type == "cuda"
        self._rate, self._world = rate, world
        if self.device.type == "cuda":
            # The other kernels for masked attention add up their gradients in the same order every time.
            torch.backends.cuda.enable_cudnn_sdp(False)
        self.tokens = Resident(data, self.device, compiled=self.graphed)
        self.fused = can_fuse(model)
        # The weights move into one buffer.
        dtype = getattr(torch, recipe.dtype_on(self.device.type))
        if self.fused:
            self.flat = FlatParameters(model, dtype=dtype, joined=joined_names(model))
            self.forward: Any = FusedForward(model, self.flat, compiled=self.graphed)
        else:
            few = self.tokens.batch(torch.arange(min(2, len(data)), device=self.device), 16)
            self.flat = FlatParameters(model, dtype=dtype, unused=unused_parameters(model, *few))
            self.forward = PlainForward(model, dtype)
        self.judge = compile_static(judge, self.graphed)
        self.optimiser = AdamW(self.flat, recipe, compiled=self.graphed)
        self._rows_here = -(-recipe.batch_size // world.size)
        # A few rows more than an epoch has: warming up for a capture runs past the end.
        room = -(-len(data) // recipe.batch_size) + _WARMUPS + 1
        self._order = torch.full((room, self._rows_here), NOBODY, dtype=torch.int64, device=self.device)
        self._counts, self._losses, self._correct = (torch.ones(room, device=self.device) for _ in range(3))
        # Counters on the device, so that a replayed graph finds the next batch and learning rate by itself.
        self._at, self._step = (torch.zeros(1, dtype=torch.int64, device=self.device) for _ in range(2))
        self._graphs: dict[int, Any] = {}
        self._pool = torch.cuda.graph_pool_handle() if self.graphed else None

    def state(self) -> dict[str, torch.Tensor]:
        """Weights and moments, on the CPU."""
        moments = {"mean": self.optimiser.mean.cpu(), "square": self.optimiser.square.cpu()}
        return {"weights": self.flat.master.cpu(), **moments}

    def load_state(self, state: dict[str, torch.Tensor], step: int) -> None:
        """Continue from ``state``, taken after ``step`` steps."""
        self.flat.set(state["weights"])
        self.optimiser.mean.copy_(state["mean"])
        self.optimiser.square.copy_(state["square"])
        self._step.fill_(step)

    def load_epoch(self, plan: EpochPlan, first: int) -> None:
        """Put an epoch's order on the device, of every batch the share of this process; begin at step ``first``."""
        size = self._world.size
        rows = np.full((len(plan), self._rows_here * size), NOBODY, dtype=np.int64)
        rows[:, : plan.rows.shape[1]] = plan.rows
        # Dealt out in turn, so that the rows that fill up a batch are shared by all processes.
        self._order[: len(plan)].copy_(torch.from_numpy(rows[:, self._world.rank :: size].copy()))
        counts = (plan.rows != NOBODY).sum(axis=1).astype(np.float32)
        self._counts[: len(plan)].copy_(torch.from_numpy(counts))
        self._at.fill_(first)

    def prepare(self, lengths: Iterable[int]) -> None:
        """Capture a step of each padded length; longest first, so that the others fit into its memory."""
        for length in sorted(set(lengths) - set(self._graphs), reverse=True):
            if not self.graphed:
                return
            try:
                self._capture(length)
            except RuntimeError:
                if self.fused:
                    raise
                # Models that are not ours may do things that cannot be captured; they train all the same.
                self.graphed = False

    def advance(self, length: int) -> None:
        """Take the next step of the epoch, padded to ``length``."""
        if self.graphed:
            self._graphs[length].replay()
        else:
            self.take_step(length)

    def read(self, start: int, until: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Losses and right answers of some steps of the epoch; this is where the host waits for the device."""
        both = torch.stack([self._losses[start:until], self._correct[start:until]])
        self._world.add_up(both)
        return tuple(both.cpu().numpy())

    def take_step(self, length: int) -> None:
        """Forward, loss, backward, clip, update: all on the device, the same code captured or not."""
        # Indices stay tensors: a Python number would be frozen into the recorded graph.
        rows = self._order.index_select(0, self._at).squeeze(0)
        # Rows that fill up the last batch compute with the first pair and weigh nothing: a batch keeps its shape.
        real = rows != NOBODY
        rows = rows.clamp(min=0)
        logits = self.forward(*self.tokens.batch(rows, length))
        labels = self.tokens.labels.index_select(0, rows)
        loss, correct = self.judge(logits, labels, real, self._counts.index_select(0, self._at))
        self.flat.take(torch.autograd.grad(loss, self.flat.leaves))
        with torch.no_grad():
            # Every process divided by the pairs of the whole batch, so the sum of gradients is their mean.
            self._world.add_up(self.flat.grad)
            self.optimiser.step(self._step, self._rate(self._step))
            self._losses.index_copy_(0, self._at, loss.detach().view(1))
            self._correct.index_copy_(0, self._at, correct.view(1))
            self._at += 1
            self._step += 1

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Take back all steps of the block at its end."""
        tensors = [self.flat.weights, self.flat.master, self.optimiser.mean, self.optimiser.square]
        tensors += [self._at, self._step, self._losses, self._correct]
        # Copied back in place: graphs that are recorded already hold the addresses of these tensors.
        copies = [tensor.clone() for tensor in tensors]
        try:
            yield
        finally:
            for tensor, before in zip(tensors, copies, strict=True):
                tensor.copy_(before)

    def _capture(self, length: int) -> None:
        """Record the step for one padded length; compiling and warming up leave no trace in the run."""
        with self.undisturbed():
            # Capturing needs a stream on which everything has been set up by running it.
            stream = torch.cuda.Stream(self.device)
            stream.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(stream):
                for _ in range(_WARMUPS):
                    self.take_step(length)
            torch.cuda.current_stream(self.device).wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            # The exchange between processes has a thread of its own that may not disturb the capture.
            mode = "thread_local" if self._world.size > 1 else "global"
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode=mode):
                self.take_step(length)
        self._graphs[length] = graph


def judge(logits: Any, labels: Any, real: Any, count: Any) -> tuple[Any, Any]:
    """Mean cross-entropy in fp32 over the ``count`` pairs of a batch, and how many of the real rows are right.

    Labels are numbers, or the three probabilities of each pair, such as those of a teacher.
    """
    # A softmax in bfloat16 has two or three digits, too few for a loss near zero.
    logits = logits.float()
    losses = F.cross_entropy(logits, labels, reduction="none") * real
    likeliest = labels.argmax(1) if labels.ndim == 2 else labels
    return losses.sum() / count.squeeze(0), ((logits.argmax(1) == likeliest) & real).sum().float()
