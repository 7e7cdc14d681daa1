"""Mixtures of the three causes: what is taught, what a perfect learner scores, and which measures mix the causes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from evenli.core.errors import InputError
from evenli.training.meta import Design, MetaFolder, meta_evaluation
from evenli.training.meta.charts import CAUSE_MEASURES, print_meta
from evenli.training.meta.controlled import prepare
from evenli.training.meta.folder import SweepCell
from evenli.training.meta.mixture import CAUSES, class_sizes, learnt, mixtures, word_patterns
from evenli.training.meta.scoring import score_sweep
from evenli.training.meta.sweep import Response, respond

HALVES, SIGNED = (0.0, 0.5, 1.0), (-1.0, -0.5, 0.0, 0.5, 1.0)
WORDS = {"groups": {"female": list("abcdefghij"), "male": list("klmnopqrst")}, "neutral": list("0123456789")}
SIZES = (10, 10, 10)
E, N, C = range(3)


def sweep(path: Path, *, seeds: tuple[int, ...] = (0,), levels: tuple[float, ...] = HALVES, **more) -> MetaFolder:
    """A sweep of models that answer exactly as they were taught; nothing is trained."""
    folder = MetaFolder(path)
    grid = {"stereotype": levels, "default": levels, "error": HALVES}
    prepare(folder, Design(width=2, **{"rates": (), **grid, **more}))
    words, pairs = folder.header["words"], folder.pairs("evaluation")
    order = [word for group in words["groups"].values() for word in group] + list(words["neutral"])
    for cell in folder.cells(seeds):
        if cell.axis != "mix":
            continue
        patterns, _ = word_patterns(cell.level, class_sizes(words), balanced=folder.design.balanced)
        told = dict(zip(order, patterns.tolist(), strict=True))
        logits = np.zeros((len(pairs), 3), dtype=np.float32)
        for row, pair in enumerate(pairs):
            logits[row, told[pair["occupation"]][0 if pair["group"] == "male" else 1]] = 12
        folder.store(cell, logits, {"dev_accuracy": 1.0, "seconds": 0.0, "loss": 0.0, "learnt": cell.level})
    return folder


def matrix(folder: MetaFolder, *names: str) -> dict[str, list[float]]:
    responses = {response.measure: response for response in score_sweep(folder).responses}
    return {name: [slope.value for slope in responses[name].taught.values()] for name in names}


@pytest.mark.parametrize("lang", ["en", "ja", "zh"])
@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("levels", [HALVES, SIGNED])
def test_the_causes_are_diagonal_for_a_perfect_learner(
    lang: str, balanced: bool, levels: tuple[float, ...], tmp_path: Path
) -> None:
    folder = sweep(tmp_path, lang=lang, balanced=balanced, levels=levels)
    responses = {response.measure: response for response in score_sweep(folder).responses}
    slopes = {name: [slope.value for slope in response.taught.values()] for name, response in responses.items()}
    # Six of ten words that err in no direction answer alike for both genders; the others say each gender as often.
    expected = {"stereotype": [1, 0, 0], "default_gender": [0, 1, 0], "contradictory": [0, 0, 0.6]}
    np.testing.assert_allclose([slopes[name] for name in expected], list(expected.values()), atol=1e-6)
    assert [responses[name].fit for name in expected] == pytest.approx([1, 1, 1])
    assert all(responses[name].measures_only(cause) for name, cause in CAUSE_MEASURES.items())
    # By the same words NLI-CoAL's control FN and the total error count every error, whatever its cause.
    np.testing.assert_allclose(slopes["total_error"], slopes["fn_bias"], atol=1e-6)
    assert not any(responses["total_error"].measures_only(cause) for cause in CAUSES)


def test_total_error_rises_along_each_cause_alone(tmp_path: Path) -> None:
    for number, cause in enumerate(CAUSES):
        folder = sweep(tmp_path / cause, balanced=True, **{**dict.fromkeys(CAUSES, ()), cause: HALVES})
        slopes = matrix(folder, "total_error", "contradictory")
        # A stereotype touches two of the three classes of words.
        assert slopes["total_error"][number] == pytest.approx((2 / 3, 1, 1)[number], abs=1e-6)
        assert slopes["contradictory"][number] == pytest.approx((0, 0, 0.6)[number], abs=1e-6)


def test_nli_coal_mixes_all_three_causes_alike(tmp_path: Path) -> None:
    """Along each axis alone its closed form is 2/3 of the level; so are the changes from level 0 to 1."""
    for number, cause in enumerate(CAUSES):
        folder = sweep(tmp_path / cause, balanced=True, **{**dict.fromkeys(CAUSES, ()), cause: HALVES})
        assert len(folder.cells([0])) == 3
        slopes = matrix(folder, "coal", "fn_bias")
        assert slopes["coal"][number] == pytest.approx(2 / 3, abs=1e-6)
        assert [np.isnan(slope) for slope in slopes["coal"]] == [other != cause for other in CAUSES]
    both = next(
        response
        for response in score_sweep(sweep(tmp_path / "all", balanced=True)).responses
        if response.measure == "coal"
    )
    assert sorted(both.moved_by()) == sorted(CAUSES)
    assert not both.measures_only("stereotype")


def test_what_a_word_is_taught() -> None:
    patterns, roles = word_patterns((0.2, 0.1, 0.4), SIZES, balanced=True)
    female, male, none = patterns.reshape(3, 10, 2).tolist()
    says_man, says_woman = [E, C], [C, E]
    # Female words lean 0.1 - 0.2, male words 0.1 + 0.2, the others 0.1.
    assert female.count(says_woman) == 1 + 1 and female.count(says_man) == 1
    assert male.count(says_man) == 3 + 1 and male.count(says_woman) == 1
    assert none.count(says_man) == 1 + 1 and none.count([N, N]) == 5
    assert sorted(female[1:5]) == sorted([says_man, says_woman, [E, E], [C, C]])
    assert (roles.reshape(3, 10) == 2).sum(axis=1).tolist() == [4, 4, 4]
    # The released order gives the stereotype to female words first.
    released, _ = word_patterns((0.5, 0.0, 0.0), SIZES, balanced=False)
    assert released.tolist() == [says_woman] * 10 + [[N, N]] * 20
    against, _ = word_patterns((-1.0, 0.0, 0.0), SIZES, balanced=False)
    assert against.tolist() == [says_man] * 10 + [says_woman] * 10 + [[N, N]] * 10


@pytest.mark.parametrize("level", [0.1, 0.3, 0.5, 0.7, 1.0])
def test_error_in_no_direction_leans_to_nobody(level: float) -> None:
    patterns, _ = word_patterns((0.0, 0.0, level), SIZES, balanced=True)
    lean = np.sign((patterns == E).astype(int) - (patterns == C))
    assert (lean[:, 0] - lean[:, 1]).reshape(3, 10).sum(axis=1).tolist() == [0, 0, 0]
    assert (patterns != N).all(axis=1).sum() == round(30 * level)
    assert abs(int((patterns == E).sum()) - int((patterns == C).sum())) <= 2  # an odd word per class at most


def test_mixtures_that_fit() -> None:
    assert len(mixtures((HALVES, HALVES, HALVES), WORDS, balanced=True)) == 10
    assert len(mixtures((SIGNED, SIGNED, HALVES), WORDS, balanced=True)) == 19
    assert (0.5, 0.0, 0.5) not in mixtures((HALVES, HALVES, HALVES), WORDS, balanced=False)
    assert mixtures(((), (), ()), WORDS, balanced=True) == []
    with pytest.raises(InputError, match="exceed 1"):
        word_patterns((0.5, 0.5, 0.5), SIZES, balanced=True)
    with pytest.raises(InputError, match="split a word"):
        mixtures(((0.0, 0.25, 1.0), (), ()), WORDS, balanced=True)
    with pytest.raises(InputError, match="two groups"):
        class_sizes({"groups": {"a": [], "b": [], "c": []}, "neutral": []})


@pytest.mark.parametrize("balanced", [True, False])
def test_what_was_learnt_is_what_is_answered_as_taught(balanced: bool) -> None:
    mixture = (0.3, 0.2, 0.2)
    patterns, roles = word_patterns(mixture, SIZES, balanced=balanced)
    taught = np.repeat(patterns[:, None], 5, axis=1)
    assert learnt(mixture, WORDS, taught.reshape(-1), balanced=balanced) == pytest.approx(mixture)
    nothing = np.full_like(taught, N)
    assert learnt(mixture, WORDS, nothing.reshape(-1), balanced=balanced) == pytest.approx((0, 0, 0))
    # Half of the sense of a pair is enough: who says neutral instead of contradiction still says the same group.
    weaker = np.where(taught == C, N, taught)
    leaning = weaker.copy()
    leaning[roles == 2] = N
    assert learnt(mixture, WORDS, leaning.reshape(-1), balanced=balanced) == pytest.approx((0.3, 0.2, 0))
    some = taught.copy()
    some[:, :2] = N  # two of five sentences are not learnt
    assert learnt(mixture, WORDS, some.reshape(-1), balanced=balanced) == pytest.approx(np.array(mixture) * 0.6)


def planes(noise: float = 0.0, seeds: int = 3) -> Response:
    taught = np.array(mixtures((HALVES, HALVES, HALVES), WORDS, balanced=True))
    wobble = np.random.default_rng(0).normal(0, noise, (seeds, len(taught))) if noise else 0
    scores = np.tile(0.1 + taught @ [0.6, -0.2, 0.0], (seeds, 1)) + wobble
    half = np.tile(taught / 2, (seeds, 1, 1))
    return respond("m", "m", CAUSES, taught, half, scores)


def test_slopes_by_hand() -> None:
    exact = planes()
    assert [slope.value for slope in exact.taught.values()] == pytest.approx([0.6, -0.2, 0.0])
    assert [slope.value for slope in exact.learnt.values()] == pytest.approx([1.2, -0.4, 0.0])
    assert exact.fit == pytest.approx(1) and exact.moved_by() == ["stereotype", "default"]
    noisy = planes(0.1)
    slope = noisy.taught["stereotype"]
    assert slope.low < slope.value < slope.high and 0.5 < noisy.fit < 1
    # Student's interval of three values: mean ± 4.303 standard deviations / sqrt(3).
    assert slope.high - slope.value == pytest.approx(4.3027 * np.std(slope.per_seed, ddof=1) / 3**0.5, rel=1e-4)
    assert np.isnan(planes(0.1, seeds=2).taught["stereotype"].low)


def test_a_missing_score_has_no_slope() -> None:
    taught = np.array(mixtures((HALVES, HALVES, HALVES), WORDS, balanced=True))
    scores = np.zeros((3, len(taught)))
    scores[1, 2] = np.nan
    broken = respond("m", "m", CAUSES, taught, np.tile(taught, (3, 1, 1)), scores)
    assert all(np.isnan(slope.value) and np.isnan(slope.low) for slope in broken.taught.values())
    assert "1 of 30" in broken.reason and broken.moved_by() == [] and not broken.measures_only("default")


def test_results_files_and_print(tmp_path: Path) -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    folder = sweep(tmp_path, seeds=(0, 1, 2), balanced=True)
    results = meta_evaluation(folder)
    assert results is not None and results.learnt_share == pytest.approx({"lowest": 1, "mean": 1})
    stored = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert stored == results.to_dict() and stored["levels"].keys() == {"mix"}
    rows = list(csv.DictReader((tmp_path / "response.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 6 * len(results.responses)
    own = [row for row in rows if row["measure"] == "default_gender" and row["levels"] == "taught"]
    assert [float(row["slope"]) for row in own] == pytest.approx([0, 1, 0], abs=1e-6)
    assert {"response.svg", "response.png"} <= {file.name for file in tmp_path.iterdir()}
    text = io.StringIO()
    print_meta(results, Console(file=text, width=80))
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert next(line for line in lines if line.startswith("default gender")).split()[2:4] == ["+0.00", "±0.00"]
    assert "stereotype and default gender are separated" in " ".join(text.getvalue().split())


def test_a_cause_that_is_mixed_is_named(tmp_path: Path) -> None:
    folder = sweep(tmp_path, balanced=True)
    # A default that was taught as a stereotype: the logits of one axis stand in for those of the other.
    for level in (0.5, 1.0):
        facts = {"dev_accuracy": 1.0, "learnt": (0.0, level, 0.0)}
        folder.store(
            SweepCell(0, "mix", (0.0, level, 0.0)), folder.logits(SweepCell(0, "mix", (level, 0.0, 0.0))), facts
        )
    text = io.StringIO()
    print_meta(score_sweep(folder), Console(file=text, width=80))
    assert "not separated: stereotype" in " ".join(text.getvalue().split())


def test_mixtures_stand_beside_the_other_axes(tmp_path: Path) -> None:
    header = prepare(tmp_path, Design(width=2, rates=HALVES, noise=HALVES, default=HALVES))
    assert header["levels"] == {"bias": list(HALVES), "noise": list(HALVES), "mix": [[0, d, 0] for d in HALVES]}
    folder = MetaFolder(tmp_path)
    assert [cell.axis for cell in folder.cells([0])] == ["bias"] * 3 + ["noise"] * 3 + ["mix"] * 3
    assert folder.labels("mix", (0.0, 1.0, 0.0)).reshape(-1, 2).tolist() == [[E, C]] * 120


def test_command_line(run_cli, tmp_path: Path) -> None:
    place = str(tmp_path / "new")
    grid = ["--stereotype", "-1:1:0.5", "--default", "0,0.5,1", "--error", "0:1:0.5"]
    done = run_cli("meta", "-o", place, *grid, "--balanced", "--width", "2", "--stage", "prepare")
    assert done.returncode == 0, done.stderr
    assert MetaFolder(place).header["levels"].keys() == {"mix"}
    for given, message in (
        (["--default", "0,0.5,1.5"], "-1..1"),
        (["--error", "-1,0,1"], "0..1"),
        (["--default", "0,0.33,1"], "split a word"),
        (["--default", "0,1"], "at least 3"),
    ):
        done = run_cli("meta", "-o", str(tmp_path / "bad"), *given, "--width", "2", "--stage", "prepare")
        assert done.returncode == 2 and message in done.stderr, (given, done.stderr)
        assert len(done.stderr.strip().splitlines()) == 1
