"""No network unless asked for: every command, in a network namespace without routes and under a resolver of our own."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
UNSHARE = ["unshare", "-rnm"]


def _has_namespaces() -> bool:
    if not all(map(shutil.which, ("unshare", "mount", "getent"))):
        return False
    code = "import os; open('/proc/net/snmp').read(); open('/etc/resolv.conf').read()"
    return subprocess.run([*UNSHARE, sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not _has_namespaces(), reason="network namespaces are not available here")


def record(folder: Path, fuzz_seeds: Path, *commands: str) -> dict[str, Any]:
    """What some commands tried to reach, all of them in one process."""
    words = [
        *UNSHARE,
        sys.executable,
        str(TOOLS / "fuzzing" / "offline.py"),
        "result.json",
        str(fuzz_seeds),
        "work",
        *commands,
    ]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads((folder / "result.json").read_text(encoding="utf-8")))


def check(seen: dict[str, Any]) -> None:
    control = seen.pop("control")
    assert "control.example" in control["names"] and control["counters"], "the recorder saw nothing of its own question"
    for name, one in seen.items():
        assert (one["asked"], one["names"], one["counters"]) == ([], [], {}), f"{name} reached for the network: {one}"


def test_no_command_reaches_for_the_network(tmp_path: Path, fuzz_seeds: Path) -> None:
    if not all(map(importlib.util.find_spec, ("transformers", "onnxscript"))):
        pytest.skip("some commands need transformers and onnxscript")
    seen = record(tmp_path, fuzz_seeds)
    check(seen)
    # A command that fails at once would be silent as well; those that name something on the hub are refused.
    failed = {name: one["error"] for name, one in seen.items() if one["code"] != (2 if "hub id" in name else 0)}
    assert not failed
    assert all("--online" in one["error"] for name, one in seen.items() if "hub id" in name)


@pytest.mark.parametrize("command", ["audit of the embedded model", "doctor"])
def test_nor_does_a_fresh_process(command: str, tmp_path: Path, fuzz_seeds: Path) -> None:
    seen = record(tmp_path, fuzz_seeds, command)
    assert set(seen) == {"control", command}
    check(seen)


def test_every_writer_is_in_the_crash_matrix() -> None:
    """A command with an option for what it writes needs a line in tools/crash_matrix.py."""
    code = (
        f"import sys; sys.path.insert(0, {str(TOOLS)!r})\n"
        "import typer.main\n"
        "from crash_matrix import WRITERS\n"
        "from evenli.cli import app\n"
        "def leaves(command, name=''):\n"
        "    for part, one in getattr(command, 'commands', {}).items():\n"
        "        if not one.hidden:\n"
        "            yield from leaves(one, f'{name} {part}'.strip())\n"
        "    if not hasattr(command, 'commands'):\n"
        "        yield name, {word for option in command.params for word in option.opts}\n"
        "writes = {'--out', '--export', '--into', '--junit'}\n"
        "found = {name for name, words in leaves(typer.main.get_command(app)) if words & writes}\n"
        "covered = {' '.join(one.words[:n]) for one in WRITERS for n in (1, 2)}\n"
        "assert len(found) > 15 and found <= covered, found - covered\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_command_is_tried() -> None:
    """A new command needs a call that works in tools/fuzzing/targets.py, for this test and for the fuzzer."""
    code = (
        f"import sys; sys.path.insert(0, {str(TOOLS)!r})\n"
        "from fuzzing.targets import VALID, commands, targets\n"
        "assert set(VALID) == set(commands()), set(VALID) ^ set(commands())\n"
        "tried = {' '.join(target.words[:2]) for target in targets()}\n"
        "missing = [name for name in VALID if not any(f'{words} '.startswith(f'{name} ') for words in tried)]\n"
        "assert not missing, missing\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
