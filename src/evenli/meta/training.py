"""The sweep: models that differ in nothing but their labels share tokens, batches and captured graphs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from evenli.meta.folder import Cell, MetaFolder
from evenli.models.loading import pick_device
from evenli.models.positions import position_limit
from evenli.training.base import load_base
from evenli.training.card import accuracy
from evenli.training.data import Examples, FlatTokens, tokenise
from evenli.training.loop import Trainer
from evenli.training.progress import Progress, clock
from evenli.training.recipe import Recipe


def train_sweep(
    folder: MetaFolder,
    base: str,
    *,
    seeds: Sequence[int] = (0,),
    recipe: Recipe,
    device: str | None = None,
    graph: bool = True,
    offline: bool = False,
    shown: bool = True,
) -> int:
    """Train every model of a prepared sweep that is not there yet, and store its logits.

    Args:
        folder: A prepared folder.
        base: NLI classifier to start from: a hub id or a folder.
        seeds: One sweep each.
        recipe: Settings.
        device: ``cpu``, ``cuda`` or ``mps``; None picks the fastest there is.
        graph: Use CUDA graphs and the compiler on CUDA.
        offline: Never ask the hub.
        shown: Show notes and progress on stderr.

    Returns:
        How many models were trained now.
    """
    progress = Progress(shown=shown)
    with folder.locked():
        stored = folder.models()
        missing = [cell for cell in folder.cells(seeds) if cell not in stored]
        if not missing:
            _check_finished(folder, base, recipe, offline)
            return 0
        if torn := folder.unreadable():
            progress.note(f"{torn} line(s) of models.jsonl cannot be read; a model they were about is trained again")
        start = load_base(base, offline=offline)
        if start.fresh:
            progress.note(
                f"warning: {base} has no classifier for the three labels and starts with a new one; "
                "the paper starts from a model fine-tuned on NLI"
            )
        place = pick_device(torch, device)
        settings = recipe.as_dict() | {"seed": None, "dtype": recipe.dtype_on(place)}
        folder.check_base(start.name, start.fingerprint, settings)
        limit = min(recipe.max_length, position_limit(start.model.config) or recipe.max_length)
        train, dev, evaluation = (
            tokenise(_examples(rows), start.tokenizer, limit)
            for rows in (folder.train_pairs(), folder.dev_pairs(), folder.evaluation_pairs())
        )
        trainer = Trainer(start.model, train, recipe, device=place, graph=graph, fresh=start.fresh)
        done = len(folder.cells(seeds)) - len(missing)
        kept = f", {done} of {done + len(missing)} are there already" if done else ""
        progress.note(f"{len(missing)} models, {trainer.steps:,} steps each from {start.name} on {place}{kept}")
        began = time.monotonic()
        if trainer.graphed:
            trainer.prepare(trainer.plan(0))
            progress.note(f"compiled and captured in {clock(time.monotonic() - began)}")
        elif place == "cpu":
            took = trainer.seconds_per_step() * trainer.steps * len(missing)
            progress.note(f"no GPU: this will take about {clock(took)} on the CPU")
        for number, cell in enumerate(missing, 1):
            facts = _train_cell(folder, trainer, cell, dev, evaluation, progress)
            left = (time.monotonic() - began) / number * (len(missing) - number)
            progress.note(
                f"{number}/{len(missing)} seed {cell.seed} {cell.axis} {cell.level:g}: held-out accuracy "
                f"{facts['dev_accuracy']:.1%}, {facts['seconds']:.1f} s{f', {clock(left)} left' if left > 1 else ''}"
            )
    return len(missing)


def _check_finished(folder: MetaFolder, base: str, recipe: Recipe, offline: bool) -> None:
    """Refuse another base or recipe also where nothing is left to train; the arithmetic then makes no difference."""
    if before := folder.training():
        start = load_base(base, offline=offline)
        settings = recipe.as_dict() | {"seed": None, "dtype": before["recipe"].get("dtype")}
        folder.check_base(start.name, start.fingerprint, settings)


def _train_cell(
    folder: MetaFolder, trainer: Trainer, cell: Cell, dev: FlatTokens, evaluation: FlatTokens, progress: Progress
) -> Mapping[str, Any]:
    began = time.monotonic()
    labels = folder.labels(cell.axis, cell.level)
    count = len(trainer.data)
    trainer.reset(cell.seed)
    trainer.set_labels(labels[:count])
    loss = float("nan")
    for report in trainer.run(every=200):
        loss = report.loss
        progress.report(report, trainer)
    facts = {
        "loss": loss,
        "dev_accuracy": accuracy(trainer.logits(dev), labels[count:]).value,
        "seconds": time.monotonic() - began,
    }
    folder.store(cell, trainer.logits(evaluation), facts)
    return facts


def _examples(rows: Sequence[Mapping[str, Any]]) -> Examples:
    """Pairs without labels of their own; the sweep brings them."""
    nothing: NDArray[np.int64] = np.zeros(len(rows), dtype=np.int64)
    return Examples(
        premises=[row["premise"] for row in rows],
        hypotheses=[row["hypothesis"] for row in rows],
        labels=nothing,
        ids=[str(number) for number in range(len(rows))],
        sources=(),
        sha256="",
    )
