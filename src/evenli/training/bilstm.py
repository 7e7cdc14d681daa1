"""Training a BiLSTM-max encoder on NLI pairs, as InferSent V1 was (Conneau et al. 2017; Dolci et al. 2023).

    logits = W3 (W2 (W1 [u, v, |u - v|, u * v] + b1) + b2) + b3          no non-linearity in between

Plain SGD on the mean loss of a batch, its gradient scaled down to a norm of 5 at most. The learning rate is multiplied
by 0.99 before every epoch but the first, and divided by 5 after an epoch whose dev accuracy is not above the best one.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from evenli.audit.models.loading import pick_device
from evenli.core.errors import InputError
from evenli.core.format import number
from evenli.core.io import to_plain
from evenli.core.labels import LABELS
from evenli.core.record import Number, Record
from evenli.encoders.bilstm import BiLSTMMax
from evenli.encoders.vectors import WordVectors, load_vectors
from evenli.training.bilstm_epoch import part
from evenli.training.data import Examples, find_repeats, read_examples
from evenli.training.fast.bilstm import make_trainer
from evenli.training.progress import ProgressLine, TrainingDir, clock
from evenli.training.recipe import EncoderRecipe, learning_rate
from evenli.training.recipe import EncoderSettings as EncoderSettings

HEAD = "classifier.safetensors"
"""What is trained beside the encoder; with it the two answer NLI pairs."""


class EpochResult(Record, frozen=True):
    """One pass over the data; loss and ``train`` accuracy are those while training, ``dev`` that afterwards."""

    digits: ClassVar[int | None] = None

    epoch: int
    lr: float
    loss: Number
    train: Number
    dev: Number
    seconds: float


class EncoderOutcome(Record, frozen=True):
    """What a run gave."""

    digits: ClassVar[int | None] = None

    folder: Path  # of the encoder of the best epoch; read it with ``BiLSTMMax.load``
    best: int  # the best epoch, from 1
    dev: Number  # its dev accuracy
    history: tuple[EpochResult, ...]
    words: int  # with a vector in the training and dev pairs, the two markers included
    pairs: int  # training pairs
    stopped: bool  # the learning rate became too small before the last epoch


def train_encoder(
    vectors: WordVectors | str | Path,
    train: Examples | str | Path,
    dev: Examples | str | Path | None,
    out: str | Path,
    *,
    recipe: EncoderRecipe | None = None,
    seed: int = 1234,
    settings: EncoderSettings | None = None,
) -> EncoderOutcome:
    """Train an encoder and its classifier over frozen word vectors; the same call continues after the last whole epoch.

    Vectors may be a file (GloVe, word2vec or fastText), pairs training files. ``train`` may also be a directory that
    ``evenli mitigate`` wrote (train.jsonl, dev.jsonl), with no ``dev`` beside it.

    The dev pairs decide about the learning rate and the epoch that is kept; the seed is that of the initial weights and
    of the order of the data. On the CPU an interrupted run ends with the very weights of an uninterrupted one; cuDNN
    may round otherwise.
    """
    from safetensors.torch import save_file

    recipe, settings = recipe or EncoderRecipe(), settings or EncoderSettings()
    if seed < 0:
        raise InputError(f"the seed must be 0 or above, not {seed}")
    if isinstance(train, str | Path) and not Path(train).exists():
        raise InputError(f"no file or directory {train} to train on (--data)")
    if isinstance(train, str | Path) and Path(train).is_dir():
        if dev is not None:
            raise InputError(
                f"dev pairs (--dev) go with a training file; {train} is a directory with its own dev.jsonl"
            )
        train, dev = Path(train) / "train.jsonl", Path(train) / "dev.jsonl"
    if dev is None:
        raise InputError("which pairs choose the epoch (--dev)? Give a file, or a directory with its own dev.jsonl")
    vectors = load_vectors(vectors) if isinstance(vectors, str | Path) else vectors
    train, dev = _read("train", train), _read("dev", dev)
    device = pick_device(torch, settings.device)
    identity = {
        "vectors": vectors.identity,
        "train": _fingerprint(train),
        "dev": _fingerprint(dev),
        **recipe.to_dict(),
        "dtype": recipe.dtype_on(device),
        "seed": seed,
    }
    directory = TrainingDir(out, kind="trained encoder", identity=identity)
    with directory.locked():
        if finished := directory.finished(lambda record: _parse_outcome(record, directory.path)):
            return finished
        if remark := find_repeats(train).remark():
            ProgressLine(shown=settings.shown).note(f"warning: {remark}")
        trainer = make_trainer(vectors, train, recipe, seed=seed, device=device)
        history, best = _train_epochs(directory, trainer, dev, settings)
        chosen = max(history, key=lambda epoch: epoch.dev)
        outcome = {
            "best": chosen.epoch,
            "dev": chosen.dev,
            "words": len(trainer.vocabulary),
            "pairs": len(trainer.data.labels),
            "stopped": len(history) < recipe.epochs,
        }
        record = {"history": to_plain(history, None), "outcome": outcome}
        with directory.finishing(record) as staging:
            weights, padding = part(best, "lstm."), recipe.v1_padding
            encoder = BiLSTMMax(vectors, hidden=recipe.hidden, weights=weights, device="cpu", v1_padding=padding)
            encoder.vocabulary.known(trainer.vocabulary.words)
            encoder.save(staging)
            save_file(part(best, "head."), staging / HEAD)
        return _parse_outcome(record, directory.path)


def _train_epochs(
    directory: TrainingDir, trainer: Any, dev: Examples, settings: EncoderSettings
) -> tuple[list[EpochResult], dict[str, torch.Tensor]]:
    """All epochs that are left; the results of all, and the weights of the best one."""
    recipe, progress = trainer.recipe, ProgressLine(shown=settings.shown)
    tokens = trainer.prepare(dev)
    history: list[EpochResult] = []
    best: dict[str, torch.Tensor] = {}
    with directory.resuming() as checkpoint:
        if checkpoint:
            tensors, facts = checkpoint
            history += map(EpochResult.from_dict, facts["history"])
            best = part(tensors, "best.")
            trainer.load_state(tensors)
    if checkpoint:
        progress.note(f"continuing after epoch {len(history)} of {recipe.epochs}")
    while len(history) < recipe.epochs:
        lr = learning_rate(recipe, [epoch.dev for epoch in history])
        if lr is None:
            break
        began = time.perf_counter()
        loss, right = trainer.run_epoch(len(history), lr, progress)
        accuracy = trainer.accuracy(tokens)
        if all(accuracy > past.dev for past in history):
            best = trainer.state()
        result = EpochResult(len(history) + 1, lr, loss, right, accuracy, time.perf_counter() - began)
        history.append(result)
        if settings.checkpoints:
            kept = {f"best.{name}": tensor for name, tensor in best.items()}
            directory.save_checkpoint({**trainer.state(), **kept}, {"history": to_plain(history, None)})
        progress.note(
            f"epoch {result.epoch}/{recipe.epochs}  lr {lr:.3g}  loss {number(result.loss, 4)}  "
            f"train {number(result.train, 4)}  dev {number(result.dev, 4)}  {clock(result.seconds)}"
        )
    return history, best


def _read(name: str, pairs: Examples | str | Path) -> Examples:
    """Pairs of a file, or those that were given; unusable ones are refused."""
    pairs = read_examples([pairs]) if isinstance(pairs, str | Path) else pairs
    labels = np.asarray(pairs.labels)
    sizes = len(pairs.premises), len(pairs.hypotheses), len(labels)
    if len(set(sizes)) > 1:
        given = "{} premises, {} hypotheses and {} labels".format(*sizes)
        raise InputError(f"{name}: {given}; a pair needs one of each")
    if not len(labels):
        raise InputError(f"{name}: no pairs; give at least one")
    if labels.min() < 0 or labels.max() >= len(LABELS):
        given = str(sorted(set(labels.tolist())))
        raise InputError(f"{name}: labels must be 0, 1 or 2 for {', '.join(LABELS)}, found {given}")
    return pairs


def _fingerprint(pairs: Examples) -> str:
    digest = hashlib.sha256(np.asarray(pairs.labels, dtype=np.int64).tobytes())
    for side in (pairs.premises, pairs.hypotheses):
        for text in side:
            digest.update(text.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()[:32]


def _parse_outcome(record: Mapping[str, Any], folder: Path) -> EncoderOutcome:
    return EncoderOutcome.from_dict({**record["outcome"], "history": record["history"], "folder": str(folder)})
