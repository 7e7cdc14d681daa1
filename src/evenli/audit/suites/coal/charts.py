"""The charts of NLI-CoAL in a report."""

from __future__ import annotations

import math
from collections import Counter
from typing import cast

import polars as pl

from evenli.audit.suites.base import SHOWN_LABELS as SHOWN
from evenli.audit.suites.base import Run
from evenli.audit.suites.coal.breakdown import by_direction, by_template, judged
from evenli.audit.suites.coal.results import SUBSET_NAMES, CoalResult
from evenli.core.drawing import (
    Figure,
    chart_point,
    dots_with_intervals,
    inline,
    layered,
    load_altair,
    stacked_bars,
)
from evenli.core.format import number, short
from evenli.core.page import ACCENT

_LISTED, _BINS = 15, 20  # occupations of a chart, bars of a histogram


def figures(audit: Run) -> list[Figure]:
    """All charts of a run."""
    coal = cast(CoalResult, audit.result.suites["coal"])
    rows = judged(audit.sample("coal"))
    drawn = [_proportions(coal), _measures(coal), _published(coal, audit.name), _occupations(coal)]
    return [figure for figure in [*drawn, _templates(rows), _direction(rows)] if figure.rows]


def _proportions(coal: CoalResult) -> Figure:
    defined = ((name, of) for name, of in coal.proportions.items() if not any(map(math.isnan, of.values())))
    bars = [(f"{subset} {SUBSET_NAMES.get(subset, '')}".strip(), shares) for subset, shares in defined]
    rows = [(name, *(shares[label] for label in SHOWN)) for name, shares in bars]
    return stacked_bars(bars, "proportions", "Answers per set", ("set", *SHOWN), rows)


def _measures(coal: CoalResult) -> Figure:
    defined = [one for one in coal.measures.values() if not math.isnan(one.value)]
    points, words = [], []
    for m in defined:
        points.append(chart_point(m.title, value=m.value, low=m.low, high=m.high, ideal=m.ideal))
        ends = "" if math.isnan(m.low) else f" ({number(m.low)} to {number(m.high)})"
        words.append(f"{short(m.title)} {number(m.value)}{ends}.")
    return Figure(
        "measures",
        "All measures with their intervals; the grey tick is an even model",
        "Dots with intervals. " + " ".join(words),
        ("measure", "value", "low", "high", "even model"),
        tuple((one.title, one.value, one.low, one.high, f"{one.ideal:g}") for one in defined),
        dots_with_intervals(points, "value"),
    )


def _published(coal: CoalResult, model: str) -> Figure:
    points = []
    # A model without a verdict has no place among others.
    for row in () if coal.problem else coal.published:
        if not math.isnan(row.coal):
            ends = {"low": coal.low, "high": coal.high} if row.this else {}
            points.append(chart_point(model if row.this else row.model, this=row.this, value=row.coal, **ends))
    rows = tuple((p["name"], p["value"], p.get("low"), p.get("high")) for p in points) if len(points) > 1 else ()
    return Figure(
        "published",
        "NLI-CoAL beside the published models of the language",
        "Dots, most biased first. " + " ".join(f"{short(p['name'])} {number(p['value'])}." for p in points),
        ("model", "NLI-CoAL", "low", "high"),
        rows,
        dots_with_intervals(points, "NLI-CoAL"),
    )


def _occupations(coal: CoalResult) -> Figure:
    defined = [row for row in coal.occupations if not math.isnan(row.score) and not row.states_group][:_LISTED]
    points = []
    for row in defined:
        name = f"{short(row.occupation or '?', 20)} ({short(row.stereotype or '?', 8)})"
        points.append(chart_point(name, value=row.score, low=row.low, high=row.high))
    return Figure(
        "occupations",
        f"The {len(defined)} occupations with the largest share of biased answers, stereotyped ones first",
        "Dots with intervals. " + " ".join(f"{p['name']} {number(p['value'], 2)}." for p in points),
        ("occupation", "stereotype", "biased", "low", "high"),
        tuple((row.occupation, row.stereotype, row.score, row.low, row.high) for row in defined),
        dots_with_intervals(points, "share of biased answers"),
    )


def _templates(rows: pl.DataFrame) -> Figure:
    alt = load_altair()
    scores = by_template(rows)["score"].to_list()
    # The small shift keeps 0.15 in its own bin: 0.15 * 20 is 3 only up to rounding.
    counts = Counter(min(int(score * _BINS + 1e-9), _BINS - 1) for score in scores)
    values = [{"from": i / _BINS, "to": (i + 1) / _BINS, "count": counts[i]} for i in range(_BINS)]
    axis = alt.Axis(format=".0%", title="share of biased answers", grid=False)
    x = alt.X("from:Q", scale=alt.Scale(domain=[0, 1]), axis=axis)
    y = alt.Y("count:Q", axis=alt.Axis(title="templates", tickMinStep=1))
    bars = inline(values).mark_bar(color=ACCENT, binSpacing=1)
    ordered = sorted(scores)
    quartiles = [ordered[round(q * (len(ordered) - 1))] for q in (0, 0.25, 0.5, 0.75, 1)]
    words = "Histogram of {} templates. Smallest {:.0%}, quartiles {:.0%}, {:.0%} and {:.0%}, largest {:.0%}."
    return Figure(
        "templates",
        "Templates by the share of biased answers they get",
        words.format(len(scores), *quartiles),
        ("from", "to", "templates"),
        tuple((v["from"], v["to"], v["count"]) for v in values if v["count"]),
        layered(bars.encode(x=x, x2="to:Q", y=y, y2=alt.datum(0)), height=150),
    )


def _direction(rows: pl.DataFrame) -> Figure:
    directions = by_direction(rows).to_dicts()
    bars = [(f"{row['stereotype'] or '?'} → {row['group'] or '?'}", row) for row in directions]
    title = "Answers by stereotype of the occupation → group in the hypothesis"
    cells = [(r["stereotype"], r["group"], r["n"], *(r[label] for label in SHOWN)) for r in directions]
    return stacked_bars(bars, "direction", title, ("stereotype", "group", "pairs", *SHOWN), cells)
