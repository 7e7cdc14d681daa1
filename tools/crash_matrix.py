"""Every writer, killed, on a full disk, in a read-only folder, and twice at once; then the same command again.

    python tools/crash_matrix.py                 all writers; 12 kills at random writes and 3 at random times for each
    python tools/crash_matrix.py --quick         a few of them
    python tools/crash_matrix.py --only audit

Checked after every disturbance: the command ended as it should, what is half-written is refused by the command that
reads it, files that were there before are still there, and the same command brings the folder to what an undisturbed
one leaves. The exit code is 1 if something does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "src")]

from fuzzing import more_seeds  # noqa: E402, F401
from fuzzing.process import Child, Done, Ending, preload, run  # noqa: E402
from fuzzing.seeds import copy_seeds, material  # noqa: E402

Words = tuple[str, ...]
_VOLATILE = {
    "timings",
    "created",
    "seconds",
    "manifest_sha256",
    "files",
    "pairs_per_second",
    "trained_seconds",
    "sha256",
}
"""What differs between two undisturbed runs: how long things took, and hashes of files that say so."""
_UNSTABLE = {".lock", "metrics.jsonl"}


@dataclass(frozen=True)
class Writer:
    """A command that writes, what it needs, what it leaves, and a command that reads that."""

    command: str
    needs: str
    output: str
    reading: str = ""
    quick: bool = False
    adds: bool = False  # to a file that is there, so that one which is not ours is rightly refused

    @property
    def name(self) -> str:
        """The command without its options."""
        words = self.command.split()
        return " ".join(words[:2]) if words[0] in {"build", "mitigate", "train", "meta", "axis", "batch"} else words[0]

    @property
    def words(self) -> Words:
        """The command line."""
        return tuple(self.command.split())

    @property
    def seeds(self) -> Words:
        """Valid inputs that it needs."""
        return tuple(self.needs.split())


_SEAT = "--tests own.json --permutations 100"
_TRAIN = "--epochs 1 --batch-size 4 --no-graph --checkpoint-minutes 0 --device cpu"
_ENCODER = "--vectors vectors.txt --hidden 4 --epochs 3 --device cpu"
_GATE = "--fail-if coal.low>0.9"
_MITIGATED = f"seat mitigated:out {_SEAT}"
WRITERS = [
    Writer(
        "audit fake:oracle:0.3 --data pairs.jsonl -o out --token-budget 200",
        *("pairs", "out", f"gate out {_GATE} --json"),
        quick=True,
    ),
    Writer("predict fake:even --data pairs.jsonl -o out --token-budget 200", "pairs", "out"),
    Writer("batch write tiny --suite labour --limit 12 -o out.jsonl", "", "out.jsonl"),
    Writer(
        "batch read responses.jsonl --suite labour --limit 12 -o out",
        *("batch", "out", f"gate out {_GATE} --json"),
    ),
    Writer("measure run", "runs", "run", "card run", quick=True),
    Writer("score corpus.jsonl --vectors vectors.npz -o out", "corpus vectors", "out", "score out --json", quick=True),
    Writer("mitigate swap --corpus corpus.jsonl -o out.jsonl --overwrite", "corpus", "out.jsonl"),
    Writer("mitigate subtract scored -o out --split 2,2 --overwrite", "scored", "out", quick=True),
    Writer("mitigate augment scored -o out --split 2,2 --overwrite", "scored", "out"),
    Writer("mitigate hard-debias vectors.npz -o out --overwrite", "vectors seat-test", "out", _MITIGATED),
    Writer("mitigate leace vectors:many.txt -o out --overwrite", "mitigated seat-test", "out", _MITIGATED),
    Writer(
        "senteval vectors:vectors.txt --data data --tasks STS14,STSB --device cpu -o out.json",
        *("senteval vectors", "out.json"),
        adds=True,
    ),
    Writer("encoder-report vectors:many.txt --permutations 100 -o out", "mitigated", "out"),
    Writer("direction --vectors vectors.npz -o out", "vectors", "out"),
    Writer("meta -o out --stage prepare --rates 0,0.5,1 --width 2", "", "out"),
    Writer("meta -o sweep", "meta", "sweep"),
    Writer(
        f"train nli model --data train.jsonl -o out {_TRAIN}",
        *("checkpoint trained pairs", "out", "predict out --data few.jsonl -o answers --device cpu"),
    ),
    Writer(
        f"train encoder --data train.jsonl --dev dev.jsonl -o out {_ENCODER}",
        *("infersent vectors seat-test", "out", f"seat infersent:out {_SEAT} --device cpu"),
    ),
    Writer("build coal --axis axis.toml --width 2 -o out.parquet", "axis", "out.parquet", quick=True),
    Writer("build probe --per-occupation 1 -o out.csv", "", "out.csv"),
    Writer("build dev2020 --words man -o out.csv", "", "out.csv"),
    Writer("build controlled --width 2 --rates 0,0.5,1 -o out", "", "out"),
    Writer("table run -o out.csv", "runs", "out.csv"),
    Writer("compare run other -o out.tex", "runs", "out.tex"),
    Writer("report run -o out.html", "runs", "out.html"),
    Writer(f"gate run {_GATE} --junit out.xml", "runs", "out.xml"),
    Writer("export run --as cyclonedx -o out.json", "runs", "out.json"),
    Writer("export run --as every-eval-ever -o out", "runs", "out"),
    Writer("evidence run -o out --overwrite", "runs", "out", "verify out --json"),
    Writer("onnx model -o out --check few.jsonl", "checkpoint pairs", "out"),
    Writer("robustness fake:neutral --data wordings.csv -o out", "wordings", "out", "robustness out --json"),
    Writer("view . --export out", "runs", "out"),
    Writer("card run --into out.md", "runs", "out.md"),
    Writer("axis new mine -o out", "", "out"),
]


def main() -> int:
    """Run the matrix; 0 if everything holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="Only writers whose name contains this; several with commas.")
    parser.add_argument("--quick", action="store_true", help="A few writers with a few kills.")
    parser.add_argument("--kills", type=int, default=12, help="Kills at random writes for each writer.")
    parser.add_argument("--seed", default=None, help="Repeat a run; default: a new one.")
    parser.add_argument("--seeds", default=None, help="Folder that keeps the valid inputs.")
    parser.add_argument("--json", action="store_true", help="Print the result as JSON.")
    options = parser.parse_args()
    seed = options.seed or str(secrets.randbelow(10**12))
    with tempfile.TemporaryDirectory(prefix="crash-") as temporary:
        only = options.only.split(",")
        chosen = [one for one in WRITERS if any(map(one.name.__contains__, only)) and (one.quick or not options.quick)]
        seeds = Path(options.seeds or temporary) / "seeds"
        _build(seeds, {name for one in chosen for name in one.seeds})
        matrix = Matrix(seeds, Path(temporary), seed, 3 if options.quick else options.kills)
        for writer in chosen:
            matrix.check(writer)
            if not options.json:
                print(f"{writer.name:22} {matrix.counted(writer.name)}", flush=True)
    return matrix.summary(as_json=options.json)


class Matrix:
    """Runs writers under disturbances and keeps what did not hold."""

    def __init__(self, seeds: Path, work: Path, seed: str, kills: int) -> None:
        self.seeds, self.work, self.seed, self.kills = seeds, work, seed, kills
        self.rng = random.Random(seed)
        self.cells: Counter[tuple[str, str]] = Counter()
        self.problems: list[str] = []
        self._number = 0
        preload()

    def check(self, writer: Writer) -> None:
        """All disturbances of one writer."""
        folder = self._folder(writer)
        clean = run(writer.words, folder)
        if clean.code != 0:
            self.problems.append(f"{writer.name}: fails undisturbed: {clean.stderr[-300:]}")
            return
        self.expected = snapshot(folder / writer.output)
        self.answer = self._read(writer, folder)
        largest = max((file.stat().st_size for file in _files(folder / writer.output)), default=1)
        for kind, ending in self._endings(clean, largest):
            self._disturb(writer, kind, ending)
        self._read_only(writer)
        self._twice(writer)

    def _endings(self, clean: Done, largest: int) -> Iterator[tuple[str, Ending]]:
        """Kills at writes, kills at moments, full disks."""
        for at in sorted(self.rng.sample(range(1, clean.writes + 1), min(self.kills, clean.writes))):
            yield "killed at a write", Ending(kill_at=at)
        for _ in range(max(1, self.kills // 4)):
            yield "killed at a moment", Ending(after=self.rng.uniform(0, clean.seconds))
        for share in (0.0, self.rng.uniform(0.05, 0.95)):
            yield "full disk", Ending(largest=int(largest * share))

    def _disturb(self, writer: Writer, kind: str, ending: Ending) -> None:
        folder = self._folder(writer)
        old = self._old(writer, folder)
        done = run(writer.words, folder, ending)
        where = f"{writer.name}, {kind} ({ending})"
        self.cells[writer.name, kind] += 1
        if kind == "full disk" and not (done.code in {0, 2} and _one_line(done)):
            self.problems.append(f"{where}: exit code {done.code}: {done.stderr[-500:]}")
        self._check_old(writer, folder, old, where)
        self._check_reader(writer, folder, where)
        self._again(writer, folder, where)

    def _old(self, writer: Writer, folder: Path) -> bytes | None:
        """An older file of the same name, where the output is one file."""
        if "." not in writer.output or writer.adds:
            return None
        (folder / writer.output).write_bytes(b"an older result\n")
        return b"an older result\n"

    def _check_old(self, writer: Writer, folder: Path, old: bytes | None, where: str) -> None:
        """The old file is there, or the new one is, whole."""
        if old is None:
            return
        file = folder / writer.output
        if not file.is_file() or (file.read_bytes() != old and snapshot(file) != self.expected):
            self.problems.append(f"{where}: the old file is gone and the new one is not whole")

    def _check_reader(self, writer: Writer, folder: Path, where: str) -> None:
        """What is there is refused, or it is the result."""
        if not writer.reading:
            return
        answer = self._read(writer, folder)
        if answer not in (None, self.answer):
            self.problems.append(f"{where}: {writer.reading[:20]} accepts what is half-written: {answer}"[:500])

    def _read(self, writer: Writer, folder: Path) -> Any:
        if not writer.reading:
            return None
        done = run(tuple(writer.reading.split()), folder)
        shutil.rmtree(folder / "answers", ignore_errors=True)
        return None if done.code == 2 else (done.code, _plain(done.stdout.replace(str(folder), "FOLDER")))

    def _again(self, writer: Writer, folder: Path, where: str) -> None:
        """The same command brings the folder to where it should be."""
        done = run(writer.words, folder)
        if done.code != 0:
            self.problems.append(f"{where}: the same command again ends with {done.code}: {done.stderr[-500:]}")
            return
        if difference := _difference(self.expected, snapshot(folder / writer.output)):
            self.problems.append(f"{where}: the result after it differs: {difference}")

    def _read_only(self, writer: Writer) -> None:
        folder = self._folder(writer)
        done = run(writer.words, folder, Ending(read_only=folder))
        if "Operation not permitted" in done.stderr and "unshare" in done.stderr:
            return  # namespaces are not available here
        self.cells[writer.name, "read-only"] += 1
        if done.code != 2 or not _one_line(done):
            self.problems.append(f"{writer.name}, read-only: exit code {done.code}: {done.stderr[-500:]}")
        self._again(writer, folder, f"{writer.name}, read-only")

    def _twice(self, writer: Writer) -> None:
        folder = self._folder(writer)
        both = [Child(writer.words, folder) for _ in range(2)]
        ended = [child.wait() for child in both]
        self.cells[writer.name, "two at once"] += 1
        codes = sorted(one.code for one in ended)
        if codes[0] != 0 or codes[1] not in {0, 2} or not all(map(_one_line, ended)):
            messages = "; ".join(one.stderr[-300:] for one in ended)
            self.problems.append(f"{writer.name}, two at once: exit codes {codes}: {messages}")
        self._again(writer, folder, f"{writer.name}, two at once")

    def _folder(self, writer: Writer) -> Path:
        self._number += 1
        folder = copy_seeds(self.seeds, writer.seeds, self.work / f"cell-{self._number}")
        # The seed of a command may hold what it writes.
        if writer.output not in writer.words:
            return folder
        for left in (folder / writer.output,):
            if left.is_dir() and writer.words[0] not in {"measure", "meta"}:
                shutil.rmtree(left)
        return folder

    def counted(self, name: str) -> str:
        """The cells of a writer in words."""
        cells = ", ".join(f"{count} {kind}" for (writer, kind), count in self.cells.items() if writer == name)
        bad = sum(problem.startswith(f"{name}") for problem in self.problems)
        return f"{cells}: {'all hold' if not bad else f'{bad} DO NOT HOLD'}"

    def summary(self, *, as_json: bool) -> int:
        """Print the result; 1 if something does not hold."""
        kinds: Counter[str] = Counter()
        for (_, kind), count in self.cells.items():
            kinds[kind] += count
        facts = {"seed": self.seed, "cells": sum(kinds.values()), "kinds": dict(kinds)}
        if as_json:
            print(json.dumps({**facts, "problems": self.problems}, indent=2))
        else:
            print(f"seed {self.seed}: {facts['cells']} cells ({', '.join(f'{n} {kind}' for kind, n in kinds.items())})")
            print(f"{len(self.problems)} do not hold" + "".join(f"\n- {problem}" for problem in self.problems))
        return int(bool(self.problems))


def _build(seeds: Path, names: set[str]) -> None:
    """Build the valid inputs in a process of its own: this one may not compute before it forks."""
    pid = os.fork()
    if pid == 0:
        try:
            for name in sorted(names):
                material(seeds, name)
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise SystemExit("the valid inputs cannot be built")


def _one_line(done: Done) -> bool:
    return "Traceback" not in done.stderr and "unexpected" not in done.stderr


def _files(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(file for file in place.rglob("*") if file.is_file())


def snapshot(place: Path) -> dict[str, Any]:
    """What a writer left, without what differs each time."""
    kept = [file for file in _files(place) if file.name not in _UNSTABLE]
    return {str(file.relative_to(place.parent)): _content(file, place.parent) for file in kept}


def _content(file: Path, folder: Path) -> Any:
    # Every cell has a folder of its own, and some results say where their inputs are.
    content = file.read_bytes().replace(str(folder).encode(), b"FOLDER")
    try:
        if file.suffix == ".json":
            return _without(json.loads(content))
        if file.suffix == ".jsonl":
            return [_without(json.loads(line)) for line in content.splitlines()]
        if file.suffix == ".safetensors":
            return content[8 + int.from_bytes(content[:8], "little") :]
        if file.suffix == ".md":
            return "text"
    except ValueError:
        pass
    return content


def _plain(text: str) -> Any:
    try:
        return _without(json.loads(text))
    except ValueError:
        return text


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without(item) for key, item in value.items() if key not in _VOLATILE}
    return [_without(item) for item in value] if isinstance(value, list) else value


def _difference(before: dict[str, Any], after: dict[str, Any]) -> str:
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return ", ".join(
        f"{name} {'is missing' if name not in after else 'is new' if name not in before else 'has other content'}"
        for name in names
    )


if __name__ == "__main__":
    sys.exit(main())
