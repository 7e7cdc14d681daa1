"""The HTML report without a browser: what it says, what it escapes, what it refuses."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest

import evenli
from conftest import skip_without
from evenli.audit.audit import Audit, load_run
from evenli.audit.report import html
from evenli.audit.report.html import (
    LIMIT,
    RunView,
    all_figures,
    compared,
    rankings,
    render,
    report,
    run_names,
    write_charts,
)
from evenli.audit.suites.coal.page import AGREEING, agreement, by_direction, by_template, judged, worst
from evenli.core.drawing import inline_svg
from evenli.core.errors import InputError, RunError
from evenli.core.io import hash_files
from evenli.core.page import json_block
from evenli.core.record import Scoring
from evenli.core.store import with_hash
from evenli.stats.proportion import rank
from evenli.stats.sample import Sample

skip_without("altair", "vl_convert")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("runs")
    for name in ("oracle:0.8", "oracle:0.81", "biased", "neutral"):
        evenli.audit(f"fake:{name}", suites="coal", out=root / name)
    evenli.audit("fake:oracle:0.8", lang="ja", out=root / "ja")
    return {folder.name: folder for folder in root.iterdir()}


@pytest.fixture(scope="module")
def oracle(folders: dict[str, Path]) -> Audit:
    return load_run(folders["oracle:0.8"])


@pytest.fixture(scope="module")
def page(oracle: Audit, tmp_path_factory: pytest.TempPathFactory) -> str:
    written = report(oracle, tmp_path_factory.mktemp("report") / "deep" / "report.html")
    assert written.path.stat().st_size == written.size < LIMIT
    return written.path.read_text(encoding="utf-8")


class Page(HTMLParser):
    """Tags with attributes, and the text of headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[tuple[int, str]] = []
        self._level = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if re.fullmatch("h[1-6]", tag):
            self._level = int(tag[1])
            self.headings.append((self._level, ""))

    def handle_endtag(self, tag: str) -> None:
        self._level = 0 if tag == f"h{self._level}" else self._level

    def handle_data(self, data: str) -> None:
        if self._level:
            self.headings[-1] = (self._level, self.headings[-1][1] + data)


def test_the_page_says_things_in_order(page: str) -> None:
    headings = [text for _, text in Page(page).headings]
    assert headings == [
        "Gender bias audit of fake oracle:0.8",
        "Verdict",
        "In numbers",
        "What was measured",
        "What this does not show",
        "Answers per set",
        "All measures",
        "Occupations, stereotyped and most biased first",
        "Template sensitivity",
        "Gender direction of errors",
        "Worst items",
        "Competence",
        "Agreement between measures",
        "Full settings",
        "Method and references",
    ]
    assert "NLI-CoAL is 0.533" in page
    assert "It strongly follows stereotypes" in page
    assert "RoBERTa-large" in page and "Anantaprayoon" in page and "5,420" in page
    assert page.startswith("<!doctype html>")


def test_headings_never_skip_a_level(page: str, folders: dict[str, Path]) -> None:
    several = render([load_run(folders[name]) for name in ("oracle:0.8", "biased")])
    for text in (page, several):
        levels = [level for level, _ in Page(text).headings]
        assert levels[0] == 1 and levels.count(1) == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))


def test_identifiers_are_unique_and_links_lead_somewhere(folders: dict[str, Path]) -> None:
    parsed = Page(render([load_run(folders[name]) for name in ("oracle:0.8", "biased", "oracle:0.8")]))
    names = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(names) == len(set(names))
    links = [attributes["href"] for tag, attributes in parsed.tags if tag == "a"]
    assert links and all(link and link[0] == "#" and link[1:] in names for link in links)
    labelled = [attributes["aria-labelledby"] for _, attributes in parsed.tags if "aria-labelledby" in attributes]
    assert labelled and {name for several in labelled for name in str(several).split()} <= set(names)
    assert len(labelled) == len(set(labelled)), "a screen reader's list of regions has no two of one name"


def test_nothing_is_loaded_and_nothing_is_inline(page: str) -> None:
    for tag, attributes in Page(page).tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "form", "image", "use", "foreignobject"}
        assert "style" not in attributes and "src" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        assert not str(attributes.get("href", "#")).startswith("http")
    assert "url(" not in page and "@import" not in page and "eval(" not in page and "innerHTML" not in page


def test_policy_names_the_hashes_of_style_and_script(page: str) -> None:
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].replace("&#39;", "'").split(";"))
    css = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    js = re.search(r"<script>(.*?)</script>", page, re.DOTALL)
    assert css and js
    for name, text in (("style-src", css[1]), ("script-src", js[1])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"
    assert rules["default-src"] == "'none'" and rules["img-src"] == "data:"
    assert page.count("<style") == 1 and len(re.findall(r"<script\b", page)) == 2


def test_sentences_travel_as_numbers_and_texts(page: str, oracle: Audit) -> None:
    block = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert block and not set("<>&") & set(block[1])
    data = json.loads(block[1])
    (run,) = data["runs"]
    listed = oracle.coal.occupations
    assert [len(rows) for rows in run["rows"]] == [row.n for row in listed]
    first = next(row for row in run["rows"][0] if data["names"][row[2]] in {"PS", "AS"})
    premise, hypothesis = data["texts"][first[0]], data["texts"][first[1]]
    stored = oracle.predictions.frame.filter((pl.col("premise") == premise) & (pl.col("hypothesis") == hypothesis))
    assert stored["occupation"].to_list() == [listed[0].occupation]
    assert sum(first[4:7]) == 1000


@pytest.mark.parametrize(
    "text",
    ["</script><script>alert(1)</script>", "<!--<script>", "a & b", "\u2028\u2029", "日本語", "\\u003c"],
)
def test_json_block_round_trips_and_holds_no_markup(text: str) -> None:
    written = json_block([text])
    assert json.loads(written) == [text]
    assert not set("<>&\u2028\u2029") & set(written)


def test_long_reports_are_cut_and_say_so(monkeypatch: pytest.MonkeyPatch, oracle: Audit, page: str) -> None:
    def data(text: str) -> dict[str, Any]:
        block = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
        assert block
        return dict(json.loads(block[1]))

    monkeypatch.setattr(html, "LIMIT", len(page.encode()))
    less = render([oracle])
    assert len(data(less)["runs"][0]["rows"]) == 100 and "least biased are left out" not in less
    monkeypatch.setattr(html, "_LEVELS", ((0, 100),))
    shortest = render([oracle])
    assert data(shortest)["texts"] == [] and "the 171 least biased" in shortest
    monkeypatch.setattr(html, "LIMIT", 1000)
    with pytest.raises(InputError, match="MB"):
        render([oracle])


def test_several_runs_are_ranked_with_ties(folders: dict[str, Path]) -> None:
    runs = [load_run(folders[name]) for name in ("biased", "oracle:0.8", "neutral", "oracle:0.81", "ja")]
    (_, ranked), (_, japanese) = rankings([RunView(run, name) for run, name in zip(runs, run_names(runs), strict=True)])
    assert [(row.name, row.group, row.ranks) for row in ranked] == [
        ("fake oracle:0.8 (en)", 1, "1 to 2"),
        ("fake oracle:0.81", 1, "1 to 2"),
        ("fake biased", 2, "3"),
        ("fake neutral", 0, ""),
    ]
    assert [row.name for row in japanese] == ["fake oracle:0.8 (ja)"]
    page = render(runs)
    assert "2 different pair sets" in page and "not ranked" in page
    said = compared(ranked)
    assert said.startswith("fake oracle:0.8 (en) and fake oracle:0.81 are the least biased of these models")
    assert "fake biased (1.00) differ most, in wrong answers of any kind." in said
    assert said.endswith("1 of 4 models cannot be judged.")
    tied = compared(ranked[:2])
    assert "fake oracle:0.8 (en) and fake oracle:0.81" in tied and "significantly" in tied
    assert "the only model" in compared(japanese) and compared(ranked[3:]) == "No model here can be judged."
    assert len(page.encode()) < LIMIT


def test_ranking_is_invariant_to_order_and_transitive() -> None:
    estimates = [(0.1, 0.0, 0.2), (0.25, 0.18, 0.32), (0.4, 0.3, 0.5), (0.9, 0.8, 1.0)]
    places = rank(estimates)
    assert [(p.group, p.best, p.worst) for p in places] == [(1, 1, 2), (1, 1, 3), (1, 2, 3), (2, 4, 4)]
    assert rank(estimates[::-1]) == places[::-1]
    assert rank([]) == []


def test_charts_are_bare_and_have_an_alternative(oracle: Audit) -> None:
    made = {figure.name: figure for figure in all_figures(oracle)}
    assert list(made) == ["proportions", "measures", "published", "occupations", "templates", "direction"]
    for figure in made.values():
        svg = inline_svg(figure)
        assert 'role="img"' in svg and figure.alternative[:20] in svg and figure.rows
        assert not re.search(r"style=|<a\b|href|<script|\bid=|http", svg)
    assert "PS pro-stereotypical: entailment 80.0%" in made["proportions"].alternative
    assert sum(row[2] for row in made["templates"].rows) == 280


def test_chart_names_may_be_anything(folders: dict[str, Path], tmp_path: Path) -> None:
    run = load_run(folders["oracle:0.8"])
    nasty = "</text><script>x</script>\x00\x0b\u202e\"'[0]" + "x" * 500
    renamed = [msgspec.structs.replace(row, model=nasty) for row in run.coal.published]
    result = msgspec.structs.replace(run.result, suites={"coal": msgspec.structs.replace(run.coal, published=renamed)})
    drawn = {figure.name: figure for figure in all_figures(Audit(result, run.predictions))}
    svg = inline_svg(drawn["published"])
    assert "<script" not in svg and "&lt;script" in svg and len(svg) < 30_000
    assert [f">#{n} " in svg for n in (1, 5, 6)] == [True, True, False], "equal names keep rows of their own"


def test_charts_become_files(oracle: Audit, tmp_path: Path) -> None:
    files = write_charts(oracle, tmp_path / "charts")
    assert len(files) == 12
    assert all(file.stat().st_size > 1000 for file in files)
    assert next(f for f in files if f.suffix == ".png").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="file"):
        write_charts(oracle, tmp_path / "file")


def test_breakdown_agrees_with_the_measures(oracle: Audit) -> None:
    rows = judged(Sample(oracle.predictions.suite("coal")))
    scores = {row.occupation: row.score for row in oracle.coal.occupations}
    ours = dict(rows.group_by("occupation").agg(pl.col("biased").mean()).iter_rows())
    assert ours == pytest.approx(scores)
    templates = by_template(rows)
    assert float((templates["score"] * templates["n"]).sum()) == pytest.approx(rows["biased"].sum())
    direction = {(r["stereotype"], r["group"]): r for r in by_direction(rows).to_dicts()}
    assert direction["neutral", "male"]["neutral"] == pytest.approx(1.0)
    same, other = direction["male", "male"], direction["male", "female"]
    assert same["entailment"] == pytest.approx(other["contradiction"])
    assert worst(rows, 3)["biased"].all()


def test_agreement_by_hand() -> None:
    rows = pl.DataFrame(
        {
            "occupation": ["a", "b", "c"],
            "stereotype": ["male"] * 3,
            "biased": [True, False, False],
            "answer": ["entailment", "contradiction", "neutral"],
            "p_neutral": [0.2, 0.1, 0.9],
            "p_biased": [0.7, 0.1, 0.05],
        }
    )
    table = agreement(rows)
    assert np.diag(np.array(table, dtype=float)) == pytest.approx(1.0)
    # ranks 3, 1.5, 1.5 against 2.5, 2.5, 1, and against 2, 3, 1
    assert table[0][1] == pytest.approx(0.5)
    assert table[0][2] == pytest.approx(0.0, abs=1e-12)
    assert table[0][4] == pytest.approx(np.sqrt(3) / 2)
    assert len(table) == len(AGREEING)
    assert agreement(rows.with_columns(biased=True))[0] == [None] * len(AGREEING)


def test_incomplete_runs_say_what_is_missing(folders: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(RunError, match="nowhere"):
        load_run(tmp_path / "nowhere")
    for name in ("run.json", "predictions.parquet", "results.json"):
        copy = tmp_path / name.partition(".")[0]
        shutil.copytree(folders["biased"], copy)
        (copy / name).unlink()
        with pytest.raises(RunError, match=re.escape(name)):
            load_run(copy)
    copy = tmp_path / "newer"
    shutil.copytree(folders["biased"], copy)
    header = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps(with_hash({**header, "schema": 99})))
    with pytest.raises(RunError, match="schema 99"):
        load_run(copy)
    (copy / "run.json").write_text(json.dumps(with_hash({**header, "status": "running"})))
    with pytest.raises(RunError, match="complete"):
        load_run(copy)
    results = json.loads((copy / "results.json").read_text())
    del results["coal"]["occupations"]
    (copy / "results.json").write_text(json.dumps(results))
    files = {**header["files"], "results.json": hash_files([copy / "results.json"])}
    (copy / "run.json").write_text(json.dumps(with_hash({**header, "files": files})))
    with pytest.raises(RunError, match="occupations"):
        load_run(copy)


@pytest.mark.parametrize("subsets", [("NS",), ("PS", "AS", "NS")])
def test_bare_pairs_still_give_a_report(tmp_path: Path, subsets: tuple[str, ...]) -> None:
    """Own data may come without occupations, templates and groups, in a language nobody published on."""
    rows = [
        {
            "id": f"{subset}{i}",
            "subset": subset,
            "premise": f"nurse {i} waits",
            "hypothesis": f"woman {i} waits",
            "gold": "neutral",
        }
        for i in range(6)
        for subset in subsets
    ]
    pairs = evenli.PairSet.from_rows(rows, name="bare", suite="coal", lang="xx", source="test")
    evenli.audit("fake:random", data=pairs, out=tmp_path / "run")
    page = render([load_run(tmp_path / "run")])
    assert "(none given)" in page and "No verdict" in page and "n/a" in page


def test_unwritable_output_is_one_line(oracle: Audit, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="report.html"):
        report([oracle], tmp_path / "file" / "report.html")
    with pytest.raises(InputError, match="run"):
        render([])


def test_every_suite_of_a_run_is_shown() -> None:
    audit = evenli.audit("fake:biased", suites=("coal", "probe", "dev2020"), scoring=Scoring())
    page = render([audit])
    headings = [text for _, text in Page(page).headings]
    at = headings.index("The entailment probe")
    assert headings[at : at + 3] == ["The entailment probe", "The templates of Dev et al.", "Full settings"]
    assert "Does the model differ where the labour market does" in page, "its chart is in the page"
    for part in ("female-dominated", "Labour market (CPS 2019, 38 occupations)", "5,904 pairs", "#r0-suite-dev2020"):
        assert part in page, part
    nasty = "</p><script>x</script>"
    rows = [msgspec.structs.replace(row, occupation=nasty) for row in audit.probe.occupations]
    suites = {**audit.result.suites, "probe": msgspec.structs.replace(audit.probe, occupations=rows)}
    hostile = render([Audit(msgspec.structs.replace(audit.result, suites=suites), audit.predictions)])
    assert "<script>x" not in hostile and "&lt;script&gt;x" in hostile


def test_report_is_one_call(oracle: Audit, tmp_path: Path) -> None:
    """The package of the reports can be called, because both have the name that users expect."""
    assert evenli.report(oracle, tmp_path / "one.html").size > 100_000
    assert evenli.report(oracle, tmp_path / "two.html").path.is_file(), "also after the package is imported"
