"""The drawings of the first screen: plain SVG made here, so that a notebook needs no chart library for them.

Colours stand as attributes that style.css exchanges in dark mode; nothing else styles them, as the page's policy wants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from evenli.audit.suites.summary import Bar, Share, Summary, range_of
from evenli.core.dots import ROW, WIDTH, svg, svg_line, svg_text
from evenli.core.format import percent, short
from evenli.core.page import GRID, INK

FILLS = {"first": "#d55e00", "second": "#0072b2", "both": "#a88cc8", "neither": "#7fae8b"}
"""The two groups apart for colour-blind readers; every bar has its name beside it."""
GREY = "#b6bcc4"
_LEFT, _RIGHT = 106, 292  # px: where bars begin and end


def panels(summary: Summary) -> list[tuple[Bar, Markup]]:
    """Every bar of a summary with its drawing."""
    return [(bar, Markup(panel(bar, grey=bool(summary.problem)))) for bar in summary.bars]


def panel(bar: Bar, *, grey: bool = False) -> str:
    """One kind of jobs: a bar per reading, its interval as a line, its share in percent."""
    parts, words = [], []
    span = _RIGHT - _LEFT
    for at, share in enumerate(bar.shares):
        middle = at * ROW + ROW / 2
        fill = GREY if grey else FILLS[share.kind]
        parts.append(svg_text(0, middle, share.label, INK))
        parts += [_bar(middle, f"{span}", GRID, ' opacity="0.35"'), _bar(middle, f"{span * share.value:.1f}", fill)]
        if not math.isnan(share.low):
            low, high = _LEFT + span * share.low, _LEFT + span * share.high
            parts.append(svg_line(low, middle, high, middle, INK, 1.5))
            parts += [svg_line(x, middle - 4, x, middle + 4, INK, 1.5) for x in (low, high)]
        parts.append(svg_text(WIDTH, middle, percent(share.value), INK, anchor="end", weight="bold"))
        words.append(f"{share.label} {share_text(share)}")
    return svg(ROW * len(bar.shares), parts, f"Bars, {bar.name}: {', '.join(words)}.")


def share_text(share: Share) -> str:
    """A share in percent with its interval, where there is one."""
    ends = range_of(share.low, share.high)
    return f"{percent(share.value)}{f' ({ends})' if ends else ''}"


def word_bars(words: Sequence[tuple[str, float, str]]) -> str:
    """A bar for every word in the order of the text, as long as its share; the longest fills the width.

    A word comes with its share and its side, a key of FILLS, or empty for a word without lean.
    """
    longest = max((share for _, share, _ in words), default=0.0) or 1.0
    parts, said = [], []
    for at, (word, share, side) in enumerate(words):
        middle = at * ROW + ROW / 2
        width = (_RIGHT - _LEFT) * share / longest
        parts.append(svg_text(0, middle, short(word, 14), INK))
        parts.append(_bar(middle, f"{width:.1f}", FILLS.get(side, GREY)))
        parts.append(svg_text(WIDTH, middle, percent(share, 1), INK, anchor="end"))
        said.append(f"{word} {percent(share, 1)}")
    return svg(ROW * len(words), parts, f"Bars of the importance of words: {', '.join(said)}.")


def _bar(middle: float, width: str, fill: str, more: str = "") -> str:
    return f'<rect x="{_LEFT}" y="{middle - 8:g}" width="{width}" height="16" fill="{fill}"{more}/>'
