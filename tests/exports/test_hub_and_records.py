"""Results for the hub and for Every Eval Ever: their readers accept them, and the numbers are those of the run."""

from __future__ import annotations

import json
import math
from hashlib import sha256
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from huggingface_hub import parse_eval_result_entries

import evenli
from evenli.core.errors import InputError
from evenli.exports.files import export

SCHEMAS = Path(__file__).parent / "every_eval_ever"
"""Those of version 0.3.0 (commit 9bce413), under the MIT licence that lies beside them."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "biased"
    evenli.audit("fake:oracle:0.7", limit=60, suites=("labour",), out=folder)
    return folder


def validator(name: str) -> Any:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    return jsonschema.Draft7Validator(schema)


def test_the_hub_reads_every_listed_measure(run: Path, tmp_path: Path) -> None:
    export([run], "eval-results", tmp_path / ".eval_results")
    text = (tmp_path / ".eval_results" / "evenli.yaml").read_text(encoding="utf-8")
    entries = parse_eval_result_entries(yaml.safe_load(text))
    audit = evenli.load_run(run)
    values = {entry.task_id: entry.value for entry in entries}
    assert {entry.dataset_id for entry in entries} == {"evenli/labour"} and len(values) == len(entries)
    assert values["en-coal"] == pytest.approx(audit.labour.value, abs=1e-6)
    assert values["en-stereotype"] == pytest.approx(audit.labour.stereotype.value, abs=1e-6)
    (coal,) = (entry for entry in entries if entry.task_id == "en-coal")
    assert coal.notes is not None and f"n {audit.labour.main.n}" in coal.notes
    assert coal.date == audit.header["created"] and str(coal.source_url).startswith("https://")


def test_a_mute_model_is_not_listed_as_fair(tmp_path: Path) -> None:
    evenli.audit("fake:neutral", limit=60, suites=("labour",), out=tmp_path / "mute")
    (text,) = export([tmp_path / "mute"], "eval-results").values()
    assert [entry["dataset"]["task_id"] for entry in yaml.safe_load(text)] == ["en-accuracy"]
    content = json.loads(next(iter(export([tmp_path / "mute"], "every-eval-ever").values())))
    assert {result["metric_config"]["metric_id"] for result in content["evaluation_results"]} == {"accuracy"}


def test_the_schema_accepts_the_record_and_every_line(run: Path, tmp_path: Path) -> None:
    files = export([run], "every-eval-ever", tmp_path)
    path, samples = files
    content, lines = json.loads(files[path]), files[samples].splitlines()
    assert list(validator("eval").iter_errors(content)) == []
    each = validator("instance_level_eval")
    assert [error for line in lines for error in each.iter_errors(json.loads(line))] == []
    about = content["detailed_evaluation_results"]
    assert about["total_rows"] == len(lines) == evenli.load_run(run).predictions.frame.height
    assert about["file_path"] == samples and (tmp_path / samples).is_file()
    assert about["checksum"] == sha256((tmp_path / samples).read_bytes()).hexdigest()
    assert files == export([run], "every-eval-ever")  # the same run, the same record
    del content["evaluation_results"][0]["metric_config"]["lower_is_better"]
    assert list(validator("eval").iter_errors(content))  # the control


def test_scores_have_one_direction_and_the_numbers_of_the_run(run: Path) -> None:
    audit = evenli.load_run(run)
    content = json.loads(next(iter(export([run], "every-eval-ever").values())))
    results = {result["evaluation_result_id"]: result for result in content["evaluation_results"]}
    coal, lean, right = (results[f"labour.{name}"] for name in ("coal", "stereotype", "fn_dev"))
    assert coal["score_details"]["score"] == pytest.approx(audit.labour.value)
    interval = coal["score_details"]["uncertainty"]["confidence_interval"]
    assert (interval["lower"], interval["upper"]) == pytest.approx((audit.labour.low, audit.labour.high))
    assert coal["metric_config"]["lower_is_better"] and not right["metric_config"]["lower_is_better"]
    # A lean may go either way: what is better is to be near 0.
    assert lean["metric_config"]["lower_is_better"] and lean["metric_config"]["min_score"] == 0
    assert lean["score_details"]["score"] == pytest.approx(abs(audit.labour.stereotype.value))
    assert float(lean["score_details"]["details"]["value"]) == pytest.approx(audit.labour.stereotype.value, rel=1e-4)
    for name, result in results.items():
        config, found = result["metric_config"], result["score_details"]
        low, high = (float(str(config[end]).replace("Infinity", "inf")) for end in ("min_score", "max_score"))
        assert low <= found["score"] <= high, name
        ends = found["uncertainty"].get("confidence_interval", {"lower": -math.inf, "upper": math.inf})
        assert ends["lower"] <= found["score"] + 1e-9 and found["score"] <= ends["upper"] + 1e-9, name


def test_lines_say_what_was_answered(run: Path) -> None:
    audit = evenli.load_run(run)
    aggregate, samples = export([run], "every-eval-ever").values()
    content = json.loads(aggregate)
    rows = [json.loads(line) for line in samples.splitlines()]
    assert {row["evaluation_id"] for row in rows} == {content["evaluation_id"]}
    held = {result["evaluation_result_id"] for result in content["evaluation_results"]}
    assert {row["evaluation_result_id"] for row in rows} <= held
    frame, answers = audit.predictions.frame, audit.predictions.answers
    right = sum(answer == gold for answer, gold in zip(answers, frame["gold"], strict=True))
    assert sum(row["evaluation"]["score"] for row in rows) == pytest.approx(right)
    gold = [row["evaluation"]["is_correct"] for row in rows if row.get("evaluation_result_id") == "check.gold"]
    assert audit.result.competence is not None
    assert sum(gold) / len(gold) == pytest.approx(audit.result.competence.gold.value)


def test_one_run_is_described(run: Path) -> None:
    for kind in ("eval-results", "every-eval-ever"):
        with pytest.raises(InputError, match="one run"):
            export([run, run], kind)
