"""A package from outside adds an encoder backend and a mitigation: one module and its entry points, nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenli
from evenli.core.errors import InputError
from evenli.core.registry import ENCODERS, MITIGATIONS
from evenli.encoders.base import load_encoder
from evenli.encoders.mitigation import MitigationSettings
from plugin_package import installed, plugin_environment, write_plugin

pytest.importorskip("sklearn")
pytestmark = pytest.mark.usefixtures("two_draws")
LETTERS = '''
"""Counts of letters as embeddings; gendered words lie on either side of the first axis."""
import numpy as np

FEMALE, MALE = {"she", "her", "woman", "girl", "mother"}, {"he", "his", "man", "boy", "father"}


class Letters:
    def __init__(self, dimension, pooling):
        self.dimension = dimension
        self.identity = f"letters:{dimension}:{pooling}"

    def encode(self, texts):
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            for letter in text.lower():
                rows[row, ord(letter) % self.dimension] += 1
            words = {word.strip(".,") for word in text.lower().split()}
            rows[row, 0] += 5 * (len(words & FEMALE) - len(words & MALE))
        return rows


def load(target, request):
    return Letters(int(target), request.pooling)
'''
MEANS = '''
"""Project out the difference between the class means, stretched by a factor that changes nothing."""
import numpy as np

from dataclasses import dataclass

from evenli.encoders.erasers import Projection
from evenli.core.mitigation import Method
from evenli.core.settings import Settings, setting


@dataclass(frozen=True)
class MeansSettings(Settings):
    factor: float = setting(2.0, "Length of the direction.", minimum=0.5)


def fit(data, settings, generator):
    difference = data.female.mean(axis=0) - data.male.mean(axis=0)
    return Projection(settings.factor * difference.astype(np.float64), method="means")


def fit_nothing(data, settings, generator):
    return "no eraser"


METHOD = Method(
    "means",
    "Project out the difference between the class means",
    "Nobody 2026",
    fit,
    MeansSettings(),
)
NOTHING = Method("nothing", "Return no eraser", "Nobody 2026", fit_nothing)
'''
SHORTER = '''
"""Leave out the long lines of a text: a mitigation of a corpus."""
from dataclasses import dataclass
from pathlib import Path

from evenli.core.mitigation import Method
from evenli.core.settings import Settings, setting


@dataclass(frozen=True)
class ShorterSettings(Settings):
    longest: int = setting(80, "Letters at most.", minimum=1)


def apply(source, out, settings, overwrite):
    lines = Path(source).read_text().splitlines(keepends=True)
    kept = [line for line in lines if len(line) <= settings.longest]
    Path(out).write_text("".join(kept))
    return {"file": str(out), "kept": len(kept), "of": len(lines)}


METHOD = Method(
    "shorter",
    "Leave out the long lines of a text",
    "Nobody 2026",
    settings=ShorterSettings(),
    kind="corpus",
    apply=apply,
)
'''
POINTS = {
    "evenli.encoders": {"letters": "evenli_letters.backend:load", "hf": "evenli_letters.backend:load"},
    "evenli.mitigations": {
        "means": "evenli_letters.means:METHOD",
        "nothing": "evenli_letters.means:NOTHING",
        "shorter": "evenli_letters.shorter:METHOD",
        "broken": "evenli_letters.absent:METHOD",
    },
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    modules = {"backend": LETTERS, "means": MEANS, "shorter": SHORTER, "__init__": ""}
    modules = {f"evenli_letters.{name}": text for name, text in modules.items()}
    return write_plugin(tmp_path_factory.mktemp("site"), "evenli-letters", modules, POINTS)


def test_from_the_command_line(package: Path, run_cli: Callable[..., Any], tmp_path: Path) -> None:
    def evenli(*arguments: object) -> Any:
        return run_cli(*map(str, arguments), cwd=tmp_path, env=plugin_environment(package))

    unknown = run_cli("seat", "letters:32", cwd=tmp_path)
    assert unknown.returncode == 2 and "letters:32" in unknown.stderr  # the control: not installed
    done = evenli("seat", "letters:32", "--tests", "C6b", "--permutations", 200, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tests"][0]["effect"] is not None
    shown = evenli("mitigate", "--help").stdout
    assert "Project out the difference" in shown and "broken" in shown and "leace" in shown
    assert "--factor" in evenli("mitigate", "means", "--help").stdout
    done = evenli("mitigate", "means", "letters:32", "-o", "fairer", "--factor", 3, "--json")
    assert done.returncode == 0, done.stderr
    about = json.loads(done.stdout)
    assert about["settings"] == {"factor": 3.0, "seed": 0} and about["eraser"]["rank"] == 1
    assert about["leakage"]["before"] != about["leakage"]["after"]
    done = evenli("seat", "mitigated:fairer,letters:32", "--tests", "C6b", "--permutations", 200, "--json")
    assert done.returncode == 0, done.stderr
    small = evenli("mitigate", "means", "letters:32", "-o", "other", "--factor", 0.1)
    assert small.returncode == 2 and "--factor" in small.stderr
    broken = evenli("mitigate", "broken")
    assert broken.returncode == 2 and "evenli_letters.absent" in broken.stderr and "Traceback" not in broken.stderr


def test_from_python(package: Path, tmp_path: Path) -> None:
    assert "letters" not in ENCODERS and "means" not in MITIGATIONS
    with installed(package, ENCODERS, MITIGATIONS):
        base = load_encoder("letters:32", pooling="max")
        assert base.identity == "letters:32:max"  # type: ignore[attr-defined]
        assert base.encode(["ab", "b"]).shape == (2, 32)
        evenli.mitigate("means", "letters:32", tmp_path / "fairer", factor=1.0)
        fairer = load_encoder(f"mitigated:{tmp_path / 'fairer'},letters:32")
        difference = fairer.encode(["She walks."]) - load_encoder("letters:32").encode(["She walks."])
        assert np.abs(difference).max() > 0.1
        with pytest.raises(InputError, match="factor"):
            evenli.mitigate("means", "letters:32", tmp_path / "other", factor=0.1)
        with pytest.raises(InputError, match="Projection"):
            evenli.mitigate("nothing", "letters:32", tmp_path / "nothing")
        assert not (tmp_path / "nothing").exists()
        # A package cannot take the place of a built-in backend.
        assert ENCODERS.get("hf").__module__ == "evenli.encoders.hf"
    assert "letters" not in ENCODERS and "means" not in MITIGATIONS


def test_a_mitigation_of_a_corpus(package: Path, run_cli: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("short\nmuch too long\n")
    with installed(package, MITIGATIONS):
        about = evenli.mitigate("shorter", tmp_path / "text.txt", tmp_path / "python.txt", longest=6)
        with pytest.raises(InputError, match="longest"):
            evenli.mitigate("shorter", tmp_path / "text.txt", tmp_path / "other.txt", longest=0)
        with pytest.raises(InputError, match="corpus"):
            MitigationSettings("shorter")
    assert about["kept"] == 1 and (tmp_path / "python.txt").read_text() == "short\n"
    given = ("mitigate", "shorter", "text.txt", "-o", "cli.txt", "--longest", "6")
    done = run_cli(*given, "--json", cwd=tmp_path, env=plugin_environment(package))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kept"] == 1 and (tmp_path / "cli.txt").read_text() == "short\n"
    shown = run_cli(*given, cwd=tmp_path, env=plugin_environment(package)).stdout
    assert "cli.txt" in shown and "kept: 1" in shown
