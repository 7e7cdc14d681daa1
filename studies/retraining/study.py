"""The experiment of Dolci et al. 2023 on a part of SNLI: does a fairer corpus make a fairer encoder, and at what cost?

BiLSTM-max encoders are trained on the corpus as it is, without its most biased pairs (Sub97 to Sub90), with swapped
copies of them (Aug97 to Aug90), without as many pairs drawn at random, and on the corpus as it is with hard-debiased
and with merely normalised word vectors, each with several seeds. SEAT and SentEval follow.

    python -m studies.retraining.study corpora --snli DIR --vectors glove.txt -o study
    python -m studies.retraining.study run --vectors glove.txt --senteval DIR -o study --jobs 3
    python -m studies.retraining.study collect -o study --into src/evenli/words/data

With other pairs in the folder of SNLI the corpus is larger; ``collect --stem NAME`` keeps its tables apart.
``--draws 3`` makes every corpus three times, with other splits and other random controls; seed s trains on draw s
modulo 3.
Every step leaves out what is there already. Written for a GPU; `--hidden 64 --limit 2000` tries it on a CPU.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import multiprocessing
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from evenli.core.io import find_columns, read_rows
from evenli.encoders.vectors import WordVectors, load_vectors

SEEDS = (1, 2, 3)
LONGEST = 50
"""Words of a sentence; a pair with a longer one is left out: of SNLI one in two thousand, of MNLI, where one row has
32,860 words, one in 24. A step of the training takes as long as its longest sentence."""
TABLE3 = {
    "beauty pageant wearing black clothing": 0.134793,
    "middle-aged blonde hula hooping": 0.127903,
    "a blonde child is wearing a pink bikini": 0.125145,
    "a showgirl is applying makeup": 0.123312,
    "the bikini is pink": 0.121159,
    "football players scoring touchdowns": -0.149844,
    "football players playing defense": -0.140169,
    "a defensive player almost intercepted the football from the quarterback": -0.139420,
    "baseball players": -0.138058,
    "dodgers player playing baseball": -0.136282,
}
"""Most biased sentences of SNLI as printed by Dolci et al. 2023, in lower case."""


def main() -> None:
    """Run one of the steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("corpora", "run", "collect"))
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--snli", type=Path, help="folder with SNLI files")
    parser.add_argument("--vectors", type=Path, help="GloVe")
    parser.add_argument("--senteval", type=Path, help="folder with the task files; without it SEAT alone is measured")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument(
        "--draws", type=int, default=1, help="how often every corpus is made; give the same to all steps"
    )
    parser.add_argument("--only", nargs="+", help="kinds of encoders; default: all")
    parser.add_argument("--jobs", type=int, default=1, help="models trained side by side")
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--limit", type=int, help="pairs of the corpus, for a trial")
    parser.add_argument("--stop-after", type=float, default=float("inf"), help="seconds after which no model is begun")
    parser.add_argument("--device", default=None)
    parser.add_argument("--into", type=Path, help="folder of the collected figures")
    parser.add_argument("--stem", default="retraining", help="how the names of the collected tables begin")
    arguments = parser.parse_args()
    {"corpora": corpora, "run": run, "collect": collect}[arguments.step](arguments)


def names() -> list[str]:
    """All kinds of encoders; those that answer the question come first, in case time runs out."""
    first = ["Original", "HD", "Normalised", "Sub95", "Aug90", "Random95", "Sub90", "Aug95"]
    return [*first, "AugRandom95", "Sub97", "Aug97", "Sub93", "Aug93"]


def corpus_folder(out: Path, name: str, draw: int) -> Path:
    """Where a corpus lies; the first draw has the plain name."""
    return out / "corpora" / (f"{name}@{draw}" if draw else name)


def corpora(arguments: argparse.Namespace) -> None:
    """Pool the SNLI files, train the encoder whose importance scores them, score, and make all corpora."""
    from evenli.corpus.bias import BiasScorer
    from evenli.corpus.importance import MaxPooled
    from evenli.corpus.run import ReadSettings, score_corpus
    from evenli.encoders.bilstm import BiLSTMMax
    from evenli.encoders.direction import gender_direction

    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    pooled = out / "snli.jsonl"
    if not pooled.exists():
        pool(arguments.snli, pooled, arguments.limit)
    vectors = load_vectors(arguments.vectors)
    direction = gender_direction(vectors, "ten")
    if not (out / "plain" / "done").exists():
        score_corpus(pooled, out / "plain", BiasScorer(vectors, direction))
        (out / "plain" / "done").touch()
    draws = range(arguments.draws)
    make_corpora(arguments, out / "plain", [("Original", draw) for draw in draws])
    if not (out / "scored" / "done").exists():
        scoring = out / "scoring"
        train(arguments, corpus_folder(out, "Original", 0), vectors, scoring, seed=0)
        encoder = BiLSTMMax.load(scoring, vectors=vectors, device=arguments.device)
        began = time.perf_counter()
        scorer = BiasScorer(vectors, direction, weights=MaxPooled(encoder))
        score_corpus(pooled, out / "scored", scorer, ReadSettings(batch=8192))
        print(f"scored in {time.perf_counter() - began:.1f} s", flush=True)
        (out / "scored" / "done").touch()
    wanted = [name for name in arguments.only or names() if name not in {"Original", "HD", "Normalised"}]
    make_corpora(arguments, out / "scored", [(name, draw) for name in wanted for draw in draws])


def make_corpora(arguments: argparse.Namespace, scored: Path, wanted: list[tuple[str, int]]) -> None:
    """Make the corpora that are missing, ``--jobs`` at a time."""
    missing = [(arguments, scored, *one) for one in wanted if not corpus_folder(arguments.out, *one).exists()]
    with multiprocessing.get_context("spawn").Pool(min(arguments.jobs, len(missing)) or 1) as workers:
        workers.starmap(make_corpus, missing, chunksize=1)


def make_corpus(arguments: argparse.Namespace, scored: Path, name: str, draw: int) -> None:
    """One corpus out of the scored pairs. Its name says how: a method, perhaps ``Random``, and a percentile."""
    from evenli.corpus.mitigation.corpora import fairer_corpus
    from evenli.corpus.mitigation.selection import CorpusSettings, Split
    from evenli.corpus.scored import CorpusScores

    split = Split() if arguments.limit is None else Split(dev=arguments.limit // 12, test=arguments.limit // 12)
    # Nothing scores above the hundredth percentile, whatever the scores: the corpus as it is, split anew.
    percentile = 100 if name == "Original" else int(name[-2:])
    mode = "paper" if name.startswith("Aug") else "default"
    settings = CorpusSettings(percentile, mode=mode, split=split, seed=draw, random="Random" in name)
    method = "augment" if name.startswith("Aug") else "subtract"
    fairer_corpus(method, CorpusScores.read(scored), corpus_folder(arguments.out, name, draw), settings)


def pool(folder: Path, target: Path, limit: int | None) -> None:
    """All pairs of all files under the same three column names."""
    lines = []
    for file in sorted(folder.glob("*.jsonl*")):
        rows = read_rows(file)
        columns = find_columns(rows[0], file)
        wanted = {"premise": columns["premise"], "hypothesis": columns["hypothesis"], "label": columns["gold"]}
        kept = [{name: row[column] for name, column in wanted.items()} for row in rows]
        kept = [row for row in kept if all(len(str(text).split()) <= LONGEST for text in row.values())]
        lines += [json.dumps(row, ensure_ascii=False) for row in kept]
    partial = target.with_suffix(".partial")
    partial.write_text("\n".join(lines[:limit]) + "\n", encoding="utf-8")
    partial.replace(target)


def train(arguments: argparse.Namespace, data: Path, vectors: WordVectors, out: Path, seed: int) -> Any:
    """One encoder."""
    from evenli.training.bilstm import EncoderSettings, train_encoder
    from evenli.training.data import read_examples
    from evenli.training.recipe import EncoderRecipe

    return train_encoder(
        vectors,
        read_examples([data / "train.jsonl"]),
        read_examples([data / "dev.jsonl"]),
        out,
        recipe=EncoderRecipe(hidden=arguments.hidden, epochs=arguments.epochs),
        seed=seed,
        settings=EncoderSettings(device=arguments.device, checkpoints=False),
    )


def run(arguments: argparse.Namespace) -> None:
    """Train and evaluate all encoders, one seed of all kinds after the other."""
    began = time.monotonic()
    (arguments.out / "results").mkdir(exist_ok=True)
    wanted = [(name, seed) for seed in arguments.seeds for name in arguments.only or names()]
    left = [one for one in wanted if not result_file(arguments.out, *one).exists()]
    print(f"{len(wanted) - len(left)} of {len(wanted)} encoders are done", flush=True)
    context = multiprocessing.get_context("spawn")
    tasks = context.Queue()
    for one in left:
        tasks.put(one)
    workers = [
        context.Process(target=work, args=(arguments, tasks, began + arguments.stop_after))
        for _ in range(arguments.jobs)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        raise SystemExit("a worker failed; the same command continues")


def work(arguments: argparse.Namespace, tasks: Any, end: float) -> None:
    """Take tasks until there are none, or no time."""
    import queue

    vectors = load_vectors(arguments.vectors)
    while time.monotonic() < end:
        try:
            name, seed = tasks.get(timeout=1)
        except queue.Empty:
            return
        result = one_encoder(arguments, vectors, name, seed)
        file = result_file(arguments.out, name, seed)
        file.with_suffix(".partial").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        file.with_suffix(".partial").replace(file)
        print(
            f"{name} seed {seed}: dev {result['dev']:.4f}, SEAT {result['seat_average']:.3f}, "
            f"SentEval {result['overall']}, {result['seconds']}",
            flush=True,
        )


def one_encoder(arguments: argparse.Namespace, vectors: WordVectors, name: str, seed: int) -> dict[str, Any]:
    """Train one encoder and measure it; its weights are not kept."""
    from evenli.encoders.bilstm import BiLSTMMax
    from evenli.encoders.direction import gender_direction
    from evenli.encoders.hard_debias import hard_debias, normalised
    from evenli.encoders.seat import seat
    from evenli.encoders.senteval import SentEvalSettings, senteval
    from evenli.training.data import read_examples
    from studies.retraining.accuracy import nli_accuracy

    draw = seed % arguments.draws
    data = corpus_folder(arguments.out, "Original" if name in {"HD", "Normalised"} else name, draw)
    if name == "HD":
        vectors = hard_debias(vectors, gender_direction(vectors, "ten"))
    elif name == "Normalised":
        vectors = normalised(vectors)
    folder = arguments.out / "encoders" / f"{name}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    clock = [time.perf_counter()]
    outcome = train(arguments, data, vectors, folder, seed)
    clock.append(time.perf_counter())
    test = nli_accuracy(folder, read_examples([data / "test.jsonl"]), vectors=vectors, device=arguments.device)
    encoder = BiLSTMMax.load(folder, vectors=vectors, device=arguments.device)
    effects = seat(encoder)
    clock.append(time.perf_counter())
    tasks: dict[str, Any] = {"senteval": None, "overall": None}
    if arguments.senteval:
        scores = senteval(encoder, arguments.senteval, SentEvalSettings(device=arguments.device))
        tasks = {"senteval": scores.to_dict(), "overall": scores.overall}
    clock.append(time.perf_counter())
    shutil.rmtree(folder)
    return {
        "name": name,
        "seed": seed,
        "draw": draw,
        "pairs": outcome.pairs,
        "dev": outcome.dev,
        "test": test,
        "best": outcome.best,
        "history": [[one.loss, one.train, one.dev, round(one.seconds, 2)] for one in outcome.history],
        "seat": [one.to_dict() for one in effects.tests],
        "seat_average": effects.mean.signed,
        **tasks,
        "seconds": [round(b - a, 1) for a, b in itertools.pairwise(clock)],
    }


def result_file(out: Path, name: str, seed: int) -> Path:
    """Where the figures of an encoder are."""
    return out / "results" / f"{name}-{seed}.json"


def collect(arguments: argparse.Namespace) -> None:
    """The figures of all encoders, of the corpora, and of the printed sentences that the corpus has, as tables."""
    files = sorted((arguments.out / "results").glob("*.json"))
    results = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    results.sort(key=lambda one: (names().index(one["name"]), one["seed"]))
    stem = arguments.stem
    write(arguments.into / f"{stem}.csv", [figures(result) for result in results])
    cards = []
    for name, draw in itertools.product(names(), range(arguments.draws)):
        file = corpus_folder(arguments.out, name, draw) / "card.json"
        if file.exists() and name != "Original":
            card = json.loads(file.read_text(encoding="utf-8"))
            threshold = f"{card['threshold']['value']:.5f}"
            cards.append({"corpus": name, "draw": draw, "threshold": threshold, **row_counts(card["counts"])})
    write(arguments.into / f"{stem}_corpora.csv", cards)
    # The scored corpus is large and may have stayed where it was made.
    if (arguments.out / "scored").exists():
        write(arguments.into / f"{stem}_scores.csv", printed_sentences(arguments.out / "scored"))
    print(f"{len(results)} encoders, {len(cards)} corpora")


def figures(result: dict[str, Any]) -> dict[str, Any]:
    """One encoder in one row: accuracies, SEAT effects, SentEval scores."""
    seat = {one["name"]: f"{one['effect']['value']:.4f}" for one in result["seat"]}
    tasks = {name: f"{one['score']:.2f}" for name, one in (result["senteval"] or {"tasks": {}})["tasks"].items()}
    facts = {
        "encoder": result["name"],
        "seed": result["seed"],
        "draw": result["draw"],
        "epochs": len(result["history"]),
    }
    shares = {name: f"{100 * result[name]:.2f}" for name in ("dev", "test")}
    return {**facts, "pairs": result["pairs"], **shares, **seat, **tasks}


def row_counts(counts: dict[str, Any]) -> dict[str, int]:
    """What was done to a corpus."""
    kept = {name: counts[name] for name in ("above_threshold", "removed", "added")}
    return {**kept, "train": counts["splits"]["train"]}


def printed_sentences(folder: Path) -> list[dict[str, Any]]:
    """The score of every sentence of the paper's Table 3 that is there, and the share of texts beyond it."""
    from evenli.corpus.scored import CorpusScores

    sides: dict[str, list[Any]] = {"F": [], "M": []}
    scored: dict[str, float] = {}
    for frame in CorpusScores.read(folder).frames():
        rows = [json.loads(row) for row in frame["original"]]
        for column in ("premise", "hypothesis"):
            scores = {side: frame[f"{column}_{side}"].to_numpy() for side in sides}
            for side, values in scores.items():
                sides[side].append(values)
            for at, row in enumerate(rows):
                text = row[column].rstrip(" .").lower()
                if text in TABLE3:
                    scored[text] = float(scores["F" if TABLE3[text] > 0 else "M"][at])
    printed = []
    for text, value in scored.items():
        every = np.abs(np.concatenate(sides["F" if TABLE3[text] > 0 else "M"]))
        share = float((every > abs(value)).mean())
        printed.append({"sentence": text, "printed": TABLE3[text], "ours": f"{value:.5f}", "beyond": f"{share:.5f}"})
    every = np.concatenate([frame["pair_max"].to_numpy() for frame in CorpusScores.read(folder).frames(["pair_max"])])
    return [
        *printed,
        {"sentence": "(highest of all)", "printed": 0.1498, "ours": f"{every.max():.5f}", "beyond": 0},
    ]


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """A table as CSV."""
    with path.open("w", encoding="utf-8", newline="") as sink:
        writer = csv.DictWriter(sink, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
