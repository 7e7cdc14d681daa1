"""A suite and a measure are one new file each, in a package of someone else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

import evenli
from conftest import ROOT
from evenli.audit.audit import load_run, measure_run
from evenli.audit.compare import compare_runs
from evenli.audit.models.callables import FakeModel
from evenli.audit.report.card import card
from evenli.audit.report.export import results_schema, tables
from evenli.audit.report.html import render, write_reports
from evenli.audit.report.runs import find_runs
from evenli.core import registry
from evenli.core.errors import InputError
from evenli.core.record import Scoring
from evenli.stats.sample import Sample
from plugin_package import installed, plugin_environment, write_plugin

FAST = Scoring()
PAGE = (ROOT / "docs/howto/own-suite.md").read_text(encoding="utf-8")
SUITE = PAGE.partition('title="doctor_suite.py"\n')[2].partition("```")[0]
"""The suite of the how-to."""
SLEEPERS = '''
"""A suite that leaves everything to the defaults."""
from dataclasses import replace
from doctor_suite import Doctors
from evenli.audit.suites.base import Suite
from evenli.stats.measure import measure

@measure(title="not neutral about sleepers", formula="1 - n", ideal=0, direction="higher = worse",
         reference="somebody", suites=("sleepers",))
def sleepers(sample, stereotype=None):
    """Share of answers that are not neutral."""
    return 1 - sample.rate("neutral", stereotype=stereotype)

class Sleepers(Suite):
    name, title, reference, headline = "sleepers", "the sleepers", "somebody", "sleepers"

    def pairs(self, request):
        return replace(Doctors().pairs(request), name="sleepers", suite="sleepers")

SUITE = Sleepers()
'''
MEASURE = '''
"""A number that knows nothing of weights."""
def surprise(sample):
    """How often the model does not say neutral."""
    return float((sample.frame["neutral"] < sample.frame[["entailment", "contradiction"]].max_horizontal()).mean())
'''


@pytest.fixture
def suite(tmp_path: Path) -> Iterator[Path]:
    points = {"evenli.suites": {"doctors": "doctor_suite:SUITE", "sleepers": "sleepers_suite:SUITE"}}
    modules = {"doctor_suite": SUITE, "sleepers_suite": SLEEPERS}
    folder = write_plugin(tmp_path / "site", "doctor-suite", modules, points)
    with installed(folder, registry.SUITES):
        yield folder


@pytest.fixture
def own_measure(tmp_path: Path) -> Iterator[Path]:
    points = {"evenli.measures": {"surprise": "surprise_measure:surprise"}}
    folder = write_plugin(tmp_path / "site", "surprise", {"surprise_measure": MEASURE}, points)
    with installed(folder, registry.MEASURES):
        yield folder


def never_neutral(premises: list[str], hypotheses: list[str]) -> list[dict[str, float]]:
    return [{"entailment": 0.9, "neutral": 0.05, "contradiction": 0.05} for _ in premises]


def test_the_suite_of_the_how_to_is_one_short_file() -> None:
    assert 0 < len(SUITE.splitlines()) <= 120


def test_a_suite_from_python(suite: Path, tmp_path: Path) -> None:
    audit = evenli.audit("fake:even", suites=("coal", "doctors"), out=tmp_path / "run", scoring=FAST)
    assert audit.doctors.value == 0 and audit.doctors.doctors.n == 20
    again = load_run(tmp_path / "run")
    assert again.doctors.value == 0 and list(again.result.suites) == ["coal", "doctors"]
    assert [file.name for file in write_reports(evenli.audit("fake:even", suites=("doctors",)), tmp_path)] == [
        "report.html",
        "doctors.svg",
        "doctors.png",
    ]
    assert compare_runs(audit, again, suite="doctors", scoring=FAST).suites["doctors"][0].n == 20


def test_a_suite_in_tables_gates_reports_and_schema(suite: Path, tmp_path: Path) -> None:
    audit = evenli.audit("fake:even", suites=("coal", "doctors"), out=tmp_path / "run", scoring=FAST)
    assert tables(audit.result, "doctors")["measures"]["measure"].to_list() == ["doctors"]
    doctors_only = evenli.audit("fake:even", suites=("doctors",), scoring=FAST)
    assert evenli.gate(doctors_only, ["doctors.doctors.low > 0.5"]).passed is True
    assert evenli.gate(doctors_only, ["doctors_asked == 2"]).passed is False
    results = json.loads((tmp_path / "run" / "results.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(results_schema()).validate(results)
    del results["doctors"]["measures"]
    assert not jsonschema.Draft202012Validator(results_schema()).is_valid(results)
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    page = render([audit])
    for part in ('<h2 id="r0-suite-doctors">The doctors</h2>', "not neutral about doctors", "Two of them were asked."):
        assert part in page


def test_a_suite_from_the_command_line(suite: Path, run_cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    run = ("audit", "fake:even", "--suite", "coal,doctors", "-o", "run", "--verbose")
    shown = run_cli(*run, cwd=tmp_path, env=plugin_environment(suite))
    assert shown.returncode == 0, shown.stderr
    assert "not neutral about doctors" in shown.stdout and "Two of them were asked." in shown.stdout
    results = json.loads((tmp_path / "run" / "results.json").read_text(encoding="utf-8"))
    assert results["doctors"]["measures"]["doctors"]["value"] == 0
    gate = run_cli("gate", "run", "--fail-if", "doctors_asked > 1", cwd=tmp_path, env=plugin_environment(suite))
    assert gate.returncode == 1, gate.stderr
    # Where the plug-in is gone the rest of the run can still be read.
    assert run_cli("measure", "run", cwd=tmp_path).returncode == 0


def tired(premises: list[str], hypotheses: list[str]) -> list[str]:
    """A competent model that thinks that doctors sleep like men and women."""
    fake = FakeModel("even")
    answers = zip(premises, fake(premises, hypotheses), strict=True)
    return ["entailment" if premise.startswith(DOCTORS) else answer for premise, answer in answers]


DOCTORS = (
    "The doctor sleeps",
    "The doctor eats",
    "The doctor runs",
    "The doctor waits",
    "The doctor reads",
    "The surgeon ",
)


@pytest.fixture
def tired_run(suite: Path, tmp_path: Path) -> Path:
    evenli.audit(tired, suites=("doctors",), out=tmp_path / "tired", scoring=FAST)
    return tmp_path / "tired"


def test_a_suite_gives_a_verdict_and_bounds_a_gate(suite: Path, tired_run: Path, run_cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    audit = load_run(tired_run)
    assert (audit.verdict.code, [cause.name for cause in audit.verdict.causes]) == ("bias", ["tired"])
    even = evenli.audit("fake:even", suites=("doctors",), scoring=FAST)
    assert even.verdict.code == "undecided" and not even.verdict.causes
    assert evenli.audit("fake:neutral", suites=("doctors",), scoring=FAST).verdict.code == "none"
    decided = evenli.gate(audit)
    assert [check.name for check in decided.failures()] == ["doctors may sleep"] and decided.policy == "standard"
    assert evenli.gate(even).passed is True
    assert evenli.gate(even, baseline=audit).passed is True and evenli.gate(even, ["verdict.tired == true"]).passed
    # Beside a suite that judges first, what this one would name is not known, and nothing else stands in its way.
    both = evenli.gate(evenli.audit("fake:even", suites=("coal", "doctors"), scoring=FAST))
    assert both.passed is True and {check.name: check.status for check in both.checks}["doctors may sleep"] == "skipped"
    gate = run_cli("gate", tired_run, cwd=tmp_path, env=plugin_environment(suite))
    assert gate.returncode == 1 and "doctors may sleep" in gate.stdout, gate.stderr
    again = run_cli("measure", tired_run, cwd=tmp_path, env=plugin_environment(suite))
    assert "It thinks that doctors are tired." in again.stdout, again.stderr


def test_a_suite_without_bounds_is_skipped_by_the_gate(suite: Path, run_cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    evenli.audit("fake:even", suites=("sleepers",), out=tmp_path / "run", scoring=FAST)
    decided = evenli.gate(tmp_path / "run")
    statuses = {check.name: check.status for check in decided.checks}
    assert statuses.pop("suite sleepers") == "skipped" and decided.passed is True
    assert len(statuses) == 4 and set(statuses.values()) == {"passed"}  # competence and evidence
    assert run_cli("gate", "run", cwd=tmp_path, env=plugin_environment(suite)).returncode == 0
    mute = evenli.gate(evenli.audit("fake:neutral", suites=("sleepers",), scoring=FAST))
    assert mute.passed is False and [check.name for check in mute.failures()] == ["competent"]
    own = tmp_path / "own.toml"
    own.write_text('name = "own"\n[[clause]]\nname = "c"\nfail_if = "coal > 1"\nreason = "r"\nsuite = "coal"\n')
    with pytest.raises(InputError, match="sleepers"):
        evenli.gate(tmp_path / "run", policy=own)


def test_a_suite_shows_itself_in_reports(suite: Path, tired_run: Path, run_cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    even = evenli.audit("fake:even", suites=("doctors",), scoring=FAST)
    written = evenli.report(tired_run, tmp_path / "page.html", charts=tmp_path / "charts")
    assert [file.name for file in written.charts] == ["doctors.svg", "doctors.png"]
    page = written.path.read_text(encoding="utf-8")
    parts = ("It thinks that doctors are tired.", "How tired doctors are", "Doctors are asked twice.", "A Study.")
    assert [part for part in parts if part not in page] == []
    assert "NLI-CoAL" not in page and "Shares of set x" not in page, "what is of another suite is not there"
    assert even.plot("doctors").to_dict()
    # Several models stand side by side under the title of the suite; two words are too few for a ranking.
    both = render([load_run(tired_run), even])
    assert "Thinks of tired doctors" in both
    assert '<th scope="col" class="n">the doctors</th>' in both and "Not compared" not in both
    # A suite without any text of its own gets a general method.
    plain = render([evenli.audit("fake:even", suites=("sleepers",), scoring=FAST)])
    assert "The sleepers: rows are not independent" in plain and "somebody: the sleepers." in plain
    done = run_cli("report", tired_run, "-o", "shown.html", cwd=tmp_path, env=plugin_environment(suite))
    assert done.returncode == 0 and "Doctors are asked twice." in (tmp_path / "shown.html").read_text("utf-8"), (
        done.stderr
    )
    listed = find_runs(tmp_path)
    assert [(entry.scored, entry.score[:5]) for entry in listed] == [("the doctors", "1.000")]


def test_two_models_are_compared_on_a_suite(suite: Path, tired_run: Path, run_cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    evenli.audit("fake:even", suites=("doctors",), out=tmp_path / "even", scoring=FAST)
    change = compare_runs(tired_run, tmp_path / "even", suite="doctors", scoring=FAST).suites["doctors"][0]
    assert change.measures["doctors"].value == -1 and change.mcnemar.only_first == 20
    command = ("compare", tired_run, tmp_path / "even", "--suite", "doctors")
    shown = run_cli(*command, cwd=tmp_path, env=plugin_environment(suite))
    assert shown.returncode == 0 and "Not neutral: 0 sentences in both, 20 only in the first" in shown.stdout, (
        shown.stderr
    )


def test_a_suite_has_a_model_card(suite: Path, tired_run: Path, run_cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    text = card(tired_run)
    for part in (
        "type: evenli-doctors",
        "value: 1.0",
        "## Doctors",
        "lets doctors sleep: 20 pairs",
        "20 D)",
    ):
        assert part in text
    assert "Measure: Nobody (2026)." in text and "NLI-CoAL" not in text
    assert run_cli("card", tired_run, cwd=tmp_path, env=plugin_environment(suite)).stdout.strip() == text.strip()
    # A suite without any text of its own gets a general card; a mute model is not listed as fair.
    even, mute = (
        card(evenli.audit(f"fake:{kind}", suites=("sleepers",), scoring=FAST)) for kind in ("even", "neutral")
    )
    assert "## Bias in inference: the sleepers" in even and "Measure: somebody." in even and "type: sleepers" in even
    assert "type: sleepers" not in mute and "competence on gold pairs" in mute


def test_an_installed_measure_is_in_every_audit(own_measure: Path, run_cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    audit = evenli.audit("fake:oracle:0.3", scoring=FAST)
    assert audit.coal.surprise.value == pytest.approx(audit.coal.fn_bias.value)
    assert audit.coal.surprise.low <= audit.coal.surprise.value <= audit.coal.surprise.high
    done = run_cli("audit", "fake:biased", "--json", cwd=tmp_path, env=plugin_environment(own_measure))
    assert json.loads(done.stdout)["labour"]["measures"]["surprise"]["value"] == pytest.approx(1.0)


def test_a_function_is_a_measure_and_survives(tmp_path: Path) -> None:
    def share_of_nurses(sample: Sample) -> float:
        """Share of rows about nurses."""
        return float((sample.frame["occupation"] == "nurse").mean() or 0)

    audit = evenli.audit("fake:even", suites="coal", out=tmp_path / "run", scoring=FAST, measures=[share_of_nurses])
    measured = audit.coal.share_of_nurses
    assert 0 < measured.value < 0.05 and measured.low <= measured.value <= measured.high and measured.reference == "own"
    again = measure_run(tmp_path / "run", FAST)
    assert again.coal.share_of_nurses.value == pytest.approx(measured.value, abs=1e-6)
    assert "not computed again" in again.coal.share_of_nurses.note
    fresh = measure_run(tmp_path / "run", FAST, [share_of_nurses])
    assert fresh.coal.share_of_nurses.note == ""
    with pytest.raises(InputError, match="fn_bias"):
        evenli.audit("fake:even", measures=[_named("fn_bias")], scoring=FAST)
    with pytest.raises(InputError, match="nothing"):
        evenli.audit("fake:even", measures=[_named("nothing")], scoring=FAST)


def _named(name: str):  # type: ignore[no-untyped-def]
    def function(sample: Sample) -> None:
        return None

    function.__name__ = name
    return function


def test_an_own_measure_from_the_command_line(run_cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "mine.py").write_text(MEASURE, encoding="utf-8")
    run = ("audit", "fake:biased", "-o", "run", "--measure", "mine:surprise", "--json")
    done = run_cli(*run, cwd=tmp_path)
    assert json.loads(done.stdout)["labour"]["measures"]["surprise"]["value"] == pytest.approx(1.0), done.stderr
    again = run_cli("measure", "run", "--json", cwd=tmp_path)
    assert json.loads(again.stdout)["labour"]["measures"]["surprise"]["value"] == pytest.approx(1.0), again.stderr
    wrong = run_cli("measure", "run", "--measure", "mine:nothing", cwd=tmp_path)
    assert wrong.returncode == 2 and "mine:nothing" in wrong.stderr


def test_a_broken_plugin_is_one_line(tmp_path: Path) -> None:
    points = {"evenli.suites": {"broken": "no_such_module:SUITE"}}
    folder = write_plugin(tmp_path / "site", "broken", {"empty": ""}, points)
    with installed(folder, registry.SUITES):
        with pytest.raises(InputError, match="broken"):
            evenli.audit("fake:even", suites=("broken",))
        assert evenli.audit("fake:even", scoring=FAST).coal.value == 0, "other suites go on"


def test_what_an_audit_shows() -> None:
    audit = evenli.audit("fake:oracle:0.3", suites="coal", scoring=FAST)
    assert repr(audit).count("\n") == 0 and "coal 0.200" in repr(audit) and len(repr(audit)) < 200
    html = audit._repr_html_()
    assert html.count("<svg") == 3 and "This model " in html and "Who does the model see?" in html
    assert html.count("<table") == 1 and "0.200" in html
    frame = audit.to_frame()
    assert {"suite", "measure", "slice", "value", "low", "high"} <= set(frame.columns)
    coal = frame.filter((frame["measure"] == "coal") & (frame["slice"] == "all"))
    assert coal["value"].to_list() == pytest.approx([0.2])
    with pytest.raises(AttributeError, match="nothing"):
        _ = audit.nothing
    assert evenli.audit(never_neutral, scoring=FAST).verdict.code == "none"
