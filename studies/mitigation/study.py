"""Does gender-swap augmentation lower the bias of a retrained model? An experiment with controls.

Three steps; only the middle one needs a GPU:

    python -m studies.mitigation.study prepare DATA out/study --corpus snli       # or mnli; --scored FOLDER for Sub/Aug
    python -m studies.mitigation.study train out/study --base minilm=bases/en base12=bases/mpnet --seed 0 1 2 3 4
    python -m studies.mitigation.study analyse out/study

Arms, each with the contrast that answers a question:

original                  the corpus as it is
occupation - original     the paper's selection: copies of pairs whose premise names an occupation (Sharma et al. 2021)
all - duplicated          a swapped copy of every gendered pair, against a plain second copy of the same pairs: equal
                          size, equal steps, only the swap differs
same_size - original      every gendered pair swapped with probability one half, nothing added: equal size, equal steps
sub - sub_random          the most biased pairs left out (Dolci et al. 2023), against as many at random; needs --scored
aug - aug_random          copies of the most biased pairs, against as many at random; needs --scored

``train`` fine-tunes every base on every arm with every seed and stores the logits of all questions as float16
(run_BASE+ARM+SEED.npz), so that anyone can score them again. ``analyse`` computes every measure per run, and the paired
difference of each measure between arm and control, by seed. A contrast whose interval includes 0 shows no effect; the
others are in bold. Intervals are over seeds, for these questions, and not corrected for their number.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

CONTRASTS = (
    ("occupation", "original"),
    ("all", "duplicated"),
    ("same_size", "original"),
    ("sub", "sub_random"),
    ("aug", "aug_random"),
)
SUITES = {"coal": "coal", "probe": "probe", "released_snli": "probe", "released_mnli": "probe", "swap": "swap"}
"""Sets that are asked, and the suite whose measures read them."""
PERCENTILE = 90
MAIN = {
    "accuracy": "test accuracy",
    "coal.stereotype": "stereotype",
    "coal.default_gender": "default gender",
    "coal.total_error": "total error",
    "coal.contradictory": "contradictory answers",
    "coal.coal": "NLI-CoAL",
    "coal.fn_bias": "FN score (bias)",
    "released_snli.probe_s": "S, released SNLI set",
    "released_snli.probe_dp": "ΔP, released SNLI set",
    "released_snli.probe_b": "B, released SNLI set",
    "released_mnli.probe_dp": "ΔP, released MNLI set",
    "probe.probe_dp": "ΔP, our set",
    "probe.probe_lean": "lean, our set (+ = woman)",
    "swap.swap_flips": "answers that change after a swap",
}
"""What the printed table shows; analysis.json has every measure."""
SWAP_PAIRS = 3_000
"""Test pairs of the counterfactual-consistency measure."""


def prepare(arguments: argparse.Namespace) -> None:
    """Write the training sets of all arms and the pairs every model is asked."""
    folder, data = arguments.folder, arguments.data
    folder.mkdir(parents=True, exist_ok=True)
    train, test = read_corpus(data, arguments.corpus)
    train, test = train[: arguments.limit], test[: arguments.limit]
    sizes = {}
    for arm, rows in arms(train, arguments.scored, folder).items():
        write(folder / f"arm_{arm}.jsonl.xz", rows)
        sizes[arm] = len(rows)
        print(f"{arm:12} {len(rows):,} pairs")
    write(folder / "asked.jsonl.xz", questions(data, test, arguments.limit))
    about = {"corpus": arguments.corpus, "limit": arguments.limit, "sizes": sizes}
    (folder / "study.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def read_corpus(data: Path, name: str) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Training and test pairs with premise, hypothesis and label."""
    from evenli.core.io import read_rows

    def pairs(file: str) -> list[dict[str, str]]:
        rows = read_rows(data / file)
        columns = ("sentence1", "sentence2", "gold_label" if "gold_label" in rows[0] else "label")
        named = [dict(zip(("premise", "hypothesis", "label"), (row[c] for c in columns), strict=True)) for row in rows]
        return [row for row in named if row["label"] != "-"]

    if name == "snli":
        return pairs("snli/snli_1.0_train_first100k.jsonl.xz"), pairs("snli/snli_1.0_test.jsonl.xz")
    # The MNLI part has no test set of its own: every tenth pair is held out.
    rows = pairs("mnli/mnli_train_nyu20k.tsv.xz")
    return [row for i, row in enumerate(rows) if i % 10], rows[::10]


def arms(rows: list[dict[str, str]], scored: Path | None, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The training set of every arm."""
    from evenli.corpus.mitigation.swap_file import Copying, SwapSettings, mark_copy, swap_pair
    from evenli.words.swap.swapper import Swapper

    def copies(select: Any) -> list[dict[str, Any]]:
        copying = Copying(SwapSettings(select), Swapper(), ("premise", "hypothesis"))
        done = ((row, *copying.swap(row)) for _, row in copying.choose(enumerate(rows)))
        return [mark_copy(row, copying.columns, swapped.texts) for row, swapped, copied in done if copied]

    added = {name: copies(name) for name in ("all", "occupation")}
    swapper, rng, mixed, doubled = Swapper(), random.Random(0), [], []
    for row in rows:
        done = swap_pair(swapper, (row["premise"], row["hypothesis"]))
        if done.changed:
            doubled.append(row)
        if done.changed and rng.random() < 0.5:
            row = {**row, "premise": done.texts[0], "hypothesis": done.texts[1]}
        mixed.append(row)
    corpora = {
        "original": rows,
        "occupation": rows + added["occupation"],
        "all": rows + added["all"],
        "duplicated": rows + doubled,
        "same_size": mixed,
    }
    return corpora | (by_score(scored, folder) if scored else {})


def by_score(scored: Path, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The corpora of Dolci et al. at one percentile and their random controls, from a folder of ``evenli score``."""
    from evenli.core.io import read_rows
    from evenli.corpus.mitigation.corpora import fairer_corpus
    from evenli.corpus.mitigation.selection import CorpusSettings

    corpora: dict[str, list[dict[str, Any]]] = {}
    for arm, method in (("sub", "subtract"), ("aug", "augment")):
        for chance in (False, True):
            name = f"{arm}_random" if chance else arm
            settings = CorpusSettings(PERCENTILE, split=None, random=chance)
            corpus = fairer_corpus(method, scored, folder / f"corpus_{name}", settings, overwrite=True)  # type: ignore[arg-type]
            corpora[name] = read_rows(corpus.path / "corpus.jsonl")
    return corpora


def questions(data: Path, test: list[dict[str, str]], limit: int | None) -> list[dict[str, Any]]:
    """Every pair a model is asked: the test set, NLI-CoAL, the probe on three sets, and the swapped test pairs."""
    from evenli.audit.pairs import PairSet, subsample
    from evenli.audit.suites.coal.pairs import build_coal
    from evenli.audit.suites.probe.build import build_probe
    from evenli.audit.suites.probe.read import read_probe
    from evenli.audit.suites.swap import with_swapped

    asked: list[dict[str, Any]] = [{"suite": "test", **row, "gold": row["label"]} for row in test]
    labelled = ({**row, "id": str(n), "gold": row["label"]} for n, row in enumerate(test[:SWAP_PAIRS]))
    sets = {
        "coal": build_coal("en"),
        "probe": build_probe().pairs,
        "released_snli": read_probe(data / "sharma2021" / "SNLI_Evaluation_Set.tsv.xz"),
        "released_mnli": read_probe(data / "sharma2021" / "MNLI_Evaluation_Set.tsv.xz"),
        "swap": with_swapped(PairSet.from_rows(labelled, name="test", suite="swap", lang="en")),
    }
    for suite, pairs in sets.items():
        pairs = pairs if limit is None else subsample(pairs, limit)
        asked += [{"suite": suite, **row} for row in pairs.frame.rows(named=True)]
    return asked


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """JSON Lines, packed."""
    with lzma.open(path, "wt", encoding="utf-8") as stream:
        stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def train(arguments: argparse.Namespace) -> None:
    """Fine-tune and ask; runs that are there already are kept."""
    import torch

    from evenli.audit.models.loading import pick_device
    from evenli.core.io import read_rows
    from evenli.training.base import load_base
    from evenli.training.data import Examples, read_examples, tokenise
    from evenli.training.loop import Trainer
    from evenli.training.recipe import make_recipe

    folder = arguments.folder
    asked = read_rows(folder / "asked.jsonl.xz")
    texts = [[row[column] for row in asked] for column in ("premise", "hypothesis")]
    recipe = make_recipe("coal", epochs=arguments.epochs, lr=arguments.lr, batch_size=128, max_length=48, warmup=0.06)
    for spec in arguments.base:
        name, _, path = spec.partition("=")
        for file in sorted(folder.glob("arm_*.jsonl.xz")):
            arm = file.name.removeprefix("arm_").removesuffix(".jsonl.xz")
            if arguments.arm and arm not in arguments.arm:
                continue
            missing = [seed for seed in arguments.seed if not run_file(folder, name, arm, seed).is_file()]
            if not missing:
                continue
            base = load_base(path)
            ids = [str(number) for number in range(len(asked))]
            given = Examples(*texts, labels=np.zeros(len(asked), dtype=np.int64), ids=ids, sources=(), sha256="")
            tokens = tokenise(read_examples([file]), base.tokenizer, recipe.max_length)
            question_tokens = tokenise(given, base.tokenizer, recipe.max_length)
            trainer = Trainer(base.model, tokens, recipe, device=pick_device(torch, None), fresh=base.fresh)
            for seed in missing:
                began = time.perf_counter()
                trainer.reset(seed)
                loss = [report.loss for report in trainer.run(every=200)][-1]
                np.savez_compressed(
                    run_file(folder, name, arm, seed), logits=trainer.logits(question_tokens).astype(np.float16)
                )
                print(f"{name} {arm} seed {seed}: loss {loss:.4f}, {time.perf_counter() - began:.0f} s", flush=True)


def run_file(folder: Path, name: str, arm: str, seed: int) -> Path:
    """Where the answers of one run lie."""
    return Path(folder / f"run_{name}+{arm}+{seed}.npz")


def analyse(arguments: argparse.Namespace) -> None:
    """Every measure of every run, and the contrasts, paired by seed."""
    import polars as pl

    from evenli.audit.pairs import PAIR_COLUMNS
    from evenli.core.io import read_rows

    folder = arguments.folder
    asked = read_rows(folder / "asked.jsonl.xz")
    frame = pl.DataFrame(asked, schema={"suite": pl.String, **dict.fromkeys(PAIR_COLUMNS, pl.String)})
    runs: list[dict[str, Any]] = []
    for file in sorted(folder.glob("run_*.npz")):
        base, arm, seed = file.stem.removeprefix("run_").split("+")
        logits = np.load(file)["logits"].astype(np.float32)
        if len(logits) != frame.height:
            raise SystemExit(f"{file} answers {len(logits)} questions, asked are {frame.height}; train it again")
        runs.append({"base": base, "arm": arm, "seed": int(seed), **measure_run(frame, logits)})
    if not runs:
        raise SystemExit(f"{folder} holds no runs; train first")
    effects = [one for base in sorted({run["base"] for run in runs}) for one in contrasts(runs, base)]
    result = {"runs": runs, "effects": effects}
    (folder / "analysis.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for base in sorted({run["base"] for run in runs}):
        print_table([run for run in runs if run["base"] == base], [one for one in effects if one["base"] == base])


def print_table(runs: list[dict[str, Any]], effects: list[dict[str, Any]]) -> None:
    """The main measures of one base as Markdown: the plain corpus, and every contrast with its interval."""
    shown = [pair for pair in CONTRASTS if any((one["arm"], one["control"]) == pair for one in effects)]
    print(f"\n{runs[0]['base']}: {len(runs)} models\n")
    heads = ["measure", "original (sd of seeds)", *(f"{arm} - {control}" for arm, control in shown)]
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for name, title in MAIN.items():
        plain = [run[name] for run in runs if run["arm"] == "original"]
        cells = [title, f"{np.mean(plain):.3f} ({np.std(plain, ddof=1):.3f})".replace("-", "−") if plain else ""]
        for pair in shown:
            one = next(e for e in effects if e["measure"] == name and (e["arm"], e["control"]) == pair)
            significant = one["low"] > 0 or one["high"] < 0
            text = f"{one['effect']:+.3f} [{one['low']:+.3f}, {one['high']:+.3f}]".replace("-", "−")
            cells.append(f"**{text}**" if significant else text)
        print(f"| {' | '.join(cells)} |")


def measure_run(frame: Any, logits: np.ndarray) -> dict[str, float]:
    """Accuracy on the test set and every measure of every set."""
    import polars as pl

    from evenli.audit.predictions import Predictions
    from evenli.core.labels import LABELS
    from evenli.stats.measure import measures
    from evenli.stats.sample import Sample

    whole = frame.with_columns(*(pl.Series(label, logits[:, i]) for i, label in enumerate(LABELS)))
    test = whole.filter(pl.col("suite") == "test")
    gold = np.array([LABELS.index(label) for label in test["gold"]])
    values = {"accuracy": float((test.select(LABELS).to_numpy().argmax(axis=1) == gold).mean())}
    for name, suite in SUITES.items():
        part = whole.filter(pl.col("suite") == name).with_columns(suite=pl.lit(suite))
        sample = Sample(Predictions(part))
        values |= {f"{name}.{entry.name}": float(entry(sample)) for entry in measures(suite)}
    return values


def contrasts(runs: list[dict[str, Any]], base: str) -> list[dict[str, Any]]:
    """Arm minus control for every measure of one base."""
    ours = [run for run in runs if run["base"] == base]
    names = [name for name in ours[0] if name not in {"base", "arm", "seed"}]
    effects = []
    for arm, control in CONTRASTS:
        pair = [run for run in ours if run["arm"] in {arm, control}]
        seeds = {run["seed"] for run in pair if run["arm"] == arm} & {
            run["seed"] for run in pair if run["arm"] == control
        }
        if seeds:
            kept = [run for run in pair if run["seed"] in seeds]
            about = {"base": base, "arm": arm, "control": control, "seeds": len(seeds)}
            effects += [{**about, "measure": name, **paired_effect(kept, arm, name)} for name in names]
    return effects


def paired_effect(runs: list[dict[str, Any]], arm: str, name: str) -> dict[str, Any]:
    """Mean difference of the arm over seeds with Student's 95 % interval; every seed trained both arms."""
    from scipy.stats import t as student

    values = {(run["arm"] == arm, run["seed"]): run[name] for run in runs}
    seeds = sorted({seed for _, seed in values})
    differences = np.array([values[True, seed] - values[False, seed] for seed in seeds])
    effect, half = float(differences.mean()), float("nan")
    if len(seeds) > 1:
        half = float(student.ppf(0.975, len(seeds) - 1) * differences.std(ddof=1) / np.sqrt(len(seeds)))
    return {"effect": effect, "low": effect - half, "high": effect + half}


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(required=True)
    for name, step in (("prepare", prepare), ("train", train), ("analyse", analyse)):
        one = steps.add_parser(name)
        one.set_defaults(step=step)
        if step is prepare:
            one.add_argument("data", type=Path, help="folder of the public data")
        one.add_argument("folder", type=Path)
        if step is prepare:
            one.add_argument("--corpus", choices=("snli", "mnli"), default="snli")
            one.add_argument("--scored", type=Path, help="folder of evenli score on the same corpus, for Sub and Aug")
            one.add_argument("--limit", type=int, help="pairs of training, test and every set; for a trial")
        if step is train:
            one.add_argument("--base", nargs="+", required=True, help="NAME=FOLDER of an encoder")
            one.add_argument("--seed", nargs="+", type=int, default=[0, 1, 2, 3, 4])
            one.add_argument("--arm", nargs="+", help="only these; default: all that were prepared")
            one.add_argument("--epochs", type=int, default=2)
            one.add_argument("--lr", type=float, default=1e-4, help="5e-5 suits a base of 12 layers")
    arguments = parser.parse_args()
    arguments.step(arguments)


if __name__ == "__main__":
    main()
