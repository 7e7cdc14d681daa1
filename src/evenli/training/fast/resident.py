"""Tokens that live on the device, cut into padded batches there, and logits of all of them.

Faster: every step; padding batches on the host would make the device wait.
Benchmark: ``benchmarks/train.py``, whose plain loop pads on the host.
Plain path: none; ``cut`` is six lines, compiled or not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from evenli.training.data import FlatTokens
from evenli.training.fast.compiler import compile_static

_ROWS = 256
_TOKENS = 16_384
"""Largest batch when nothing is learnt."""


class Resident:
    """Tokens on the device, cut into padded batches there.

    Args:
        data: The pairs.
        device: Where they go.
        compiled: Compile the cutting.
    """

    def __init__(self, data: FlatTokens, device: Any, *, compiled: bool = False) -> None:
        arrays = (data.ids, data.types, data.starts, data.lengths, data.labels)
        ids, types, starts, lengths, self.labels = (torch.from_numpy(array).to(device, copy=True) for array in arrays)
        self._all = ids, types, starts, lengths
        self._pad = data.pad
        self._cut = compile_static(cut) if compiled else cut

    def batch(self, rows: Any, length: int) -> tuple[Any, Any, Any]:
        """Token ids, segment ids and a mask that is true on tokens, each [rows, length]."""
        ids, types, keep = self._cut(rows, *self._all, length, self._pad)
        return ids, types, keep


def cut(rows: Any, ids: Any, types: Any, starts: Any, lengths: Any, length: int, pad: int) -> tuple[Any, Any, Any]:
    """A padded batch out of flat tokens; pairs longer than ``length`` lose their end."""
    places = torch.arange(length, device=rows.device)
    keep = places < lengths[rows][:, None]
    index = torch.where(keep, starts[rows][:, None] + places, 0)
    return torch.where(keep, ids[index].long(), pad), torch.where(keep, types[index].long(), 0), keep


def score(forward: Any, data: FlatTokens, device: Any, longest: int) -> NDArray[np.float32]:
    """Logits of all pairs, batches of like length.

    Args:
        forward: Takes ids, segments and mask.
        data: The pairs.
        device: Where to compute.
        longest: What no batch may be padded beyond.
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
            length = min(-(-int(data.lengths[rows[-1]]) // 8) * 8, longest)
            batch = resident.batch(torch.from_numpy(rows).to(device), length)
            result[rows] = forward(*batch).float().cpu().numpy()
            at += len(rows)
    return result
