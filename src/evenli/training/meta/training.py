"""Second stage: models that differ in nothing but their labels share tokens, batches and captured graphs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from evenli.audit.models.loading import longest_input, pick_device
from evenli.core.format import percent
from evenli.training.base import load_base
from evenli.training.data import Examples, tokenise
from evenli.training.loop import Trainer
from evenli.training.meta.folder import SPLITS, MetaFolder
from evenli.training.meta.mixture import Levels, learnt
from evenli.training.progress import ProgressLine, accuracy, clock
from evenli.training.recipe import SweepSettings, make_recipe

_UNSET = ("name", "seed", "dtype")
"""Fields of a stored recipe that every call decides anew; the base check compares the arithmetic."""


def train_sweep(folder: MetaFolder | str | Path, base: str, settings: SweepSettings | None = None) -> int:
    """Train every model of a prepared sweep that is not there yet and store its logits; returns how many those were.

    ``base`` is the NLI classifier to start from, a hub id or a directory.
    """
    folder = folder if isinstance(folder, MetaFolder) else MetaFolder(folder)
    settings = settings or SweepSettings()
    progress = ProgressLine(shown=settings.shown)
    with folder.locked():
        stored, cells = folder.models(), folder.cells(settings.seeds)
        missing = [cell for cell in cells if cell not in stored]
        before = folder.training()
        # What the call leaves open is as in the models that are there.
        trained = before.recipe if before else {}
        kept = {name: value for name, value in trained.items() if name not in _UNSET}
        recipe = make_recipe("control", **{**kept, **settings.recipe})
        if not missing and not before:
            return 0
        start = load_base(base, online=settings.online)
        # With nothing left to train the device and its arithmetic make no difference.
        place = pick_device(torch, settings.device) if missing else "cpu"
        dtype = recipe.dtype_on(place) if missing else trained.get("dtype")
        folder.check_base(start.name, start.fingerprint, recipe.to_dict() | {"seed": None, "dtype": dtype})
        if not missing:
            return 0
        if damaged := folder.damaged_lines():
            progress.note(f"{damaged} line(s) of models.jsonl cannot be read; a model they were about is trained again")
        if start.fresh:
            progress.note(
                f"warning: {base} has no classifier for the three labels and starts with a new one; "
                "the paper starts from a model fine-tuned on NLI"
            )
        # All models share the tokens; only labels change between them.
        limit = longest_input(start.model.config, recipe.max_length)
        train, dev, evaluation = (tokenise(_examples(folder.pairs(split)), start.tokenizer, limit) for split in SPLITS)
        trainer = Trainer(start.model, train, recipe, device=place, graph=settings.graph, fresh=start.fresh)
        done = len(cells) - len(missing)
        there = f", {done} of {len(cells)} are there already" if done else ""
        progress.note(f"{len(missing)} models, {trainer.steps:,} steps each from {start.name} on {place}{there}")
        began = time.monotonic()
        # Compiling takes most of a minute and serves every model of the sweep.
        trainer.warm_up(len(missing), progress.note)
        words, balanced = folder.header["words"], folder.design.balanced
        for number, cell in enumerate(missing, 1):
            started, loss = time.monotonic(), float("nan")
            labels = folder.labels(cell.axis, cell.level)
            # Back to the base weights: compiled steps and captured graphs stay valid.
            trainer.reset(cell.seed)
            trainer.set_labels(labels[: len(train)])
            for report in trainer.run(every=200):
                loss = report.loss
                progress.report(report, trainer)
            answers = trainer.logits(dev)
            share, seconds = accuracy(answers, labels[len(train) :]).value, time.monotonic() - started
            facts: dict[str, float | Levels] = {"loss": loss, "dev_accuracy": share, "seconds": seconds}
            if isinstance(cell.level, tuple):
                facts["learnt"] = learnt(cell.level, words, answers.argmax(axis=1), balanced=balanced)
            folder.store(cell, trainer.logits(evaluation), facts)
            # The estimate contains the compilation, so it falls a little faster than the clock.
            left = (time.monotonic() - began) / number * (len(missing) - number)
            progress.note(
                f"{number}/{len(missing)} {cell.name}: held-out accuracy {percent(share, 1)}, "
                f"{seconds:.1f} s{f', {clock(left)} left' if left > 1 else ''}"
            )
    return len(missing)


def _examples(rows: Sequence[Mapping[str, str]]) -> Examples:
    """Pairs without labels of their own; every model of the sweep brings others."""
    premises, hypotheses = ([row[side] for row in rows] for side in ("premise", "hypothesis"))
    ids = [str(number) for number in range(len(rows))]
    return Examples(premises, hypotheses, np.zeros(len(rows), dtype=np.int64), ids, sources=(), sha256="")
