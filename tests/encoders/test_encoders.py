"""Encoders by their spec, and ``evenli seat`` on them."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import evenli
from conftest import make_checkpoint
from evenli.audit.models import load_model
from evenli.core.errors import EvenliError, InputError, ModelError
from evenli.encoders.base import CallableEncoder, PoolingError, encode_checked, load_encoder
from evenli.encoders.seat import read_test
from evenli.encoders.vectors import VectorMean, WordVectors


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
    singly = np.concatenate([encoder.encode([text]) for text in texts])
    np.testing.assert_allclose(together, singly, atol=1e-5)
    assert np.abs(together[0] - together[1]).max() > 0.01


def test_padding_is_left_out_whatever_the_tokenizer_gives(checkpoint: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(checkpoint, folder)
    about = folder / "tokenizer_config.json"
    fields = json.loads(about.read_text(encoding="utf-8"))
    about.write_text(json.dumps({**fields, "model_input_names": ["input_ids"]}), encoding="utf-8")
    texts = ["the nurse walks", "the nurse walks in the rain near a small house"]
    expected = load_encoder(f"hf:{checkpoint}", device="cpu").encode(texts)
    np.testing.assert_allclose(load_encoder(f"hf:{folder}", device="cpu").encode(texts), expected, atol=1e-5)


@pytest.mark.parametrize("ask", [lambda folder: load_encoder(f"hf:{folder}"), load_model], ids=["encoder", "model"])
def test_a_tokenizer_that_panics_is_one_line(checkpoint: Path, tmp_path: Path, ask: Callable[[str], object]) -> None:
    folder = tmp_path / "model"
    shutil.copytree(checkpoint, folder)
    about = folder / "tokenizer.json"
    fields = json.loads(about.read_text(encoding="utf-8"))
    piece, kind = {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, "TemplateProcessing"
    both = [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}]
    fields["post_processor"] = {"type": kind, "single": [piece, both[0]], "pair": [piece, *both], "special_tokens": {}}
    about.write_text(json.dumps(fields), encoding="utf-8")
    with pytest.raises(EvenliError, match="tokenizer"):
        ask(str(folder))


def test_poolings_differ_and_unknown_ones_are_refused(checkpoint: Path) -> None:
    made = [
        load_encoder(str(checkpoint), pooling=p, device="cpu").encode(["the nurse walks"])
        for p in ("mean", "cls", "max")
    ]
    assert not np.allclose(made[0], made[1]) and not np.allclose(made[0], made[2])
    with pytest.raises(InputError, match="cls"):
        load_encoder(str(checkpoint), pooling="median")


def test_a_pooling_that_cannot_be_had_is_refused(run_cli, vectors: Path, own_test: Path, tmp_path: Path) -> None:
    plain = load_encoder(f"vectors:{vectors}")
    assert load_encoder(f"vectors:{vectors}", pooling="mean").identity == plain.identity
    (tmp_path / "mine.py").write_text("def encode(texts):\n    return [[len(t), 1.0] for t in texts]\n")
    # It is refused before anything is loaded, so that infersent needs no weights here.
    for spec in (f"vectors:{vectors}", "py:mine:encode"):
        with pytest.raises(PoolingError, match="cls.*hf and onnx"):
            load_encoder(spec, pooling="cls")
    pytest.importorskip("torch")
    with pytest.raises(PoolingError, match="max pooling.*mean"):
        load_encoder("infersent:nowhere", pooling="mean")
    with pytest.raises(InputError, match="max.*hf and onnx"):
        evenli.mitigate("leace", f"vectors:{vectors}", tmp_path / "out", pooling="max")
    assert not (tmp_path / "out").exists()
    done = run_cli("seat", f"vectors:{vectors}", "--tests", own_test, "--pooling", "max")
    assert done.returncode == 2 and "--pooling max" in done.stderr and done.stdout == ""


@pytest.mark.parametrize("kind", ["hf", "infersent"])
def test_advice_about_pickles_names_no_option_that_is_not_there(tmp_path: Path, kind: str) -> None:
    pickled = make_checkpoint(tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(ModelError, match="pickle"):
        load_encoder(f"{kind}:{pickled}")


def test_encoders_that_misbehave_are_named() -> None:
    class Wrong:
        def __init__(self, answer: object) -> None:
            self.answer = answer

        def encode(self, texts: list[str]) -> object:
            return self.answer

    with pytest.raises(ModelError, match=r"\(1, 2\)"):
        encode_checked(Wrong([[1.0, 2.0]]), ["a", "b"])
    with pytest.raises(ModelError, match="'b'"):
        encode_checked(Wrong([[1.0], [np.nan]]), ["a", "b"])
    with pytest.raises(ModelError, match="encoder"):
        load_encoder("nothing")
    with pytest.raises(ModelError, match="py:module"):
        load_encoder("py:no_such_module:encode")


class Fixed:
    """Gives one answer, whatever is asked."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def encode(self, texts: list[str]) -> object:
        return self.answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([[1.0, 2.0], [3.0]], "unequal"),
        ([["a", "b"], ["c", "d"]], "strings"),
        ("ab", "str"),
        (None, "NoneType"),
        ({"a": [1.0], "b": [2.0]}, "dict"),
        (np.ones((2, 3), dtype=complex), "complex"),
        (np.array([[1.0, None], [2.0, 3.0]]), "objects"),
        (np.array([np.ones(2), np.ones(3)], dtype=object), "objects"),
        (np.empty((2, 0)), r"\(2, 0\)"),
        ([1.0, 2.0], r"\(2,\)"),
        (np.ones((2, 3, 1)), r"\(2, 3, 1\)"),
        ([[1.0], [np.inf]], "finite.*'b'"),
        ([[1e300], [1.0]], "finite.*'a'"),
        (np.ma.array(np.ones((2, 2)), mask=np.eye(2)), "masked"),
    ],
)
def test_wrong_outputs_are_one_line_that_names_the_encoder(answer: object, message: str) -> None:
    expected = f".*{message}"
    with pytest.raises(ModelError, match=f"^the encoder{expected}"):
        encode_checked(Fixed(answer), ["a", "b"])
    named = Fixed(answer)
    named.spec = "st:mine"
    with pytest.raises(ModelError, match=f"^st:mine{expected}"):
        encode_checked(named, ["a", "b"])
    for spec in ("", "py:mine:encode"):
        with pytest.raises(ModelError, match=f"^{spec or 'test_encoders:Fixed.encode'}{expected}"):
            CallableEncoder(Fixed(answer).encode, spec).encode(["a", "b"])


def test_tensors_are_taken_with_gradient_and_in_any_type() -> None:
    torch = pytest.importorskip("torch")
    rows = [[1.0, 2.0], [3.0, 4.0]]
    for answer in (
        torch.tensor(rows, requires_grad=True),
        torch.tensor(rows, dtype=torch.bfloat16),
        torch.tensor(rows).long(),
        [torch.tensor(row, requires_grad=True) for row in rows],
    ):
        made = CallableEncoder(lambda texts, answer=answer: answer).encode(["a", "b"])
        assert made.dtype == np.float32 and made.tolist() == rows
        assert encode_checked(Fixed(answer), ["a", "b"]).tolist() == rows
    with pytest.raises(ModelError, match="complex"):
        encode_checked(Fixed(torch.ones(2, 2, dtype=torch.complex64)), ["a", "b"])
    with pytest.raises(ModelError, match="array"):
        encode_checked(Fixed(torch.ones(2, 2).to_sparse()), ["a", "b"])


def test_a_callable_that_raises_is_named() -> None:
    def fail(texts: list[str]) -> object:
        raise KeyError("no\nword")

    with pytest.raises(ModelError, match="KeyError") as caught:
        CallableEncoder(fail, "py:mine:fail").encode(["a"])
    assert isinstance(caught.value.__cause__, KeyError)

    def refuse(texts: list[str]) -> object:
        raise InputError("not this one")

    with pytest.raises(InputError, match="not this one"):
        CallableEncoder(refuse).encode(["a"])
    assert CallableEncoder(fail).encode([]).shape == (0, 0)


def test_objects_with_encode_by_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evenli_mine.py").write_text(
        "class Mine:\n"
        "    identity = 'one'\n"
        "    def encode(self, texts): return [[len(text), 1] for text in texts]\n"
        "    def __call__(self, texts): raise TypeError('not by this way')\n"
        "made, other, text, number = Mine(), Mine(), 'encode', 3\n"
        "other.identity = 'two'\n",
        encoding="utf-8",
    )
    (tmp_path / "evenli_broken.py").write_text("1 / 0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    encoder = load_encoder("py:evenli_mine:made")
    assert encoder.encode(["a", "bcd"]).tolist() == [[1, 1], [3, 1]]
    before = encoder.identity
    sys.modules["evenli_mine"].made.identity = "three"
    assert load_encoder("py:evenli_mine:made").identity != before
    for name, message in (
        ("evenli_mine:Mine", "class"),
        ("evenli_mine:text", "function"),
        ("evenli_mine:number", "function"),
        ("evenli_mine:absent", "py:module"),
        ("evenli_broken:encode", "ZeroDivisionError"),
    ):
        with pytest.raises(ModelError, match=f"^py:{name}.*{message}"):
            load_encoder(f"py:{name}")


def test_seat_on_own_test_and_callable(run_cli, vectors: Path, own_test: Path, tmp_path: Path) -> None:
    done = run_cli("seat", f"vectors:{vectors}", "--tests", own_test, "--json")
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["tests"]
    assert result["effect"]["value"] > 1.5
    assert result["exact"] and result["p"] == pytest.approx(1 / 6)
    (tmp_path / "mine.py").write_text("def encode(texts):\n    return [[len(t), 1.0, t.count('a')] for t in texts]\n")
    done = run_cli("seat", "py:mine:encode", "--tests", "C6,C8b", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "C8b" in done.stdout and "C7 " not in done.stdout


def test_seat_takes_names_and_files_together_and_tells_its_settings(run_cli, vectors: Path, own_test: Path) -> None:
    done = run_cli("seat", vectors, "--tests", f"C6,{own_test},C6,", "--seed", "3", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [(test["name"], test["kind"]) for test in told["tests"]] == [("C6", "sentence"), ("own", "word")]
    assert told["settings"].items() >= {"seed": 3, "permutations": 100_000, "pooling": "mean"}.items()
    assert told["identity"].startswith("mean:") and told["mean"] is None


def test_seat_tells_words_without_a_vector(run_cli, vectors: Path, own_test: Path) -> None:
    done = run_cli("seat", f"vectors:{vectors}", "--tests", f"{own_test},C6", "--json")
    own, names = json.loads(done.stdout)["tests"]
    assert own["effect"]["note"] == ""
    # John, Paul, Amy and Lisa are there, career, office, family and home too: eight of the 32 words of C6.
    assert "24 of 32 words" in names["effect"]["note"]
    assert "24 of 32 words" in run_cli("seat", vectors, "--tests", "C6").stdout.replace("\n", " ")


def test_a_test_file_may_name_the_words_of_its_sentences(tmp_path: Path) -> None:
    part = {"examples": ["A dog.", "Dogs.", "A cat.", "A dog."], "words": ["dog", "dog", "cat", "other"]}
    path = tmp_path / "own.json"
    content = dict.fromkeys(("targ1", "targ2", "attr1", "attr2"), part)
    path.write_text(json.dumps(content), encoding="utf-8-sig")
    assert read_test(path).x.words == ("dog", "dog", "cat")
    assert read_test(path).x.texts == ("A dog.", "Dogs.", "A cat.")
    path.write_text(json.dumps({**content, "attr1": {**part, "words": ["dog"]}}), encoding="utf-8")
    with pytest.raises(InputError, match="attr1"):
        read_test(path)


def test_an_interrupt_is_told(tmp_path: Path) -> None:
    code = "import time\n\n\ndef encode(texts):\n    print('here', flush=True)\n    time.sleep(60)\n"
    (tmp_path / "slow.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "evenli", "seat", "py:slow:encode"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        # What code of the user prints goes to stderr: a program may read stdout.
        assert process.stderr is not None and process.stderr.readline() == "here\n"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    (line,) = told.splitlines()
    assert line.startswith("evenli: interrupted")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["seat", "nothing"], "nothing"),
        (["seat", "py:mine:ragged"], "py:mine:ragged"),
        (["seat", "py:mine:fail"], "TypeError"),
        (["seat", "VECTORS", "--tests", ","], "test"),
        (["train", "encoder", "--data", "absent", "--vectors", "v.txt", "-o", "x"], "absent"),
        (["train", "encoder", "--data", ".", "--dev", "d.jsonl", "--vectors", "v.txt", "-o", "x"], "--dev"),
        (["seat", "vectors:absent.txt"], "absent.txt"),
        (["seat", "VECTORS", "--tests", "C9"], "C9"),
        (["seat", "VECTORS", "--tests", "absent.json"], "absent.json"),
        (["seat", "VECTORS", "--level", "page"], "sentence or word"),
    ],
)
def test_bad_input_is_one_line(run_cli, vectors: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    real = {"VECTORS": f"vectors:{vectors}"}
    (tmp_path / "mine.py").write_text(
        "def ragged(texts):\n    return [[1.0] * len(text) for text in texts]\n"
        "def fail(texts):\n    return [len(3) for text in texts]\n"
    )
    done = run_cli(*(real.get(argument, argument) for argument in arguments), cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
