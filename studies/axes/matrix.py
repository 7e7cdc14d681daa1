"""The response matrix of docs/studies/axes.md: models of known causes with three and five groups.

    python -m studies.axes.matrix prepare matrix_groups/
    PYTHONPATH=src python -m studies.axes.matrix run matrix_groups/ --out OUT --time-limit 140         # GPU
    python -m studies.axes.matrix collect OUT/results.tar.gz matrix_groups/
    python -m studies.axes.matrix table matrix_groups/
    python -m studies.axes.matrix table matrix_groups/ --as-taught     # of models that answer exactly as taught; no GPU

``prepare`` packs the embedded English model (int8, only the tokens that occur) and the pairs of both sweeps; the roles
of the words are planted, and have nothing to do with what people think. ``run`` trains what is missing, one process a
sweep; it needs numpy, torch, transformers and safetensors, and continues when called again. ``table`` gives, for
each measure, its slope on each taught cause, and how it correlates with its own.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from studies.axes.mixture import GroupMixture, Mixture
from studies.meta.matrix import EMBEDDED, ENGLISH, last_line
from studies.packed_base import pack, read_embedded, unpack

SEEDS = (0, 1, 2)
SIZE = 10
"""Words per class."""
SWEEPS = {"three": ("gender3", 3, 100), "five": ("religion", 5, 60)}
"""Axis whose nouns and words are used, groups, and training sentences a word."""
HELD_OUT = 10
"""Sentences a word in the held-out pairs and in those that are measured."""
CAUSES = ("stereotype", "default", "error")
MIXTURES: tuple[Mixture, ...] = (
    *((level, 0.0, 0.0) for level in (0.0, 0.2, 0.4, 0.6, 1.0)),
    *((0.0, level, 0.0) for level in (0.4, 0.8)),
    *((0.0, 0.0, level) for level in (0.4, 0.8)),
    *((0.4, 0.4, 0.0), (0.4, 0.0, 0.4), (0.0, 0.4, 0.4)),
)
RECIPE: dict[str, Any] = {"batch_size": 64, "lr": 5e-5, "epochs": 3}


# ---- here: base and pairs


def prepare(out: Path, layers: int | None, width: int | None, english: Path | None = None) -> None:
    """Write everything that travels."""
    texts: list[str] = []
    for name, (axis, groups, own_width) in SWEEPS.items():
        splits = build(axis, groups, width or own_width)
        folder = out / "sweeps" / name
        folder.mkdir(parents=True, exist_ok=True)
        for split, rows in splits.items():
            # Only what is measured needs more than the sentences.
            kept = rows[0].keys() if split == "evaluation" else ("premise", "hypothesis")
            lines = (json.dumps({key: row[key] for key in kept}, ensure_ascii=False) + "\n" for row in rows)
            (folder / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
            texts += [row[side] for row in rows for side in ("premise", "hypothesis")]
        print(f"{name}: {', '.join(f'{split} {len(rows):,}' for split, rows in splits.items())} pairs")
    folder = english or next(place / "en-small" for place in EMBEDDED if (place / "en-small").is_dir())
    config, weights = read_embedded(folder)
    if layers:
        config, weights = cut(config, weights, layers)
    pack(config, weights, folder / "tokenizer.json", list(dict.fromkeys(texts)), [out / "small" / "bases" / "en"])


def cut(config: dict[str, Any], weights: dict[str, Any], layers: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The first layers of a base, for a machine without GPU."""

    def kept(name: str) -> bool:
        return ".layer." not in name or int(name.partition(".layer.")[2].partition(".")[0]) < layers

    return config | {"num_hidden_layers": layers}, {name: value for name, value in weights.items() if kept(name)}


def build(axis_name: str, count: int, width: int) -> dict[str, list[dict[str, str]]]:
    """Training, held-out and evaluation pairs: word by word, sentence by sentence, group by group."""
    from evenli.audit.suites.checks import usable_templates
    from evenli.words import load_axis
    from evenli.words.scenes import compose_templates
    from evenli.words.templates import leaking_words

    axis = load_axis(axis_name)
    nouns = dict(list(axis.language("en").group_words.items())[:count])
    revealing = axis.revealing_words("en")
    free = [one.word for one in axis.occupations("en") if not one.groups]
    words = [word for word in free if not leaking_words(word, revealing, "en")][: SIZE * (count + 1)]
    if len(words) < SIZE * (count + 1):
        raise SystemExit(f"axis {axis_name} has {len(words)} words without a stereotype")
    chain = compose_templates("en", len(words) + width - 1 + len(words) + HELD_OUT - 1, axis=axis)
    chains = {
        "train": chain,
        "dev": chain[len(words) + width - 1 :],
        "evaluation": usable_templates(axis, "en", HELD_OUT),
    }
    widths = {"train": width, "dev": HELD_OUT, "evaluation": HELD_OUT}
    classes = [*nouns, ""]
    return {
        split: [
            row(word, classes[number // SIZE], template, group, noun)
            for number, word in enumerate(words)
            for template in templates[number : number + widths[split]]
            for group, noun in nouns.items()
        ]
        for split, templates in chains.items()
    }


def row(word: str, own: str, template: str, group: str, noun: str) -> dict[str, str]:
    """One pair as suite groups reads it; ``own`` is the group that the word is made a stereotype of."""
    from evenli.words.templates import fill

    return {
        "id": f"{word}|{template}|{group}",
        "subset": "NS" if not own else "PS" if group == own else "AS",
        "premise": fill(template, word),
        "hypothesis": fill(template, noun),
        "gold": "neutral",
        "occupation": word,
        "stereotype": "stereotyped" if own else "neutral",
        "template": template,
        "group": group,
    }


# ---- on the machine with the GPU


def run(source: Path, work: Path, out: Path, limit: float, device: str | None) -> None:
    """Train what is missing, one process a sweep; end them at the time limit and pack what there is."""
    ends = time.monotonic() + limit
    for folder in (out, work):
        folder.mkdir(parents=True, exist_ok=True)
    unpack(source, "en", work / "bases" / "en")
    workers = {}
    for name in SWEEPS:
        command = [sys.executable, "-m", "studies.axes.matrix", "worker", name, str(source), "--work", str(work)]
        command += ["--device", device] if device else []
        log = (out / f"{name}.log").open("w")
        workers[name] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    while any(worker.poll() is None for worker in workers.values()) and time.monotonic() < ends:
        time.sleep(1)
    for name, worker in workers.items():
        if worker.poll() is None:
            worker.terminate()
            worker.wait()
        stored = len(list((work / name).glob("*.npz")))
        print(f"{name}: {stored} models, exit code {worker.returncode}; {last_line(out / f'{name}.log')}")
    with tarfile.open(out / "results.tar.gz", "w:gz") as archive:
        for file in sorted(work.glob("*/seed-*.npz")):
            archive.add(file, arcname=f"{file.parent.name}/{file.name}")


def work_on(name: str, source: Path, work: Path, device: str | None) -> None:
    """Train the models of one sweep, seed by seed; all share tokens and captured graphs."""
    import torch

    from evenli.audit.models.loading import pick_device
    from evenli.training.base import load_base
    from evenli.training.data import Examples, tokenise
    from evenli.training.loop import Trainer
    from evenli.training.recipe import make_recipe

    groups, out = SWEEPS[name][1], work / name
    out.mkdir(parents=True, exist_ok=True)
    base, recipe = load_base(str(work / "bases" / "en")), make_recipe("control", **RECIPE)
    tokens = []
    for split in ("train", "dev", "evaluation"):
        rows = [json.loads(line) for line in (source / "sweeps" / name / f"{split}.jsonl").read_text().splitlines()]
        premises, hypotheses = ([one[side] for one in rows] for side in ("premise", "hypothesis"))
        ids = [str(number) for number in range(len(rows))]
        examples = Examples(premises, hypotheses, np.zeros(len(rows), dtype=np.int64), ids, sources=(), sha256="")
        tokens.append(tokenise(examples, base.tokenizer, recipe.max_length))
    train, dev, evaluation = tokens
    trainer = Trainer(base.model, train, recipe, device=pick_device(torch, device), fresh=base.fresh)
    wanted = [(seed, mixture) for seed in SEEDS for mixture in MIXTURES]
    missing = [cell for cell in wanted if not (out / file_of(*cell)).is_file()]
    trainer.warm_up(len(missing), print)
    for seed, levels in missing:
        began, taught = time.monotonic(), GroupMixture(levels, groups, SIZE)
        patterns, _ = taught.patterns()
        labels = {
            len(part): np.repeat(patterns, len(part) // patterns.size, axis=0).reshape(-1) for part in (train, dev)
        }
        trainer.reset(seed)
        trainer.set_labels(labels[len(train)])
        for _ in trainer.run(every=200):
            pass
        answers = trainer.logits(dev).argmax(axis=1)
        learnt = taught.learnt(answers.reshape(len(patterns), -1, groups))
        accuracy = float((answers == labels[len(dev)]).mean())
        temporary = out / "writing.npz"
        np.savez_compressed(temporary, logits=trainer.logits(evaluation), learnt=learnt, accuracy=accuracy)
        temporary.replace(out / file_of(seed, levels))
        print(f"{file_of(seed, levels)}: {accuracy:.1%} as taught, {time.monotonic() - began:.1f} s", flush=True)


def file_of(seed: int, levels: Mixture) -> str:
    """Where a model's answers are."""
    return f"seed-{seed}_{'_'.join(f'{level:g}' for level in levels)}.npz"


# ---- here again


def collect(archive: Path, source: Path) -> None:
    """Put the answers beside the prepared pairs."""
    with tarfile.open(archive) as stored:
        for member in stored.getmembers():
            name, _, inside = member.name.partition("/")
            if member.isfile() and name in SWEEPS and inside.startswith("seed-") and "/" not in inside:
                target = source / "models" / name / inside
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(stored.extractfile(member).read())  # type: ignore[union-attr]
    for name in SWEEPS:
        print(f"{name}: {len(list((source / 'models' / name).glob('seed-*.npz')))} models")


def scores(name: str, source: Path, logits: np.ndarray) -> dict[str, float]:
    """Every measure of one model."""
    import polars as pl

    from evenli.audit.predictions import Predictions
    from evenli.audit.suites.groups import measures
    from evenli.core.labels import LABELS
    from evenli.stats.measure import get_measure
    from evenli.stats.sample import Sample

    frame = pl.read_ndjson(source / "sweeps" / name / "evaluation.jsonl")
    columns = [pl.Series(label, logits[:, at].astype(np.float32)) for at, label in enumerate(LABELS)]
    sample = Sample(Predictions(frame.with_columns(columns)))
    names = ("coal_n", "stereotype_n", "total_error_n", "coal_n_expected", "stereotype_n_expected", "distance")
    values = {one: float(get_measure(one)(sample)) for one in names}
    # Groups are in alphabetical order there, and so are those of the axes used here; the favoured one is the last.
    groups = range(SWEEPS[name][1])
    defaults = [float(measures.default_of(sample, at)) for at in groups]
    expected = [float(measures.default_of(sample, at, expected=True)) for at in groups]
    return values | {
        "default of the favoured group": defaults[-1],
        "default of the favoured group, expected": expected[-1],
        "largest default of another group": max(defaults[:-1]),
    }


OWN = {"coal_n": 0, "stereotype_n": 0, "coal_n_expected": 0, "stereotype_n_expected": 0, "total_error_n": 2}
OWN |= {"default of the favoured group": 1, "default of the favoured group, expected": 1}
"""The cause that a measure is about."""


def as_taught(name: str, levels: Mixture) -> dict[str, Any]:
    """What ``work_on`` stores, of a model that answers exactly as it was taught."""
    patterns, _ = GroupMixture(levels, SWEEPS[name][1], SIZE).patterns()
    labels = np.repeat(patterns, HELD_OUT, axis=0).reshape(-1)
    return {"logits": 20 * np.eye(3)[labels], "learnt": levels, "accuracy": 1.0}


def table(source: Path, *, perfect: bool = False) -> None:
    """Slopes on the taught causes as Markdown, and correlations with the own one.

    ``perfect`` models answer as taught; else the stored ones are scored.

    ``r, alone`` is over models that were taught nothing but the own cause, ``r, all`` over all models.
    """
    from evenli.training.meta.sweep import respond

    print("| groups | measure | stereotype | default | error | fit | r, alone | r, all |\n|" + " --- |" * 8)
    for name in SWEEPS:
        folder = source / "models" / name
        seeds = [one for one in SEEDS if all((folder / file_of(one, levels)).is_file() for levels in MIXTURES)]
        if not (seeds := [0] if perfect else seeds):
            print(f"{name}: no complete seed", file=sys.stderr)
            continue
        stored = [
            [as_taught(name, levels) if perfect else np.load(folder / file_of(seed, levels)) for levels in MIXTURES]
            for seed in seeds
        ]
        values = [[scores(name, source, one["logits"]) for one in models] for models in stored]
        learnt = np.array([[one["learnt"] for one in models] for models in stored])
        taught = np.array(MIXTURES)
        for measure in values[0][0]:
            given = np.array([[one[measure] for one in models] for models in values])
            result = respond(measure, measure, CAUSES, taught, learnt, given)
            cells = [slope(one.value, one.high) for one in result.taught.values()]
            cells += [f"{result.fit:.2f}", *correlations(measure, taught, given)]
            print(f"| {name} | {measure} | {' | '.join(cells)} |")
        accuracy = [float(one["accuracy"]) for models in stored for one in models]
        share = np.abs(learnt).sum(axis=2)[:, 1:] / taught.sum(axis=1)[1:]
        print(
            f"{name}: {len(seeds)} seeds, {len(accuracy)} models; held-out answers as taught {np.mean(accuracy):.1%}, "
            f"lowest {min(accuracy):.1%}; learnt share {share.mean():.1%}, lowest {share.min():.1%}",
            file=sys.stderr,
        )


def slope(value: float, high: float) -> str:
    """A slope with half its interval over seeds."""
    return f"{value:+.2f}" + ("" if np.isnan(high) else f" ± {high - value:.2f}")


def correlations(measure: str, taught: np.ndarray, given: np.ndarray) -> list[str]:
    """Pearson's r with the own cause: where it is taught alone, and over all models; the lowest seed counts."""
    if measure not in OWN:
        return ["", ""]
    own = OWN[measure]
    alone = np.delete(taught, own, axis=1).sum(axis=1) == 0
    lowest = []
    for chosen in (alone, np.ones(len(taught), dtype=bool)):
        lowest.append(min(float(np.corrcoef(taught[chosen, own], one[chosen])[0, 1]) for one in given))
    return [f"{one:.3f}" for one in lowest]


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("prepare")
    first.add_argument("out", type=Path)
    first.add_argument("--layers", type=int, help="keep so many layers of the base only")
    first.add_argument("--width", type=int, help="training sentences a word")
    first.add_argument("--english", type=Path, help=ENGLISH)
    second = commands.add_parser("run")
    second.add_argument("source", type=Path)
    second.add_argument("--out", type=Path, required=True)
    second.add_argument("--time-limit", type=float, default=140, help="seconds")
    worker = commands.add_parser("worker")
    worker.add_argument("name", choices=list(SWEEPS))
    worker.add_argument("source", type=Path)
    for one in (second, worker):
        one.add_argument("--work", type=Path, default=Path("runs/groups_matrix"))
        one.add_argument("--device")
    last = commands.add_parser("collect")
    last.add_argument("archive", type=Path)
    last.add_argument("source", type=Path)
    last = commands.add_parser("table")
    last.add_argument("source", type=Path)
    last.add_argument("--as-taught", action="store_true", help="of models that answer exactly as taught")
    given = parser.parse_args()
    if given.command == "prepare":
        shutil.rmtree(given.out / "sweeps", ignore_errors=True)
        prepare(given.out, given.layers, given.width, given.english)
    elif given.command == "run":
        run(given.source, given.work, given.out, given.time_limit, given.device)
    elif given.command == "worker":
        work_on(given.name, given.source, given.work, given.device)
    elif given.command == "collect":
        collect(given.archive, given.source)
    else:
        table(given.source, perfect=given.as_taught)


if __name__ == "__main__":
    main()
