"""The chart of the entailment probe: does a model differ where the labour market does?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from evenli.audit.suites.probe.measures import ProbeResult
from evenli.core.blocks import Figure
from evenli.core.drawing import SHAPES, SIDES, WIDTH, inline, kinds, load_altair, names_beside
from evenli.core.errors import InputError
from evenli.core.format import number, short
from evenli.core.page import GRID, MUTED

_PROBE_HEIGHT = 240
_LETTER, _LINE = 5.6, 12.0  # width of a letter and height of a line at the size of names beside points, in px


def probe_chart(result: ProbeResult) -> Any:
    """Two panels, a point per occupation: dP against the imbalance of the market, P_f - P_m against its women.

    Does a model differ where the labour market does, and in the same direction?
    """
    alt = load_altair("the chart of the probe")
    known = [row for row in result.occupations if not math.isnan(row.women_percent) and not math.isnan(row.dp)]
    if not known:
        raise InputError("nothing to draw: no occupation of the probe has a known share of women")
    points = [{**row.to_dict(), "imbalance": abs(2 * row.women_percent - 100)} for row in known]
    groups = sorted({row["stereotype"] for row in points})
    look = kinds("stereotype", groups, [SIDES.get(group, MUTED) for group in groups], SHAPES, title="dominated by")
    # Both panels reach up to the same number, so that a gap looks the same in both.
    most = 1.05 * max(max(row["dp"] for row in points), 0.01)
    panels = []
    for x, y, titles, low in (
        ("imbalance", "dp", ("|women - men| in the labour market, points", "gap dP"), 0),
        ("women_percent", "signed", ("women in the labour market, percent", "mean P_f - P_m"), -most),
    ):
        across = alt.X(f"{x}:Q", scale=alt.Scale(domain=[0, 100]), axis=alt.Axis(title=titles[0], grid=False))
        up = alt.Y(f"{y}:Q", scale=alt.Scale(domain=[low, most]), axis=alt.Axis(title=titles[1], gridColor=GRID))
        marks = inline(points).mark_point(filled=True, size=45, opacity=0.8).encode(x=across, y=up, **look)
        sides = placed_names(points, x, y, ([0, 100], [low, most]))
        layers = [marks, *names_beside(sides, "occupation", {"x": across, "y": up}, 6)]
        panels.append(alt.layer(*layers).properties(width=WIDTH, height=_PROBE_HEIGHT))
    return alt.vconcat(*panels)


def probe_figures(result: ProbeResult) -> list[Figure]:
    """The chart of the probe with its data; none where no occupation has a known share of women."""
    known = [row for row in result.occupations if not math.isnan(row.women_percent)]
    if not any(not math.isnan(row.dp) for row in known):
        return []
    largest = ", ".join(f"{short(row.occupation)} {number(row.dp, 2)}" for row in known[:5])
    return [
        Figure(
            "probe",
            "Does the model differ where the labour market does, and in the same direction?",
            f"Points, an occupation each. Largest gaps dP: {largest}.",
            ("occupation", "dominated by", "gap dP", "P_f - P_m", "women, percent"),
            tuple((row.occupation, row.stereotype, row.dp, row.signed, row.women_percent) for row in known),
            probe_chart(result),
            kept=True,
        )
    ]


def placed_names(
    points: Sequence[dict[str, Any]], x: str, y: str, spans: tuple[Sequence[float], Sequence[float]]
) -> dict[str, list[dict[str, Any]]]:
    """Points that get their name written, largest first, by side: names cover no name and no point."""
    (left, right), (low, high) = spans
    # Placed in pixels: a name has a width in letters, whatever the axes measure.
    pixels = [
        ((row[x] - left) / (right - left) * WIDTH, (high - row[y]) / (high - low) * _PROBE_HEIGHT) for row in points
    ]
    taken = [(a - 4, b - 4, a + 4, b + 4) for a, b in pixels]
    placed: dict[str, list[dict[str, Any]]] = {"left": [], "right": []}
    for row, (across, down) in sorted(zip(points, pixels, strict=True), key=lambda pair: -abs(pair[0][y])):
        length = _LETTER * len(row["occupation"])
        for side, start in (("left", across + 6), ("right", across - 6 - length)):
            a, b, c, d = start, down - _LINE / 2, start + length, down + _LINE / 2
            free = not any(a < box[2] and box[0] < c and b < box[3] and box[1] < d for box in taken)
            if a >= 0 and c <= WIDTH and free:
                taken.append((a, b, c, d))
                placed[side].append(row)
                break
    return placed
