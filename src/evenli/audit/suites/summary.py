"""What a person should see of an audit in ten seconds; terminal, report, notebook and card show this, each in its way.

Plain values: nothing here knows how it is drawn. No word of the field is needed to read it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenli.audit.results import Verdict
from evenli.core.estimate import Estimate
from evenli.core.format import printable
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.stats.sample import Sample

ANSWERS = {ENTAILMENT: "yes", NEUTRAL: "cannot know", CONTRADICTION: "no"}
"""The three labels as answers to the question whether the second sentence follows."""
LIMIT = (
    "This cannot show that a model is fair: it is about these {}, these sentences and these groups, and says "
    "nothing about harm in use."
)
"""What no number here can show; the slot is for what the words are."""


@dataclass(frozen=True)
class Share:
    """A part of a bar, with its interval."""

    label: str  # what the part is
    kind: str  # first and second for the two groups, both for answers that contradict each other, neither
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Bar:
    """One kind of jobs: how its sentences are read."""

    name: str
    sentences: int
    shares: Sequence[Share]


@dataclass(frozen=True)
class PlainNumber:
    """A number under a name that needs no explanation; ``text`` has the interval."""

    name: str
    value: str
    text: str
    meaning: str


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
    """The first screen."""

    sentence: str  # the verdict in one sentence, without a number
    detail: str = ""  # the verdict with its numbers
    problem: str = ""  # why the numbers say nothing about bias; else empty
    question: str = "Who does the model see?"  # heading of the bars
    bars: Sequence[Bar] = ()  # one per kind of jobs; none where the pairs do not define them
    numbers: Sequence[PlainNumber] = ()  # a few numbers with plain names
    scale: str = ""  # what the numbers count
    example: Example | None = None  # one pair; None without pairs
    # What the bars show and which answer is right, and what all of this cannot show.
    note: str = "The right answer is always “neither”: a job says nothing about who does it."
    limit: str = LIMIT.format("jobs")
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


def plain_number(name: str, one: Estimate, meaning: str) -> PlainNumber:
    """A number without its sign, which is in its name."""
    low, high = (one.low, one.high) if one.value >= 0 else (-one.high, -one.low)
    return PlainNumber(name, of_hundred(abs(one.value)), range_of(low, high), meaning)


def in_one_sentence(verdict: Verdict, clauses: Sequence[str], even: str) -> str:
    """A clause for each cause, joined; ``even`` is what a model without a lean almost never does."""
    if clauses:
        *before, last = clauses
        return f"This model {', '.join(before)} and {last}." if before else f"This model {last}."
    if verdict.code == "even":
        return f"This model almost never {even}: no lean was found on these sentences."
    if verdict.code == "undecided":
        return "Undecided: these sentences cannot tell this model's leans from chance."
    return verdict.sentence


def typical_pair(sample: Sample, kinds: Sequence[NDArray[np.bool_]], asked: NDArray[np.int64]) -> Example | None:
    """A pair that stands for the model: the one of median certainty among the first kind of rows that has any.

    Not the worst pair: that would say how far a model can go, not what it does.

    Args:
        sample: The rows of a suite.
        kinds: Which rows have the answer that the verdict is about; none where it names no cause.
        asked: Rows to choose from; among equals the earlier one comes first.
    """
    if not asked.size:
        return None
    rows, about = asked, f"the middle one of {asked.size:,} pairs, by the model's certainty"
    for kind in kinds:
        if kind[asked].any():
            rows = asked[kind[asked]]
            about = f"a typical one of {rows.size:,} pairs with this kind of answer"
            break
    # No texts are copied: of a million rows only one is shown.
    certainty = sample.probabilities[rows].max(axis=1)
    at = int(rows[np.argsort(certainty, kind="stable")[rows.size // 2]])
    premise, hypothesis = sample.frame.select("premise", "hypothesis").row(at)
    return Example(
        premise=printable(str(premise)),
        hypothesis=printable(str(hypothesis)),
        probabilities=dict(zip(LABELS, sample.probabilities[at].tolist(), strict=True)),
        answer=LABELS[int(sample.predicted[at])],
        about=about,
    )
