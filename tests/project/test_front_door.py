"""The first commands of the README, in a fresh copy of the repository without an environment."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def first_commands() -> list[str]:
    block = re.search(r"```bash\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    return [line.partition("#")[0].strip() for line in block[1].splitlines()]


def test_the_readme_begins_with_the_two_commands() -> None:
    assert first_commands() == ["make audit", "make test"]


@pytest.mark.slow
def test_the_first_command_works_on_a_fresh_copy(tmp_path: Path) -> None:
    """Only ``make audit`` is run: ``make test`` would run this file, and is what CI does."""
    if not (ROOT / ".git").exists() or shutil.which("make") is None:
        pytest.skip("needs git and make")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("VIRTUAL_ENV", "PYTHON", "EVENLI"))
    }
    done = subprocess.run(first_commands()[0].split(), cwd=clone, env=kept, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert list(clone.glob("runs/*/results.json")) and list(clone.glob("runs/*/report.html"))
