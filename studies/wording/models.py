"""Do models whose bias was trained in keep their order in every wording?

    python -m studies.wording.models prepare FOLDER --data SHARED_DATA
    python -m studies.wording.models train FOLDER --base CHECKPOINT          # an NLI classifier; GPU, or hours on a CPU
    python -m studies.wording.models table FOLDER

Every model is taught the stereotype of a share of the occupations (0, 1/4, 1/2, 3/4 or all; the others are neutral), in
the usual wording only and on templates that suite ``robust`` does not ask. Pairs of SNLI are mixed in: without them a
model forgets what *the man* and *the lady* have to do with each other, and is competent in no wording. Then it is asked
all sampled wordings of ``robust``. ``train`` stores logits (float16); ``table`` says in how many wordings the five
levels stand in the order that was taught, where all five models are competent.
"""

from __future__ import annotations

import argparse
import json
import lzma
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
WIDTH, KEPT_PAIRS = 40, 20_000
SIZES = {"female": 12, "male": 20}
"""Taught words of a stereotype: multiples of four, so that every level is a whole number of words."""
SNLI = "snli/snli_1.0_train_first100k.jsonl.xz"


def prepare(arguments: argparse.Namespace) -> None:
    """Write the pairs that are trained on, the labels of every level, and the pairs that are asked."""
    from evenli.audit.suites.base import Request
    from evenli.audit.suites.robust.build import choose_occupations, load
    from evenli.training.data import read_examples
    from evenli.training.meta.controlled import build_controlled
    from evenli.training.meta.mixture import ControlledWords
    from evenli.words import load_axis
    from evenli.words.axes import NO_STEREOTYPE
    from evenli.words.scenes import compose_templates

    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    chosen = choose_occupations(load_axis("gender"), "en")
    by_class = {name: tuple(o.word for o in chosen if o.stereotype == name) for name in (*SIZES, NO_STEREOTYPE)}
    words = ControlledWords({name: by_class[name][:size] for name, size in SIZES.items()}, by_class[NO_STEREOTYPE])
    # The templates of the evaluation set are left out of the draw.
    templates = compose_templates("en", len(words.words) + WIDTH - 1)
    pairs = build_controlled("en", templates, width=WIDTH, words=words)
    rest = read_examples([arguments.data / SNLI])
    kept = slice(0, KEPT_PAIRS)
    texts = zip([*pairs.premises, *rest.premises[kept]], [*pairs.hypotheses, *rest.hypotheses[kept]], strict=True)
    labels = {f"{level:g}": pairs.mixture_labels((level, 0.0, 0.0), balanced=True) for level in LEVELS}
    both = {name: np.concatenate([taught, rest.labels[kept]]).astype(np.int8) for name, taught in labels.items()}
    np.savez_compressed(folder / "labels.npz", **both)
    write(folder / "train.jsonl.xz", [{"premise": p, "hypothesis": h} for p, h in texts])
    asked = load(Request(lang="en"))
    write(folder / "asked.jsonl.xz", asked.frame.rows(named=True))
    print(f"{len(pairs):,} pairs that teach, {KEPT_PAIRS:,} of SNLI, {len(asked):,} asked")


def train(arguments: argparse.Namespace) -> None:
    """Fine-tune a model for every level and seed, and ask it; those that are there are kept."""
    import torch

    from evenli.audit.models.loading import pick_device
    from evenli.training.base import load_base
    from evenli.training.data import tokenise
    from evenli.training.loop import Trainer
    from evenli.training.recipe import make_recipe

    folder, base = arguments.folder, load_base(str(arguments.base))
    if base.fresh:
        raise SystemExit(f"{arguments.base} is no NLI classifier; train one first")
    recipe = make_recipe("control", lr=5e-5, batch_size=64, epochs=arguments.epochs, max_length=48)
    pairs, asked = (
        tokenise(examples(read(folder / name)), base.tokenizer, 48) for name in ("train.jsonl.xz", "asked.jsonl.xz")
    )
    trainer = Trainer(base.model, pairs, recipe, device=pick_device(torch, None))
    np.savez_compressed(folder / "logits_base.npz", logits=trainer.logits(asked).astype(np.float16))
    with np.load(folder / "labels.npz") as labels:
        for seed in arguments.seed:
            for level in labels.files:
                file = folder / f"logits_{level}+{seed}.npz"
                if file.is_file():
                    continue
                trainer.reset(seed)
                trainer.set_labels(labels[level].astype(np.int64))
                loss = [report.loss for report in trainer.run(every=200)][-1]
                np.savez_compressed(file, logits=trainer.logits(asked).astype(np.float16))
                print(f"level {level}, seed {seed}: loss {loss:.4f}", flush=True)


def table(arguments: argparse.Namespace) -> None:
    """In how many wordings the levels keep their order, and how far the wordings move them."""
    samples = {
        file.stem.removeprefix("logits_"): sample_of(arguments.folder, file) for file in sorted_logits(arguments)
    }
    curves = {name: curve_of(sample) for name, sample in samples.items()}
    seeds = sorted({name.split("+")[1] for name in curves if "+" in name})
    levels = [f"{level:g}" for level in LEVELS]
    summary: list[dict[str, Any]] = []
    for seed in seeds:
        models = [curves[f"{level}+{seed}"] for level in levels]
        shared = [name for name in models[0] if all(name in one for one in models)]
        ordered = [name for name in shared if np.all(np.diff([one[name] for one in models]) > 0)]
        correlations = [np.corrcoef(LEVELS, [one[name] for one in models])[0, 1] for name in shared]
        pairs = [one[name] < two[name] for name in shared for one, two in pairwise(models)]
        spread = [float(np.ptp([one[name] for name in shared])) for one in models] if shared else []
        about = {"seed": int(seed), "wordings": len(shared), "ordered": len(ordered), "neighbours": sum(pairs)}
        about |= {"of_neighbours": len(pairs), "lowest_r": float(min(correlations, default=np.nan)), "spread": spread}
        about["out_of_order"] = [name for name in shared if name not in ordered]
        about["usual"] = [one[shared[0]] for one in models] if shared else []
        summary.append(about)
        print(
            f"seed {seed}: {len(ordered)} of {len(shared)} wordings in the order taught; neighbouring levels in order "
            f"{sum(pairs)} of {len(pairs)}; lowest correlation with the level {about['lowest_r']:.3f}; "
            f"usual wording {', '.join(f'{value:.2f}' for value in about['usual'])}"
        )
        for name in about["out_of_order"]:
            print(f"    {name}: {', '.join(f'{one[name]:+.2f}' for one in models)}")
            for first, second in pairwise(levels):
                if curves[f"{first}+{seed}"][name] >= curves[f"{second}+{seed}"][name]:
                    print(f"        {first} to {second}: {step(samples, name, first, second, seed)}")
    (arguments.folder / "table.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")


def sorted_logits(arguments: argparse.Namespace) -> list[Path]:
    """Stored answers."""
    files: list[Path] = sorted(arguments.folder.glob("logits_*.npz"))
    if not files:
        raise SystemExit(f"{arguments.folder} holds no models; train first")
    return files


def sample_of(folder: Path, file: Path) -> Any:
    """The answers of one model, ready to be measured."""
    import polars as pl

    from evenli.audit.predictions import Predictions
    from evenli.core.labels import LABELS
    from evenli.stats.sample import Sample

    frame = pl.DataFrame(read(folder / "asked.jsonl.xz"), infer_schema_length=None)
    logits = np.load(file)["logits"].astype(np.float32)
    return Sample(Predictions(frame.with_columns(*(pl.Series(label, logits[:, i]) for i, label in enumerate(LABELS)))))


def curve_of(sample: Any) -> dict[str, float]:
    """The cause *stereotype* of one model, by wording that it is competent in."""
    from evenli.audit.suites.robust.curve import curve

    return {row.key: row.stereotype.value for row in curve(sample) if row.judged}


def step(samples: dict[str, Any], wording: str, first: str, second: str, seed: str) -> str:
    """The difference between two levels in one wording, with its interval: is the reversal more than chance?"""
    import polars as pl

    from evenli.audit.predictions import Predictions
    from evenli.audit.suites.robust.build import CONTROL, PERSON
    from evenli.stats.intervals import estimate_difference
    from evenli.stats.measure import get_measure
    from evenli.stats.sample import Sample

    here = pl.col("id").str.starts_with(f"{wording}; ") & ~pl.col("subset").is_in([CONTROL, PERSON])
    pair = [Sample(Predictions(samples[f"{level}+{seed}"].frame.filter(here))) for level in (first, second)]
    interval = estimate_difference(get_measure("stereotype"), *pair, 0.95)
    value = float(get_measure("stereotype")(pair[1])) - float(get_measure("stereotype")(pair[0]))
    return f"{value:+.2f} [{interval.low:+.2f}, {interval.high:+.2f}]"


def examples(rows: list[dict[str, Any]]) -> Any:
    """Pairs without labels."""
    from evenli.training.data import Examples

    premises, hypotheses = ([row[side] for row in rows] for side in ("premise", "hypothesis"))
    ids = [str(number) for number in range(len(rows))]
    return Examples(premises, hypotheses, np.zeros(len(rows), dtype=np.int64), ids, sources=(), sha256="")


def write(path: Path, rows: Any) -> None:
    """JSON Lines, packed."""
    with lzma.open(path, "wt", encoding="utf-8") as stream:
        stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of ``write``."""
    with lzma.open(path, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(required=True)
    for name, step in (("prepare", prepare), ("train", train), ("table", table)):
        one = steps.add_parser(name)
        one.set_defaults(step=step)
        one.add_argument("folder", type=Path)
        if step is prepare:
            one.add_argument("--data", type=Path, required=True, help="folder with snli/")
        if step is train:
            one.add_argument("--base", type=Path, required=True, help="NLI classifier to start from")
            one.add_argument("--seed", nargs="+", type=int, default=[0, 1, 2])
            one.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()
    arguments.step(arguments)


if __name__ == "__main__":
    main()
