"""Ask a model: batches that fit into memory, and a sample asked twice, because a model may not repeat itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from evenli.audit.models import NLIModel, OutOfMemory
from evenli.audit.models.base import Items, Prepared, plan_batches
from evenli.audit.results import Repeat
from evenli.core.errors import ModelError, foreign_code
from evenli.core.labels import LABELS

_SHARE, _MOST = 16, 64
_ROUNDING, _COARSE = 1e-3, 5e-2
_COARSE_TYPES = {"bfloat16", "float16", "int8"}
"""Types whose rounding depends on the batch: half precision, and activations that are scaled batch by batch."""


class Asker:
    """Score batches; one that does not fit is halved, and later ones start at the size that did."""

    def __init__(self, model: NLIModel, on_warning: Callable[[str], None]) -> None:
        self._model, self._warn = model, on_warning
        self._tokens: int | None = None

    def __call__(self, items: Items, length: int) -> NDArray[np.float32]:
        """Score one batch whose longest item has ``length`` tokens."""
        size = len(items) if self._tokens is None else max(1, self._tokens // length)
        if len(items) > size:
            return np.concatenate([self(items[i : i + size], length) for i in range(0, len(items), size)])
        try:
            with foreign_code(f"{self._model.info.name} failed on a batch: "):
                return self._model.logits(items)
        except OutOfMemory:
            if len(items) == 1:
                raise ModelError(
                    "out of memory on a single pair; use a smaller model or shorter inputs (--max-length)"
                ) from None
        self._tokens = len(items) // 2 * length
        self._warn(f"out of memory at {len(items)} pairs in a batch; going on with {len(items) // 2}")
        return self(items, length)

    def batches(
        self, rows: NDArray[np.int64], prepared: Prepared, scores: NDArray[np.float32]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Score the given rows that are not in ``scores`` yet: rows and numbers, as they come.

        A model with a method ``stream`` decides itself what it asks at a time: ``stream(items)`` gives positions and
        numbers of items that are done. One with a method ``plan`` decides which items go into a batch together.
        """
        stream: Any = getattr(self._model, "stream", None)
        if stream is not None:
            missing = rows[np.isnan(scores[rows]).any(axis=1)]
            for at, numbers in stream(prepared.take(missing)) if missing.size else ():
                yield missing[at], numbers
            return
        model, plan = self._model, getattr(self._model, "plan", None)
        if plan is None or not rows.size:
            batches = plan_batches(prepared.lengths[rows], bucket=model.bucket, token_budget=model.token_budget)
        else:
            batches = plan(prepared.take(rows))
        for batch in batches:
            chosen = rows[batch]
            if np.isnan(scores[chosen]).any():
                yield chosen, self(prepared.take(chosen), int(prepared.lengths[chosen].max()))


def ask_again(model: NLIModel, ask: Asker, prepared: Prepared, logits: NDArray[np.float32]) -> Repeat:
    """Ask one in 16 pairs, at most 64, once more.

    Answers that an interrupted run left are asked again like any other: a run that continues ends with the result of
    one that was never interrupted, and a model that differs from process to process is noticed.
    """
    count = min(_MOST, -(-len(logits) // _SHARE))
    rows = np.sort(np.random.default_rng(0).choice(len(logits), count, replace=False))
    again = np.empty((count, len(LABELS)), dtype=np.float64)
    for batch in plan_batches(prepared.lengths[rows], bucket=model.bucket, token_budget=model.token_budget):
        batch = batch[::-1]  # another place in the batch as well
        again[batch] = ask(prepared.take(rows[batch]), int(prepared.lengths[rows[batch]].max()))[:, : len(LABELS)]
    with np.errstate(invalid="ignore"):
        first, second = (softmax(run, axis=1) for run in (logits[rows, : len(LABELS)].astype(np.float64), again))
    changed = int((first.argmax(axis=1) != second.argmax(axis=1)).sum())
    coarse = model.info.dtype in _COARSE_TYPES
    return Repeat(count, float(np.abs(first - second).max()), changed, _COARSE if coarse else _ROUNDING)


def remark(repeat: Repeat, name: str) -> str:
    """What people should know of a model that answers differently."""
    return (
        f"{name} does not repeat itself: {repeat.pairs} pairs asked again in other batches have probabilities that "
        f"differ by up to {repeat.largest:.2g} ({repeat.changed} answers changed); numbers of two runs will differ"
    )
