"""What a process brings with it: its environment, its flags, the process that it was forked from."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evenli.audit.audit import default_folder
from evenli.audit.settings import AuditSettings
from evenli.core.io import write_atomic
from evenli.core.startup import QUIET

FORK = """
import multiprocessing, sys
import evenli
from evenli.core.errors import EvenliError


def work(number):
    try:
        return evenli.audit("evenli:en", suites="coal", limit=20).coal.value
    except EvenliError as error:
        return str(error)


def pool():
    with multiprocessing.get_context("fork").Pool(2) as workers:
        return workers.map_async(work, range(2)).get(timeout=120)


before = pool()
here = work(0)
print(before == [here, here] and here > 0, *pool(), sep="\\n")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_fork_after_an_audit_is_one_line_and_no_hang() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    before, *lines = done.stdout.splitlines()
    assert before == "True" and len(lines) == 2 and all("spawn" in line for line in lines)


def test_threads_that_write_one_file_leave_one_of_the_texts(tmp_path: Path) -> None:
    def write(number: int) -> bool:
        write_atomic(tmp_path / "file", str(number) * 50_000)
        found = (tmp_path / "file").read_text()
        return len(found) == 50_000 and len(set(found)) == 1

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(write, [number % 8 for number in range(400)]))
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_variable_that_the_user_has_set_stays() -> None:
    code = f"import os, evenli.pytest_plugin\nprint(*(os.environ.get(name) for name in {list(QUIET)}))"
    own = dict.fromkeys(list(QUIET)[::2], "own")
    environment = {name: value for name, value in os.environ.items() if name not in QUIET} | own
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.split() == list((QUIET | own).values())


def test_a_report_without_docstrings_is_refused_before_the_audit(tmp_path: Path) -> None:
    command = [sys.executable, "-B", "-OO", "-m", "evenli", "audit", "fake:even", "--report", "--out", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "docstrings" in done.stderr, done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("letter", ["a", "語"])
def test_a_default_folder_has_a_name_that_file_systems_take(letter: str, tmp_path: Path) -> None:
    def folder(spec: str) -> Path:
        return default_folder(spec, "en", {}, ["coal"], AuditSettings(limit=20))

    long, other = f"onnx:/{letter * 300}/1", f"onnx:/{letter * 300}/2"
    assert folder(long) == folder(long) != folder(other)
    (tmp_path / f".{folder(long).name}.{os.getpid()}-12345678.old").mkdir()
    assert folder("fake:even").name.startswith("fake-even-en-")
