"""The response matrices of docs/studies/meta.md: models of known causes, trained where there is a GPU and little else.

    python -m studies.meta.matrix prepare matrix/ --mpnet all-mpnet-base-v2/ --data SHARED_DATA
    PYTHONPATH=src python -m studies.meta.matrix run matrix/ --work runs/matrix --out OUT --time-limit 520      # GPU
    python -m studies.meta.matrix collect OUT/results.tar.gz matrix/
    python -m studies.meta.matrix table matrix/

``prepare`` writes bases and sweeps into folders that can travel one by one: ``small`` (English, Japanese and Chinese:
the embedded models) and ``mpnet-0``, ``mpnet-1`` (the paper's setting, at BERT-base size). Weights travel in int8
and vocabularies hold only the tokens that occur. ``run`` trains what is missing, needs numpy, torch and
transformers, stops at the time limit and continues when called again. ``collect`` puts the logits beside
the pairs, where ``evenli meta FOLDER`` scores them; ``table`` prints all matrices.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import shutil
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studies.packed_base import pack, pack_checkpoint, read_embedded, unpack

SEEDS = (0, 1, 2)
SIGNED, LEVELS = (-1.0, -0.5, 0.0, 0.5, 1.0), (0.0, 0.5, 1.0)
ROOT = Path(__file__).parents[2]
ENGLISH = "folder of the model to start from in English, such as the former one; default: the embedded one"
EMBEDDED = (ROOT / "src/evenli/audit/models/embedded", ROOT / "packages/evenli-models-nc/src/evenli_models_nc/models")
RELEASE = "nli_coal/en_v1.1.tar.xz"
SNLI = "snli/snli_1.0_train_first100k.jsonl.xz"
RESULTS = ("training.json", "models.jsonl", "logits")


@dataclass(frozen=True)
class Plan:
    """One sweep: where it starts, its data and its recipe."""

    name: str
    group: str
    lang: str
    width: int
    recipe: dict[str, float]
    balanced: bool
    official: bool = False
    signed: bool = False

    def design(self, data: Path) -> dict[str, Any]:
        """Arguments of ``Design``."""
        levels = SIGNED if self.signed else LEVELS
        grid = {"rates": (), "stereotype": levels, "default": levels, "error": LEVELS}
        release = {"data": str(data / RELEASE)} if self.official else {}
        return {"lang": self.lang, "width": self.width, "balanced": self.balanced, **grid, **release}


def plans() -> list[Plan]:
    """All sweeps. The short ones see each pair once: how much they learn depends on how many there are."""
    full: dict[str, float] = {"batch_size": 64, "lr": 5e-5, "epochs": 3}
    once = full | {"epochs": 1}
    result = []
    for lang in ("en", "ja", "zh"):
        for order in ("balanced", "released"):
            result.append(Plan(f"{lang}-{order}", lang, lang, 200, full, order == "balanced"))
            result.append(Plan(f"{lang}-{order}-100", lang, lang, 100, once, order == "balanced"))
        result += [Plan(f"{lang}-balanced-{width}", lang, lang, width, once, balanced=True) for width in (50, 200)]
    result.append(Plan("en-signed", "en", "en", 200, full, balanced=True, signed=True))
    paper: dict[str, float] = {"batch_size": 32, "lr": 2e-5, "epochs": 3}
    return [*result, Plan("mpnet", "mpnet", "en", 500, paper, balanced=True, official=True)]


# ---- here: bases and sweeps


def prepare(out: Path, data: Path, mpnet: Path | None, groups: list[str], english: Path | None = None) -> None:
    """Write everything that travels; ``english`` takes the place of the embedded English model."""
    from evenli.training.meta import Design
    from evenli.training.meta.controlled import prepare as prepare_sweep

    for plan in plans():
        if plan.group not in groups:
            continue
        prepare_sweep(out / "sweeps" / plan.name, Design(**plan.design(data)))
    for lang in (group for group in groups if group != "mpnet"):
        places = [english] if english and lang == "en" else [place / f"{lang}-small" for place in EMBEDDED]
        folder = next(place for place in places if place.is_dir())
        config, weights = read_embedded(folder)
        texts = sweep_texts(out / "sweeps", lang)
        pack(config, weights, folder / "tokenizer.json", texts, [out / "small" / "bases" / lang])
    if "mpnet" in groups:
        prepare_mpnet(out, data, mpnet)
    pack_sweeps(out)


def pack_sweeps(out: Path) -> None:
    """Sweeps for the journey, with the models they have."""
    for place, groups in {"small": ("en", "ja", "zh"), "mpnet-0": ("mpnet",)}.items():
        names = [plan.name for plan in plans() if plan.group in groups and (out / "sweeps" / plan.name).is_dir()]
        if names:
            (out / place).mkdir(exist_ok=True)
            with tarfile.open(out / place / "sweeps.tar.xz", "w:xz", preset=1) as archive:
                for name in names:
                    archive.add(out / "sweeps" / name, arcname=name)


def prepare_mpnet(out: Path, data: Path, source: Path | None) -> None:
    """The base of the paper's setting, cut in two, if given, and the pairs that make it an NLI classifier first."""
    from evenli.training.data import read_examples

    examples = read_examples([data / SNLI])
    write_examples(examples, out / "mpnet-1" / "snli.jsonl.xz")
    if source is None:
        return
    texts = sweep_texts(out / "sweeps", "mpnet") + examples.premises + examples.hypotheses
    pack_checkpoint(source, texts, [out / f"mpnet-{number}" / "bases" / "mpnet" for number in range(2)])


def write_examples(examples: Any, file: Path) -> None:
    """Labelled pairs for the journey."""
    rows = zip(examples.premises, examples.hypotheses, examples.labels.tolist(), strict=True)
    lines = [json.dumps({"premise": p, "hypothesis": h, "label": label}, ensure_ascii=False) for p, h, label in rows]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(lzma.compress("\n".join(lines).encode(), preset=1))


def sweep_texts(folder: Path, start: str) -> list[str]:
    """All sentences of the sweeps whose name begins so."""
    files = sorted(folder.glob(f"{start}*/*.jsonl"))
    rows = (json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines())
    return list(dict.fromkeys(row[side] for row in rows for side in ("premise", "hypothesis")))


# ---- on the machine with the GPU


def run(source: Path, work: Path, out: Path, limit: float, groups: list[str], more: list[str]) -> None:
    """Train what is missing, one process per group; end them at the time limit and pack what there is."""
    ends = time.monotonic() + limit
    out.mkdir(parents=True, exist_ok=True)
    work.mkdir(parents=True, exist_ok=True)
    workers = {}
    for group in groups:
        command = [
            sys.executable,
            "-m",
            "studies.meta.matrix",
            "worker",
            group,
            str(source),
            "--work",
            str(work),
            *more,
        ]
        log = (out / f"{group}.log").open("w")
        workers[group] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    before = time.monotonic()
    while any(worker.poll() is None for worker in workers.values()) and time.monotonic() < ends:
        time.sleep(1)
        if time.monotonic() - before > 30:
            before = time.monotonic()
            print(f"{limit - (ends - before):.0f} s: {counts(work)}", flush=True)
    stop_and_pack(workers, work, out)


def stop_and_pack(workers: dict[str, Any], work: Path, out: Path) -> None:
    """End what still runs, say how each worker ended, and pack the models there are."""
    for group, worker in workers.items():
        if worker.poll() is None:
            worker.terminate()
            worker.wait()
        print(f"{group}: exit code {worker.returncode}; {last_line(out / f'{group}.log')}")
    with tarfile.open(out / "results.tar.gz", "w:gz") as archive:
        for folder in sorted((work / "sweeps").glob("*")):
            for name in RESULTS:
                if (folder / name).exists():
                    archive.add(folder / name, arcname=f"{folder.name}/{name}")
    print(f"models: {counts(work)}")


def work_on(group: str, source: Path, work: Path, device: str | None, mpnet: Path | None) -> None:
    """Train all sweeps of one group."""
    from evenli.training.meta import MetaFolder, SweepSettings
    from evenli.training.meta.training import train_sweep

    unpack_sweeps(source, work / "sweeps", group)
    base = mpnet if mpnet and group == "mpnet" else unpack(source, group, work / "bases" / group)
    if group == "mpnet":
        base = fine_tune(base, source, work, device)
    for plan in (plan for plan in plans() if plan.group == group):
        folder = work / "sweeps" / plan.name
        if not folder.exists():
            continue
        print(f"{plan.name}: {plan.recipe}", flush=True)
        train_sweep(MetaFolder(folder), str(base), SweepSettings(SEEDS, plan.recipe, device=device))


def unpack_sweeps(source: Path, target: Path, group: str) -> None:
    """Put the prepared sweeps of a group where they are trained; those that are there stay as they are."""
    scratch = target.with_name(f"unpacking-{group}")
    for file in source.glob("*/sweeps.tar.xz"):
        with tarfile.open(file) as archive:
            archive.extractall(scratch, filter="data")
    target.mkdir(exist_ok=True)
    for plan in (plan for plan in plans() if plan.group == group):
        if (scratch / plan.name).is_dir() and not (target / plan.name).exists():
            (scratch / plan.name).replace(target / plan.name)
    shutil.rmtree(scratch, ignore_errors=True)


def fine_tune(base: Path, source: Path, work: Path, device: str | None) -> Path:
    """The base as an NLI classifier: one pass over SNLI's first 100,000 pairs, as ``evenli train`` does it."""
    from evenli.training.nli import TrainSettings, train
    from evenli.training.recipe import make_recipe

    out = work / "bases" / "mpnet-nli"
    file = next(iter(source.glob("*/snli.jsonl.xz")))
    train(
        str(base), [file], out, recipe=make_recipe("coal", epochs=1), settings=TrainSettings(style="hf", device=device)
    )
    return out


def counts(work: Path) -> str:
    """Stored models per sweep."""
    folders = sorted((work / "sweeps").glob("*"))
    return ", ".join(f"{folder.name} {len(list((folder / 'logits').glob('*.npy')))}" for folder in folders)


def last_line(file: Path) -> str:
    """What a log ends with."""
    lines = file.read_text(errors="replace").replace("\r", "\n").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "")


# ---- here again


def collect(archive: Path, source: Path) -> None:
    """Put the results beside the prepared pairs; a later call of ``run`` that gets them continues from there."""
    folders = {folder.name: folder for folder in source.glob("sweeps/*")}
    with tarfile.open(archive) as stored:
        for member in stored.getmembers():
            name, _, inside = member.name.partition("/")
            if not member.isfile() or name not in folders or ".." in inside:
                continue
            target = folders[name] / inside
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(stored.extractfile(member).read())  # type: ignore[union-attr]
    for _, folder in sorted(folders.items()):
        print(f"{folder}: {len(list((folder / 'logits').glob('*.npy')))} models")


def table(source: Path) -> None:
    """The response matrices as Markdown; on the levels taught and, behind a slash, on those learnt."""
    from evenli.core.errors import RunError
    from evenli.training.meta import MetaFolder
    from evenli.training.meta.charts import MATRIX
    from evenli.training.meta.scoring import score_sweep

    print("| sweep | seeds | learnt | measure | stereotype | default | error | fit |\n|" + " --- |" * 8)
    for plan in plans():
        try:
            results = score_sweep(MetaFolder(source / "sweeps" / plan.name))
        except RunError as error:
            print(f"{plan.name}: {error}", file=sys.stderr)
            continue
        share = f"{results.learnt_share['mean']:.0%} (lowest {results.learnt_share['lowest']:.0%})"
        for one in (one for one in results.responses if one.measure in MATRIX):
            cells = []
            for taught, learnt in zip(one.taught.values(), one.learnt.values(), strict=True):
                around = "" if math.isnan(taught.high) else f" ± {taught.high - taught.value:.2f}"
                cells.append(f"{taught.value:+.2f}{around} / {learnt.value:+.2f}")
            about = [plan.name, str(len(results.seeds)), share, one.title]
            print(f"| {' | '.join([*about, *cells, f'{one.fit:.2f}'])} |")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("prepare")
    first.add_argument("out", type=Path)
    first.add_argument("--data", type=Path, required=True, help="folder with nli_coal/ and snli/")
    first.add_argument("--mpnet", type=Path, help="checkpoint of all-mpnet-base-v2; packed where given")
    first.add_argument("--groups", default="en,ja,zh,mpnet")
    first.add_argument("--english", type=Path, help=ENGLISH)
    second = commands.add_parser("run")
    second.add_argument("source", type=Path)
    second.add_argument("--out", type=Path, required=True)
    second.add_argument("--time-limit", type=float, default=520, help="seconds")
    second.add_argument("--groups", default="en,ja,zh,mpnet")
    worker = commands.add_parser("worker")
    worker.add_argument("group")
    worker.add_argument("source", type=Path)
    for one in (second, worker):
        one.add_argument("--work", type=Path, default=Path("runs/matrix"))
        one.add_argument("--device")
        one.add_argument("--mpnet", type=Path, help="checkpoint of all-mpnet-base-v2, instead of the packed one")
    last = commands.add_parser("collect")
    last.add_argument("archive", type=Path)
    last.add_argument("source", type=Path)
    commands.add_parser("table").add_argument("source", type=Path)
    given = parser.parse_args()
    if given.command == "prepare":
        prepare(given.out, given.data, given.mpnet, given.groups.split(","), given.english)
    elif given.command == "run":
        options = {"--device": given.device, "--mpnet": given.mpnet}
        more = [word for name, value in options.items() if value for word in (name, str(value))]
        run(given.source, given.work, given.out, given.time_limit, given.groups.split(","), more)
    elif given.command == "worker":
        work_on(given.group, given.source, given.work, given.device, given.mpnet)
    elif given.command == "collect":
        collect(given.archive, given.source)
        pack_sweeps(given.source)
    else:
        table(given.source)


if __name__ == "__main__":
    main()
