"""Pages and stored answers are of the models that ship; tools/embedded_numbers.py makes both anew."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import embedded_numbers as tool

pytest.importorskip("vl_convert")
pytest.importorskip("statsmodels")
DOCS = ROOT / "docs"
PAGES = {
    part: page for page in sorted(DOCS.rglob("*.md")) for _, part, _ in tool.MARKED.findall(page.read_text("utf-8"))
}
Out = pytest.CaptureFixture[str]


def test_pages_quote_the_models_that_ship(capsys: Out) -> None:
    assert set(PAGES) == set(tool.PARTS)
    assert tool.main(["--check"]) == 0, capsys.readouterr().out


@pytest.mark.usefixtures("shared_data")
@pytest.mark.parametrize("part", [*tool.PARTS, *tool.FIGURES])
def test_a_number_that_does_not_hold_is_found(part: str, tmp_path: Path, capsys: Out) -> None:
    page = PAGES.get(part, DOCS / "figures" / f"{part}.svg")
    text = page.read_text(encoding="utf-8")
    start = re.compile("share: |low: ") if part in tool.FIGURES else re.compile(f"{part} -->")
    digit = re.compile(r"\d").search(text, start.search(text).end())
    assert digit is not None
    changed = tmp_path / page.relative_to(DOCS)
    changed.parent.mkdir(parents=True, exist_ok=True)
    changed.write_text(f"{text[: digit.start()]}{9 - int(digit[0])}{text[digit.end() :]}", encoding="utf-8")
    assert tool.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().out.startswith(f"{changed.relative_to(tmp_path)} shows other numbers")
    assert tool.main([], tmp_path) == 0 and tool.said(changed.read_text("utf-8")) == tool.said(text)
    assert part in tool.FIGURES or changed.read_text(encoding="utf-8") == text


def test_answers_of_another_model_or_to_other_pairs_are_found(monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    entries = tool.stored()
    entries["zh gold"]["pairs"] = entries["ja coal"]["model"] = "0" * 64
    monkeypatch.setattr(tool, "stored", lambda: entries)
    assert tool.main(["--check"]) == 1
    assert "that ship: ja coal; zh gold: " in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("which", tool.SETS, ids=" ".join)
def test_the_models_still_give_the_stored_answers(which: tuple[str, ...], shared_data: Path) -> None:
    pairs = tool.pairs_of(*which)
    logits = tool.logits_of(tool.stored()[" ".join(which)]["answers"])
    rows = np.arange(0, len(pairs), max(1, len(pairs) // 200))
    again = tool.logits_of(tool.ask(which, replace(pairs, frame=pairs.frame[rows])))
    assert np.mean(again.argmax(axis=1) == logits[rows].argmax(axis=1)) > 0.99
    assert np.median(np.abs(again - logits[rows])) <= 0.01
