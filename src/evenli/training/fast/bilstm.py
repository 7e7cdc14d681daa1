"""Training an LSTM in bfloat16: both directions as one recurrence, and every step recorded once and replayed.

Faster: encoder training on CUDA. At 64 pairs a step the kernels of an LSTM are so short that the GPU waits for the host
to launch them. Batches are therefore padded to few lengths, and the whole step of each length, update included, is
recorded as a CUDA graph. A bfloat16 copy of the LSTM computes; its gradients move the fp32 weights. With packed batches
the kernels would depend on the sentences, and a recording could not be replayed; hence a recurrence of our own:

    i, f, g, o = W_x x_t + W_h h_{t-1} + b,   c_t = σ(f) c_{t-1} + σ(i) tanh(g),   h_t = σ(o) tanh(c_t)

The second direction reads every sentence from its end to its beginning, so padding comes last in both directions and
reaches no real output. A time step is one batched product and one pointwise kernel, and the gradient of the recurrent
weights is one product over all time steps.
Benchmark: ``benchmarks/encoder.py --dtypes bfloat16,tf32,float32``.
Plain path: ``EncoderTrainer``, for every other device and arithmetic;
``tests/training/test_bilstm.py`` compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F  # noqa: N812 - its name everywhere

from evenli.encoders.vectors import WordVectors
from evenli.training.bilstm_epoch import EncoderTrainer, PairTokens, features
from evenli.training.data import Examples
from evenli.training.recipe import EncoderRecipe

_RECORDED = 64  # longer batches are rare and not recorded


def make_trainer(
    vectors: WordVectors, train: Examples, recipe: EncoderRecipe, *, seed: int, device: str
) -> EncoderTrainer:
    """The trainer for the recipe's arithmetic."""
    kind = GraphedTrainer if recipe.dtype_on(device) == "bfloat16" else EncoderTrainer
    return kind(vectors, train, recipe, seed=seed, device=device)


@dataclass(frozen=True)
class _Padded:
    """A batch as one row of numbers on the device: word ids [2, time, sentence], lengths, labels.

    Premises come before hypotheses.
    """

    numbers: Any
    time: int
    pairs: int

    @property
    def labels(self) -> Any:
        return self.numbers[-self.pairs :].long()


class GraphedTrainer(EncoderTrainer):
    """As ``EncoderTrainer``, in bfloat16; on the CPU, where nothing can be recorded, in float32."""

    def __init__(self, vectors: WordVectors, train: Examples, recipe: EncoderRecipe, *, seed: int, device: str) -> None:
        super().__init__(vectors, train, recipe, seed=seed, device=device)
        self._on_cuda = device.startswith("cuda")
        self._table_type = torch.bfloat16 if self._on_cuda else torch.float32
        gates, hidden = 4 * recipe.hidden, recipe.hidden
        shapes = ((2, gates, vectors.dimension), (2, gates, hidden), (2, gates))
        self._copies = [torch.empty(shape, dtype=self._table_type, device=device).requires_grad_() for shape in shapes]
        self._leaves = [*self._copies, *self._head.parameters()]
        # A tensor, because a number would be recorded with the step and never change.
        self._lr = torch.zeros((), device=device)
        self._recorded: dict[int, tuple[Any, _Padded, Any, Any]] = {}
        self._pool = torch.cuda.graph_pool_handle() if self._on_cuda else None
        self._refresh()

    def load_state(self, state: dict[str, torch.Tensor]) -> None:
        """Continue from stored weights."""
        super().load_state(state)
        self._refresh()

    def step(self, batch: Any, lr: Any) -> tuple[Any, Any]:
        """One step of SGD; what it returns is overwritten by the next one."""
        full = batch.pairs == self.recipe.batch_size
        if not (self._on_cuda and full and batch.time <= _RECORDED):
            return super().step(batch, self._lr.fill_(lr))
        # One recording per length; a shorter last batch has other shapes and is rare, so it is run as it is.
        if batch.time not in self._recorded:
            self._recorded[batch.time] = self._record(batch)
        graph, buffer, loss, right = self._recorded[batch.time]
        self._lr.fill_(lr)
        buffer.numbers.copy_(batch.numbers)
        graph.replay()
        return loss, right

    def _descend(self, gradients: Sequence[Any], lr: Any) -> None:
        w_x, w_h, bias, *head = gradients
        # torch's LSTM has two biases whose sum counts: each has the gradient of the sum.
        lstm = [part for way in range(2) for part in (w_x[way], w_h[way], bias[way], bias[way])]
        super()._descend([*lstm, *head], lr)
        self._refresh()

    def _record(self, batch: _Padded) -> tuple[Any, _Padded, Any, Any]:
        """Record the step of a length; it is run once before, at a learning rate of 0, so that all is set up."""
        # A graph reads its batch from one place; every later batch is copied there.
        buffer = _Padded(batch.numbers.clone(), batch.time, batch.pairs)
        self._lr.zero_()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            super().step(buffer, self._lr)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            loss, right = super().step(buffer, self._lr)
        return graph, buffer, loss, right

    def _refresh(self) -> None:
        """Bring the copies in line with the weights."""
        w_x, w_h, bias = self._copies
        with torch.no_grad():
            for way, suffix in enumerate(("", "_reverse")):
                x, h, first, second = (
                    getattr(self._lstm, f"{name}_l0{suffix}")
                    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
                )
                w_x[way].copy_(x)
                w_h[way].copy_(h)
                bias[way].copy_(first + second)

    def _logits(self, batch: Any) -> Any:
        time, sentences = batch.time, 2 * batch.pairs
        ids = batch.numbers[: 2 * time * sentences].view(2, time, sentences)
        lengths = batch.numbers[-sentences - batch.pairs : -batch.pairs]
        outputs = run_both(F.embedding(ids, self._table), *self._copies)
        # Padding is read like words, so that every batch of a length has the same kernels; here it drops out of the
        # maximum, or takes part as 0, which is what InferSent V1 did.
        behind = torch.arange(time, device=self.device)[:, None] >= lengths
        filled = outputs.masked_fill(behind[:, None, :, None], 0.0 if self.recipe.v1_padding else -torch.inf)
        pooled = filled.max(dim=0).values.float().transpose(0, 1).flatten(1)
        return self._head(features(*pooled.chunk(2)))

    def _chunk(self, data: PairTokens, rows: Sequence[NDArray[np.int64]]) -> Iterator[Any]:
        # Even lengths halve what is recorded; with V1's padding one more time step would change the maximum.
        longest = data.longest if self.recipe.v1_padding else data.longest + data.longest % 2
        times = [int(longest[some].max()) for some in rows]
        numbers = self._split([_numbers(data, some, time) for some, time in zip(rows, times, strict=True)])
        for some, time, padded in zip(rows, times, numbers, strict=True):
            yield _Padded(padded, time, len(some))

    def _upload(self) -> None:
        if len(self._table) < len(self.vocabulary):
            self._recorded.clear()  # a recorded step reads the table where it was
        super()._upload()


def _numbers(data: PairTokens, rows: NDArray[np.int64], time: int) -> NDArray[np.int32]:
    sentences = np.concatenate([2 * rows, 2 * rows + 1])
    lengths, starts = data.tokens.lengths[sentences], data.tokens.starts[sentences]
    steps = np.arange(time)[:, None]
    # Forwards, and backwards from the last word. Behind its end a sentence repeats a word, whose output is masked.
    ids = data.tokens.ids[np.stack([np.minimum(steps, lengths - 1), np.maximum(lengths - 1 - steps, 0)]) + starts]
    return np.concatenate([ids.ravel(), lengths, data.labels[rows]]).astype(np.int32)


def run_both(inputs: Any, w_x: Any, w_h: Any, bias: Any) -> Any:
    """Outputs [time, 2, sentence, h] of inputs [2, time, sentence, d], those of the second direction in reversed order.

    The weights are ``w_x`` [2, 4h, d], ``w_h`` [2, 4h, h] and ``bias`` [2, 4h], gates in torch's order.
    """
    directions, time, rows, _ = inputs.shape
    gates = torch.baddbmm(bias[:, None], inputs.flatten(1, 2), w_x.mT)
    return _Recurrence.apply(gates.view(directions, time, rows, -1).transpose(0, 1).contiguous(), w_h)


class _Recurrence(torch.autograd.Function):  # type: ignore[misc]  # torch has no types here
    """Outputs from what the inputs give to the gates, [time, 2, sentence, 4h], and the recurrent weights."""

    @staticmethod
    def forward(ctx: Any, gates: Any, w_h: Any) -> Any:
        time, _, rows, width = gates.shape
        cell = gates.new_zeros(2 * rows, width // 4)
        hidden = torch.zeros_like(cell)
        hiddens, cells, activated = [hidden], [cell], []
        for step in range(time):
            recurrent = torch.bmm(hidden.view(2, rows, -1), w_h.mT)
            hidden, cell, gate = _cell(gates[step].view(2 * rows, -1), recurrent.view(2 * rows, -1), cell)
            hiddens.append(hidden)
            cells.append(cell)
            activated.append(gate)
        # States and gates of every time step are kept: computing them again would cost as much as the forward pass.
        stacked = torch.stack(hiddens).view(time + 1, 2, rows, -1)
        ctx.save_for_backward(w_h, stacked, *cells, *activated)
        return stacked[1:]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad,) = grads
        w_h, hidden, *rest = ctx.saved_tensors
        time, _, rows, _ = grad.shape
        cells, activated = rest[: time + 1], rest[time + 1 :]
        gate_grads: list[Any] = [None] * time
        towards, cell_grad = grad[-1], torch.zeros_like(cells[0])
        for step in reversed(range(time)):
            towards = towards.reshape(2 * rows, -1)
            gate_grad, cell_grad = _cell_backward(towards, cell_grad, cells[step], cells[step + 1], activated[step])
            gate_grads[step] = gate_grad.view(2, rows, -1)
            # What reaches a hidden state: from its own output, and through the gates of the step after it.
            if step:
                towards = torch.baddbmm(grad[step - 1], gate_grads[step], w_h)
        gates = torch.stack(gate_grads, dim=1)
        # One product over all time steps, where adding up step by step would read and write the weights each time.
        before = hidden[:-1].transpose(0, 1).reshape(2, time * rows, -1)
        return gates.transpose(0, 1), torch.bmm(gates.flatten(1, 2).mT, before)


def _cell(from_input: Any, from_hidden: Any, cell: Any) -> tuple[Any, Any, Any]:
    """Hidden state, cell state and activated gates; torch's own kernel where it has one."""
    if from_input.is_cuda:
        # Private: the pointwise kernel of nn.LSTMCell, which has no public name. Gates come back activated.
        result: tuple[Any, Any, Any] = torch.ops.aten._thnn_fused_lstm_cell(from_input, from_hidden, cell)
        return result
    i, f, g, o = (from_input + from_hidden).chunk(4, dim=1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    after = f * cell + i * g
    return o * after.tanh(), after, torch.cat([i, f, g, o], dim=1)


def _cell_backward(towards: Any, cell_grad: Any, before: Any, after: Any, gates: Any) -> tuple[Any, Any]:
    """Gradients of the gates before activation and of the earlier cell state."""
    if towards.is_cuda:
        # The last argument asks for no gradient of a bias: biases were added outside.
        fused = torch.ops.aten._thnn_fused_lstm_cell_backward_impl
        return tuple(fused(towards, cell_grad, before, after, gates, False)[:2])
    i, f, g, o = gates.chunk(4, dim=1)
    # Derivatives by hand: s' = s (1 - s) for the gates, 1 - tanh^2 for candidate and output.
    top = after.tanh()
    cell_grad = cell_grad + towards * o * (1 - top * top)
    parts = (
        cell_grad * g * i * (1 - i),
        cell_grad * before * f * (1 - f),
        cell_grad * i * (1 - g * g),
        towards * top * o * (1 - o),
    )
    return torch.cat(parts, dim=1), cell_grad * f
