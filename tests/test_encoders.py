"""Encoders by their spec, and ``evenli seat`` on them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from evenli.encoders import VectorMean, encode_checked, load_encoder
from evenli.errors import InputError, ModelError
from evenli.vectors import WordVectors


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    """Vectors in which male names go with career and female ones with family."""
    generator = np.random.default_rng(0)
    lean = dict.fromkeys(("john", "paul", "career", "office"), 1.0) | dict.fromkeys(
        ("amy", "lisa", "family", "home"), -1.0
    )
    rows = {word: generator.normal(0, 0.1, 6) + side * np.eye(6)[0] for word, side in lean.items()}
    path = tmp_path / "toy.txt"
    path.write_text("".join(f"{w} {' '.join(f'{x:.4f}' for x in row)}\n" for w, row in rows.items()), encoding="utf-8")
    return path


@pytest.fixture
def own_test(tmp_path: Path) -> Path:
    sets = {
        "targ1": ["john", "paul"],
        "targ2": ["amy", "lisa"],
        "attr1": ["career", "office"],
        "attr2": ["family", "home"],
    }
    path = tmp_path / "own.json"
    path.write_text(json.dumps({k: {"category": k, "examples": v} for k, v in sets.items()}), encoding="utf-8")
    return path


def test_mean_of_words_by_hand() -> None:
    encoder = VectorMean(WordVectors.of(["a", "b"], [[1.0, 3.0], [3.0, 5.0]]))
    np.testing.assert_allclose(
        encoder.encode(["a b", "a xyz", "xyz", "b b a"]), [[2, 4], [1, 3], [0, 0], [7 / 3, 13 / 3]], rtol=1e-6
    )


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_transformer_pooling_leaves_padding_out(checkpoint: Path, pooling: str) -> None:
    encoder = load_encoder(f"hf:{checkpoint}", pooling=pooling, device="cpu")
    texts = ["the nurse walks", "the", "the nurse walks in the rain near a small house"]
    together = encoder.encode(texts)
    alone = np.concatenate([encoder.encode([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert np.abs(together[0] - together[1]).max() > 0.01


def test_poolings_differ_and_unknown_ones_are_refused(checkpoint: Path) -> None:
    made = [
        load_encoder(str(checkpoint), pooling=p, device="cpu").encode(["the nurse walks"])
        for p in ("mean", "cls", "max")
    ]
    assert not np.allclose(made[0], made[1]) and not np.allclose(made[0], made[2])
    with pytest.raises(InputError, match="choose mean, cls, max"):
        load_encoder(str(checkpoint), pooling="median")


def test_encoders_that_misbehave_are_named() -> None:
    class Wrong:
        def __init__(self, answer: object) -> None:
            self.answer = answer

        def encode(self, texts: list[str]) -> object:
            return self.answer

    with pytest.raises(ModelError, match=r"shape \(1, 2\) for 2 texts"):
        encode_checked(Wrong([[1.0, 2.0]]), ["a", "b"])
    with pytest.raises(ModelError, match="not finite for 'b'"):
        encode_checked(Wrong([[1.0], [np.nan]]), ["a", "b"])
    with pytest.raises(ModelError, match="is no encoder"):
        load_encoder("nothing")
    with pytest.raises(ModelError, match="expected py:module:function"):
        load_encoder("py:no_such_module:encode")


def test_seat_on_own_test_and_callable(run_cli, vectors: Path, own_test: Path, tmp_path: Path) -> None:
    done = run_cli("seat", f"vectors:{vectors}", "--tests", own_test, "--json")
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["tests"]
    assert result["effect"] > 1.5
    assert result["exact"] and result["p"] == pytest.approx(1 / 6)
    (tmp_path / "mine.py").write_text("def encode(texts):\n    return [[len(t), 1.0, t.count('a')] for t in texts]\n")
    done = run_cli("seat", "py:mine:encode", "--tests", "C6,C8b", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "C8b" in done.stdout and "C7 " not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["seat", "nothing"], "is no encoder"),
        (["seat", "vectors:absent.txt"], "absent.txt"),
        (["seat", "VECTORS", "--tests", "C9"], "no association test C9"),
        (["seat", "VECTORS", "--tests", "absent.json"], "absent.json"),
        (["seat", "VECTORS", "--level", "page"], "choose sentence or word"),
    ],
)
def test_bad_input_is_one_line(run_cli, vectors: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    real = {"VECTORS": f"vectors:{vectors}"}
    done = run_cli(*(real.get(argument, argument) for argument in arguments), cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
