"""Training a BiLSTM-max encoder on NLI pairs, as InferSent V1 was (Conneau et al. 2017; Dolci et al. 2023).

    logits = W3 (W2 (W1 [u, v, |u - v|, u * v] + b1) + b2) + b3          no non-linearity in between

Plain SGD on the mean loss of a batch, its gradient scaled down to a norm of 5 at most. The learning rate is multiplied
by 0.99 before every epoch but the first, and divided by 5 after an epoch whose dev accuracy is not above the best one.

The tokens of some hundred batches go to the device together, already packed, and losses stay there between reports: a
step waits for nothing. Both sentences of a batch are encoded in one call.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F  # noqa: N812 - its name everywhere

from evenli._locking import hold
from evenli.encoders.bilstm import (
    BiLSTMMax,
    Tokens,
    Vocabulary,
    arithmetic,
    check_dtype,
    make_lstm,
    pack,
    pool,
    run_lstm,
)
from evenli.errors import InputError, ModelError, RunError
from evenli.labels import LABELS
from evenli.models.loading import pick_device
from evenli.training.checkpoint import FILE, load_checkpoint, save_checkpoint
from evenli.training.loop import Report, Trainer
from evenli.training.progress import Progress, clock
from evenli.vectors import WordVectors

_DONE = "training.json"
_HEAD = "classifier.safetensors"
_CHUNK = 256
"""Batches on the device at a time."""
_REPORT = 100
"""Steps between two looks at the loss, each of which waits for the device."""


class Pairs(Protocol):
    """Labelled pairs, such as ``evenli.training.data.Examples``."""

    @property
    def premises(self) -> Sequence[str]:
        """First sentences."""
        ...

    @property
    def hypotheses(self) -> Sequence[str]:
        """Second sentences."""
        ...

    @property
    def labels(self) -> Any:
        """Index into LABELS."""
        ...


@dataclass(frozen=True)
class EncoderRecipe:
    """Settings of a run; the defaults are those of Dolci et al. 2023.

    Attributes:
        hidden: Width of each direction of the LSTM.
        classifier: Width of the two hidden layers of the classifier.
        epochs: Passes over the data at most.
        batch_size: Pairs per step.
        lr: Learning rate of the first epoch.
        decay: Factor on the learning rate before every epoch but the first.
        shrink: Divisor of the learning rate after an epoch that did not improve dev accuracy.
        min_lr: Training stops once a division goes below it.
        clip: Largest norm of the gradient.
        window: Batches of the shuffled order among which pairs of similar length are put together; 1 leaves the order
            uniform, and costs time steps in which few sentences are still running.
        v1_padding: Zero padding takes part in the maximum, as in the original code.
        dtype: ``float32``, on CUDA also ``tf32`` and ``bfloat16``; ``auto`` is tf32 on CUDA. Weights stay fp32.
    """

    hidden: int = 2048
    classifier: int = 512
    epochs: int = 8
    batch_size: int = 64
    lr: float = 0.1
    decay: float = 0.99
    shrink: float = 5.0
    min_lr: float = 1e-5
    clip: float = 5.0
    window: int = 32
    v1_padding: bool = False
    dtype: str = "auto"

    def __post_init__(self) -> None:
        """Refuse values that cannot train."""
        wrong = {
            **{name: getattr(self, name) >= 1 for name in ("hidden", "classifier", "epochs", "batch_size", "window")},
            "lr": 0 < self.lr < math.inf,
            "decay": 0 < self.decay <= 1,
            "shrink": self.shrink >= 1,
            "min_lr": self.min_lr >= 0,
            "clip": self.clip > 0,
            "dtype": self.dtype in {"auto", "float32", "tf32", "bfloat16"},
        }
        for name, fine in wrong.items():
            if not fine:
                raise InputError(f"an encoder recipe cannot have {name} = {getattr(self, name)}")


@dataclass(frozen=True)
class EpochResult:
    """One pass over the data.

    Attributes:
        epoch: From 1.
        lr: Learning rate.
        loss: Mean over the training pairs, while training.
        train: Accuracy on the training pairs, while training.
        dev: Accuracy on the dev pairs afterwards.
        seconds: Time, dev included.
    """

    epoch: int
    lr: float
    loss: float
    train: float
    dev: float
    seconds: float


@dataclass(frozen=True)
class EncoderOutcome:
    """What a run gave.

    Attributes:
        folder: Where the encoder of the best epoch is; read it with ``BiLSTMMax.load``.
        best: The best epoch, from 1.
        dev: Its dev accuracy.
        history: All epochs.
        words: Words with a vector in the training and dev pairs, the two markers included.
        pairs: Training pairs.
        stopped: True if the learning rate became too small before the last epoch.
    """

    folder: Path
    best: int
    dev: float
    history: tuple[EpochResult, ...]
    words: int
    pairs: int
    stopped: bool


def learning_rate(recipe: EncoderRecipe, dev: Sequence[float]) -> float | None:
    """The learning rate of the next epoch, given the dev accuracy of those before; None if training is over.

    >>> recipe = EncoderRecipe()
    >>> learning_rate(recipe, []), round(learning_rate(recipe, [0.7]), 6), round(learning_rate(recipe, [0.7, 0.6]), 6)
    (0.1, 0.099, 0.019602)
    """
    lr, best = recipe.lr, -math.inf
    for accuracy in dev:
        if accuracy > best:
            best = accuracy
        else:
            lr /= recipe.shrink
            if lr < recipe.min_lr:
                return None
        lr *= recipe.decay
    return lr


def train_encoder(
    vectors: WordVectors,
    train: Pairs,
    dev: Pairs,
    out: str | Path,
    *,
    recipe: EncoderRecipe | None = None,
    seed: int = 1234,
    device: str | None = None,
    shown: bool = True,
) -> EncoderOutcome:
    """Train an encoder and its classifier; the same call continues after the last whole epoch.

    On the CPU an interrupted run ends with the very weights of an uninterrupted one; cuDNN may round otherwise.

    Args:
        vectors: Word vectors, not trained.
        train: Training pairs.
        dev: Pairs that decide about the learning rate and the epoch that is kept.
        out: Folder of the encoder.
        recipe: Settings; None takes those of the paper.
        seed: Start of the weights and order of the data.
        device: ``cpu``, ``cuda`` or ``mps``; None picks the fastest there is.
        shown: Show progress on stderr.

    Raises:
        ModelError: The loss is not a number any more.
        RunError: The folder holds another run, or cannot be written.
    """
    recipe = recipe or EncoderRecipe()
    if seed < 0:
        raise InputError(f"the seed must be 0 or above, not {seed}")
    for name, pairs in (("train", train), ("dev", dev)):
        _check(name, pairs)
    folder, place = Path(out), pick_device(torch, device)
    identity = {
        "vectors": vectors.identity,
        "train": _fingerprint(train),
        "dev": _fingerprint(dev),
        "recipe": asdict(recipe),
        "seed": seed,
    }
    with _alone(folder):
        done = _finished(folder, identity)
        if done is not None:
            return done
        progress = Progress(shown=shown)
        trainer = EncoderTrainer(vectors, train, recipe, seed=seed, device=place)
        tokens = trainer.prepare(dev)
        history, best = _resume(folder, trainer, identity, progress)
        while len(history) < recipe.epochs:
            lr = learning_rate(recipe, [one.dev for one in history])
            if lr is None:
                break
            began = time.perf_counter()
            loss, right = trainer.run_epoch(len(history), lr, progress)
            accuracy = trainer.accuracy(tokens)
            result = EpochResult(len(history) + 1, lr, loss, right, accuracy, time.perf_counter() - began)
            if all(accuracy > one.dev for one in history):
                best = trainer.state()
            history.append(result)
            save_checkpoint(folder, _stored(trainer.state(), best), _facts(identity, history))
            progress.note(
                f"epoch {result.epoch}/{recipe.epochs}  lr {lr:.3g}  loss {loss:.4f}  train {right:.4f}  "
                f"dev {accuracy:.4f}  {clock(result.seconds)}"
            )
        return _finish(folder, trainer, history, best, identity)


def nli_accuracy(folder: str | Path, pairs: Pairs, *, device: str | None = None) -> float:
    """Accuracy of a trained encoder and its classifier, from 0 to 1.

    Words that were neither in the training nor in the dev pairs are dropped.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    _check("test", pairs)
    encoder = BiLSTMMax.load(folder, device=device)
    try:
        weights = load_file(Path(folder) / _HEAD)
        head = make_head(encoder.dimension, len(weights["1.bias"]), 0)
        head.load_state_dict(weights)
    except (OSError, SafetensorError, KeyError, RuntimeError) as error:
        raise ModelError(f"{folder} has no usable {_HEAD}: was the encoder trained with train_encoder?") from error
    u, v = (torch.from_numpy(encoder.encode(side)) for side in (pairs.premises, pairs.hypotheses))
    with torch.inference_mode():
        guesses = torch.cat([head(features(*some)).argmax(1) for some in zip(u.split(256), v.split(256), strict=True)])
    return float((guesses.numpy() == np.asarray(pairs.labels)).mean())


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


@dataclass(frozen=True)
class _PairTokens:
    """Premises at even and hypotheses at odd places."""

    tokens: Tokens
    labels: NDArray[np.int64]

    @property
    def longest(self) -> NDArray[np.int64]:
        """Time steps every pair needs."""
        return np.asarray(self.tokens.lengths.reshape(-1, 2).max(axis=1))


@dataclass(frozen=True)
class _Batch:
    """A batch on the device; only ``sizes`` lies on the host, where torch wants it."""

    ids: Any
    sizes: Any
    places: Any
    lengths: Any
    labels: Any


class EncoderTrainer:
    """An encoder, its classifier and the training pairs on a device.

    Args:
        vectors: Word vectors.
        train: Training pairs.
        recipe: Settings.
        seed: Start of the weights and order of the data.
        device: ``cpu``, ``cuda`` or ``mps``.
    """

    def __init__(self, vectors: WordVectors, train: Pairs, recipe: EncoderRecipe, *, seed: int, device: str) -> None:
        self.recipe, self.seed, self.device = recipe, seed, device
        auto = "tf32" if device.startswith("cuda") else "float32"
        self.dtype = auto if recipe.dtype == "auto" else recipe.dtype
        self._type = check_dtype(self.dtype, device)
        self.vocabulary = Vocabulary(vectors)
        self.data = self.prepare(train)
        self.steps_per_epoch = -(-len(self.data.labels) // recipe.batch_size)
        self.steps = self.steps_per_epoch * recipe.epochs
        self._lstm = make_lstm(vectors.dimension, recipe.hidden, seed).to(device)
        self._head = make_head(2 * recipe.hidden, recipe.classifier, seed + 1).to(device)
        # Where arithmetic is reduced, a copy of the LSTM computes and the fp32 weights take its gradients.
        self._worker = None
        if self._type != torch.float32:
            self._worker = make_lstm(vectors.dimension, recipe.hidden, seed).to(device, self._type)
        self._parameters = [*self._lstm.parameters(), *self._head.parameters()]
        self._table = torch.empty(0)

    def prepare(self, pairs: Pairs) -> _PairTokens:
        """Tokenise pairs; their words join the vocabulary."""
        both = (text for pair in zip(pairs.premises, pairs.hypotheses, strict=True) for text in pair)
        return _PairTokens(self.vocabulary.tokens(both), np.asarray(pairs.labels, dtype=np.int64))

    def run_epoch(
        self, epoch: int, lr: float, progress: Progress | None = None, limit: int | None = None
    ) -> tuple[float, float]:
        """Train on all pairs once, or on the first ``limit`` batches; mean loss and accuracy."""
        plan = self.plan(epoch)[:limit]
        total, right, pairs = 0.0, 0, 0
        losses, hits, seen = self._zeros()
        began = time.perf_counter()
        for step, batch in enumerate(self._batches(self.data, plan), start=1):
            loss, correct = self.step(batch, lr)
            losses += loss
            hits += correct
            seen += len(batch.labels)
            if step % _REPORT and step < len(plan):
                continue
            some, good = float(losses), int(hits)
            if not math.isfinite(some):
                first = (step - 1) // _REPORT * _REPORT + 1
                raise ModelError(
                    f"epoch {epoch + 1}: the loss is not a number between steps {first} and {step} "
                    f"(learning rate {lr:.3g}); use a lower one or check the word vectors. Whole epochs are kept"
                )
            total, right, pairs = total + some, right + good, pairs + seen
            if progress is not None:
                now = time.perf_counter()
                done = epoch * self.steps_per_epoch + step
                report = Report(done, epoch, some / seen, good / seen, lr, seen, now - began)
                # The line needs a trainer's number of steps and its recipe, and nothing else.
                progress.report(report, cast(Trainer, self))
                began = now
            losses, hits, seen = self._zeros()
        return total / pairs, right / pairs

    def step(self, batch: _Batch, lr: float) -> tuple[Any, Any]:
        """One step of SGD; the summed loss and the number of right answers stay on the device."""
        size = len(batch.labels)
        with arithmetic(self.device, self.dtype):
            self._refresh()
            logits = self._logits(batch)
            loss = F.cross_entropy(logits, batch.labels, reduction="sum")
            (loss / size).backward()
        if self._worker is not None:
            for master, copy in zip(self._lstm.parameters(), self._worker.parameters(), strict=True):
                master.grad, copy.grad = copy.grad.float(), None
        gradients = [parameter.grad for parameter in self._parameters]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        torch._foreach_mul_(gradients, (self.recipe.clip / norm.clamp_min(1e-30)).clamp_max(1.0))
        with torch.no_grad():
            torch._foreach_add_(self._parameters, gradients, alpha=-lr)
        for parameter in self._parameters:
            parameter.grad = None
        return loss.detach(), (logits.detach().argmax(1) == batch.labels).sum()

    def accuracy(self, data: _PairTokens) -> float:
        """Share of right answers on prepared pairs."""
        order = np.argsort(data.longest, kind="stable")
        plan = [order[at : at + 128] for at in range(0, len(order), 128)]
        hits = torch.zeros((), dtype=torch.int64, device=self.device)
        self._refresh()
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
        made = []
        for at in range(0, len(order), size * self.recipe.window):
            some = order[at : at + size * self.recipe.window]
            some = some[np.argsort(longest[some], kind="stable")]
            batches = [some[start : start + size] for start in range(0, len(some), size)]
            made += [batches[index] for index in random.permutation(len(batches))]
        return made

    def state(self) -> dict[str, Any]:
        """A copy of all weights on the host."""
        named = {**self._lstm.state_dict(prefix="lstm."), **self._head.state_dict(prefix="head.")}
        return {name: tensor.detach().cpu().clone() for name, tensor in named.items()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from stored weights."""
        self._lstm.load_state_dict(_part(state, "lstm."))
        self._head.load_state_dict(_part(state, "head."))

    def _refresh(self) -> None:
        if self._worker is not None:
            with torch.no_grad():
                torch._foreach_copy_(list(self._worker.parameters()), list(self._lstm.parameters()))

    def _logits(self, batch: _Batch) -> Any:
        lstm = self._lstm if self._worker is None else self._worker
        inputs = F.embedding(batch.ids, self._table)
        outputs = run_lstm(lstm, inputs, batch.sizes, batch.places)
        pooled = pool(outputs, batch.lengths if self.recipe.v1_padding else None).float()
        return self._head(features(*pooled.chunk(2)))

    def _batches(self, data: _PairTokens, plan: Sequence[NDArray[np.int64]]) -> Iterator[_Batch]:
        """Packed batches on the device, uploaded some hundred at a time."""
        if len(self._table) < len(self.vocabulary):
            self._table = torch.from_numpy(self.vocabulary.matrix()).to(self.device, self._type)
        for at in range(0, len(plan), _CHUNK):
            rows = plan[at : at + _CHUNK]
            packed = [pack(data.tokens, np.concatenate([2 * some, 2 * some + 1])) for some in rows]
            parts = (
                [one.ids for one in packed],
                [one.places.ravel() for one in packed],
                [one.lengths for one in packed],
                [data.labels[some] for some in rows],
            )
            cut = [
                torch.from_numpy(np.concatenate(part)).to(self.device).split([len(one) for one in part])
                for part in parts
            ]
            for one, ids, places, lengths, labels in zip(packed, *cut, strict=True):
                yield _Batch(ids, torch.from_numpy(one.sizes), places.view(one.places.shape), lengths, labels)

    def _zeros(self) -> tuple[Any, Any, int]:
        zero = torch.zeros((), device=self.device)
        return zero, torch.zeros((), dtype=torch.int64, device=self.device), 0


def _check(name: str, pairs: Pairs) -> None:
    labels = np.asarray(pairs.labels)
    if not len(pairs.premises) == len(pairs.hypotheses) == len(labels):
        raise InputError(
            f"{name}: {len(pairs.premises)} premises, {len(pairs.hypotheses)} hypotheses and {len(labels)} labels; "
            "a pair needs one of each"
        )
    if not len(labels):
        raise InputError(f"{name}: no pairs; give at least one")
    if labels.min() < 0 or labels.max() >= len(LABELS):
        raise InputError(
            f"{name}: labels must be 0, 1 or 2 for {', '.join(LABELS)}, found {sorted(set(labels.tolist()))}"
        )


def _fingerprint(pairs: Pairs) -> str:
    digest = hashlib.sha256(np.asarray(pairs.labels, dtype=np.int64).tobytes())
    for side in (pairs.premises, pairs.hypotheses):
        for text in side:
            digest.update(text.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()[:32]


def _part(state: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}


def _stored(state: dict[str, Any], best: dict[str, Any]) -> dict[str, Any]:
    return {**state, **{f"best.{name}": tensor for name, tensor in best.items()}}


def _facts(identity: dict[str, Any], history: Sequence[EpochResult]) -> dict[str, Any]:
    return {"identity": identity, "history": [asdict(one) for one in history]}


def _resume(
    folder: Path, trainer: EncoderTrainer, identity: dict[str, Any], progress: Progress
) -> tuple[list[EpochResult], dict[str, Any]]:
    """Epochs done and the best weights, from the folder's checkpoint if it has one."""
    found = load_checkpoint(folder)
    if found is None:
        return [], {}
    tensors, facts = found
    try:
        _check_same(folder, facts["identity"], identity)
        history = [EpochResult(**one) for one in facts["history"]]
        best = _part(tensors, "best.")
        trainer.load_state(tensors)
    except (KeyError, TypeError, RuntimeError) as error:
        raise RunError(f"{folder / FILE} is not of an encoder run; choose another folder or delete it") from error
    progress.note(f"continuing after epoch {len(history)} of {trainer.recipe.epochs}")
    return history, best


def _finished(folder: Path, identity: dict[str, Any]) -> EncoderOutcome | None:
    file = folder / _DONE
    if not file.is_file():
        return None
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
        _check_same(folder, facts["identity"], identity)
        told = facts["outcome"]
        history = tuple(EpochResult(**one) for one in facts["history"])
        return EncoderOutcome(folder=folder, history=history, **told)
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{file} is not of an encoder run; choose another folder or delete it") from error


def _finish(
    folder: Path,
    trainer: EncoderTrainer,
    history: Sequence[EpochResult],
    best: dict[str, Any],
    identity: dict[str, Any],
) -> EncoderOutcome:
    """Write encoder and classifier of the best epoch, then the outcome; the checkpoint has served."""
    from safetensors.torch import save_file

    top = max(history, key=lambda one: one.dev)
    told = {
        "best": top.epoch,
        "dev": top.dev,
        "words": len(trainer.vocabulary),
        "pairs": len(trainer.data.labels),
        "stopped": len(history) < trainer.recipe.epochs,
    }
    encoder = BiLSTMMax(
        trainer.vocabulary.vectors,
        hidden=trainer.recipe.hidden,
        weights=_part(best, "lstm."),
        device="cpu",
        v1_padding=trainer.recipe.v1_padding,
    )
    encoder.vocabulary.known(trainer.vocabulary.words)
    encoder.save(folder)
    try:
        save_file(_part(best, "head."), folder / _HEAD)
        facts = {**_facts(identity, history), "outcome": told}
        (folder / f"{_DONE}.partial").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        (folder / f"{_DONE}.partial").replace(folder / _DONE)
        (folder / FILE).unlink(missing_ok=True)
    except OSError as error:
        raise RunError(f"cannot write to {folder}: {error.strerror or error}") from error
    return EncoderOutcome(folder=folder, history=tuple(history), **cast(dict[str, Any], told))


def _check_same(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    changed = [f"{name} was {before.get(name)}, now {new}" for name, new in now.items() if before.get(name) != new]
    if changed:
        raise RunError(f"{folder} holds another run ({'; '.join(changed)}); choose another folder or delete it")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder, so that a second process is refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make the folder {folder}: {error.strerror or error}") from error
    with hold(folder, f"another process is training in {folder}; wait for it or choose another folder"):
        yield
