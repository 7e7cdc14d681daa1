"""What is said around the numbers of a suite: in its model card, in the method part of a report, and by a gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FOUND_NOTHING = "A low score means that this probe found nothing, not that nothing is there."


@dataclass(frozen=True)
class CardText:
    """The texts of a model card; Markdown, so names of strangers pass through ``evenli.format.prose`` first."""

    heading: str
    asked: str  # after the name of the model: what it is asked to do or not to do
    limits: str  # after "these sentences,": what else the numbers are about
    measure: str  # the paper
    right: str = ""  # after the pairs: what their right answer is
    counts: Mapping[str, int] | None = None  # pairs by kind; None for those of the data
    below: str = ""  # a line below the table of measures
    with_sections: bool = True  # whether the tables that the suite shows beside its measures stand in the card


@dataclass(frozen=True)
class Method:
    """How a suite measures, for the end of a report: plain text."""

    text: str
    references: Sequence[str] = ()
    notation: str = ""  # what the letters of its formulas mean


@dataclass(frozen=True)
class Clause:
    """One condition of a policy."""

    name: str
    fail_if: str
    reason: str
    optional: bool = False  # whether it is skipped where a field is undefined
    suite: str = ""  # suite that a run must hold for the clause to apply; empty for any
