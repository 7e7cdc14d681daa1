"""A minute of the fuzzer and a part of the crash matrix, both in processes of their own.

The seed is fixed, so that a change fails for what it did and not for what nobody had tried before. EVENLI_FUZZ_SEED
gives another one; ``tools/fuzz.py`` itself takes a new one each time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
SEED = os.environ.get("EVENLI_FUZZ_SEED", "1")


def test_damaged_inputs_are_refused_or_change_nothing(tmp_path: Path, fuzz_seeds: Path) -> None:
    """Fails on a finding only, however few inputs a slow machine gets through; the seed stands in the message."""
    command = [sys.executable, TOOLS / "fuzz.py", "--minutes", "1", "--inputs", "700", "--quick", "--limit", "120"]
    command += ["--json", "--seed", SEED]
    (tmp_path / "seeds").symlink_to(fuzz_seeds)
    done = subprocess.run([*command, "--out", tmp_path], capture_output=True, text=True, check=False, timeout=900)
    result = json.loads(done.stdout)
    findings = "".join(f"\n{what}: {one['cases']}" for what, one in result["findings"].items())
    again = f"python tools/fuzz.py --quick --seed {result['seed']} --case INDEX"
    assert not result["findings"], f"{again}{findings}"
    assert done.returncode == 0 and result["inputs"] > 0


def test_the_fuzzer_sees_what_is_planted(tmp_path: Path, fuzz_seeds: Path) -> None:
    """The control: a reader that accepts anything, a traceback and a raw escape are found."""
    code = f"""
import sys
sys.path.insert(0, {str(TOOLS)!r})
from pathlib import Path
from fuzzing.check import Cases, Outcome, judge
from fuzzing.targets import targets
import evenli.audit.predictions as predictions

results = open(sys.argv[1], "w")
predictions.RunFolder.content = lambda self, name, header: (self.path / name).read_bytes()
chosen = [one for one in targets() if one.name == "table-results.json"]
cases = Cases(Path({str(fuzz_seeds)!r}), Path("work").resolve(), chosen, 60)
found = [cases("planted", index)[1] for index in range(200)]
results.write(" ".join(sorted({{one.kind.replace(" ", "-") for one in found if one is not None}})))
words = ("table", "run")
for outcome in (
    Outcome(None, "", "", "ValueError: x", "io.py:read"),
    Outcome(3, "", ""),
    Outcome(2, "", "evenli: one\\nevenli: two\\n"),
    Outcome(2, "", "Traceback\\n"),
    Outcome(0, "\\x1b[2J", ""),
    Outcome(0, "FORGED-LINE passed\\n", ""),
    Outcome(1, "", ""),
):
    results.write(f"\\n{{judge(words, outcome, own=False).kind}}")
results.flush()
"""
    (tmp_path / "planted.py").write_text(code, encoding="utf-8")
    program = [sys.executable, "planted.py", "planted.txt"]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, (tmp_path / "work" / "stderr").read_text(encoding="utf-8")
    kinds = (tmp_path / "planted.txt").read_text(encoding="utf-8").split("\n")
    assert "accepted" in kinds[0]
    expected = ["unexpected error", "exit code", "not one line", "stray lines", "control character", "forged line"]
    assert kinds[1:] == [*expected, "exit code"]


def test_killed_writers_end_where_undisturbed_ones_do(fuzz_seeds: Path) -> None:
    pytest.importorskip("torch")
    command = [sys.executable, TOOLS / "crash_matrix.py", "--quick", "--json", "--only", "audit", "--seed", SEED]
    command += ["--seeds", fuzz_seeds.parent]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    result = json.loads(done.stdout)
    assert not result["problems"], f"seed {result['seed']}: {result['problems']}"
    assert done.returncode == 0 and result["cells"] >= 6
