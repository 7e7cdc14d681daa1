"""Run one damaged input in this process and say what is wrong with the outcome, if anything."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import re
import shutil
import signal
import sys
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer.main

from evenli.core.startup import own_streams
from fuzzing import more_seeds, mutate  # noqa: F401  (registers its seeds)
from fuzzing.seeds import copy_seeds
from fuzzing.target import Target

_GATES = {"gate"}
"""Commands whose exit codes 1 and 3 mean something."""
_TRAINING = {"train", "meta"}
_VARIES = {"timings", "manifest_sha256"}
"""How long things took, and the hash over that and over where files are."""
_REMARKS = ("^evenli: (not run|continuing an interrupted run)", "predictions are reused$", "are scored again: ")
_REMARK = re.compile("|".join(_REMARKS))
"""What a command says before it knows that something is wrong."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class TimeIsUpError(BaseException):
    """The case took too long; no handler of ours catches it."""


@dataclass
class Outcome:
    """What a command did."""

    code: int | None
    stdout: str
    stderr: str
    error: str = ""
    place: str = ""


@dataclass
class Finding:
    """One thing that must not happen."""

    kind: str
    what: str
    details: str = ""
    case: dict[str, Any] = field(default_factory=dict)


WAIT = 7
"""Limits that an input may wait for: a busy machine is not a finding, a pipe that nobody writes is."""


class Runner:
    """Runs commands with captured output, below Python as well: libraries in C write to the same place."""

    def __init__(self, work: Path, limit: float) -> None:
        self.limit = limit
        work.mkdir(parents=True, exist_ok=True)
        self._files = [(work / name).open("wb+", buffering=0) for name in ("stdout", "stderr")]
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        for number in (signal.SIGALRM, signal.SIGPROF):
            signal.signal(number, _stop)
        # As on the command line, an unexpected error would be one line and a log; the fuzzer wants the traceback.
        os.environ["EVENLI_DEBUG"] = "1"
        # Two thirds of a case would go into making the same command line anew from the same functions.
        typer.main.get_command = functools.cache(typer.main.get_command)

    def __call__(self, words: tuple[str, ...]) -> Outcome:
        """Run one command line in the current folder."""
        from evenli.cli import main

        for number, file in enumerate(self._files, 1):
            file.seek(0)
            file.truncate()
            os.dup2(file.fileno(), number)
        # As a new process would have them.
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        sys.argv = ["evenli", *words]
        own_streams()
        outcome = Outcome(0, "", "")
        self._watch(self.limit)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always")
                for hidden in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
                    warnings.simplefilter("ignore", hidden)  # as in any Python
                main()
        except SystemExit as stop:
            outcome.code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
        except TimeIsUpError:
            outcome.code, outcome.error, outcome.place = (
                None,
                f"longer than {self.limit:g} s",
                _place(sys.exc_info()[2]),
            )
        except BaseException as error:
            outcome.code, outcome.place = None, _place(error.__traceback__)
            outcome.error = "".join(traceback.format_exception(error))
        finally:
            self._watch(0)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        outcome.stdout, outcome.stderr = (self._text(file) for file in self._files)
        return outcome

    @staticmethod
    def _watch(limit: float) -> None:
        """Limit the processor time, and the time on the clock for what waits without using any."""
        signal.setitimer(signal.ITIMER_PROF, limit)
        signal.setitimer(signal.ITIMER_REAL, WAIT * limit)

    @staticmethod
    def _text(file: Any) -> str:
        file.seek(0)
        return file.read(4 << 20).decode("utf-8", "backslashreplace")  # type: ignore[no-any-return]


def _stop(*_: object) -> None:
    raise TimeIsUpError


def _place(trace: Any) -> str:
    """The innermost line of ours: findings at one place are one finding."""
    frames = [frame for frame in traceback.extract_tb(trace) if "/evenli/" in frame.filename]
    return f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "?"


def judge(words: tuple[str, ...], outcome: Outcome, *, own: bool) -> Finding | None:
    """What is wrong with an outcome by itself; ``own`` words of the user may stand at the beginning of a line."""
    if outcome.code is None:
        first = outcome.error.strip().splitlines()[-1][:200]
        kind = "hang" if outcome.error.startswith("longer") else "unexpected error"
        return Finding(kind, f"{outcome.place}: {first.partition(':')[0]}", outcome.error)
    if outcome.code not in {0, 2} and not (outcome.code in {1, 3} and words[0] in _GATES):
        return Finding("exit code", f"{words[0]}: {outcome.code}", outcome.stderr)
    lines = outcome.stderr.rstrip("\n").split("\n") if outcome.stderr.strip() else []
    # A wrong option is explained by the option parser, in its own way.
    usage = any(line.startswith("Usage: ") for line in lines)
    if words[0] in _TRAINING:  # says on stderr how far it is
        lines = [line for line in lines if line.startswith("evenli: ") or "Warning" in line or "Error" in line]
    strange = [line for line in lines if not line.startswith("evenli: ")]
    if strange and not usage:
        return Finding("stray lines", f"{words[0]}: {strange[0][:80]}", outcome.stderr)
    if outcome.code == 2 and not usage and sum(not _REMARK.search(line) for line in lines) != 1:
        return Finding("not one line", f"{words[0]}: {len(lines)} lines", outcome.stderr)
    for name, text in (("stdout", outcome.stdout), ("stderr", outcome.stderr)):
        if control := _CONTROL.search(text):
            return Finding("control character", f"{words[0]}: {control.group()!r} on {name}", text[:4000])
        if any(line.startswith(mutate.FORGED) for line in text.splitlines()) and not own:
            return Finding("forged line", f"{words[0]}: {name}", text[:4000])
    return None


def said(outcome: Outcome, folder: Path, target: Target) -> Any:
    """What a command said: its output without how long things took."""
    # Every case has a folder of its own, and some results say where their inputs are.
    text = outcome.stdout.replace(str(folder), "")
    shown: Any = text
    with contextlib.suppress(ValueError):
        shown = _without_times(json.loads(text))
    file = folder / target.output if target.output else None
    return outcome.code, shown, file.read_bytes() if file is not None and file.is_file() else b""


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(item) for key, item in value.items() if key not in _VARIES}
    return [_without_times(item) for item in value] if isinstance(value, list) else value


class Cases:
    """Builds cases from seeds and runs them."""

    def __init__(self, seeds: Path, work: Path, targets: list[Target], limit: float = 30) -> None:
        self.seeds, self.work, self.targets = seeds, work, targets
        self.run = Runner(work, limit)
        self._expected: dict[str, Any] = {}

    def __call__(self, seed: str, index: int) -> tuple[str, Finding | None]:
        """One case: the target it is of, and what was found."""
        rng = random.Random(f"{seed}/{index}")
        target = rng.choices(self.targets, [target.weight for target in self.targets])[0]
        expected = self._undamaged(target) if target.evidence else None
        with self._folder(target, f"case-{index}") as folder:
            words, done = self._damage(rng, target, folder)
            outcome = self.run(words)
            finding = judge(words, outcome, own=target.change is not None)
            if finding is None and target.evidence and outcome.code != 2:
                now = said(outcome, folder, target)
                if now != expected:
                    finding = Finding("accepted", f"{words[0]}: {target.files[0]}", f"{_difference(expected, now)}")
            if finding is not None:
                finding.case = {"seed": seed, "index": index, "target": target.name, "words": words, "damage": done}
                finding.details += f"\n--- stderr\n{outcome.stderr[:2000]}\n--- stdout\n{outcome.stdout[:2000]}"
        return target.name, finding

    def undamaged(self, target: Target) -> str:
        """What is wrong with a target itself: damage to what is refused anyway, or to no file, tries nothing."""
        with self._folder(target, "undamaged") as folder:
            empty = [pattern for pattern in target.files if not any(map(Path.is_file, folder.glob(pattern)))]
            outcome = self.run(target.words)
        if empty:
            return f"no file {', '.join(empty)}"
        accepted = outcome.code == 0 or (outcome.code in {1, 3} and target.words[0] in _GATES)
        return "" if accepted != target.refused else f"exit code {outcome.code}: {outcome.stderr}{outcome.error}"

    def _undamaged(self, target: Target) -> Any:
        if target.name not in self._expected:
            with self._folder(target, "undamaged") as folder:
                outcome = self.run(target.words)
                if outcome.code not in {0, 1, 3}:
                    raise RuntimeError(f"{target.name} fails on valid input: {outcome.stderr}{outcome.error}")
                self._expected[target.name] = said(outcome, folder, target)
        return self._expected[target.name]

    def _damage(self, rng: random.Random, target: Target, folder: Path) -> tuple[tuple[str, ...], str]:
        if target.change is not None:
            return target.change(rng, target.words), "words"
        files = sorted(file for pattern in target.files for file in folder.glob(pattern) if file.is_file())
        file = rng.choice(files)
        others = sorted(one for one in folder.rglob("*") if one.is_file() and one != file)
        done = [mutate.damage(rng, file, others)]
        if rng.random() < 0.1 and file.is_file() and not file.is_symlink():
            done.append(mutate.damage(rng, file, others))
        return target.words, f"{file.relative_to(folder)}: {', '.join(done)}"

    @contextlib.contextmanager
    def _folder(self, target: Target, name: str) -> Any:
        """A fresh folder with copies of the seeds; removed afterwards."""
        folder = copy_seeds(self.seeds, target.seeds, self.work / name)
        before = Path.cwd()
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)
            shutil.rmtree(folder, ignore_errors=True)


def _difference(before: Any, after: Any, path: str = "") -> str:
    """The first place where two values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            if before.get(key, ...) != after.get(key, ...):
                return _difference(before.get(key, ...), after.get(key, ...), f"{path}.{key}")
    if isinstance(before, list | tuple) and isinstance(after, list | tuple) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            if one != other:
                return _difference(one, other, f"{path}[{number}]")
    return f"{path}: {str(before)[:300]!r} became {str(after)[:300]!r}"
