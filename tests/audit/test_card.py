"""The model card and the tables: what the hub and LaTeX read is what was measured."""

from __future__ import annotations

import dataclasses
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
import typer
import yaml
from typer.testing import CliRunner

import evenli
from evenli.audit.audit import Audit, load_run
from evenli.audit.commands.audit import card as card_command
from evenli.audit.commands.audit import table as table_command
from evenli.audit.models import ModelOptions
from evenli.audit.predictions import Predictions
from evenli.audit.report.card import card, command, front_matter, section
from evenli.audit.report.export import latex, latex_text, markdown, tables, write_table
from evenli.audit.suites.coal.verdict import CAUSES
from evenli.core.errors import InputError, MissingExtraError, RunError
from evenli.core.format import printable
from evenli.core.record import Scoring
from evenli.exports.trackers import log_mlflow

NASTY = 'x: "y"\n---\n- [z](javascript:1) <script>alert(1)</script> | `rm` \\ # 女医 😀 \x7f\u2028 *b* _i_'
cards, table_app = typer.Typer(), typer.Typer()
cards.command()(card_command)
table_app.command()(table_command)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    folder = tmp_path_factory.mktemp("runs") / "oracle"
    evenli.audit("fake:oracle:0.9", "ja", out=folder, scoring=Scoring())
    return load_run(folder)


@pytest.fixture(scope="module")
def mute(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    folder = tmp_path_factory.mktemp("runs") / "mute"
    evenli.audit("fake:neutral", suites="coal", out=folder, scoring=Scoring())
    return load_run(folder)


def renamed(run: Audit, name: str) -> Audit:
    replace = msgspec.structs.replace
    model = replace(run.result.model, name=name, spec=name)
    cards = [replace(card, name=name, notes=[name]) for card in run.result.data]
    return dataclasses.replace(run, result=replace(run.result, model=model, data=cards))


def with_header(run: Audit, **changes: Any) -> Audit:
    return dataclasses.replace(run, predictions=Predictions(run.predictions.frame, {**run.header, **changes}))


def front(text: str) -> dict:
    _, matter, _ = text.split("---\n", 2)
    return yaml.safe_load(matter)


def test_front_matter_is_what_was_measured(run: Audit) -> None:
    (model,) = front(front_matter(run))["model-index"]
    (result,) = model["results"]
    assert model["name"] == "fake oracle:0.9"
    assert result["task"]["type"] == "text-classification"
    assert result["dataset"] == {
        "type": "nli-coal",
        "name": "NLI-CoAL (built-in)",
        "config": "ja",
        "split": "full",
        "revision": run.result.data_of("coal").sha256,
    }
    metrics = {metric["type"]: metric for metric in result["metrics"]}
    assert set(metrics) == {*CAUSES, "coal", "follow", "defy", "fn_bias", "accuracy"}
    coal = run.coal.main.to_dict()
    assert metrics["coal"]["value"] == coal["value"] == pytest.approx(0.6)
    assert metrics["coal"]["args"] == {key: coal[key] for key in ("low", "high", "level", "n")}
    assert metrics["accuracy"]["value"] == pytest.approx(1.0)


def test_a_mute_model_publishes_no_bias_score(mute: Audit) -> None:
    (result,) = front(front_matter(mute))["model-index"][0]["results"]
    assert [metric["type"] for metric in result["metrics"]] == ["accuracy"]
    assert section(mute).splitlines()[2].startswith("**No verdict: the model is not competent")


def test_the_hub_reads_it(run: Audit) -> None:
    hub = pytest.importorskip("huggingface_hub")
    parsed = hub.ModelCard(card(run))
    found = {result.metric_type: result.metric_value for result in parsed.data.eval_results}
    assert found["coal"] == pytest.approx(0.6) and parsed.data.model_name == "fake oracle:0.9"
    assert parsed.data.eval_results[0].source_url.startswith("https://")


def test_section_says_everything(run: Audit) -> None:
    text = section(run)
    low, high = run.coal.low, run.coal.high
    for part in (
        "**This model strongly follows stereotypes about jobs",
        "| Who does the model see? | a woman | a man |",
        "It strongly follows stereotypes: ",
        "5,420 pairs",
        f"| coal | 0.600 | {low:.3f} | {high:.3f} | 0..1 | higher = more biased |",
        "Competence: 1.000 [",
        "not that nothing is there",
        "    evenli audit fake:oracle:0.9 --lang ja",
    ):
        assert part in text, part


def test_names_are_text_and_nothing_else(run: Audit) -> None:
    hostile = renamed(run, NASTY)
    (model,) = front(front_matter(hostile))["model-index"]
    # Control characters are spelled out wherever a name is kept, so none reaches a card.
    shown = printable(NASTY)
    assert model["name"] == shown and "\n" not in shown
    assert model["results"][0]["dataset"]["name"] == f"NLI-CoAL ({shown})"
    text = section(hostile)
    prose = [line for line in text.splitlines() if not line.startswith("    ")]
    assert not any("<script>" in line for line in prose)
    assert r"\<script\>" in text and r"\[z\](javascript:1)" in text
    # The command is one indented code line, quoted for the shell.
    assert "\n" not in command(hostile) and command(hostile).startswith("evenli audit 'x: ")
    assert "--data DATA" in command(hostile)


def test_card_command(run: Audit) -> None:
    whole = CliRunner().invoke(cards, [str(run.path)]).output
    parts = [CliRunner().invoke(cards, [str(run.path), "--part", part]).output for part in ("yaml", "markdown")]
    assert whole == "\n".join(parts) and whole.startswith("---\nmodel-index:") and parts[1].startswith("## Gender bias")
    out = CliRunner().invoke(cards, [str(run.path), "--part", "html"])
    assert isinstance(out.exception, InputError) and "all, yaml or markdown" in str(out.exception)


def test_tables_hold_all_measures_and_occupations(run: Audit) -> None:
    found = tables(run.result)
    measures, occupations = found["measures"], found["occupations"]
    assert measures.height == 3 * len(run.coal.measures)
    row = measures.row(by_predicate=(pl.col("measure") == "coal") & (pl.col("slice") == "all"), named=True)
    assert row["value"] == pytest.approx(0.6) and row["n"] == 5420 and row["range"] == "0..1"
    undefined = measures.row(by_predicate=(pl.col("measure") == "coal_non") & (pl.col("slice") == "male"), named=True)
    assert undefined["value"] is None and undefined["note"].startswith("undefined")
    assert occupations.height == 271 and occupations["score"].is_sorted(descending=True)


@pytest.mark.parametrize("what", ["measures", "occupations"])
def test_tables_read_back(run: Audit, tmp_path: Path, what: str) -> None:
    frame = tables(run.result)[what]
    write_table(frame, tmp_path / "new" / "t.parquet")
    assert pl.read_parquet(tmp_path / "new" / "t.parquet").equals(frame)
    write_table(frame, tmp_path / "t.csv")
    text = (
        pl.col(pl.String).fill_null("").str.strip_prefix("'")
    )  # goes before what a spreadsheet would compute, such as -1..1
    read = pl.read_csv(tmp_path / "t.csv", schema=frame.schema).with_columns(text)
    assert read.equals(frame)
    write_table(frame, tmp_path / "t.md")
    assert len((tmp_path / "t.md").read_text().splitlines()) == frame.height + 2
    write_table(frame, tmp_path / "t.tex")
    assert (tmp_path / "t.tex").read_text().count(r"\\") == frame.height + 1


def test_unusable_outputs_are_refused(run: Audit, tmp_path: Path) -> None:
    frame = tables(run.result)["measures"]
    with pytest.raises(InputError, match=r"\.csv"):
        write_table(frame, tmp_path / "t.xlsx")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="t.csv"):
        write_table(frame, tmp_path / "file" / "t.csv")


def test_markdown_and_latex_are_escaped() -> None:
    frame = pl.DataFrame({"a_b": ["x|y <b>`*[", "50% & \\cmd{~^$#_}"], "value": [0.12345, None]})
    lines = markdown(frame).splitlines()
    assert lines[1] == "| --- | ---: |"
    assert lines[2] == r"| x\|y \<b\>\`\*\[ | 0.123 |"
    assert lines[3].endswith("| n/a |")
    text = latex(frame)
    assert r"a\_b & value \\" in text
    assert r"50\% \& \textbackslash{}cmd\{\textasciitilde{}\textasciicircum{}\$\#\_\} & n/a \\" in text
    assert latex_text("line\nbreak") == "line break"
    assert r"\begin{tabular}{lr}" in text


def test_table_command(run: Audit, tmp_path: Path) -> None:
    out = CliRunner().invoke(table_app, [str(run.path)])
    assert out.output.startswith("| measure | slice | value |")
    out = CliRunner().invoke(table_app, [str(run.path), "--what", "occupations", "-o", str(tmp_path / "o.csv")])
    assert out.exit_code == 0 and "271 rows" in out.output.replace("\n", "")
    out = CliRunner().invoke(table_app, [str(run.path), "--what", "items"])
    assert isinstance(out.exception, InputError)


def test_mlflow_is_optional(run: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    def absent(name: str) -> object:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(MissingExtraError, match=r"evenli\[tracking\]"):
        log_mlflow(run)


def test_the_command_asks_the_same_again(run: Audit, tmp_path: Path) -> None:
    """What the card prints is parsed back into the options that the audit had."""
    evenli.audit(
        "fake:even",
        out=tmp_path / "run",
        suites=("coal", "dev2020"),
        options=ModelOptions(labels=("entailment", "neutral", "contradiction"), max_length=64, dtype="float32"),
        scoring=Scoring(),
    )
    words = shlex.split(command(load_run(tmp_path / "run")))
    assert words[:3] == ["evenli", "audit", "fake:even"] and "--data" not in words
    for option, value in (
        ("--suite", "coal,dev2020"),
        ("--labels", "entailment,neutral,contradiction"),
        ("--max-length", "64"),
        ("--dtype", "float32"),
    ):
        assert words[words.index(option) + 1] == value
    # Nothing is added where everything is at its default, as the command line passes it.
    settings = {**run.header["settings"], "options": dataclasses.asdict(ModelOptions())}
    assert command(with_header(run, settings=settings)) == command(run)
    spaced = renamed(run, "my  own/it's")
    assert shlex.split(command(spaced))[2] == "my  own/it's"


def test_data_of_several_suites_names_its_suite(run: Audit) -> None:
    result, replace = run.result, msgspec.structs.replace
    probe = replace(result.data_of("coal"), suite="probe", name="probe from mine.csv")
    suites = {"coal": run.coal, "probe": run.coal}
    text = command(dataclasses.replace(run, result=replace(result, data=[*result.data, probe], suites=suites)))
    assert "--suite coal,probe --data probe=DATA" in text and "coal=DATA" not in text


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_command_names_a_part_and_an_axis() -> None:
    limited = command(evenli.audit("fake:even", limit=600, seed=3))
    assert "--limit 600" in limited and "--seed 3" in limited and "--data" not in limited
    assert "--axis age" in command(evenli.audit("fake:even", axis="age", limit=600))


def test_a_shell_reads_the_command_back(run: Audit) -> None:
    name = "a  b\n\x7fc 'd' \"e\" $HOME `x` 女"
    shown = printable(name)
    line = command(renamed(run, name)).replace("evenli audit", "printf %s", 1).split(" --lang")[0]
    assert "\n" not in line
    assert subprocess.run(["bash", "-c", line], capture_output=True, check=True).stdout.decode() == shown
