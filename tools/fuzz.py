"""Damage every input of every command, and see that each is refused in one line or changes nothing.

    python tools/fuzz.py --inputs 20000 --out /tmp/fuzz       resumable; findings are kept in /tmp/fuzz/findings
    python tools/fuzz.py --minutes 1 --quick                  without torch
    python tools/fuzz.py --seed 123 --case 4567               one case again, with its output
    python tools/fuzz.py --undamaged                          every target once without damage, which has to work

A finding is an error that is not ours, an exit code other than 0 and 2 (1 where a gate failed), more than one line on
stderr for bad input, a hang, a raw control character or a forged line on the terminal, or damaged evidence that is
accepted with other numbers. The exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import queue
import resource
import secrets
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

# The source beside this tool, whatever is installed.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "src")]

EXAMPLES = 3
"""Examples that are kept of one finding."""
MEMORY = 8 << 30
"""Memory of a worker; an input that asks for more is a finding, and the machine goes on."""
PATIENCE = 8
"""A worker that is silent for so many limits hangs where no signal reaches it."""


def main() -> int:
    """Run the fuzzer; 0 without findings."""
    options = _options()
    if options.worker:
        return _work(options)
    if options.case is not None:
        return _repeat(options)
    if options.undamaged:
        return _undamaged(options)
    _chosen(options)  # a wrong name is said before anything is built
    with tempfile.TemporaryDirectory(prefix="fuzz-") as temporary:
        return Session(options, Path(options.out or temporary), Path(temporary)).run()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=20_000, help="How many in all, with those of an earlier session.")
    parser.add_argument("--minutes", type=float, default=None, help="Stop after so many minutes.")
    parser.add_argument("--seed", default=None, help="Repeat a session; default: a new one.")
    parser.add_argument("--case", type=int, default=None, help="Run this case alone and show it.")
    parser.add_argument("--undamaged", action="store_true", help="Run every target once without damage.")
    parser.add_argument("--only", default="", help="Only targets whose name contains this.")
    parser.add_argument("--quick", action="store_true", help="Without the targets that need torch.")
    parser.add_argument("--out", default=None, help="Folder for seeds, progress and findings; makes it resumable.")
    parser.add_argument("--jobs", type=int, default=1, help="Processes.")
    parser.add_argument("--limit", type=float, default=30, help="Seconds of processor time for one input.")
    parser.add_argument("--json", action="store_true", help="Print the summary as JSON.")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seeds", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--work", default=None, help=argparse.SUPPRESS)
    return parser.parse_args()


def _chosen(options: argparse.Namespace) -> Any:
    from fuzzing.targets import targets

    chosen = [one for one in targets() if options.only in one.name and not (options.quick and one.torch)]
    if not chosen:
        raise SystemExit(f"no target is called like '{options.only}': {', '.join(one.name for one in targets())}")
    return chosen


def _cases(options: argparse.Namespace, seeds: Path, work: Path) -> Any:
    from fuzzing.check import Cases

    return Cases(seeds, work, _chosen(options), options.limit)


def _work(options: argparse.Namespace) -> int:
    """A worker: numbers of cases come in, findings go out."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    asked, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    from fuzzing.check import Finding

    # Imported before the clock runs: a busy machine may take longer over them than an input may take.
    for library in (
        "evenli",
        "polars",
        "scipy.stats",
        *(() if options.quick else ("torch", "transformers", "onnxruntime")),
    ):
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
    cases = _cases(options, Path(options.seeds), Path(options.work))
    for line in asked:
        try:
            name, finding = cases(options.seed, int(line))
        except Exception:  # the fuzzer's own mistake must be seen as well
            name, finding = (
                "?",
                Finding("fuzzer", "error", traceback.format_exc(), {"index": line, "seed": options.seed}),
            )
        answers.write(json.dumps([int(line), name, asdict(finding) if finding else None], default=str) + "\n")
        answers.flush()
    return 0


def _repeat(options: argparse.Namespace) -> int:
    """One case in this process, shown."""
    screen = os.fdopen(os.dup(1), "w")
    with tempfile.TemporaryDirectory(prefix="fuzz-") as temporary:
        seeds = Path(options.out or temporary) / "seeds"
        name, finding = _cases(options, seeds, Path(temporary) / "work")(options.seed, options.case)
    shown = f"{finding.kind}: {finding.what}\n{finding.case}\n{finding.details}" if finding else "no finding"
    screen.write(f"{name}: {shown}\n".encode("utf-8", "backslashreplace").decode())
    return int(finding is not None)


def _undamaged(options: argparse.Namespace) -> int:
    """Every target without damage; those whose valid input does not work are shown."""
    screen = os.fdopen(os.dup(1), "w")
    with tempfile.TemporaryDirectory(prefix="fuzz-") as temporary:
        cases = _cases(options, Path(options.out or temporary) / "seeds", Path(temporary) / "work")
        tried = {target.name: cases.undamaged(target) for target in cases.targets if target.change is None}
    wrong = {name: problem for name, problem in tried.items() if problem}
    screen.write("".join(f"{name}: {problem.strip()}\n" for name, problem in wrong.items()))
    screen.write(f"{len(tried)} targets without damage, {len(wrong)} do not work\n")
    return int(bool(wrong))


class Worker:
    """One process that runs cases, and what it runs now."""

    def __init__(self, options: argparse.Namespace, seed: str, seeds: Path, work: Path) -> None:
        words = [sys.executable, __file__, "--worker", "--seed", seed, "--seeds", str(seeds), "--work", str(work)]
        words += ["--limit", str(options.limit), "--only", options.only, *(["--quick"] if options.quick else [])]
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "POLARS_MAX_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        self.log = work.with_suffix(".log")
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment, text=True
            )
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            self._answers.put(line)
        self._answers.put("")

    def ask(self, index: int, patience: float) -> Any:
        """The answer to one case; None if the process died or is silent."""
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(f"{index}\n")
            self._process.stdin.flush()
            answer = self._answers.get(timeout=patience)
        except (OSError, queue.Empty):
            answer = ""
        if not answer:
            self.close()
        return json.loads(answer) if answer else None

    def close(self) -> int:
        """End the process; returns its exit code."""
        self._process.kill()
        return self._process.wait()


class Session:
    """Many cases, in some processes, with what was found and how far it is on disk."""

    def __init__(self, options: argparse.Namespace, out: Path, temporary: Path) -> None:
        self.options, self.out, self.temporary = options, out, temporary
        self.progress = out / "progress.json"
        stored = json.loads(self.progress.read_text()) if self.progress.is_file() else {}
        self.seed = options.seed or stored.get("seed") or str(secrets.randbelow(10**12))
        same = stored.get("seed") == self.seed
        self.done = Counter(stored.get("targets", {}) if same else {})
        self.next = sum(self.done.values())
        self.findings: dict[str, dict[str, Any]] = stored.get("findings", {}) if same else {}
        self.seconds: Counter[str] = Counter()
        self.lock, self.began = threading.Lock(), time.monotonic()

    def run(self) -> int:
        """Run until the inputs or the minutes are used up."""
        self.out.mkdir(parents=True, exist_ok=True)
        threads = [threading.Thread(target=self._feed, args=(number,)) for number in range(self.options.jobs)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            time.sleep(1)
            self._show()
            self._store()
        self._store()
        return self._summary()

    def _take(self) -> int | None:
        with self.lock:
            minutes = (time.monotonic() - self.began) / 60
            if self.next >= self.options.inputs or (self.options.minutes and minutes >= self.options.minutes):
                return None
            self.next += 1
            return self.next - 1

    def _feed(self, number: int) -> None:
        worker = None
        while (index := self._take()) is not None:
            if worker is None or index % 1500 == 1499:  # a fresh process now and then: libraries keep things
                if worker is not None:
                    worker.close()
                worker = Worker(self.options, self.seed, self.out / "seeds", self.temporary / f"work-{number}")
            # The first case of a kind builds its seeds.
            started = time.monotonic()
            answer = worker.ask(index, 120 + PATIENCE * self.options.limit)
            if answer is None:
                log = worker.log.read_text(errors="replace")[-3000:]
                answer = [index, "?", {"kind": "died", "what": f"exit {worker.close()}", "details": log}]
                answer[2]["case"] = {"seed": self.seed, "index": index}
                worker = None
            self.seconds[answer[1]] += time.monotonic() - started
            self._keep(*answer)
        if worker is not None:
            worker.close()

    def _keep(self, index: int, target: str, finding: dict[str, Any] | None) -> None:
        with self.lock:
            self.done[target] += 1
            if finding is None:
                return
            key = f"{finding['kind']}: {finding['what']}"
            entry = self.findings.setdefault(key, {"count": 0, "cases": []})
            entry["count"] += 1
            if len(entry["cases"]) < EXAMPLES:
                entry["cases"].append(finding["case"])
                file = self.out / "findings" / f"{index}.txt"
                file.parent.mkdir(exist_ok=True)
                text = f"{key}\n{json.dumps(finding['case'], default=str)}\n\n{finding['details']}\n"
                file.write_text(text, encoding="utf-8", errors="backslashreplace")

    def _store(self) -> None:
        with self.lock:
            state = {"seed": self.seed, "targets": dict(self.done), "findings": self.findings}
            state["seconds"] = {name: round(seconds, 1) for name, seconds in self.seconds.most_common()}
            partial = self.progress.with_suffix(".partial")
            partial.write_text(json.dumps(state, indent=1))
            partial.replace(self.progress)

    def _show(self) -> None:
        if not sys.stderr.isatty() or self.options.json:
            return
        done, total, seconds = sum(self.done.values()), self.options.inputs, time.monotonic() - self.began
        filled = int(30 * done / max(total, 1))
        left = seconds / max(done, 1) * (total - done)
        rate = f"{done / seconds:.1f}/s, {left / 60:.0f} min left, {len(self.findings)} findings "
        print(f"\r[{'#' * filled:.<30}] {done:,}/{total:,}, {rate}", end="", file=sys.stderr, flush=True)

    def _summary(self) -> int:
        kinds = Counter(key.partition(":")[0] for key in self.findings)
        summary = {
            "seed": self.seed,
            "inputs": sum(self.done.values()),
            "targets": len(self.done),
            "seconds": round(time.monotonic() - self.began),
            "findings": self.findings,
            "kinds": dict(kinds),
        }
        if self.options.json:
            print(json.dumps(summary, indent=2, default=str))
            return int(bool(self.findings))
        counts = f"{summary['inputs']:,} inputs to {len(self.done)} targets, {len(self.findings)} findings"
        print(f"\nseed {self.seed}: {counts} in {summary['seconds']} s")
        for key, entry in sorted(self.findings.items(), key=lambda item: -item[1]["count"]):
            case = entry["cases"][0]
            again = f"--seed {case['seed']} --case {case['index']}"
            print(f"{entry['count']:5}  {key}\n       {again}  {case.get('target')}  {case.get('damage')}")
        return int(bool(self.findings))


if __name__ == "__main__":
    sys.exit(main())
