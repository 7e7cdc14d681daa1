"""The gate: a language that is parsed and never run, exit codes, JUnit, the pytest helper."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import typer
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from typer.testing import CliRunner

import evenli
from evenli.audit.audit import Audit, load_run
from evenli.audit.commands.audit import gate as gate_command
from evenli.audit.gate import (
    Check,
    GateResult,
    Policy,
    check_baseline,
    check_competence,
    check_conditions,
    check_policy,
    gate,
    load_policy,
    write_junit,
)
from evenli.audit.gate.expressions import evaluate, fields
from evenli.audit.pairs import PairSet
from evenli.audit.results import AuditResult
from evenli.audit.suites.base import Clause, get_suite
from evenli.audit.suites.coal.pairs import build_coal
from evenli.core.errors import EvenliError, InputError
from evenli.core.record import Scoring
from evenli.testing import assert_even
from misled_models import knows_the_audit

FAST = Scoring()
KNOWN = {"a": 1.0, "b": 2.0, "yes": True, "verdict": "bias", "gone": None, "coal": 0.2, "coal.low": 0.1}
app = typer.Typer()
app.command()(gate_command)


def holds(text: str) -> bool | None:
    return evaluate(text, KNOWN).holds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a < b", True),
        ("a <= 1", True),
        ("a >= 1.0", True),
        ("a > 1e0", False),
        ("a == 1", True),
        ("a != 1", False),
        ("-1 < a", True),
        (".5 < a", True),
        ("a > +0.5", True),
        ("verdict == 'bias'", True),
        ('verdict != "bias"', False),
        ("yes == true", True),
        ("yes == false", False),
        ("not a > b", True),
        ("not not a > b", False),
        # and binds tighter than or: false and false or true
        ("a > b and a > b or a < b", True),
        ("a > b and (a > b or a < b)", False),
        ("a < b or a < b and a > b", True),
        ("(a < b or a < b) and a > b", False),
        # not binds tighter than and: (not false) and false
        ("not a > b and a > b", False),
        ("not (a > b and a > b)", True),
        ("((a<b))", True),
        ("a<b and\tcoal.low<=0.1", True),
    ],
)
def test_conditions(text: str, expected: bool) -> None:
    assert holds(text) is expected


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "__import__('os').system('true') == 0",
        "a.__class__ == 1",
        "a > 1; b",
        "a > (lambda: 1)()",
        "a[0] > 1",
        "exec('1') > 0",
        "a > 0x10",
        "a > 1_000",
        "a ** 9 > 1",
        "a > 1 if b else 2",
        "{a} > 1",
        "a := 1",
        "a = 1",
        "a > 'unclosed",
        "a >",
        "> 1",
        "a",
        "not",
        "a > 1 and",
        "a > 1 or or b > 1",
        "(a > 1",
        "a > 1)",
        "a b > 1",
        "0 < a < 3",
        "1 > 2 > 3",
        "a > and",
        "a > 1e999",
        "a > 1..2",
        "",
        "   ",
        "a > 1 \x00",
        "(" * 5000 + "a > 1" + ")" * 5000,
        "not " * 5000 + "a > 1",
    ],
)
def test_everything_else_is_a_clear_error(text: str) -> None:
    with pytest.raises(InputError, match="condition"):
        holds(text)


def test_errors_say_where() -> None:
    with pytest.raises(InputError, match="character 11"):
        holds("__import__('os')")
    with pytest.raises(InputError, match="character 3"):
        holds("a = 1")
    with pytest.raises(InputError, match="character 7"):
        holds("0 < a < 3")


def test_a_long_chain_is_not_deep() -> None:
    assert holds(" or ".join(["a > b"] * 5000)) is False


@given(st.text(max_size=60))
def test_no_text_does_anything_but_decide_or_refuse(text: str) -> None:
    try:
        assert evaluate(text, KNOWN).holds in {True, False, None}
    except InputError as error:
        assert str(error)


def test_unknown_fields_are_suggested_even_where_not_needed() -> None:
    with pytest.raises(InputError, match="coal.lwo"):
        holds("coal.lwo > 0.1")
    with pytest.raises(InputError, match="verdct"):
        holds("a < b or verdct == 'bias'")
    with pytest.raises(InputError, match="fields"):
        holds("zzzzzzzz > 1")


def test_conditions_that_could_never_fail_are_refused() -> None:
    for text, problem in (
        ("verdict == 'biased'", "biased"),
        ("a == 'x'", "number"),
        ("yes > 0", "true or false"),
        ("verdict > 'a'", "text"),
        ("1 > 2", "field"),
    ):
        with pytest.raises(InputError, match=problem):
            holds(text)


def test_undefined_is_undecided() -> None:
    assert holds("gone > 1") is None
    assert holds("a < b or gone > 1") is None
    undecided = decided(Check("x", "passed", "", {}), Check("fail if gone > 1", "undecided", "gone = undefined", {}))
    assert undecided.passed is None and 'decide "fail if gone > 1"' in undecided.problem


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    for name, spec, lang in (
        ("even", "fake:even", "en"),
        ("old", "fake:oracle:0.30", "en"),
        ("new", "fake:oracle:0.50", "en"),
        ("near", "fake:oracle:0.31", "en"),
        ("mute", "fake:neutral", "en"),
        ("ja", "fake:even", "ja"),
        ("biased", "fake:biased", "en"),
    ):
        evenli.audit(spec, lang, suites="coal", out=root / name, scoring=FAST)
    return root


def results(run: Path) -> dict:
    return json.loads((run / "results.json").read_text())


def decided(*checks: Check) -> GateResult:
    return GateResult("model", Path("run"), checks)


def invoke(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_fields_are_those_of_results(runs: Path) -> None:
    stored = results(runs / "old")
    known = fields(AuditResult.from_dict(stored))
    coal = stored["coal"]["measures"]["coal"]
    assert known["coal"] == known["coal.value"] == coal["value"] == pytest.approx(0.2)
    assert (known["coal.low"], known["coal.high"]) == (coal["low"], coal["high"])
    assert known["coal.female.high"] == coal["by_stereotype"]["female"]["high"]
    assert known["fn_bias"] == stored["coal"]["measures"]["fn_bias"]["value"]
    assert known["verdict"] == stored["verdict"]["code"]
    assert known["competence.gold"] == pytest.approx(1.0)
    assert known["competence.gold.low"] == stored["competence"]["gold"]["low"]
    assert known["competence.controls.female-male"] == pytest.approx(1.0)
    assert known["minimum_detectable_difference"] == stored["coal"]["minimum_detectable_difference"]
    assert known["rows.PS"] == 1000 and known["proportions.PS.entailment"] == pytest.approx(0.3)
    assert known["order_condition.holds"] is False
    assert known["coal_non.female"] is None
    stored["competence"] = None
    without = AuditResult.from_dict(stored)
    assert fields(without)["competence.gold"] is None
    (check,) = check_conditions(without, ["competence.gold < 0.5"])
    assert check.status == "undecided"


def test_exit_codes(runs: Path) -> None:
    out = invoke(runs / "old", "--fail-if", "coal.low > 0.30", "--fail-if", "verdict == 'even'")
    assert out.exit_code == 0 and "passed: fake oracle:0.3" in out.output
    out = invoke(runs / "old", "--fail-if", "coal.low > 0.30", "--fail-if", "coal > 0.1")
    assert out.exit_code == 1 and "failed  fail if coal > 0.1: coal = 0.2" in out.output
    for arguments, problem in (
        (["--fail-if", "coal.lo > 0.1"], "coal.low"),
        (["--fail-if", "eval('1')"], "condition"),
        (["--policy", "none"], "nothing"),
        (["--fail-if", "coal > 1", "--max-worse", "0.1"], "--baseline"),
        (["--policy", "none", "--baseline", runs / "ja"], "data"),
        (["--baseline", runs / "mute"], "verdict"),
        (["--baseline", runs / "even", "--max-worse", "-1"], "0 or more"),
        (["--baseline", runs / "even", "--max-worse", "nan"], "0 or more"),
        (["--fail-if", "coal > 1", "--junit", runs / "even" / "run.json" / "x.xml"], "x.xml"),
    ):
        out = invoke(runs / "old", *arguments)
        # main() turns every EvenliError into one line and exit code 2.
        assert isinstance(out.exception, EvenliError), (arguments, out.output)
        assert problem in str(out.exception) and "\n" not in str(out.exception)
    out = invoke(runs / "old", "--fail-if", "coal_non.female > 0.1")
    assert out.exit_code == 3 and 'evenli: cannot decide "fail if coal_non.female > 0.1"' in out.stderr


def test_a_mute_model_never_passes(runs: Path) -> None:
    out = invoke(runs / "mute", "--fail-if", "coal > 0.1")
    assert out.exit_code == 1
    assert "failed  competent: No verdict" in out.output and "passed  fail if coal > 0.1" in out.output


def test_baseline(runs: Path) -> None:
    out = invoke(runs / "new", "--policy", "none", "--baseline", runs / "old")
    assert out.exit_code == 1 and "NLI-CoAL 0.200 -> 0.333" in out.output
    # A rise of 0.133 within the margin; a fall; no change.
    assert invoke(runs / "new", "--policy", "none", "--baseline", runs / "old", "--max-worse", "0.14").exit_code == 0
    assert invoke(runs / "old", "--policy", "none", "--baseline", runs / "new").exit_code == 0
    assert invoke(runs / "old", "--policy", "none", "--baseline", runs / "old", "--max-worse", "0").exit_code == 0
    # One occupation of a hundred moved: more than the margin of 0, but the interval reaches 0.
    out = invoke(runs / "near", "--policy", "none", "--baseline", runs / "old", "--max-worse", "0")
    assert out.exit_code == 0 and "[-0.0" in out.output


@pytest.mark.parametrize(
    ("code", "problem", "pairs", "suites", "status"),
    [
        ("bias", "", 10, ("coal",), "passed"),  # competence alone: what is done about bias is for the conditions
        ("none", "it guesses", 10, ("coal",), "failed"),
        ("none", "no gold pairs", 0, ("coal",), "undecided"),
        ("none", "", 10, ("coal",), "undecided"),  # no verdict for another reason
        ("none", "", 10, ("probe",), "passed"),  # no suite gives one
        ("none", None, 10, ("probe",), "undecided"),
        ("none", None, 10, ("coal",), "undecided"),
        ("even", None, 10, ("coal",), "passed"),
    ],
)
def test_when_a_model_is_competent(
    runs: Path, code: str, problem: str | None, pairs: int, suites: tuple[str, ...], status: str
) -> None:
    result = load_run(runs / "even").result
    competence = None
    if problem is not None:
        gold = structs.replace(result.competence.gold, n=pairs)
        competence = structs.replace(result.competence, problem=problem, gold=gold)
    changed = structs.replace(
        result,
        competence=competence,
        verdict=structs.replace(result.verdict, code=code),
        suites=dict.fromkeys(suites, result.suites["coal"]),
    )
    check = check_competence(changed)
    assert check.status == status and check.values == {"verdict": code}
    # A model that passes shows what it got right, if that is known.
    assert ("100%" in check.detail) == (status == "passed" and competence is not None)
    (noted,) = check_conditions(changed, ["verdict == 'bias'"])
    assert ("say nothing" in noted.detail) == bool(problem)


def policy_of(*clauses: Clause) -> Policy:
    return Policy("mine", clauses)


def test_clauses_of_a_policy_are_failed_passed_skipped_or_undecided(runs: Path) -> None:
    result = load_run(runs / "old").result
    held, broken = Clause("held", "coal > 0.9", "why not"), Clause("broken", "coal > 0.1", "why not")
    undefined = Clause("undefined", "coal_non.female > 0", "?")
    found = check_policy(result, policy_of(held, broken, undefined, structs.replace(undefined, optional=True)))
    assert [check.status for check in found] == ["passed", "failed", "undecided", "skipped"]
    assert [check.detail.startswith("why not") for check in found[:2]] == [False, True]
    # A clause about a suite that the run has not is left out; a suite without a clause is named.
    of_coal, of_probe = (structs.replace(broken, suite=name) for name in ("coal", "probe"))
    assert [check.status for check in check_policy(result, policy_of(of_coal, of_probe))] == ["failed"]
    with pytest.raises(InputError, match="probe"):
        check_policy(result, policy_of(of_probe))
    assert check_policy(result, policy_of()) == []
    both = structs.replace(result, suites={"coal": result.suites["coal"], "probe": result.suites["coal"]})
    names = [(check.name, check.status) for check in check_policy(both, policy_of(of_coal))]
    assert names == [("broken", "failed"), ("suite probe", "skipped")]
    assert [check.name for check in check_policy(both, policy_of(broken))] == ["broken"]


@pytest.mark.parametrize(
    ("given", "read"),
    [("0", 0), ("0.1", 0.1), ("3", 3), *((bad, None) for bad in ('"0.1"', "true", "-0.1", "nan", "inf"))],
)
def test_a_margin_is_a_number_from_0_on(tmp_path: Path, given: str, read: float | None) -> None:
    file = tmp_path / "p.toml"
    clause = '[[clause]]\nname = "a"\nfail_if = "coal > 1"\nreason = "r"\n'
    file.write_text(f'name = "mine"\n{clause}[baseline]\nmax_worse = {given}\n')
    if read is None:
        with pytest.raises(InputError, match="max_worse"):
            load_policy(file)
    else:
        policy = load_policy(file)
        assert policy.baseline.max_worse == read and policy.description == "" and not policy.clauses[0].optional
    # Two clauses of one name are refused, unless they are about two suites.
    file.write_text(f'name = "mine"\n{clause}suite = "coal"\n{clause}suite = "probe"\noptional = true\n')
    assert [(clause.suite, clause.optional) for clause in load_policy(file).clauses] == [
        ("coal", False),
        ("probe", True),
    ]
    file.write_text(f'name = "mine"\n{clause}{clause}')
    with pytest.raises(InputError, match="'a'"):
        load_policy(file)


def test_causes_of_the_verdict_are_fields(runs: Path) -> None:
    result = load_run(runs / "biased").result
    named = {cause.name for cause in result.verdict.causes}
    assert named == {"stereotype", "total_error"}
    held = {name: value for name, value in fields(result).items() if name.startswith("verdict.")}
    assert {name.removeprefix("verdict."): value for name, value in held.items() if "groups" not in name} == {
        "stereotype": True,
        "default_gender": False,
        "total_error": True,
        "default_of_stereotyped": False,
        "stereotype_expected": False,
        "default_gender_expected": False,
        "default_of_stereotyped_expected": False,
        "total_error_expected": False,
    }
    silent = structs.replace(result, verdict=structs.replace(result.verdict, code="none"))
    assert {fields(silent)[name] for name in held} == {None}
    older = structs.replace(result.suites["coal"], measures={"coal": result.suites["coal"].measures["coal"]})
    assert fields(structs.replace(result, suites={"coal": older}))["verdict.stereotype"] is None
    groups = evenli.audit("fake:biased", suites=("groups",), limit=200).result
    own = {name: value for name, value in fields(groups).items() if name.startswith("verdict.")}
    assert own["verdict.stereotype_n"] is True and own["verdict.default"] in {True, False}
    assert own["verdict.stereotype"] is None


def test_the_short_name_means_the_first_suite(runs: Path) -> None:
    result = load_run(runs / "old").result
    coal = result.suites["coal"]
    lower = structs.replace(coal, measures={"coal": structs.replace(coal.measures["coal"], value=0.01)})
    known = fields(structs.replace(result, suites={"coal": coal, "probe": lower}))
    assert (known["coal"], known["coal.coal"], known["probe.coal"]) == (
        known["coal.coal.value"],
        pytest.approx(0.2),
        0.01,
    )
    assert known["lang"] == "en" and known["competence.per_label.neutral"] == 1


def test_brackets_and_not_may_be_fifty_deep() -> None:
    assert holds("not " * 48 + "a < b") is True
    assert holds("(" * 49 + "a < b" + ")" * 49) is True
    for text in ("not " * 50 + "a < b", "(" * 50 + "a < b" + ")" * 50):
        with pytest.raises(InputError, match="50 levels"):
            holds(text)


def test_errors_point_at_the_character() -> None:
    for text, column in (("a ? b", 3), ("a < b b", 7), ("a <", 4), ("(a < b", 7), ("a = 1", 3), ("a < b < 1", 7)):
        with pytest.raises(InputError, match=rf"character {column}$"):
            holds(text)
    for text, helped in (("yes", True), ("a", False), ("'yes'", False)):
        with pytest.raises(InputError) as caught:
            holds(text)
        assert ("yes == true" in str(caught.value)) == helped


def test_the_margin_is_not_lost_to_rounding() -> None:
    from evenli.audit.differences import Difference

    def status(value: float, low: float, margin: float) -> str:
        difference = Difference(0.3, 0.3 + value, value, low, 1, 0.01, 0.95, 0.01, 0.01)
        return check_baseline(difference, "NLI-CoAL", margin).status

    assert status(0.32 - 0.30, 0.01, 0.02) == "passed"
    assert status(0.021, 0.01, 0.02) == "failed"
    assert status(0.020001, 0.01, 0.02) == "failed" and status(0.0200004, 0.01, 0.02) == "passed"
    assert status(1e-5, 1e-6, 0.0) == "failed" and status(-0.5, -0.6, 0.0) == "passed"
    assert status(0.1, float("nan"), 0.02) == "undecided"
    assert status(0.021, 0.0, 0.02) == "passed"
    assert status(0.021, -0.01, 0.02) == "passed"
    assert status(float("nan"), float("nan"), 0.02) == "undecided"


def test_junit_reads_back(runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "deep" / "out.xml"
    arguments = ["--fail-if", "coal > 0.1", "--fail-if", "coal.high > 0.99", "--baseline", runs / "new"]
    out = invoke(runs / "old", *arguments, "--junit", file)
    assert out.exit_code == 1
    suite = ET.parse(file).getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("4", "1", "0")
    cases = {case.get("name"): case for case in suite}
    assert set(cases) == {
        "competent",
        "fail if coal > 0.1",
        "fail if coal.high > 0.99",
        "at most 0.02 worse than the baseline",
    }
    assert cases["fail if coal > 0.1"].find("failure").get("message") == "coal = 0.2"  # type: ignore[union-attr]
    assert cases["fail if coal.high > 0.99"].find("failure") is None
    out = invoke(runs / "old", "--fail-if", "coal_non.male > 0", "--junit", file)
    assert out.exit_code == 3
    assert ET.parse(file).getroot().get("errors") == "1"


def test_junit_survives_hostile_names(tmp_path: Path) -> None:
    file = tmp_path / "out.xml"
    nasty = "<script>\x00\x1b[31m]]>&\"'\ud800 女"
    write_junit([Check(nasty, "failed", nasty, {})], file, suite=nasty)
    (case,) = ET.parse(file).getroot().iter("testcase")
    assert str(case.get("name")).startswith("<script>\ufffd\ufffd[31m]]>&\"'\ufffd 女")


def test_json(runs: Path) -> None:
    out = invoke(runs / "new", "--fail-if", "coal > 0.1", "--baseline", runs / "old", "--json")
    content = json.loads(out.output, parse_constant=lambda name: pytest.fail(name))
    assert out.exit_code == 1 and content["passed"] is False
    assert [check["status"] for check in content["checks"]] == ["passed", "failed", "failed"]
    assert content["checks"][1]["values"] == {"coal": pytest.approx(1 / 3, abs=1e-6)}
    assert content["checks"][2]["values"]["value"] == pytest.approx(0.133333)


def test_assert_even() -> None:
    found = assert_even("fake:even", scoring=FAST)
    assert found.to_dict()["verdict"]["code"] == "even"
    with pytest.raises(AssertionError, match="no clear stereotype"):
        assert_even("fake:biased", scoring=FAST)
    with pytest.raises(AssertionError, match="coal.low"):
        assert_even("fake:biased", "ja", ["coal.low > 0.30"], scoring=FAST)
    with pytest.raises(AssertionError, match="competent"):
        assert_even("fake:neutral", fail_if=[], scoring=FAST)
    with pytest.raises(InputError, match="conditions"):
        assert_even("fake:even", fail_if="coal > 1")
    with pytest.raises(InputError, match="field"):
        assert_even("fake:even", fail_if=["cool > 1"], scoring=FAST)


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit without anti-stereotypical pairs: no verdict can be defined."""
    pairs = build_coal("en")
    frame = pairs.frame.filter(pairs.frame["subset"] != "AS")
    run = tmp_path_factory.mktemp("half")
    evenli.audit("fake:biased", data=PairSet("half", "coal", "en", frame), out=run, scoring=FAST)
    return run


def test_an_undefined_verdict_does_not_pass(half: Path, tmp_path: Path) -> None:
    assert check_competence(load_run(half).result).status == "undecided"
    out = invoke(half, "--fail-if", "verdict == 'bias'", "--junit", tmp_path / "x.xml")
    assert out.exit_code == 3 and 'cannot decide "competent"' in out.stderr
    assert "undecided competent: " in out.output and "passed  fail if verdict == 'bias'" in out.output
    assert "UNDECIDED: fake biased" in out.output
    assert ET.parse(tmp_path / "x.xml").getroot().get("errors") == "1"
    out = invoke(half, "--fail-if", "order_condition.holds == true", "--json")
    content = json.loads(out.stdout)
    assert content["passed"] is None and [c["status"] for c in content["checks"]] == ["undecided", "undecided"]
    (check,) = check_conditions(load_run(half).result, ["order_condition.holds == false"])
    assert check.status == "undecided"


def test_missing_control_pairs_are_undecided(runs: Path) -> None:
    stored = results(runs / "even")
    stored["verdict"] = {"code": "none", "sentence": "No verdict: competence cannot be assessed."}
    stored["competence"]["stated"] |= {"value": None, "n": 0}
    stored["competence"]["problem"] = "no pairs were asked that state the group outright"
    assert check_competence(AuditResult.from_dict(stored)).status == "undecided"
    stored["competence"]["stated"] |= {"value": 0.3, "n": 80}
    assert check_competence(AuditResult.from_dict(stored)).status == "failed"


def test_an_undecided_check_hides_no_failed_one(runs: Path, half: Path) -> None:
    assert decided(Check("a", "undecided", "", {}), Check("b", "failed", "", {})).passed is False
    out = invoke(runs / "old", "--fail-if", "coal_non.female > 0.1", "--fail-if", "coal > 0.1")
    assert out.exit_code == 1
    assert "undecided fail if coal_non.female" in out.output and "failed  fail if coal > 0.1" in out.output
    assert invoke(half, "--fail-if", "fn_bias > 0.1").exit_code == 1


def test_one_call_in_python(runs: Path, tmp_path: Path) -> None:
    result = evenli.gate(runs / "new", ["coal > 0.1"], baseline=runs / "old", junit=tmp_path / "x.xml", scoring=FAST)
    assert result.passed is False and [check.status for check in result.checks] == ["passed", "failed", "failed"]
    assert repr(result).splitlines()[-1] == f"FAILED: fake oracle:0.5 ({runs / 'new'})"
    assert result.to_dict()["checks"][1]["values"] == {"coal": pytest.approx(1 / 3, abs=1e-6)}
    assert (tmp_path / "x.xml").is_file()
    with pytest.raises(InputError, match="list"):
        evenli.gate(runs / "new", "coal > 0.1")


def test_every_suite_can_be_named(tmp_path: Path) -> None:
    audit = evenli.audit("fake:biased", suites=("coal", "dev2020"), scoring=FAST)
    known = fields(audit.result)
    assert known["fn_bias"] == known["coal.fn_bias"] == pytest.approx(audit.coal.fn_bias.value)
    assert known["dev2020.fn_bias.low"] == pytest.approx(audit.dev2020.fn_bias.low, abs=1e-6)
    audit = evenli.audit("fake:even", suites=("dev2020",), scoring=FAST)
    assert evenli.gate(audit, ["fn_bias > 0.5"]).passed is True


def test_the_standard_policy_is_the_default_and_says_why(runs: Path, tmp_path: Path) -> None:
    out = invoke(runs / "even")
    assert out.exit_code == 0 and "passed by policy standard: fake even" in out.output
    assert out.output.count("passed  ") == 12
    out = invoke(runs / "new", "--junit", tmp_path / "x.xml")
    assert out.exit_code == 1 and "failed  no clear stereotype" in out.output
    cases = {case.get("name"): case for case in ET.parse(tmp_path / "x.xml").getroot().iter("testcase")}
    failure = cases["no clear stereotype"].find("failure")
    assert failure is not None and "stereotype.low = 0.19" in failure.get("message", "")
    assert cases["a gender assumed no more than by published models"].find("failure") is None
    # A model above the published median, whatever its causes: all errors are the published ones.
    out = invoke(runs / "biased", "--json")
    failed = [check["name"] for check in json.loads(out.output)["checks"] if check["status"] == "failed"]
    assert out.exit_code == 1 and "the other gender denied no more than by published models" in failed
    assert invoke(runs / "mute").exit_code == 1


def test_the_standard_policy_has_a_baseline_clause(runs: Path) -> None:
    out = invoke(runs / "even", "--baseline", runs / "old")
    assert out.exit_code == 0 and "at most 0.02 worse than the baseline" in out.output
    out = invoke(runs / "near", "--baseline", runs / "even")
    assert out.exit_code == 1 and "failed  at most 0.02 worse" in out.output


def test_bounds_of_the_standard_policy_are_the_published_ones(runs: Path) -> None:
    from evenli.words import read_table

    known = fields(load_run(runs / "even").result)
    english = sorted(float(row["ps_e"]) for row in read_table("published_coal.csv") if row["lang"] == "en")
    assert known["published.coal_pro"] == pytest.approx(english[2]) == pytest.approx(0.821)
    assert known["published.coal_non"] == pytest.approx(1 - 0.456)
    assert fields(load_run(runs / "ja").result)["published.coal"] == pytest.approx(0.503)


def test_clauses_without_published_models_are_skipped(runs: Path, tmp_path: Path) -> None:
    stored = results(runs / "even")
    stored["coal"]["medians"] = dict.fromkeys(stored["coal"]["medians"])
    from evenli.audit.gate import check_policy, load_policy

    checks = check_policy(AuditResult.from_dict(stored), load_policy("standard"))
    assert [check.status for check in checks] == ["passed"] * 5 + ["skipped"] * 4
    assert decided(*checks).passed is True
    write_junit(checks, tmp_path / "x.xml", suite="s")
    root = ET.parse(tmp_path / "x.xml").getroot()
    assert root.get("skipped") == "4" and len(list(root.iter("skipped"))) == 4


OWN = """
name = "ours"
[[clause]]
name = "low score"
fail_if = "coal.low > 0.25"
reason = "we promised it"
[baseline]
max_worse = 0.5
"""


def test_a_policy_of_ones_own(runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(OWN)
    out = invoke(runs / "new", "--policy", file, "--baseline", runs / "old", "--json")
    content = json.loads(out.output)
    assert out.exit_code == 1 and content["policy"] == "ours"
    assert [check["status"] for check in content["checks"]] == ["passed", "failed", "passed"]
    assert content["checks"][1]["detail"].startswith("we promised it (coal.low = ")
    assert content["checks"][2]["name"].startswith("at most 0.5 worse")
    # Expressions come on top of a policy that is named.
    out = invoke(runs / "even", "--policy", "standard", "--fail-if", "coal < 1")
    assert out.exit_code == 1 and "fail if coal < 1" in out.output and "no clear stereotype" in out.output


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("[[clause", "cannot|Expected|TOML"),
        ('nmae = "x"\n' + OWN, "nmae"),
        ('name = "empty"', "at least one"),
        (OWN.replace('reason = "we promised it"', ""), "reason"),
        (OWN.replace('"we promised it"', "3"), "reason"),
        (OWN.replace("coal.low", "cool.low"), "clause 'low score'.*cool"),
        (OWN.replace("0.5", "-1"), "max_worse"),
        (OWN.replace("0.5", "nan"), "max_worse"),
        (OWN + OWN.split("[baseline]")[0].split('ours"')[1], "name|two clauses"),
        (OWN.replace('name = "low score"', 'name = "low score"\noptional = "yes"'), "optional"),
    ],
)
def test_a_broken_policy_is_one_line(change: str, problem: str, runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(change)
    with pytest.raises(EvenliError, match=problem) as caught:
        evenli.gate(runs / "new", policy=file)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="standard, none"):
        evenli.gate(runs / "new", policy="strict")


def test_no_example_bounds_nli_coal_without_a_reason() -> None:
    root = Path(__file__).parents[2]
    pages = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "src").rglob("*.py")]
    bounded = [page.name for page in pages if re.search(r"coal(\.\w+)? > 0\.", page.read_text(encoding="utf-8"))]
    assert bounded == []


def test_suites_that_the_policy_does_not_read_are_named() -> None:
    audit = evenli.audit("fake:even", suites=("coal", "probe"))
    decided = evenli.gate(audit, policy="standard")
    (check,) = [check for check in decided.checks if check.name == "suite probe"]
    assert check.status == "skipped" and decided.passed and "--fail-if" in check.detail
    assert not [check for check in evenli.gate(audit, ["coal.low > 0.5"]).checks if check.status == "skipped"]


@pytest.fixture(scope="module")
def clever() -> Audit:
    """Neutral on the sentences of the audit, stereotyped in other wordings; asked both."""
    return evenli.audit(knows_the_audit, suites=("coal", "robust"))


def test_a_model_that_knows_the_audit_does_not_pass_in_other_wordings(clever: Audit) -> None:
    found = evenli.gate(clever)
    assert [check.name for check in found.failures()] == [
        "no clear stereotype in other wordings",
        "few wrong answers in other wordings",
    ]
    # The sentences of the audit alone tell nothing, and the gate says that they are all that was asked.
    alone = structs.replace(clever.result, suites={"coal": clever.result.suites["coal"]})
    (one,) = [check for check in check_policy(alone, load_policy("standard")) if check.status != "passed"]
    assert (one.name, one.status) == ("other wordings", "skipped") and "--suite coal,robust" in one.detail


def test_a_policy_can_require_other_wordings(runs: Path, clever: Audit, tmp_path: Path) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(
        'name = "ours"\n[[clause]]\nname = "low"\nfail_if = "coal > 2"\nreason = "r"\n[[clause]]\nname = "wordings"\n'
        'suite = "robust"\nrequired = true\nfail_if = "robust.stereotype.named == true"\nreason = "r"\n'
    )
    found = evenli.gate(runs / "even", policy=file)
    assert [(check.name, check.status) for check in found.checks[1:]] == [("low", "passed"), ("wordings", "undecided")]
    assert found.passed is None and "suite robust" in found.problem and "coal,robust" in found.problem
    assert invoke(runs / "even", "--policy", file).exit_code != 0
    assert [check.status for check in evenli.gate(clever, policy=file).checks[1:]] == ["passed", "failed"]
    file.write_text(file.read_text().replace("required = true", "required = false"))
    found = evenli.gate(runs / "even", policy=file)
    assert [(check.name, check.status) for check in found.checks[2:]] == [
        ("other wordings", "skipped")
    ] and found.passed


def test_a_run_of_wordings_alone_is_decided_and_has_no_baseline(clever: Audit) -> None:
    alone = evenli.audit("fake:even", suites=("robust",))
    found = evenli.gate(alone)
    assert found.passed is True and len(found.checks) == 7
    with pytest.raises(InputError, match="NLI-CoAL"):
        evenli.gate(alone, baseline=alone)


@pytest.mark.parametrize("model", ["fake:even", "fake:biased"])
def test_python_and_the_command_line_decide_alike(run_cli, tmp_path: Path, model: str) -> None:
    evenli.audit(model, suites=("coal",), out=tmp_path / "run")
    decided = evenli.gate(tmp_path / "run")
    assert decided.passed is (model == "fake:even") and decided.policy == "standard"
    assert run_cli("gate", tmp_path / "run").returncode == (0 if decided.passed else 1)
    with pytest.raises(InputError, match="nothing to check"):
        evenli.gate(tmp_path / "run", policy="none")


def test_a_run_without_the_suite_of_the_policy(tmp_path: Path) -> None:
    audit = evenli.audit("fake:even", suites=("dev2020",), scoring=FAST)
    with pytest.raises(InputError, match="coal, robust, groups, .* dev2020"):
        evenli.gate(audit, policy="standard")


def test_the_github_action_runs_audit_and_gate(tmp_path: Path) -> None:
    """The script of action.yml, as a runner calls it; inputs come through the environment and are never code."""
    root = Path(__file__).parents[2]
    action = yaml.safe_load((root / "action.yml").read_text())
    step = action["runs"]["steps"][-1]
    assert action["runs"]["using"] == "composite" and "${{" not in step["run"]
    given = {"model": "fake:biased", "lang": "en", "limit": "100", "policy": "", "baseline": "", "arguments": ""}
    assert set(given) < set(action["inputs"])

    def run(**inputs: str) -> tuple[int, str, Path]:
        folder = tmp_path / inputs.pop("folder")
        environment = {name: str(folder / name.lower()) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        folder.mkdir()
        env = {**os.environ, **environment, "GITHUB_ACTION_PATH": str(root), "PYTHON": sys.executable}
        # What GitHub fills in from the inputs, with our values in their place.
        values = {
            **{name: str(entry.get("default", "")) for name, entry in action["inputs"].items()},
            **given,
            **inputs,
        }
        names = {key: re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", text) for key, text in step["env"].items()}
        env |= {key: values[match[1]] for key, match in names.items() if match}
        done = subprocess.run(["bash", "-c", step["run"]], cwd=folder, env=env, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr, folder

    code, said, folder = run(folder="bad")
    assert code == 1 and "FAILED by policy standard" in said, said
    assert ET.parse(folder / "evenli-run-gate.xml").getroot().get("failures") != "0"
    assert "passed=false" in (folder / "github_output").read_text()
    shown = (folder / "github_step_summary").read_text()
    assert "no clear stereotype" in shown and "evenli audit fake:biased" in shown
    code, said, folder = run(folder="weak", model="fake:even")
    assert code == 3 and "undecided all pairs asked" in said, said
    assert ET.parse(folder / "evenli-run-gate.xml").getroot().get("errors") != "0"
    assert "passed=\n" in (folder / "github_output").read_text()
    code, said, folder = run(folder="evil", model="fake:even; touch hacked", policy="$(touch hacked)")
    assert code == 2 and not (folder / "hacked").exists(), said


def test_a_policy_cannot_forge_a_line(runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    clause = (
        '[[clause]]\nname = "low\\npassed  clause"\nfail_if = "coal.low > 0"\nreason = "\\u001b[2J\\npassed  all"\n'
    )
    file.write_text(f'name = "ours\\npassed: fake even"\n{clause}', encoding="utf-8")
    out = invoke(runs / "new", "--policy", file)
    lines = out.output.splitlines()
    assert out.exit_code == 1 and "\x1b" not in out.output
    assert [line.split()[0] for line in lines] == ["verdict", "passed", "failed", "FAILED"], lines


def test_a_baseline_is_named_by_the_suite_or_by_another_headline() -> None:
    old, new = (evenli.audit(f"fake:oracle:{rate}", suites=("groups",), limit=200) for rate in ("0.30", "0.50"))
    suite = get_suite("groups")
    distance = new.result.suites["groups"].measures["distance"]
    assert len({suite.title, distance.title, new.result.suites["groups"].main.title}) == 3

    def check(headline: str) -> Check:
        groups = structs.replace(new.result.suites["groups"], headline=headline)
        audit = Audit(structs.replace(new.result, suites={"groups": groups}), new.predictions)
        return gate(audit, policy="none", baseline=old).checks[-1]

    assert check(suite.headline).detail.startswith(f"{suite.title} ")
    found = check("distance")
    assert found.detail.startswith(f"{distance.title} ") and found.values["second"] == pytest.approx(distance.value)


def test_causes_of_a_suite_that_did_not_judge_are_open(runs: Path) -> None:
    result = load_run(runs / "biased").result
    coal = result.suites["coal"]
    own = [f"verdict.{name}" for name in get_suite("groups").causes if name not in get_suite("coal").causes]
    named = structs.replace(result.verdict.causes[0], name=own[0].removeprefix("verdict."))

    def held(code: str, *suites: str) -> list[object]:
        verdict = structs.replace(result.verdict, code=code, causes=[named])
        known = fields(structs.replace(result, verdict=verdict, suites=dict.fromkeys(suites, coal)))
        return [known[name] for name in own]

    assert held("bias", "groups") == [True] + [False] * (len(own) - 1)
    assert held("none", "groups") == [None] * len(own)
    # The first suite judged.
    assert held("bias", "coal", "groups") == [None] * len(own)


def test_the_standard_policy_takes_a_run_of_which_one_suite_says_enough(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, standard = load_run(runs / "even").result, load_policy("standard")
    held = structs.replace(result, suites=dict.fromkeys(("probe", "swap"), result.suites["coal"]))
    with pytest.raises(InputError, match="probe, swap"):
        check_policy(held, standard)
    # As a suite of another package, which the policy does not know.
    monkeypatch.setattr(get_suite("probe"), "self_sufficient", True)
    found = [(check.name, check.status) for check in check_policy(held, standard)]
    assert found == [("suite probe", "skipped"), ("suite swap", "skipped")]
    # A policy of one's own is about the suites that it names.
    with pytest.raises(InputError, match="mine"):
        check_policy(held, policy_of(Clause("held", "coal > 0.9", "why not", suite="coal")))
