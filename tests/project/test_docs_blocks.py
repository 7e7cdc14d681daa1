"""Every code block of README, tutorials and how-tos runs and shows what it prints; tools/docs_blocks.py says how."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from conftest import ROOT
from evenli.audit.models.base import Tokens
from evenli.audit.models.onnx import OnnxModel
from evenli.core.registry import SUITES

sys.path.insert(0, str(ROOT / "tools"))
from docs_blocks import PAGES, blocks_of, complaints, differs, run_page

NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


@pytest.fixture(scope="module", autouse=True)
def answered_once() -> Iterator[None]:
    """A pair that the embedded model has answered on one page is not computed again for another."""
    known: dict[tuple[str, bytes], np.ndarray] = {}
    compute = OnnxModel.logits

    def logits(model: OnnxModel, items: Tokens) -> np.ndarray:
        places = zip(items.starts, items.lengths, strict=True)
        keys = [(model.info.name, items.ids[start : start + length].tobytes()) for start, length in places]
        new = np.array([row for row, key in enumerate(keys) if key not in known], dtype=np.int64)
        if len(new):
            known.update(zip([keys[row] for row in new], compute(model, items[new]), strict=True))
        return np.stack([known[key] for key in keys])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OnnxModel, "logits", logits)
        yield


@pytest.mark.parametrize("name", NAMES)
def test_a_page_runs_and_shows_what_it_prints(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SUITES, "_added", {})  # a suite that a page registers is gone with the page
    check(ROOT / name, tmp_path.resolve(), slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if any(block.slow for block in blocks_of(ROOT / name))])
def test_slow_blocks_run_too(name: str, tmp_path: Path) -> None:
    check(ROOT / name, tmp_path.resolve(), slow=True)


def check(page: Path, folder: Path, slow: bool) -> None:
    assert list(complaints(page, blocks_of(page))) == []
    for block, produced in run_page(page, folder, slow):
        if block.output:
            assert differs(block.output.text, produced) == "", f"{page.name}:{block.output.line}: make docs-outputs"


def test_few_blocks_are_left_out_and_each_has_a_reason() -> None:
    code = [block for page in PAGES for block in blocks_of(page) if block.language in {"bash", "python"}]
    left_out = [block for block in code if not block.runs]
    assert len(code) > 50 and len(left_out) < 0.25 * len(code)
    assert all(len(block.note) > 20 for block in left_out)


def test_a_difference_is_seen(tmp_path: Path) -> None:
    assert differs("a 0.50 b", "a 0.51 b") == "" and differs("a\n…\nd 3", "a\nb\nc\nd 3\n") == ""
    assert differs("1 passed …", "1 passed in 2.79s") == "" and differs("1 passed …", "1 failed in 2.79s")
    assert differs("a 0.50", "a 0.60") and differs("a", "a\nb") and differs("a\nb", "a") and differs("-0.4", "0.4")
    page = tmp_path / "page.md"
    page.write_text(
        '```python title="one.py"\nx = 2\n```\n\n```python\nfrom one import x\nprint(x)\n```\n\n```text\n3\n```\n'
    )
    (tmp_path / "run").mkdir()
    [(block, produced)] = run_page(page, tmp_path / "run")
    assert produced == "2\n" and differs(block.output.text, produced)
    page.write_text("```bash\nexit 3\n```\n")
    (tmp_path / "again").mkdir()
    with pytest.raises(AssertionError, match="exit 3, expected 0"):
        run_page(page, tmp_path / "again")


def test_the_first_screen_of_the_readme_is_one_screen() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 75 and text.count("\n## ") <= 5
    assert (ROOT / "docs" / "figures" / "hero.svg").stat().st_size > 5_000
