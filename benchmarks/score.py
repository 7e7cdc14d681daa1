"""The bias score of real SNLI sentences, in batches and one by one as published.

python benchmarks/score.py                              # random vectors: the time does not depend on them
python benchmarks/score.py --vectors glove.840B.300d.txt
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenli.core.io import read_rows
from evenli.corpus.bias import BiasScorer
from evenli.encoders.direction import GenderDirection, gender_direction
from evenli.encoders.vectors import WordVectors, load_vectors
from evenli.words.lists import GenderWords, is_word, split_words

SNLI = Path(__file__).parents[1].parent / "shared" / "data" / "snli" / "snli_1.0_train_first100k.jsonl.xz"
PAIRS = (("woman", "man"), ("girl", "boy"), ("she", "he"), ("mother", "father"), ("her", "his"))
BATCH = 4096


def random_vectors(texts: list[str]) -> WordVectors:
    """300 random numbers for every word of the texts and of the pairs."""
    words = sorted({word for text in texts for word in split_words(text)} | {word for pair in PAIRS for word in pair})
    return WordVectors.of(words, np.random.default_rng(0).standard_normal((len(words), 300)), "random")


def reference_score(
    text: str, vectors: WordVectors, direction: GenderDirection, gender_words: GenderWords
) -> tuple[float, float, float]:
    """F, M and Abs of one sentence with uniform weights, word by word as published."""
    tokens = split_words(text)
    marked = zip(tokens, gender_words.mark(tokens), strict=True)
    kept = [(token, gendered) for token, gendered in marked if vectors.find(token) >= 0]
    female = male = 0.0
    for token, gendered in kept:
        vector = vectors.matrix[vectors.find(token)].astype(np.float64)
        norm = np.linalg.norm(vector) * np.linalg.norm(direction.vector)
        if norm == 0 or gendered or not is_word(token):
            continue
        bias = float(vector @ direction.vector / norm) / len(kept)
        female, male = female + max(bias, 0.0), male + min(bias, 0.0)
    return female, male, female - male


def scored(scorer: BiasScorer, texts: list[str]) -> tuple[NDArray[np.float64], float]:
    """The scores, and sentences per second."""
    started = time.perf_counter()
    scores = np.concatenate([scorer.score_many(texts[at : at + BATCH]) for at in range(0, len(texts), BATCH)])
    return scores, len(texts) / (time.perf_counter() - started)


def main() -> None:
    """Print sentences per second, and the ratio to the reference of the same run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", default=SNLI)
    parser.add_argument("--vectors", type=Path, help="word vectors; default: random ones")
    parser.add_argument("--reference", type=int, default=5000, help="sentences scored one by one")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each, of which the fastest counts")
    arguments = parser.parse_args()
    rows = read_rows(arguments.file)
    keys = ("sentence1", "sentence2") if "sentence1" in rows[0] else ("premise", "hypothesis")
    texts = [str(row[key]) for row in rows for key in keys]
    del rows
    vectors = load_vectors(arguments.vectors) if arguments.vectors else random_vectors(texts)
    direction = gender_direction(vectors, PAIRS)
    gender_words = GenderWords()
    once = list(dict.fromkeys(texts))
    some = texts[: arguments.reference]
    speeds: dict[str, list[float]] = {}
    # By turns, and the best of each, so that other work on the machine falls on all of them.
    for _ in range(arguments.repeats):
        scorer = BiasScorer(vectors, direction, gender_words)
        started = time.perf_counter()
        slow = np.array([reference_score(text, vectors, direction, gender_words) for text in some])
        speeds.setdefault("one by one, as published", []).append(len(some) / (time.perf_counter() - started))
        scores, speed = scored(scorer, texts)
        speeds.setdefault("batches, words not seen", []).append(speed)
        fresh = BiasScorer(vectors, direction, gender_words)
        speeds.setdefault("the same, no text twice", []).append(scored(fresh, once)[1])
        speeds.setdefault("batches, words seen", []).append(scored(scorer, texts)[1])
    print(f"{len(texts):,} sentences of {arguments.file.name} ({len(once):,} distinct), one process, {vectors.name}")
    reference = max(speeds["one by one, as published"])
    for name, runs in speeds.items():
        print(f"{name:<25}  {max(runs):>10,.0f} /s   {max(runs) / reference:>4.1f}x")
    print(f"largest difference {np.abs(slow - scores[: len(some)]).max():.1e}")


if __name__ == "__main__":
    main()
