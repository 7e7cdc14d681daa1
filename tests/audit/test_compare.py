"""Paired comparison: numbers by hand, identities, a control, refusals."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

import evenli
from evenli.audit.assess import assess
from evenli.audit.audit import Audit, load_run
from evenli.audit.commands.audit import compare as compare_command
from evenli.audit.compare import DESIGN, align, compare, compare_runs, model_names
from evenli.audit.differences import ComparedWith, Difference
from evenli.audit.models import load_model
from evenli.audit.predictions import COLUMNS, Predictions
from evenli.audit.report.export import write_comparison
from evenli.audit.report.terminal import show_comparison
from evenli.core.errors import InputError, RunError
from evenli.core.io import hash_files
from evenli.core.labels import LABELS
from evenli.core.record import Scoring
from evenli.core.store import with_hash
from evenli.stats.intervals import holm
from evenli.stats.measure import measures
from evenli.stats.sample import Sample

FAST = Scoring()
app = typer.Typer()
app.command()(compare_command)

ITEMS = [
    ("PS", "nurse", "female", "t1"),
    ("PS", "nurse", "female", "t2"),
    ("PS", "cop", "male", "t2"),
    ("PS", "cop", "male", "t3"),
    ("AS", "nurse", "female", "t1"),
    ("AS", "nurse", "female", "t2"),
    ("AS", "cop", "male", "t2"),
    ("AS", "cop", "male", "t3"),
    ("NS", "clerk", "neutral", "t3"),
    ("NS", "clerk", "neutral", "t4"),
]


def table(answers: str, items: list[tuple[str, str, str, str]] = ITEMS) -> Predictions:
    """One letter per item: e, n or c."""
    frame = pl.DataFrame(items, schema=["subset", "occupation", "stereotype", "template"], orient="row")
    names = {label[0]: label for label in LABELS}
    frame = frame.with_columns(
        id=pl.Series([str(i) for i in range(len(items))]),
        suite=pl.lit("coal"),
        premise=pl.concat_str("occupation", "template", separator=" in "),
        hypothesis=pl.concat_str("subset", "template", separator=" in "),
        gold=pl.lit("neutral"),
        group=pl.lit(None, pl.String),
        **{label: pl.Series([4.0 * (names[a] == label) for a in answers]) for label in LABELS},
    )
    return Predictions(frame.select(COLUMNS))


A = table("ennnncnnnn")  # biased: PS 1 of 4, AS 1 of 4, NS 0 of 2
B = table("eenecnccen")  # biased: PS 3 of 4, AS 3 of 4, NS 1 of 2


def random_table(seed: int) -> Predictions:
    generator = np.random.default_rng(seed)
    items = [
        (subset, f"job{k}", "neutral" if subset == "NS" else "male", f"t{(k + j) % 12}")
        for k in range(24)
        for subset in (("PS", "AS") if k < 16 else ("NS",))
        for j in range(4)
    ]
    return table("".join(generator.choice(list("enc"), len(items))), items)


def defined(found: ComparedWith) -> dict[str, Difference]:
    """The measures that have a value: these tables name no groups, so that the causes have none."""
    return {name: measure for name, measure in found.measures.items() if not math.isnan(measure.value)}


def test_numbers_by_hand() -> None:
    (found,) = compare(A, B, scoring=Scoring())
    coal = found.measures["coal"]
    assert coal.first == pytest.approx((1 / 4 + 1 / 4 + 0) / 3)
    assert coal.second == pytest.approx((3 / 4 + 3 / 4 + 1 / 2) / 3)
    assert coal.value == pytest.approx(1 / 2)
    assert found.measures["coal_pro"].value == pytest.approx(1 / 2)
    assert found.measures["coal_non"].value == pytest.approx(1 / 2)
    assert set(found.measures) == {entry.name for entry in measures("coal")}
    assert found.n == 10 and found.clusters == {"occupations": 3, "templates": 4}


def test_mcnemar_by_hand() -> None:
    (found,) = compare(A, B, scoring=Scoring())
    test = found.mcnemar
    # A is biased on items 0 and 5, B on 0, 1, 3, 4, 6, 7, 8.
    assert (test.both, test.only_first, test.only_second, test.neither) == (1, 1, 6, 2)
    assert test.p == pytest.approx(2 * (math.comb(7, 0) + math.comb(7, 1)) / 2**7)


def test_occupations_by_hand() -> None:
    (found,) = compare(A, B, scoring=Scoring())
    rows = {row.occupation: row for row in found.occupations}
    assert list(rows) == ["cop", "clerk", "nurse"]
    assert rows["cop"].to_dict() | {"stereotype": ""} == {
        "occupation": "cop",
        "stereotype": "",
        "n": 4,
        "first": 0.0,
        "second": 0.75,
        "difference": 0.75,
        "gained": 3,
        "lost": 0,
    }
    assert rows["nurse"].difference == pytest.approx(0.25)
    assert (rows["nurse"].gained, rows["nurse"].lost) == (2, 1)


def test_occupation_scores_are_those_of_the_audit() -> None:
    from evenli.audit.suites.coal.results import by_occupation

    sample = Sample(random_table(3))
    scores = dict(by_occupation(sample).select("occupation", "score").iter_rows())
    mine = sample.frame.with_columns(biased=pl.Series(sample.biased)).group_by("occupation")
    for name, score in mine.agg(pl.col("biased").mean()).iter_rows():
        assert score == pytest.approx(scores[name])


def test_a_run_against_itself() -> None:
    (found,) = compare(random_table(3), random_table(3), scoring=Scoring())
    for difference in defined(found).values():
        assert (difference.value, difference.low, difference.high, difference.p) == (0, 0, 0, 1)
        assert not difference.significant
    assert found.mcnemar.p == 1 and found.mcnemar.only_first == found.mcnemar.only_second == 0
    assert all(row.difference == 0 for row in found.occupations)


def test_swapping_flips_signs_and_keeps_p() -> None:
    first, second = random_table(0), random_table(1)
    (there,), (back,) = (
        compare(first, second, scoring=Scoring()),
        compare(second, first, scoring=Scoring()),
    )
    for name, d in defined(there).items():
        other = back.measures[name]
        assert other.value == pytest.approx(-d.value)
        assert (other.low, other.high) == (pytest.approx(-d.high, abs=1e-9), pytest.approx(-d.low, abs=1e-9))
        assert other.p == pytest.approx(d.p)
    assert back.mcnemar.p == there.mcnemar.p
    assert back.mcnemar.only_first == there.mcnemar.only_second
    flipped = [(row.occupation, -row.difference) for row in there.occupations]
    assert flipped == [(row.occupation, row.difference) for row in back.occupations]


def test_row_order_does_not_matter() -> None:
    first, second = random_table(0), random_table(1)
    shuffled = Predictions(second.frame.sample(fraction=1, shuffle=True, seed=3))
    (straight,), (mixed,) = (
        compare(first, second, scoring=Scoring()),
        compare(first, shuffled, scoring=Scoring()),
    )
    assert defined(straight) == defined(mixed) and straight.mcnemar == mixed.mcnemar


def test_p_is_never_zero_and_nothing_is_random() -> None:
    items = _items(random_table(0))
    follow = {"PS": "e", "AS": "c", "NS": "e"}
    even, biased = table("n" * len(items), items), table("".join(follow[item[0]] for item in items), items)
    (found,) = compare(even, biased)
    # Every item differs by the same; an occupation that was not asked might not.
    assert 0 < found.measures["coal"].p < 0.001 and found.measures["coal"].low < 1
    first, second = random_table(0), random_table(1)
    assert defined(compare(first, second)[0]) == defined(compare(first, second)[0])


def test_equal_answers_of_two_models_leave_room_for_a_difference() -> None:
    first = random_table(0)
    second = Predictions(first.frame.with_columns(pl.col(label) * 0.9 for label in LABELS))
    coal = compare(first, second)[0].measures["coal"]
    assert coal.value == 0 and coal.low < -0.01 and coal.high > 0.01 and coal.p == 1


def test_pairing_narrows_the_interval() -> None:
    """Two models that differ on few items: the paired se is below that of two independent audits."""
    from evenli.stats.intervals import estimate_measures
    from evenli.stats.measure import get_measure

    first = random_table(0)
    answers = [LABELS[i][0] for i in first.logits.argmax(axis=1)]
    second = table("".join(["n" if i % 9 == 0 else a for i, a in enumerate(answers)]), _items(first))
    (found,) = compare(first, second, scoring=Scoring())
    separate = [
        estimate_measures(Sample(t), [get_measure("coal")], scoring=Scoring())["coal", None].se for t in (first, second)
    ]
    assert found.measures["coal"].se < 0.6 * float(np.hypot(*separate))


def _items(predictions: Predictions) -> list[tuple[str, str, str, str]]:
    return predictions.frame.select("subset", "occupation", "stereotype", "template").rows()


def test_undefined_measures_have_a_note() -> None:
    items = ITEMS[:8]  # no NS
    (found,) = compare(table("e" * 8, items), table("n" * 8, items), scoring=Scoring())
    assert math.isnan(found.measures["coal_non"].value) and found.measures["coal_non"].note
    assert not found.measures["coal_non"].significant
    assert found.measures["coal_pro"].value == pytest.approx(-1)


def test_one_cluster_gives_no_interval() -> None:
    items = [("PS", "nurse", "female", "t1")] * 4
    difference = compare(table("eenn", items), table("eeee", items))[0].measures["coal_pro"]
    assert (
        difference.value == pytest.approx(0.5)
        and np.isnan([difference.low, difference.high, difference.se, difference.p]).all()
    )
    assert difference.note == "no interval: one occupation and one template leave nothing that varies"


def test_different_items_are_refused_with_counts() -> None:
    with pytest.raises(InputError, match="7.*3"):
        align(A, Predictions(B.frame.head(7)))
    moved = Predictions(B.frame.with_columns(premise=pl.lit("other")))
    with pytest.raises(InputError, match="10.*id"):
        compare(A, moved)
    regrouped = Predictions(B.frame.with_columns(stereotype=pl.lit("male")))
    with pytest.raises(InputError, match="data"):
        compare(A, regrouped)
    with pytest.raises(InputError, match="NLI-CoAL"):
        compare(A, Predictions(B.frame.with_columns(suite=pl.lit("user"))))
    assert set(DESIGN) <= set(COLUMNS)
    with pytest.raises(InputError, match="level"):
        compare(A, B, scoring=Scoring(level=95))


def test_several_runs_are_corrected() -> None:
    first = random_table(0)
    single = compare(first, random_table(1), scoring=Scoring())[0]
    found = compare(first, random_table(1), random_table(2), first, scoring=Scoring())
    assert len(found) == 3
    for name in defined(single):
        assert found[0].measures[name].p == single.measures[name].p
        corrected = holm([f.measures[name].p for f in found])
        assert [f.measures[name].p_holm for f in found] == corrected
    assert single.measures["coal"].p_holm == single.measures["coal"].p
    assert found[2].measures["coal"].p_holm == 1


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    for name, spec, lang in (
        ("even", "fake:even", "en"),
        ("biased", "fake:biased", "en"),
        ("oracle", "fake:oracle:0.3", "en"),
        ("mute", "fake:neutral", "en"),
        ("ja", "fake:even", "ja"),
    ):
        evenli.audit(spec, lang, suites="coal", out=root / name, scoring=FAST)
    return root


def test_control_a_biased_model_is_found(runs: Path) -> None:
    stored = [load_run(runs / name) for name in ("even", "oracle")]
    compared = compare_runs(*stored, scoring=Scoring())
    (found,) = compared.suites["coal"]
    coal = found.measures["coal"]
    assert coal.value == pytest.approx(0.2) and coal.low > 0 and coal.significant
    # 30 of 100 stereotyped occupations are followed, in 20 items each.
    assert found.mcnemar.only_second == 600 and found.mcnemar.only_first == 0
    assert sum(row.difference > 0 for row in found.occupations) == 30
    assert "significantly higher: NLI-CoAL 0.000 -> 0.200" in compared.conclusion("coal")
    same = compare_runs(stored[0], stored[0], scoring=Scoring())
    assert "not significant" in same.conclusion("coal")


def saying_man(run: Audit, rows: pl.Expr) -> Audit:
    """The same model, but that it reads a man in some rows."""
    coal = (pl.col("suite") == "coal") & (pl.col("group") == "male") & rows
    said = pl.when(coal).then(99.0).otherwise("entailment").cast(pl.Float32).alias("entailment")
    table = Predictions(run.predictions.frame.with_columns(said), run.header)
    return Audit(assess(table), table)


def test_the_conclusion_names_the_cause(runs: Path) -> None:
    even = load_run(runs / "even")
    assumes = saying_man(even, pl.col("template").str.contains("a"))
    text = compare_runs(even, assumes).conclusion("coal")
    assert "default gender is higher" in text and "total error is higher" in text
    assert "Stereotype does not differ" in text
    text = compare_runs(assumes, even).conclusion("coal")
    assert "default gender is lower" in text
    follows = compare_runs(even, load_run(runs / "oracle")).conclusion("coal")
    assert "total error is higher" in follows and "default gender is" not in follows
    assert "None of the causes" in compare_runs(even, even).conclusion("coal")


def test_words_that_state_a_group_count_in_a_comparison_only_if_asked(runs: Path) -> None:
    even = load_run(runs / "even")
    other = saying_man(even, pl.col("occupation") == "businessman")
    found = {
        published: compare_runs(even, other, scoring=Scoring(published=published)).suites["coal"][0]
        for published in (False, True)
    }
    assert {comparison.measures["coal"].value for comparison in found.values()} == {found[True].measures["coal"].value}
    assert found[False].measures["default_gender"].value == pytest.approx(0)
    assert found[True].measures["default_gender"].value > 0
    out = CliRunner().invoke(app, [str(runs / "even"), str(runs / "biased"), "--published", "--json"])
    assert json.loads(out.output)["scoring"]["published"] is True


def test_a_mute_model_gives_no_conclusion(runs: Path) -> None:
    stored = [load_run(runs / name) for name in ("biased", "mute")]
    compared = compare_runs(*stored, scoring=Scoring())
    assert "competent" in compared.conclusion("coal")


def test_command_prints_and_json_is_strict(runs: Path) -> None:
    out = CliRunner().invoke(app, [str(runs / "even"), str(runs / "biased")])
    assert out.exit_code == 0
    for text in ("5,420 shared items", "NLI-CoAL", "+1.000", "95% interval", "McNemar", "Conclusion", "261 more"):
        assert text in out.output, text
    assert "Holm" not in out.output
    arguments = [str(runs / n) for n in ("even", "biased", "oracle")]
    out = CliRunner().invoke(app, [*arguments, "--json"])
    content = json.loads(out.output, parse_constant=lambda name: pytest.fail(name))
    first, second = content["comparisons"]
    assert first["measures"]["coal"]["value"] == pytest.approx(1.0)
    assert second["measures"]["coal"]["value"] == pytest.approx(0.2)
    assert first["measures"]["coal"]["p_holm"] == pytest.approx(2 * first["measures"]["coal"]["p"])
    assert first["mcnemar"]["p"] >= 0 and len(first["occupations"]) == 271
    out = CliRunner().invoke(app, [*arguments])
    assert "p (Holm)" in out.output


CAUSES = ("stereotype", "default_gender", "total_error")


def test_causes_are_corrected_for_one_another(runs: Path) -> None:
    stored = [load_run(runs / name) for name in ("even", "biased", "oracle")]
    found = compare_runs(*stored).to_dict()["comparisons"]
    p = {(name, i): comparison["measures"][name]["p"] for name in CAUSES for i, comparison in enumerate(found)}
    together = dict(zip(p, holm(list(p.values())), strict=True))
    assert {(name, i): found[i]["measures"][name]["p_holm"] for name, i in p} == pytest.approx(together)
    # Two runs: the smallest of three p is multiplied by 3.
    (single,) = compare_runs(*stored[::2]).to_dict()["comparisons"]
    least = min((single["measures"][name] for name in CAUSES), key=lambda row: row["p"])
    assert 0 < least["p"] < 0.01 and least["p_holm"] == pytest.approx(3 * least["p"])
    assert single["measures"]["coal"]["p_holm"] == single["measures"]["coal"]["p"]


def test_a_table_for_a_paper(runs: Path, tmp_path: Path) -> None:
    names = ("even", "oracle", "biased")
    arguments = [str(runs / name) for name in names]
    out = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "t.csv")])
    assert out.exit_code == 0 and "t.csv: 12 rows" in out.output
    rows = pl.read_csv(tmp_path / "t.csv").to_dicts()
    compared = compare_runs(*map(load_run, arguments))
    for row, (measure, run) in zip(rows, [(m, n) for m in (*CAUSES, "coal") for n in range(3)], strict=True):
        # On the same pairs the audit has the same value and the same interval.
        stored = load_run(arguments[run]).coal.measures[measure]
        assert [row[key] for key in ("value", "low", "high")] == pytest.approx(
            [stored.value, stored.low, stored.high], abs=1e-6
        )
        change = compared.suites["coal"][run - 1].measures[measure] if run else None
        numbers = (change.value, change.low, change.high, change.p, change.p_holm) if change else (None,) * 5
        assert [
            row[key] for key in ("difference", "difference_low", "difference_high", "p", "p_holm")
        ] == pytest.approx(list(numbers))
    out = CliRunner().invoke(app, [*arguments, "--json", "-o", str(tmp_path / "t.MD")])
    assert json.loads(out.output)["comparisons"]  # nothing but JSON on stdout
    lines = (tmp_path / "t.MD").read_text(encoding="utf-8").splitlines()
    assert [line.count(" | ") for line in lines[:14]] == [4] * 14


def test_a_latex_table_holds_no_command_of_a_model(runs: Path, tmp_path: Path) -> None:
    even, other = load_run(runs / "even"), load_run(runs / "oracle")
    evil = msgspec.structs.replace(other.result.model, name="a_b & 5% \\input{x} bert-0")
    other = replace(other, result=msgspec.structs.replace(other.result, model=evil))
    write_comparison(compare_runs(even, other), tmp_path / "t.tex")
    lines = (tmp_path / "t.tex").read_text(encoding="utf-8").splitlines()
    assert r"a\_b \& 5\% \textbackslash{}input\{x\} bert-0" in "\n".join(lines)
    body = [line for line in lines if line.endswith(r"\\")]
    assert len(body) == 9 and all(re.sub(r"\\&", "", line).count("&") == 4 for line in body)
    assert lines.count(r"\addlinespace") == 3 and not [line for line in lines if re.search(r"^[^%]*[^$\w]-\d", line)]
    # Names stand in comments, too, and none of them ends its line.
    assert all(line.startswith(("%", "\\")) or line.endswith(r"\\") for line in lines)


def test_a_table_of_other_formats_is_refused_before_any_work(tmp_path: Path) -> None:
    out = CliRunner().invoke(app, ["nowhere", "nowhere", "-o", str(tmp_path / "t.html")])
    assert isinstance(out.exception, InputError) and ".tex" in str(out.exception)
    assert not list(tmp_path.iterdir())


def test_command_refuses_other_data_in_one_line(runs: Path) -> None:
    out = CliRunner().invoke(app, [str(runs / "even"), str(runs / "ja")])
    assert isinstance(out.exception, InputError)
    assert "data" in str(out.exception) and str(runs / "ja") in str(out.exception)
    assert "\n" not in str(out.exception)


def test_incomplete_runs_say_what_is_missing(runs: Path, tmp_path: Path) -> None:
    import shutil

    with pytest.raises(RunError, match="nowhere"):
        load_run(tmp_path / "nowhere")
    with pytest.raises(RunError, match="run.json"):
        load_run(tmp_path)

    def copy(name: str) -> Path:
        return Path(shutil.copytree(runs / "even", tmp_path / name))

    folder = copy("a")
    (folder / "results.json").unlink()
    with pytest.raises(RunError, match="results.json"):
        load_run(folder)
    header = json.loads((folder / "run.json").read_text())
    for content, message in (
        ("{", "results.json"),
        ('{"schema": 99, "evenli": "9.0"}', "schema 99"),
        ('{"schema": 1, "evenli": "0.1"}', "schema 1"),
        ('{"schema": 3}', "verdict"),
    ):
        (folder / "results.json").write_text(content)
        files = {**header["files"], "results.json": hash_files([folder / "results.json"])}
        (folder / "run.json").write_text(json.dumps(with_hash({**header, "files": files})))
        with pytest.raises(RunError, match=message):
            load_run(folder)
    folder = copy("b")
    (folder / "predictions.parquet").unlink()
    with pytest.raises(RunError, match="predictions.parquet"):
        load_run(folder)
    folder = copy("c")
    header = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(with_hash(header | {"status": "running"})))
    with pytest.raises(RunError, match="complete"):
        load_run(folder)
    (folder / "run.json").write_text(json.dumps(with_hash(header | {"data": [{"suite": "user"}]})))
    with pytest.raises(RunError, match="audit"):
        load_run(folder)
    for version in (1, 99):
        (folder / "run.json").write_text(json.dumps(with_hash(header | {"schema": version})))
        with pytest.raises(RunError, match=f"schema {version}"):
            load_run(folder)


def test_two_models_of_one_name_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An embedded model keeps its name when another takes its place; the model's hash keeps their runs apart."""
    models = [load_model(f"fake:oracle:{share}") for share in (0.1, 0.9)]
    for model in models:
        model.info = msgspec.structs.replace(model.info, name="en-small")
    runs = [
        evenli.audit(model, limit=20, out=tmp_path / name) for model, name in zip(models, ("old", "new"), strict=True)
    ]
    marks = [run.result.model.fingerprint[:8] for run in runs]
    assert marks[0] != marks[1] and model_names(runs) == [f"en-small {mark}" for mark in marks]
    assert model_names([runs[0], runs[0]]) == ["en-small", "en-small"]
    show_comparison(compare_runs(*runs), Console(width=200))
    shown = capsys.readouterr().out
    assert all(f"en-small {mark}" in shown for mark in marks)
    # What the former model answered is never continued with the one that took its place.
    with pytest.raises(RunError, match="another model"):
        evenli.audit(models[1], limit=20, out=tmp_path / "old")
    assert load_run(tmp_path / "old").result.model.fingerprint[:8] == marks[0]
