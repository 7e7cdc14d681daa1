"""The public API: everything on the command line is one call."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenli
from evenli.core import registry
from evenli.core.errors import InputError
from evenli.core.mitigation import Method
from evenli.core.record import Estimate
from evenli.encoders.gendered import gendered_set
from evenli.encoders.leakage import LeakageReport, Residual
from evenli.encoders.seat import SeatSettings, seat_tests, texts_of
from evenli.words.lists import split_words


@pytest.mark.parametrize("name", sorted(set(evenli.__all__) - {"__version__"}))
def test_every_public_name_has_a_signature_with_names(name: str) -> None:
    parameters = inspect.signature(getattr(evenli, name)).parameters
    assert "arguments" not in parameters and parameters


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors of the words that SEAT and the probes ask, in which the first number is gender."""
    sentences = gendered_set()
    texts = [text for part in ("fit", "probe", "test") for text in sentences.rows(part)[0]]  # type: ignore[arg-type]
    texts += [*sentences.neutral, *texts_of(seat_tests("word", ["C6b"])), "likes dress football plays park"]
    words = list(dict.fromkeys(word.lower() for text in texts for word in split_words(text) if word.isalpha()))
    sides = zip(*(split_words(text) for text in ("she woman girl mother", "he man boy father")), strict=True)
    lean = {word: side for pair in sides for word, side in zip(pair, (2.0, -2.0), strict=True)} | {"nurse": 1.0}
    numbers = np.random.default_rng(0).normal(size=(len(words), 8))
    numbers[:, 0] += [lean.get(word, 0.0) for word in words]
    lines = (f"{word} {' '.join(f'{one:.4f}' for one in row)}\n" for word, row in zip(words, numbers, strict=True))
    file = tmp_path_factory.mktemp("vectors") / "vectors.txt"
    file.write_text("".join(lines))
    return file


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    file = tmp_path / "pairs.jsonl"
    rows = [
        {"id": f"p{n}", "premise": f"The {('woman', 'man', 'nurse')[n % 3]} {'walks ' * (n % 5)}with a dog.",
         "hypothesis": "She likes the dress." if n % 2 else "The engineer plays football.", "gold": "neutral"}
        for n in range(60)
    ]  # fmt: skip
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return file


def test_a_sentence_is_scored_without_a_directory(vectors: Path, corpus: Path) -> None:
    scored = evenli.score("The nurse likes the dress.", vectors=vectors)
    assert scored.female != 0 and [word.token for word in scored.words][:2] == ["The", "nurse"]
    with pytest.raises(InputError, match="corpus"):
        evenli.score(str(corpus), vectors=vectors)
    with pytest.raises(InputError, match="'vector'"):
        evenli.score("The nurse.", vector=vectors)
    for nothing, noun in ((None, "NoneType"), (" ", "nothing")):
        with pytest.raises(InputError, match=noun):
            evenli.score(nothing, vectors=vectors)


def test_wrong_arguments_are_named() -> None:
    assert evenli.audit("fake:even", suites="coal,dev2020", limit=60).result.suites.keys() == {"coal", "dev2020"}
    for limit in ("60", 60.5, 0):
        with pytest.raises(InputError, match="limit"):
            evenli.audit("fake:even", limit=limit)
    with pytest.raises(InputError, match="int"):
        evenli.audit(5)
    with pytest.raises(InputError, match="splits"):
        evenli.audit("fake:even", data={"train": [], "test": []})
    with pytest.raises(InputError, match="float"):
        evenli.seat(0.5, ["C6b"])


@pytest.mark.parametrize(
    ("call", "noun"),
    [
        (lambda: evenli.swap(None), "text.*NoneType"),
        (lambda: evenli.load_run(None), "run.*NoneType"),
        (lambda: evenli.gate(None), "run.*NoneType"),
        (lambda: evenli.audit("fake:even", out=5), "directory.*int"),
        (lambda: evenli.load_encoder(None), "encoder.*NoneType"),
        (lambda: evenli.load_model(5), "model.*int"),
        (lambda: evenli.mitigate("subtract", None, "out"), "subtract"),
        (lambda: evenli.mitigate("subtract", "scored", None), "result.*NoneType"),
        (lambda: evenli.mitigate("subtract", "scored", "out", percentile="x"), "percentile.*'x'"),
    ],
)
def test_a_wrong_type_is_one_line(call: Callable[[], object], noun: str) -> None:
    with pytest.raises(InputError, match=noun) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_function_is_an_encoder() -> None:
    settings = SeatSettings(permutations=200, resamples=100)
    by_length = evenli.seat(lambda texts: [[len(text), 1.0] for text in texts], ["C6b"], settings)
    assert -2 <= by_length.tests[0].effect.value <= 2


def test_an_encoder_is_given_by_its_spec(vectors: Path) -> None:
    settings = SeatSettings(permutations=200, resamples=100)
    by_spec = evenli.seat(f"vectors:{vectors}", ["C6b"], settings)
    assert by_spec.to_dict() == evenli.seat(evenli.load_encoder(f"vectors:{vectors}"), ["C6b"], settings).to_dict()


OPTIONS: dict[str, dict[str, Any]] = {
    "inlp": {"iterations": 3, "seed": 1},
    "leace": {"online": True, "concepts": "one"},
    "sent-debias": {"components": 2},
    "hard-debias": {"pairs": "ten", "control": True},
    "swap": {"review": "review.csv", "names": True},
    "subtract": {"split": "none"},
    "augment": {"percentile": 80, "split": None},
    "combined": {"split": "5,5"},
}


def test_every_built_in_method_is_tried() -> None:
    assert OPTIONS.keys() - {"combined"} == set(registry.MITIGATIONS.builtin)


@pytest.mark.parametrize("method", OPTIONS)
def test_every_method_takes_the_options_of_its_command(
    method: str, vectors: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # What is left of gender is measured in test_mitigated_encoders.py, and takes long.
    nan = Estimate(math.nan, math.nan, math.nan, math.nan, 0.95, 0)
    unmeasured = LeakageReport(0, 0, 0, "", *[Residual(nan, nan, 0.5, nan, nan)] * 2)
    monkeypatch.setattr("evenli.encoders.mitigation.leakage_report", lambda *_, **__: unmeasured)
    if method in {"subtract", "augment", "combined"}:
        evenli.score(corpus, tmp_path / "scored", vectors=vectors)
    kind = registry.MITIGATIONS.get("augment" if method == "combined" else method).kind
    sources: dict[str, Any] = {"encoder": f"vectors:{vectors}", "vectors": vectors, "corpus": tmp_path / "scored"}
    source, out = (corpus, "swapped.jsonl") if method == "swap" else (sources[kind], f"{method}-out")
    evenli.mitigate(method, source, out, **OPTIONS[method])
    assert Path(out).exists() and Path("review.csv").exists() is (method == "swap")
    with pytest.raises(InputError, match="'colour'"):
        evenli.mitigate(method, source, "other", colour="red")


def test_a_method_has_what_its_kind_needs() -> None:
    with pytest.raises(InputError, match="apply"):
        Method("mine", "title", "reference", kind="corpus")
    with pytest.raises(InputError, match="fit"):
        Method("mine", "title", "reference")
