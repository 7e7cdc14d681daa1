"""Documentation that can go stale is checked."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from conftest import ROOT


def test_command_line_page_is_current() -> None:
    out = subprocess.run(
        [sys.executable, ROOT / "tools" / "make_cli_docs.py", "--check"], capture_output=True, text=True
    )
    assert out.returncode == 0, out.stderr


def test_page_of_data_cards_is_current() -> None:
    """Also that every file that ships has a card and a place on the page."""
    command = [sys.executable, ROOT / "tools" / "make_data_cards.py", "--check"]
    out = subprocess.run(command, capture_output=True, text=True)
    assert out.returncode == 0, out.stderr


def test_links_between_pages_resolve() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / Path(target)).exists(), f"{page.name} links to {target}"


def test_version_is_the_same_everywhere() -> None:
    from evenli import __version__

    assert f"version: {__version__}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {__version__} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
