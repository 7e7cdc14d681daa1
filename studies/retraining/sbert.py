"""Section 6 of Dolci et al. 2023: sentence transformers that are tuned on a fairer corpus. Are they fairer?

A base is tuned as SBERT was (Reimers and Gurevych 2019): on STS-B by the cosine of both sentences, or on MNLI by a
softmax over (u, v, |u - v|). The corpora are the training part as it is, without its most biased pairs (Sub95), with
swapped copies of them (Aug95), and the controls of both, in which chance picks as many pairs: Random95 and
RandomAug95, drawn three times. The pairs are scored by the base alone, as in the paper. SEAT and STS follow.

    python -m studies.retraining.sbert corpora --data DATA --base minilm=FOLDER --task stsb mnli -o study
    python -m studies.retraining.sbert run --base minilm=FOLDER mpnet=FOLDER --task stsb mnli -o study --device cuda
    python -m studies.retraining.sbert collect -o study --into studies/retraining

DATA has the folders senteval (stsb-en-train.csv …, STS12.tsv …) and mnli. ``corpora`` and ``collect`` need evenli and
no GPU. ``run`` needs torch, transformers and numpy alone, and of ``study`` the folders ``corpora`` and ``asked``; it
leaves out what is there already and can be stopped at any time. Of a tuned model the embeddings of the SEAT sentences
(float16) and the cosines of the STS pairs are kept, so that ``collect`` can score them again. A trial on a CPU:

    python -m studies.retraining.sbert corpora --data DATA --base tiny=FOLDER --task stsb -o trial --limit 400
    python -m studies.retraining.sbert run --base tiny=FOLDER --task stsb -o trial --seeds 1 2 --epochs 1
    python -m studies.retraining.sbert collect -o trial --into trial
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import multiprocessing
import queue
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from studies.retraining.sbert_encoder import LABELS, LONGEST, SentenceEncoder

KINDS = ("Original", "Sub95", "Aug95", "Random95", "RandomAug95")
BASE = "Base"
"""The base as it is, without any tuning."""
PERCENTILE = 95
DRAWS = 3
"""Corpora of a random control; a seed takes one of them."""
TASKS = ("stsb", "mnli")
EPOCHS = {"stsb": 4, "mnli": 1}
STS = ("STS12", "STS13", "STS14")
CONTROLS = {"Sub95": "Random95", "Aug95": "RandomAug95"}
SEAT = ("C6", "C6b", "C7", "C7b", "C8", "C8b")


def main() -> None:
    """Run one of the steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("corpora", "run", "collect"))
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, help="folder with senteval and mnli")
    parser.add_argument("--base", nargs="+", default=[], metavar="NAME=FOLDER", help="encoders; the first one scores")
    parser.add_argument("--task", nargs="+", choices=TASKS, default=list(TASKS), help="what to tune on")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--only", nargs="+", choices=(BASE, *KINDS), help="kinds of encoders; default: all")
    parser.add_argument("--pooling", choices=("mean", "max"), default="mean", help="of the tuned encoder")
    parser.add_argument("--epochs", type=int, help="default: 4 for stsb, 1 for mnli")
    parser.add_argument("--jobs", type=int, default=1, help="models trained side by side")
    parser.add_argument("--stop-after", type=float, default=float("inf"), help="seconds after which no model is begun")
    parser.add_argument("--limit", type=int, help="pairs of a corpus, for a trial")
    parser.add_argument("--device", help="default: cuda where there is one")
    parser.add_argument("--into", type=Path, help="folder of the collected figures")
    arguments = parser.parse_args()
    arguments.bases = dict(one.split("=", 1) for one in arguments.base)
    {"corpora": corpora, "run": run, "collect": collect}[arguments.step](arguments)


def corpora(arguments: argparse.Namespace) -> None:
    """Score the training pairs of the tasks with the first base alone, make all corpora, and write what is asked."""
    from evenli.corpus.mitigation.corpora import fairer_corpus
    from evenli.corpus.mitigation.selection import CorpusSettings
    from evenli.corpus.scoring import score

    out, scorer = arguments.out, f"hf:{next(iter(arguments.bases.values()))}"
    for folder in ("corpora", "asked", "work"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    write_asked(arguments.data, out / "asked")
    for task in arguments.task:
        rows = list(training_rows(arguments.data, task))[: arguments.limit]
        source = out / "corpora" / f"{task}-Original.jsonl"
        write_rows(source, rows)
        began = time.perf_counter()
        scored = score(source, out / "work" / f"{task}-scored", encoder=scorer, device=arguments.device)
        print(f"{task}: {len(rows):,} pairs scored in {time.perf_counter() - began:.0f} s", flush=True)
        for kind in KINDS[1:]:
            method: Any = "augment" if "Aug" in kind else "subtract"
            for draw in range(DRAWS if "Random" in kind else 1):
                name = corpus_name(task, kind, draw)
                settings = CorpusSettings(PERCENTILE, mode="paper", split=None, seed=draw, random="Random" in kind)
                corpus = fairer_corpus(method, scored, out / "work" / name, settings, overwrite=True)
                text = (corpus.path / "corpus.jsonl").read_text(encoding="utf-8")
                (out / "corpora" / f"{name}.jsonl").write_text(text, encoding="utf-8")
                counts = corpus.card.counts
                print(f"{name}: {counts.removed} removed, {counts.added} added, {counts.result:,} pairs")


def corpus_name(task: str, kind: str, draw: int) -> str:
    """Name of a corpus; only the random controls were drawn several times."""
    return f"{task}-{kind}-{draw}" if "Random" in kind else f"{task}-{kind}"


def training_rows(data: Path, task: str) -> Iterator[dict[str, Any]]:
    """The pairs to tune on: sentence1, sentence2, and a similarity from 0 to 1 or a label."""
    if task == "stsb":
        from evenli.encoders.senteval.data import read_task

        whole = read_task("STSB", data / "senteval")
        for row in whole.splits["train"].tolist():
            value = float(whole.scores[row]) / 5  # type: ignore[index]
            yield {"sentence1": whole.texts[row], "sentence2": whole.others[row], "similarity": round(value, 4)}
        return
    from evenli.core.io import read_rows

    (file,) = (data / "mnli").glob("mnli_train*")
    for row in read_rows(file):
        # One row has the rest of its document behind the premise; no encoder would read it.
        if row["label"] in LABELS and len(row["sentence1"].split()) <= LONGEST:
            yield {name: row[name] for name in ("sentence1", "sentence2", "label")}


def write_asked(data: Path, folder: Path) -> None:
    """What every tuned encoder is asked: the sentences of SEAT, and STS pairs with their human scores."""
    from evenli.encoders.seat import choose_tests, texts_of
    from evenli.encoders.senteval.data import read_task

    (folder / "seat.json").write_text(json.dumps(texts_of(choose_tests(list(SEAT)))), encoding="utf-8")
    for name in ("STSB", *STS):
        task = read_task(name, data / "senteval")
        rows = task.splits["test"]
        parts = {"all": rows} if name == "STSB" else task.subsets
        subset = {int(row): part for part, members in parts.items() for row in members}
        content = {
            "first": [task.texts[row] for row in rows],
            "second": [task.others[row] for row in rows],
            "score": [float(task.scores[row]) for row in rows],  # type: ignore[index]
            "subset": [subset[int(row)] for row in rows],
        }
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


def write_rows(file: Path, rows: Sequence[dict[str, Any]]) -> None:
    """One JSON object a line."""
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def run(arguments: argparse.Namespace) -> None:
    """Tune and ask all encoders, one seed of all kinds after the other."""
    began = time.monotonic()
    (arguments.out / "answers").mkdir(exist_ok=True)
    kinds = arguments.only or (BASE, *KINDS)
    wanted = [(base, BASE, BASE, 0) for base in arguments.bases if BASE in kinds]
    wanted += [
        (base, task, kind, seed)
        for seed in arguments.seeds
        for base in arguments.bases
        for task in arguments.task
        for kind in kinds
        if kind != BASE
    ]
    left = [one for one in wanted if not answers_file(arguments.out, *one).exists()]
    print(f"{len(wanted) - len(left)} of {len(wanted)} encoders are done", flush=True)
    if arguments.jobs == 1:
        for one in left:
            if time.monotonic() - began < arguments.stop_after:
                one_encoder(arguments, *one)
        return
    context = multiprocessing.get_context("spawn")
    tasks = context.Queue()
    for one in left:
        tasks.put(one)
    end = began + arguments.stop_after
    workers = [context.Process(target=work, args=(arguments, tasks, end)) for _ in range(arguments.jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        raise SystemExit("a worker failed; the same command continues")


def work(arguments: argparse.Namespace, tasks: Any, end: float) -> None:
    """Take tasks until there are none, or no time."""
    while time.monotonic() < end:
        try:
            one = tasks.get(timeout=1)
        except queue.Empty:
            return
        one_encoder(arguments, *one)


def answers_file(out: Path, base: str, task: str, kind: str, seed: int) -> Path:
    """Where the answers of an encoder are."""
    return out / "answers" / f"{base}+{task}+{kind}+{seed}.npz"


def one_encoder(arguments: argparse.Namespace, base: str, task: str, kind: str, seed: int) -> None:
    """Tune a base on a corpus, and keep what it says to SEAT and STS; its weights are not kept."""
    out, began = arguments.out, time.perf_counter()
    encoder = SentenceEncoder(arguments.bases[base], arguments.pooling, arguments.device, seed)
    loss = math.nan
    if kind != BASE:
        name = corpus_name(task, kind, seed % DRAWS)
        lines = (out / "corpora" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        loss = encoder.tune(rows, task, arguments.epochs or EPOCHS[task])
    seconds = time.perf_counter() - began
    texts = json.loads((out / "asked" / "seat.json").read_text(encoding="utf-8"))
    answers: dict[str, Any] = {"seat": encoder.encode(texts).astype(np.float16)}
    for name in ("STSB", *STS):
        asked = json.loads((out / "asked" / f"{name}.json").read_text(encoding="utf-8"))
        pairs = (encoder.encode(asked[side]) for side in ("first", "second"))
        first, second = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in pairs)
        answers[name] = (first * second).sum(axis=1).astype(np.float32)
    file = answers_file(out, base, task, kind, seed)
    partial = file.with_name(file.name + ".partial")
    with partial.open("wb") as sink:
        np.savez_compressed(sink, loss=loss, seconds=seconds, **answers)
    partial.replace(file)
    print(f"{base} {task} {kind} seed {seed}: loss {loss:.4f}, {seconds:.1f} s", flush=True)


def collect(arguments: argparse.Namespace) -> None:
    """SEAT and STS of all encoders as sbert_study.csv, and a table of every base and task on the terminal."""
    tests, texts, asked = read_asked(arguments.out / "asked")
    rows = []
    for file in sorted((arguments.out / "answers").glob("*.npz")):
        base, task, kind, seed = file.stem.split("+")
        with np.load(file) as answers:
            facts = {
                "base": base,
                "task": task,
                "kind": kind,
                "seed": int(seed),
                "loss": f"{float(answers['loss']):.4f}",
            }
            rows.append({**facts, **scores(tests, texts, asked, answers)})
    order = (BASE, *KINDS)
    rows.sort(key=lambda row: (row["base"], row["task"], order.index(row["kind"]), row["seed"]))
    arguments.into.mkdir(parents=True, exist_ok=True)
    with (arguments.into / "sbert_study.csv").open("w", encoding="utf-8", newline="") as sink:
        writer = csv.DictWriter(sink, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for line in tables(rows):
        print(line)


def read_asked(folder: Path) -> tuple[Any, list[str], dict[str, dict[str, Any]]]:
    """The tests of SEAT, their texts in the order of the answers, and the STS pairs with their scores."""
    from evenli.encoders.seat import choose_tests

    texts = json.loads((folder / "seat.json").read_text(encoding="utf-8"))
    asked = {name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in ("STSB", *STS)}
    return choose_tests(list(SEAT)), texts, asked


def scores(tests: Any, texts: list[str], asked: dict[str, dict[str, Any]], answers: Any) -> dict[str, str]:
    """Effects of SEAT, their signed mean, and rank correlations with the human scores of STS in percent."""
    from evenli.encoders.seat import SeatSettings, seat_from_vectors
    from evenli.encoders.senteval.fitting import spearman

    vectors = dict(zip(texts, answers["seat"].astype(np.float32), strict=True))
    # Only effects are used here: the fewest draws that are allowed do.
    result = seat_from_vectors(tests, vectors, SeatSettings(permutations=100, resamples=0))
    figures = {one.name: f"{one.effect.value:.4f}" for one in result.tests}
    figures["SEAT"] = f"{result.mean.signed:.4f}"
    for name, content in asked.items():
        gold, subsets = np.array(content["score"]), np.array(content["subset"])
        parts = [subsets == part for part in dict.fromkeys(content["subset"])]
        each = [spearman(answers[name][part].astype(np.float64), gold[part]) for part in parts]
        figures[name] = f"{100 * np.average(each, weights=[part.sum() for part in parts]):.2f}"
    return figures


def tables(rows: list[dict[str, Any]]) -> Iterator[str]:
    """One table for every base and task: means over seeds, and differences with 95 % intervals over seeds."""
    untuned = {row["base"]: row for row in rows if row["kind"] == BASE}
    groups: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["kind"] != BASE:
            groups[row["base"], row["task"]][row["kind"]].append(row)
    for (base, task), kinds in groups.items():
        yield f"{base}, tuned on {task}\n"
        heads = ("corpus", "seeds", "SEAT", "against Original", "p, Holm", "against its control", "STS-B")
        heads = (*heads, "against Original")
        corrected = p_values(kinds)
        yield f"| {' | '.join((*heads, *STS))} |"
        yield "| --- |" + " --- |" * (len(heads) + len(STS) - 1)
        if base in untuned:
            one = untuned[base]
            plain = [f"{float(one[name]):.1f}" for name in STS]
            yield f"| not tuned | | {float(one['SEAT']):.2f} | | | | {float(one['STSB']):.1f} | | {' | '.join(plain)} |"
        for kind, members in kinds.items():
            control = kinds.get(CONTROLS.get(kind, ""), [])
            others = [difference(kinds, "SEAT", members, some) for some in (kinds["Original"], control)]
            own = ["", "", ""] if kind == "Original" else [others[0], corrected[kind], others[1]]
            closer = "" if kind == "Original" else difference(kinds, "STSB", members, kinds["Original"])
            cells = [
                kind,
                str(len(members)),
                f"{mean(members, 'SEAT'):.2f}",
                *own,
                f"{mean(members, 'STSB'):.1f}",
                closer,
            ]
            yield f"| {' | '.join([*cells, *(f'{mean(members, name):.1f}' for name in STS)])} |"
        yield ""


def mean(rows: list[dict[str, Any]], name: str) -> float:
    """Mean of a figure."""
    return float(np.mean([float(row[name]) for row in rows]))


def difference(
    kinds: dict[str, list[dict[str, Any]]], name: str, first: list[dict[str, Any]], second: list[dict[str, Any]]
) -> str:
    """Difference of two means ± half its 95 % interval, from the spread between seeds pooled over all kinds."""
    if not first or not second:
        return ""
    from scipy import stats

    gap = mean(first, name) - mean(second, name)
    deviation, freedom = spread(kinds, name)
    if freedom < 1:
        return f"{gap:+.2f}"
    width = float(stats.t.ppf(0.975, freedom)) * deviation * math.sqrt(1 / len(first) + 1 / len(second))
    return f"{gap:+.2f} ± {width:.2f}"


def spread(kinds: dict[str, list[dict[str, Any]]], name: str) -> tuple[float, int]:
    """Standard deviation between the seeds of a kind, pooled over all kinds, and its degrees of freedom."""
    values = [[float(row[name]) for row in rows] for rows in kinds.values()]
    freedom = sum(len(one) - 1 for one in values)
    total = sum(float(np.var(one)) * len(one) for one in values)
    return math.sqrt(total / freedom) if freedom else math.nan, freedom


def p_values(kinds: dict[str, list[dict[str, Any]]]) -> dict[str, str]:
    """For every kind whether its SEAT is that of Original, corrected for the number of kinds."""
    from scipy import stats

    from evenli.stats.intervals import holm

    deviation, freedom = spread(kinds, "SEAT")
    original, others = kinds["Original"], [kind for kind in kinds if kind != "Original"]
    if freedom < 1 or not original:
        return dict.fromkeys(others, "")
    p = []
    for kind in others:
        size = deviation * math.sqrt(1 / len(kinds[kind]) + 1 / len(original))
        p.append(float(2 * stats.t.sf(abs(mean(kinds[kind], "SEAT") - mean(original, "SEAT")) / size, freedom)))
    return {kind: f"{value:.2g}" for kind, value in zip(others, holm(p), strict=True)}


if __name__ == "__main__":
    main()
