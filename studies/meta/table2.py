"""Table 2 of NLI-CoAL at full size: the bias rates, seeds and recipe of the paper, both orders of the words.

    python -m studies.meta.table2 prepare table2/ --data SHARED_DATA --base en=all-mpnet-base-v2/ --base zh=bases/zhbert
    PYTHONPATH=src python -m studies.meta.table2 run table2/ --work runs/table2 --out OUT --time-limit 520   # GPU
    python -m studies.meta.table2 collect OUT/results.tar.gz table2/
    python -m studies.meta.table2 table table2/

The recipe is the paper's: a base that was first fine-tuned on NLI, then 30,000 pairs (500 templates a word), three
epochs, learning rate 2e-5, batches of 32; the official downsampled set is asked. There is no Japanese base of 12 layers
in the package registries: ``ja`` starts from the embedded model.

``prepare`` writes what travels into ``LANG-0``, ``LANG-1``, …, matrices in int8 and only the tokens that occur.
``run`` trains what is missing, stops at the time limit, and continues when called again.
"""

from __future__ import annotations

import argparse
import math
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

from studies.meta.matrix import EMBEDDED, collect, stop_and_pack, sweep_texts, write_examples
from studies.packed_base import pack, pack_checkpoint, read_embedded, unpack

SEEDS = (0, 1, 2)
ORDERS = ("released", "balanced")
ELEVEN = tuple(number / 10 for number in range(11))
SIX = ELEVEN[::2]
"""Bias rates of a base of 12 layers in the balanced order, which the paper does not have."""
RECIPE = {"batch_size": 32, "lr": 2e-5, "epochs": 3}
RELEASES = {"en": "nli_coal/en_v1.1.tar.xz", "zh": "nli_coal/zh_v1.0.tar.xz", "ja": "nli_coal/ja_v1.1.tar.xz"}
NLI = {"en": "snli/snli_1.0_train_first100k.jsonl.xz", "zh": "zh_ocnli/train.50k.jsonl.xz"}
PARTS = 2
"""Pieces of a base: 85 MB in int8 are too much for one."""


def prepare(out: Path, data: Path, bases: dict[str, Path]) -> None:
    """Write everything that travels."""
    from evenli.training.meta import Design
    from evenli.training.meta.controlled import prepare as prepare_sweep

    for lang in RELEASES:
        for order in ORDERS:
            rates = SIX if order == "balanced" and lang in bases else ELEVEN
            design = Design(lang=lang, rates=rates, balanced=order == "balanced", data=str(data / RELEASES[lang]))
            prepare_sweep(out / "sweeps" / f"{lang}-{order}", design)
        texts = sweep_texts(out / "sweeps", lang)
        if lang in bases:
            prepare_base(out, lang, bases[lang], data / NLI[lang], texts)
        elif lang == "ja":
            folder = next(place / "ja-small" for place in EMBEDDED if (place / "ja-small").is_dir())
            config, weights = read_embedded(folder)
            pack(config, weights, folder / "tokenizer.json", texts, [out / "ja-0" / "bases" / "ja"])
        pack_sweeps(out, lang)


def prepare_base(out: Path, lang: str, source: Path, pairs: Path, texts: list[str]) -> None:
    """A base in parts, and the pairs that make it an NLI classifier first."""
    from evenli.training.data import read_examples

    examples = read_examples([pairs])
    write_examples(examples, out / f"{lang}-0" / f"nli-{lang}.jsonl.xz")
    places = [out / f"{lang}-{number}" / "bases" / lang for number in range(PARTS)]
    pack_checkpoint(source, texts + examples.premises + examples.hypotheses, places)


def pack_sweeps(out: Path, lang: str) -> None:
    """Sweeps for the journey, with the models they have."""
    (out / f"{lang}-0").mkdir(exist_ok=True)
    with tarfile.open(out / f"{lang}-0" / f"sweeps-{lang}.tar.xz", "w:xz", preset=1) as archive:
        for order in ORDERS:
            archive.add(out / "sweeps" / f"{lang}-{order}", arcname=f"{lang}-{order}")


def run(given: argparse.Namespace) -> None:
    """Train what is missing, one process per language; end them at the time limit and pack what there is."""
    ends = time.monotonic() + given.time_limit
    given.out.mkdir(parents=True, exist_ok=True)
    (given.work / "sweeps").mkdir(parents=True, exist_ok=True)
    workers = {}
    for lang in given.langs.split(","):
        command = [sys.executable, "-m", "studies.meta.table2", "worker", str(given.source)]
        command += ["--lang", lang, "--work", str(given.work)]
        log = (given.out / f"{lang}.log").open("w")
        more = ["--device", given.device] if given.device else []
        workers[lang] = subprocess.Popen([*command, *more], stdout=log, stderr=subprocess.STDOUT)
    while any(worker.poll() is None for worker in workers.values()) and time.monotonic() < ends:
        time.sleep(1)
    stop_and_pack(workers, given.work, given.out)


def work_on(source: Path, work: Path, lang: str, device: str | None) -> None:
    """Train both sweeps of a language, one seed of both after the other: what there is can be scored early."""
    from evenli.training.meta import MetaFolder, SweepSettings
    from evenli.training.meta.training import train_sweep

    base = make_ready(source, work, lang, device)
    for count in range(1, len(SEEDS) + 1):
        for order in ORDERS:
            print(f"{lang}-{order}, {count} seed(s): {RECIPE}", flush=True)
            folder = MetaFolder(work / "sweeps" / f"{lang}-{order}")
            train_sweep(folder, str(base), SweepSettings(SEEDS[:count], RECIPE, device=device))


def make_ready(source: Path, work: Path, lang: str, device: str | None) -> Path:
    """Unpack base and sweeps of a language, and fine-tune the base on NLI; what is there stays."""
    from evenli.training.nli import TrainSettings, train
    from evenli.training.recipe import make_recipe

    with tarfile.open(next(iter(source.glob(f"*/sweeps-{lang}.tar.xz")))) as archive:
        archive.extractall(work / f"unpacking-{lang}", filter="data")
    for order in ORDERS:
        if not (work / "sweeps" / f"{lang}-{order}").exists():
            (work / f"unpacking-{lang}" / f"{lang}-{order}").replace(work / "sweeps" / f"{lang}-{order}")
    shutil.rmtree(work / f"unpacking-{lang}")
    base = unpack(source, lang, work / "bases" / lang)
    if lang not in NLI:
        return base
    file, tuned = next(iter(source.glob(f"*/nli-{lang}.jsonl.xz"))), work / "bases" / f"{lang}-nli"
    recipe = make_recipe("coal", epochs=1 if lang == "en" else 3)
    train(str(base), [file], tuned, recipe=recipe, settings=TrainSettings(style="hf", device=device))
    return tuned


def table(source: Path) -> None:
    """Correlations with the bias rate, beside the published ones, as Markdown."""
    from evenli.core.errors import RunError
    from evenli.training.meta import MetaFolder
    from evenli.training.meta.scoring import score_sweep

    heads = ("sweep", "rates", "seeds", "learnt", "NLI-CoAL", "its rise", "FN score", "its rise", "published: both")
    print(f"| {' | '.join(heads)} |\n|" + " --- |" * len(heads))
    for lang in RELEASES:
        for order in ORDERS:
            try:
                result = score_sweep(MetaFolder(source / "sweeps" / f"{lang}-{order}"))
            except RunError as error:
                print(f"{lang}-{order}: {error}", file=sys.stderr)
                continue
            cells = []
            for name in ("coal", "fn_bias"):
                axis = result[name].axis["bias"]
                one, scores = axis.pearson, axis.scores.mean(axis=0)
                interval = "" if math.isnan(one.low) else f" [{one.low:.3f}, {one.high:.3f}]"  # one seed has none
                cells.append("no corr." if math.isnan(one.value) else f"{one.value:.3f}{interval}, p {one.p:.4f}")
                cells.append(f"{scores[-1] - scores[0]:+.3f}")
            printed = "; ".join(f"{row['coal_corr']}, {row['fn_corr']}" for row in result.published)
            learnt = f"{result.held_out_accuracy['lowest']:.3f}"
            about = [f"{lang}-{order}", str(axis.scores.shape[1]), str(len(result.seeds)), learnt]
            print(f"| {' | '.join([*about, *cells, printed])} |")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    one = steps.add_parser("prepare")
    one.add_argument("out", type=Path)
    one.add_argument("--data", type=Path, required=True, help="folder of the public data")
    one.add_argument("--base", action="append", default=[], help="LANG=CHECKPOINT; packed where given")
    two = steps.add_parser("run")
    worker = steps.add_parser("worker")
    for one in (two, worker):
        one.add_argument("source", type=Path)
        one.add_argument("--work", type=Path, default=Path("runs/table2"))
        one.add_argument("--device")
    two.add_argument("--out", type=Path, required=True)
    two.add_argument("--time-limit", type=float, default=520, help="seconds")
    two.add_argument("--langs", default="en,zh,ja")
    worker.add_argument("--lang", required=True)
    one = steps.add_parser("collect")
    one.add_argument("archive", type=Path)
    one.add_argument("source", type=Path)
    steps.add_parser("table").add_argument("source", type=Path)
    given = parser.parse_args()
    if given.step == "prepare":
        prepare(given.out, given.data, {lang: Path(path) for lang, path in (one.split("=", 1) for one in given.base)})
    elif given.step == "run":
        run(given)
    elif given.step == "worker":
        work_on(given.source, given.work, given.lang, given.device)
    elif given.step == "collect":
        collect(given.archive, given.source)
        for lang in RELEASES:
            pack_sweeps(given.source, lang)
    else:
        table(given.source)


if __name__ == "__main__":
    main()
