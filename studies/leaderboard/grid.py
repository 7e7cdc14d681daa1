"""Many models, many seeds: the grid behind docs/studies/leaderboard.md, trained, stored, analysed and shown.

    python -m studies.leaderboard.grid prepare DATA out/board                   # training pairs and questions
    python -m studies.leaderboard.grid train out/board --base tiny=bases/tiny mini=bases/mini --time-limit 540  # GPU
    python -m studies.leaderboard.grid pack out/board studies/leaderboard/leaderboard.tar.xz   # two bytes a question
    python -m studies.leaderboard.tables studies/leaderboard/leaderboard.tar.xz                # tables of the study
    python -m studies.leaderboard.grid page studies/leaderboard/leaderboard.tar.xz docs/leaderboard
    python -m studies.leaderboard.grid ledger docs/leaderboard src/evenli/words/data/leaderboard_base.csv

A model is base x data x recipe x seed. ``train`` skips what is there, starts nothing that would not end before the
time limit, and continues when called again; the device needs torch, transformers and this repository. ``page`` and the
tables need neither GPU nor torch.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

RECIPES: dict[str, dict[str, Any]] = {
    # Anantaprayoon et al. 2024 and Sharma et al. 2021: learning rate 2e-5, batches of 32, three epochs.
    "paper": {"epochs": 3, "lr": 2e-5, "batch_size": 32, "max_length": 128},
    # What trains these bases well: larger batches, a warm-up, and the learning rate of TUNED.
    "tuned": {"epochs": 3, "batch_size": 128, "max_length": 128, "warmup": 0.06},
}
TUNED = {"tiny": 1e-3, "mini": 5e-4, "minilm": 2e-4, "gte": 2e-4, "e5": 2e-4, "m3e": 2e-4, "roformer": 2e-4}
TUNED |= {"deberta": 1e-4}
LARGE = ("mpnet", "zhbert")
"""Bases of 12 layers and 768 units, as in the papers."""
BASE_SIZED = 5e-5
"""The tuned learning rate of every other base: those of 12 layers and 768 units."""
PARAMETERS = {"tiny": 4.4, "mini": 11.2, "minilm": 22.7, "gte": 33.4, "e5": 33.4, "mpnet": 109.5, "m3e": 24.0}
PARAMETERS |= {"roformer": 15.4, "zhbert": 102.3, "deberta": 70.8}
"""Millions."""
CORPORA = {"en": ("snli", "mnli", "both"), "zh": ("ocnli",)}
RELEASES = {"en": "nli_coal/en_v1.1.tar.xz", "zh": "nli_coal/zh_v1.0.tar.xz"}
FILES = {
    "snli": "snli/snli_1.0_train_first100k.jsonl.xz",
    "mnli": "mnli/mnli_train_nyu20k.tsv.xz",
    "ocnli": "zh_ocnli/train.50k.jsonl.xz",
}
TESTS = {
    "en": {"test_snli": "snli/snli_1.0_test.jsonl.xz", "test_sick": "ja_jsick/test.tsv.xz"},
    "zh": {"test_ocnli": "zh_ocnli/dev.jsonl.xz", "test_xnli": "zh_xnli/test.tsv.xz"},
}
HELD_OUT = 10
"""The MNLI part has no test set of its own: every tenth pair is held out."""


@dataclass(frozen=True)
class Job:
    """One model of the grid."""

    lang: str
    base: str
    data: str
    recipe: str
    seed: int

    @property
    def stem(self) -> str:
        """Name of its file."""
        return f"run_{self.lang}+{self.base}+{self.data}+{self.recipe}+{self.seed}"


# ---- prepare


def prepare(arguments: argparse.Namespace) -> None:
    """Write the training pairs of every corpus and the pairs every model is asked."""
    folder, data = arguments.folder, arguments.data
    folder.mkdir(parents=True, exist_ok=True)
    for lang in arguments.lang:
        held_out: list[dict[str, Any]] = []
        for name in (name for name in CORPORA[lang] if name in FILES):
            rows = labelled(data / FILES[name])
            if name == "mnli":
                held_out = [{"suite": "test_mnli", **row} for row in rows[::HELD_OUT]]
                rows = [row for number, row in enumerate(rows) if number % HELD_OUT]
            write(folder / f"train_{name}.jsonl.xz", ({**row, "label": row["gold"]} for row in rows[: arguments.limit]))
        asked = [{"suite": test, **row} for test, file in TESTS[lang].items() for row in labelled(data / file)]
        asked = asked + held_out + list(questions(data, lang))
        if arguments.limit:
            asked = asked[:: max(1, len(asked) // arguments.limit)]
        write(folder / f"asked_{lang}.jsonl.xz", asked)
        counts = {name: sum(row["suite"] == name for row in asked) for name in dict.fromkeys(r["suite"] for r in asked)}
        print(lang, counts)


def labelled(file: Path) -> list[dict[str, Any]]:
    """Pairs with a gold label."""
    from evenli.core.labels import LABELS
    from evenli.training.data import read_examples

    style = "jsick-en" if "jsick" in str(file) else None
    read = read_examples([file], style=style)
    gold = (LABELS[label] for label in read.labels.tolist())
    rows = zip(read.premises, read.hypotheses, gold, strict=True)
    return [{"premise": p, "hypothesis": h, "gold": label} for p, h, label in rows]


def questions(data: Path, lang: str) -> Iterator[dict[str, Any]]:
    """NLI-CoAL in both wordings, gold and control pairs, and in English the probes of Sharma et al. and Dev et al."""
    from evenli.audit.suites.base import Request, load_suite
    from evenli.audit.suites.checks import control_pairs, gold_pairs
    from evenli.audit.suites.coal.pairs import load
    from evenli.audit.suites.probe.read import read_probe

    sets = [("check", gold_pairs(lang)), ("check", control_pairs(lang)), ("coal", load(Request(lang)))]
    sets.append(("official", load(Request(lang, str(data / RELEASES[lang])))))
    if lang == "en":
        sets += [(name, load_suite(name, Request(lang, None))) for name in ("probe", "dev2020")]
        for name in ("snli", "mnli"):
            released = data / "sharma2021" / f"{name.upper()}_Evaluation_Set.tsv.xz"
            sets.append((f"released_{name}", read_probe(released)))
    for name, pairs in sets:
        yield from ({"suite": name, **row} for row in pairs.frame.rows(named=True))


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """JSON Lines, packed."""
    with lzma.open(path, "wt", encoding="utf-8", preset=6) as stream:
        stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def read(path: Path) -> list[dict[str, Any]]:
    """JSON Lines, packed."""
    with lzma.open(path, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


# ---- train


def train(arguments: argparse.Namespace) -> None:
    """Fine-tune and ask everything that is missing."""
    began = time.perf_counter()
    bases = dict(spec.split("=", 1) for spec in arguments.base)
    for recipe in arguments.recipe:
        for base, path in bases.items():
            for data in arguments.corpus or CORPORA[arguments.lang]:
                jobs = [Job(arguments.lang, base, data, recipe, seed) for seed in range(arguments.seeds)]
                missing = [job for job in jobs if not (arguments.out / f"{job.stem}.npz").is_file()]
                if missing and not (arguments.out / "stop").exists():
                    left = arguments.time_limit - (time.perf_counter() - began)
                    train_group(arguments, Path(path), missing, left)


_TOKENS: dict[tuple[str, ...], Any] = {}


def train_group(arguments: argparse.Namespace, path: Path, jobs: list[Job], left: float) -> None:
    """All seeds of one base, corpus and recipe: tokenised, compiled and captured once."""
    import torch

    from evenli.audit.models.loading import pick_device
    from evenli.training.base import load_base
    from evenli.training.data import tokenise
    from evenli.training.loop import Trainer
    from evenli.training.recipe import make_recipe

    began, first = time.perf_counter(), jobs[0]
    rate = {} if first.recipe == "paper" else {"lr": TUNED.get(first.base, BASE_SIZED)}
    recipe = make_recipe("coal", **RECIPES[first.recipe], **rate)
    base = load_base(str(path))
    words = hashlib.sha256((path / "tokenizer.json").read_bytes()).hexdigest()

    def tokens_of(*names: str) -> Any:
        # Most bases share a vocabulary: what one needs is there for the next.
        key = (words, *names)
        if key not in _TOKENS:
            rows = [row for name in names for row in read(arguments.folder / f"{name}.jsonl.xz")]
            _TOKENS[key] = tokenise(examples(rows), base.tokenizer, recipe.max_length)
        return _TOKENS[key]

    corpora = ("train_snli", "train_mnli") if first.data == "both" else (f"train_{first.data}",)
    tokens, asked = tokens_of(*corpora), tokens_of(f"asked_{first.lang}")
    device = pick_device(torch, None)
    trainer = Trainer(base.model, tokens, recipe, device=device, fresh=base.fresh)
    longest = 0.0
    for job in jobs:
        start = time.perf_counter()
        if start - began + longest > left or (arguments.out / "stop").exists():
            print(f"{job.stem}: not begun, the time limit is near", flush=True)
            return
        trainer.reset(job.seed)
        reports = list(trainer.run(every=500))
        trained = time.perf_counter() - start
        logits = trainer.logits(asked).astype(np.float16)
        about = {
            "loss": reports[-1].loss,
            "seconds": trained,
            "pairs": len(tokens) * recipe.epochs,
            "steps": trainer.steps,
        }
        temporary = arguments.out / f"{job.stem}.tmp.npz"
        np.savez_compressed(temporary, logits=logits, about=json.dumps(about | {"lr": recipe.lr}))
        temporary.rename(arguments.out / f"{job.stem}.npz")
        longest = max(longest, time.perf_counter() - start)
        speed = about["pairs"] / trained
        print(
            f"{job.stem}: loss {reports[-1].loss:.4f}, {trained:.1f} s, {speed:,.0f} pairs/s; "
            f"in all {time.perf_counter() - start:.1f} s, {start - began:.0f} s after the start of the group",
            flush=True,
        )


def examples(rows: list[dict[str, Any]]) -> Any:
    """Rows as the trainer takes them."""
    from evenli.core.labels import LABELS
    from evenli.training.data import Examples

    texts = ([row[column] for row in rows] for column in ("premise", "hypothesis"))
    golds = (row.get("label") or row.get("gold") for row in rows)
    labels = np.array([LABELS.index(gold) if gold in LABELS else 0 for gold in golds], dtype=np.int64)
    return Examples(*texts, labels=labels, ids=[str(n) for n in range(len(rows))], sources=(), sha256="")


# ---- here: store, score, show


def pack(arguments: argparse.Namespace) -> None:
    """Put the answers of all models into one file, two bytes a question."""
    import polars as pl

    from evenli.audit.pairs import PAIR_COLUMNS
    from studies.leaderboard.answers import TEST, Answers, quantise, write_answers

    answers = []
    for lang in CORPORA:
        files = sorted(arguments.folder.glob(f"run_{lang}+*.npz"))
        if not files:
            continue
        schema = {"suite": pl.String, **dict.fromkeys(PAIR_COLUMNS, pl.String)}
        asked = pl.DataFrame(read(arguments.folder / f"asked_{lang}.jsonl.xz"), schema=schema)
        labels_only = asked["suite"].str.starts_with(TEST).to_numpy()
        models, codes = [], []
        for file in files:
            base, data, recipe, seed = file.stem.removeprefix(f"run_{lang}+").split("+")
            with np.load(file) as stored:
                about = json.loads(str(stored["about"]))
                codes.append(quantise(stored["logits"], labels_only=labels_only))
            names = {"base": base, "data": data, "recipe": recipe, "seed": int(seed), "parameters": PARAMETERS[base]}
            models.append(
                names | {key: about[key] for key in ("lr", "steps", "pairs")} | {"loss": round(about["loss"], 4)}
            )
        answers.append(Answers(lang, asked, models, np.stack(codes)))
        print(f"{lang}: {len(models)} models, {asked.height:,} questions")
    write_answers(arguments.file, answers)
    print(f"{arguments.file}: {arguments.file.stat().st_size / 1e6:.1f} MB")


def page(arguments: argparse.Namespace) -> None:
    """Score the stored answers and write board.json, CSV, Parquet and index.html; submitted rows stay."""
    from evenli.core.page import write_page
    from studies.leaderboard.answers import read_answers
    from studies.leaderboard.board import Board, read_board, write_board
    from studies.leaderboard.page import leaderboard_page
    from studies.leaderboard.rows import board_rows, published_rows, score_all

    file = arguments.folder / "board.json"
    sent = [row for row in read_board(file).rows if row.source == "submitted"] if file.is_file() else []
    rows = [row for one in read_answers(arguments.file) for row in board_rows(one, score_all(one))]
    write_board(Board(rows=[*rows, *sent, *published_rows()]), file)
    print(write_page(leaderboard_page(read_board(file)), arguments.folder / "index.html"))


def ledger(arguments: argparse.Namespace) -> None:
    """What models of 12 layers and the papers' recipe got, for the rows of the ledger."""
    import polars as pl

    from studies.leaderboard.board import read_board

    rows = []
    for row in read_board(arguments.folder / "board.json").rows:
        if row.source != "ours" or row.recipe != "paper" or row.base not in LARGE:
            continue
        suites = {"official": ("coal", "fn_bias")} | {
            f"released_{data}": ("probe_s", "probe_dp", "probe_b") for data in ("snli", "mnli") if data == row.data
        }
        about = {"lang": row.lang, "base": row.base, "data": row.data, "seeds": row.seeds}
        for suite, measures in suites.items():
            for name in measures:
                one = row.measures[f"{suite}.{name}"]
                bounds = {"value": one.value, "low": one.low, "high": one.high}
                rows.append(about | {"suite": suite, "measure": name, **bounds})
    pl.DataFrame(rows).write_csv(arguments.file, float_precision=6)
    print(f"{len(rows)} values")


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(required=True)
    one = steps.add_parser("prepare")
    one.set_defaults(step=prepare)
    one.add_argument("data", type=Path, help="folder of the public data")
    one.add_argument("folder", type=Path)
    one.add_argument("--lang", nargs="+", choices=list(CORPORA), default=list(CORPORA))
    one.add_argument("--limit", type=int, help="so many pairs of each corpus and of all questions; for a trial")
    one = steps.add_parser("train")
    one.set_defaults(step=train)
    one.add_argument("folder", type=Path)
    one.add_argument("--base", nargs="+", required=True, help="NAME=FOLDER of an encoder")
    one.add_argument("--lang", choices=list(CORPORA), default="en")
    one.add_argument("--recipe", nargs="+", choices=list(RECIPES), default=list(RECIPES))
    one.add_argument("--corpus", nargs="+", help="only these; default: all of the language")
    one.add_argument("--seeds", type=int, default=5)
    one.add_argument("--time-limit", type=float, default=540, help="seconds after which no model is begun")
    one.add_argument("--out", type=Path, help="where the answers go; default: the folder")
    one = steps.add_parser("ledger")
    one.set_defaults(step=ledger)
    one.add_argument("folder", type=Path, help="folder of the page")
    one.add_argument("file", type=Path)
    for name, step in (("pack", pack), ("page", page)):
        one = steps.add_parser(name)
        one.set_defaults(step=step)
        if step is pack:
            one.add_argument("folder", type=Path)
        one.add_argument("file", type=Path, help="the packed answers")
        if step is page:
            one.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    if getattr(arguments, "out", 0) is None:
        arguments.out = arguments.folder
    arguments.step(arguments)


if __name__ == "__main__":
    main()
