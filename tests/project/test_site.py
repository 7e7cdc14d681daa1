"""The documentation site: built once without a warning, then read in a real browser from the folder, without a server.

Skipped, with the reason, where Zensical, chromium or axe-core is missing; see test_report_browser.py for the last two.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT

pytest.importorskip("zensical", reason="the site needs zensical: pip install 'evenli[docs]'")
yaml = pytest.importorskip("yaml")
_PATIENCE = 180_000
MAIN = ("index", "tutorials/ship", "howto/own-data", "explanation/critiques", "studies/mitigation", "reference/api")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as ``make docs`` builds it, in a folder of its own; any warning fails."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs")
    for name in ("mkdocs.yml", "CHANGELOG.md"):  # no links: the site is written beside the file that is read
        shutil.copy(ROOT / name, folder)
    (folder / "src").symlink_to(ROOT / "src")
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def html_of(site: Path) -> dict[str, str]:
    return {str(file.relative_to(site)): file.read_text(encoding="utf-8") for file in site.rglob("*.html")}


def test_every_page_is_in_the_navigation_and_is_built(site: Path) -> None:
    def pages(entry: Any) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        else:
            for one in entry if isinstance(entry, list) else entry.values():
                yield from pages(one)

    listed = list(pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    written = sorted(str(file.relative_to(ROOT / "docs")) for file in (ROOT / "docs").rglob("*.md"))
    assert sorted(listed) == written
    assert all((site / page).with_suffix(".html").is_file() for page in listed)


def test_nothing_comes_from_elsewhere(site: Path) -> None:
    for name, text in html_of(site).items():
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]+src=\"?([^\" >]+)", text)
        loaded += re.findall(r"<link[^>]+(?:stylesheet|preconnect|preload)[^>]*href=\"?([^\" >]+)", text)
        assert not [address for address in loaded if "//" in address], name
    for style in site.rglob("*.css"):
        assert not re.findall(r"url\([\"']?(?:https?:)?//[^)]*\)", style.read_text(encoding="utf-8")), style.name


def test_links_images_and_anchors_inside_the_site_resolve(site: Path) -> None:
    pages = html_of(site)
    anchors = {name: set(re.findall(r"\bid=\"?([^\" >]+)", text)) for name, text in pages.items()}
    for name, text in pages.items():
        if name == "404.html":
            continue
        for target in re.findall(r"(?:href|src)=\"([^\"]+)\"", text):
            path, _, anchor = target.partition("#")
            if "//" in path or path.startswith(("mailto:", "data:")):
                continue
            file = ((site / name).parent / path).resolve() if path else site.resolve() / name
            assert file.exists(), f"{name} links to {target}"
            if anchor and file.suffix == ".html":
                known = anchors[str(file.relative_to(site.resolve()))]
                assert anchor in known or anchor.startswith("__"), f"{name} links to {target}"


def test_the_reference_names_everything_public(site: Path) -> None:
    import evenli

    page = (site / "reference" / "api.html").read_text(encoding="utf-8")
    homes = {name: home.replace(":", ".") for name, home in evenli._PUBLIC.items()}
    assert not [name for name, home in homes.items() if f'id="evenli.{home}"' not in page]


# What follows needs a browser.


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright")
    chromium = os.environ.get("EVENLI_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield started
        started.close()


@pytest.fixture
def visit(browser: Any, site: Path) -> Iterator[Callable[..., Any]]:
    """Open a page of the site from its folder; whatever it logs, throws or asks the network for fails the test."""
    complaints: list[str] = []
    pages = []

    def open_page(name: str, width: int, scheme: str = "light") -> Any:
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        pages.append(page)
        page.set_default_timeout(_PATIENCE)  # a busy machine is no defect of the site
        page.on(
            "console",
            lambda said: said.type in {"error", "warning"} and complaints.append(f"{name}: {said.type} {said.text}"),
        )
        page.on("pageerror", lambda error: complaints.append(f"{name}: {error}"))
        page.on(
            "request", lambda r: r.url.startswith(("file:", "data:", "blob:")) or complaints.append(f"{name}: {r.url}")
        )
        page.goto((site / f"{name}.html").as_uri())
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []


@pytest.mark.parametrize("width", [1440, 390])
def test_search_finds_the_measure(visit: Callable[..., Any], width: int) -> None:
    page = visit("tutorials/ship", width)
    page.keyboard.press("/")
    page.wait_for_function("document.activeElement !== document.body")
    page.keyboard.type("NLI-CoAL")
    result = page.locator("a[href*='methods.html']", has_text="NLI-CoAL").first
    result.wait_for(state="visible")
    result.click()
    page.wait_for_url("**/explanation/methods.html*")
    assert "NLI-CoAL" in page.locator("article").inner_text()


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_pages_fit_and_axe_finds_nothing(visit: Callable[..., Any], width: int, scheme: str) -> None:
    axe = Path(os.environ.get("EVENLI_AXE") or ROOT / "node_modules" / "axe-core" / "axe.min.js")
    if not axe.is_file():
        pytest.skip(f"no axe-core at {axe}: npm install --no-save axe-core, or set EVENLI_AXE")
    found = []
    # The narrow and dark form has the same styles on every page; all of them are looked at once.
    for name in MAIN if scheme == "light" else MAIN[::2]:
        page = visit(name, width, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        # The reference repeats the form of its first entries many times.
        page.evaluate("[...document.querySelectorAll('.doc-object')].slice(8).forEach(entry => entry.remove())")
        page.evaluate(axe.read_text(encoding="utf-8"))
        result = page.evaluate("axe.run(document, {resultTypes: ['violations'], preload: false})")
        assert result["passes"], "axe ran"
        found += [
            f"{name}: {one['id']} ({one['impact']}): {one['nodes'][0]['html'][:150]}" for one in result["violations"]
        ]
    assert found == []
