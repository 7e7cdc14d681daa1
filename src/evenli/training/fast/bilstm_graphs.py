"""Training an LSTM in bfloat16 with every step recorded once and replayed.

Faster: encoder training on CUDA. At 64 pairs a step the kernels of an LSTM are so short that the GPU waits for the host
to launch them. Batches are therefore padded to few lengths, and the whole step of each length, update included, is
recorded as a CUDA graph. A bfloat16 copy of the LSTM computes; its gradients move the fp32 weights.
Benchmark: ``benchmarks/encoder.py --dtypes bfloat16,tf32,float32``.
Plain path: ``EncoderTrainer``, for every other device and arithmetic; ``tests/test_bilstm.py`` compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F  # noqa: N812 - its name everywhere

from evenli.encoders.bilstm import arithmetic
from evenli.encoders.vectors import WordVectors
from evenli.training.bilstm.recipe import EncoderRecipe
from evenli.training.bilstm.trainer import CHUNK, EncoderTrainer, PairTokens, features, resolve_dtype
from evenli.training.data import Examples
from evenli.training.fast.recurrence import run_both

_RECORDED = 64
"""Longer batches are rare and not recorded."""


def make_trainer(
    vectors: WordVectors, train: Examples, recipe: EncoderRecipe, *, seed: int, device: str
) -> EncoderTrainer:
    """The trainer for the recipe's arithmetic."""
    kind = GraphedTrainer if resolve_dtype(recipe, device) == "bfloat16" else EncoderTrainer
    return kind(vectors, train, recipe, seed=seed, device=device)


@dataclass(frozen=True)
class _Padded:
    """A batch as one row of numbers on the device: word ids [2, time, sentence], lengths, labels."""

    numbers: Any
    time: int
    pairs: int

    @property
    def ids(self) -> Any:
        """Of both directions."""
        return self.numbers[: 4 * self.time * self.pairs].view(2, self.time, 2 * self.pairs)

    @property
    def lengths(self) -> Any:
        """Tokens of every sentence; premises come first."""
        return self.numbers[-3 * self.pairs : -self.pairs]

    @property
    def labels(self) -> Any:
        """Of the pairs."""
        return self.numbers[-self.pairs :].long()


class _Recorded(NamedTuple):
    graph: Any
    batch: _Padded
    loss: Any
    right: Any


class GraphedTrainer(EncoderTrainer):
    """As ``EncoderTrainer``, in bfloat16; on the CPU, where nothing can be recorded, in float32."""

    def __init__(self, vectors: WordVectors, train: Examples, recipe: EncoderRecipe, *, seed: int, device: str) -> None:
        super().__init__(vectors, train, recipe, seed=seed, device=device)
        self._on_cuda = device.startswith("cuda")
        self._type = torch.bfloat16 if self._on_cuda else torch.float32
        gates, hidden = 4 * recipe.hidden, recipe.hidden
        shapes = ((2, gates, vectors.dimension), (2, gates, hidden), (2, gates))
        self._copies = [torch.empty(shape, dtype=self._type, device=device).requires_grad_() for shape in shapes]
        self._lr = torch.zeros((), device=device)
        self._recorded: dict[int, _Recorded] = {}
        self._pool = torch.cuda.graph_pool_handle() if self._on_cuda else None
        self._refresh()

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from stored weights."""
        super().load_state(state)
        self._refresh()

    def step(self, batch: Any, lr: float) -> tuple[Any, Any]:
        """One step of SGD; what it returns is overwritten by the next one."""
        full = batch.pairs == self.recipe.batch_size
        if not (self._on_cuda and full and batch.time <= _RECORDED):
            self._lr.fill_(lr)
            return self._train(batch)
        recorded = self._recorded.get(batch.time)
        if recorded is None:
            recorded = self._recorded[batch.time] = self._record(batch)
        self._lr.fill_(lr)
        recorded.batch.numbers.copy_(batch.numbers)
        recorded.graph.replay()
        return recorded.loss, recorded.right

    def _train(self, batch: _Padded) -> tuple[Any, Any]:
        with arithmetic(self.device, self.dtype):
            return self._update(batch)

    def _update(self, batch: _Padded) -> tuple[Any, Any]:
        logits, labels = self._logits(batch), batch.labels
        loss = F.cross_entropy(logits, labels, reduction="sum")
        leaves = [*self._copies, *self._head.parameters()]
        w_x, w_h, bias, *head = torch.autograd.grad(loss / batch.pairs, leaves)
        # torch's LSTM has two biases whose sum counts: each has the gradient of the sum.
        lstm = [part for one in range(2) for part in (w_x[one], w_h[one], bias[one], bias[one])]
        self._descend([*lstm, *head], self._lr)
        self._refresh()
        return loss.detach(), (logits.detach().argmax(1) == labels).sum()

    def _norms(self, gradients: Sequence[Any]) -> list[Any]:
        # One kernel for all of them.
        return list(torch._foreach_norm(gradients, dtype=torch.float32))

    def _record(self, batch: _Padded) -> _Recorded:
        """Record the step of a length; it is run once before, at a learning rate of 0, so that all is set up."""
        # A graph reads its batch from one place; every later batch is copied there.
        buffer = _Padded(batch.numbers.clone(), batch.time, batch.pairs)
        self._lr.zero_()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._train(buffer)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            loss, right = self._train(buffer)
        return _Recorded(graph, buffer, loss, right)

    def _refresh(self) -> None:
        """Bring the copies in line with the weights."""
        w_x, w_h, bias = self._copies
        with torch.no_grad():
            for one, suffix in enumerate(("", "_reverse")):
                x, h, first, second = (
                    getattr(self._lstm, f"{name}_l0{suffix}")
                    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
                )
                w_x[one].copy_(x)
                w_h[one].copy_(h)
                bias[one].copy_(first + second)

    def _logits(self, batch: Any) -> Any:
        outputs = run_both(F.embedding(batch.ids, self._table), *self._copies)
        behind = torch.arange(batch.time, device=self.device)[:, None] >= batch.lengths
        filled = outputs.masked_fill(behind[:, None, :, None], 0.0 if self.recipe.v1_padding else -torch.inf)
        pooled = filled.max(dim=0).values.float().transpose(0, 1).flatten(1)
        return self._head(features(*pooled.chunk(2)))

    def _batches(self, data: PairTokens, plan: Sequence[NDArray[np.int64]]) -> Iterator[Any]:
        """Padded batches on the device, uploaded some hundred at a time."""
        self._upload()
        # Even lengths halve what is recorded; with V1's padding one more time step would change the maximum.
        longest = data.longest if self.recipe.v1_padding else data.longest + data.longest % 2
        for at in range(0, len(plan), CHUNK):
            rows = plan[at : at + CHUNK]
            times = [int(longest[some].max()) for some in rows]
            packed = [_numbers(data, some, time) for some, time in zip(rows, times, strict=True)]
            numbers = torch.from_numpy(np.concatenate(packed)).to(self.device).split([len(one) for one in packed])
            for some, time, one in zip(rows, times, numbers, strict=True):
                yield _Padded(one, time, len(some))

    def _upload(self) -> None:
        if len(self._table) < len(self.vocabulary):
            self._table = torch.from_numpy(self.vocabulary.matrix()).to(self.device, self._type)
            # A recorded step reads the table where it was.
            self._recorded.clear()


def _numbers(data: PairTokens, rows: NDArray[np.int64], time: int) -> NDArray[np.int32]:
    sentences = np.concatenate([2 * rows, 2 * rows + 1])
    lengths, starts = data.tokens.lengths[sentences], data.tokens.starts[sentences]
    steps = np.arange(time)[:, None]
    ids = data.tokens.ids[np.stack([np.minimum(steps, lengths - 1), np.maximum(lengths - 1 - steps, 0)]) + starts]
    return np.concatenate([ids.ravel(), lengths, data.labels[rows]]).astype(np.int32)
