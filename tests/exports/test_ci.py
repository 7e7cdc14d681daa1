"""What continuous integration shows says what the run says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import evenli
from evenli.audit.report.terminal import summarise
from evenli.core.errors import InputError
from evenli.core.format import prose
from evenli.exports.ci import LARGEST, MARK
from evenli.exports.files import export

ISSUES = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "minLength": 1},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "pattern": "^[^./]"},
                    "lines": {"type": "object", "required": ["begin"], "properties": {"begin": {"type": "integer"}}},
                },
            },
        },
    },
}
"""The fields that GitLab's page on Code Quality lists."""
NAME = "<img src=x> | [click](http://evil)"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, kind in (("old", "even"), ("new", "biased"), ("mute", "neutral")):
        evenli.audit(f"fake:{kind}", limit=60, suites=("labour",), out=folder / name)
    return folder


def test_a_job_summary_has_verdict_numbers_and_limits(runs: Path, run_cli: Any) -> None:
    audit = evenli.load_run(runs / "new")
    (text,) = export([runs / "new"], "github").values()
    assert run_cli("export", runs / "new", "--as", "github").stdout == text
    assert summarise(audit).sentence in text
    assert re.search(rf"\| coal \| {audit.labour.value:.3f} \|", text)
    assert "predict harm" in text and "evenli audit fake:biased" in text
    assert text.count("<details>") == text.count("</details>") == 1


def test_issues_follow_the_verdict_and_keep_their_fingerprint(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs)
    (text,) = export([Path("new")], "gitlab").values()
    issues = json.loads(text)
    jsonschema.validate(issues, ISSUES)
    audit = evenli.load_run("new")
    found = {issue["check_name"]: issue for issue in issues}
    for cause in audit.verdict.causes:
        issue = found[f"evenli-{cause.name.replace('_', '-')}"]
        assert cause.label in issue["description"]
        assert issue["severity"] == {"slight": "minor", "clear": "major", "strong": "critical"}[cause.size]
        assert issue["location"]["path"] == "new/results.json"
    assert found["evenli-evidence"]["severity"] == "info"  # --limit was set
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)
    evenli.audit("fake:oracle:0.9", limit=60, suites=("labour",), out="new", overwrite=True)
    (later,) = export([Path("new")], "gitlab").values()
    prints = {issue["check_name"]: issue["fingerprint"] for issue in json.loads(later)}
    assert prints["evenli-stereotype"] == found["evenli-stereotype"]["fingerprint"]
    (mute,) = export([Path("mute")], "gitlab").values()
    assert {issue["severity"] for issue in json.loads(mute)} == {"blocker", "info"}


def test_a_comment_tells_before_and_after(runs: Path, tmp_path: Path) -> None:
    evenli.audit("fake:biased", limit=60, suites=("labour",), out=tmp_path / "new")
    (text,) = export([tmp_path / "new", runs / "old"], "comment").values()
    before, after = evenli.load_run(runs / "old"), evenli.load_run(tmp_path / "new")
    assert text.startswith(MARK) and len(text) < LARGEST
    assert prose(after.verdict.sentence) in text and prose(before.verdict.sentence) in text
    (row,) = re.findall(r"^\| NLI-CoAL \|(.*)\|$", text, re.MULTILINE)
    first, second, *_, beyond = (cell.strip() for cell in row.split("|"))
    assert (float(first), float(second)) == pytest.approx((before.labour.value, after.labour.value), abs=1e-3)
    assert beyond == "**yes**"
    (same,) = export([runs / "old", runs / "old"], "comment").values()
    assert "**yes**" not in same  # the control
    for wrong in ([runs / "old"], [runs / "old"] * 3):
        with pytest.raises(InputError, match="two runs"):
            export(wrong, "comment")


def test_a_name_is_no_markup(tmp_path: Path) -> None:
    def answer(premises: list[str], hypotheses: list[str]) -> list[str]:
        return ["neutral"] * len(premises)

    answer.__qualname__ = NAME
    evenli.audit(answer, limit=20, suites=("labour",), out=tmp_path / "run")
    for kind, count in (("github", 1), ("comment", 2)):
        (text,) = export([tmp_path / "run"] * count, kind).values()
        # What is indented by four is code, where nothing is markup.
        lines = [line for line in text.splitlines() if not line.startswith("    ")]
        assert all(re.search(r"(?<!\\)(<img|\]\(http)", line) is None for line in lines)
        assert any("<img" in line for line in lines)
