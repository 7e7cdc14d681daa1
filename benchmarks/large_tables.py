"""Time and peak memory of audit, measure, compare and report on a pair file of a million rows.

    python benchmarks/large_tables.py [--rows 1000000] [--folder DIR]

Every command runs in a process of its own, with a model that answers at once; its largest resident size is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT = 1024
"""Megabytes that none of the commands should need."""
_OCCUPATIONS, _WIDTH = 2710, 10


def write_pairs(path: Path, rows: int) -> None:
    """A pair file like NLI-CoAL's: occupations, both groups, and as many templates each as the rows need."""
    per_occupation = max(_WIDTH, rows // (2 * _OCCUPATIONS))
    with path.open("w", encoding="utf-8") as file:
        for number in range(rows):
            item, group = divmod(number, 2)
            job, template = item // per_occupation, (item // per_occupation + item % per_occupation)
            kind = ("female", "male", "neutral")[job % 3]
            who = ("woman", "man")[group]
            subset = "NS" if kind == "neutral" else "PS" if kind == ("female", "male")[group] else "AS"
            row = {
                "id": str(number),
                "premise": f"the worker{job} sees door {template}",
                "hypothesis": f"the {who} sees door {template}",
                "subset": subset,
                "gold": "neutral",
                "occupation": f"worker{job}",
                "stereotype": kind,
                "template": f"the [Sub] sees door {template}",
                "group": ("female", "male")[group],
            }
            file.write(json.dumps(row) + "\n")


TOKENISED = """
import sys
import numpy as np
import evenli
from evenli.audit.models.onnx import OnnxModel
OnnxModel.logits = lambda self, items: np.tile(np.array([0, 1, 0], dtype=np.float32), (len(items), 1))
evenli.audit(data=sys.argv[1], out=sys.argv[2])
"""
"""An audit with the tokenizer of the embedded model, whose answers would take an hour and no memory."""


def run(*words: object, code: str | None = None) -> tuple[float, float]:
    """Seconds and peak megabytes of a command, or of a piece of code."""
    start = time.perf_counter()
    program = ["-m", "evenli"] if code is None else ["-c", code]
    process = subprocess.Popen([sys.executable, *program, *map(str, words)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"evenli {' '.join(map(str, words))} failed")
    size = usage.ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)
    return time.perf_counter() - start, size


def main() -> None:
    """Run all commands and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", default="", help="commands whose title contains this, after those they need")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        write_pairs(folder / "pairs.jsonl", options.rows)
        first, second = folder / "first", folder / "second"
        commands = {
            "audit": ("audit", "fake:biased", "--data", folder / "pairs.jsonl", "-o", first),
            "audit of a second model": ("audit", "fake:even", "--data", folder / "pairs.jsonl", "-o", second),
            "audit with a tokenizer": (folder / "pairs.jsonl", folder / "third"),
            "measure": ("measure", first),
            "compare": ("compare", second, first),
            "report": ("report", first, "-o", folder / "report.html"),
        }
        print(f"{options.rows:,} rows; at most {LIMIT} MB wanted")
        for title, words in commands.items():
            if options.only not in title and title not in {"audit", "audit of a second model"}:
                continue
            seconds, size = run(*words, code=TOKENISED if "tokenizer" in title else None)
            print(f"{title:25s} {seconds:7.1f} s {size:8.0f} MB{'' if size < LIMIT else '  over'}", flush=True)


if __name__ == "__main__":
    main()
