"""What the suite adds to its measures, and how it is shown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from evenli.audit.results import SuiteResult
from evenli.audit.suites.base import scoring_of
from evenli.audit.suites.coal.verdict import NEGLIGIBLE
from evenli.audit.suites.robust.curve import MEANS, WordingRow, curve, judged_rows
from evenli.audit.suites.robust.stability import (
    CHOICES,
    REST,
    CauseRow,
    LevelRow,
    VarianceRow,
    ViewCause,
    ViewRow,
    across,
    across_views,
    levels,
    variance_shares,
    view_rows,
)
from evenli.audit.suites.robust.wordings import DIMENSIONS
from evenli.core.blocks import Block
from evenli.core.estimate import MeasureResult
from evenli.core.format import interval, number, p_value, percent, with_interval
from evenli.stats.sample import Sample

TITLES = {"stereotype": "stereotype", "default_gender": "default gender", "undirected": "undirected error"}


class RobustResult(SuiteResult, frozen=True, kw_only=True):
    """Results across wordings.

    Attributes:
        wordings: The specification curve: every wording, the usual one first.
        causes: Each cause across the wordings that the model understands.
        shares: Which dimension explains the differences between wordings.
        levels: The mean of each cause for every choice.
        views: Of a language model: every wording with each prompt in each option order.
        view_causes: Each cause across these.
        view_shares: Which choice explains the differences between them, prompt and order among the dimensions.
    """

    optional: ClassVar[tuple[str, ...]] = ("views", "view_causes", "view_shares")
    computed: ClassVar[Mapping[str, str]] = {"judged": "judged"}
    gate: ClassVar[Mapping[str, str]] = {"causes": "{cause}.{column}", "view_causes": "{cause}.{column}"}

    wordings: list[WordingRow]
    causes: list[CauseRow]
    shares: list[VarianceRow]
    levels: list[LevelRow]
    views: list[ViewRow] = msgspec.field(default_factory=list)
    view_causes: list[ViewCause] = msgspec.field(default_factory=list)
    view_shares: list[VarianceRow] = msgspec.field(default_factory=list)

    @property
    def judged(self) -> int:
        """In how many wordings the model is judged."""
        return len(judged_rows(self.wordings))

    def cause(self, name: str) -> CauseRow:
        """One cause across wordings."""
        return next(row for row in self.causes if row.cause == name)

    @property
    def line(self) -> str:
        """The one line that an audit prints: does the direction survive, and how far does the level move?"""
        cause = self.cause("stereotype")
        if not cause.wordings:
            return "Wordings: the model understands none of those that were asked, so it is judged in none."
        return (
            f"Wordings: the direction of the stereotype holds in {cause.holds} of {cause.wordings} wordings; its level "
            f"ranges from {number(cause.lowest, 2)} to {number(cause.highest, 2)}."
        )


def summarise(sample: Sample, measures: dict[str, MeasureResult]) -> RobustResult:
    """The result of a run."""
    rows, cells = curve(sample, scoring_of(sample, measures).level), view_rows(sample)
    return RobustResult(
        measures=measures,
        wordings=rows,
        causes=across(rows, {cause: measures[name] for cause, name in MEANS.items()}),
        shares=variance_shares(rows),
        levels=levels(rows),
        views=cells,
        view_causes=across_views(cells, rows),
        view_shares=variance_shares(cells, CHOICES) if cells else [],
    )


def statement(result: RobustResult) -> str:
    """Each cause in a few words."""
    return f"Across wordings: {'; '.join(map(_said, result.causes))}."


def _said(row: CauseRow) -> str:
    title, of = TITLES[row.cause], f"of {row.wordings} wordings"
    if row.verdict == "not judged":
        return f"{title} cannot be judged, because the model understands {row.wordings} only"
    ends = f"{number(row.lowest, 2)} to {number(row.highest, 2)}"
    if row.verdict == "negligible":
        return f"{title} is negligible in nine of ten {of} or more ({ends})"
    what = "is above 0.05" if row.cause == "undirected" and row.usual > NEGLIGIBLE else "keeps its sign"
    what = "stays below 0.05" if row.cause == "undirected" and row.usual <= NEGLIGIBLE else what
    opposite = f", has the opposite one in {row.opposite}" if row.opposite else ""
    return f"{title} {what} in {row.holds} {of}{opposite} ({ends}): {row.verdict}"


def blocks(result: RobustResult) -> list[Block]:
    """Causes across wordings, one choice changed at a time, variance shares; the whole curve is a chart."""
    unknown = [row for row in result.wordings if not row.judged]
    lines = [result.line]
    if unknown:
        first = unknown[0]
        lines.append(
            f"Not judged in {len(unknown)} of {len(result.wordings)} wordings, where the model fails pairs that state "
            f"the group (first: {first.key}; {first.problem})."
        )
    columns = (
        *("cause", ">usual wording", ">mean of wordings", ">another wording", ">sign holds"),
        *(">opposite", ">same verdict", ""),
    )
    rows = [
        [
            TITLES[row.cause],
            with_interval(row.usual, row.usual_low, row.usual_high, 2),
            with_interval(row.mean, row.mean_low, row.mean_high, 2),
            interval(row.another_low, row.another_high, 2),
            *(f"{count}/{row.wordings}" for count in (row.holds, row.opposite, row.verdict_holds)),
            row.verdict,
        ]
        for row in result.causes
    ]
    level = result.causes[0].another_level
    of = "" if math.isnan(level) else f" Of further wordings {percent(level)} would lie within 'another wording'"
    heading = f"Does it survive another wording?{of}"
    shown = [
        Block(heading, columns=columns, rows=rows, notes=lines, grey=bool(result.problem)),
        Block(measures=True),
        _one_change(result),
        _shares(result.shares, DIMENSIONS),
    ]
    if result.views:
        shown += [
            _over_views(result),
            _shares(result.view_shares, CHOICES, "Prompts and option orders among the choices"),
        ]
    return shown


def _over_views(result: RobustResult) -> Block:
    """Each cause with every prompt and order by itself."""
    rows = [
        [
            TITLES[row.cause],
            f"{row.judged}/{row.cells}",
            *(f"{count}/{row.judged}" for count in (row.holds, row.opposite)),
            interval(row.lowest, row.highest, 2),
            row.verdict,
        ]
        for row in result.view_causes
    ]
    columns = ("cause", ">understood", ">sign holds", ">opposite", ">lowest, highest", "")
    heading = "Every wording with each prompt and option order by itself; an audit averages over them"
    return Block(heading, columns=columns, rows=rows)


def _one_change(result: RobustResult) -> Block:
    """The usual wording, and those that differ from it in one choice."""
    usual = result.wordings[0]
    rows = []
    for row in result.wordings:
        changed = row.differs(usual)
        if len(changed) > 1:
            continue
        # The usual templates are our own, which the heading need not say.
        named = ", ".join(getattr(usual, name) for name in DIMENSIONS if name != "templates")
        name = f"{changed[0]}: {getattr(row, changed[0])}" if changed else f"usual: {named}"
        estimates = [row.estimate(name) for name in _COLUMNS]
        shown = [with_interval(estimate.value, estimate.low, estimate.high, 2) for estimate in estimates]
        rows.append([name, *shown, "" if row.judged else "not judged"])
    heading = "One choice changed at a time; the other wordings are in results.json and in the chart"
    columns = ("wording", *(f">{name}" for name in _COLUMNS.values()), "")
    return Block(heading, columns=columns, rows=rows, stressed={0})


_COLUMNS = {"follow": "follow", "defy": "defy", **TITLES}


def _shares(shares: Sequence[VarianceRow], dimensions: Sequence[str], about: str = "") -> Block:
    """Share of the differences that each dimension explains."""
    names = [name for name in (*dimensions, REST) if any(row.dimension == name for row in shares)]
    of = {(row.cause, row.dimension): row for row in shares}
    rows = [[name, *(_share(of.get((cause, name))) for cause in TITLES)] for name in names]
    noted = {row.cause: row.note for row in shares if row.note}
    # A reason that all causes share is said once.
    shared = len(noted) == len(TITLES) and len(set(noted.values())) == 1
    notes = [
        f"{note[:1].upper()}{note[1:]}." if shared else f"{TITLES[cause]}: {note}." for cause, note in noted.items()
    ]
    columns = ("dimension", *(f">{title}" for title in TITLES.values()))
    defined = any(not math.isnan(row.share) for row in shares)
    heading = "Which choice moves the number? Share of variance"
    return Block(
        f"{about}: {heading[:1].lower()}{heading[1:]}" if about else heading,
        columns=columns,
        rows=rows if defined else [],
        notes=notes[:1] if shared else notes,
    )


def _share(row: VarianceRow | None) -> str:
    if row is None or math.isnan(row.share):
        return number(math.nan)
    return percent(row.share) + (f" (p {p_value(row.p)})" if not math.isnan(row.p) else "")


def contrast(first: RobustResult, second: RobustResult) -> dict[str, int | str]:
    """In how many wordings, of those that both models understand, the first is below the second."""
    of_second = {row.key: row.stereotype for row in judged_rows(second.wordings)}
    values = [(row.stereotype, of_second[row.key]) for row in judged_rows(first.wordings) if row.key in of_second]
    below, above = (sum(sign * (b - a) > 1e-9 for a, b in values) for sign in (1, -1))
    sentence = (
        f"The first has the lower stereotype in {below} of {len(values)} wordings that both understand, the second in "
        f"{above}."
    )
    sentence = sentence if values else "The two models understand no wording in common."
    return {"wordings": len(values), "first_below": below, "second_below": above, "sentence": sentence}
