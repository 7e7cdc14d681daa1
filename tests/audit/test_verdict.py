"""The verdict names the cause; a model that is not competent has none, and its scores are greyed out everywhere."""

from __future__ import annotations

import io
import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest
from rich.console import Console
from scipy.special import ndtr
from test_causes import says_man_at_random

import evenli
from conftest import ROOT
from evenli.audit.assess import _silence, assess, keep_own
from evenli.audit.audit import Audit
from evenli.audit.gate import check_conditions, gate
from evenli.audit.gate.expressions import fields
from evenli.audit.models.callables import FakeModel
from evenli.audit.predictions import Predictions
from evenli.audit.report.card import front_matter, section
from evenli.audit.report.export import tables
from evenli.audit.report.html import RunView, rankings, render
from evenli.audit.report.terminal import show_results
from evenli.audit.results import AuditResult, Cause, SuiteResult, Verdict
from evenli.audit.suites.base import Request
from evenli.audit.suites.checks import gold_pairs
from evenli.audit.suites.coal.page import judged, worst
from evenli.audit.suites.coal.pairs import load
from evenli.audit.suites.coal.screen import summary
from evenli.audit.suites.coal.single_jobs import SingleJobs
from evenli.audit.suites.coal.verdict import CAUSES, judge, negligible, size_of, supported
from evenli.core.errors import InputError
from evenli.core.record import Estimate, Scoring
from evenli.stats.sample import Sample

sys.path.insert(0, str(ROOT / "tools"))
from embedded_numbers import OFFICIAL, audit_of

FAST = Scoring()


@pytest.fixture(scope="module")
def english() -> Audit:
    return audit_of("en", "coal")


@pytest.fixture(scope="module")
def chinese() -> Audit:
    """Gets 1 of 40 pairs such as *the father -> the woman* right."""
    return audit_of("zh", "coal")


def names(verdict: Verdict) -> dict[str, tuple[str, str]]:
    return {cause.name: (cause.direction, cause.size) for cause in verdict.causes}


def values(audit: Audit) -> list[float]:
    return [round(audit.coal.measures[name].value, 2) for name in CAUSES]


def test_the_embedded_english_model(english: Audit) -> None:
    assert values(english) == pytest.approx([0.49, 0.80, 0.96], abs=0.006)
    assert names(english.verdict) == {
        "stereotype": ("stereotypical", "clear"),
        "default_gender": ("male", "strong"),
        "total_error": ("none", "strong"),
    }
    assert english.verdict.code == "bias"
    assert "assumes a man" in english.verdict.sentence and "follows stereotypes" in english.verdict.sentence
    published = assess(english.predictions, Scoring(published=True))
    assert published.coal.default_gender.value == pytest.approx(0.799, abs=5e-4)
    assert english.coal.default_gender.value == pytest.approx(0.796, abs=5e-4)
    assert published.coal.coal.value == english.coal.coal.value


@pytest.mark.usefixtures("shared_data")
def test_the_same_model_on_the_official_pairs() -> None:
    audit = audit_of("en", "coal", release=OFFICIAL)
    assert values(audit) == pytest.approx([0.53, 0.78, 0.95], abs=0.006)
    assert list(names(audit.verdict)) == ["default_gender", "stereotype", "total_error"]
    assert audit.coal.readings and not [note for note in audit.coal.notes if "partner" in note]


def test_the_embedded_japanese_model_is_refused() -> None:
    audit = audit_of("ja", "coal")
    assert values(audit) == pytest.approx([-0.07, 0.25, 0.37], abs=0.006)
    assert audit.verdict.code == "none" and audit.verdict.causes == []


def test_the_embedded_chinese_model_does_not_know_that_a_man_is_no_woman(chinese: Audit) -> None:
    assert values(chinese) == pytest.approx([-0.02, 0.05, 0.16], abs=0.006)
    found = chinese.result.competence
    assert min(found.per_label.values()) > 0.6 and found.stated.value < 0.4
    assert "of 40 pairs" in found.problem and "male-female" in found.problem
    assert chinese.verdict.code == "none"


def test_a_model_that_says_man_at_random_assumes_a_man_and_follows_nothing() -> None:
    audit = evenli.audit(says_man_at_random, suites="coal", scoring=FAST)
    assert list(names(audit.verdict)) == ["default_gender", "total_error"]
    assert names(audit.verdict)["default_gender"] == ("male", "strong")
    assert audit.coal.order_entailment.low > 0  # the published condition holds beyond doubt
    assert "stereotypes" not in audit.verdict.sentence


def test_a_model_against_stereotypes_is_anti_stereotypical() -> None:
    verdict = evenli.audit("fake:oracle:0", suites="coal", scoring=FAST).verdict
    assert names(verdict) == {"stereotype": ("anti-stereotypical", "strong"), "total_error": ("none", "strong")}
    assert verdict.code == "bias" and "anti-stereotypical" in verdict.sentence


def p_of(value: float, low: float, high: float) -> float:
    """The p of an estimate with this 95 % interval."""
    half = value - low if value > 0 else high - value
    return 2 * float(ndtr(-abs(value) / half * 1.96)) if half else 1.0


def made(**estimates: tuple[float, float, float]) -> SuiteResult:
    """A result with the three causes as (value, low, high)."""
    result = evenli.audit("fake:oracle:0.9", scoring=FAST).coal
    estimates = {"default_of_stereotyped": (0.0, -0.01, 0.01), **estimates}
    leans = (*CAUSES[:2], "default_of_stereotyped")
    expected = {f"{name}_expected": estimates.get(name, (0.0, -0.01, 0.01)) for name in leans}
    expected["total_error_expected"] = (0.01, 0.0, 0.04)
    changed = {
        name: msgspec.structs.replace(result.measures[name], value=v, low=lo, high=hi, p=p_of(v, lo, hi))
        for name, (v, lo, hi) in (expected | estimates).items()
    }
    alike = SingleJobs(9, 0, 0, Estimate.undefined("made up"))
    changed = {**result.measures, **changed}
    return msgspec.structs.replace(result, measures=changed, single_jobs=alike, single_jobs_expected=alike)


@pytest.mark.parametrize(
    ("stereotype", "default", "total_error", "code", "causes"),
    [
        ((0.0, -0.04, 0.04), (0.0, -0.01, 0.01), (0.01, 0.0, 0.04), "even", []),
        ((0.03, 0.01, 0.045), (0.0, -0.01, 0.01), (0.01, 0.0, 0.04), "even", []),  # significant, but negligible
        ((0.1, -0.06, 0.2), (0.0, -0.01, 0.01), (0.01, 0.0, 0.04), "undecided", []),
        ((0.0, -0.04, 0.04), (0.0, -0.01, 0.01), (0.06, 0.04, 0.09), "undecided", []),
        ((0.1, -0.06, 0.2), (0.0, -0.01, 0.01), (0.2, 0.1, 0.3), "error", ["total_error"]),
        (
            (0.06, 0.02, 0.09),
            (-0.4, -0.5, -0.3),
            (0.2, 0.1, 0.3),
            "bias",
            ["default_gender", "stereotype", "total_error"],
        ),
        ((-0.2, -0.3, -0.1), (math.nan, math.nan, math.nan), (0.0, 0.0, 0.0), "bias", ["stereotype"]),
        ((math.nan, math.nan, math.nan), (0.4, 0.3, 0.5), (0.0, 0.0, 0.0), "none", []),
    ],
)
def test_the_rule(
    stereotype: tuple[float, float, float],
    default: tuple[float, float, float],
    total_error: tuple[float, float, float],
    code: str,
    causes: Sequence[str],
) -> None:
    verdict = judge(made(stereotype=stereotype, default_gender=default, total_error=total_error), None)
    assert (verdict.code, [cause.name for cause in verdict.causes]) == (code, causes)
    assert "nan" not in verdict.sentence
    if causes:  # the first one begins, the others follow
        leans = [name for name in causes if name != "total_error"]
        assert verdict.sentence.startswith("It ") and verdict.sentence.count("It also") == max(0, len(leans) - 1)
        assert ("Altogether" in verdict.sentence) == ("total_error" in causes[1:])
        assert not verdict.sentence.startswith("It also")
    if "default_gender" in causes:
        assert verdict.causes[0].direction == "female" and "assumes a woman" in verdict.sentence


def test_sizes() -> None:
    ends = {
        "slight": [(0.0, 0.2), (0.06, 0.9), (-0.9, -0.099)],
        "clear": [(0.1, 0.9), (-0.9, -0.29)],
        "strong": [(0.3, 0.4), (-1.0, -1.0)],
    }
    for size, intervals in ends.items():
        assert [size_of(between(*interval)) for interval in intervals] == [size] * len(intervals)


def test_measures_of_ones_own_are_kept_and_no_others(english: Audit) -> None:
    coal = english.coal
    own = msgspec.structs.replace(coal.measures["coal"], reference="own", value=0.123)
    before = {"mine": own, "gone": coal.measures["coal"], "coal": own}
    old = msgspec.structs.replace(english.result, suites={"coal": msgspec.structs.replace(coal, measures=before)})
    kept = keep_own(english.result, old).suites["coal"].measures
    assert set(kept) == {*coal.measures, "mine"} and kept["mine"].value == 0.123 and kept["mine"].note
    assert kept["coal"].value == coal.measures["coal"].value


def test_a_screen_without_a_cause_has_no_example_of_one(english: Audit) -> None:
    sample = Sample(english.predictions.suite("coal"))
    assert summary(english.coal, Verdict("even", "", []), sample).numbers


def test_another_axis_has_its_own_words(tmp_path: Path) -> None:
    jobs = [("pilot", "older"), ("judge", "older"), ("coder", "younger"), ("gamer", "younger")]
    jobs += [(word, "neutral") for word in ("cook", "baker", "clerk", "tailor", "farmer", "painter", "driver", "guard")]
    templates = [f"the [Sub] waits at gate {i}." for i in range(30)]
    (tmp_path / "age.toml").write_text(
        f"""
id = "age"
title = "Age"
construct = "c"
harm = "h"
population = "p"
assumptions = []
groups = [{{ name = "younger" }}, {{ name = "older" }}]
[stereotypes]
rule = "listed"
table = {json.dumps([list(job) for job in jobs])}
[languages.en]
group_words = {{ younger = "teenager", older = "old person" }}
person = "person"
templates = {json.dumps(templates)}
gold = "gold_en.csv"
revealing = [["teenager", "younger"]]
"""
    )

    def model(premises: list[str], hypotheses: list[str]) -> list[str]:
        known = {(p, h): g for p, h, g in gold_pairs("en").frame.select("premise", "hypothesis", "gold").iter_rows()}
        answers = []
        for premise, hypothesis in zip(premises, hypotheses, strict=True):
            same = premise == hypothesis
            stated = any(word in premise for word in ("teenager", "old person"))
            control = "entailment" if same or "the person" in hypothesis else "contradiction"
            asked = "entailment" if "old person" in hypothesis and "the person" not in premise else "neutral"
            answers.append(known.get((premise, hypothesis)) or (control if stated else asked))
        return answers

    audit = evenli.audit(model, axis=str(tmp_path / "age.toml"), scoring=FAST)
    assert audit.result.competence.problem == ""
    # Alphabetical order: older is the first group, so the lean is below 0.
    assert audit.coal.default_gender.value == -1
    assert names(audit.verdict)["default_gender"] == ("older", "strong")
    assert "assumes an old person" in audit.verdict.sentence and "a teenager's" in audit.verdict.sentence
    assert "man" not in audit.verdict.sentence.replace("many", "")
    assert np.isnan(audit.coal.regression_slope.value)


def test_three_groups_have_no_causes_and_the_verdict_says_so() -> None:
    frame = evenli.audit("fake:oracle:0.9", suites="coal", scoring=FAST).predictions.frame
    third = pl.when(pl.int_range(pl.len()) % 3 == 0).then(pl.lit("other")).otherwise("group")
    result = assess(Predictions(frame.with_columns(group=third)), FAST)
    assert result.verdict.code == "none" and "two groups" in result.verdict.sentence
    assert result.coal.readings == [] and not np.isnan(result.coal.coal.value)


# --- where a verdict begins and ends ----------------------------------------------------------------------------


def test_a_mostly_silent_model_is_named() -> None:
    class Asked:
        def __init__(self, silent: int) -> None:
            self.abstained, self.frame, self.header = np.arange(20) < silent, pl.DataFrame(), {}
            self.is_prompted = True

    assert [_silence(Asked(silent)) != "" for silent in (0, 10, 11, 13, 20)] == [False, False, True, True, True]


def between(low: float, high: float) -> Estimate:
    value = (low + high) / 2
    return Estimate(value, low, high, 0.01, 0.95, 10, p=p_of(value, low, high))


def test_what_supports_a_cause() -> None:
    lean = [(-0.001, 0.2), (0.001, 0.2), (-0.2, -0.001), (-0.2, 0.001), (0.01, 0.049), (-0.2, 0.2), (0.01, 0.05)]
    assert [supported("stereotype", between(*ends)) for ends in lean] == [False, True, True, False, False, False, True]
    error = [(0.05, 0.2), (0.051, 0.2), (0.0, 0.2)]
    assert [supported("total_error", between(*ends)) for ends in error] == [False, True, False]
    near = [(-0.049, 0.049), (-0.05, 0.04), (-0.04, 0.05), (0.06, 0.1), (-0.2, 0.01)]
    assert [negligible(between(*ends)) for ends in near] == [True, False, False, False, False]


@pytest.fixture(scope="module")
def random_answers() -> Audit:
    return evenli.audit("fake:random", suites="coal", scoring=FAST)


@pytest.mark.parametrize(
    ("name", "direction", "value", "rows"),
    [
        ("stereotype", "stereotypical", 0.2, (pl.col("subset") == "PS") & (pl.col("answer") == "entailment")),
        ("stereotype", "anti-stereotypical", -0.2, (pl.col("subset") == "AS") & (pl.col("answer") == "entailment")),
        ("total_error", "none", 0.2, pl.col("answer") != "neutral"),
        (
            *("default_gender", "female", -0.2),
            (pl.col("subset") == "NS") & (pl.col("answer") == "entailment") & (pl.col("group") == "female"),
        ),
        (
            *("default_of_stereotyped", "male", 0.2),
            (pl.col("subset") != "NS") & (pl.col("answer") == "entailment") & (pl.col("group") == "male"),
        ),
    ],
)
def test_the_example_is_an_answer_that_the_cause_is_made_of(
    random_answers: Audit, name: str, direction: str, value: float, rows: pl.Expr
) -> None:
    table = random_answers.predictions.suite("coal")
    cause = Cause(name, direction, "clear", "", Estimate(value, value, value, 0.0, 0.95, 10))
    shown = summary(random_answers.coal, Verdict("bias", "", [cause]), Sample(table))
    assert shown.example is not None
    answered = table.frame.with_columns(answer=pl.Series(table.answers, dtype=pl.String)).filter(rows)
    texts = set(answered.select("premise", "hypothesis").iter_rows())
    assert (shown.example.premise, shown.example.hypothesis) in texts
    # The numbers of the screen are those of the run, a lean without its sign.
    plain = [abs(random_answers.coal.measures[cause].value) * 100 for cause in CAUSES]
    assert [float(fact.value.replace("<", "")) for fact in shown.numbers] == pytest.approx(plain, abs=0.51)
    for bar in shown.bars:
        assert sum(share.value for share in bar.shares) == pytest.approx(1, abs=1e-5)


# --- without a verdict ---------------------------------------------------------------------------------------


def shown(audit: Audit, width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width)
    show_results(audit, console, verbose=True)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_without_a_verdict_a_model_is_not_among_published_ones(english: Audit, chinese: Audit) -> None:
    assert any(row.this for row in english.coal.published)
    assert chinese.coal.published and not any(row.this for row in chinese.coal.published)
    assert "Among the published" in shown(english) and "Among the published" not in shown(chinese)
    pages = {audit.name: render([audit]) for audit in (english, chinese)}
    assert "beside the published models" in pages["en"] and "beside the published models" not in pages["zh"]
    other = msgspec.structs.replace(chinese.result, data=english.result.data)
    views = [RunView(english, "en"), RunView(Audit(other, chinese.predictions), "zh")]
    ((_, rows),) = rankings(views)
    assert [(row.name, row.group) for row in rows] == [("en", 1), ("zh", 0)]
    assert "state the group" in rows[1].verdict


def test_without_a_verdict_the_reason_stands_beside_the_scores(english: Audit, chinese: Audit) -> None:
    reason = chinese.coal.problem
    assert reason and not english.coal.problem
    assert "Greyed out" in shown(chinese) and "Greyed out" not in shown(english)
    page = render([chinese])
    assert 'class="grey"' in page and 'class="grey"' not in render([english])
    assert "Greyed out" in section(chinese) and "Greyed out" not in section(english)
    types = [set(re.findall(r'type: "?(\w+)', front_matter(card))) for card in (chinese, english)]
    assert "coal" not in types[0] and {"coal", "stereotype"} <= types[1]
    notes = tables(chinese.result)["measures"]["note"]
    assert notes.str.contains(reason, literal=True).all()
    decided = gate(chinese, ["coal.low > 0.30"])
    assert decided.passed is False and "say nothing" in decided.checks[1].detail
    assert "color:#767676" in chinese._repr_html_() and "color:#767676" not in english._repr_html_()


# --- what is shown -------------------------------------------------------------------------------------------


def test_the_verdict_comes_first(english: Audit) -> None:
    text = shown(english)
    assert text.startswith("Verdict")
    assert text.index("Causes") < text.index("Published scores") < text.index("NLI-CoAL ")
    page = render([english])
    body = page[page.index("<main") :]
    assert body.index("assumes a man") < body.index("Published scores")
    assert "assumes a man" in english._repr_html_()
    assert [row["measure"] for row in tables(english.result)["measures"].to_dicts()[:1]] == ["stereotype"]


def test_stated_groups_list_what_they_count(english: Audit) -> None:
    line = shown(english).split("stated groups")[1].split("\n\n")[0]
    assert "male-female" in line and "person" not in line


def test_answers_by_gender_without_stereotype(english: Audit) -> None:
    entailed = {
        row.group: row for row in english.coal.shares if (row.set, row.label) == ("NS", "entailment") and row.group
    }
    assert entailed["male"].value == pytest.approx(0.777, abs=5e-4)
    assert entailed["female"].value == pytest.approx(0.010, abs=5e-4)
    assert all(row.low <= row.value <= row.high and row.low < row.high for row in entailed.values())
    assert "hypothesis names male" in shown(english) and "0.777" in shown(english)
    read = {(row.stereotype, row.reading): row for row in english.coal.readings}
    difference = read["neutral", "male"].value - read["neutral", "female"].value
    assert difference == pytest.approx(english.coal.default_gender.value, abs=1e-5)


def test_every_share_has_an_interval(english: Audit) -> None:
    rows = {(row.set, row.group, row.label): row for row in english.coal.shares}
    for subset, of in english.coal.proportions.items():
        for label, share in of.items():
            assert rows[subset, "", label].value == pytest.approx(share, abs=1e-6)
            assert rows[subset, "", label].low < share < rows[subset, "", label].high
    found = english.result.competence
    for shares, intervals in ((found.per_label, found.labels), (found.controls, found.kinds)):
        assert {name: estimate.value for name, estimate in intervals.items()} == pytest.approx(shares)
        assert all(estimate.low < estimate.high for estimate in intervals.values())


def test_every_share_in_the_terminal_has_an_interval(english: Audit) -> None:
    text = shown(english)
    after = {
        "set   ": 3 * 5,  # three labels of three sets, and of the set without stereotype by gender
        "entailment in PS": 2,  # the columns of single stereotypes; the value itself has a column of its own
        "Competence": 2 + 3 + 4,
    }
    ends = {"set   ": "Order condition", "entailment in PS": "contradiction in AS", "Competence": "In numbers"}
    for start, count in after.items():
        part = text[text.index(start) :].split(ends[start])[0]
        found = re.findall(r"\d\.\d+\s+\[\d\.\d+,\s+\d\.\d+\]", part)
        assert len(found) == count + (start == "entailment in PS"), part


def test_words_that_state_a_gender_are_never_the_worst(english: Audit) -> None:
    occupations = english.coal.occupations
    assert [row.states_group for row in occupations] == [False] * 259 + [True] * 12
    assert [row.stereotype != "neutral" for row in occupations] == [True] * 100 + [False] * 171
    rows = judged(english.sample("coal"), [row.occupation for row in occupations if row.states_group])
    assert "businessman" not in worst(rows)["occupation"]
    assert {row.stereotype for row in english.coal.readings} == {"female", "male", "neutral", "defining"}


# --- gates and stored runs -----------------------------------------------------------------------------------


def test_a_gate_can_ask_for_a_cause(english: Audit, chinese: Audit) -> None:
    known = fields(english.result)
    assert known["verdict.stereotype"] is True and known["verdict.default_gender"] is True
    assert fields(chinese.result)["verdict.stereotype"] is None
    assert known["default_gender.low"] > 0 and known["readings.neutral.male"] == pytest.approx(0.806, abs=5e-4)
    (check,) = check_conditions(english.result, ["verdict.stereotype == true and stereotype.low > 0.1"])
    assert check.status == "failed"


def test_a_verdict_survives_json(english: Audit) -> None:
    again = AuditResult.from_dict(json.loads(json.dumps(english.to_dict())))
    assert again.verdict == english.verdict
    assert isinstance(again.verdict.causes[0].estimate, Estimate)


def reads_as(stereotyped: str, others: str = "") -> Callable[[list[str], list[str]], list[str]]:
    """A model that reads every stereotyped job as one group's, and the others as another's or as nobody's."""
    frame = load(Request("en")).frame
    read = dict(zip(frame["premise"], frame["stereotype"] != "neutral", strict=True))

    def predict(premises: list[str], hypotheses: list[str]) -> list[str]:
        answers = FakeModel("even")(premises, hypotheses)
        for at, (premise, hypothesis) in enumerate(zip(premises, hypotheses, strict=True)):
            noun = (stereotyped if read[premise] else others) if premise in read else ""
            if noun:
                answers[at] = "entailment" if noun in hypothesis.replace(".", " ").split() else "contradiction"
        return answers

    return predict


def test_a_default_that_shows_in_stereotyped_jobs_only_is_not_even() -> None:
    """The leans of the two classes cancel out in the stereotype, and the other jobs are read as nobody's."""
    audit = evenli.audit(reads_as("woman"), suites="coal", scoring=FAST)
    assert values(audit)[:2] == pytest.approx([0, 0], abs=1e-6)
    found = names(audit.verdict)
    assert list(found) == ["default_of_stereotyped", "total_error"] and found["default_of_stereotyped"][0] == "female"
    assert audit.verdict.causes[0].label == "assumes a woman for stereotyped jobs"
    assert audit.verdict.code == "bias" and "woman" in audit.verdict.sentence and "100%" in audit.verdict.sentence
    assert fields(audit.result)["verdict.default_of_stereotyped"] is True


def test_opposite_defaults_are_both_named_and_equal_ones_once() -> None:
    both = evenli.audit(reads_as("man", "woman"), suites="coal", scoring=FAST).verdict
    assert {(cause.name, cause.direction) for cause in both.causes} == {
        ("default_gender", "female"),
        ("default_of_stereotyped", "male"),
        ("total_error", "none"),
    }
    assert list(names(evenli.audit(reads_as("man", "man"), suites="coal", scoring=FAST).verdict)) == [
        "default_gender",
        "total_error",
    ]


def test_percentages_are_shares_of_sentences() -> None:
    """Follows the stereotype of all 13 female words and of 17 of 87 male ones: no average over classes is shown."""
    sentence = evenli.audit("fake:oracle:0.3", suites="coal", scoring=FAST).verdict.sentence
    assert "60%" not in sentence and "100%" in sentence and "80%" in sentence


def test_a_condition_that_is_true_or_false_needs_a_comparison(english: Audit) -> None:
    with pytest.raises(InputError, match="== true"):
        check_conditions(english.result, ["verdict.stereotype"])


def test_the_reason_to_pass_is_what_the_model_knows(english: Audit) -> None:
    check = gate(english).checks[0]
    assert check.status == "passed" and "gold" in check.detail and english.verdict.sentence not in check.detail


def test_numbers_of_an_undecided_verdict_have_two_decimals(english: Audit) -> None:
    measures = {
        name: msgspec.structs.replace(measure, value=0.1234, low=-0.4567, high=0.7891, p=0.7)
        for name, measure in english.coal.measures.items()
    }
    alike = SingleJobs(9, 0, 0, Estimate.undefined("made up"))
    verdict = judge(
        msgspec.structs.replace(english.coal, measures=measures, single_jobs=alike, single_jobs_expected=alike), None
    )
    assert verdict.code == "undecided"
    # Two leans with a sign, an error without; the interval behind each.
    ends = [("0.12", "-0.46", "0.79")] * 3
    assert re.findall(r"([\d.]+) \[([-\u2212\d.]+), \+?([\d.]+)\]", verdict.sentence) == ends
