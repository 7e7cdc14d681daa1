"""Every cell of the notebooks runs, in order, in one process; the last expression of a cell must show itself."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, skip_without

skip_without("altair", "vl_convert")
NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))


def run(source: str, names: dict[str, Any]) -> Any:
    """The value of the last expression of a cell, as a notebook would show it."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if isinstance(last, ast.Expr) else None


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    content = json.loads(notebook.read_text(encoding="utf-8"))
    assert content["nbformat"] == 4 and content["cells"][0]["cell_type"] == "markdown"
    names: dict[str, Any] = {}
    shown = []
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "outputs are not stored: they would grow stale"
            shown.append(run("".join(cell["source"]), names))
    rich = [value for value in shown if value is not None and hasattr(value, "_repr_html_")]
    assert any(
        "Who does the model see?" in value._repr_html_() for value in rich if isinstance(value._repr_html_(), str)
    )
    assert (tmp_path / "comparison.html").stat().st_size > 100_000


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS
