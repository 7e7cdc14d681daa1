"""Does gender-swap augmentation lower the bias of a retrained model? Two encoders, three seeds, paired.

Three steps; only the middle one needs a GPU, and it needs neither polars nor this machine:

    python tools/mitigation_study.py prepare DATA out/study         # SNLI part, swapped copies, pairs to ask
    python tools/mitigation_study.py train out/study --base gte=bases/gte-8 --seed 0 1 2
    python tools/mitigation_study.py score out/study                # the table of docs/mitigation.md

``train`` fine-tunes each base on the SNLI part as it is (``before``) and with a swapped copy of every pair that has a
word to swap (``after``), and stores the logits of both.
"""

from __future__ import annotations

import argparse
import json
import lzma
import time
from pathlib import Path
from typing import Any

import numpy as np

CONDITIONS = ("before", "after")
SHOWN = (
    *("coal.coal", "coal.follow", "coal.defy", "probe.probe_s", "probe.probe_dp", "probe.probe_b", "probe.probe_dp3"),
    *("released.probe_s", "released.probe_dp", "released.probe_b", "released.probe_dp3", "released.probe_neutral"),
)
"""What the table shows: suite and measure."""


def prepare(arguments: argparse.Namespace) -> None:
    """Write the training sets and the pairs every model is asked."""
    from evenli.io import read_rows
    from evenli.mitigate.augment import swap_augment
    from evenli.suites.coal.build import build_coal
    from evenli.suites.probe.build import build_probe, read_probe

    folder, source = arguments.folder, arguments.data
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {"premise": row["sentence1"], "hypothesis": row["sentence2"], "label": row["gold_label"]}
        for row in read_rows(source / "snli" / "snli_1.0_train_first100k.jsonl.xz")
        if row["gold_label"] != "-"
    ]
    augmented = swap_augment(rows)
    write(folder / "before.jsonl.xz", rows)
    write(folder / "after.jsonl.xz", list(augmented.rows))
    print(f"{len(rows):,} pairs, {augmented.counts['added']:,} swapped copies added; {dict(augmented.counts)}")
    test = [row for row in read_rows(source / "snli" / "snli_1.0_test.jsonl.xz") if row["gold_label"] != "-"]
    asked = [
        {"suite": "test", "premise": row["sentence1"], "hypothesis": row["sentence2"], "gold": row["gold_label"]}
        for row in test
    ]
    released = read_probe(source / "sharma2021" / "SNLI_Evaluation_Set.tsv.xz")
    for suite, pairs in (("coal", build_coal("en")), ("probe", build_probe().pairs), ("released", released)):
        asked += [{"suite": suite, **row} for row in pairs.frame.rows(named=True)]
    write(folder / "asked.jsonl.xz", asked)


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """JSON Lines, packed."""
    with lzma.open(path, "wt", encoding="utf-8") as stream:
        stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def train(arguments: argparse.Namespace) -> None:
    """Fine-tune and ask; what is there already is kept."""
    import torch

    from evenli.io import read_rows
    from evenli.models.loading import pick_device
    from evenli.training.base import load_base
    from evenli.training.data import Examples, read_examples, tokenise
    from evenli.training.loop import Trainer
    from evenli.training.recipe import make_recipe

    folder = arguments.folder
    asked = read_rows(folder / "asked.jsonl.xz")
    recipe = make_recipe("coal", epochs=2, lr=1e-4, batch_size=128, max_length=48, warmup=0.06)
    for spec in arguments.base:
        name, _, path = spec.partition("=")
        for condition in CONDITIONS:
            base = load_base(path)
            began = time.perf_counter()
            tokens = tokenise(read_examples([folder / f"{condition}.jsonl.xz"]), base.tokenizer, recipe.max_length)
            questions = Examples(
                premises=[row["premise"] for row in asked],
                hypotheses=[row["hypothesis"] for row in asked],
                labels=np.zeros(len(asked), dtype=np.int64),
                ids=[str(number) for number in range(len(asked))],
                sources=(),
                sha256="",
            )
            question_tokens = tokenise(questions, base.tokenizer, recipe.max_length)
            trainer = Trainer(base.model, tokens, recipe, device=pick_device(torch, None), fresh=base.fresh)
            print(f"{name} {condition}: {len(tokens):,} pairs, {tokens.truncated:,} cut at {recipe.max_length} tokens")
            for seed in arguments.seed:
                file = folder / f"{name}_{condition}_{seed}.npy"
                if file.is_file():
                    continue
                trainer.reset(seed)
                loss = [report.loss for report in trainer.run(every=200)][-1]
                np.save(file, trainer.logits(question_tokens).astype(np.float16))
                print(f"  seed {seed}: loss {loss:.4f}, {time.perf_counter() - began:.0f} s", flush=True)


def score(arguments: argparse.Namespace) -> None:
    """Before and after, per encoder and seed, with paired intervals over occupations and templates."""
    import polars as pl

    from evenli.evaluate.compare import compare
    from evenli.io import read_rows
    from evenli.labels import LABELS
    from evenli.pairs import PAIR_COLUMNS
    from evenli.predictions import Predictions

    rows = read_rows(arguments.folder / "asked.jsonl.xz")
    frame = pl.DataFrame(rows, schema={"suite": pl.String, **dict.fromkeys(PAIR_COLUMNS, pl.String)})
    names = sorted({file.name.split("_")[0] for file in arguments.folder.glob("*_before_*.npy")})

    def table(name: str, condition: str, seed: int, suite: str) -> Predictions:
        logits = np.load(arguments.folder / f"{name}_{condition}_{seed}.npy").astype(np.float32)
        whole = frame.with_columns(*(pl.Series(label, logits[:, i]) for i, label in enumerate(LABELS)))
        part = whole.filter(pl.col("suite") == suite)
        if suite == "released":
            part = part.with_columns(pl.lit("probe").alias("suite"))
        return Predictions(part)

    told: list[dict[str, Any]] = []
    for name in names:
        for seed in arguments.seed:
            line: dict[str, Any] = {"encoder": name, "seed": seed}
            for condition in CONDITIONS:
                test = table(name, condition, seed, "test")
                gold = np.array([LABELS.index(label) for label in test.frame["gold"]])
                line[f"accuracy_{condition}"] = float((test.logits.argmax(axis=1) == gold).mean())
            for suite in ("coal", "probe", "released"):
                tables = (table(name, condition, seed, suite) for condition in CONDITIONS)
                one = compare(*tables, suite="coal" if suite == "coal" else "probe")[0]
                for measure, d in one.measures.items():
                    line[f"{suite}.{measure}"] = [d.first, d.second, d.value, d.low, d.high, d.p]
            told.append(line)
    (arguments.folder / "study.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    for name in names:
        lines = [line for line in told if line["encoder"] == name]
        before, after = (np.mean([line[f"accuracy_{condition}"] for line in lines]) for condition in CONDITIONS)
        print(f"{name}, mean of {len(lines)} seeds: SNLI test accuracy {before:.2%} -> {after:.2%}")
        for key in SHOWN:
            values = np.array([line[key] for line in lines])
            first, second, change = values[:, :3].mean(axis=0)
            lower, higher = int((values[:, 4] < 0).sum()), int((values[:, 3] > 0).sum())
            each = ", ".join(f"{value:+.3f}" for value in values[:, 2])
            print(
                f"  {key:20} {first:.3f} -> {second:.3f}  {change:+.3f} ({each}); "
                f"clearly lower in {lower}, clearly higher in {higher}"
            )


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(required=True)
    for name, step in (("prepare", prepare), ("train", train), ("score", score)):
        one = steps.add_parser(name)
        one.set_defaults(step=step)
        if step is prepare:
            one.add_argument("data", type=Path, help="folder of the public data")
        one.add_argument("folder", type=Path)
        if step is train:
            one.add_argument("--base", nargs="+", required=True, help="NAME=FOLDER of an encoder")
        if step is not prepare:
            one.add_argument("--seed", nargs="+", type=int, default=[0, 1, 2])
    arguments = parser.parse_args()
    arguments.step(arguments)


if __name__ == "__main__":
    main()
