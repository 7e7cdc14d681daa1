"""The oldest versions that pyproject.toml allows do work: installed into an environment of their own, and used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import evenli

ROOT = Path(__file__).parents[2]
EXTRAS = "hf,chat,gguf,onnx,train,report,wording,encoders,attribution,view"
"""All that need no further machinery; torch is that of constraints.txt, older ones come with gigabytes of CUDA."""
USED = (
    *("tests/audit/test_models.py", "tests/audit/test_model_files.py", "tests/audit/test_report.py"),
    *("tests/llm/test_causal.py", "tests/llm/test_chat.py", "tests/training/test_export.py"),
    *("tests/encoders/test_encoders.py", "tests/encoders/test_erasers.py", "tests/project/test_positions.py"),
    *("tests/project/test_records.py", "tests/audit/test_suites.py"),
)
"""Tests that are run there: every backend, a report, an export, encoders and erasers."""
LATER = "tests/audit/test_models.py::test_speedups_change_no_answer_and_know_their_limits"  # layers of transformers 5
pytestmark = [pytest.mark.slow, pytest.mark.network]


def run(*words: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([*map(str, words)], cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, words))}\n{done.stdout[-3000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def oldest(folder: Path, extras: str = "", *further: str) -> Path:
    """The Python of a new environment with the oldest direct dependencies."""
    run(sys.executable, "-m", "venv", folder, cwd=ROOT)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "uv", *further, cwd=ROOT)
    listed = run(python, "-m", "pip", "freeze", cwd=ROOT)
    kept = re.findall(r"^torch==\S+", listed, re.MULTILINE)  # the build that pip chose
    wanted = ["--editable", f"{ROOT}[{extras}]" if extras else str(ROOT), *kept]
    run(python, "-m", "uv", "pip", "install", "--python", python, "--resolution", "lowest-direct", *wanted, cwd=ROOT)
    return python


def test_an_audit_with_the_oldest_base_is_that_of_today(tmp_path: Path) -> None:
    python = oldest(tmp_path / "venv")
    run(python, "-m", "evenli", "audit", "--limit", "60", "--out", tmp_path / "run", cwd=tmp_path)
    stored = json.loads((tmp_path / "run" / "results.json").read_text())["labour"]["measures"]
    today = evenli.audit(limit=60).result.to_dict()["labour"]["measures"]
    assert stored.keys() == today.keys() and len(today) > 10
    for name, measure in today.items():
        assert stored[name]["value"] == pytest.approx(measure["value"], abs=1e-3), name
    run(python, "-m", "evenli", "verify", tmp_path / "run", cwd=tmp_path)


def test_every_backend_works_with_the_oldest_extras(tmp_path: Path) -> None:
    (torch,) = re.findall(r"^torch==\S+", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    python = oldest(tmp_path / "venv", EXTRAS, torch)
    run(python, "-m", "pip", "install", "--quiet", "pytest", "hypothesis", "jsonschema", cwd=ROOT)
    # Old libraries warn of older ones.
    said = run(python, "-m", "pytest", "-q", "--override-ini=filterwarnings=", f"--deselect={LATER}", *USED, cwd=ROOT)
    passed = re.search(r"(\d+) passed", said)
    assert passed is not None and int(passed[1]) > 200 and "failed" not in said
