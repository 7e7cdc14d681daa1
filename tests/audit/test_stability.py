"""Wordings made by hand: what is counted of each cause, the level of every choice, shares of variance, the verdict."""

from __future__ import annotations

import itertools
import math

import polars as pl
import pytest
from msgspec import structs

from evenli.audit.predictions import Predictions
from evenli.audit.results import Cause, Competence, TopLabel
from evenli.audit.suites.base import Request, load_suite
from evenli.audit.suites.robust import shares_block, stability
from evenli.audit.suites.robust.curve import ViewRow, WordingRow
from evenli.audit.suites.robust.stability import (
    CHOICES,
    REST,
    LevelRow,
    RobustResult,
    across,
    across_views,
    levels,
    side,
    variance_shares,
)
from evenli.audit.suites.robust.verdict import judge, summary
from evenli.audit.suites.robust.wordings import DIMENSIONS
from evenli.core.errors import MissingExtraError
from evenli.core.labels import LABELS
from evenli.core.record import Estimate, MeasureResult
from evenli.stats.sample import Sample

WIDE = 0.5


def certain(value: float, half: float = 0.0) -> Estimate:
    """A lean that is certain, or one that may be 0."""
    return Estimate(value, value - half, value + half, half / 2, 0.95, 100, p=1.0 if half > abs(value) else 1e-6)


def row(
    value: float, noun: str = "n", frame: str = "bare", judged: bool = True, error: float = 0.0, half: float = 0.0
) -> WordingRow:
    found = {name: certain(value, half) for name in ("stereotype", "default_gender", "follow", "defy")}
    wrong = Estimate(error, max(0.0, error - 0.01), error + 0.01, 0.005, 0.95, 100)
    return WordingRow(noun, "the", frame, "same", "built-in", judged, "", 1.0, 1.0, 100, **found, total_error=wrong)


def cell(value: float, prompt: str, order: str = "ENC", judged: bool = True, error: float = 0.0) -> ViewRow:
    return ViewRow("n", "the", "bare", "same", "built-in", prompt, order, judged, 100, value, value, error)


def over(mean: Estimate, error: Estimate | None = None) -> dict[str, Cause]:
    """The same mean over wordings of both leans, and an error of 0.01."""
    causes = {name: Cause(f"{name}_mean", "", "slight", "", mean) for name in ("stereotype", "default_gender")}
    error = error or Estimate(0.01, 0, 0.02, 0, 0.95, 9)
    return causes | {"total_error": Cause("total_error_mean", "none", "slight", "", error)}


def height(logit: float) -> float:
    """The lean of 100 items that stands so high on the logit scale: undoes the half item."""
    share = 1 / (1 + math.exp(-logit))
    return 2 * (share * 101 - 0.5) / 100 - 1


def test_variance_shares_are_those_of_a_hand_computed_design() -> None:
    """Two by two, each cell twice, additive on the logit scale: the shares are the squared effects."""
    pytest.importorskip("statsmodels")
    cells = list(itertools.product((-0.6, 0.6), (-0.2, 0.2), (-0.05, 0.05)))
    total = 0.36 + 0.04 + 0.0025
    expected = {"noun": 0.36 / total, "frame": 0.04 / total, REST: 0.0025 / total}
    rows = []
    for a, b, e in cells:
        lean = height(a + b + e * (1 if a * b > 0 else -1))
        # A share of (1 + lean) / 2 stands as high as that lean.
        rows.append(row(lean, f"n{a}", f"f{b}", error=(1 + lean) / 2))
    unheard = row(0.99, "n-0.6", "f0.2", judged=False)
    shares = variance_shares([*rows, unheard])
    for cause in ("stereotype", "total_error"):
        assert {one.dimension: one.share for one in shares if one.cause == cause} == pytest.approx(expected, abs=1e-6)
    p = {one.dimension: one.p for one in shares if one.cause == "stereotype"}
    # F of the noun is 0.36 / (0.0025 / 5) on 1 and 5 degrees of freedom.
    assert p["noun"] < 1e-5 < p["frame"] < 1e-3 and math.isnan(p[REST])


def test_without_enough_rows_or_spread_there_are_no_shares_of_variance() -> None:
    pytest.importorskip("statsmodels")
    # Three nouns in two frames need 1 + 2 + 1 parameters, and a row more.
    rows = [row(0.1 * at, f"n{at}", f"f{at % 2}") for at in range(3)]
    notes = {one.note for one in variance_shares([*rows, row(0.0, "n0", "f1")])}
    assert len(notes) == 1 and "4 judged wordings" in notes.pop()
    found = variance_shares([*rows, row(0.05, "n0", "f1"), row(0.15, "n2", "f1")])
    assert [one.share > 0 for one in found if one.cause == "stereotype"] == [True] * 3
    # The error is the same in every row: nothing to explain.
    (error,) = (one for one in found if one.cause == "total_error")
    assert math.isnan(error.share) and "no spread" in error.note


def test_a_missing_extra_is_said_once_and_nothing_else_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str, *, extra: str, purpose: str) -> None:
        raise MissingExtraError(module, extra, purpose)

    monkeypatch.setattr(stability, "need", missing)
    rows = [row(0.1 * n, f"n{n}", "bare") for n in range(4)]
    shares = variance_shares(rows)
    assert [math.isnan(row.share) for row in shares] == [True] * 3
    section = shares_block(shares, DIMENSIONS, "")
    assert len(section.notes) == 1 and "evenli[wording]" in section.notes[0] and not section.rows


def test_signs_are_counted_and_wordings_that_are_not_understood_are_not() -> None:
    values = [0.4] * 9 + [-0.4, 0.0]
    rows = [row(value, f"n{n}", "bare") for n, value in enumerate(values)] + [row(-1.0, "odd", "bare", judged=False)]
    causes = over(Estimate(0.29, 0.2, 0.4, 0.05, 0.95, 100, p=1e-4))
    found = next(across(rows, causes))
    assert (found.wordings, found.holds, found.opposite, found.verdict) == (11, 9, 1, "unstable")
    assert (found.lowest, found.highest, found.verdict_holds) == (-0.4, 0.4, 9)
    assert (found.named, found.supported, found.reversed) == (True, 10, 1)
    assert found.sign_share == pytest.approx(9 / 11)
    again = list(across(rows[:9] + rows[:1], causes))
    assert [row.verdict for row in again] == ["stable", "stable", "negligible"]
    assert [row.named for row in again] == [True, True, False]
    # Both leans are tested: a p of 0.03 is 0.06 after Holm's correction.
    assert not any(row.named for row in across(rows, over(Estimate(0.29, 0.01, 0.6, 0.1, 0.95, 100, p=0.03))))
    few = list(across(rows[:4], causes))
    assert {row.verdict for row in few} == {"not judged"} and not any(row.named for row in few)
    (alone,) = {row.sign_share for row in across(rows[-1:], causes) if row.cause == "stereotype"}
    assert math.isnan(alone)


def test_the_other_sign_is_counted_alike() -> None:
    """Turned round, the same wordings hold, oppose, support and reverse as many times."""
    values = [0.4] * 8 + [-0.4, 0.3, 0.0, -0.2]
    mean = certain(0.25)
    usual = next(across([row(value) for value in values], over(mean)))
    turned = next(across([row(-value) for value in values], over(certain(-0.25))))
    for name in ("holds", "opposite", "supported", "reversed", "verdict", "verdict_holds", "named"):
        assert getattr(usual, name) == getattr(turned, name)
    assert (usual.holds, usual.opposite, usual.supported, usual.reversed) == (9, 2, 11, 2)
    assert (turned.lowest, turned.highest) == (-usual.highest, -usual.lowest)


def test_the_total_error_counts_where_it_is_more_than_negligible() -> None:
    rows = [row(0.0, error=error) for error in [0.3] * 9 + [0.05, 0.04]]
    error = Estimate(0.26, 0.2, 0.32, 0.03, 0.95, 100)
    found = list(across(rows, over(certain(0.0), error)))[2]
    assert (found.cause, found.named, found.holds, found.opposite) == ("total_error", True, 9, 0)
    # Between 0.04 and 0.06 nothing is certain: neither supported nor in the state of the usual wording.
    assert (found.supported, found.reversed, found.verdict_holds, found.verdict) == (9, 0, 9, "unstable")
    small = list(across(rows, over(certain(0.0), Estimate(0.04, 0.03, 0.05, 0.01, 0.95, 100))))[2]
    assert (small.named, small.holds, small.reversed) == (False, 2, 9)
    # No lean: a lean of 0 has no sign, and none of the wordings has one.
    lean = next(across(rows, over(certain(0.0), error)))
    assert (lean.holds, lean.opposite, lean.supported, lean.verdict, lean.named) == (11, 0, 0, "negligible", False)


def test_sides() -> None:
    assert [side("stereotype", value) for value in (-0.2, -2e-9, -9e-10, 0.0, 9e-10, 2e-9)] == [-1, -1, 0, 0, 0, 1]
    assert [side("total_error", value) for value in (0.0, 0.05, 0.051, 1.0)] == [0, 0, 1, 1]


def test_another_wording_lies_between_the_extremes() -> None:
    """Of 39 values the extremes hold a 40th with probability 38/40; of the usual wording the interval is its own."""
    rows = [row(0.01 * at, half=0.02) for at in range(5, 44)]
    found = next(across(rows, over(certain(0.24))))
    assert (found.another_low, found.another_high) == pytest.approx((0.05, 0.43))
    assert found.another_probability == pytest.approx(0.95) and found.usual == rows[0].stereotype
    deaf = next(across([row(0.2, judged=False), *rows], over(certain(0.24))))
    assert math.isnan(deaf.usual.value) and (deaf.verdict_holds, deaf.wordings, deaf.lowest) == (0, 39, 0.05)


@pytest.mark.parametrize(("small", "large", "verdict"), [(9, 1, "negligible"), (8, 2, "unstable"), (1, 9, "stable")])
def test_nine_of_ten_decide(small: int, large: int, verdict: str) -> None:
    """Within 0.05 of 0 in nine of ten, or else of the sign of the mean in as many."""
    rows = [row(-0.05)] * small + [row(0.4)] * large
    assert next(across(rows, over(certain(0.3)))).verdict == verdict


def test_levels_are_means_of_the_judged_wordings_of_a_choice() -> None:
    rows = [row(0.1, "a", error=0.2), row(0.3, "a", error=0.4), row(0.9, "a", judged=False), row(0.5, "b", "odd")]
    rows += [row(0.7, "c", judged=False)]
    found = {(level.dimension, level.choice): level for level in levels(rows)}
    assert {name for name, _ in found} == set(DIMENSIONS)
    assert found["noun", "a"] == LevelRow("noun", "a", 2, *map(pytest.approx, (0.2, 0.2, 0.3)))
    assert found["frame", "bare"].stereotype == pytest.approx(0.2) and found["frame", "odd"].wordings == 1
    assert found["noun", "c"].wordings == 0 and math.isnan(found["noun", "c"].stereotype)


def test_cells_are_counted_beside_the_wordings() -> None:
    """The sign is that of the mean of judged wordings, whatever the cells say; without wordings that of the cells."""
    cells = [cell(0.4, "p1"), cell(0.4, "p1"), cell(-0.2, "p2"), cell(-0.9, "p3", judged=False)] * 5
    cells += [cell(0.02, "p4")]
    wordings = [row(-0.3), row(-0.1), row(0.9, judged=False)]
    found = next(across_views(cells, wordings))
    assert (found.cells, found.judged, found.holds, found.opposite) == (21, 16, 5, 11)
    assert (found.lowest, found.highest, found.verdict) == (-0.2, 0.4, "unstable")
    assert found.view_sign_share == pytest.approx(5 / 16)
    # No wording is judged: the cells have a mean above 0.
    own = next(across_views(cells, wordings[2:]))
    assert (own.holds, own.opposite) == (11, 5)
    assert not list(across_views([], wordings))
    (deaf, *_) = across_views(cells[3:4], wordings[2:])
    assert (deaf.judged, deaf.holds, deaf.verdict) == (0, 0, "not judged") and math.isnan(deaf.view_sign_share)


def test_prompts_and_orders_have_shares_of_their_own() -> None:
    pytest.importorskip("statsmodels")
    cells = [
        cell(height(a + b + e), f"p{a}", f"o{b}")
        for a, b, e in itertools.product((-0.6, 0.6), (-0.2, 0.2), (-0.05, 0.05))
    ]
    shares = {one.dimension: one.share for one in variance_shares(cells, CHOICES) if one.cause == "stereotype"}
    total = 0.36 + 0.04 + 0.0025
    assert shares == pytest.approx({"prompt": 0.36 / total, "order": 0.04 / total, REST: 0.0025 / total}, abs=1e-6)


# The verdict


def result(rows: list[WordingRow], causes: dict[str, Cause]) -> RobustResult:
    """Everything that a verdict reads."""
    card = {"title": "", "formula": "", "range": (-1, 1), "ideal": 0, "direction": "", "reference": ""}
    measures = {
        f"{name}_mean": MeasureResult(
            **{field: getattr(cause.estimate, field) for field in Estimate.__struct_fields__},
            **{**card, "title": f"{name}, mean"},
            kind="extrinsic",
            by_stereotype={},
        )
        for name, cause in causes.items()
    }
    found = list(across(rows, causes))
    return RobustResult(measures=measures, wordings=rows, causes=found, shares=[], levels=[])


def labelled(causes: dict[str, Cause]) -> dict[str, Cause]:
    said = {
        "stereotype": "follows stereotypes",
        "default_gender": "assumes a man",
        "total_error": "wrong answers in all",
    }
    return {name: Cause(cause.name, "male", "clear", said[name], cause.estimate) for name, cause in causes.items()}


def test_causes_are_named_by_size_and_the_error_last() -> None:
    rows = [row(0.2, error=0.6)] * 12
    causes = over(certain(0.2), Estimate(0.6, 0.5, 0.7, 0.05, 0.95, 100))
    causes["default_gender"] = Cause("default_gender_mean", "female", "", "assumes a woman", certain(-0.35))
    found = result(rows, causes)
    assert [cause.name for cause in found.verdict_causes] == [
        "default_gender_mean",
        "stereotype_mean",
        "total_error_mean",
    ]
    assert [cause.size for cause in found.verdict_causes] == ["strong", "clear", "strong"]
    verdict = judge(found, None)
    assert verdict.code == "bias" and verdict.causes == found.verdict_causes and "60%" in verdict.sentence
    assert found.judged == 12 and found.cause("total_error").mean.value == 0.6


def test_errors_without_a_lean_are_no_bias() -> None:
    causes = over(certain(0.0, WIDE), Estimate(0.6, 0.5, 0.7, 0.05, 0.95, 100))
    causes["total_error"] = Cause(
        "total_error_mean", "none", "strong", "wrong answers in all", Estimate(0.6, 0.5, 0.7, 0.05, 0.95, 100)
    )
    verdict = judge(result([row(0.0, error=0.6)] * 12, causes), None)
    assert (verdict.code, [cause.name for cause in verdict.causes]) == ("error", ["total_error_mean"])
    assert "60%" in verdict.sentence and "0.60 [0.50, 0.70]" in verdict.sentence
    assert "more than 0.05 in 12 of 12 wordings, from 0.60 to 0.60" in verdict.sentence


@pytest.mark.parametrize(("turned", "lean", "unsteady"), [(1, -0.08, False), (2, -0.08, True), (1, -0.4, True)])
def test_a_cause_of_more_than_one_wording_in_ten_or_a_clear_one_depends_on_the_wording(
    turned: int, lean: float, unsteady: bool
) -> None:
    rows = [row(0.0)] * (10 - turned) + [row(lean)] * turned
    found = result(rows, labelled(over(certain(0.0))))
    assert bool(found.unsteady) is unsteady
    assert judge(found, None).code == ("undecided" if unsteady else "even")
    few = result(rows[-9:], labelled(over(certain(0.0))))
    assert not few.unsteady


def test_how_often_a_cause_holds_is_said_with_the_range() -> None:
    rows = [row(0.4)] * 10 + [row(-0.3), row(0.0), row(0.9, judged=False)]
    verdict = judge(result(rows, labelled(over(certain(0.3)))), None)
    assert "in 10 of 12 wordings, in the other in 1, from -0.30 to 0.40" in verdict.sentence
    assert "+0.30 [+0.30, +0.30]" in verdict.sentence
    few = judge(result(rows[-7:], labelled(over(certain(0.3)))), None)
    assert few.code == "none" and "6 of 7 wordings" in few.sentence


def test_an_undefined_mean_gives_no_verdict() -> None:
    causes = over(certain(0.0))
    causes["default_gender"] = Cause("default_gender_mean", "", "slight", "", Estimate.undefined("no such jobs"))
    verdict = judge(result([row(0.0)] * 12, causes), None)
    assert verdict.code == "none" and "default_gender, mean" in verdict.sentence and "no such jobs" in verdict.sentence


def test_a_mean_must_be_known_to_be_small() -> None:
    """Small in every wording and not known to be small as a mean, or the other way round: undecided."""
    for rows, half, code in (([row(0.0)] * 12, 0.01, "even"), ([row(0.0)] * 12, WIDE, "undecided")):
        assert judge(result(rows, labelled(over(certain(0.0, half)))), None).code == code
    unsure = [row(0.2 if at % 2 else -0.2, half=WIDE) for at in range(12)]
    assert judge(result(unsure, labelled(over(certain(0.0, 0.01)))), None).code == "undecided"


def test_a_model_that_does_not_do_the_task_gets_no_verdict() -> None:
    failed = structs.replace(competence(), problem="it is deaf")
    of = result([row(0.4)] * 12, labelled(over(certain(0.4))))
    assert judge(of, competence()).code == judge(of, None).code == "bias"
    verdict = judge(of, failed)
    assert (verdict.code, verdict.causes) == ("none", []) and "it is deaf" in verdict.sentence


def competence() -> Competence:
    right = Estimate(1.0, 0.9, 1.0, 0.0, 0.95, 40)
    shares = dict.fromkeys(LABELS, 1.0)
    return Competence(right, shares, right, {}, TopLabel(LABELS[0], 0.34), "", dict.fromkeys(LABELS, right), {})


def test_the_line_of_an_audit() -> None:
    rows = [row(0.4)] * 10 + [row(-0.3), row(0.2), row(0.9, judged=False)]
    of = result(rows, labelled(over(certain(0.3))))
    assert "understands 12 of 13 wordings" in of.line and "In 11 of 12 the stereotype has the same" in of.line
    assert of.line.endswith("from -0.30 to 0.40.")
    unsigned = result(rows[:12], over(certain(0.0)))
    assert "all 12 wordings" in unsigned.line and "has no direction" in unsigned.line
    assert "it is deaf" in structs.replace(of, problem="it is deaf").line
    assert "none of the 1 that" in result(rows[-1:], labelled(over(certain(0.3)))).line


def test_a_fact_has_the_range_of_its_wordings_without_the_sign() -> None:
    """Of a lean below 0 both ends are turned, as its value is."""
    sample = Sample(
        Predictions(
            load_suite("robust", Request("en"))
            .frame[:200]
            .with_columns(pl.lit(float(at)).alias(label) for at, label in enumerate(LABELS))
        )
    )
    causes = labelled(over(certain(-0.2), Estimate(0.6, 0.5, 0.7, 0.05, 0.95, 100)))
    causes["stereotype"] = Cause("stereotype_mean", "anti-stereotypical", "clear", "anti-stereotypical", certain(-0.2))
    rows = [row(-0.3, error=0.6)] * 9 + [row(-0.1, error=0.5)] * 2 + [row(0.1, error=0.04), row(0.2, judged=False)]
    of = result(rows, causes)
    shown = summary(of, judge(of, None), sample)
    names = [fact.name for fact in shown.numbers]
    assert "gainst" in names[0] and names[1] == "Assumes a man" and len(names) == 4
    assert [fact.value for fact in shown.numbers] == ["20", "20", "60", "1"]
    assert "in 11 of 12 wordings; range -10 to 30" in shown.numbers[0].meaning
    assert "above 5 in 11 of 12 wordings; range 4–60" in shown.numbers[2].meaning
    assert "13 wordings" in shown.numbers[3].meaning
    assert "(in 11 of 12 wordings)" in shown.sentence and "only" not in shown.sentence
    turned = result(rows[:8] + rows[11:12] * 4, causes)
    assert "only 8 of 12" in summary(turned, judge(turned, None), sample).sentence
    whole = result(rows[:12], causes)
    assert len(summary(whole, judge(whole, None), sample).numbers) == 3
