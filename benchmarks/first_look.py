"""A first look (``evenli audit --limit 24``) at a language model on llama.cpp's server, beside an older evenli.

    git worktree add ../before COMMIT
    python benchmarks/first_look.py --model FILE.gguf --before ../before/src

The server (``pip install xllamacpp``) is a process of its own. First the first look is timed. Then both versions ask
pairs of it in all wordings and orders, in turns, each in a process of its own; the older version is asked every fourth
pair. Beside the seconds stands the processor time of the server (Linux), which a busy machine moves less.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evenli.audit.audit import pair_sets
from evenli.audit.pairs import few_checks
from evenli.audit.settings import AuditSettings
from evenli.audit.suites.base import usual_suites
from evenli.audit.suites.checks import control_pairs, gold_pairs

SERVER = """
import sys, time, xllamacpp
settings = xllamacpp.CommonParams()
settings.model.path, slots, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
settings.n_ctx, settings.n_parallel = 1024 * slots, slots
settings.hostnames, settings.port = ["127.0.0.1"], 0
settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
server = xllamacpp.Server(settings)
print(server.listening_address, flush=True)
sys.stdin.read()
"""
# What both versions can run: fields that only one of them has are not named.
ASK = """
import json, sys, time
from evenli.audit.models import load_model
model = load_model("chat:" + sys.argv[1])
pairs = [tuple(pair) for pair in json.load(sys.stdin)]
used = lambda: sum(map(int, open(f"/proc/{sys.argv[2]}/stat").read().rpartition(")")[2].split()[11:13]))
before, started = used(), time.perf_counter()
model.logits(pairs)
print(json.dumps([len(pairs), len(model.views), time.perf_counter() - started, used() - before]))
"""
TICKS = os.sysconf("SC_CLK_TCK")
LIMIT = 24


@contextmanager
def served(file: str, slots: int, threads: int) -> Iterator[tuple[str, int]]:
    """Address and process of llama.cpp's server."""
    words = [sys.executable, "-c", SERVER, file, str(slots), str(threads)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, text=True, **pipes) as process:
        assert process.stdout is not None and process.stdin is not None
        address = next(line for line in process.stdout if line.startswith("http"))
        try:
            yield address.strip(), process.pid
        finally:
            process.stdin.close()
            process.kill()


def used(process: int) -> float:
    """Processor time of a process in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / TICKS


def pairs_of_a_first_look(share: int) -> list[tuple[str, str]]:
    """One premise in so many, over checks and suites, with all its hypotheses."""
    settings = AuditSettings(limit=LIMIT)
    sets = pair_sets(usual_suites("en", settings, None), "en", None, settings)
    sets += few_checks([gold_pairs("en"), control_pairs("en")], LIMIT)
    pairs = {pair for part in sets for pair in part.frame.select("premise", "hypothesis").iter_rows()}
    premises = sorted({premise for premise, _ in pairs})[::share]
    return sorted(pair for pair in pairs if pair[0] in premises)


def ask(source: str, url: str, process: int, pairs: Sequence[tuple[str, str]]) -> tuple[float, float]:
    """Pairs a second, and pairs a second of the server's processor time."""
    words = [sys.executable, "-c", ASK, url, str(process)]
    done = subprocess.run(words, input=json.dumps(pairs), env=_environment(source), capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    count, views, seconds, ticks = json.loads(done.stdout.splitlines()[-1])
    print(
        f"{source}: {count} pairs in {views} views, {seconds:.1f} s, {ticks / TICKS:.1f} s of processor",
        file=sys.stderr,
    )
    return count / seconds, count / ticks * TICKS


def look(source: str, url: str, process: int) -> dict[str, float]:
    """Seconds of the whole command, and of the server's processor time."""
    with TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "evenli", "audit", f"chat:{url}", "--limit", str(LIMIT), "--out", folder]
        before, started = used(process), time.perf_counter()
        subprocess.run(words, env=_environment(source), check=True, stdout=sys.stderr)
        return {"seconds": round(time.perf_counter() - started, 1), "processor": round(used(process) - before, 1)}


def _environment(source: str) -> dict[str, str]:
    """That of this process, with another evenli."""
    others = [str(Path(part).resolve()) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(source).resolve()), *others])}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="GGUF file")
    parser.add_argument("--before", help="folder src of the older version; without it only the first look is timed")
    parser.add_argument("--share", type=int, default=4, help="one premise of the first look in so many")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args(arguments)
    now, pairs = str(Path(__file__).parents[1] / "src"), pairs_of_a_first_look(given.share)
    found: dict[str, Any] = {"load": os.getloadavg()[0], "threads": given.threads}
    turns = []
    with served(given.model, given.slots, given.threads) as (url, process):
        found["first_look"] = look(now, url, process)
        print(found, file=sys.stderr)
        for _ in range(given.repeats if given.before else 0):
            turns.append((ask(given.before, url, process, pairs[::4]), ask(now, url, process, pairs)))
    for at, name in enumerate(("pairs_per_second", "pairs_per_second_of_processor") if turns else ()):
        old, new = (statistics.median(turn[version][at] for turn in turns) for version in (0, 1))
        found[name] = {"before": round(old, 3), "now": round(new, 3), "ratio": round(new / old, 2)}
    print(json.dumps(found | {"load_after": os.getloadavg()[0]}, indent=1))


if __name__ == "__main__":
    main()
