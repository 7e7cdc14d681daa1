"""The occupation curve of the probe: does a model differ where the labour market does, and in the same direction?"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, cast

from evenli._extras import need
from evenli.errors import InputError
from evenli.report.charts import GRID, INK, MUTED, WIDTH, save_chart
from evenli.suites.probe.measures import ProbeResult
from evenli.types import AuditResult

_HEIGHT = 240
_LETTER, _LINE = 5.6, 12.0
"""Width of a letter and height of a line at the size of the names, in px."""
_COLOURS = {"female": "#d55e00", "male": "#0072b2"}
"""Apart for colour-blind readers; shapes tell the points apart without colour."""


def probe_chart(result: AuditResult) -> Any:
    """Two panels, a point per occupation: dP against the imbalance of the market, P_f - P_m against its women."""
    need("vl_convert", extra="report", purpose="the chart of the probe")
    alt = need("altair", extra="report", purpose="the chart of the probe")
    if "probe" not in result.suites:
        raise InputError("nothing to draw: the results hold no probe; audit the model with --suite probe")
    occupations = cast(ProbeResult, result.probe).occupations
    known = [row for row in occupations if not math.isnan(row.women_percent) and not math.isnan(row.dp)]
    if not known:
        raise InputError("nothing to draw: no occupation of the probe has a known share of women")
    points = [{**row.to_dict(), "imbalance": abs(2 * row.women_percent - 100)} for row in known]
    groups = sorted({row["stereotype"] for row in points})
    scale = alt.Scale(domain=groups, range=[_COLOURS.get(group, MUTED) for group in groups])
    legend = alt.Legend(title="dominated by", orient="top")
    colour = alt.Color("stereotype:N", scale=scale, legend=legend)
    shape = alt.Shape("stereotype:N", scale=alt.Scale(domain=groups, range=["circle", "square"]), legend=legend)

    def panel(x: str, y: str, titles: tuple[str, str], spans: tuple[list[float], list[float]]) -> Any:
        named = _placed(points, x, y, spans)
        across = alt.X(f"{x}:Q", scale=alt.Scale(domain=spans[0]), axis=alt.Axis(title=titles[0], grid=False))
        up = alt.Y(f"{y}:Q", scale=alt.Scale(domain=spans[1]), axis=alt.Axis(title=titles[1], gridColor=GRID))
        base = alt.Chart(alt.InlineData(values=points))
        marks = base.mark_point(filled=True, size=45, opacity=0.8).encode(x=across, y=up, color=colour, shape=shape)
        sides = []
        for align, shift in (("left", 6), ("right", -6)):
            chosen = alt.InlineData(values=[row for row, side in named if side == align])
            text = alt.Chart(chosen).mark_text(align=align, dx=shift, fontSize=10, color=INK)
            sides.append(text.encode(x=across, y=up, text="occupation:N"))
        return alt.layer(marks, *sides).properties(width=WIDTH, height=_HEIGHT)

    most = max(max(row["dp"] for row in points), 0.01)
    size = panel(
        "imbalance", "dp", ("|women - men| in the labour market, points", "gap dP"), ([0, 100], [0, most * 1.05])
    )
    direction = panel(
        "women_percent",
        "signed",
        ("women in the labour market, percent", "mean P_f - P_m"),
        ([0, 100], [-most * 1.05, most * 1.05]),
    )
    return alt.vconcat(size, direction)


def write_probe_chart(result: AuditResult, folder: str | Path) -> list[Path]:
    """Write the chart as ``probe.svg`` and ``probe.png``; returns the files."""
    return save_chart(probe_chart(result), "probe", folder)


def _placed(
    points: list[dict[str, Any]], x: str, y: str, spans: tuple[list[float], list[float]]
) -> list[tuple[dict[str, Any], str]]:
    """Points that get their name written, largest first, and on which side: names cover no name and no point."""

    def pixels(row: dict[str, Any]) -> tuple[float, float]:
        (left, right), (low, high) = spans
        return (row[x] - left) / (right - left) * WIDTH, (high - row[y]) / (high - low) * _HEIGHT

    dots = [(a - 4, b - 4, a + 4, b + 4) for a, b in map(pixels, points)]
    taken: list[tuple[float, float, float, float]] = []
    placed = []
    for row in sorted(points, key=lambda row: -abs(row[y])):
        across, down = pixels(row)
        length = _LETTER * len(row["occupation"])
        for side, start in (("left", across + 6), ("right", across - 6 - length)):
            box = start, down - _LINE / 2, start + length, down + _LINE / 2
            if start >= 0 and box[2] <= WIDTH and not any(_overlap(box, other) for other in (*dots, *taken)):
                taken.append(box)
                placed.append((row, side))
                break
    return placed


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
