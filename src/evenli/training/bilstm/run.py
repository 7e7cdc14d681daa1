"""Training a BiLSTM-max encoder on NLI pairs, as InferSent V1 was (Conneau et al. 2017; Dolci et al. 2023).

    logits = W3 (W2 (W1 [u, v, |u - v|, u * v] + b1) + b2) + b3          no non-linearity in between

Plain SGD on the mean loss of a batch, its gradient scaled down to a norm of 5 at most. The learning rate is multiplied
by 0.99 before every epoch but the first, and divided by 5 after an epoch whose dev accuracy is not above the best one.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from evenli.encoders.bilstm import FILES, BiLSTMMax, load_trained
from evenli.encoders.vectors.base import WordVectors
from evenli.errors import InputError, ModelError, RunError
from evenli.io import write_json
from evenli.labels import LABELS
from evenli.models.loading import pick_device
from evenli.store import hold
from evenli.training.bilstm.recipe import EncoderRecipe, learning_rate
from evenli.training.bilstm.trainer import EncoderTrainer, Pairs, features, make_head, part, resolve_dtype
from evenli.training.checkpoint import FILE, load_checkpoint, save_checkpoint
from evenli.training.fast.bilstm_graphs import make_trainer
from evenli.training.progress import Progress, clock
from evenli.training.records import check_same, one_line

_DONE = "training.json"
_HEAD = "classifier.safetensors"


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
    checkpoints: bool = True,
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
        checkpoints: Store all weights after every epoch; where many short runs follow each other that takes its time.

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
        **asdict(recipe),
        "dtype": resolve_dtype(recipe, place),
        "seed": seed,
    }
    with _alone(folder):
        _check_free(folder)
        done = _finished(folder, identity)
        if done is not None:
            return done
        progress = Progress(shown=shown)
        trainer = make_trainer(vectors, train, recipe, seed=seed, device=place)
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
            if checkpoints:
                save_checkpoint(folder, _stored(trainer.state(), best), _facts(identity, history))
            progress.note(
                f"epoch {result.epoch}/{recipe.epochs}  lr {lr:.3g}  loss {loss:.4f}  train {right:.4f}  "
                f"dev {accuracy:.4f}  {clock(result.seconds)}"
            )
        return _finish(folder, trainer, history, best, identity)


def nli_accuracy(
    folder: str | Path, pairs: Pairs, *, vectors: WordVectors | None = None, device: str | None = None
) -> float:
    """Accuracy of a trained encoder and its classifier, from 0 to 1.

    Args:
        folder: What ``train_encoder`` wrote.
        pairs: Test pairs.
        vectors: The vectors it was trained on. None looks for their file; where that is gone, words that were neither
            in the training nor in the dev pairs are dropped.
        device: ``cpu``, ``cuda`` or ``mps``; None picks the fastest there is.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    _check("test", pairs)
    encoder = load_trained(str(folder), device=device, at_hand=vectors)
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
    with one_line(folder / FILE, "an encoder run"):
        check_same(folder, facts["identity"], identity)
        history = [EpochResult(**one) for one in facts["history"]]
        best = part(tensors, "best.")
        trainer.load_state(tensors)
    progress.note(f"continuing after epoch {len(history)} of {trainer.recipe.epochs}")
    return history, best


def _finished(folder: Path, identity: dict[str, Any]) -> EncoderOutcome | None:
    file = folder / _DONE
    if not file.is_file():
        return None
    with one_line(file, "an encoder run"):
        facts = json.loads(file.read_text(encoding="utf-8"))
        check_same(folder, facts["identity"], identity)
        told = facts["outcome"]
        history = tuple(EpochResult(**one) for one in facts["history"])
        return EncoderOutcome(folder=folder, history=history, **told)


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
        weights=part(best, "lstm."),
        device="cpu",
        v1_padding=trainer.recipe.v1_padding,
    )
    encoder.vocabulary.known(trainer.vocabulary.words)
    encoder.save(folder)
    try:
        save_file(part(best, "head."), folder / _HEAD)
        facts = {**_facts(identity, history), "outcome": told}
        write_json(folder / _DONE, facts)
        (folder / FILE).unlink(missing_ok=True)
    except OSError as error:
        raise RunError(f"cannot write to {folder}: {error.strerror or error}") from error
    return EncoderOutcome(folder=folder, history=tuple(history), **cast(dict[str, Any], told))


def _check_free(folder: Path) -> None:
    """Refuse a folder with anything but a run of ours in it: its files would be replaced."""
    found = {file.name for file in folder.iterdir() if not file.name.startswith(".")}
    others = sorted(found - {_DONE, _HEAD, FILE, *FILES})
    if not others and found and not found & {_DONE, FILE}:
        others = sorted(found)
    if others:
        raise RunError(f"{folder} holds other files ({', '.join(others[:3])}); name a new folder")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder, so that a second process is refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make the folder {folder}: {error.strerror or error}") from error
    with hold(folder, f"another process is training in {folder}; wait for it or choose another folder"):
        yield
