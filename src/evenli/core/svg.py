"""Plain SVG made here, so that a page or a notebook needs no chart library for it.

Colours stand as attributes that style.css exchanges in dark mode; nothing else styles them, as the page's policy wants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from markupsafe import Markup

from evenli.core.blocks import Bar, Summary
from evenli.core.format import drawable, number, percent, short
from evenli.core.page import ACCENT, GRID, INK, MUTED

FILLS = {"first": "#d55e00", "second": "#0072b2", "both": "#a88cc8", "neither": "#7fae8b"}
"""The two groups apart for colour-blind readers; every bar has its name beside it."""
GREY = "#b6bcc4"
_WIDTH, _ROW, _LEFT, _RIGHT = 340, 25, 106, 292  # px: of a panel, of its rows, where its bars begin and end


class Dot(NamedTuple):
    """A model on an axis with its interval; ``muted`` where it has no verdict."""

    name: str
    value: float
    low: float
    high: float
    muted: bool = False


def panels(summary: Summary) -> list[tuple[Bar, Markup]]:
    """Every bar of a summary with its drawing."""
    return [(bar, Markup(panel(bar, grey=bool(summary.problem)))) for bar in summary.bars]


def panel(bar: Bar, *, grey: bool = False) -> str:
    """One kind of jobs: a bar per reading, its interval as a line, its share in percent."""
    parts, words = [], []
    span = _RIGHT - _LEFT
    for at, share in enumerate(bar.shares):
        middle = at * _ROW + _ROW / 2
        fill = GREY if grey else FILLS[share.kind]
        parts.append(_text(0, middle, share.label, INK))
        parts += [_bar(middle, f"{span}", GRID, ' opacity="0.35"'), _bar(middle, f"{span * share.value:.1f}", fill)]
        if not math.isnan(share.low):
            low, high = _LEFT + span * share.low, _LEFT + span * share.high
            parts.append(_line(low, middle, high, middle, INK, 1.5))
            parts += [_line(x, middle - 4, x, middle + 4, INK, 1.5) for x in (low, high)]
        parts.append(_text(_WIDTH, middle, percent(share.value), INK, anchor="end", weight="bold"))
        words.append(f"{share.label} {share.shown}")
    return _svg(_ROW * len(bar.shares), parts, f"Bars, {bar.name}: {', '.join(words)}.")


def word_bars(words: Sequence[tuple[str, float, str]]) -> str:
    """A bar for every word in the order of the text, as long as its share; the longest fills the width.

    A word comes with its share and its side, a key of FILLS, or empty for a word without lean.
    """
    longest = max((share for _, share, _ in words), default=0.0) or 1.0
    parts, said = [], []
    for at, (word, share, side) in enumerate(words):
        middle = at * _ROW + _ROW / 2
        width = (_RIGHT - _LEFT) * share / longest
        parts.append(_text(0, middle, short(word, 14), INK))
        parts.append(_bar(middle, f"{width:.1f}", FILLS.get(side, GREY)))
        parts.append(_text(_WIDTH, middle, percent(share, 1), INK, anchor="end"))
        said.append(f"{word} {percent(share, 1)}")
    return _svg(_ROW * len(words), parts, f"Bars of the importance of words: {', '.join(said)}.")


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
    right, top = _WIDTH - 14, 4
    left, row = (14, _ROW + 16) if above else (150, _ROW)

    def place(value: float) -> float:
        return left + (value - low) / (high - low) * (right - left)

    height = top + row * len(points) + 22
    # Names over their lines are not struck through: the grid stands beside the dots only.
    bottoms = (top + at * row + row for at in range(len(points)))
    spans = [(bottom - 20, bottom - 4) for bottom in bottoms] if above else [(top, height - 20)]
    parts = []
    for at in range(round((high - low) / step) + 1):
        tick = low + at * step
        x = place(tick)
        parts += [_line(x, start, x, end, GRID) for start, end in spans]
        parts.append(_text(x, height - 8, f"{round(tick, 2) + 0:g}", MUTED, anchor="middle", size=11))
    parts += [_line(place(even), start, place(even), end, MUTED, 2) for start, end in spans]
    words = []
    for at, point in enumerate(points):
        middle = top + at * row + _ROW / 2 + (row - _ROW)
        colour = MUTED if point.muted else ACCENT
        name, at_y, size = (short(point.name, 60), middle - 18, 12) if above else (short(point.name, 22), middle, 13)
        parts.append(_text(0, at_y, name, MUTED if point.muted else INK, size=size))
        if math.isnan(point.value):
            parts.append(_text(left, middle, "n/a", MUTED))
        else:
            if not math.isnan(point.low):
                parts.append(_line(place(point.low), middle, place(point.high), middle, colour, 3))
            parts.append(f'<circle cx="{place(point.value):.1f}" cy="{middle:g}" r="5" fill="{colour}"/>')
        interval = "" if math.isnan(point.low) else f" ({number(point.low, 2)} to {number(point.high, 2)})"
        words.append(f"{point.name} {number(point.value, 2)}{interval}")
    return _svg(height, parts, f"Dots with intervals, {title}: {'; '.join(words)}.")


def _svg(height: float, parts: Sequence[str], alternative: str) -> str:
    label = escape(drawable(alternative))
    return f'<svg viewBox="0 0 {_WIDTH} {height:g}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _text(x: float, y: float, text: str, fill: str, *, anchor: str = "start", weight: str = "", size: int = 13) -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    place = f'x="{x:.1f}" y="{y:g}" dy="0.35em" text-anchor="{anchor}"'
    return f'<text {place} font-size="{size}" fill="{fill}"{bold}>{escape(drawable(text))}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, stroke: str, width: float = 1) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:g}" x2="{x2:.1f}" y2="{y2:g}"'
    return f'<line {ends} stroke="{stroke}" stroke-width="{width:g}"/>'


def _bar(middle: float, width: str, fill: str, more: str = "") -> str:
    return f'<rect x="{_LEFT}" y="{middle - 8:g}" width="{width}" height="16" fill="{fill}"{more}/>'
