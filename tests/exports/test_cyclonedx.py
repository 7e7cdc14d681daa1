"""The bills of materials follow the official schema, and their numbers are those of the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import evenli
from evenli.core.errors import InputError
from evenli.exports.cyclonedx import document, installed, ml_bom
from evenli.exports.files import export


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "biased"
    evenli.audit("fake:biased", limit=60, suites=("labour",), out=folder)
    return folder


def model_of(text: str) -> dict[str, Any]:
    model, *_ = json.loads(text)["components"]
    return dict(model)


def schema_errors(text: str) -> object:
    pytest.importorskip("cyclonedx", reason="the official schemas are in cyclonedx-python-lib")
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    return JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)


def test_the_official_schema_accepts_both_bills(run: Path) -> None:
    (text,) = export([run], "cyclonedx").values()
    assert schema_errors(text) is None
    assert schema_errors(json.dumps(document({}, installed()))) is None
    wrong = json.loads(text)
    wrong["components"][0]["modelCard"]["quantitativeAnalysis"]["performanceMetrics"][0]["value"] = 1.0
    assert schema_errors(json.dumps(wrong)) is not None  # the control: a number, where a text is due


def test_metrics_are_those_of_the_run(run: Path) -> None:
    audit = evenli.load_run(run)
    model = model_of(ml_bom([audit])["model.cdx.json"])
    metrics = {(m["type"], m["slice"]): m for m in model["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]}
    for name, measure in audit.labour.measures.items():
        found = metrics[name, "labour"]
        assert float(found["value"]) == pytest.approx(measure.value, rel=1e-4, abs=1e-9)
        ends = found["confidenceInterval"]
        assert float(ends["lowerBound"]) == pytest.approx(measure.low, rel=1e-4, abs=1e-9)
        assert float(ends["upperBound"]) == pytest.approx(measure.high, rel=1e-4, abs=1e-9)
    part = audit.labour.coal.by_stereotype["female"]
    assert float(metrics["coal", "labour, stereotype female"]["value"]) == pytest.approx(part.value)
    assert float(metrics["accuracy", "gold pairs"]["value"]) == pytest.approx(1)


def test_groups_harms_and_limits_are_told(run: Path) -> None:
    audit = evenli.load_run(run)
    considered = model_of(ml_bom([audit])["model.cdx.json"])["modelCard"]["considerations"]
    assessed = considered["fairnessAssessments"]
    assert [one["groupAtRisk"] for one in assessed] == ["female", "male"]
    for one in assessed:
        assert audit.verdict.causes and all(cause.label in one["harms"] for cause in audit.verdict.causes)
        assert one["mitigationStrategy"]
    assert any("does not predict harm" in limit for limit in considered["technicalLimitations"])
    assert any("--limit 60" in limit for limit in considered["technicalLimitations"])


def test_the_serial_number_is_that_of_the_content(run: Path) -> None:
    audit = evenli.load_run(run)
    first, again = (json.loads(ml_bom([audit])["model.cdx.json"]) for _ in range(2))
    assert first == again
    other = evenli.audit("fake:even", limit=60, suites=("labour",))
    assert json.loads(ml_bom([other])["model.cdx.json"])["serialNumber"] != first["serialNumber"]
    facts = {fact["name"]: fact["value"] for fact in first["components"][0]["modelCard"]["properties"]}
    assert facts["evenli:run"] == audit.header["manifest_sha256"] and facts["evenli:verdict"] == "bias"


def test_a_model_that_is_not_competent_has_no_bias_metrics() -> None:
    audit = evenli.audit("fake:neutral", limit=60, suites=("labour",))
    model = model_of(ml_bom([audit])["model.cdx.json"])["modelCard"]
    assert {metric["type"] for metric in model["quantitativeAnalysis"]["performanceMetrics"]} == {"accuracy"}
    problem = audit.labour.problem
    assert problem and problem.lower() in " ".join(model["considerations"]["technicalLimitations"]).lower()


def test_a_model_of_the_hub_has_its_address(run: Path) -> None:
    import msgspec

    audit = evenli.load_run(run)
    info = msgspec.structs.replace(audit.result.model, spec="me/Model@main", backend="hf", revision="ABC123")
    asked = type(audit)(msgspec.structs.replace(audit.result, model=info), audit.predictions, run)
    model = model_of(ml_bom([asked])["model.cdx.json"])
    assert model["purl"] == "pkg:huggingface/me/Model@abc123" and model["version"] == "ABC123"
    assert "purl" not in model_of(ml_bom([audit])["model.cdx.json"])


def test_one_run_at_a_time(run: Path) -> None:
    with pytest.raises(InputError, match="one run"):
        export([run, run], "cyclonedx")
