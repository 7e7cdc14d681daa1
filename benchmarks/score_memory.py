"""Memory and speed of ``evenli score``, ``mitigate subtract`` and ``augment`` on a large file of real sentences.

python benchmarks/score_memory.py --lines 10000000          # random vectors: neither depends on them

A line is the first half of one sentence of SNLI and the second half of another, so that most lines are distinct and the
words are distributed as in the corpus. The peak is the largest resident set of a process, vectors included.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from evenli.core.io import read_rows
from evenli.words.lists import split_words

SNLI = Path(__file__).parents[1].parent / "shared" / "data" / "snli" / "snli_1.0_train_first100k.jsonl.xz"
PAIRS = (("woman", "man"), ("girl", "boy"), ("she", "he"), ("mother", "father"), ("her", "his"))
BLOCK = 100_000


def read_texts(file: Path) -> list[str]:
    """The distinct sentences of a file of pairs."""
    rows = read_rows(file)
    keys = ("sentence1", "sentence2") if "sentence1" in rows[0] else ("premise", "hypothesis")
    return list(dict.fromkeys(str(row[key]) for row in rows for key in keys))


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


# A process begins with the peak of the one that it was forked from, which here holds the sentences: hence a small one.
_LAUNCHER = """
import os, sys
process = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, *sys.argv[2:]])
_, status, usage = os.wait4(process, 0)
open(sys.argv[1], "w").write(str(usage.ru_maxrss / 1024))
sys.exit(os.waitstatus_to_exitcode(status))
"""


def run(*arguments: object, source: Path | None = None) -> tuple[float, float]:
    """Run a command of evenli in a process of its own; seconds and peak in MB. ``source`` is another version's src."""
    environment = {**os.environ, **({"PYTHONPATH": str(source)} if source else {})}
    with tempfile.NamedTemporaryFile("r") as peak:
        command = [sys.executable, "-c", _LAUNCHER, peak.name, "-m", "evenli", *map(str, arguments)]
        started = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, env=environment, check=True)
        return time.perf_counter() - started, float(peak.read())


def main() -> None:
    """Write the file, run the commands on it, print peak memory and speed of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--file", type=Path, default=SNLI, help="pairs to take the sentences from")
    parser.add_argument("--folder", type=Path, help="where the files are written for the time of the run")
    parser.add_argument("--percentile", type=float, default=95, help="of subtract and augment")
    parser.add_argument("--split", default="auto", help="of subtract and augment; two numbers shuffle the corpus")
    parser.add_argument("--only-score", action="store_true", help="leave out subtract and augment")
    parser.add_argument("options", nargs="*", help="more options of evenli score, behind --")
    arguments = parser.parse_args()
    texts = read_texts(arguments.file)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        vectors, lines, scored = folder / "vectors.txt", folder / "lines.txt", folder / "scored"
        write_vectors(texts, vectors)
        distinct = write_lines(texts, arguments.lines, lines)
        size = lines.stat().st_size / 1e6
        print(f"{arguments.lines:,} lines, {size:,.0f} MB; {distinct:.1%} of the first {BLOCK:,} are distinct")
        chosen = ("--percentile", arguments.percentile, "--split", arguments.split)
        methods = () if arguments.only_score else ("subtract", "augment")
        commands: list[tuple[object, ...]] = [
            ("score", lines, "--vectors", vectors, "-o", scored, *arguments.options),
            *(("mitigate", method, scored, *chosen, "-o", folder / method) for method in methods),
        ]
        for command in commands:
            elapsed, peak = run(*command)
            named = " ".join(map(str, command[: 1 if command[0] == "score" else 2]))
            speed = arguments.lines / elapsed
            print(f"{named:<18} peak {peak:>6,.0f} MB   {speed:>9,.0f} rows/s   {elapsed:,.0f} s in all", flush=True)


if __name__ == "__main__":
    main()
