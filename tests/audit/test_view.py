"""The page over all runs: who may ask, what is shown, what is never run, in a real browser too."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import evenli
from conftest import skip_without
from evenli.audit.models.onnx import EMBEDDED
from evenli.audit.report import gallery
from evenli.audit.report import runs as listed
from evenli.audit.report.gallery import LONGEST, export, load_asked, make_app
from evenli.audit.report.runs import RunEntry, Runs, find_runs
from evenli.core.errors import InputError, ModelError, RunError

skip_without("altair", "starlette")
uvicorn = pytest.importorskip("uvicorn", reason="the page needs uvicorn: pip install 'evenli[view]'")

TOKEN = "t0ken"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("view") / "runs"
    evenli.audit("fake:oracle:0.3", suites="coal", limit=60, out=root / "old")
    evenli.audit("fake:biased", suites="coal", limit=60, out=root / "deep" / "new")
    evenli.audit("fake:even", "ja", limit=60, out=root / "<b>ja")
    (root / "broken").mkdir()
    (root / "broken" / "run.json").write_text("{")
    return root


class Site:
    """A server on a free port, and a way to ask it."""

    def __init__(self, folder: Path) -> None:
        import socket

        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen()
        self.port = self.socket.getsockname()[1]
        config = uvicorn.Config(make_app(Runs(folder), TOKEN, self.port), log_level="error", access_log=False)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self.thread.start()
        self.address = f"http://127.0.0.1:{self.port}/{TOKEN}/"

    def get(self, path: str = "", *, address: str = "", data: dict[str, str] | None = None, **headers: str):
        body = urllib.parse.urlencode(data).encode() if data is not None else None
        request = urllib.request.Request(address or self.address + path, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode(), dict(answer.headers)
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(), dict(error.headers)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(timeout=20)
        self.socket.close()


@pytest.fixture(scope="module")
def site(runs: Path) -> Iterator[Site]:
    found = Site(runs)
    yield found
    found.stop()


def identity(runs: Path, name: str) -> str:
    return next(entry.id for entry in find_runs(runs) if entry.name == name)


def test_runs_are_found_and_damaged_ones_named(runs: Path) -> None:
    entries = {entry.name: entry for entry in find_runs(runs)}
    assert set(entries) == {"old", "deep/new", "<b>ja", "broken"}
    assert entries["broken"].problem and not entries["old"].problem
    assert "follows stereotypes" in entries["deep/new"].verdict and entries["<b>ja"].lang == "ja"
    assert entries["old"].pairs == entries["deep/new"].pairs != entries["<b>ja"].pairs
    assert all(re.fullmatch(r"[\w-]+", entry.id) for entry in entries.values())
    with pytest.raises(InputError, match="no folder"):
        find_runs(runs / "none")


def test_an_edited_result_is_not_listed_as_one(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "old", tmp_path / "old")
    file = tmp_path / "old" / "results.json"
    (before,) = find_runs(tmp_path)
    file.write_text(file.read_text(encoding="utf-8").replace("stereotype", "something"), encoding="utf-8")
    (after,) = find_runs(tmp_path)
    assert before.verdict and not before.problem
    assert "edited" in after.problem and not after.verdict and not after.score


def test_the_list_is_escaped_and_under_a_policy(site: Site) -> None:
    status, page, headers = site.get()
    assert status == 200 and "&lt;b&gt;ja" in page and "<b>ja" not in page
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["referrer-policy"] == "same-origin" and headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"


def test_only_who_knows_the_token_and_the_right_name_gets_in(site: Site) -> None:
    root = f"http://127.0.0.1:{site.port}"
    for address in (f"{root}/", f"{root}/wrong/", f"{root}/{TOKEN}x/", f"{root}/{TOKEN}/../run.json"):
        assert site.get(address=address)[0] == 404, address
    assert site.get(Host="evil.example")[0] == 400
    assert site.socket.getsockname()[0] == "127.0.0.1"


def test_reports_and_comparisons(site: Site, runs: Path) -> None:
    status, page, _ = site.get(f"run/{identity(runs, 'old')}")
    assert status == 200 and "fake oracle:0.3" in page and "Content-Security-Policy" in page
    old, new, ja = (identity(runs, name) for name in ("old", "deep/new", "<b>ja"))
    status, page, _ = site.get(f"compare?run={old}&run={new}")
    assert status == 200 and "NLI-CoAL" in page and re.search(r"\+0\.\d+", page)
    for path, message in (
        (f"compare?run={old}", "two runs"),
        (f"compare?run={old}&run={ja}", "pairs|data|items"),
        (f"run/{identity(runs, 'broken')}", "broken"),
        ("run/no-such", "no such run"),
        ("run/..%2F..%2Fetc", "Not Found|no such run"),
    ):
        status, page, _ = site.get(path)
        assert status in {400, 404} and re.search(message, page), (path, page[-600:])


def test_a_sentence_is_asked_by_post_only(site: Site, runs: Path) -> None:
    path = f"ask/{identity(runs, 'deep/new')}"
    given = {"premise": "the nurse waits.", "hypothesis": "the woman waits."}
    status, page, _ = site.get(path)
    assert status == 200 and "Ask the model" in page and "Probability" not in page
    status, page, _ = site.get(f"{path}?{urllib.parse.urlencode(given)}")
    assert status == 200 and "Probability" not in page, "GET only reads"
    status, page, _ = site.get(path, data=given)
    assert status == 200 and "<h2>entailment</h2>" in page and "the nurse waits." in page
    assert site.get(path, data=given, Origin="http://evil.example")[0] == 403
    assert site.get(path, data=given, Origin=f"http://127.0.0.1:{site.port}")[0] == 200
    assert site.get(path, data={**given, "premise": "x" * (LONGEST + 1)})[0] == 400
    assert site.get(path, data={**given, "premise": "x" * 30_000})[0] == 413
    assert site.get(path, data={"premise": "only"})[0] == 400
    status, page, _ = site.get(path, data={**given, "premise": "<script>alert(1)</script>"})
    assert "<script>alert" not in page
    assert site.get("", data={})[0] == 405 and site.get("compare", data={})[0] == 405


def test_nothing_changes_by_looking(site: Site, runs: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {str(file): (file.stat().st_size, file.stat().st_mtime_ns) for file in runs.rglob("*")}

    before = state()
    for path in ("", f"run/{identity(runs, 'old')}", f"ask/{identity(runs, 'old')}"):
        assert site.get(path)[0] == 200
    site.get(f"ask/{identity(runs, 'old')}", data={"premise": "a", "hypothesis": "b"})
    assert state() == before


def test_a_run_never_makes_us_run_code(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stranger.py").write_text("raise SystemExit('run')")
    for spec in ("py:stranger:predict", "plugin:x", ""):
        with pytest.raises((ModelError, InputError)):
            load_asked(RunEntry("x", tmp_path, "x", model="m", spec=spec))


def test_a_changed_model_is_named(runs: Path, tmp_path: Path) -> None:
    from evenli.core.store import with_hash

    copy = shutil.copytree(runs / "old", tmp_path / "old")
    header = json.loads((copy / "run.json").read_text())
    header["model"]["fingerprint"] = "another"
    (copy / "run.json").write_text(json.dumps(with_hash(header)))
    (entry,) = find_runs(tmp_path)
    assert "changed" in load_asked(entry)[1]
    (same,) = (entry for entry in find_runs(runs) if entry.name == "old")
    assert load_asked(same)[1] == ""


def test_a_sentence_is_never_answered_by_a_model_that_is_gone(runs: Path, tmp_path: Path) -> None:
    folder, model = tmp_path / "runs", tmp_path / "model"
    shutil.copytree(runs / "deep" / "new", folder / "replaced")
    shutil.copytree(EMBEDDED / "en-small", model)
    evenli.audit(f"onnx:{model}", suites="coal", limit=20, out=folder / "removed")
    site = Site(folder)
    try:
        path, given = (
            f"ask/{identity(folder, 'replaced')}",
            {"premise": "the nurse waits.", "hypothesis": "the woman waits."},
        )
        assert "<h2>entailment</h2>" in site.get(path, data=given)[1]
        shutil.rmtree(folder / "replaced")
        evenli.audit("fake:even", suites="coal", limit=20, out=folder / "replaced")
        assert "<h2>neutral</h2>" in site.get(path, data=given)[1]
        path = f"ask/{identity(folder, 'removed')}"
        assert "Probability" in site.get(path, data=given)[1]
        shutil.rmtree(model)
        status, page, _ = site.get(path, data=given)
        assert status == 400 and "Probability" not in page and "no ONNX model" in page
    finally:
        site.stop()


def test_a_page_reads_no_run_that_it_does_not_show(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = tmp_path / "runs"
    for number in range(230):
        shutil.copytree(runs / ("old" if number else "deep/new"), many / f"{number:03}", symlinks=True)
    past = time.time() - 60  # as the clock of a file system may be coarse, what is new is read again
    for place in (many, *many.rglob("*")):
        os.utime(place, (past, past))
    site, read = Site(many), []
    load = listed.RunFolder.read_results
    monkeypatch.setattr(
        listed.RunFolder, "read_results", lambda run, header: (read.append(run.path.name), load(run, header))[1]
    )
    try:
        first, second, last = (site.get(f"?start={start}")[1] for start in (0, 100, 2_000))
        assert len(read) == 230
        names = [re.findall(r'aria-label="Compare (\d+)"', page) for page in (first, second, last)]
        assert [len(shown) for shown in names] == [100, 100, 30] and len(
            {name for shown in names for name in shown}
        ) == 230
        assert "Older" in first and "Newer" not in first and "Older" not in last
        assert re.findall(r'aria-label="Compare (\d+)"', site.get("?find=Fake+BIASED")[1]) == ["000"]
        monkeypatch.setattr(listed, "_FRESH", 0.0)
        place = re.search(r'href="run/(007-\w+)"', first + second + last)[1]
        read.clear()
        assert site.get()[0] == site.get(f"ask/{place}")[0] == 200 and read == []
        assert site.get(f"run/{place}")[0] == 200 and set(read) <= {"007"}
        (many / "007" / "run.json").write_text("{")
        (many / "new").mkdir()
        shutil.rmtree(many / "008")
        assert site.get(f"ask/{place}")[0] == 400 and "229 runs" in site.get()[1] and set(read) <= {"007"}
    finally:
        site.stop()


def test_names_that_are_no_text_and_links_without_an_end(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "old", os.fsdecode(os.fsencode(tmp_path) + b"/r\xff"))
    (tmp_path / "everything").symlink_to("/proc")
    (tmp_path / "itself").symlink_to(tmp_path)
    (tmp_path / "linked").symlink_to(runs / "deep" / "new")
    entries = {entry.name: entry for entry in find_runs(tmp_path)}
    assert set(entries) == {"r\\xff", "linked"}
    site = Site(tmp_path)
    try:
        for place in ("run", "ask"):
            codes = {name: site.get(f"{place}/{entry.id}")[0] for name, entry in entries.items()}
            assert codes == {"linked": 200, "r\\xff": 400}
        status, page, _ = site.get()
        assert status == 200 and page.count("not UTF-8") == 1
    finally:
        site.stop()
    written = export(tmp_path, tmp_path / "site")
    assert len(written.files) == 2 and "not UTF-8" in written.problems["r\\xff"]


def test_export_writes_files_that_need_no_server(runs: Path, tmp_path: Path) -> None:
    files = export(runs, tmp_path / "site").files
    names = {file.name for file in files}
    assert {file.name for file in (tmp_path / "site").iterdir()} == names and len(names) == 5
    index = files[0].read_text()
    links = set(re.findall(r'href="([^"]+)"', index))
    assert links == names - {"index.html"} and str(runs) not in index
    assert "try a sentence" not in index and "Content-Security-Policy" in index
    assert len(export(runs, tmp_path / "site").files) == 5  # again, over its own files
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(RunError, match=r"thesis\.txt"):
        export(runs, tmp_path / "mine")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no finished audit"):
        export(tmp_path / "empty", tmp_path / "out")


def test_export_lists_a_damaged_run_and_writes_the_others(runs: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(runs, tmp_path / "runs")
    table = copy / "old" / "predictions.parquet"
    content = bytearray(table.read_bytes())
    content[len(content) // 2] ^= 1
    table.write_bytes(content)
    written = export(copy, tmp_path / "site")
    assert set(written.problems) == {"old", "broken"} and "predictions.parquet" in written.problems["old"]
    assert len(written.files) == 3, "the list and two reports"
    index = written.files[0].read_text()
    assert index.count("cannot be shown") == 2 and str(copy) not in index
    shutil.rmtree(copy / "deep")
    shutil.rmtree(copy / "<b>ja")
    with pytest.raises(InputError, match="no finished audit"):
        export(copy, tmp_path / "other")


def test_the_policy_names_our_script_and_style() -> None:
    page = gallery.problem_page("x", "/")
    import base64
    import hashlib

    for tag in ("style", "script"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, flags=re.S)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in gallery.policy()


def test_in_a_browser(site: Site, runs: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright")
    chromium = os.environ.get("EVENLI_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 390, "height": 800})
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.goto(site.address)
        assert page.locator("tbody tr:visible").count() == 4
        page.fill("input[type=search]", "oracle")
        assert page.locator("tbody tr:visible").count() == 1 and page.inner_text("#count") == "1 shown"
        page.fill("input[type=search]", "")
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert page.evaluate(wide) is False, "the page itself does not scroll sideways on a phone"
        for name in ("old", "deep/new"):
            page.check(f'input[aria-label="Compare {name}"]')
        page.click("button")
        page.wait_for_selector("h1:has-text('Comparison')")
        page.goto(f"{site.address}ask/{identity(runs, 'deep/new')}")
        page.click("button")
        page.wait_for_selector("th:has-text('Probability')")
        browser.close()
    assert not [text for text in said if "Security" in text or "Refused" in text], said


def test_axe_finds_nothing_serious_in_the_pages_of_runs(site: Site, runs: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright")
    from test_report_browser import CHROMIUM, FLAGS, serious_violations

    old, new = (identity(runs, name) for name in ("old", "deep/new"))
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 820, "height": 800}, color_scheme="light")

        def check(place: str) -> None:
            assert serious_violations(page) == [], place
            page.emulate_media(color_scheme="dark")
            assert serious_violations(page, colours_only=True) == [], f"{place}, dark"
            page.emulate_media(color_scheme="light")

        for path in ("", f"compare?run={old}&run={new}", f"ask/{new}", "run/no-such"):
            page.goto(site.address + path)
            check(path)
        page.goto(f"{site.address}ask/{new}")
        page.click("button")
        page.wait_for_selector("th:has-text('Probability')")
        check("an answer")
        browser.close()
