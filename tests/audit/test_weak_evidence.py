"""The gate weighs its evidence: a limit, answers that change, truncated pairs, intervals that reach a bound."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import polars as pl
import pytest
from msgspec import structs

import evenli
from evenli.audit.assess import Audit
from evenli.audit.gate import Check, gate
from evenli.audit.gate.expressions import fields
from evenli.audit.models import fake_model
from evenli.audit.models.base import Prepared
from evenli.audit.report.card import card
from evenli.audit.results import DataCard, Repeat, Timings
from evenli.audit.suites.coal.pairs import build_coal
from evenli.core.errors import InputError
from evenli.testing import assert_even


@pytest.fixture(scope="module")
def even() -> Audit:
    return evenli.audit("fake:even", suites=("coal",))


def found(audit: Audit, **options: Any) -> dict[str, Check]:
    return {check.name: check for check in gate(audit, **options).checks}


def weaker(audit: Audit, **changes: Any) -> Audit:
    return Audit(structs.replace(audit.result, **changes), audit.predictions)


def test_full_evidence_passes_and_is_named(even: Audit) -> None:
    checks = found(even)
    assert gate(even).passed is True
    assert [checks[name].status for name in ("all pairs asked", "answers repeat", "pairs read in full")] == [
        "passed"
    ] * 3
    known = fields(even.result)
    assert [known[f"evidence.{name}"] for name in ("asked", "changed", "truncated")] == pytest.approx([1, 0, 0])
    assert even.result.evidence.lines == [] and "limit" not in card(even).lower().split("what it does not show")[0]


@pytest.mark.parametrize("limit", [12, 60, 1000])
@pytest.mark.parametrize("suites", [("coal",), ("groups",)])
def test_a_limited_audit_never_passes(limit: int, suites: Sequence[str]) -> None:
    audit = evenli.audit("fake:even", suites=suites, limit=limit)
    decided = gate(audit)
    assert decided.passed is None and "all pairs asked" in decided.problem
    assert audit.result.evidence.asked == pytest.approx(sum(c.rows for c in audit.result.data) / whole(audit), abs=1e-9)
    assert 0 < audit.result.evidence.asked < 1
    # Conditions can bound it, and conditions alone do not ask for it.
    assert gate(audit, ["evidence.asked < 0.9"]).passed is False
    assert gate(audit, ["competence.gold < 0.5"]).passed is True


def whole(audit: Audit) -> int:
    return sum(card.whole or card.rows for card in audit.result.data)


@pytest.mark.parametrize("rate", ["0.4", "0.5"])
@pytest.mark.parametrize("limit", [12, 60])
def test_a_limit_passes_no_model_that_all_pairs_fail(rate: str, limit: int) -> None:
    for seed in range(3):
        assert not gate(evenli.audit(f"fake:oracle:{rate}", suites=("coal",), limit=limit, seed=seed)).passed


def test_a_limit_beyond_the_pairs_limits_nothing(even: Audit) -> None:
    audit = evenli.audit("fake:even", suites=("coal",), limit=100_000)
    assert audit.result.evidence.asked == pytest.approx(1) and gate(audit).passed is True


def test_answers_that_change_decide_nothing(even: Audit) -> None:
    again = weaker(even, repeat=Repeat(64, 0.9, 56, 0.001))
    assert found(again)["answers repeat"].status == "undecided" and gate(again).passed is None
    assert fields(again.result)["evidence.changed"] == pytest.approx(56 / 64)
    assert gate(weaker(even, repeat=Repeat(64, 0.6, 3, 0.001))).passed is True
    assert gate(weaker(even, repeat=Repeat(64, 0.6, 4, 0.001))).passed is None
    assert gate(weaker(even, repeat=None)).passed is None  # nobody knows
    assert "87.5% of the answers changed" in card(again)


def test_truncated_pairs_decide_nothing(even: Audit) -> None:
    cut = weaker(even, timings=Timings(pairs=6000, distinct_pairs=6000, truncated=5000))
    assert found(cut)["pairs read in full"].status == "undecided" and gate(cut).passed is None
    assert fields(cut.result)["evidence.truncated"] == pytest.approx(5 / 6)
    assert gate(weaker(even, timings=Timings(distinct_pairs=100, truncated=5))).passed is True
    assert gate(weaker(even, timings=Timings(distinct_pairs=100, truncated=6))).passed is None
    assert "83.3% of the pairs were too long" in card(cut)


def test_an_audit_counts_what_it_truncates_and_asks_twice() -> None:
    """From the model to the gate, not from a record made by hand."""
    inner = fake_model("even")
    prepare, logits, seen = inner.prepare, inner.logits, set[Any]()

    def cut(premises: Sequence[str], hypotheses: Sequence[str]) -> Prepared:
        prepared = prepare(premises, hypotheses)
        return Prepared(prepared.items, prepared.lengths, truncated=len(premises) // 2)

    def moody(items: Any) -> Any:
        first = not seen & set(items)
        seen.update(items)
        return logits(items)[:, [0, 1, 2] if first else [1, 2, 0]]

    inner.prepare = cut  # type: ignore[method-assign]
    inner.logits = moody  # type: ignore[method-assign]
    audit = evenli.audit(inner, suites=("coal",))
    assert audit.result.evidence.truncated == pytest.approx(0.5, abs=0.01) and gate(audit).passed is None
    assert audit.result.evidence.changed == pytest.approx(1)
    assert {found(audit)[name].status for name in ("answers repeat", "pairs read in full")} == {"undecided"}


def test_few_pairs_without_a_limit_pass_nothing() -> None:
    """A small file of one's own: the intervals reach the bound, whatever the answers are."""
    table = build_coal("en").where(pl.col("occupation").is_in(["nurse", "engineer", "writer", "teacher", "carpenter"]))
    few = table.where(pl.col("template").is_in(table.frame["template"].unique(maintain_order=True)[:6].implode()))
    audit = evenli.audit("fake:even", data=few, suites=("coal",))
    decided = gate(audit)
    assert audit.result.evidence.asked == pytest.approx(1)
    assert decided.passed is None
    weak = [check.name for check in decided.checks if check.status == "undecided"]
    assert "no clear stereotype" in weak and "all pairs asked" not in weak


def test_a_policy_bounds_the_evidence_or_leaves_it_out(even: Audit, tmp_path: Path) -> None:
    clause = '[[clause]]\nname = "low"\nfail_if = "coal.low > 0.5"\nreason = "r"\n'
    file = tmp_path / "ours.toml"
    limited = evenli.audit("fake:even", suites=("coal",), limit=600)
    for text, passed in (
        ("", True),
        ("[evidence]\nasked = 0.05\n", True),
        ("[evidence]\nasked = 0.5\n", None),
        ('undecided_if = "coal.high > 0.0001"\n', None),
        ('undecided_if = "coal.high > 0.9"\n', True),
    ):
        file.write_text('name = "ours"\n' + clause + text)
        assert gate(limited, policy=file).passed is passed, text
    for text, problem in (
        ("[evidence]\nasked = 2.0\n", "asked"),
        ("[evidence]\nrepeated = 1\n", "repeated"),
        ('undecided_if = "cool > 1"\n', "clause 'low'.*cool"),
    ):
        file.write_text('name = "ours"\n' + clause + text)
        with pytest.raises(InputError, match=problem):
            gate(even, policy=file)
    # A run that fails is failed, however weak its evidence is.
    file.write_text('name = "ours"\n' + clause.replace("> 0.5", "< 2") + 'undecided_if = "coal < 2"\n')
    assert gate(limited, policy=file).passed is False


def test_every_door_says_undecided(tmp_path: Path, run_cli: Callable[..., Any]) -> None:
    evenli.audit("fake:even", suites=("coal",), limit=60, out=tmp_path / "run")
    done = run_cli("gate", tmp_path / "run", "--junit", tmp_path / "x.xml", "--json")
    assert done.returncode == 3 and json.loads(done.stdout)["passed"] is None
    assert re.fullmatch(r'evenli: cannot decide "all pairs asked": .*\n', done.stderr)
    assert ET.parse(tmp_path / "x.xml").getroot().get("errors") != "0"
    with pytest.raises(InputError, match="all pairs asked"):
        assert_even("fake:even", suites=("coal",), limit=60)
    evenli.report(tmp_path / "run", tmp_path / "report.html")
    asked = evenli.load_run(tmp_path / "run").result.evidence.lines
    assert len(asked) == 1 and asked[0] in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert asked[0] in card(tmp_path / "run")


def test_a_card_of_a_set_knows_the_whole() -> None:
    plain = DataCard("n", "coal", rows=5)
    assert "whole" not in plain.to_dict() and DataCard("n", "coal", rows=5, whole=9).to_dict()["whole"] == 9
