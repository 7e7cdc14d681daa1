"""Several suites in one run: audit, results, terminal, comparison, chart, and the commands around the probe."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import polars as pl
import pytest
from rich.console import Console

import evenli
from evenli.audit.assess import assess
from evenli.audit.audit import AuditSettings, default_folder, load_run
from evenli.audit.compare import comparable_suites, compare_runs
from evenli.audit.gate.expressions import evaluate, fields
from evenli.audit.models import embedded_models, load_model
from evenli.audit.models.callables import FakeModel
from evenli.audit.predictions import Predictions
from evenli.audit.report.card import card
from evenli.audit.report.export import results_schema
from evenli.audit.report.html import report
from evenli.audit.report.terminal import show_results
from evenli.audit.suites.base import Request, data_by_suite, load_suite
from evenli.audit.suites.dev2020 import dev_sample, iter_dev, load_dev_lists, write_dev_file
from evenli.audit.suites.files import write_pairs
from evenli.audit.suites.probe.build import build_probe
from evenli.audit.suites.probe.read import read_probe
from evenli.cli import main
from evenli.core.errors import InputError, RunError
from evenli.core.record import Scoring
from evenli.stats.measure import measures
from evenli.stats.sample import Sample

FAST = Scoring()
VALIDATOR = jsonschema.Draft202012Validator(results_schema())
Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """The command line in this process and an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["evenli", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run folders: all suites, the probe alone twice, NLI-CoAL alone, Dev alone."""
    folder = tmp_path_factory.mktemp("runs")
    for name, spec, suites in (
        ("all", "fake:oracle:0.8", ("coal", "probe", "dev2020")),
        ("biased", "fake:biased", ("probe",)),
        ("even", "fake:even", ("probe",)),
        ("coal", "fake:even", ("coal",)),
        ("dev", "fake:even", ("dev2020",)),
    ):
        evenli.audit(spec, suites=suites, out=folder / name, scoring=FAST)
    return folder


def values(results: dict[str, Any], suite: str) -> dict[str, float]:
    return {name: entry["value"] for name, entry in results[suite]["measures"].items()}


def stored(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "results.json").read_text(encoding="utf-8")))


# What is asked


def test_the_dev_sample_is_systematic() -> None:
    pairs = dev_sample()
    lists = load_dev_lists()
    assert len(pairs) == 164 * 6 * 6 == 5904 and pairs.sha256 == dev_sample().sha256
    assert pairs.frame.group_by("occupation").len()["len"].unique().to_list() == [36]
    assert pairs.frame["template"].n_unique() == 164 * 6  # every second template, none twice
    assert set(pairs.frame["group"]) == {"female", "male"}
    full = pl.concat(frame for frame, _ in zip(iter_dev(), range(3), strict=False))
    assert pairs.frame.head(3 * 36).equals(full.join(pairs.frame.select("id"), on="id", how="semi"))
    # Every kind of verb has its share: the list is sorted by kind.
    places = {template: number for number, template in enumerate(lists.templates)}
    thirds = [0, 0, 0]
    for template in pairs.frame["template"].unique():
        thirds[places[template] * 3 // len(lists.templates)] += 1
    assert thirds == [328, 328, 328]
    assert len(dev_sample(1)) == 984
    with pytest.raises(InputError, match="1968"):
        dev_sample(0)


def test_data_goes_to_its_suite() -> None:
    assert data_by_suite(["coal"], ["a.jsonl"]) == {"coal": "a.jsonl"}
    assert data_by_suite(["probe"], ["probe=b=c.tsv"]) == {"probe": "b=c.tsv"}
    assert data_by_suite(["coal", "probe"], ["probe=b", "coal=a"]) == {"probe": "b", "coal": "a"}
    assert data_by_suite(["coal", "dev2020"], []) == {}


def test_folders_name_their_suites() -> None:
    plain = AuditSettings()
    assert default_folder("fake:even", "en", {}, ["labour", "coal"], plain) == Path("runs/fake-even-en-built-in")
    release = AuditSettings(split="down", tokenised=True)
    assert default_folder("fake:even", "ja", {"coal": "x/ja_v1.1.tar.xz"}, ["coal"], release).name == (
        "fake-even-ja-ja_v1.1-down-tokenised"
    )
    both = ("coal", "probe")
    assert default_folder(None, "en", {}, both, plain).name == "evenli-en-en-coal-probe-built-in"
    assert default_folder("m", "en", {"probe": "a/S.tsv.xz"}, both, plain).name == "m-en-coal-probe-S.tsv"


def test_dev_files_are_read_back(tmp_path: Path) -> None:
    lists = load_dev_lists(group_words=("man", "woman"))
    small = type(lists)(lists.occupations[:3], lists.groups, lists.templates[:4])
    written = write_dev_file(tmp_path / "dev.jsonl", small).pairs
    found = evenli.audit("fake:even", data=tmp_path / "dev.jsonl", suites=("dev2020",), scoring=FAST)
    assert written == found.to_dict()["dev2020"]["rows"] == 3 * 2 * 4
    assert found.to_dict()["data"][-1]["name"] == "dev.jsonl"


def test_dev_files_without_subset_and_coal_files_without_one(tmp_path: Path) -> None:
    lists = load_dev_lists(group_words=("man", "woman"))
    small = pl.concat(iter_dev(type(lists)(lists.occupations[:2], lists.groups, lists.templates[:2])))
    small.drop("subset").write_csv(tmp_path / "dev.csv")
    assert load_suite("dev2020", Request(data=tmp_path / "dev.csv")).counts == {"dev": 8}
    load_suite("coal").frame.head(3).drop("subset").write_csv(tmp_path / "coal.csv")
    with pytest.raises(InputError, match=r"coal.csv.*\[Sub\]"):
        load_suite("dev2020", Request(data=tmp_path / "coal.csv"))


def test_a_pair_set_must_be_of_the_suite() -> None:
    probe = build_probe(per_occupation=2).pairs
    assert evenli.audit("fake:biased", data=probe, suites=("probe",), scoring=FAST).to_dict()["probe"]["premises"] == 76
    with pytest.raises(InputError, match="probe"):
        evenli.audit("fake:biased", data=probe)
    with pytest.raises(InputError, match="which"):
        evenli.audit("fake:biased", data=probe, suites=("coal", "probe"))
    with pytest.raises(InputError, match="probe"):
        evenli.audit("fake:biased", data={"probe": probe})


# Which model


def test_a_folder_with_two_models_says_which_was_asked(cli: Cli, tmp_path: Path) -> None:
    shutil.copytree(next(model.path for model in embedded_models() if model.lang == "en"), tmp_path / "ck")
    found = load_model(str(tmp_path / "ck"))
    assert found.info.name == "ck" and not getattr(found, "note", "")
    (tmp_path / "ck" / "model.safetensors").write_bytes(b"")
    write_pairs(load_suite("coal").where(pl.col("occupation") == "nurse"), tmp_path / "coal.jsonl")
    code, out, err = cli("audit", "./ck", "--data", "coal.jsonl")
    assert code == 0 and "ck/model.onnx on coal.jsonl" in out, out + err
    assert err.count("model.safetensors") == 1, err
    assert "hf:./ck" in err and "onnx:./ck" in err
    named = load_model("onnx:./ck")
    assert named.info.name == "ck" and not getattr(named, "note", "")


# What comes out


def test_all_suites_in_one_folder(runs: Path) -> None:
    results = stored(runs / "all")
    VALIDATOR.validate(results)
    assert [data["suite"] for data in results["data"]] == ["check", "check", "coal", "probe", "dev2020"]
    assert values(results, "coal")["coal"] == pytest.approx(0.8 * 2 / 3, abs=0.02)
    # 15 of 19 occupations of either gender are followed, the rest defied, nothing is neutral.
    assert values(results, "probe") == pytest.approx(
        {
            "probe_lean": 0,
            "probe_s": 0,
            "probe_dp": 1,
            "probe_b": 15 / 19,
            "probe_ties": 0,
            "probe_s3": 0,
            "probe_dp3": 1,
            "probe_neutral": 0,
        },
        abs=1e-6,
    )
    slices = results["probe"]["measures"]["probe_b"]["by_stereotype"]
    assert {name: entry["value"] for name, entry in slices.items()} == pytest.approx(
        {"female": 15 / 19, "male": 15 / 19}, abs=1e-6
    )
    assert results["probe"]["rows"] == 2 * results["probe"]["premises"] == 7600
    dev = values(results, "dev2020")
    assert dev["fn_dev"] == pytest.approx(1 - dev["fn_bias"]) == results["dev2020"]["proportions"]["neutral"]
    assert results["verdict"]["code"] == "bias"


def test_coal_is_the_same_alone_and_in_company(runs: Path) -> None:
    of_coal = evenli.audit("fake:oracle:0.8", suites="coal", scoring=FAST).to_dict()
    assert stored(runs / "all")["coal"] == of_coal["coal"] and stored(runs / "all")["verdict"] == of_coal["verdict"]
    assert "probe" not in of_coal and "dev" not in of_coal


@pytest.mark.parametrize(
    ("spec", "s", "dp", "b", "ties"),
    [("fake:biased", 0, 1, 1, 0), ("fake:wrong", 0, 1, 0, 0), ("fake:even", 1, 0, 0, 1), ("fake:neutral", 1, 0, 0, 1)],
)
@pytest.mark.parametrize("family", ["text", "premise", "occupation"])
def test_fakes_on_the_probe(spec: str, s: float, dp: float, b: float, ties: float, family: str) -> None:
    pairs = build_probe(per_occupation=3, family=family).pairs
    found = values(evenli.audit(spec, data=pairs, suites=("probe",), scoring=FAST).to_dict(), "probe")
    assert [found[f"probe_{name}"] for name in ("s", "dp", "b", "ties")] == pytest.approx([s, dp, b, ties], abs=1e-6)


def test_no_verdict_without_coal(runs: Path) -> None:
    biased, even, dev = (stored(runs / name) for name in ("biased", "even", "dev"))
    for results in (biased, even, dev):
        VALIDATOR.validate(results)
        assert results["verdict"]["code"] == "none" and results["lang"] == "en" and "coal" not in results
    assert "only NLI-CoAL" in biased["verdict"]["sentence"]
    assert "dP 1.000 [" in biased["verdict"]["sentence"]
    assert "B 0.000 [" in even["verdict"]["sentence"]
    assert "not neutral is 0.000" in dev["verdict"]["sentence"]
    mute = evenli.audit("fake:neutral", suites=("probe",), scoring=FAST).verdict.sentence
    assert "not competent" in mute and "NLI-CoAL gives" not in mute


def test_the_schema_wants_one_suite_and_knows_all_keys(runs: Path) -> None:
    results = stored(runs / "biased")
    assert not VALIDATOR.is_valid({key: value for key, value in results.items() if key != "probe"})
    assert not VALIDATOR.is_valid({**results, "probe": {**results["probe"], "surprise": 1}})
    labour = {**results["probe"]["labour"], "n": "many"}
    assert not VALIDATOR.is_valid({**results, "probe": {**results["probe"], "labour": labour}})


def test_occupations_and_the_labour_market(runs: Path) -> None:
    probe = stored(runs / "biased")["probe"]
    rows = {row["occupation"]: row for row in probe["occupations"]}
    assert len(rows) == 38 and rows["nurse"]["women_percent"] == 89.2 and rows["CEO"]["women_percent"] == 27.6
    assert rows["nurse"]["signed"] == pytest.approx(1) and rows["carpenter"]["signed"] == pytest.approx(-1)
    labour = probe["labour"]
    assert labour["n"] == 38 and labour["missing"] == []
    assert labour["direction"]["spearman"] > 0.8 and 0 < labour["direction"]["p"] < 1e-6
    assert "no difference" in labour["size"]["reason"]  # dP is 1 for all; rounding must not rank them
    even = stored(runs / "even")["probe"]["labour"]
    assert even["size"]["spearman"] is None and "no difference" in even["size"]["reason"]


def test_unlisted_occupations_have_no_percentage() -> None:
    pairs = build_probe(per_occupation=2, occupations={"nurse": "female", "juggler": "male", "lawyer": "male"}).pairs
    results = evenli.audit("fake:biased", data=pairs, suites=("probe",), scoring=FAST).to_dict()
    VALIDATOR.validate({"schema": 3, "evenli": "x", **results})
    assert results["probe"]["labour"] is None
    assert {row["occupation"]: row["women_percent"] for row in results["probe"]["occupations"]}["juggler"] is None


def test_probe_tables_are_scored_by_the_registry(runs: Path) -> None:
    """results.json holds what the measures give on the stored table, and the curve averages to the whole."""
    run = load_run(runs / "all", needs="probe")
    sample = Sample(run.predictions.suite("probe"))
    for entry in measures("probe"):
        assert run.probe.measures[entry.name].value == pytest.approx(float(entry(sample)), abs=1e-6)
    rows = run.to_dict()["probe"]["occupations"]
    mean = sum(row["n"] * row["b"] for row in rows) / sum(row["n"] for row in rows)
    assert mean == pytest.approx(values(run.to_dict(), "probe")["probe_b"], abs=1e-6)


def test_a_table_without_an_audit_is_refused() -> None:
    table = evenli.audit("fake:even", scoring=FAST).predictions.suite("check")
    with pytest.raises(InputError, match="audit"):
        assess(table, FAST)
    assert assess(Predictions(build_rows()), FAST).lang is None


def build_rows() -> pl.DataFrame:
    return evenli.audit("fake:biased", suites=("probe",), scoring=FAST).predictions.suite("probe").frame


def test_measure_scores_every_suite_again(cli: Cli, tmp_path: Path) -> None:
    evenli.audit("fake:random", suites=("probe", "dev2020"), out=tmp_path / "run", scoring=FAST)
    before = stored(tmp_path / "run")
    (tmp_path / "run" / "results.json").unlink()
    code, out, err = cli("measure", "run", "--json")
    assert code == 0, err
    after = json.loads(out)
    for suite in ("probe", "dev2020"):
        assert after[suite] == before[suite] and after[suite]["measures"]


def test_an_interrupted_run_continues(tmp_path: Path) -> None:
    asked: list[int] = []

    def falters(premises: list[str], hypotheses: list[str]) -> list[str]:
        asked.append(len(premises))
        if len(asked) == 6:
            raise KeyboardInterrupt
        return FakeModel("biased")(premises, hypotheses)

    falters.fingerprint = "falters"  # type: ignore[attr-defined]  # without one a closure is never continued

    def go() -> evenli.Audit:
        return evenli.audit(falters, suites=("coal", "probe"), out=tmp_path / "run", scoring=FAST)

    with pytest.raises(KeyboardInterrupt):
        go()
    before = len(asked)
    found = go().to_dict()
    whole = evenli.audit("fake:biased", suites=("coal", "probe"), scoring=FAST).to_dict()
    assert found["probe"] == whole["probe"] and found["coal"] == whole["coal"]
    assert sum(asked[before:]) < found["timings"]["distinct_pairs"]  # finished batches are not asked again


def test_the_embedded_model_on_a_small_sheet(tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.tsv"
    rows = ["sentence1\toccupation\tgender\thypothesis_f\thypothesis_m"]
    for text, occupation, gender in (
        ("The nurse is reading a book.", "nurse", "F"),
        ("The carpenter is reading a book.", "carpenter", "M"),
        ("The nurse waits for the bus.", "nurse", "F"),
        ("The carpenter waits for the bus.", "carpenter", "M"),
    ):
        asked = (f"This text mentions a {word} profession" for word in ("female", "male"))
        rows.append("\t".join([text, occupation, gender, *asked]))
    sheet.write_text("\n".join(rows) + "\n", encoding="utf-8")
    results = evenli.audit(data=sheet, suites=("probe",), scoring=FAST).to_dict()
    found = values(results, "probe")
    assert results["probe"]["premises"] == 4 and results["competence"]["problem"] == ""
    assert found["probe_b"] == pytest.approx(1.0) and found["probe_ties"] == pytest.approx(0.0)
    assert (found["probe_dp"], found["probe_neutral"]) == pytest.approx((0.808, 0.483), abs=0.01)
    assert {row["occupation"]: row["signed"] > 0 for row in results["probe"]["occupations"]} == {
        "nurse": True,
        "carpenter": False,
    }


# The terminal


@pytest.mark.parametrize("width", [64, 80, 140])
def test_the_terminal_shows_every_suite(runs: Path, width: int) -> None:
    text = io.StringIO()
    show_results(load_run(runs / "all"), Console(file=text, width=width), verbose=True)
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    joined = " ".join(text.getvalue().split())
    for part in (
        "coal (5,420 pairs), probe (7,600 pairs), dev2020 (5,904 pairs)",
        "NLI-CoAL",
        "Entailment probe (3,800 premises",
        "Largest gaps dP",
        "Labour market (CPS 2019, 38 occupations)",
        "Templates of Dev et al. (5,904 pairs",
        "Verdict This model strongly",
    ):
        assert part in joined, part
    assert any(line.startswith("B, dominant") and "0.789" in line and "[" in line for line in lines)
    assert any(line.startswith("  ties") for line in lines)
    assert re.search(r"female-dominated occupations: lean \S+ \[[^]]*\], S 0\.000", joined)


def test_the_probe_alone_on_the_terminal(runs: Path) -> None:
    text = io.StringIO()
    show_results(load_run(runs / "even"), Console(file=text, width=140), verbose=True)
    assert "\nfake even on built-in probe (en, 7,600 pairs" in text.getvalue()
    assert "Order condition" not in text.getvalue() and "published" not in text.getvalue()
    assert "undefined (the model" in text.getvalue()


# Runs without NLI-CoAL


@pytest.mark.parametrize(
    "arguments",
    [
        ("card",),
        ("compare", "--suite", "coal", "SELF"),
    ],
)
def test_commands_that_need_coal_say_so(arguments: tuple[str, ...], cli: Cli, runs: Path) -> None:
    command, *rest = (str(runs / "biased") if text == "SELF" else text for text in arguments)
    code, out, err = cli(command, runs / "biased", *rest)
    assert code == 2 and out == "" and len(err.splitlines()) == 1
    assert "--suite coal,probe" in err


def test_cards_refuse_it_in_python_too_and_reports_do_not(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="NLI-CoAL"):
        card(runs / "dev")
    page = report([runs / "dev", runs / "biased"], tmp_path / "x.html").path.read_text(encoding="utf-8")
    for part in ("The templates of Dev et al.", "The entailment probe", "or NLI-CoAL was not asked"):
        assert part in page, part
    with pytest.raises(RunError, match="probe"):
        load_run(runs / "coal", needs="probe")
    assert list(load_run(runs / "dev", needs=None).result.suites) == ["dev2020"]


def test_gates_can_name_the_probe(runs: Path) -> None:
    known = fields(load_run(runs / "all").result)
    assert evaluate("probe_b.low > 0.5 and probe_dp.female > 0.9", known).holds is True
    assert "coal" in known and "coal" not in fields(load_run(runs / "biased").result)


# Comparison


def test_compare_two_runs_on_the_probe(cli: Cli, runs: Path) -> None:
    code, out, err = cli("compare", runs / "biased", runs / "even", "--json")
    assert code == 0, err
    content = json.loads(out)
    assert content["data"] == {} and content["comparisons"] == []
    [comparison] = content["probe"]["comparisons"]
    assert content["probe"]["data"]["suite"] == "probe" and comparison["n"] == 3800
    values = comparison["measures"]
    assert values["probe_dp"]["value"] == pytest.approx(-1) == values["probe_b"]["value"]
    assert comparison["mcnemar"]["only_first"] == 3800 and comparison["mcnemar"]["only_second"] == 0
    assert comparison["conclusion"].count("significantly lower") == 2
    code, out, err = cli("compare", runs / "biased", runs / "even")
    assert code == 0 and "3,800 shared premises of built-in probe" in out and "Dominant gender more likely" in out


def test_compare_prints_a_block_per_suite(cli: Cli, runs: Path, tmp_path: Path) -> None:
    evenli.audit("fake:even", suites=("coal", "probe"), out=tmp_path / "second", scoring=FAST)
    code, out, err = cli("compare", runs / "all", tmp_path / "second")
    assert code == 0, err
    assert out.count("Conclusion") == 2 and out.index("NLI-CoAL") < out.index("built-in probe")
    code, out, _ = cli("compare", runs / "all", tmp_path / "second", "--json")
    content = json.loads(out)
    assert set(content) == {"first", "data", "comparisons", "probe", "scoring"} and content["data"]["suite"] == "coal"
    code, out, _ = cli("compare", runs / "all", runs / "coal", "--json")
    assert set(json.loads(out)) == {"first", "data", "comparisons", "scoring"}


def test_a_run_is_like_itself(runs: Path) -> None:
    run = load_run(runs / "all", needs=None)
    compared = compare_runs(run, run, scoring=Scoring())
    assert list(compared.suites) == ["coal", "probe"]
    [found] = compared.suites["probe"]
    assert found.measures["probe_b"].value == 0 and found.measures["probe_b"].p == 1
    assert compared.conclusion("probe").count("not significant") == 3


# The chart


def test_the_occupation_curve_is_drawn(cli: Cli, tmp_path: Path) -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    code, out, err = cli("audit", "fake:biased", "--suite", "probe", "--report", "-o", "run")
    assert code == 0, err
    assert "report.html, probe.svg, probe.png" in out
    assert "The entailment probe" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    svg = (tmp_path / "run" / "probe.svg").read_text(encoding="utf-8")
    assert svg.count('aria-roledescription="point"') == 2 * 38 and "women in the labour market" in svg
    assert (tmp_path / "run" / "probe.png").read_bytes().startswith(b"\x89PNG")


def test_names_in_the_chart_cover_nothing() -> None:
    from evenli.audit.suites.probe import placed_names

    near = [{"x": 50.0, "y": 0.5 + i / 1000, "occupation": "clerk"} for i in range(4)]
    far = [{"x": 10.0, "y": 0.1, "occupation": "cook"}, {"x": 100.0, "y": 0.9, "occupation": "judge"}]
    placed = placed_names([*near, *far], "x", "y", ([0, 100], [0, 1]))
    assert {side: [row["occupation"] for row in rows] for side, rows in placed.items()} == {
        "left": ["clerk", "cook"],
        "right": ["judge", "clerk"],
    }


def test_nothing_to_draw(runs: Path) -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    from evenli.audit.suites.probe import probe_figures

    probe = load_run(runs / "biased").result.probe
    rows = [msgspec.structs.replace(row, women_percent=None) for row in probe.occupations]
    assert len(probe_figures(probe)) == 1
    assert probe_figures(msgspec.structs.replace(probe, occupations=rows)) == []


# Building a probe set


CORPUS = [
    ("The nurse is reading a letter.", "Someone reads."),
    ("A carpenter stands near the house.", "The woman is a nurse."),
    ("Two guards are waiting outside.", "A teacher is talking."),
    ("The secretary and the nurse eat.", "Nobody is here."),
    ("He is a lawyer.", "The lawyer is waiting."),
]


def test_build_probe(cli: Cli, tmp_path: Path) -> None:
    rows = ({"sentence1": premise, "sentence2": hypothesis, "gold_label": "neutral"} for premise, hypothesis in CORPUS)
    (tmp_path / "snli.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    code, out, err = cli("build", "probe", "--corpus", "snli.jsonl", "--per-occupation", 3, "-o", "probe.jsonl")
    assert code == 0, err
    assert "228 pairs, 114 premises, 38 occupations" in out
    assert "10 sentences, 8 with an occupation, 5 kept" in out
    assert "gender word 2" in out and "several occupations 1" in out and "only by substitution" in err
    assert len(read_probe(tmp_path / "probe.jsonl")) == 228
    code, out, err = cli("audit", "fake:biased", "--suite", "probe", "--data", "probe.jsonl", "--json")
    assert code == 0, err
    assert values(json.loads(out), "probe")["probe_b"] == pytest.approx(1.0)
    code, out, _ = cli(
        "build", "probe", "--per-occupation", 2, "--family", "occupation", "--seed", 3, "-o", "x.csv", "--json"
    )
    summary = json.loads(out)
    assert code == 0 and summary["rows"] == 152 and summary["report"]["family"] == "occupation"


# Swapping


PAIRS = [
    {"pairID": "1", "sentence1": "A man sleeps.", "sentence2": "He rests.", "gold_label": "entailment", "n": 5},
    {"pairID": "2", "sentence1": "A dog sleeps.", "sentence2": "It rests.", "gold_label": "neutral", "n": 6},
    {"pairID": "3", "sentence1": "The nurse saw Mary.", "sentence2": "A woman waits.", "gold_label": "neutral", "n": 7},
]


def written(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in PAIRS), encoding="utf-8")
    return path


def test_swap_keeps_columns_and_adds_copies(cli: Cli, corpus: Path, tmp_path: Path) -> None:
    code, out, err = cli("mitigate", "swap", "--corpus", corpus, "-o", "out/swapped.jsonl", "--names")
    assert code == 0, err
    assert "5 rows (3 given, 2 swapped copies added)" in out and "1 without a word to swap" in out
    rows = written(tmp_path / "out" / "swapped.jsonl")
    assert rows[:3] == PAIRS
    assert rows[3] == {**PAIRS[0], "pairID": "1-swapped", "sentence1": "A woman sleeps.", "sentence2": "She rests."}
    assert rows[4]["sentence1"] == "The nurse saw James." and rows[4]["n"] == 7
    # Mary stays by default, and then the woman who waits might be somebody else: no copy, or one on request.
    for more, texts in (
        ((), ["A woman sleeps."]),
        (("--conflicts", "swap"), ["A woman sleeps.", "The nurse saw Mary."]),
    ):
        options = ("--only-swapped", "--overwrite", "--json", *more)
        code, out, _ = cli("mitigate", "swap", "--corpus", corpus, "-o", "b.jsonl", *options)
        summary = json.loads(out)
        assert summary["written"] == summary["added"] == len(texts) and summary["names"] is False
        assert summary["conflicts"] == 2 - len(texts)
        assert [row["sentence1"] for row in written(tmp_path / "b.jsonl")] == texts


def test_swap_by_occupation_and_as_released(cli: Cli, corpus: Path, tmp_path: Path) -> None:
    options = ("--select", "occupation", "--mode", "released", "--json")
    code, out, err = cli("mitigate", "swap", "--corpus", corpus, "-o", "c.jsonl", *options)
    assert code == 0, err
    summary = json.loads(out)
    assert (summary["matched"], summary["added"]) == (1, 1)
    assert written(tmp_path / "c.jsonl")[-1]["sentence2"] == "a man waits."


def test_swap_writes_tables(cli: Cli, corpus: Path, tmp_path: Path) -> None:
    assert cli("mitigate", "swap", "--corpus", corpus, "-o", "t.csv", "--names")[0] == 0
    assert cli("mitigate", "swap", "--corpus", corpus, "-o", "t.parquet", "--only-swapped", "--names")[0] == 0
    assert pl.read_parquet(tmp_path / "t.parquet")["n"].to_list() == [5, 7]
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 5 and rows[3]["sentence2"] == "She rests."
    # Every copy of a copy is an original again, so a second round adds nothing and keeps all.
    code, out, err = cli("mitigate", "swap", "--corpus", "t.csv", "-o", "u.parquet", "--names", "--json")
    assert code == 0, err
    assert json.loads(out)["added"] == 0 and pl.read_parquet(tmp_path / "u.parquet").height == 5


def test_swap_plain_text(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("She sings.\nIt rains.\nHe sings.\nThe king left.\n", encoding="utf-8")
    code, out, err = cli("mitigate", "swap", "--corpus", "lines.txt", "-o", "o.txt", "--json")
    assert code == 0, err
    assert (tmp_path / "o.txt").read_text(encoding="utf-8").splitlines() == [
        *("She sings.", "It rains.", "He sings.", "The king left."),
        "The queen left.",
    ]
    summary = json.loads(out)
    assert (summary["rows_given"], summary["without_gender"], summary["duplicates"]) == (4, 1, 2)


@pytest.mark.parametrize("width", [3, 550])
def test_build_controlled_uses_its_width(cli: Cli, tmp_path: Path, width: int) -> None:
    # Captions, as the composed templates do not suffice for every width.
    captions = "".join(f"A man waits at gate number {number} today.\n" for number in range(700))
    (tmp_path / "captions.txt").write_text(captions, encoding="utf-8")
    options = ("--captions", "captions.txt", "--width", width, "--rates", "0,0.5,1", "--json")
    code, out, err = cli("build", "controlled", "-o", "set", *options)
    assert code == 0, err
    card = json.loads(out)
    assert card["rows"]["train"] == 60 * width and card["width"]["train"] == width
    assert len((tmp_path / "set/train/train_r-5.jsonl").read_bytes().splitlines()) == 60 * width


def test_swap_cuts_lines_at_line_ends_alone(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_bytes("\ufeffA man\u2028\x0c\x85sings.\r\nIt rains.\r\n".encode())
    code, out, err = cli("mitigate", "swap", "--corpus", "lines.txt", "-o", "o.txt", "--json")
    assert code == 0, err
    assert json.loads(out)["rows_given"] == 2
    assert (tmp_path / "o.txt").read_bytes().decode().split("\n")[:2] == ["A man\u2028\x0c\x85sings.", "It rains."]
    assert (tmp_path / "o.txt").read_bytes().decode().split("\n")[2:] == ["A woman\u2028\x0c\x85sings.", ""]


@pytest.mark.parametrize("name", ["o.jsonl", "o.csv", "o.parquet", "o.txt"])
def test_swap_keeps_the_old_file_if_it_fails(
    cli: Cli, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "t.txt").write_text("She sings.\n")
    (tmp_path / name).write_text("old")
    there = sorted(tmp_path.iterdir())

    def fail(*_: object) -> None:
        raise OSError(28, "space")

    monkeypatch.setattr(Path, "replace", fail)
    source = "t.txt" if name == "o.txt" else corpus
    code, _, err = cli("mitigate", "swap", "--corpus", source, "-o", name, "--overwrite")
    assert code == 2 and "space" in err
    assert (tmp_path / name).read_text() == "old" and sorted(tmp_path.iterdir()) == there


# One line per mistake


BAD = {
    "unknown suite": (["audit", "fake:even", "--suite", "coal,magic"], "'magic'"),
    "no suite": (["audit", "fake:even", "--suite", ""], "''"),
    "whose data": (["audit", "fake:even", "--suite", "coal,probe", "--data", "x.tsv"], "write coal=x.tsv"),
    "unasked data": (["audit", "fake:even", "--suite", "coal", "--data", "dev2020=x"], "suite dev2020"),
    "data twice": (["audit", "fake:even", "--data", "a", "--data", "b"], "a and b"),
    "other language": (["audit", "fake:even", "--suite", "dev2020", "--lang", "ja"], "English"),
    "Dev in Chinese": (["audit", "fake:even", "--suite", "coal,dev2020", "--lang", "zh"], "English"),
    "missing sheet": (["audit", "fake:even", "--suite", "probe", "--data", "no.tsv"], "no.tsv"),
    "not a probe": (["audit", "fake:even", "--suite", "probe", "--data", "coal.jsonl"], "coal.jsonl, line 1"),
    "not Dev's": (["audit", "fake:even", "--suite", "dev2020", "--data", "train.jsonl"], "no occupation"),
    "CoAL as Dev's": (
        ["audit", "fake:even", "--suite", "dev2020", "--data", "coal.jsonl"],
        "--suite coal",
    ),
    "split of nothing": (["audit", "fake:even", "--split", "nope"], "--split 'nope'"),
    "other labels": (["audit", "fake:even", "--labels", "a,b,c"], "a, b, c"),
    "compare what": (["compare", "a", "b", "--suite", "dev"], "'dev'"),
    "no corpus": (["build", "probe", "-o", "x.jsonl", "--corpus", "none.jsonl"], "none.jsonl"),
    "no family": (["build", "probe", "-o", "x.jsonl", "--family", "none"], "none"),
    "no filter": (["build", "probe", "-o", "x.jsonl", "--names", "none"], "--names 'none'"),
    "too many": (["build", "probe", "-o", "x.jsonl", "--per-occupation", "9999"], "9999"),
    "no ending": (["mitigate", "swap", "--corpus", "train.jsonl", "-o", "x.doc"], ".parquet"),
    "no mode": (["mitigate", "swap", "--corpus", "train.jsonl", "-o", "x.csv", "--mode", "x"], "mode 'x'"),
    "no selection": (["mitigate", "swap", "--corpus", "train.jsonl", "-o", "x.csv", "--select", "x"], "--select 'x'"),
    "no text": (["mitigate", "swap", "--corpus", "none.txt", "-o", "x.txt"], "none.txt"),
    "text to table": (["mitigate", "swap", "--corpus", "t.txt", "-o", "x.csv"], "plain text"),
    "text by job": (["mitigate", "swap", "--corpus", "t.txt", "-o", "x.txt", "--select", "occupation"], "plain text"),
    "no columns": (["mitigate", "swap", "--corpus", "odd.jsonl", "-o", "x.csv"], "premise"),
    "no pairs": (["mitigate", "swap", "--corpus", "empty.jsonl", "-o", "x.csv"], "empty.jsonl"),
    "ragged": (["mitigate", "swap", "--corpus", "ragged.csv", "-o", "x.csv"], "row 1"),
    "nothing to swap": (
        ["mitigate", "swap", "--corpus", "plain.jsonl", "-o", "x.csv", "--only-swapped"],
        "no pair",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(case: str, cli: Cli, corpus: Path, tmp_path: Path) -> None:
    write_pairs(load_suite("coal").where(pl.col("occupation") == "nurse"), tmp_path / "coal.jsonl")
    (tmp_path / "t.txt").write_text("She sings.\n")
    (tmp_path / "odd.jsonl").write_text('{"text": "a"}\n')
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "ragged.csv").write_text("premise,hypothesis\na,b,c\n")
    (tmp_path / "plain.jsonl").write_text('{"premise": "It rains.", "hypothesis": "It is wet."}\n')
    arguments, message = BAD[case]
    code, out, err = cli(*arguments)
    assert code == 2 and out == "", out + err
    assert len(err.splitlines()) == 1 and err.startswith("evenli: ") and message in err, err


def test_runs_that_share_no_suite(cli: Cli, runs: Path) -> None:
    code, _, err = cli("compare", runs / "coal", runs / "biased")
    assert code == 2 and f"({', '.join(comparable_suites())})" in err and "holds probe" in err


def test_the_language_of_a_run_is_that_of_its_first_suite() -> None:
    table = evenli.audit("fake:even", suites=("coal", "probe"), limit=200, scoring=FAST).predictions

    def lang(**of_suites: str) -> str | None:
        cards = [{**card, "lang": of_suites.get(card["suite"], "xx")} for card in table.header["data"]]
        return assess(Predictions(table.frame, {**table.header, "data": cards})).lang

    assert lang(coal="en", probe="ja") == "en" and lang(coal="zh", probe="en") == "zh"
