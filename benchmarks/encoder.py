"""Speed of the BiLSTM-max encoder on real SNLI sentences: encoding, word importance, and an epoch of training.

    PYTHONPATH=src python benchmarks/encoder.py --data snli_1.0_train_first100k.jsonl.xz

2 x 2048 by default, random vectors of 300 numbers for the words of the data (speed does not depend on them). Prints
sentences per second, milliseconds per training step and what an epoch of all of SNLI takes at that rate, then checks
on some sentences that batches give what single sentences give. Encoding and scoring begin with plain text. On a CPU
take few: --sentences 64 --steps 2.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evenli.corpus.bias import BiasScorer
from evenli.corpus.importance import MaxPooled
from evenli.encoders.bilstm import DTYPES, BiLSTMMax
from evenli.encoders.direction import gender_direction
from evenli.encoders.vectors import WordVectors
from evenli.training.data import Examples, read_examples
from evenli.training.fast.bilstm import make_trainer
from evenli.training.recipe import EncoderRecipe
from evenli.words.lists import split_words

SNLI = 549_367
BATCH = 8192
PAIRS = (("woman", "man"), ("girl", "boy"), ("she", "he"), ("mother", "father"), ("her", "his"))
TOLERANCE = {"float32": 1e-5, "tf32": 2e-3, "float16": 1e-2}


def main() -> None:
    """Measure and print."""
    arguments = parse()
    device = arguments.device
    name = torch.cuda.get_device_name() if device.startswith("cuda") else f"CPU, {torch.get_num_threads()} thread(s)"
    print(f"device: {name}, torch {torch.__version__}", flush=True)
    examples = read_examples([arguments.data])
    vectors = random_vectors(examples, arguments.dimension)
    figures: dict[str, Any] = {"device": name, "hidden": arguments.hidden}
    for dtype in arguments.dtypes.split(","):
        row: dict[str, float] = {}
        figures[dtype] = row
        if arguments.sentences and dtype in DTYPES:
            row |= inference(vectors, examples, arguments, dtype)
        if arguments.steps and dtype != "float16":
            row |= training(vectors, examples, arguments, dtype)
        print(f"{dtype}: " + ", ".join(f"{key} {value:,.4g}" for key, value in row.items()), flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    for dtype, limit in TOLERANCE.items():
        off = figures.get(dtype, {}).get("batch against single, max |d|", 0.0)
        if off > limit:
            raise SystemExit(f"{dtype}: batches and single sentences differ by {off:.1e}, more than {limit:.0e}")


def parse() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="NLI file")
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--dimension", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=64, help="pairs a training step")
    parser.add_argument("--encode-batch", type=int, default=256, help="sentences encoded at a time")
    parser.add_argument("--sentences", type=int, default=100_000, help="0 leaves encoding out")
    parser.add_argument("--steps", type=int, default=1600, help="training steps to time, twice; 0 leaves training out")
    parser.add_argument("--window", type=int, default=EncoderRecipe().window, help="batches sorted by length together")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--dtypes", default="float32", help="comma-separated: float32,tf32,float16 (encoding), bfloat16 (training)"
    )
    parser.add_argument("--json", help="also write the figures here")
    return parser.parse_args()


def inference(vectors: WordVectors, examples: Examples, arguments: argparse.Namespace, dtype: str) -> dict[str, float]:
    """Sentences per second, tokenising included, and how far batches are from single sentences."""
    encoder = BiLSTMMax(
        vectors, hidden=arguments.hidden, device=arguments.device, dtype=dtype, batch_size=arguments.encode_batch
    )
    texts = [text for pair in zip(examples.premises, examples.hypotheses, strict=True) for text in pair]
    texts = texts[: arguments.sentences]
    lists = [split_words(text) for text in texts]
    scorer = BiasScorer(vectors, gender_direction(vectors, PAIRS), weights=MaxPooled(encoder))
    encoder.argmax_counts(lists[:1024])
    encoding = seconds(lambda: encoder.encode(texts))
    importance = seconds(lambda: encoder.argmax_counts(lists))
    scoring = seconds(lambda: [scorer.score_many(texts[at : at + BATCH]) for at in range(0, len(texts), BATCH)])
    few = texts[:32]
    single = np.concatenate([encoder.encode([text]) for text in few])
    return {
        "encode, sentences/s": len(texts) / encoding,
        "importance, sentences/s": len(texts) / importance,
        "bias score, sentences/s": len(texts) / scoring,
        "batch against single, max |d|": float(np.abs(encoder.encode(few) - single).max()),
    }


def training(vectors: WordVectors, examples: Examples, arguments: argparse.Namespace, dtype: str) -> dict[str, float]:
    """Milliseconds a step over the first batches of an epoch, reports included."""
    recipe = EncoderRecipe(
        hidden=arguments.hidden, batch_size=arguments.batch_size, window=arguments.window, dtype=dtype
    )
    began = time.perf_counter()
    trainer = make_trainer(vectors, examples, recipe, seed=0, device=arguments.device)
    prepared = time.perf_counter() - began
    steps = min(arguments.steps, trainer.steps_per_epoch)
    # An epoch ends with a look at the loss, which waits for the device.
    first, taken = (seconds(lambda e=epoch: trainer.run_epoch(e, recipe.lr, limit=steps)) / steps for epoch in (0, 1))
    longest = trainer.data.longest
    return {
        "tokenising, pairs/s": len(examples) / prepared,
        "time steps a batch": float(np.mean([longest[rows].max() for rows in trainer.plan(0)[:steps]])),
        "ms/step of the first epoch": 1e3 * first,
        "ms/step": 1e3 * taken,
        "pairs/s": arguments.batch_size / taken,
        f"s/epoch of {SNLI} pairs": taken * SNLI / arguments.batch_size,
    }


def random_vectors(examples: Examples, dimension: int) -> WordVectors:
    """A vector for every word of the data."""
    words = sorted(
        {word for side in (examples.premises, examples.hypotheses) for text in side for word in split_words(text)}
    )
    return WordVectors.of(words, np.random.default_rng(0).standard_normal((len(words), dimension)) / 2)


def seconds(work: Callable[[], object]) -> float:
    """Time of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
