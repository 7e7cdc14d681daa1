"""Dots with intervals as plain SVG, made here so that a page needs no chart library for them.

Colours stand as attributes that style.css exchanges in dark mode; nothing else styles them, as the page's policy wants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from evenli.core.format import drawable, number, short
from evenli.core.page import ACCENT, GRID, INK, MUTED

WIDTH, ROW = 340, 25
"""Pixels: of a drawing, and of one of its rows."""


class Dot(NamedTuple):
    """A model on an axis with its interval; ``muted`` where it has no verdict."""

    name: str
    value: float
    low: float
    high: float
    muted: bool = False


def dots(title: str, points: Sequence[Dot], even: float = 0.0, *, above: bool = False) -> str:
    """Models with intervals on one axis; a line marks where an even model would lie.

    With ``above`` a name stands over its line, not before it, so that a long one has room.
    """
    # The axis holds every end of an interval, the even model and 1.
    defined = [point for point in points if not math.isnan(point.value)]
    ends = [end for p in defined for end in (p.value, p.low, p.high) if not math.isnan(end)] + [even, 1.0]
    # Rounding of a hundredth makes no room of its own.
    step = 0.25 if min(ends) > -0.01 else 0.5
    low, high = math.floor((min(ends) + 0.01) / step) * step, math.ceil((max(ends) - 0.01) / step) * step
    left, right, top = (14 if above else 150), WIDTH - 14, 4
    row = ROW + 16 if above else ROW

    def place(value: float) -> float:
        return left + (value - low) / (high - low) * (right - left)

    height = top + row * len(points) + 22
    # Names over their lines are not struck through: the grid stands beside the dots only.
    ends_at = [(top + at * row + row - 20, top + at * row + row - 4) for at in range(len(points))]
    spans = ends_at if above else [(top, height - 20)]
    parts = []
    for at in range(round((high - low) / step) + 1):
        tick = low + at * step
        x = place(tick)
        parts += [svg_line(x, start, x, end, GRID) for start, end in spans]
        parts.append(svg_text(x, height - 8, f"{round(tick, 2) + 0:g}", MUTED, anchor="middle", size=11))
    parts += [svg_line(place(even), start, place(even), end, MUTED, 2) for start, end in spans]
    words = []
    for at, point in enumerate(points):
        middle = top + at * row + ROW / 2 + (row - ROW)
        colour = MUTED if point.muted else ACCENT
        name, at_y, size = (short(point.name, 60), middle - 18, 12) if above else (short(point.name, 22), middle, 13)
        parts.append(svg_text(0, at_y, name, MUTED if point.muted else INK, size=size))
        if math.isnan(point.value):
            parts.append(svg_text(left, middle, "n/a", MUTED))
        else:
            if not math.isnan(point.low):
                parts.append(svg_line(place(point.low), middle, place(point.high), middle, colour, 3))
            parts.append(f'<circle cx="{place(point.value):.1f}" cy="{middle:g}" r="5" fill="{colour}"/>')
        interval = "" if math.isnan(point.low) else f" ({number(point.low, 2)} to {number(point.high, 2)})"
        words.append(f"{point.name} {number(point.value, 2)}{interval}")
    return svg(height, parts, f"Dots with intervals, {title}: {'; '.join(words)}.")


def svg(height: float, parts: Sequence[str], alternative: str) -> str:
    """A drawing, ``WIDTH`` wide, with its text alternative."""
    label = escape(drawable(alternative))
    return f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def svg_text(
    x: float, y: float, text: str, fill: str, *, anchor: str = "start", weight: str = "", size: int = 13
) -> str:
    """A text that begins, ends or is centred at a place."""
    bold = f' font-weight="{weight}"' if weight else ""
    place = f'x="{x:.1f}" y="{y:g}" dy="0.35em" text-anchor="{anchor}"'
    return f'<text {place} font-size="{size}" fill="{fill}"{bold}>{escape(drawable(text))}</text>'


def svg_line(x1: float, y1: float, x2: float, y2: float, stroke: str, width: float = 1) -> str:
    """A line between two points."""
    ends = f'x1="{x1:.1f}" y1="{y1:g}" x2="{x2:.1f}" y2="{y2:g}"'
    return f'<line {ends} stroke="{stroke}" stroke-width="{width:g}"/>'
