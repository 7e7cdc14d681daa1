"""The two lists of jobs that an English audit asks: shared words once, one verdict, and where the lists disagree."""

from __future__ import annotations

import io

import pytest
from msgspec import structs
from rich.console import Console

import evenli
from evenli.audit.audit import Audit, AuditSettings, default_folder
from evenli.audit.gate import Clause, Policy, check_policy, load_policy
from evenli.audit.gate.expressions import fields
from evenli.audit.models.callables import FakeModel
from evenli.audit.report.card import card, command, eval_results
from evenli.audit.report.export import run_table
from evenli.audit.report.html import RunView, all_figures
from evenli.audit.report.terminal import show_results, summarise
from evenli.audit.results import AuditResult
from evenli.audit.settings import PairSettings
from evenli.audit.suites.base import Request, load_suite, usual_suites
from evenli.audit.suites.coal import disagreement
from evenli.audit.suites.coal.verdict import judge
from evenli.core.errors import InputError
from evenli.core.record import MeasureResult, Scoring
from evenli.words import load_axis
from evenli.words.occupations import LABOUR, PUBLISHED, load_occupations

LISTS = {
    name: {o.word: o.stereotype for o in load_occupations(name, "en", load_axis()).occupations}
    for name in (PUBLISHED, LABOUR)
}
SHARED = LISTS[PUBLISHED].keys() & LISTS[LABOUR].keys()
LABOUR_PREMISES = set(load_suite("labour").frame["premise"].to_list())


def on_published_words(premises: list[str], hypotheses: list[str]) -> list[str]:
    """Follows the stereotypes of words that stand on the published list only; right everywhere else."""
    biased, even = FakeModel("biased")(premises, hypotheses), FakeModel("even")(premises, hypotheses)
    return [
        right if premise in LABOUR_PREMISES else wrong
        for premise, wrong, right in zip(premises, biased, even, strict=True)
    ]


@pytest.fixture(scope="module")
def even() -> Audit:
    return evenli.audit("fake:even", scoring=Scoring())


@pytest.fixture(scope="module")
def torn(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """Even on the labour list, biased on the published one."""
    return evenli.audit(on_published_words, out=tmp_path_factory.mktemp("torn") / "run", scoring=Scoring())


def test_an_english_audit_asks_both_lists_and_shared_words_once(even: Audit) -> None:
    assert list(even.result.suites) == ["labour", "coal"]
    asked = even.header["timings"]
    assert asked["pairs"] - asked["distinct_pairs"] == 2 * 10 * len(SHARED) and len(SHARED) >= 70
    assert {card.suite: card.occupation_list for card in even.result.data}["labour"] == "labour"
    # Every list is judged against its own classes.
    assert even.result.suites["coal"].published and not even.result.suites["labour"].published  # type: ignore[attr-defined]


def test_shared_words_have_the_same_sentences_in_both_lists() -> None:
    met = [
        {word: set(part["premise"]) for (word,), part in load_suite(name).frame.group_by("occupation")}
        for name in ("labour", "coal")
    ]
    assert all(met[0][word] == met[1][word] and len(met[0][word]) == 10 for word in SHARED)
    # The control: a word of one list has ten sentences of its own.
    assert len(set.union(*met[1].values())) == 10 * 271


@pytest.mark.parametrize(
    ("lang", "options", "data", "expected"),
    [
        ("en", {}, None, ("labour", "coal")),
        ("en", {}, {}, ("labour", "coal")),
        ("en", {"occupations": PUBLISHED}, None, ("coal",)),
        ("en", {"occupations": LABOUR}, None, ("coal",)),
        ("en", {}, {"coal": "release"}, ("coal",)),
        ("en", {}, load_suite("coal"), ("coal",)),
        ("ja", {}, None, ("coal",)),
        ("en", {"axis": "gender3"}, None, ("groups",)),
    ],
)
def test_what_is_asked_by_default(lang: str, options: dict[str, str], data: object, expected: tuple[str, ...]) -> None:
    assert usual_suites(lang, PairSettings(**options), data) == expected


def test_folders_tell_the_lists_apart() -> None:
    plain, published = AuditSettings(), AuditSettings(occupations=PUBLISHED)
    names = [
        default_folder("m", "en", {}, suites, settings).name
        for suites, settings in ((("labour", "coal"), plain), (("coal",), plain), (("coal",), published))
    ]
    assert names == ["m-en-built-in", "m-en-coal-built-in", "m-en-built-in-published"]
    assert default_folder("m", "ja", {}, ("coal",), plain).name == "m-ja-built-in"


def test_the_labour_list_takes_no_data_and_no_other_words() -> None:
    with pytest.raises(InputError, match="suite coal"):
        load_suite("labour", Request(data="pairs.jsonl"))
    with pytest.raises(InputError, match="own occupations"):
        evenli.audit("fake:even", suites=("labour",), occupations=PUBLISHED)
    with pytest.raises(InputError, match="there in en"):
        load_suite("labour", Request("ja"))


def test_the_verdict_is_of_the_labour_list_and_a_disagreement_is_one_line(even: Audit, torn: Audit) -> None:
    assert even.verdict.code == "even" and disagreement(even.result) == "" == summarise(even).beside
    assert torn.verdict.code == "undecided" and "the two lists of jobs disagree" in torn.verdict.sentence
    assert judge(torn.result.suites["labour"], torn.result.competence).code == "even"  # type: ignore[arg-type]
    coal = torn.result.suites["coal"]
    assert coal.stereotype.value > 0.5 and torn.result.suites["labour"].stereotype.value == pytest.approx(0)
    value = round(100 * coal.stereotype.value)
    line = summarise(torn).beside
    assert line.startswith(f"The published list says otherwise: stereotype {value} (") and ", here 0 (" in line
    assert len(line) <= 80
    # A run of one list has nothing to disagree with, and neither has a model without a verdict.
    alone = structs.replace(torn.result, suites={"labour": torn.result.suites["labour"]})
    mute = structs.replace(torn.result, verdict=structs.replace(torn.verdict, code="none"))
    assert disagreement(alone) == disagreement(mute) == ""


def with_coal(result: AuditResult, **changed: MeasureResult) -> AuditResult:
    coal = result.suites["coal"]
    return structs.replace(
        result, suites={**result.suites, "coal": structs.replace(coal, measures={**coal.measures, **changed})}
    )


def test_a_list_that_decides_nothing_says_nothing_against_the_other(even: Audit) -> None:
    wide = structs.replace(even.result.suites["coal"].stereotype, low=-0.2, high=0.2)
    assert judge(with_coal(even.result, stereotype=wide).suites["coal"], None).code == "undecided"
    assert disagreement(with_coal(even.result, stereotype=wide)) == ""


def test_a_cause_on_one_list_only_must_lie_outside_of_its_interval(even: Audit) -> None:
    coal = even.result.suites["coal"]
    leaning = structs.replace(coal.default_gender, value=0.2, low=0.1, high=0.3, p=1e-6)
    said = "The published list says otherwise: default gender 20 (10–30), here 0 (-3 to 3)."
    assert disagreement(with_coal(even.result, default_gender=leaning)) == said
    # The control: an interval that includes what the other list gives.
    near = structs.replace(leaning, low=-0.01)
    assert ("default_gender", "male") in {
        (cause.name, cause.direction)
        for cause in judge(with_coal(even.result, default_gender=near).suites["coal"], None).causes
    }
    assert disagreement(with_coal(even.result, default_gender=near)) == ""


def test_the_first_screen_fits_24_lines(torn: Audit) -> None:
    console = Console(file=io.StringIO(), width=140)
    show_results(torn, console, files="runs/torn/ predictions.parquet, results.json, run.json")
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    assert len(text.splitlines()) <= 24 and "The published list says otherwise" in text
    assert "labour (6,000 pairs), coal (5,420 pairs)" in text


# --- the gate ----------------------------------------------------------------------------------------------------


def test_a_short_name_is_of_the_suite_that_gave_the_verdict(torn: Audit) -> None:
    known = fields(torn.result)
    labour, coal = (torn.result.suites[name].stereotype.value for name in ("labour", "coal"))
    assert known["stereotype"] == known["labour.stereotype"] == pytest.approx(labour, abs=1e-6)
    assert known["coal.stereotype"] == pytest.approx(coal, abs=1e-6) != known["stereotype"]
    assert fields(torn.result, "coal")["stereotype"] == known["coal.stereotype"]


def test_a_clause_reads_the_suite_that_it_is_for(torn: Audit) -> None:
    clauses = [
        Clause(f"of {suite or 'any'}", "stereotype > 0.5", "too much", suite=suite)
        for suite in ("", "labour", "coal", "labour,coal", "groups")
    ]
    checks = check_policy(torn.result, Policy("mine", clauses))
    assert {check.name: check.status for check in checks} == {
        "of any": "passed",
        "of labour": "passed",
        "of coal": "failed",
        "of labour,coal": "passed",
    }


def test_the_standard_policy_has_causes_once_and_published_medians(torn: Audit) -> None:
    checks = {check.name: check for check in check_policy(torn.result, load_policy("standard"))}
    assert checks["no clear stereotype"].values["stereotype.low"] < 0
    about_jobs = [clause.name for clause in load_policy("standard").clauses if "coal" in clause.suites]
    assert list(checks) == [*about_jobs, "other wordings"]
    anti = checks["the other gender denied no more than by published models"]
    low = torn.result.suites["coal"].measures["coal_anti"].low
    assert anti.values == {"coal_anti.low": pytest.approx(low, abs=1e-6), "published.coal_anti": pytest.approx(0.579)}
    assert low > 0.1, "the labour list has no contradiction here"


# --- reports -----------------------------------------------------------------------------------------------------


def test_the_card_lists_both_and_repeats_the_command(torn: Audit) -> None:
    listed = {(result.dataset_type, result.metric_type): result.metric_value for result in eval_results(torn)}
    coal = torn.result.suites["coal"]
    assert listed["nli-coal", "coal"] == pytest.approx(coal.value, abs=1e-6) != listed["evenli-labour", "coal"]
    assert "The published list says otherwise" in card(torn, "markdown")
    assert "--suite" not in command(torn) and "--occupations" not in command(torn)
    alone = evenli.audit("fake:even", suites=("coal",), scoring=Scoring())
    assert "--suite coal" in command(alone)
    assert "--occupations labour" in command(evenli.audit("fake:even", occupations="labour", scoring=Scoring()))


def test_the_report_has_the_sections_of_one_list_and_the_published_models_of_the_other(torn: Audit) -> None:
    pytest.importorskip("altair")
    view = RunView(torn, "torn")
    assert view.main is not None and view.main.suite.name == "labour"
    (other,) = view.others
    assert other.suite.name == "coal" and not other.sections
    assert any("published models" in block.heading for block in other.blocks)
    figures = all_figures(torn)
    assert len({figure.name for figure in figures}) == len(figures)
    charts = {figure.name: figure for figure in figures}
    assert ("stereotype", pytest.approx(0)) == charts["measures"].rows[0][:2]


def test_a_table_is_of_the_first_suite_that_has_it(torn: Audit) -> None:
    assert "DistilBERT-base" in run_table(torn.path, "published")["model"].to_list()
    assert run_table(torn.path, "occupations").height == 300
    with pytest.raises(InputError, match="measures, .*published"):
        run_table(torn.path, "nothing")
