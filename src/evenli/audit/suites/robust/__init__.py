"""Does the answer survive another wording? NLI-CoAL asked in many ways that mean the same."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.audit.pairs import PairSet
from evenli.audit.results import Verdict
from evenli.audit.suites.base import Suite, own
from evenli.audit.suites.coal import axis_texts
from evenli.audit.suites.robust import build, stability, verdict
from evenli.audit.suites.robust.curve import WordingRow, on_shared
from evenli.audit.suites.robust.stability import CHOICES, PURPOSE, REST, RobustResult, VarianceRow
from evenli.audit.suites.robust.verdict import revise
from evenli.audit.suites.robust.wordings import DIMENSIONS
from evenli.core.blocks import PAGE, Block, Figure
from evenli.core.drawing import WIDTH, defined_only, inline, load_altair
from evenli.core.errors import MissingExtraError
from evenli.core.extras import check_extra
from evenli.core.format import capitalised, interval, number, p_value, percent, with_interval
from evenli.core.page import ACCENT, GRID, INK, MUTED
from evenli.core.record import Estimate
from evenli.stats.sample import Sample

TITLES = {"stereotype": "stereotype", "default_gender": "default gender", "total_error": "total error"}
_NAMES = 130  # px for the names of choices, the same in both panels so that their columns meet


class Robust(Suite):
    """Whether a cause keeps its sign, and how far its level moves."""

    name = "robust"
    title = "NLI-CoAL in other words"
    reference = "evenli, after Seshadri et al. 2022"
    headline = "stereotype_mean"
    built_in = "wordings"
    result = RobustResult
    takes = ("full",)
    items = "pairs"
    causes = listed = verdict.NAMES

    pairs = own(build.load)
    summarise = own(stability.summarise)
    judge = own(verdict.judge)
    summary = own(verdict.summary)
    shared = own(on_shared)
    texts = own(axis_texts)

    def announce(self, pairs: PairSet) -> Sequence[str]:
        try:
            check_extra("wording", PURPOSE, "statsmodels")
        except MissingExtraError as error:
            # Said before minutes of work, not after.
            return f"{error}; everything else is computed without it", *pairs.notes[:1]
        return pairs.notes[:1]

    def revise(self, verdict: Verdict, result: RobustResult) -> Verdict:
        return revise(verdict, result)

    def blocks(self, result: RobustResult, sample: Sample, medium: str) -> list[Block]:
        figures = [figure(result)] if medium == PAGE else []
        about = "which choice moves the number? Share of variance"
        shown = [
            _over_wordings(result),
            Block(measures=True, figures=figures),
            _one_change(result),
            shares_block(result.shares, DIMENSIONS, capitalised(about)),
        ]
        if result.views:
            heading = f"Prompts and option orders among the choices: {about}"
            shown += [_over_views(result), shares_block(result.view_shares, CHOICES, heading)]
        return shown

    def biased(self, sample: Sample) -> tuple[NDArray[np.bool_], pl.DataFrame]:
        asked = ~sample.frame["occupation"].is_null()
        return sample.biased[asked.to_numpy()], sample.frame.filter(asked)

    def contrast(self, first: RobustResult, second: RobustResult) -> dict[str, int | str]:
        """In how many wordings, of those that both models understand, the first is below the second."""
        known = [{row.key: row.stereotype.value for row in result.wordings if row.judged} for result in (first, second)]
        values = [(value, known[1][key]) for key, value in known[0].items() if key in known[1]]
        below, above = (sum(sign * (b - a) > 1e-9 for a, b in values) for sign in (1, -1))
        sentence = f"The first has the lower stereotype in {below} of {len(values)} wordings that both understand, "
        sentence += f"the second in {above}."
        sentence = sentence if values else "The two models understand no wording in common."
        return {"wordings": len(values), "first_below": below, "second_below": above, "sentence": sentence}


def _over_wordings(result: RobustResult) -> Block:
    """Causes across wordings; the whole curve is a chart."""
    unknown = [row for row in result.wordings if not row.judged]
    lines = [result.line]
    if unknown:
        first = unknown[0]
        lines.append(
            f"Not judged in {len(unknown)} of {len(result.wordings)} wordings, where the model fails pairs that state "
            f"the group (first: {first.key}; {first.problem})."
        )
    rows = [
        [
            TITLES[row.cause],
            *(with_interval(of.value, of.low, of.high, 2) for of in (row.usual, row.mean)),
            interval(row.another_low, row.another_high, 2),
            *(f"{count}/{row.wordings}" for count in (row.holds, row.opposite, row.verdict_holds)),
            row.verdict,
        ]
        for row in result.causes
    ]
    inside = percent(result.causes[0].another_probability)
    said = f" One further wording of this grid lies inside 'another wording' with probability {inside}"
    of = said if result.judged > 1 else ""
    columns = ["cause", ">usual wording", ">mean of wordings", ">another wording", ">sign holds", ">opposite"]
    columns += [">same verdict", ""]
    heading = f"Does it survive another wording?{of}"
    return Block(heading, columns=columns, rows=rows, notes=lines, grey=bool(result.problem))


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
    columns = {"follow": "follow", "defy": "defy", **TITLES}
    # The usual templates are our own, which the heading need not say.
    named = ", ".join(getattr(usual, name) for name in DIMENSIONS if name != "templates")
    rows = []
    for row in result.wordings:
        changed = row.differs(usual)
        if len(changed) > 1:
            continue
        name = f"{changed[0]}: {getattr(row, changed[0])}" if changed else f"usual: {named}"
        estimates: Iterable[Estimate] = (getattr(row, column) for column in columns)
        shown = [with_interval(estimate.value, estimate.low, estimate.high, 2) for estimate in estimates]
        rows.append([name, *shown, "" if row.judged else "not judged"])
    heading = "One choice changed at a time; the other wordings are in results.json and in the chart"
    headings = ("wording", *(f">{name}" for name in columns.values()), "")
    return Block(heading, columns=headings, rows=rows, stressed={0})


def shares_block(shares: Sequence[VarianceRow], dimensions: Sequence[str], heading: str) -> Block:
    """Share of the differences that each dimension explains."""
    names = [name for name in (*dimensions, REST) if any(row.dimension == name for row in shares)]
    of = {(row.cause, row.dimension): row for row in shares}
    rows = [[name, *(_share(of.get((cause, name))) for cause in TITLES)] for name in names]
    notes = [f"{TITLES[row.cause]}: {row.note}." for row in shares if row.note]
    # A reason that all causes share is said once.
    if len(notes) == len(TITLES) and len({row.note for row in shares}) == 1:
        notes = [f"{capitalised(shares[0].note)}."]
    columns = ("dimension", *(f">{title}" for title in TITLES.values()))
    defined = any(not math.isnan(row.share) for row in shares)
    return Block(heading, columns=columns, rows=rows if defined else [], notes=notes)


def _share(row: VarianceRow | None) -> str:
    if row is None or math.isnan(row.share):
        return number(math.nan)
    return percent(row.share) + (f" (p {p_value(row.p)})" if not math.isnan(row.p) else "")


def figure(result: RobustResult) -> Figure:
    """The curve of the cause *stereotype*, with its data as a table."""
    rows = sorted(result.wordings, key=lambda row: float(np.nan_to_num(row.stereotype.value, nan=-math.inf)))
    cells = [
        (
            *(getattr(row, name) for name in DIMENSIONS),
            *(row.stereotype.value, row.stereotype.low, row.stereotype.high),
            *(row.default_gender.value, row.total_error.value, row.follow.value, row.defy.value),
            "yes" if row.judged else row.problem,
        )
        for row in rows
    ]
    columns = (*DIMENSIONS, "stereotype", "low", "high", "default gender", "total_error", "follow", "defy", "judged")
    words = (
        f"Specification curve of {len(rows)} wordings, sorted by the measure stereotype, from "
        f"{number(rows[0].stereotype.value, 2)} to {number(rows[-1].stereotype.value, 2)}. {result.line}"
    )
    title = f"Specification curve: stereotype in {len(rows)} wordings; grey ones the model does not understand"
    return Figure("wordings", title, words, columns, tuple(cells), _chart(rows, result.wordings[0]), kept=True)


def _chart(rows: Sequence[WordingRow], usual: WordingRow) -> Any:
    alt = load_altair("the chart of the wordings")
    size = max(3.0, min(26.0, 1000 / len(rows)))
    # Choices that never change would be rows of marks that say nothing.
    varied = [name for name in DIMENSIONS if len({getattr(row, name) for row in rows}) > 1]
    chosen = {name: dict.fromkeys(getattr(row, name) for row in [usual, *rows]) for name in varied}
    names = [f"{name}: {choice}" for name, choices in chosen.items() for choice in choices]
    values: list[dict[str, object]] = []
    marks: list[dict[str, object]] = []
    for rank, row in enumerate(rows):
        kind = "not judged" if not row.judged else "usual wording" if row is usual else "other wording"
        of = {"rank": rank, "kind": kind}
        found = row.stereotype
        numbers = defined_only({"value": found.value, "low": found.low, "high": found.high})
        values += [{**of, **numbers}] if "value" in numbers else []
        marks += [{**of, "choice": f"{name}: {getattr(row, name)}"} for name in varied]
    x = alt.X("rank:Q", axis=None, scale=alt.Scale(domain=[-1, len(rows)]))
    color = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=["usual wording", "other wording", "not judged"], range=[ACCENT, INK, GRID]),
        legend=alt.Legend(title=None, orient="top"),
    )
    axis = {"minExtent": _NAMES, "maxExtent": _NAMES}
    height = alt.Y("value:Q", axis=alt.Axis(title=None, gridColor=GRID, **axis))
    title = alt.TitleParams(
        "stereotype in each wording, with its interval", fontSize=11, fontWeight="normal", color=INK
    )
    base = inline(values)
    curve = alt.layer(
        inline([{"zero": 0}]).mark_rule(color=MUTED).encode(y="zero:Q"),
        base.transform_filter("isValid(datum.low)").mark_rule().encode(x=x, y="low:Q", y2="high:Q", color=color),
        base.mark_point(filled=True, opacity=1, size=size).encode(x=x, y=height, color=color),
    ).properties(width=WIDTH, height=150, title=title)
    labels = alt.Axis(title=None, ticks=False, domain=False, grid=True, gridColor=GRID, labelLimit=_NAMES, **axis)
    choices = (
        inline(marks)
        .mark_point(filled=True, opacity=1, size=size, shape="square")
        .encode(x=x, y=alt.Y("choice:N", sort=names, axis=labels), color=color)
        .properties(width=WIDTH, height=13 * len(names))
    )
    return alt.vconcat(curve, choices, spacing=4)


SUITE = Robust()
