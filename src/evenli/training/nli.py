"""A whole training run: data in, a checkpoint directory out, and the way back after a crash."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import torch

from evenli._version import __version__
from evenli.audit.models.loading import longest_input, pick_device
from evenli.core.errors import InputError, ModelError
from evenli.core.format import prose, yaml_text
from evenli.core.io import to_plain
from evenli.core.labels import LABELS
from evenli.core.record import Estimate, Record
from evenli.training.base import Base, load_base, save_model
from evenli.training.data import TrainingData, find_repeats, read_examples, tokenise
from evenli.training.fast.encoder import PlainForward
from evenli.training.fast.stepper import join_world, score
from evenli.training.loop import Trainer
from evenli.training.progress import Metrics, ProgressLine, TrainingDir, accuracy, accuracy_text, make_trackers
from evenli.training.recipe import Recipe
from evenli.training.recipe import TrainSettings as TrainSettings

_CARD = Path(__file__).with_name("card.md")


class Outcome(Record, frozen=True):
    """A finished run."""

    digits: ClassVar[int | None] = None

    folder: Path
    seed: int
    steps: int
    seconds: float  # of training, all attempts together, without evaluation and saving
    pairs_per_second: float  # over the whole run
    dev: Estimate | None  # on the dev data after the last epoch, if there were any
    history: tuple[Estimate, ...] = ()  # after each epoch


def train(
    base: str,
    data: Sequence[str | Path],
    out: str | Path,
    *,
    dev: Sequence[str | Path] = (),
    recipe: Recipe | None = None,
    seeds: Sequence[int] = (0,),
    settings: TrainSettings | None = None,
) -> list[Outcome]:
    """Fine-tune a classifier once per seed.

    A run that was killed continues from its last checkpoint when it is started again with the same arguments, and
    ends with the same weights. Checkpoints are written after every epoch and every so many minutes.

    Args:
        base: Model to start from: a hub id or a directory.
        data: Training files.
        out: Output directory; with several seeds the models go to ``seed-N`` directories in it.
        dev: Files to evaluate on after each epoch.
        recipe: What is trained; default NLI-CoAL's.
        seeds: One run each.
        settings: How it is trained.
    """
    recipe, settings = recipe or Recipe(), settings or TrainSettings()
    world = join_world(settings.device)
    device = world.device or pick_device(torch, settings.device)
    progress = ProgressLine(shown=settings.shown and world.leads)
    train_pairs = read_examples(data, settings.style)
    present = [label for label, count in train_pairs.counts.items() if count]
    if len(present) < 2:
        problem = f"{', '.join(train_pairs.sources)}: all {len(train_pairs)} pairs are labelled {present[0]}"
        raise InputError(f"{problem}; training needs at least two of {', '.join(LABELS)}")
    dev_pairs = read_examples(dev, settings.style) if dev else None
    start = load_base(base, online=settings.online)
    limit = longest_input(start.model.config, recipe.max_length)
    tokens = tokenise(train_pairs, start.tokenizer, limit)
    dev_tokens = tokenise(dev_pairs, start.tokenizer, limit) if dev_pairs else None
    shared = 0
    if dev_pairs:
        known = set(zip(train_pairs.premises, train_pairs.hypotheses, strict=True))
        shared = sum(pair in known for pair in zip(dev_pairs.premises, dev_pairs.hypotheses, strict=True))
    pairs = TrainingData(train_pairs, tokens, dev_pairs, dev_tokens, shared, find_repeats(train_pairs))
    # One trainer for all seeds: what is compiled and captured serves every run.
    trainer = Trainer(start.model, tokens, recipe, device=device, graph=settings.graph, fresh=start.fresh, world=world)
    if train_pairs.unlabelled or train_pairs.empty:
        without = f"{train_pairs.unlabelled:,} pairs without gold label"
        progress.note(f"left out {without} and {train_pairs.empty:,} with an empty sentence")
    if remark := pairs.repeats.remark():
        progress.note(f"warning: {remark}")
    if dev_pairs and shared:
        share = f"{shared:,} of {len(dev_pairs):,} dev pairs"
        progress.note(f"warning: {share} are also training pairs; dev accuracy will be too high")
    if tokens.truncated:
        progress.note(f"{tokens.truncated:,} of {len(tokens):,} pairs are longer than {limit} tokens and were cut")
    several = f", {len(seeds)} seeds" if len(seeds) > 1 else ""
    progress.note(
        f"{len(tokens):,} pairs, {trainer.steps:,} steps of {recipe.batch_size} from {start.name} on {device}{several}"
    )
    trainer.warm_up(len(seeds), progress.note)
    folders = [Path(out) / f"seed-{seed}" if len(seeds) > 1 else Path(out) for seed in seeds]
    runs = (_SeedRun(start, pairs, trainer, settings, progress) for _ in seeds)
    return [run.run(seed, folder) for run, seed, folder in zip(runs, seeds, folders, strict=True)]


def evaluate(
    folder: str | Path, data: Sequence[str | Path], *, style: str | None = None, device: str | None = None
) -> Estimate:
    """Accuracy of a trained checkpoint on labelled files."""
    base = load_base(str(folder))
    if base.fresh:
        raise ModelError(f"{folder} has no classifier of its own for the three labels")
    place, limit = pick_device(torch, device), longest_input(base.model.config, Recipe.max_length)
    tokens = tokenise(read_examples(data, style), base.tokenizer, limit)
    return accuracy(score(PlainForward(base.model.eval().to(place)), tokens, place, limit), tokens.labels)


@dataclass
class _SeedRun:
    """One seed, from its base or its last checkpoint to the finished model."""

    base: Base
    data: TrainingData
    trainer: Trainer
    settings: TrainSettings
    progress: ProgressLine
    seconds: float = 0.0
    history: list[Estimate] = field(default_factory=list)

    def run(self, seed: int, folder: Path) -> Outcome:
        trainer, world = self.trainer, self.trainer.world
        trainer.reset(seed)
        # Everything that the weights depend on.
        identity = {
            "evenli": __version__,
            "base": self.base.fingerprint,
            "data": self.data.train.sha256,
            "dev": self.data.dev.sha256 if self.data.dev else "",
            "processes": world.size,
            "device": trainer.device.type,
            **trainer.recipe.to_dict(),
            "dtype": trainer.recipe.dtype_on(trainer.device.type),
        }
        directory = TrainingDir(folder, kind="trained model", identity=identity)
        # Of several processes one writes, and holds the directory for all.
        with directory.locked() if world.leads else nullcontext():
            # The directory may have been moved since.
            finished = directory.finished(lambda old: Outcome.from_dict({**old["outcome"], "folder": str(folder)}))
            if finished:
                self.progress.note(f"{folder} already holds this model")
                return finished
            with directory.resuming() as checkpoint:
                if checkpoint:
                    tensors, facts = checkpoint
                    self.seconds, self.history = facts["seconds"], list(map(Estimate.from_dict, facts["history"]))
                    trainer.load_state(tensors, facts["step"])
            if checkpoint:
                self.progress.note(f"continuing after step {trainer.step:,} of {trainer.steps:,}")
            self._train(directory)
            speed = len(self.data.tokens) * trainer.recipe.epochs / self.seconds
            dev = self.history[-1] if self.history else None
            outcome = Outcome(folder, seed, trainer.steps, self.seconds, speed, dev, tuple(self.history))
            if world.leads:
                with directory.finishing({"outcome": outcome.to_dict()}) as staging:
                    save_model(self.base, trainer.weights(), staging)
                    card = model_card(self.base, self.data, trainer, outcome)
                    (staging / "README.md").write_text(card, encoding="utf-8")
            world.wait()
        return outcome

    def _train(self, directory: TrainingDir) -> None:
        """All epochs that are left, with reports and checkpoints."""
        trainer, world, pause = self.trainer, self.trainer.world, 60 * self.settings.checkpoint_minutes
        saved, log = time.monotonic(), self.settings.log if world.leads else ()
        with make_trackers(log, directory.path, trainer.recipe.to_dict()) as trackers:
            metrics = Metrics(directory.path, trainer.step, trackers) if world.leads else None
            while trainer.step < trainer.steps:
                for report in trainer.run_epoch():
                    self.seconds += report.seconds
                    self.progress.report(report, trainer)
                    if metrics:
                        figures = {"loss": report.loss, "accuracy": report.accuracy, "lr": report.lr}
                        speed = round(report.speed, 1)
                        metrics.add(report.step, report.epoch + 1, **figures, pairs_per_second=speed)
                    inside = trainer.step % trainer.steps_per_epoch
                    if inside and world.agree(time.monotonic() - saved >= pause):
                        saved = self._checkpoint(directory)
                if (tokens := self.data.dev_tokens) is not None:
                    dev = accuracy(trainer.logits(tokens), tokens.labels)
                    epoch = trainer.step // trainer.steps_per_epoch
                    self.history.append(dev)
                    if metrics:
                        interval = {"dev_low": dev.low, "dev_high": dev.high}
                        metrics.add(trainer.step, epoch, **interval, dev_n=dev.n, dev_accuracy=dev.value)
                    self.progress.note(f"epoch {epoch}: dev accuracy {accuracy_text(dev)}")
                saved = self._checkpoint(directory)

    def _checkpoint(self, directory: TrainingDir) -> float:
        state = self.trainer.state()  # gathers from all processes
        if self.trainer.world.leads:
            history = to_plain(self.history, None)
            directory.save_checkpoint(state, {"step": self.trainer.step, "seconds": self.seconds, "history": history})
        return time.monotonic()


def model_card(base: Base, data: TrainingData, trainer: Trainer, outcome: Outcome) -> str:
    """A model card in Markdown; nothing in a name can be taken for markup."""
    device, dev = trainer.device, outcome.dev
    machine = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{platform.machine()} CPU"
    if data.dev is None or dev is None:
        measured = "No dev data were given, so nothing is known about its accuracy."
    else:
        measured = f"Accuracy on {prose(', '.join(data.dev.sources))} after the last epoch: **{accuracy_text(dev)}**."
        if data.shared:
            measured += f" {data.shared:,} of these pairs are also training pairs: the figure is too high."
    return _CARD.read_text(encoding="utf-8").format(
        base_yaml=yaml_text(base.name),
        title=prose(outcome.folder.resolve().name),
        version=__version__,
        origin=prose(base.name) + (f" at revision {prose(base.revision)}" if base.revision else ""),
        accuracy=measured,
        files=prose(", ".join(data.train.sources)),
        train=data.train,
        pairs=len(data.train),
        counts=", ".join(f"{label} {count:,}" for label, count in data.train.counts.items()),
        repeats=data.repeats,
        truncated=data.tokens.truncated,
        dev_sha256=data.dev.sha256 if data.dev else "none",
        recipe="\n".join(f"| {name} | {value} |" for name, value in trainer.recipe.to_dict().items()),
        machine=f"{machine}, torch {torch.__version__}",
        seconds=outcome.seconds,
    )
