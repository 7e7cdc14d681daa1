"""What is said around the numbers of a suite: in its model card, in the method part of a report, and by a gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl

FOUND_NOTHING = "A low score means that this probe found nothing, not that nothing is there."


@dataclass(frozen=True)
class CardText:
    """The texts of a model card; Markdown, so names of strangers pass through ``evenli.core.format.prose`` first."""

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
class Ranking:
    """How a report sets several models side by side, by the headline of a suite."""

    drawn: Mapping[str, str]  # measures with what they say, each drawn on an axis
    columns: Mapping[str, str]  # further measures of the table, with their titles
    differ: Mapping[str, str]  # measures with a clause on in what two models differ


class Page(Protocol):
    """What a report shows of one suite alone, made from an audit.

    ``template`` lies in the folder ``templates`` of ``package`` and has two macros, ``before`` and ``after`` the part
    about competence: ``(run, page, i, owner, level)``. ``links`` are all anchors of a report on one run. The sentences
    behind each entry of ``occupations`` come from ``rows``, as ``coal.breakdown.judged`` makes them.
    """

    package: str
    template: str
    links: Sequence[tuple[str, str]]
    occupations: Sequence[Any]
    rows: pl.DataFrame


@dataclass(frozen=True)
class Clause:
    """One condition of a policy."""

    name: str
    fail_if: str
    reason: str
    optional: bool = False  # whether it is skipped where a field is undefined
    suite: str = ""  # suite that a run must hold for the clause to apply; empty for any
