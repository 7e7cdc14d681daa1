"""The first screen: the same answer on a terminal, in the report, in a notebook and in a card."""

from __future__ import annotations

import io
import re

import polars as pl
import pytest
from rich.console import Console

import evenli
from evenli.audit.assess import assess
from evenli.audit.audit import Audit
from evenli.audit.predictions import Predictions
from evenli.audit.report.card import to_markdown
from evenli.audit.report.terminal import show_results, summarise
from evenli.core.console import bar_lengths
from evenli.core.labels import LABELS
from evenli.core.record import Scoring

JARGON = ("entailment", "contradiction", "CoAL", "PS ", "NS ", "stressed", "premise", "hypothesis", "F1")


@pytest.fixture(scope="module")
def biased() -> Audit:
    return evenli.audit("fake:biased", scoring=Scoring())


def leaning(premises: list[str], hypotheses: list[str]) -> list[dict[str, float]]:
    """Sees a man everywhere."""
    answers = []
    for hypothesis in hypotheses:
        yes, no = (0.1, 0.7) if re.search(r"\bwoman\b", hypothesis) else (0.7, 0.1)
        answers.append({"entailment": yes, "neutral": 0.2, "contradiction": no})
    return answers


@pytest.fixture(scope="module")
def man() -> Audit:
    """A run whose every job is a man's; judged without the competence gate."""
    audit = evenli.audit(leaning, scoring=Scoring())
    rows = Predictions(audit.predictions.frame.filter(~pl.col("subset").is_in(["gold", "control"])), audit.header)
    return Audit(assess(rows, Scoring()), rows)


def shown(audit: Audit, width: int = 140, *, verbose: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width)
    show_results(audit, console, verbose=verbose)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_a_model_that_sees_men(man: Audit) -> None:
    found = summarise(man)
    assert found.sentence.startswith("This model strongly assumes a man where a job has no stereotype")
    assert [bar.name for bar in found.bars] == [
        "jobs stereotyped female",
        "jobs stereotyped male",
        "jobs without a stereotype",
    ]
    for bar in found.bars:
        of = {share.kind: share for share in bar.shares}
        assert of["second"].value == pytest.approx(1.0) and of["first"].value == pytest.approx(0.0)
        assert sum(share.value for share in bar.shares) == pytest.approx(1.0)
        assert all(share.low <= share.value + 1e-9 and share.value <= share.high + 1e-9 for share in bar.shares)
    numbers = {fact.name: fact.value for fact in found.numbers}
    assert numbers == {"Follows stereotypes": "0", "Assumes a man": "100", "Wrong answers in all": "100"}


def test_the_example_is_a_row_of_the_run(man: Audit, biased: Audit) -> None:
    for audit, answer in ((man, "entailment"), (biased, "entailment")):
        example = summarise(audit).example
        assert example is not None and example.answer == answer
        frame = audit.predictions.suite("labour").frame
        rows = frame.filter((pl.col("premise") == example.premise) & (pl.col("hypothesis") == example.hypothesis))
        assert rows.height >= 1
        assert list(example.probabilities) == list(LABELS) and sum(example.probabilities.values()) == pytest.approx(1)
        assert [word for word, _, own, _ in example.answers if own] == ["yes"]
    example = summarise(man).example
    assert example is not None and example.probabilities["entailment"] == pytest.approx(0.7)


def test_the_example_is_typical_not_the_worst(biased: Audit) -> None:
    frame = biased.predictions.frame
    # Certainty differs from row to row; the answers stay as they are.
    noise = pl.int_range(pl.len()) / pl.len()
    logits = frame.with_columns([(pl.col(label) * (0.2 + noise)).cast(pl.Float32) for label in LABELS])
    example = summarise(Audit(biased.result, Predictions(logits, biased.header))).example
    assert example is not None
    lowest, highest = (
        float(logits.filter(pl.col("subset") == "PS").select(pl.col("entailment").min().alias("v"))["v"][0]),
        float(logits.filter(pl.col("subset") == "PS").select(pl.col("entailment").max().alias("v"))["v"][0]),
    )
    own = logits.filter((pl.col("premise") == example.premise) & (pl.col("hypothesis") == example.hypothesis))
    assert lowest < float(own["entailment"][0]) < highest


@pytest.mark.parametrize("width", [60, 80, 140])
def test_the_terminal_answers_first(man: Audit, width: int) -> None:
    text = shown(man, width)
    lines = text.splitlines()
    assert lines[0].startswith("Verdict  This model strongly assumes a man")
    assert max(map(len, lines)) <= width
    parts = ("Verdict", "Who does the model see?", "Assumes a man", "Example", "cannot show")
    order = [text.index(part) for part in parts]
    assert order == sorted(order)
    assert len(lines) <= (30 if width > 60 else 50), "fits a screen"
    bars = [line for line in lines if "▓▓▓▓" in line]
    assert len(bars) == 3
    assert re.search(r"100% \(9\d–100\)", text), "shares come with intervals"
    screen = text[: text.index("cannot show")]
    assert not [word for word in JARGON if word in screen]


def test_tables_come_only_when_asked(man: Audit) -> None:
    short, long = shown(man), shown(man, verbose=True)
    assert "Published scores" not in short and "--verbose" in short
    assert "Published scores" in long and "PS pro-stereotypical" in long
    assert long.index("Who does the model see?") < long.index("Published scores")
    # The columns that drop the jobs without a stereotype say so.
    assert "female jobs" in long and "over the occupations of that stereotype alone" in " ".join(long.split())


def test_the_sentence_names_every_cause_and_direction(man: Audit) -> None:
    def woman(premises: list[str], hypotheses: list[str]) -> list[dict[str, float]]:
        other = {"man": "woman", "woman": "man"}
        return leaning(premises, [re.sub(r"\b(wo)?man\b", lambda m: other[m[0]], text) for text in hypotheses])

    audit = evenli.audit(woman, scoring=Scoring())
    rows = Predictions(audit.predictions.frame.filter(~pl.col("subset").is_in(["gold", "control"])), audit.header)
    sentence = summarise(Audit(assess(rows, Scoring()), rows)).sentence
    assert "assumes a woman" in sentence and "a man" not in sentence


def test_a_weak_model_has_grey_numbers() -> None:
    audit = evenli.audit("fake:neutral", scoring=Scoring())
    text = shown(audit)
    assert text.startswith("Verdict  No verdict") and "Greyed out" in text
    assert "It does not do the task well enough" in text


def test_a_run_without_a_verdict_shows_its_measures() -> None:
    audit = evenli.audit("fake:even", suites=("dev2020",), scoring=Scoring())
    found = summarise(audit)
    assert found.sentence == audit.verdict.sentence and not found.bars and found.numbers
    assert found.numbers[0].name in shown(audit)


def test_bars_fill_their_width() -> None:
    assert bar_lengths([0.36, 0.14, 0.29, 0.21]) == [13, 5, 10, 8]
    assert (
        sum(bar_lengths([1 / 3] * 3)) == 36
        and bar_lengths([0.001, 0.999]) == [1, 35]
        and bar_lengths([1.0, 0.0]) == [36, 0]
    )


def test_the_card_has_the_same_numbers(man: Audit) -> None:
    text = to_markdown(summarise(man))
    assert text.startswith("**This model strongly assumes a man")
    assert "| jobs without a stereotype, 1,000 sentences | 0% (0–3) | 100% (97–100) |" in text
    assert "- **Assumes a man: 100**" in text and "Example (" in text
