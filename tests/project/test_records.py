"""Results are records: one way to JSON and back, and a schema that is made from the type."""

from __future__ import annotations

import ast
import importlib
import json
import math
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import jsonschema
import numpy as np
import pytest

import evenli
from evenli.audit.compare import compare_runs
from evenli.audit.differences import ComparisonResult
from evenli.audit.gate import gate
from evenli.audit.predictions import summarise
from evenli.audit.verify import verify_run
from evenli.core.errors import RunError
from evenli.core.record import Estimate, Number, Record
from evenli.corpus.mitigation.card import Balance, Balances, CorpusCard, Counts, PairScores, Threshold
from evenli.encoders.seat import SeatResult
from evenli.training.meta.sweep import Ranked, SweepResult
from evenli.training.nli import Outcome

SOURCE = Path(evenli.__file__).parent
SETTINGS = {"Settings", "ScoreSettings", "_Settings"}
"""Settings and not results: their fields are what is stored."""
LIVE = {"Audit", "RunComparison"}
"""Results with tables and models in them; what they store is a record."""


def records(kind: type[Record] = Record) -> Iterator[type[Record]]:
    for child in kind.__subclasses__():
        yield child
        yield from records(child)


@pytest.fixture(scope="module", autouse=True)
def every_module() -> None:
    for module in pkgutil.walk_packages(evenli.__path__, "evenli."):
        if (
            not module.name.endswith((".inspect_task", ".mteb", ".st"))
            and "__main__" not in module.name
            and "lm_eval" not in module.name
        ):
            importlib.import_module(module.name)


def test_nothing_but_records_has_its_own_way_to_json() -> None:
    """A class with ``to_dict`` and without ``from_dict`` can be written and not read."""
    names = {kind.__name__ for kind in records()} | {"Record"}
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name not in SETTINGS | LIVE:
                own = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
                assert "to_dict" not in own or (node.name in names and "from_dict" in own), f"{file.name}: {node.name}"


def test_every_record_has_a_valid_schema() -> None:
    kinds = [kind for kind in records() if kind.__module__.startswith("evenli.")]
    assert len(kinds) > 70
    for kind in kinds:
        schema = kind.json_schema()
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["description"], kind
        assert schema["properties"].keys() >= {*kind.__struct_fields__, *kind.computed}
        assert {*kind.optional} <= {*kind.__struct_fields__}


def returns(record: Record) -> dict[str, Any]:
    """A record through JSON and back, checked against its schema."""
    text = json.dumps(record.to_dict(), allow_nan=False)
    plain = json.loads(text)
    again = type(record).from_dict(plain)
    assert json.loads(json.dumps(again.to_dict(), allow_nan=False)) == plain
    return plain


def valid(record: Record) -> dict[str, Any]:
    plain = returns(record)
    jsonschema.Draft202012Validator(type(record).json_schema()).validate(plain)
    return plain


def test_results_of_runs_come_back(tmp_path: Path) -> None:
    first, second = (
        evenli.audit(f"fake:{name}", out=tmp_path / name, suites=("coal", "probe"), limit=300)
        for name in ("biased", "even")
    )
    passed = valid(gate(first, policy="standard"))
    assert passed["passed"] is False and passed["policy"] == "standard"
    assert "policy" not in valid(gate(second, ["coal > 0.9"]))
    assert set(valid(summarise(first.predictions))) >= {"shares", "accuracy", "timings"}
    assert valid(verify_run(tmp_path / "even"))["numbers"] > 40
    compared = compare_runs(first, second)
    plain = returns(compared.result)
    assert plain == compared.to_dict() and plain["data"]["suite"] == "coal" and "probe" in plain
    again = ComparisonResult.from_dict(plain)
    assert again.judged == "coal" and again.suites.keys() == {"coal", "probe"}
    assert again.suites["coal"].comparisons[0].measures["coal"].value == pytest.approx(-1)
    returns(first.result)


class _Encoder:
    def encode(self, texts: list[str]) -> np.ndarray:
        return np.array([[len(text), text.count("e") + 0.5, ord(text[0])] for text in texts], dtype=np.float32)


def test_association_tests_come_back() -> None:
    result = evenli.seat(_Encoder(), ["C6", "C8"])
    plain = valid(result)
    assert plain["mean"] is None and plain["kind"] == "association tests"  # six tests make a mean
    assert SeatResult.from_dict(plain)["C6"].p == result["C6"].p


def test_numbers_that_were_stored_in_full_stay_full(tmp_path: Path) -> None:
    third = 1 / 3
    dev = Estimate(third, 0.1, 0.6, 0.1, 0.95, 9)
    outcome = Outcome(tmp_path, 1, 10, third, third, dev, (dev,))
    plain = valid(outcome)
    assert plain["seconds"] == third == plain["history"][0]["value"] and plain["folder"] == str(tmp_path)
    assert Outcome.from_dict(plain) == outcome
    counts = Counts(10, 0, 3, 3, 0, 0, 7, {"corpus": 7})
    balance = Balances(*[Balance(50.0, 25.0, {"neutral": 100.0})] * 3)
    scores = PairScores({"p50": third}, None, "all rows")
    card = CorpusCard({}, "x", ["text"], Threshold(90, third), counts, scores, {}, balance, [], "shown", {})
    assert valid(card)["threshold"]["value"] == third and CorpusCard.from_dict(card.to_dict()) == card
    ranked = Ranked("coal", third, None, third, None, "")
    assert valid(ranked)["net_sensitivity"] == third
    assert math.isnan(Ranked.from_dict(ranked.to_dict()).pearson)
    sweep = SweepResult(
        "en", "x", [1], {"bias": [0.0, third], "mix": [[0.0, third]]}, {"lowest": math.nan}, [], [ranked], []
    )
    plain = returns(sweep)
    assert plain["levels"]["mix"] == [[0.0, third]] and plain["held_out_accuracy"] == {"lowest": None}
    assert math.isnan(SweepResult.from_dict(plain).held_out_accuracy["lowest"])


class Small(Record, frozen=True):
    """A record of a plug-in."""

    optional: ClassVar[tuple[str, ...]] = ("note", "count")

    value: Number
    other: float | None = None
    note: str = ""
    count: int | None = None


def test_undefined_is_nan_where_a_number_is_expected_and_none_where_it_may_be_absent() -> None:
    assert Small(math.nan).to_dict() == {"value": None, "other": None}
    again = Small.from_dict({"value": None, "other": None, "unknown": 1})
    assert math.isnan(again.value) and again.other is None
    assert Small(1 / 3, count=0).to_dict() == {
        "value": 0.333333,
        "other": None,
        "count": 0,
    }  # a count of 0 is not empty
    with pytest.raises(RunError, match="value"):
        Small.from_dict({"value": "much"})


def test_a_changed_record_keeps_the_rules() -> None:
    """Old versions of msgspec did not look at what ``replace`` was given."""
    from msgspec import structs

    from evenli.audit.results import ModelInfo

    assert structs.replace(ModelInfo(name="a"), name="\x1b[2Jb").name == "\\x1b[2Jb"
    assert math.isnan(structs.replace(Small(1.0), value=None).value)  # type: ignore[arg-type]
