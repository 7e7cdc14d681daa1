"""How long ``--help`` takes: evenli beside other command lines of the field that are installed here.

Times are ratios to an empty Python process in the same run; ``evenli --help`` must stay under 0.3 s.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

PEERS = ["evenli", "hf", "accelerate", "transformers", "lm_eval", "inspect", "mteb", "giskard"]


def best_of(command: list[str], repeats: int = 5) -> float:
    """Shortest of several runs."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        times.append(time.perf_counter() - started)
    return min(times)


def main() -> None:
    """Print a line per command line."""
    empty = best_of([sys.executable, "-c", "pass"])
    print(f"{'python -c pass':16s} {1.0:7.1f}x")
    for name in PEERS:
        command = shutil.which(name, path=str(Path(sys.executable).parent))
        if command is None:
            print(f"{name:16s} not installed")
            continue
        seconds = best_of([command, "--help"])
        print(f"{name:16s} {seconds / empty:7.1f}x")
        if name == "evenli":
            assert seconds < 0.3, f"evenli --help took {seconds:.2f} s"


if __name__ == "__main__":
    main()
