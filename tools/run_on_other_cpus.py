"""Run the tests as other processors would compute them, and once on a busy machine.

Numerical libraries choose their code by processor: OpenBLAS by core type, PyTorch by instruction set. Sums are then
taken in another order, and the last digits of a float move. Run this before a release, and after a change to a test
or a measure that compares floats::

    python tools/run_on_other_cpus.py                               # all fast tests, four times: an hour on two cores
    python tools/run_on_other_cpus.py --numeric                     # those that compare floats
    python tools/run_on_other_cpus.py tests/encoders/test_senteval.py -k scipy
    python tools/run_on_other_cpus.py --only busy tests/corpus/test_swap.py

Options that are not named below go to pytest. The exit status is 1 when a variant failed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VARIANTS: dict[str, dict[str, str]] = {
    "prescott": {"OPENBLAS_CORETYPE": "Prescott"},
    "haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "aten": {"ATEN_CPU_CAPABILITY": "default"},
    "busy": {},
}
NUMERIC = [
    f"tests/test_{name}.py"
    for name in (
        *("association", "causes", "erasers", "goldens", "groups", "intervals", "measures", "meta_measures"),
        *("onnx_encoder", "positions", "probe_measures", "senteval", "sentences", "training", "vectors", "verdict"),
    )
]
LOOP = "import sys, time\nend = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end: pass"


def main() -> int:
    """Run every variant, print a line for each, and return the exit status."""
    arguments, passed_on = parse()
    failed = False
    for name in arguments.only or VARIANTS:
        started = time.monotonic()
        # Only the busy variant has loops beside it; they end by themselves if this process is killed.
        with busy_loops(arguments.loops if name == "busy" else 0, arguments.timeout):
            files = NUMERIC if arguments.numeric else []
            status, output = run_tests(VARIANTS[name], [*files, *passed_on], arguments.timeout)
        settings = (
            " ".join(f"{key}={value}" for key, value in VARIANTS[name].items()) or f"{arguments.loops} busy loops"
        )
        print(f"{settings}: {summary(output)}, {time.monotonic() - started:.0f} s", flush=True)
        if status != 0:
            failed = True
            print(f"  pytest ended with status {status}; its last lines:\n{tail(output)}", flush=True)
    return int(failed)


def parse() -> tuple[argparse.Namespace, list[str]]:
    """Read the command line; what is not an option of this script goes to pytest."""
    description, _, _ = (__doc__ or "").partition("::")
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--only", action="append", choices=list(VARIANTS), help="a variant; repeat it for several")
    parser.add_argument("--numeric", action="store_true", help="only the files of tests that compare floats")
    parser.add_argument("--loops", type=int, default=4, help="busy loops beside the tests (default: 4)")
    parser.add_argument("--timeout", type=float, default=7200, help="seconds for one variant (default: 7200)")
    return parser.parse_known_args()


@contextlib.contextmanager
def busy_loops(count: int, seconds: float) -> Iterator[None]:
    """Keep ``count`` processes computing, for ``seconds`` at most."""
    loops = [subprocess.Popen([sys.executable, "-c", LOOP, str(seconds)]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def run_tests(settings: dict[str, str], passed_on: list[str], timeout: float) -> tuple[int, str]:
    """Run pytest with more environment variables; return its status and output."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *passed_on]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | settings,
            timeout=timeout,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except subprocess.TimeoutExpired:
        return 124, f"stopped after {timeout:.0f} s"
    return done.returncode, done.stdout


def summary(output: str) -> str:
    """Return the counts that pytest prints in its last line."""
    counts = {word: number for number, word in re.findall(r"(\d+) (passed|failed|errors?|skipped)\b", tail(output, 1))}
    counts = {"passed": "0", "failed": "0"} | counts
    return ", ".join(f"{number} {word}" for word, number in counts.items())


def tail(output: str, lines: int = 15) -> str:
    """Return the last lines of a text."""
    return "\n".join(output.strip().splitlines()[-lines:])


if __name__ == "__main__":
    sys.exit(main())
