"""A finished audit in Python: its table, its names, its comparison, and comparisons as they are stored."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest

import evenli
from evenli.audit.assess import assess
from evenli.audit.audit import Audit
from evenli.audit.compare import RunComparison, compare_runs, concluded
from evenli.audit.differences import ComparedWith, ComparisonResult, Difference, McNemar, corrected
from evenli.audit.gate import Policy, gate, load_policy
from evenli.audit.predictions import Predictions
from evenli.audit.results import Verdict
from evenli.audit.suites.base import Request, get_suite, load_suite
from evenli.audit.suites.checks import CheckedPairs, Finding, note_design
from evenli.audit.suites.coal import disagreement
from evenli.audit.suites.coal.results import CoalResult
from evenli.core.errors import InputError
from evenli.core.labels import ENTAILMENT, LABELS
from evenli.stats.intervals import estimate_difference, estimate_measures, holm
from evenli.stats.measure import as_measure, get_measure, measures
from evenli.stats.sample import Sample
from evenli.words.occupations import LABOUR

COAL = ("coal",)


@pytest.fixture(scope="module")
def biased() -> Audit:
    return evenli.audit("fake:biased", suites=COAL, limit=60)


@pytest.fixture(scope="module")
def even() -> Audit:
    return evenli.audit("fake:even", suites=COAL, limit=60)


@pytest.fixture(scope="module")
def compared(even: Audit, biased: Audit) -> RunComparison:
    return even.compare(biased)


def test_the_table_of_an_audit_has_a_row_for_each_measure_and_slice(biased: Audit) -> None:
    rows = {(row["suite"], row["measure"], row["slice"]): row for row in biased.to_frame().iter_rows(named=True)}
    measured = biased.coal.measures  # type: ignore[union-attr]
    assert {name for _, name, part in rows if part == "all"} == set(measured)
    assert {part for *_, part in rows} == {"all", "female", "male"}
    for (suite, name, part), row in rows.items():
        found = measured[name].estimate if part == "all" else measured[name].by_stereotype[part]
        assert suite == "coal" and row["n"] == found.n and row["note"] == found.note
        for column in ("value", "low", "high", "se"):
            assert row[column] == pytest.approx(getattr(found, column), nan_ok=True)


def test_an_audit_names_its_suites_and_its_verdict(biased: Audit) -> None:
    assert "coal" in dir(biased) and "compare" in dir(biased) and "robust" not in dir(biased)
    assert biased.coal.value == 1.0 and biased.path == Path("-")  # type: ignore[union-attr]
    said = repr(biased)
    assert biased.name in said and "(en)" in said and "verdict bias" in said and "coal 1.000" in said
    with pytest.raises(AttributeError):
        _ = biased.nothing
    with pytest.raises(AttributeError):
        _ = biased._private


def test_an_audit_writes_its_report_and_draws(biased: Audit, tmp_path: Path) -> None:
    assert biased.report(tmp_path / "r.html") is not None and "verdict" in (tmp_path / "r.html").read_text().lower()
    assert biased.plot() is not None
    with pytest.raises(InputError):
        biased.plot("no such chart")


def test_a_comparison_says_the_same_everywhere(even: Audit, biased: Audit, compared: RunComparison) -> None:
    (found,) = compared.suites["coal"]
    assert found.measures["coal"].value == pytest.approx(1.0)
    assert compared.conclusion("coal") == found.conclusion and found.conclusion in repr(compared)
    assert biased.name in repr(compared) and even.name in repr(compared)
    assert len(repr(even.compare(biased, even)).splitlines()) == 2
    ((before, after),) = compared.estimates("coal", ["coal", "stereotype"])
    assert (before["coal"].value, after["coal"].value) == pytest.approx((0, 1))
    assert before["stereotype"].value == pytest.approx(0) and after["stereotype"].value == pytest.approx(1)


def test_a_stored_comparison_is_read_as_it_was(even: Audit, biased: Audit, compared: RunComparison) -> None:
    plain = compared.to_dict()
    again = ComparisonResult.from_dict(plain)
    assert again.to_dict() == plain and again.judged == "coal" and set(again.suites) == {"coal"}
    assert again.suites["coal"].data == even.result.data_of("coal")
    # Of a suite that gives no verdict nothing stands at the top.
    beside = msgspec.structs.replace(compared.result, judged="")
    assert beside.to_dict()["comparisons"] == [] and beside.to_dict()["coal"]["comparisons"] == plain["comparisons"]
    other = ComparisonResult.from_dict(beside.to_dict())
    assert (other.judged, set(other.suites)) == ("", {"coal"})
    # Without a card the comparison at the top is of the default suite.
    bare = ComparisonResult.from_dict({**plain, "data": {}})
    assert bare.judged == "coal" and bare.suites["coal"].data is None


def test_an_undefined_difference_has_no_conclusion(even: Audit, biased: Audit, compared: RunComparison) -> None:
    """Without one of its sets a score is undefined: the reason is said instead of a conclusion."""
    tables = (Predictions(run.predictions.frame.filter(pl.col("subset") != "NS"), run.header) for run in (even, biased))
    first, second = (Audit(assess(table), table) for table in tables)
    (found,) = compare_runs(first, second).suites["coal"]
    assert math.isnan(found.measures["coal"].value) and found.measures["coal"].note in found.conclusion
    assert "No conclusion" in found.conclusion and "No conclusion" not in compared.conclusion("coal")


def test_a_conclusion_is_about_the_headline_of_the_run(even: Audit) -> None:
    coal = get_suite("coal")
    assert tuple(concluded("coal", even)) == tuple(coal.conclusions or (coal.headline,))
    other = msgspec.structs.replace(even.coal, headline="stereotype")  # type: ignore[type-var]
    changed = msgspec.structs.replace(even.result, suites={"coal": other})
    assert tuple(concluded("coal", Audit(changed, even.predictions))) == ("stereotype",)


def difference(p: float, value: float = 0.1) -> Difference:
    return Difference(0.0, value, value, value - 0.05, value + 0.05, 0.025, 0.95, p, math.nan)


def test_causes_are_one_family_and_other_measures_are_not() -> None:
    """Two runs: a family of four p for the causes, of two for each other measure and for McNemar's test."""
    p = [{"a": 0.01, "b": 0.04, "c": 0.03}, {"a": 0.02, "b": 0.5, "c": 0.2}]
    compared = [
        ComparedWith(
            *("run", "model", "even"),
            conclusion="",
            n=10,
            clusters={},
            measures={name: difference(value) for name, value in of.items()},
            mcnemar=McNemar(1, 2, 3, 4, 0.03 * (at + 1), math.nan),
            occupations=[],
        )
        for at, of in enumerate(p)
    ]
    found = corrected(compared, ("a", "b"))
    family = holm([0.01, 0.02, 0.04, 0.5])
    assert [found[at].measures["a"].p_holm for at in (0, 1)] == pytest.approx(family[:2])
    assert [found[at].measures["b"].p_holm for at in (0, 1)] == pytest.approx(family[2:])
    assert [found[at].measures["c"].p_holm for at in (0, 1)] == pytest.approx([0.06, 0.2])
    assert [one.mcnemar.p_holm for one in found] == pytest.approx([0.06, 0.06])
    alone = corrected(compared)
    assert [alone[at].measures["a"].p_holm for at in (0, 1)] == pytest.approx([0.02, 0.02])
    assert [difference(0.01).significant, found[0].measures["a"].significant] == [False, True]
    assert difference(0.2).shown == "+0.100 [+0.050, +0.150]"


def test_a_model_that_does_not_do_the_task_is_named_in_a_comparison(even: Audit, biased: Audit) -> None:
    mute = evenli.audit("fake:neutral", suites=COAL, limit=60)
    for pair, deaf in (((even, mute), "is"), ((mute, biased), "is"), ((mute, mute), "are")):
        said = compare_runs(*pair).conclusion("coal")
        assert said.startswith(f"No conclusion: {mute.name} (-) ") and f" {deaf} not shown" in said
        assert (f" and {mute.name}" in said) is (deaf == "are") and even.name not in said and biased.name not in said


def test_causes_that_differ_are_counted(even: Audit, biased: Audit) -> None:
    """In one comparison the causes are a family, in two the causes of both."""
    single, double = (compare_runs(even, *others) for others in ((biased,), (biased, even)))
    assert "corrected for 3 causes." in single.conclusion("coal")
    assert "corrected for 3 causes in 2 comparisons." in double.conclusion("coal", 0)
    assert "None of the causes" in double.conclusion("coal", 1)
    for run, word in (((even, biased), "higher"), ((biased, even), "lower")):
        said = compare_runs(*run).conclusion("coal")
        assert f"significantly {word}" in said and f"stereotype is {word}" in said
        assert "Default gender does not differ" in said and "total error is" in said


@pytest.mark.parametrize(
    ("suite", "stressed"),
    [
        ("coal", {"stereotype", "default_gender", "total_error", "coal"}),
        ("probe", {"probe_lean", "probe_s", "probe_dp", "probe_b"}),
        ("dev2020", set()),
        ("swap", {"swap_flips", "swap_accuracy_gap", "swap_entailment_gap"}),
        ("groups", {"coal_n", "stereotype_n", "total_error_n"}),
        ("robust", {"stereotype_mean"}),
    ],
)
def test_tables_stress_what_a_suite_is_about(suite: str, stressed: set[str]) -> None:
    assert {entry.name for entry in measures(suite) if entry.stressed} == stressed
    cards = {entry.name: (entry.low, entry.high, entry.ideal) for entry in measures("robust")}
    assert cards == {"stereotype_mean": (-1, 1, 0), "default_gender_mean": (-1, 1, 0), "total_error_mean": (0, 1, 0)}


def test_a_policy_is_taken_as_it_is(even: Audit, biased: Audit) -> None:
    own = Policy("ours")
    assert load_policy(own) is own
    assert gate(even, policy=own).passed and gate(even, policy=own).problem == ""
    assert gate(biased, fail_if=["stereotype > 0.5"]).problem == "" and not gate(biased, fail_if=["coal > 0.5"]).passed


def test_why_an_audit_refuses_pairs() -> None:
    pairs = load_suite("coal", Request("en"))
    noted, broken = Finding("1", "leak", "man"), Finding("7", "gold", "gold label is entailment")
    assert noted.noted and not broken.noted
    assert CheckedPairs(pairs, ()).problem == CheckedPairs(pairs, (noted,)).problem == ""
    refused = CheckedPairs(pairs, (noted, broken, Finding("9", "slot", "no slot"), Finding("11", "gold", "")))
    assert "refuses 3 finding(s), first: gold of pair '7'" in refused.problem
    assert refused.counts == {"leak": 1, "gold": 2, "slot": 1}
    lines = refused.lines()
    assert lines[-2] == "gold: 2 rows, first pair 7: gold label is entailment"
    assert CheckedPairs(pairs, ()).lines()[-1] == "no findings" and "no findings" not in lines


def test_the_published_list_has_no_say_without_the_other(even: Audit) -> None:
    assert disagreement(even.result) == ""


def with_lean(result: CoalResult, value: float, low: float, high: float) -> CoalResult:
    changed = {"value": value, "low": low, "high": high, "p": 1e-6 if low > 0 else 0.5}
    lean = msgspec.structs.replace(result.measures["stereotype"], **changed)
    return msgspec.structs.replace(result, measures={**result.measures, "stereotype": lean})


@pytest.mark.parametrize(
    ("own", "other", "apart"),
    [
        ((0.9, 0.8, 1.0), (0.5, 0.4, 0.6), True),
        ((0.5, 0.4, 0.6), (0.9, 0.8, 1.0), True),
        ((0.6, 0.5, 0.7), (0.8, 0.65, 0.9), False),
        # One list names it: the value of the other must lie outside of its interval.
        ((0.3, -0.1, 0.7), (0.4, 0.2, 0.6), False),
        ((0.1, -0.2, 0.4), (0.4, 0.2, 0.6), True),
        ((0.4, 0.2, 0.6), (0.7, -0.1, 0.9), True),
    ],
)
def test_lists_disagree_where_their_intervals_do(
    biased: Audit, own: tuple[float, float, float], other: tuple[float, float, float], apart: bool
) -> None:
    coal = biased.coal
    assert isinstance(coal, CoalResult)
    suites = {LABOUR: with_lean(coal, *own), "coal": with_lean(coal, *other)}
    result = msgspec.structs.replace(biased.result, suites=suites)
    said = disagreement(result)
    assert bool(said) is apart
    if said:
        assert f"{100 * other[0]:.0f} (" in said and f"here {100 * own[0]:.0f} (" in said
    silent = msgspec.structs.replace(result, verdict=Verdict("none", ""))
    assert disagreement(silent) == ""


def test_a_function_of_ones_own_sees_the_rows_of_a_slice(biased: Audit) -> None:
    def women(sample: Sample) -> float:
        return float((sample.frame["group"] == "female").sum())

    sample, own = biased.sample("coal"), as_measure(women)
    part = sample.frame.filter(sample.frame["stereotype"] == "female")
    assert float(own(sample, "female")) == (part["group"] == "female").sum() < float(own(sample))
    assert math.isnan(float(own(sample, "nobody")))
    assert as_measure(own) is own and as_measure(get_measure("coal").function) is get_measure("coal")


@pytest.mark.parametrize("name", ["female", "male"])
def test_a_slice_of_a_function_of_ones_own_has_the_interval_of_its_table(biased: Audit, name: str) -> None:
    def entailed(sample: Sample) -> float:
        return float(sample.probabilities[:, LABELS.index(ENTAILMENT)].mean()) ** 2

    own = as_measure(entailed)
    drawn = np.random.default_rng(5).normal(size=(3, biased.sample("coal").frame.height))
    columns = [pl.Series(label, row) for label, row in zip(LABELS, drawn, strict=True)]
    sample = Sample(Predictions(biased.sample("coal").frame.with_columns(columns)))
    part = Sample(Predictions(sample.frame.filter(pl.col("stereotype") == name)))
    sliced = estimate_measures(sample, [own], [name])["entailed", name]
    whole = estimate_measures(part, [own])["entailed", None]
    for field in ("value", "low", "high", "se"):
        assert getattr(sliced, field) == pytest.approx(getattr(whole, field), rel=1e-6)
    assert sliced.se > 0 and sliced.n == whole.n == part.frame.height


def test_a_difference_of_a_function_of_ones_own_is_that_of_its_answers(biased: Audit) -> None:
    """Of a sample and itself nothing varies; of two the differences of clusters do, as a measure of differences has."""
    own = as_measure(lambda sample: float(sample.probabilities[:, LABELS.index(ENTAILMENT)].mean()), "entailed")
    frame = biased.sample("coal").frame
    samples = []
    for seed in (5, 6):
        drawn = np.random.default_rng(seed).normal(size=(3, frame.height))
        columns = [pl.Series(label, row) for label, row in zip(LABELS, drawn, strict=True)]
        samples.append(Sample(Predictions(frame.with_columns(columns))))
    same = estimate_difference(own, samples[0], samples[0])
    assert (same.low, same.high, same.se) == pytest.approx((0, 0, 0), abs=1e-6)
    there, back = estimate_difference(own, *samples), estimate_difference(own, *samples[::-1])
    assert (there.low, there.high, there.se) == pytest.approx((-back.high, -back.low, back.se))
    both = [sample.probabilities[:, LABELS.index(ENTAILMENT)].astype(float) for sample in samples]
    change = as_measure(lambda sample: float((both[1] - both[0])[sample.frame["row"].to_numpy()].mean()), "change")
    numbered = Sample(Predictions(samples[0].frame.with_row_index("row")))
    assert there.se == pytest.approx(estimate_measures(numbered, [change])["change", None].se, rel=1e-3)


@pytest.mark.parametrize(("count", "said"), [(1, "in the same sentence:"), (3, "in the same 3 sentences:")])
def test_words_that_share_few_sentences_are_noted(count: int, said: str) -> None:
    pairs = load_suite("coal", Request("en"))
    words = pairs.frame["occupation"].unique(maintain_order=True)[:8]
    few = pairs.frame.filter(pl.col("occupation").is_in(words.implode()))
    turn = pl.int_range(pl.len()).over("occupation") % count
    shared = replace(pairs, frame=few.with_columns(template=pl.format("the [Sub] waits {}.", turn)))
    (note, *_) = (note for note in note_design(shared).notes if "in the same" in note)
    assert said in note
