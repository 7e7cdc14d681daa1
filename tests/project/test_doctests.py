"""Examples in docstrings run; only modules that have some are imported, in the process that checks them."""

from __future__ import annotations

import doctest
import importlib

import pytest

from conftest import ROOT

SOURCE = ROOT / "src"
MODULES = [
    ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for file in sorted(SOURCE.rglob("*.py"))
    if ">>> " in file.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted and not result.failed


def test_there_are_examples() -> None:
    assert len(MODULES) > 40
