"""Both directions of an LSTM as one recurrence, for training on a GPU.

Faster: the steps that ``bilstm_graphs`` records. With packed batches the kernels would depend on the sentences, and a
recording could not be replayed.
Benchmark: ``benchmarks/encoder.py --dtypes bfloat16``.
Plain path: ``torch.nn.LSTM`` in ``EncoderTrainer``; ``tests/test_bilstm.py`` compares outputs and gradients.

    i, f, g, o = W_x x_t + W_h h_{t-1} + b,   c_t = σ(f) c_{t-1} + σ(i) tanh(g),   h_t = σ(o) tanh(c_t)

The second direction reads every sentence from its end to its beginning, so padding comes last in both directions and
reaches no real output. A time step is one batched product and one pointwise kernel, and the gradient of the recurrent
weights is one product over all time steps. The kernels of a step do not depend on the data: they can be recorded once.
"""

from __future__ import annotations

from typing import Any

import torch


def run_both(inputs: Any, w_x: Any, w_h: Any, bias: Any) -> Any:
    """Outputs [time, 2, sentence, h] of inputs [2, time, sentence, d].

    Args:
        inputs: Word vectors, those of the second direction in reversed order.
        w_x: [2, 4h, d], gates in torch's order.
        w_h: [2, 4h, h].
        bias: [2, 4h].
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
            if step:
                towards = torch.baddbmm(grad[step - 1], gate_grads[step], w_h)
        gates = torch.stack(gate_grads, dim=1)
        before = hidden[:-1].transpose(0, 1).reshape(2, time * rows, -1)
        return gates.transpose(0, 1), torch.bmm(gates.flatten(1, 2).mT, before)


def _cell(from_input: Any, from_hidden: Any, cell: Any) -> tuple[Any, Any, Any]:
    """Hidden state, cell state and activated gates; torch's own kernel where it has one."""
    if from_input.is_cuda:
        result: tuple[Any, Any, Any] = torch.ops.aten._thnn_fused_lstm_cell(from_input, from_hidden, cell)
        return result
    i, f, g, o = (from_input + from_hidden).chunk(4, dim=1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    after = f * cell + i * g
    return o * after.tanh(), after, torch.cat([i, f, g, o], dim=1)


def _cell_backward(towards: Any, cell_grad: Any, before: Any, after: Any, gates: Any) -> tuple[Any, Any]:
    """Gradients of the gates before activation and of the earlier cell state."""
    if towards.is_cuda:
        fused = torch.ops.aten._thnn_fused_lstm_cell_backward_impl
        return tuple(fused(towards, cell_grad, before, after, gates, False)[:2])
    i, f, g, o = gates.chunk(4, dim=1)
    top = after.tanh()
    cell_grad = cell_grad + towards * o * (1 - top * top)
    parts = (
        cell_grad * g * i * (1 - i),
        cell_grad * before * f * (1 - f),
        cell_grad * i * (1 - g * g),
        towards * top * o * (1 - o),
    )
    return torch.cat(parts, dim=1), cell_grad * f
