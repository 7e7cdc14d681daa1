"""One epoch after the other: an encoder, its classifier and the training pairs on a device.

The tokens of some hundred batches go to the device together, already packed, and losses stay there between reports: a
step waits for nothing. Both sentences of a batch are encoded in one call.
"""

from __future__ import annotations

import math
import time
from collections import namedtuple
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F  # noqa: N812 - its name everywhere

from evenli.core.errors import ModelError
from evenli.core.labels import LABELS
from evenli.encoders.bilstm import arithmetic, check_dtype, make_lstm, pool, run_lstm
from evenli.encoders.vectors import WordVectors
from evenli.encoders.vocabulary import JoinedTokens, Vocabulary, pack
from evenli.training.data import Examples
from evenli.training.progress import ProgressLine, Report
from evenli.training.recipe import EncoderRecipe

_CHUNK = 256  # batches on the device at a time
_REPORT = 100  # steps between two looks at the loss, each of which waits for the device


def features(u: Any, v: Any) -> Any:
    """What the classifier sees of a pair: [u, v, |u - v|, u * v]."""
    return torch.cat([u, v, (u - v).abs(), u * v], dim=1)


def make_head(dimension: int, width: int, seed: int) -> Any:
    """Three linear layers without non-linearity, as in the original code's default."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return torch.nn.Sequential(
            torch.nn.Linear(4 * dimension, width), torch.nn.Linear(width, width), torch.nn.Linear(width, len(LABELS))
        )


def part(state: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """The tensors whose names begin so, without that beginning."""
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}


class PairTokens(NamedTuple):
    """Premises at even and hypotheses at odd places; ``longest`` are the time steps that every pair needs."""

    tokens: JoinedTokens
    labels: NDArray[np.int64]
    longest: NDArray[np.int64]


_Batch = namedtuple("_Batch", "sizes places ids lengths labels")
"""A batch on the device; only ``sizes`` lies on the host, where torch wants it."""


class EncoderTrainer:
    """An encoder, its classifier and the training pairs on a device; the seed fixes weights and order."""

    def __init__(self, vectors: WordVectors, train: Examples, recipe: EncoderRecipe, *, seed: int, device: str) -> None:
        self.recipe, self.seed, self.device = recipe, seed, device
        self.dtype = recipe.dtype_on(device)
        check_dtype(self.dtype, device, ("float32", "tf32", "bfloat16"))
        self.vocabulary = Vocabulary(vectors)
        self.data = self.prepare(train)
        self.steps_per_epoch = -(-len(self.data.labels) // recipe.batch_size)
        self.steps = self.steps_per_epoch * recipe.epochs
        self._lstm = make_lstm(vectors.dimension, recipe.hidden, seed).to(device)
        self._head = make_head(2 * recipe.hidden, recipe.classifier, seed + 1).to(device)
        self._parameters = [*self._lstm.parameters(), *self._head.parameters()]
        self._leaves: list[Any] = self._parameters  # what is differentiated by
        self._table, self._table_type = torch.empty(0), torch.float32

    def prepare(self, pairs: Examples) -> PairTokens:
        """Tokenise pairs; their words join the vocabulary."""
        both = (text for pair in zip(pairs.premises, pairs.hypotheses, strict=True) for text in pair)
        tokens = self.vocabulary.tokens(both)
        longest = tokens.lengths.reshape(-1, 2).max(axis=1)
        return PairTokens(tokens, np.asarray(pairs.labels, dtype=np.int64), longest)

    def run_epoch(
        self, epoch: int, lr: float, progress: ProgressLine | None = None, limit: int | None = None
    ) -> tuple[float, float]:
        """Train on all pairs once, or on the first ``limit`` batches; mean loss and accuracy."""
        plan = self.plan(epoch)[:limit]
        batches = self._batches(self.data, plan)
        total, right, pairs = 0.0, 0, 0
        began = time.perf_counter()
        for first in range(0, len(plan), _REPORT):
            losses, hits = (torch.zeros((), dtype=kind, device=self.device) for kind in (torch.float32, torch.int64))
            seen, step = 0, min(first + _REPORT, len(plan))
            for batch in islice(batches, _REPORT):
                loss, correct = self.step(batch, lr)
                losses += loss
                hits += correct
                seen += len(batch.labels)
            # Here the host waits for the device.
            some, good, now = float(losses), int(hits), time.perf_counter()
            if not math.isfinite(some):
                raise ModelError(
                    f"epoch {epoch + 1}: the loss is not a number between steps {first + 1} and {step} "
                    f"(learning rate {lr:.3g}); use a lower one or check the word vectors. Whole epochs are kept"
                )
            total, right, pairs = total + some, right + good, pairs + seen
            if progress is not None:
                done = epoch * self.steps_per_epoch + step
                progress.report(Report(done, epoch, some / seen, good / seen, lr, seen, now - began), self)
            began = now
        return total / pairs, right / pairs

    def step(self, batch: Any, lr: Any) -> tuple[Any, Any]:
        """One step of SGD; the summed loss and the number of right answers stay on the device."""
        with arithmetic(self.device, self.dtype):
            logits, labels = self._logits(batch), batch.labels
            loss = F.cross_entropy(logits, labels, reduction="sum")
            self._descend(torch.autograd.grad(loss / len(labels), self._leaves), lr)
        return loss.detach(), (logits.detach().argmax(1) == labels).sum()

    def accuracy(self, data: PairTokens) -> float:
        """Share of right answers on prepared pairs."""
        order = np.argsort(data.longest, kind="stable")
        plan = [order[at : at + 128] for at in range(0, len(order), 128)]
        hits = torch.zeros((), dtype=torch.int64, device=self.device)
        with torch.no_grad(), arithmetic(self.device, self.dtype):
            for batch in self._batches(data, plan):
                hits += (self._logits(batch).argmax(1) == batch.labels).sum()
        return int(hits) / len(order)

    def plan(self, epoch: int) -> list[NDArray[np.int64]]:
        """The pairs of every batch: shuffled, sorted by length within a window, cut, and the batches shuffled."""
        random = np.random.default_rng([self.seed, epoch])
        size, longest = self.recipe.batch_size, self.data.longest
        order = random.permutation(len(longest))
        if self.recipe.window == 1:
            return [order[at : at + size] for at in range(0, len(order), size)]
        # Sentences of like length share their time steps. Batches are shuffled, so that short ones do not come first.
        plan = []
        for at in range(0, len(order), size * self.recipe.window):
            some = order[at : at + size * self.recipe.window]
            some = some[np.argsort(longest[some], kind="stable")]
            batches = [some[start : start + size] for start in range(0, len(some), size)]
            plan += [batches[index] for index in random.permutation(len(batches))]
        return plan

    def state(self) -> dict[str, torch.Tensor]:
        """A copy of all weights on the host."""
        named = {**self._lstm.state_dict(prefix="lstm."), **self._head.state_dict(prefix="head.")}
        return {name: tensor.detach().cpu().clone() for name, tensor in named.items()}

    def load_state(self, state: dict[str, torch.Tensor]) -> None:
        """Continue from stored weights."""
        self._lstm.load_state_dict(part(state, "lstm."))
        self._head.load_state_dict(part(state, "head."))

    def _descend(self, gradients: Sequence[Any], lr: Any) -> None:
        """Move all weights against their gradient, which counts as ``clip`` long at most."""
        # Private, but what torch.nn.utils.clip_grad_norm_ calls as well: one kernel for all of them.
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients, dtype=torch.float32)))
        factor = (self.recipe.clip / norm.clamp_min(1e-30)).clamp_max(1.0) * -lr
        with torch.no_grad():
            for weights, gradient in zip(self._parameters, gradients, strict=True):
                weights.addcmul_(gradient, factor)

    def _logits(self, batch: _Batch) -> Any:
        inputs = F.embedding(batch.ids, self._table)
        outputs = run_lstm(self._lstm, inputs, batch.sizes, batch.places)
        pooled = pool(outputs, batch.lengths if self.recipe.v1_padding else None)
        return self._head(features(*pooled.chunk(2)))

    def _batches(self, data: PairTokens, plan: Sequence[NDArray[np.int64]]) -> Iterator[Any]:
        """Batches on the device, uploaded some hundred at a time."""
        self._upload()
        for at in range(0, len(plan), _CHUNK):
            yield from self._chunk(data, plan[at : at + _CHUNK])

    def _chunk(self, data: PairTokens, rows: Sequence[NDArray[np.int64]]) -> Iterator[Any]:
        packed = [pack(data.tokens, np.concatenate([2 * some, 2 * some + 1])) for some in rows]
        ids = self._split([batch.ids for batch in packed])
        places = self._split([batch.places.ravel() for batch in packed])
        lengths = self._split([batch.lengths for batch in packed])
        labels = self._split([data.labels[some] for some in rows])
        for batch, *parts, at in zip(packed, ids, lengths, labels, places, strict=True):
            yield _Batch(torch.from_numpy(batch.sizes), at.view(batch.places.shape), *parts)

    def _split(self, arrays: Sequence[NDArray[Any]]) -> Any:
        """Arrays on the device; they travel as one."""
        return torch.from_numpy(np.concatenate(arrays)).to(self.device).split([len(array) for array in arrays])

    def _upload(self) -> None:
        if len(self._table) < len(self.vocabulary):
            self._table = torch.from_numpy(self.vocabulary.matrix()).to(self.device, self._table_type)
