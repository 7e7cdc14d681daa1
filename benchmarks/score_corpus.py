"""Rows a second of ``evenli score`` from plain text to scored Parquet, beside another version of evenli.

git worktree add ../before COMMIT
python benchmarks/score_corpus.py --lines 1000000 --beside ../before

Both score the same file by turns, each time in a new process, with start, vectors and summary; the shards are compared
byte by byte. Lines and vectors are those of score_memory.py.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path

from score_memory import SNLI, read_texts, run, write_lines, write_vectors


def shards(scored: Path) -> dict[str, bytes]:
    """The shards of a scored corpus by name."""
    return {file.name: file.read_bytes() for file in sorted((scored / "shards").iterdir())}


def main() -> None:
    """Print rows a second of each version, the ratio, and whether the shards are the same."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--file", type=Path, default=SNLI, help="pairs to take the sentences from")
    parser.add_argument("--vectors", type=Path, help="word vectors; default: random ones")
    parser.add_argument("--folder", type=Path, help="where the files are written for the time of the run")
    parser.add_argument("--beside", type=Path, help="a checkout of the other version")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each, of which the fastest counts")
    arguments = parser.parse_args()
    texts = read_texts(arguments.file)
    sources = {"this version": Path(__file__).parents[1] / "src"}
    if arguments.beside:
        sources = {"the other": arguments.beside / "src", **sources}
    print(f"load before the run {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors", flush=True)
    seconds: dict[str, list[float]] = {name: [] for name in sources}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        vectors, lines = arguments.vectors or folder / "vectors.txt", folder / "lines.txt"
        if not arguments.vectors:
            write_vectors(texts, vectors)
        write_lines(texts, arguments.lines, lines)
        for turn in range(arguments.repeats):
            for version, source in sources.items():
                out = folder / version.replace(" ", "-")
                shutil.rmtree(out, ignore_errors=True)
                elapsed, _ = run("score", lines, "--vectors", vectors, "-o", out, source=source)
                seconds[version].append(elapsed)
                shown = f"{arguments.lines / elapsed:>9,.0f} rows/s, load {os.getloadavg()[0]:.1f}"
                print(f"{turn + 1}  {version:<13} {shown}", flush=True)
        first, last = (shards(folder / version.replace(" ", "-")) for version in (min(sources), max(sources)))
    best = {version: arguments.lines / min(runs) for version, runs in seconds.items()}
    for version, speed in best.items():
        print(f"{version:<13} {speed:>9,.0f} rows/s, {arguments.lines:,} rows, the best of {arguments.repeats}")
    if arguments.beside:
        ratio = best["this version"] / best["the other"]
        print(f"ratio {ratio:.2f}; the {len(first)} shards are {'the same' if first == last else 'NOT THE SAME'}")


if __name__ == "__main__":
    main()
