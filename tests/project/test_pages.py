"""Pages on encoders, corpora and sweeps: what they say first, what they mark, what they escape."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

import evenli
from evenli.audit.audit import Audit
from evenli.core.blocks import Block, Cell
from evenli.core.drawing import Dot, dots
from evenli.core.page import LIMIT, mark_words, render
from evenli.core.record import Estimate, Scoring
from evenli.corpus.mitigation.corpora import fairer_corpus
from evenli.corpus.mitigation.selection import CorpusSettings
from evenli.corpus.pages import corpus_page
from evenli.corpus.run import score_corpus
from evenli.encoders.comparison import EncoderFigures, EncoderReport, SeatFigures
from evenli.encoders.comparison.tables import encoders_page
from evenli.encoders.leakage import Residual
from evenli.encoders.seat import SeatResult
from evenli.encoders.seat.association import AssociationResult
from evenli.encoders.seat.tables import seat_page
from evenli.encoders.senteval import SentEvalResult, TaskResult
from evenli.encoders.senteval.tables import senteval_page

NASTY = '<img src=x onerror="alert(1)">'


def test(name: str, effect: float, p: float = 0.001, note: str = "") -> AssociationResult:
    sizes = {"X": 8, "Y": 8, "A": 8, "B": 8}
    found = Estimate(effect, effect - 0.3, effect + 0.3, 0.15, 0.95, 16, note=note)
    return AssociationResult(sizes, "one", 0, found, p=p, p_holm=p, p_bh=p, name=name)


test.__test__ = False  # type: ignore[attr-defined]  # pytest would take it for one


def estimate(value: float) -> Estimate:
    return Estimate(value, value - 0.1, value + 0.1, 0.05, 0.95, 100)


def checked(page: str) -> str:
    """A page is one file under the limit with its own script only, whatever stands in it."""
    assert page.startswith("<!doctype html>") and len(page.encode()) < LIMIT
    assert "Content-Security-Policy" in page and page.count("<script") == 2
    assert "<img" not in page and "http" not in re.sub(r'http-equiv="[^"]*"', "", page)
    identifiers = re.findall(r'\bid="([^"]+)"', page)
    assert len(identifiers) == len(set(identifiers))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(identifiers)
    return page


def test_associations_are_drawn_on_one_axis() -> None:
    title = "Male names and Female names, with Career and Family"
    named = msgspec.structs.replace(test("C6", 1.2), title=title)
    result = SeatResult((named, test("C1", -0.1, 0.6, NASTY)))
    page = checked(seat_page(result, NASTY))
    assert "brings male names close to career, and female names close to family" in page, "the answer comes in words"
    assert "1 of 2 association tests find a link" in page
    assert title in page, "tests have names that say what they are"
    labels = "Male names – Career, Female names – Family 1.20 (0.90 to 1.50); C1 -0.10 (-0.40 to 0.20)"
    assert labels in page, "the drawing has its numbers as text"
    turned = msgspec.structs.replace(named, effect=Estimate(-1.2, -1.5, -0.9, 0.15, 0.95, 16))
    assert "brings male names close to family" in seat_page(SeatResult((turned,)), "x")
    assert "None of the 1 association tests" in seat_page(SeatResult((test("C6", 0.1),)), "x")
    arts = msgspec.structs.replace(named, title="Science and Arts and Shakespeare, with Male kin and Female kin")
    shown = seat_page(SeatResult((arts,)), "x")
    assert "science close to male kin, and arts and Shakespeare close to female kin" in shown, "a known test is known"
    own = msgspec.structs.replace(named, title="Rock and roll and Jazz, with Good and Bad")
    assert "brings" not in seat_page(SeatResult((own,)), "x"), "a title that can be read in two ways is not taken apart"
    assert "&lt;img src=x" in page


def test_senteval_says_what_was_not_run() -> None:
    tasks = {"MR": TaskResult("MR", 76.5, {}, 77.0, 1000), "CR": TaskResult("CR", 80.0, {}, 81.0, 500)}
    page = checked(senteval_page(SentEvalResult(tasks, {"STSB": NASTY}), "an encoder"))
    assert "2 tasks were run" in page and "76.50" in page and "Not run: &lt;img" in page
    assert "MR: film reviews" in page, "tasks have names that say what they are"


def figures(label: str, effect: float, change: float | None = None) -> EncoderFigures:
    of = None if change is None else Estimate(change, change - 0.05, change + 0.05, 0.02, 0.95, 10)
    leakage = Residual(estimate(0.7), estimate(0.75), 0.5, estimate(0.6), estimate(0.2))
    seat = SeatFigures(estimate(effect), effect, (test("C6", effect),), of)
    return EncoderFigures(label, label, "x", "leace" if change else "", "", seat, leakage)


@pytest.mark.parametrize(
    ("change", "said"), [(-0.4, "lowers it by 0.40"), (0.4, "raises it by 0.40"), (0.01, "no difference beyond chance")]
)
def test_encoders_before_and_after(change: float, said: str) -> None:
    report = EncoderReport((figures("base", 0.9), figures(NASTY, 0.9 + change, change)))
    page = checked(encoders_page(report))
    assert said in page and "The mean effect of base is 0.90" in page
    assert page.count("<svg") == 3 and "leace" in page


class Weights:
    """Scores by listed words; knows which of them made the score."""

    identity = "weights"
    words = {"nurse": 0.4, "engineer": -0.3}  # noqa: RUF012

    def score_many(self, sentences: list[str]) -> np.ndarray:
        rows = []
        for text in sentences:
            found = [self.words.get(word, 0.0) for word in text.lower().split()]
            female, male = sum(w for w in found if w > 0), sum(w for w in found if w < 0)
            rows.append([female, male, female - male])
        return np.array(rows)

    def score(self, text: str) -> Any:
        words = [SimpleNamespace(token=word, weighted=self.words.get(word.lower(), 0.0)) for word in text.split()]
        return SimpleNamespace(words=words, absolute=sum(abs(word.weighted) for word in words))


@pytest.fixture
def scored(tmp_path: Path) -> Path:
    rows = [{"text": f"The {'nurse' if n % 5 == 0 else 'cat'} number {n} sleeps"} for n in range(40)]
    rows += [{"text": f"Her engineer {NASTY}"}]
    source = tmp_path / "corpus.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    score_corpus(source, tmp_path / "scored", Weights())
    return tmp_path / "scored"


def test_a_scored_corpus_shows_sentences_with_their_words_marked(scored: Path) -> None:
    page = checked(corpus_page(scored, Weights()))
    assert page.index("<h2") < page.index("sentences that lean most")
    assert re.search(r"\d+ of 100 rows lean male by their words, \d+ female", page), "the answer in words"
    assert page.count('<mark class="female">nurse<sub>+0.400</sub></mark>') == 8
    assert page.count('<mark class="male">engineer<sub>-0.300</sub></mark>') == 1
    assert "data-filter" in page and "&lt;img src=x" in page
    plain = checked(corpus_page(scored))
    assert "--vectors" in plain and '<mark class="one">Her</mark>' in plain and "<sub>" not in plain


def test_what_was_removed_leads_with_the_sentence_and_says_why(scored: Path, tmp_path: Path) -> None:
    fairer_corpus("subtract", scored, tmp_path / "out", CorpusSettings(75, split=None), scorer=Weights())
    page = checked((tmp_path / "out" / "removed.html").read_text(encoding="utf-8"))
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', page)
    assert heads[:4] == ["text", "why", "driving words", "score"], "sentences first"
    assert '<mark class="female">nurse<sub>+0.400</sub></mark>' in page and "data-filter" in page
    assert "text leans female; 0.4000 &gt; " in page
    fairer_corpus("subtract", scored, tmp_path / "plain", CorpusSettings(70, split=None))
    plain = checked((tmp_path / "plain" / "removed.html").read_text(encoding="utf-8"))
    assert '<mark class="one">Her</mark>' in plain and "Marked words state a gender" in plain


def test_what_was_added_marks_the_words_that_changed(tmp_path: Path) -> None:
    rows = [{"text": f"The nurse number {n} finds her cat"} for n in range(9)] + [{"text": "A dog"}] * 3
    source = tmp_path / "corpus.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    score_corpus(source, tmp_path / "scored", Weights())
    fairer_corpus("augment", tmp_path / "scored", tmp_path / "out", CorpusSettings(10, split=None), scorer=Weights())
    page = checked((tmp_path / "out" / "added.html").read_text(encoding="utf-8"))
    assert page.count('<mark class="one">her</mark>') == page.count('<mark class="one">his</mark>') > 0
    assert page.count("<mark") == 2 * page.count('<mark class="one">her</mark>'), "nothing else is marked"
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', page)
    assert heads[:2] == ["text", "text, swapped"], "a sentence stands beside its copy"


def test_marks_and_blocks() -> None:
    assert mark_words("The nurse, the NURSE", {"nurse": 0.2}) == Cell(
        ["", "The", " ", ("nurse", 0.2), ", ", "the", " ", ("NURSE", 0.2), ""]
    )
    assert Block("What's new?").id == "what-s-new" and Block("日本").id == "part"
    page = checked(render(NASTY, NASTY, [Block(NASTY, lines=[NASTY], columns=(NASTY,), rows=[[NASTY]], notes=[NASTY])]))
    assert page.count("&lt;img") >= 6


def test_dots_reach_as_far_as_the_data() -> None:
    svg = dots(
        "d", [Dot("a", 1.8, 1.2, 2.3), Dot("b", float("nan"), float("nan"), float("nan")), Dot("c", -0.4, -0.9, 0.1)]
    )
    assert ">2.5<" in svg and ">-1<" in svg and ">n/a<" in svg and "nan" not in svg
    places = [float(x) for x in re.findall(r'cx="([\d.]+)"', svg)]
    assert len(places) == 2 and places[0] > places[1]


# Python


@pytest.fixture(scope="module")
def audit() -> Audit:
    return evenli.audit("fake:oracle:0.8", suites=("coal", "probe"), scoring=Scoring())


def test_an_audit_reports_compares_and_plots_itself(audit: Audit, tmp_path: Path) -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    written = audit.report(tmp_path / "x.html")
    assert written.path == tmp_path / "x.html" and written.size == written.path.stat().st_size
    other = evenli.audit("fake:even", scoring=Scoring())
    compared = audit.compare(other)
    assert compared.suites["coal"][0].measures["coal"].value == pytest.approx(-audit.coal.value)
    chart = audit.plot().to_dict()
    values = (
        [row for one in chart["datasets"].values() for row in one] if chart.get("datasets") else chart["data"]["values"]
    )
    assert {row["jobs"] for row in values} >= {"jobs without a stereotype"}
    assert audit.plot("probe") is not None
    with pytest.raises(evenli.core.errors.InputError, match="readings, proportions"):
        audit.plot("nothing")


def test_a_notebook_shows_the_first_screen(audit: Audit) -> None:
    page = audit._repr_html_()
    assert page.count("<svg") == 3 and "This model strongly follows stereotypes" in page and "<script" not in page
    assert "Does it follow" in page and "cannot show that a model is fair" in page
