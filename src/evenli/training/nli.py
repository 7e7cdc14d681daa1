"""A whole training run: data in, a checkpoint folder out, and the way back after a crash."""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from evenli._version import __version__
from evenli.errors import ModelError, RunError
from evenli.models.loading import pick_device
from evenli.models.positions import position_limit
from evenli.store import hold
from evenli.training.base import Base, load_base, save_model
from evenli.training.card import Accuracy, accuracy, model_card
from evenli.training.checkpoint import FILE, load_checkpoint, save_checkpoint
from evenli.training.data import Examples, FlatTokens, check_classes, overlap, read_examples, tokenise
from evenli.training.fast.encoder import PlainForward
from evenli.training.fast.resident import score
from evenli.training.loop import Report, Trainer
from evenli.training.progress import Progress, clock
from evenli.training.recipe import Recipe
from evenli.training.records import check_same, one_line
from evenli.training.trackers import Tracker, make_trackers
from evenli.training.world import World, join_world

METRICS = "metrics.jsonl"
_DONE = "training.json"
_EVERY = 50


@dataclass(frozen=True)
class Outcome:
    """A finished run.

    Attributes:
        folder: Where the model is.
        seed: Its seed.
        steps: Steps taken.
        seconds: Training time, all attempts together, without evaluation and saving.
        pairs_per_second: Over the whole run.
        dev: Accuracy on the dev data after the last epoch, if there were any.
        history: Accuracy after each epoch.
    """

    folder: Path
    seed: int
    steps: int
    seconds: float
    pairs_per_second: float
    dev: Accuracy | None
    history: tuple[Accuracy, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self) | {"folder": str(self.folder)}


@dataclass
class _Data:
    """What all seeds share."""

    train: Examples
    tokens: FlatTokens
    dev: Examples | None
    dev_tokens: FlatTokens | None
    shared: int


@dataclass
class _Standing:
    """What a checkpoint remembers besides tensors."""

    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)


def train(
    base: str,
    data: Sequence[str | Path],
    out: str | Path,
    *,
    dev: Sequence[str | Path] = (),
    recipe: Recipe | None = None,
    seeds: Sequence[int] = (0,),
    style: str | None = None,
    device: str | None = None,
    graph: bool = True,
    log: Sequence[str] = (),
    checkpoint_minutes: float = 10.0,
    offline: bool = False,
    shown: bool = True,
) -> list[Outcome]:
    """Fine-tune a classifier once per seed.

    A run that was killed continues from its last checkpoint when it is started again with the same arguments, and
    ends with the same weights. Checkpoints are written after every epoch and every so many minutes.

    Args:
        base: Model to start from: a hub id or a folder.
        data: Training files.
        out: Output folder; with several seeds the models go to ``seed-N`` folders in it.
        dev: Files to evaluate on after each epoch.
        recipe: Settings; default NLI-CoAL's.
        seeds: One run each.
        style: Column style of the files; None looks at their columns.
        device: ``cpu``, ``cuda`` or ``mps``; None picks the fastest there is.
        graph: Use CUDA graphs and the compiler on CUDA.
        log: Additional trackers, see TRACKERS.
        checkpoint_minutes: Time between checkpoints inside an epoch.
        offline: Never ask the hub.
        shown: Show notes and progress on stderr.
    """
    recipe = recipe or Recipe()
    world = join_world(device)
    place = world.device or pick_device(torch, device)
    progress = Progress(shown=shown and world.leads)
    say = progress.note
    examples = _read(data, dev, style, say)
    start = load_base(base, offline=offline)
    limit = min(recipe.max_length, position_limit(start.model.config) or recipe.max_length)
    tokens = tokenise(examples[0], start.tokenizer, limit)
    dev_tokens = tokenise(examples[1], start.tokenizer, limit) if examples[1] else None
    gathered = _Data(examples[0], tokens, examples[1], dev_tokens, examples[2])
    if tokens.truncated:
        say(f"{tokens.truncated:,} of {len(tokens):,} pairs are longer than {limit} tokens and were cut")
    trainer = Trainer(start.model, tokens, recipe, device=place, graph=graph, fresh=start.fresh, world=world)
    say(
        f"{len(tokens):,} pairs, {trainer.steps:,} steps of {recipe.batch_size} from {start.name} on {place}"
        f"{', ' + str(len(seeds)) + ' seeds' if len(seeds) > 1 else ''}"
    )
    if place == "cpu":
        took = trainer.seconds_per_step() * trainer.steps * len(seeds)
        say(f"no GPU: this will take about {clock(took)} on the CPU")
    elif trainer.graphed:
        began = time.monotonic()
        trainer.prepare(trainer.plan(0))
        say(f"compiled and captured in {clock(time.monotonic() - began)}")
    outcomes = []
    for seed in seeds:
        folder = Path(out) / f"seed-{seed}" if len(seeds) > 1 else Path(out)
        with _alone(folder, world):
            outcomes.append(_run_seed(seed, folder, start, gathered, trainer, log, checkpoint_minutes * 60, progress))
    return outcomes


def evaluate(
    folder: str | Path, data: Sequence[str | Path], *, style: str | None = None, device: str | None = None
) -> Accuracy:
    """Accuracy of a trained checkpoint on labelled files."""
    base = load_base(str(folder))
    if base.fresh:
        raise ModelError(f"{folder} has no classifier of its own for the three labels")
    place = pick_device(torch, device)
    limit = min(Recipe.max_length, position_limit(base.model.config) or Recipe.max_length)
    tokens = tokenise(read_examples(data, style), base.tokenizer, limit)
    return accuracy(score(PlainForward(base.model.eval().to(place)), tokens, place, limit), tokens.labels)


def _read(
    data: Sequence[str | Path], dev: Sequence[str | Path], style: str | None, say: Callable[[str], None]
) -> tuple[Examples, Examples | None, int]:
    train = read_examples(data, style)
    check_classes(train)
    if train.unlabelled or train.empty:
        say(f"left out {train.unlabelled:,} pairs without gold label and {train.empty:,} with an empty sentence")
    if not dev:
        return train, None, 0
    held = read_examples(dev, style)
    shared = overlap(train, held)
    if shared:
        say(f"warning: {shared:,} of {len(held):,} dev pairs are also training pairs; dev accuracy will be too high")
    return train, held, shared


def _run_seed(
    seed: int,
    folder: Path,
    base: Base,
    data: _Data,
    trainer: Trainer,
    log: Sequence[str],
    pause: float,
    progress: Progress,
) -> Outcome:
    trainer.reset(seed)
    recipe, world = trainer.recipe, trainer.world
    identity = {
        "evenli": __version__,
        "base": base.fingerprint,
        "data": data.train.sha256,
        "dev": data.dev.sha256 if data.dev else "",
        "processes": world.size,
        "device": trainer.device.type,
        **recipe.as_dict(),
        "dtype": recipe.dtype_on(trainer.device.type),
    }
    _check_free(folder)
    finished = _finished(folder, identity)
    if finished:
        progress.note(f"{folder} already holds this model")
        return finished
    standing = _resume(folder, trainer, identity, progress.note)

    def checkpoint() -> None:
        state = trainer.state()
        if world.leads:
            save_checkpoint(folder, state, {"step": trainer.step, "identity": identity, "standing": asdict(standing)})

    saved = time.monotonic()
    with make_trackers(log if world.leads else (), folder, recipe.as_dict()) as trackers:
        writer = _Writer(folder, trainer.step, trackers, world)
        while trainer.step < trainer.steps:
            for report in trainer.run_epoch(every=_EVERY):
                standing.seconds += report.seconds
                writer.steps(report)
                progress.report(report, trainer)
                inside = trainer.step % trainer.steps_per_epoch
                if inside and world.agree(time.monotonic() - saved >= pause):
                    checkpoint()
                    saved = time.monotonic()
            epoch = trainer.step // trainer.steps_per_epoch
            if data.dev_tokens is not None:
                result = accuracy(trainer.logits(data.dev_tokens), data.dev_tokens.labels)
                standing.history.append(result.as_dict())
                writer.epoch(epoch, trainer.step, result)
                progress.note(f"epoch {epoch}: dev accuracy {result}")
            checkpoint()
            saved = time.monotonic()
    history = tuple(Accuracy(**one) for one in standing.history)
    outcome = Outcome(
        folder=folder,
        seed=seed,
        steps=trainer.steps,
        seconds=standing.seconds,
        pairs_per_second=len(data.tokens) * recipe.epochs / standing.seconds,
        dev=history[-1] if history else None,
        history=history,
    )
    if world.leads:
        _finish(folder, base, data, trainer, outcome, identity)
    world.wait()
    return outcome


def _resume(folder: Path, trainer: Trainer, identity: dict[str, Any], say: Callable[[str], None]) -> _Standing:
    """Continue from the folder's checkpoint, if it has one of the same run."""
    found = load_checkpoint(folder)
    if found is None:
        return _Standing()
    tensors, facts = found
    with one_line(folder / FILE, "a training run"):
        check_same(folder, facts["identity"], identity)
        step, standing = facts["step"], _Standing(**facts["standing"])
    trainer.load_state(tensors, step)
    say(f"continuing after step {step:,} of {trainer.steps:,}")
    return standing


def _finished(folder: Path, identity: dict[str, Any]) -> Outcome | None:
    """The outcome of the same run, if it has been completed in this folder."""
    file = folder / _DONE
    if not file.is_file():
        return None
    with one_line(file, "a training run"):
        facts = json.loads(file.read_text(encoding="utf-8"))
        check_same(folder, facts["identity"], identity)
        told = facts["outcome"]
        history = tuple(Accuracy(**one) for one in told.pop("history"))
        told |= {"folder": folder, "dev": history[-1] if history else None, "history": history}
        return Outcome(**told)


def _check_free(folder: Path) -> None:
    """Refuse a folder with a model that was not trained here: its files would be replaced."""
    if (folder / _DONE).exists() or (folder / FILE).exists():
        return
    theirs = sorted(
        file.name
        for file in folder.iterdir()
        if file.suffix == ".safetensors" or file.name in {"config.json", "README.md"}
    )
    if theirs:
        raise RunError(f"{folder} holds files of another model ({', '.join(theirs)}); choose another -o")


@contextmanager
def _alone(folder: Path, world: World) -> Iterator[None]:
    """Hold the folder, so that a second process is refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make the folder {folder}: {error.strerror or error}") from error
    message = f"another process is training in {folder}; wait for it or choose another -o"
    with hold(folder, message) if world.leads else nullcontext():
        yield


class _Writer:
    """``metrics.jsonl`` and the trackers; lines after the checkpoint a run continues from are dropped."""

    def __init__(self, folder: Path, step: int, trackers: list[Tracker], world: World) -> None:
        self._path, self._trackers, self._on = folder / METRICS, trackers, world.leads
        if self._on and self._path.is_file():
            lines = self._path.read_text(encoding="utf-8").splitlines()
            kept = [line for line in lines if line.endswith("}") and json.loads(line)["step"] <= step]
            self._path.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")

    def steps(self, report: Report) -> None:
        """Figures of some training steps."""
        speed = report.pairs / max(report.seconds, 1e-9)
        figures = {
            "loss": report.loss,
            "accuracy": report.accuracy,
            "lr": report.lr,
            "pairs_per_second": round(speed, 1),
        }
        self._write({"step": report.step, "epoch": report.epoch + 1, **figures}, figures)

    def epoch(self, epoch: int, step: int, result: Accuracy) -> None:
        """Figures of the dev data."""
        figures = {f"dev_{name}": value for name, value in result.as_dict().items()}
        figures["dev_accuracy"] = figures.pop("dev_value")
        self._write({"step": step, "epoch": epoch, **figures}, figures)

    def _write(self, line: dict[str, Any], figures: dict[str, float]) -> None:
        if not self._on:
            return
        try:
            with self._path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")
        except OSError as error:
            raise RunError(f"cannot write {self._path}: {error.strerror or error}") from error
        for track in self._trackers:
            track(figures, line["step"])


def _finish(
    folder: Path, base: Base, data: _Data, trainer: Trainer, outcome: Outcome, identity: dict[str, Any]
) -> None:
    """Write the model beside its last checkpoint, which goes only when all else is there."""
    card = model_card(
        title=folder.resolve().name,
        base=base.name,
        revision=base.revision,
        train=data.train,
        truncated=data.tokens.truncated,
        dev=data.dev,
        shared=data.shared,
        result=outcome.dev,
        recipe=trainer.recipe,
        machine=f"{_machine(trainer)}, torch {torch.__version__}",
        seconds=outcome.seconds,
    )
    partial = folder / ".partial"
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        save_model(base, trainer.weights(), partial)
        (partial / "README.md").write_text(card, encoding="utf-8")
        facts = {"outcome": outcome.as_dict(), "identity": identity}
        (partial / _DONE).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        for file in sorted(partial.iterdir(), key=lambda file: file.name == _DONE):
            os.replace(file, folder / file.name)  # noqa: PTH105 - also over existing files on Windows
        partial.rmdir()
        (folder / FILE).unlink(missing_ok=True)
    except Exception as error:
        shutil.rmtree(partial, ignore_errors=True)
        if not isinstance(error, OSError) and type(error).__name__ != "SafetensorError":
            raise
        reason = getattr(error, "strerror", None) or error
        raise RunError(
            f"cannot write the model to {folder} ({reason}); its last checkpoint is kept. "
            "Make room and give the same command again"
        ) from error


def _machine(trainer: Trainer) -> str:
    if trainer.device.type == "cuda":
        return str(torch.cuda.get_device_name(trainer.device))
    return f"{platform.machine()} CPU"
