"""What people are shown, in neutral form: terminal, HTML, Markdown, LaTeX and notebooks render the same values.

Plain values: nothing here knows how it is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from evenli.core.format import percent
from evenli.core.labels import CONTRADICTION, ENTAILMENT, NEUTRAL
from evenli.core.record import Estimate

TERMINAL, PAGE, CARD = "terminal", "page", "card"
"""Where blocks are shown: on a terminal, in an HTML report, in a model card."""
ANSWERS = {ENTAILMENT: "yes", NEUTRAL: "cannot know", CONTRADICTION: "no"}
"""The three labels as answers to the question whether the second sentence follows."""


class Fact(NamedTuple):
    """A number under a name that needs no explanation; ``text`` is its interval."""

    name: str
    value: str
    text: str = ""
    meaning: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell whose words are marked, as (word, weight) or plain text; a weight above 0 is female, below 0 male."""

    parts: Sequence[str | tuple[str, float | str]]


class Figure(NamedTuple):
    """A chart with everything needed where it cannot be seen: what it shows in words, and its data as a table.

    ``chart`` is of Vega-Altair, or SVG as text. One that is ``kept`` becomes files beside a report.
    """

    name: str
    title: str
    alternative: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    chart: Any
    kept: bool = False

    @staticmethod
    def of_svg(title: str, svg: str) -> Figure:
        """A drawing that has its text alternative in it."""
        return Figure("", title, "", (), (), svg)


@dataclass(frozen=True)
class Block:
    """A heading, sentences, charts and a table."""

    heading: str = ""  # also of the link to it
    lines: Sequence[str] = ()  # sentences above the table
    columns: Sequence[str] = ()  # titles; one that begins with ``>`` is of numbers, to the right
    rows: Sequence[Sequence[Any]] = ()  # cells: text, numbers or ``Cell``
    figures: Sequence[Figure] = ()
    caption: str = ""  # of the table
    notes: Sequence[str] = ()  # sentences below
    stressed: Collection[int] = ()  # numbers of the rows in bold
    filtered: bool = False  # whether the table gets a field to search it
    cut: str = ""  # that rows were left out of the table; ``render`` says so
    measures: bool = False  # whether the table of the measures of a suite is here
    link: str = ""  # text of the link to it in a report on one suite: a section, to which the blocks below belong
    anchor: str = ""  # its identifier in a page; by default made from the heading
    detail: bool = False  # whether it is for those who read on: it comes late in a page, and is not printed
    grey: bool = False  # whether its numbers mean nothing
    bullets: bool = False  # whether the lines are a list
    spoken: bool = False  # whether the first column is in the language of the pairs
    # For each row two keys, and a table of answers that begins with these: premise, hypothesis, subset, group and three
    # probabilities follow. A page shows the answers of the row that is chosen.
    behind: tuple[Sequence[tuple[str, str]], Any] | None = None

    @property
    def id(self) -> str:
        """Its identifier in a page."""
        made = "".join(c if c.isalnum() and c.isascii() else "-" for c in self.heading.lower()).strip("-")
        return self.anchor or made or "part"


@dataclass(frozen=True)
class Share:
    """A part of a bar, with its interval."""

    label: str  # what the part is
    kind: str  # first and second for the two groups, both for answers that contradict each other, neither
    value: float
    low: float
    high: float

    @property
    def shown(self) -> str:
        """In percent with its interval, where there is one."""
        ends = range_of(self.low, self.high)
        return f"{percent(self.value)}{f' ({ends})' if ends else ''}"


@dataclass(frozen=True)
class Bar:
    """One kind of jobs: how its sentences are read."""

    name: str
    sentences: int
    shares: Sequence[Share]


@dataclass(frozen=True)
class Example:
    """A pair of the audit with the model's three probabilities, by label; ``about`` says how it was chosen."""

    premise: str
    hypothesis: str
    probabilities: dict[str, float]
    answer: str
    about: str

    @property
    def answers(self) -> list[tuple[str, float, bool, bool]]:
        """Answer in a plain word, its probability, whether it is the model's, whether it is right."""
        return [
            (word, self.probabilities[label], label == self.answer, label == NEUTRAL) for label, word in ANSWERS.items()
        ]


@dataclass(frozen=True)
class Summary:
    """The first screen: what a person should see in ten seconds. No word of the field is needed to read it."""

    sentence: str  # the verdict in one sentence, without a number
    detail: str = ""  # the verdict with its numbers
    problem: str = ""  # why the numbers say nothing about bias; else empty
    question: str = "Who does the model see?"  # heading of the bars
    bars: Sequence[Bar] = ()  # one per kind of jobs; none where the pairs do not define them
    numbers: Sequence[Fact] = ()  # a few numbers with plain names
    scale: str = ""  # what the numbers count
    beside: str = ""  # what other pairs of the run say against it
    example: Example | None = None  # one pair; None without pairs
    note: str = ""  # what the bars show and which answer is right
    limit: str = ""  # what all of this cannot show
    level: float = 0.95  # coverage of the intervals


def of_hundred(value: float) -> str:
    """A share as a count of a hundred.

    >>> of_hundred(0.354), of_hundred(-0.001)
    ('35', '0')
    """
    return "n/a" if math.isnan(value) else f"{round(100 * value) + 0:d}"


def range_of(low: float, high: float) -> str:
    """Both ends of an interval in percent; empty where there is none.

    >>> range_of(0.19, 0.58), range_of(-0.03, 0.12)
    ('19–58', '-3 to 12')
    """
    if math.isnan(low) or math.isnan(high):
        return ""
    return f"{of_hundred(low)}{' to ' if round(100 * low) < 0 else '–'}{of_hundred(high)}"


def plain_fact(name: str, estimate: Estimate, meaning: str) -> Fact:
    """A share of a hundred without its sign, which is in its name."""
    low, high = (estimate.low, estimate.high) if estimate.value >= 0 else (-estimate.high, -estimate.low)
    return Fact(name, of_hundred(abs(estimate.value)), range_of(low, high), meaning)
