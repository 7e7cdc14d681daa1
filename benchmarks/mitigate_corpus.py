"""Time and memory of ``mitigate subtract`` and ``augment``, beside another version of evenli.

git worktree add ../before COMMIT
python benchmarks/mitigate_corpus.py --lines 1000000 --beside ../before

A corpus is scored once; then each version makes the same fairer corpora of it by turns, every time in a new process.
Processor seconds count, because they hardly depend on what else the machine does. Lines and vectors are those of
score_memory.py.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import tempfile
from pathlib import Path

from evenli.core.io import hash_files
from score_memory import SNLI, read_texts, run, write_lines, write_vectors

CORPORA = {
    "subtract": ("subtract",),
    "subtract --random": ("subtract", "--random"),
    "augment": ("augment",),
    "augment --replace": ("augment", "--replace"),
}


def files(folder: Path) -> dict[str, str]:
    """Hash of every file of a fairer corpus, by name."""
    return {file.name: hash_files([file]) for file in sorted(folder.iterdir())}


def processor_seconds() -> float:
    """Of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print seconds and peak memory of each version, the ratio, and whether the files are the same."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--file", type=Path, default=SNLI, help="pairs to take the sentences from")
    parser.add_argument("--split", default="10000,10000", help="none leaves the corpus in its order")
    parser.add_argument("--folder", type=Path, help="where the files are written for the time of the run")
    parser.add_argument("--beside", type=Path, help="a checkout of the other version")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each, of which the fastest counts")
    arguments = parser.parse_args()
    sources = {"this version": Path(__file__).parents[1] / "src"}
    if arguments.beside:
        sources = {"the other": arguments.beside / "src", **sources}
    print(f"load before the run {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors", flush=True)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        vectors, lines, scored = folder / "vectors.txt", folder / "lines.txt", folder / "scored"
        texts = read_texts(arguments.file)
        write_vectors(texts, vectors)
        write_lines(texts, arguments.lines, lines)
        run("score", lines, "--vectors", vectors, "-o", scored, source=sources["this version"])
        for command, (method, *options) in CORPORA.items():
            best: dict[str, float] = {}
            written: list[dict[str, str]] = []
            for _ in range(arguments.repeats):
                for version, source in sources.items():
                    started = processor_seconds()
                    chosen = (method, scored, *options, "--split", arguments.split, "-o", folder / "out")
                    elapsed, peak = run("mitigate", *chosen, source=source)
                    used = processor_seconds() - started
                    best[version] = min(used, best.get(version, used))
                    shown = f"{used:>6.1f} s of a processor, {elapsed:>6.1f} s in all, peak {peak:>5,.0f} MB"
                    print(f"{command:<18} {version:<13} {shown}", flush=True)
                    content = files(folder / "out")
                    written += [content] if content not in written else []
                    shutil.rmtree(folder / "out")
            if arguments.beside:
                ratio = best["the other"] / best["this version"]
                print(f"{command:<18} {ratio:.2f} times as fast; files {'the same' if len(written) == 1 else 'DIFFER'}")


if __name__ == "__main__":
    main()
