"""SEAT as an evaluator of sentence-transformers and as a task of mteb."""

from __future__ import annotations

import csv
import logging
import math
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenli.core.errors import InputError, MissingExtraError, ModelError
from evenli.encoders import interop
from evenli.encoders.base import load_encoder
from evenli.encoders.eraser import Erased
from evenli.encoders.interop import PRIMARY, as_mteb_model, seat_metrics
from evenli.encoders.leace import fit_leace
from evenli.encoders.seat import AVERAGED, AssociationTest, SeatSettings, TextSet, seat, seat_tests, texts_of

# s = 1, 0.2 for x and -1, -0.2 for y: the means are 1.2 apart, and the deviation is sqrt(2.08 / 3).
PLANE = {
    "x1": (1.0, 0.0),
    "x2": (0.8, 0.6),
    "y1": (0.0, 1.0),
    "y2": (0.6, 0.8),
    "a1": (1.0, 0.0),
    "a2": (2.0, 0.0),
    "b1": (0.0, 1.0),
    "b2": (0.0, 3.0),
}
BY_HAND = 1.2 / math.sqrt(2.08 / 3)


def own(name: str, x: str, y: str) -> AssociationTest:
    sets = [TextSet(role, (f"{role}1", f"{role}2"), (f"{role}1", f"{role}2")) for role in (x, y, "a", "b")]
    return AssociationTest(name, "word", *sets)


class Letters:
    """An encoder that counts letters: different for different texts, the same every time."""

    identity = "letters"

    def __init__(self, shift: float = 0.0) -> None:
        self.shift = shift

    def encode(self, texts: Any) -> np.ndarray:
        return np.array(
            [[text.lower().count(letter) + self.shift for letter in "aehimnorst"] for text in texts], dtype=np.float32
        )


def expected_primary(encoder: Any) -> float:
    """Straight from the measure, without the code under test."""
    return -seat(encoder, AVERAGED, SeatSettings(permutations=100, resamples=0)).mean.absolute


def test_metrics_by_hand() -> None:
    tests = [own("there", "x", "y"), own("back", "y", "x")]
    found, note = seat_metrics(tests, list(PLANE), list(PLANE.values()))
    assert note == ""
    assert found["there_effect"] == pytest.approx(BY_HAND)
    assert found["back_effect"] == pytest.approx(-BY_HAND)
    assert found["there_p"] == pytest.approx(1 / 6)
    assert found["back_p"] == 1
    assert found["mean_effect"] == pytest.approx(0, abs=1e-12)
    assert found["mean_absolute_effect"] == pytest.approx(BY_HAND)
    assert found[PRIMARY] == pytest.approx(-BY_HAND)


def test_undefined_is_nan_with_a_reason() -> None:
    vectors = np.array(list(PLANE.values()))
    vectors[0] = 0
    found, note = seat_metrics([own("there", "x", "y")], list(PLANE), vectors)
    assert math.isnan(found["there_effect"]) and math.isnan(found[PRIMARY])
    assert note == "there: undefined: 1 of 2 embeddings of X are zero and have no direction"
    with pytest.raises(ModelError, match=r"\(7, 2\)"):
        seat_metrics([own("there", "x", "y")], list(PLANE), vectors[:7])


def test_nothing_heavy_is_loaded_before_it_is_used() -> None:
    code = (
        "import sys, evenli.encoders, evenli.encoders.interop, evenli.encoders.onnx;"
        "print([m for m in ('torch', 'sentence_transformers', 'mteb', 'datasets', 'onnxruntime') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("st", "mteb"):  # loaded once; load them anew within this test
        monkeypatch.delitem(sys.modules, f"evenli.encoders.interop.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    monkeypatch.setitem(sys.modules, "mteb", None)
    with pytest.raises(MissingExtraError, match="sentence_transformers"):
        _ = interop.SeatEvaluator
    with pytest.raises(MissingExtraError, match="mteb"):
        _ = interop.SeatTask
    with pytest.raises(MissingExtraError, match="mteb"):
        as_mteb_model(Letters())
    with pytest.raises(AttributeError, match="Seat"):
        _ = interop.Seat


@pytest.fixture(scope="module")
def sentence_model(checkpoint: Path) -> Any:
    """A real SentenceTransformer with mean pooling."""
    library = pytest.importorskip("sentence_transformers")
    return library.SentenceTransformer(str(checkpoint), device="cpu")


def test_evaluator_gives_what_the_measure_gives(sentence_model: Any, checkpoint: Path) -> None:
    evaluator = interop.SeatEvaluator(permutations=100)
    metrics = evaluator(sentence_model)
    encoder = load_encoder(f"hf:{checkpoint}", device="cpu")
    assert metrics[evaluator.primary_metric] == pytest.approx(expected_primary(encoder), abs=1e-4)
    assert metrics[PRIMARY] == -metrics["mean_absolute_effect"] < -0.01
    assert {f"{name}_effect" for name in AVERAGED} < set(metrics)
    assert evaluator.greater_is_better is True
    assert evaluator(sentence_model) == metrics


def test_evaluator_names_writes_and_is_stored(sentence_model: Any, tmp_path: Path) -> None:
    evaluator = interop.SeatEvaluator(["C6b"], level="word", permutations=100, name="dev")
    first = evaluator(sentence_model, str(tmp_path / "new"), epoch=1, steps=10)
    evaluator(sentence_model, str(tmp_path / "new"), epoch=2, steps=20)
    assert evaluator.primary_metric == f"dev_{PRIMARY}"
    assert set(first) == {
        f"dev_{key}" for key in ("C6b_effect", "C6b_p", "mean_effect", "mean_absolute_effect", PRIMARY)
    }
    with (tmp_path / "new" / "seat_evaluation_dev_results.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["epoch"], row["steps"]) for row in rows] == [("1", "10"), ("2", "20")]
    assert float(rows[0]["C6b_effect"]) == pytest.approx(first["dev_C6b_effect"])
    assert sentence_model.model_card_data.eval_results_dict[evaluator] == first
    interop.SeatEvaluator(["C6b"], permutations=100, write_csv=False)(sentence_model, str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_evaluator_beside_others_and_pickled(sentence_model: Any) -> None:
    evaluation = pytest.importorskip("sentence_transformers.sentence_transformer.evaluation")
    evaluator = interop.SeatEvaluator(["C6b"], permutations=100)
    score = evaluator(sentence_model)[PRIMARY]
    assert evaluation.SequentialEvaluator([evaluator])(sentence_model)["sequential_score"] == score
    assert pickle.loads(pickle.dumps(evaluator))(sentence_model)[PRIMARY] == score


def test_evaluator_says_what_is_undefined(sentence_model: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Silent:
        model_card_data = sentence_model.model_card_data

        def encode(self, texts: list[str], **_: Any) -> np.ndarray:
            return np.full((len(texts), 3), np.nan)

    with caplog.at_level(logging.WARNING):
        metrics = interop.SeatEvaluator(["C6"], permutations=100)(Silent())
    assert math.isnan(metrics[PRIMARY])
    assert "64 of 64 embeddings of X" in caplog.text


def test_evaluator_settings_are_checked() -> None:
    pytest.importorskip("sentence_transformers")
    with pytest.raises(InputError, match="tests"):
        interop.SeatEvaluator("C6")
    with pytest.raises(InputError, match="tests"):
        interop.SeatEvaluator([])
    with pytest.raises(InputError, match="C9"):
        interop.SeatEvaluator(["C9"])


@pytest.fixture(scope="module")
def mteb() -> Any:
    return pytest.importorskip("mteb")


def run(mteb: Any, model: Any) -> dict[str, Any]:
    (result,) = mteb.evaluate(model, tasks=[interop.SeatTask()], cache=None, show_progress_bar=False).task_results
    assert result.task_name == "EvenliSEAT"
    (scores,) = result.scores["test"]
    return dict(scores)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("the task went to the network")

    monkeypatch.setattr("socket.socket.connect", refuse)


def test_task_gives_what_the_measure_gives(mteb: Any, offline: None) -> None:
    scores = run(mteb, as_mteb_model(Letters()))
    assert scores["main_score"] == scores[PRIMARY] == pytest.approx(expected_primary(Letters()))
    assert scores["mean_absolute_effect"] > 0.01
    assert "note" not in scores


def test_task_on_a_sentence_transformer(mteb: Any, offline: None, sentence_model: Any, checkpoint: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the two libraries disagree about names that are on their way out
        scores = run(mteb, sentence_model)
    encoder = load_encoder(f"hf:{checkpoint}", device="cpu")
    assert scores["main_score"] == pytest.approx(expected_primary(encoder), abs=1e-4)


def test_task_metadata_is_complete(mteb: Any) -> None:
    task = interop.SeatTask()
    assert task.metadata.name == "EvenliSEAT" and task.metadata.is_filled()
    assert task.metadata.main_score == PRIMARY
    task.load_data()
    texts = texts_of(seat_tests(names=AVERAGED))
    assert list(task.dataset["test"]["text"]) == texts
    described = task._calculate_descriptive_statistics_from_split("test")
    assert described == {"num_samples": len(texts), "number_of_characters": sum(map(len, texts))}


def test_mitigated_encoders_run_and_keep_their_own_results(mteb: Any, offline: None) -> None:
    test = seat_tests(names=["C6b"])[0]
    texts = test.x.texts + test.y.texts
    groups = np.repeat([0, 1], [len(test.x), len(test.y)])
    erased = Erased(Letters(), fit_leace(Letters().encode(texts), groups))
    base, mitigated = as_mteb_model(Letters()), as_mteb_model(erased)
    assert run(mteb, mitigated)["main_score"] == pytest.approx(expected_primary(erased), abs=1e-5)
    assert run(mteb, mitigated)["main_score"] != pytest.approx(run(mteb, base)["main_score"], abs=1e-3)
    revisions = [as_mteb_model(encoder).mteb_model_meta.revision for encoder in (Letters(), Letters(1.0), erased)]
    assert len(set(revisions)) == 3  # the identity of the first two is the same, their outputs are not
    assert base.mteb_model_meta.revision == revisions[0]


def test_undefined_scores_say_why(mteb: Any) -> None:
    class Zero:
        def encode(self, texts: Any) -> np.ndarray:
            return np.zeros((len(texts), 4))

    scores = run(mteb, as_mteb_model(Zero()))
    assert math.isnan(scores["main_score"])
    assert scores["note"].startswith("C6: undefined: 64 of 64 embeddings of X are zero")


def test_model_takes_lists_and_batches(mteb: Any) -> None:
    model = as_mteb_model(Letters(), "mine/letters")
    assert model.mteb_model_meta.name == "mine/letters" and model.mteb_model_meta.embed_dim == 10
    plain = model.encode(["a rose", "an ant"], batch_size=1, show_progress_bar=False)
    np.testing.assert_array_equal(plain, Letters().encode(["a rose", "an ant"]))
    np.testing.assert_array_equal(model.encode([{"text": ["a rose"]}, {"text": ["an ant"]}]), plain)
    similar = np.asarray(model.similarity(plain, plain))
    unit = plain / np.linalg.norm(plain, axis=1, keepdims=True)
    np.testing.assert_allclose(similar, unit @ unit.T, atol=1e-6)
    with pytest.raises(InputError, match="a rose"):
        model.encode("a rose")
    with pytest.raises(InputError, match="texts"):
        model.encode([{"image": [1]}])


@pytest.mark.parametrize("name", ["letters", "a/b/c", "/letters", "mine/"])
def test_model_names_are_checked(name: str) -> None:
    with pytest.raises(InputError, match="organisation"):
        as_mteb_model(Letters(), name)
