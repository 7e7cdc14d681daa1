"""How well each way to count finds sentences that were called stereotyped before any of them was scored.

    python -m studies.sentences.centre snli_1.0_test.jsonl.xz glove.txt

``stereotyped_sentences.csv`` has the hashes of 300 sentences of the SNLI test set, drawn at random, and their
labels: does the sentence, apart from words that state a gender, tell of what is commonly thought to be for women (f) or
for men (m)? The sentences themselves are read from SNLI.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
from pathlib import Path
from typing import get_args

import numpy as np

from evenli.core.io import read_rows
from evenli.corpus.bias import BiasScorer, Centre
from evenli.encoders.direction import gender_direction
from evenli.encoders.vectors import load_vectors

LABELS = Path(__file__).with_name("stereotyped_sentences.csv")


def area(chosen: np.ndarray, others: np.ndarray) -> float:
    """Chance that one of the chosen scores above one of the others; 0.5 is none."""
    larger = chosen[:, None] > others[None]
    return float(larger.mean() + 0.5 * (chosen[:, None] == others[None]).mean())


def main() -> None:
    """Print one line per way to count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("snli", help="the test set of SNLI")
    parser.add_argument("vectors", help="word vectors")
    given = parser.parse_args()
    with LABELS.open(encoding="utf-8", newline="") as stream:
        labels = {row["sha256"]: row["label"] for row in csv.DictReader(stream)}
    texts = {text for row in read_rows(given.snli) for text in (row["sentence1"], row["sentence2"])}
    hashed = {hashlib.sha256(text.encode()).hexdigest()[:16]: text for text in texts}
    chosen = np.array([labels[key] for key in sorted(labels)])
    sentences = [hashed[key] for key in sorted(labels)]
    vectors = load_vectors(given.vectors)
    direction = gender_direction(vectors)
    draws = np.random.default_rng(0).integers(len(chosen), size=(1000, len(chosen)))
    published: np.ndarray | None = None
    print(f"{len(chosen)} sentences, {(chosen == 'f').sum()} f, {(chosen == 'm').sum()} m")
    print("centre            stereotyped or not    against none          f by F   m by M   f or m   lean female")
    for centre in get_args(Centre):
        female, male, absolute = BiasScorer(vectors, direction, centre=centre).score_many(sentences).T
        side, stated = female + male, chosen != "-"
        value = area(absolute[stated], absolute[~stated])
        areas = np.array([area(absolute[row][stated[row]], absolute[row][~stated[row]]) for row in draws])
        published = areas if published is None else published
        low, high, less, more = (*np.quantile(areas, (0.025, 0.975)), *np.quantile(areas - published, (0.025, 0.975)))
        parts = [area(female[chosen == "f"], female[~stated]), area(-male[chosen == "m"], -male[~stated])]
        parts += [area(side[chosen == "f"], side[chosen == "m"]), float((side > 0).mean())]
        shown = "   ".join(f"{part:.3f} " for part in parts)
        print(f"{centre:16}  {value:.3f} [{low:.3f}, {high:.3f}]  [{less:+.3f}, {more:+.3f}]      {shown}")


if __name__ == "__main__":
    main()
