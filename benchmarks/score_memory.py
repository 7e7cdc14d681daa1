"""Memory and speed of ``evenli score`` on a large file made of real SNLI sentences.

python benchmarks/score_memory.py --lines 10000000          # random vectors: neither depends on them

A line is the first half of one sentence and the second half of another, so that most lines are distinct and the words
are distributed as in the corpus. The peak is the largest resident set of the process, vectors included.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from evenli.io import read_rows
from evenli.resources.words import split_words

SNLI = Path(__file__).parents[1].parent / "shared" / "data" / "snli" / "snli_1.0_train_first100k.jsonl.xz"
PAIRS = (("woman", "man"), ("girl", "boy"), ("she", "he"), ("mother", "father"), ("her", "his"))
BLOCK = 100_000


def write_vectors(texts: list[str], file: Path) -> None:
    """50 random numbers for every word of the texts and of the pairs, as a GloVe file."""
    words = sorted({word for text in texts for word in split_words(text)} | {word for pair in PAIRS for word in pair})
    numbers = np.random.default_rng(0).standard_normal((len(words), 50))
    with file.open("w", encoding="utf-8") as stream:
        for word, row in zip(words, numbers, strict=True):
            stream.write(f"{word} {' '.join(f'{number:.4f}' for number in row)}\n")


def write_lines(texts: list[str], lines: int, file: Path) -> float:
    """Write the corpus; returns the share of distinct lines in its first block."""
    halves = [text.split() for text in texts]
    starts = [" ".join(words[: (len(words) + 1) // 2]) for words in halves]
    ends = [" ".join(words[(len(words) + 1) // 2 :]) for words in halves]
    generator = np.random.default_rng(1)
    distinct = 0.0
    with file.open("w", encoding="utf-8") as stream:
        for at in range(0, lines, BLOCK):
            chosen = generator.integers(0, len(texts), (min(BLOCK, lines - at), 2)).tolist()
            block = [f"{starts[one]} {ends[other]}\n" for one, other in chosen]
            distinct = distinct or len(set(block)) / len(block)
            stream.writelines(block)
    return distinct


def main() -> None:
    """Write the file, score it in a process of its own, print its peak memory and its speed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--file", type=Path, default=SNLI, help="pairs to take the sentences from")
    parser.add_argument("--folder", type=Path, help="where the files are written for the time of the run")
    parser.add_argument("options", nargs="*", help="more options of evenli score, behind --")
    arguments = parser.parse_args()
    rows = read_rows(arguments.file)
    keys = ("sentence1", "sentence2") if "sentence1" in rows[0] else ("premise", "hypothesis")
    texts = list(dict.fromkeys(str(row[key]) for row in rows for key in keys))
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        write_vectors(texts, folder / "vectors.txt")
        distinct = write_lines(texts, arguments.lines, folder / "lines.txt")
        size = (folder / "lines.txt").stat().st_size
        command = ["score", folder / "lines.txt", "--vectors", folder / "vectors.txt", "-o", folder / "scored"]
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "evenli", *map(str, command), *arguments.options],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        elapsed = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{arguments.lines:,} lines, {size / 1e6:,.0f} MB; {distinct:.1%} of the first {BLOCK:,} are distinct")
    print(f"peak memory {peak:,.0f} MB; {arguments.lines / elapsed:,.0f} rows/s ({elapsed:,.0f} s in all)")


if __name__ == "__main__":
    main()
