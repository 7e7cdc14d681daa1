"""Pages that commands write: every suite of a run, several models, encoders, corpora and sweeps, from the shell."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from test_meta_mixture import sweep as perfect_sweep
from typer.testing import CliRunner

import evenli
from conftest import skip_without
from evenli.cli import app
from evenli.core.blocks import Block
from evenli.core.errors import InputError, RunError
from evenli.core.page import LIMIT, render

skip_without("altair", "vl_convert")
FEMALE, MALE = ["she", "woman", "her", "nurse", "girl"], ["he", "man", "his", "engineer", "boy"]
VECTORS = [*FEMALE, *MALE, "the", "cat", "sleeps", "a", "walks"]


def invoke(*arguments: object) -> str:
    out = CliRunner(env={"COLUMNS": "80"}).invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert out.exit_code == 0, out.output
    return out.output


def text_of(file: Path) -> str:
    """What a page says, without markup, script and style."""
    page = file.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and len(page.encode()) < LIMIT and "Content-Security-Policy" in page
    return " ".join(re.sub(r"<[^>]+>", " ", re.sub(r"<(style|script).*?</\1>", " ", page, flags=re.S)).split())


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    lean = [1.0] * 5 + [-1.0] * 5 + [0.0] * 5
    rows = [
        f"{word} {side:.3f} " + " ".join(f"{x:.3f}" for x in rng.normal(size=5, scale=0.3))
        for word, side in zip(VECTORS, lean, strict=True)
    ]
    (tmp_path / "v.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path / "v.txt"


def test_a_report_of_several_suites_holds_them_all(tmp_path: Path) -> None:
    suites = ("--suite", "coal,probe,dev2020", "--limit", 200)
    shown = invoke("audit", "fake:oracle:0.6", *suites, "--report", "-o", tmp_path / "run")
    assert "report.html" in shown
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    result = json.loads((tmp_path / "run" / "results.json").read_text())
    text = text_of(tmp_path / "run" / "report.html")
    for suite in ("probe", "dev2020"):
        section = page[page.index(f'id="r0-suite-{suite}"') :]
        for measure in result[suite]["measures"].values():
            assert measure["title"].strip() in section, (suite, measure["title"])
        assert f'href="#r0-suite-{suite}"' in page
    assert "Who does the model see?" in text and "NLI-CoAL" in text


def test_pages_of_encoders(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import zlib\nimport numpy as np\n"
        "def encode(texts):\n"
        "    return np.stack([np.random.default_rng(zlib.crc32(t.encode())).normal(size=8) for t in texts])\n"
    )
    code = "import sys; sys.path.insert(0, {!r}); from evenli.cli import main; sys.argv[1:] = {!r}; main()"
    arguments = ["seat", "py:own:encode", "--tests", "C6,C8", "--permutations", "100", "--html"]
    done = subprocess.run(
        [sys.executable, "-c", code.format(str(tmp_path), [*arguments, str(tmp_path / "seat.html")])],
        capture_output=True,
        text=True,
        check=True,
    )
    text = text_of(tmp_path / "seat.html")
    assert "C6: Male names and Female names, with Career and Family" in text and "C8" in done.stdout
    assert "Male names – Career, Female names – Family" in text, "the drawing names the groups, not a code"
    assert not re.search(r"first targets|first attributes", text)


def test_a_page_of_senteval(tmp_path: Path, vectors: Path) -> None:
    pytest.importorskip("torch")
    data = tmp_path / "senteval"
    data.mkdir()
    rng = np.random.default_rng(1)
    for side, words in (("pos", FEMALE), ("neg", MALE)):
        lines = (" ".join(rng.choice(words, size=4)) for _ in range(40))
        (data / f"MR.{side}.txt").write_text("\n".join(lines) + "\n", encoding="latin-1")
    invoke(
        *("senteval", f"vectors:{vectors}", "--data", data, "--tasks", "MR", "--kfold", 2),
        *("--device", "cpu", "--html", tmp_path / "s.html"),
    )
    text = text_of(tmp_path / "s.html")
    assert "1 tasks were run" in text and re.search(r"MR: film reviews \d+\.\d\d", text)


@pytest.mark.parametrize("name", [".", "vectors.txt/page.html", "/dev/null"])
def test_a_name_that_cannot_be_a_page_is_refused_before_the_work(tmp_path: Path, name: str) -> None:
    (tmp_path / "vectors.txt").write_text("he 1\n", encoding="utf-8")
    done = CliRunner().invoke(app, ["senteval", "no encoder", "--data", ".", "--html", str(tmp_path / name)])
    assert isinstance(done.exception, InputError | RunError) and "no encoder" not in str(done.exception)


def test_a_page_of_a_scored_corpus(tmp_path: Path, vectors: Path) -> None:
    (tmp_path / "c.txt").write_text("the nurse sleeps\nthe engineer walks\nthe cat sleeps\n" * 10, encoding="utf-8")
    invoke(
        *("score", tmp_path / "c.txt", "--vectors", vectors, "--published", "-o", tmp_path / "scored"),
        *("--html", tmp_path / "c.html"),
    )
    page = (tmp_path / "c.html").read_text(encoding="utf-8")
    assert '<mark class="female">nurse<sub>+' in page and '<mark class="male">engineer<sub>-' in page
    again = tmp_path / "again.html"
    invoke("score", tmp_path / "scored", "--html", again)
    assert "sentences that lean most" in text_of(again)
    one = tmp_path / "one.html"
    invoke("score", "the nurse", "--vectors", vectors, "--html", one)
    assert "leans female" in text_of(one) and "All words count the same" in text_of(one)


def test_a_page_of_a_sweep(tmp_path: Path) -> None:
    perfect_sweep(tmp_path / "sweep")
    shown = invoke("meta", "-o", tmp_path / "sweep")
    assert "report.html" in shown
    text = text_of(tmp_path / "sweep" / "report.html")
    assert re.search(r"\d+ of \d+ measures follow one cause of bias alone; \d+ mix several", text)
    assert "Response to each cause" in text
    assert re.search(r"stereotype \+1\.000 \+0\.000 \+0\.000 1\.000", text), "a perfect learner has slope 1"


def test_a_page_stays_below_its_limit_and_says_what_is_left_out() -> None:
    rows = [[f"sentence {n} " + "x" * 400, n] for n in range(9_000)]
    small = Block("Few", columns=("a", ">b"), rows=rows[:3])
    page = render("t", "l", [small, Block("Many", columns=("a", ">b"), rows=rows)])
    assert len(page.encode()) < LIMIT
    (kept,) = re.findall(r"Only the first ([\d,]+) of 9,000 rows stand here", page)
    assert page.count("<tr>") - 2 == int(kept.replace(",", "")) + 3, (
        "as many rows as it says, and the other table whole"
    )
    assert "sentence 0 " in page and "sentence 8999 " not in page
    with pytest.raises(InputError, match=r"limit is 3 MB"):
        render("t", "y" * LIMIT, [])


def test_the_server_of_the_pages_lets_nobody_in_without_its_token(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    evenli.audit("fake:even", limit=40, out=tmp_path / "runs" / "one")
    command = [sys.executable, "-m", "evenli", "view", str(tmp_path / "runs")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            found = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/([\w-]{32})/", address)
            assert found is not None, address
            root, token = found.groups()
            with urllib.request.urlopen(address, timeout=60) as answer:
                assert "one" in answer.read().decode() and token not in answer.headers.as_string()
            for wrong in ("/", f"/{token[:-1]}/", f"/{token}x/", f"/{token.swapcase()}/", "/wrong/"):
                with pytest.raises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(root + wrong, timeout=60)
                assert refused.value.code == 404 and "one" not in refused.value.read().decode()
        finally:
            server.terminate()
