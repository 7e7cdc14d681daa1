"""results.json keeps its promise: the schema describes every key, and every run satisfies it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import evenli
from evenli.audit.assess import assess
from evenli.audit.predictions import SCHEMA, Predictions, RunFolder
from evenli.audit.report.export import results_schema
from evenli.core.record import Scoring

RESULTS = results_schema()
VALIDATOR = jsonschema.Draft202012Validator(RESULTS)
FAST = Scoring()


def stored(folder: Path, *arguments: Any, **more: Any) -> dict[str, Any]:
    evenli.audit(*arguments, out=folder, scoring=FAST, **more)
    return json.loads((folder / "results.json").read_text(encoding="utf-8"))


def objects(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object schema in the file."""
    if isinstance(node, dict):
        if "properties" in node:
            yield path, node
        for key, value in node.items():
            yield from objects(value, f"{path}/{key}")
    elif isinstance(node, list):
        for number, value in enumerate(node):
            yield from objects(value, f"{path}/{number}")


def test_the_schema_is_valid_and_describes_every_key() -> None:
    jsonschema.Draft202012Validator.check_schema(RESULTS)
    assert RESULTS["properties"]["schema"]["const"] == SCHEMA
    for path, node in objects(RESULTS):
        assert "additionalProperties" in node and node.get("description"), path
    described = [
        RESULTS,
        *(RESULTS["$defs"][name] for name in ("Estimate", "MeasureResult", "Competence", "CoalResult")),
    ]
    for node in described:
        assert all(entry.get("description") for entry in node["properties"].values())


def test_a_suite_and_its_measures_are_open(tmp_path: Path) -> None:
    """Plug-ins add suites under their names and measures to suites; the schema is made from what is installed."""
    results = stored(tmp_path / "run", "fake:biased", suites=("coal", "probe", "dev2020"))
    VALIDATOR.validate(results)
    measures = results["coal"]["measures"]
    measures["mine"] = {**measures["coal"], "title": "mine"}
    VALIDATOR.validate(results)


@pytest.mark.parametrize(
    ("spec", "lang"),
    [
        ("fake:even", "en"),
        ("fake:biased", "en"),
        ("fake:wrong", "en"),
        ("fake:neutral", "en"),
        ("fake:random", "ja"),
        ("fake:oracle:0.9", "ja"),
        ("fake:oracle:0.4", "zh"),
    ],
)
def test_audits_satisfy_it(spec: str, lang: str, tmp_path: Path) -> None:
    VALIDATOR.validate(stored(tmp_path / "run", spec, lang))


def test_partial_tables_satisfy_it(tmp_path: Path) -> None:
    """No header, no gold pairs, no NS: keys become null or absent, never another shape."""
    import polars as pl

    table = evenli.audit("fake:biased", scoring=FAST).predictions
    frame = table.frame.filter((pl.col("suite") == "coal") & (pl.col("subset") != "NS"))
    folder = RunFolder(tmp_path)
    folder.write_results(assess(Predictions(frame), FAST).to_dict(), {})
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert results["competence"] is None and results["data"] == []
    assert results["coal"]["measures"]["coal_non"]["value"] is None
    VALIDATOR.validate(results)


def test_control_broken_results_do_not(tmp_path: Path) -> None:
    good = stored(tmp_path / "run", "fake:oracle:0.5")
    VALIDATOR.validate(good)

    def broken(*path: str, value: Any = None, remove: bool = False) -> dict[str, Any]:
        bad = copy.deepcopy(good)
        node = bad
        for key in path[:-1]:
            node = node[key]
        if remove:
            del node[path[-1]]
        else:
            node[path[-1]] = value
        return bad

    for bad in (
        broken("verdict", remove=True),
        broken("verdict", "code", value="fair"),
        broken("coal", "measures", "coal", "low", remove=True),
        broken("coal", "measures", "coal", "value", value="0.3"),
        broken("coal", "measures", "coal", "surprise", value=1),
        broken("coal", "proportions", "PS", "entailment", value="1"),
        broken("coal", "occupations", remove=True),
        {key: part for key, part in good.items() if key not in {"coal", "labour"}},
        broken("surprise", value=1),
        broken("schema", value=1),
        broken("scoring", "level", value="many"),
    ):
        assert not VALIDATOR.is_valid(bad)


@pytest.mark.parametrize("kept", [["AS", "NS"], ["PS"], ["NS"]])
def test_undefined_verdicts_satisfy_it(kept: list[str], tmp_path: Path) -> None:
    import polars as pl

    table = evenli.audit("fake:biased", scoring=FAST).predictions
    for checks in (["gold", "control"], ["control"], ["gold"]):
        frame = table.frame.filter(pl.col("subset").is_in([*checks, *kept]))
        folder = RunFolder(tmp_path)
        folder.write_results(assess(Predictions(frame, table.header), FAST).to_dict(), {})
        results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
        assert results["verdict"]["code"] == "none"
        VALIDATOR.validate(results)
