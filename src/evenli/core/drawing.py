"""Drawings for pages and files: plain SVG that is made here, and charts of Vega-Altair, rendered once to static SVG.

Bars and dots need no chart library. Charts are rendered here, with vl-convert, and not by Vega in the page: the page
then needs no script library (Vega is larger than the whole report) and no ``eval``, which a strict
Content-Security-Policy forbids; it prints, and it can be read without scripts. They are drawn 360 px wide, the width of
a phone, and enlarged on wider screens, so that their text stays readable. Every drawing carries a text alternative, and
every chart its data as a table.

Colours stand as attributes that style.css exchanges in dark mode; nothing else styles them, as the policy wants.
"""

from __future__ import annotations

import io
import math
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from evenli.core.blocks import Bar, Figure, Summary
from evenli.core.errors import InputError, MissingExtraError
from evenli.core.extras import need
from evenli.core.format import drawable, number, percent, short
from evenli.core.io import write_atomic
from evenli.core.labels import CONTRADICTION, ENTAILMENT, NEUTRAL
from evenli.core.page import ACCENT, GRID, INK, MUTED

FONTS = "system-ui, 'Noto Sans', 'Noto Sans CJK JP', 'Noto Sans CJK SC', 'Hiragino Sans', 'Yu Gothic', sans-serif"
FILLS = {ENTAILMENT: "#6cb6ff", NEUTRAL: "#d0d4da", CONTRADICTION: "#f2a65e"}
"""Label colours: apart for colour-blind readers, pale enough for dark text on them in both modes."""
ON_FILL = "#111417"
SIDES = {"female": "#d55e00", "male": "#0072b2"}
"""Apart for colour-blind readers; so are the shapes of the points."""
SHAPES = ("circle", "square")
WIDTH = 360
SHOWN = (ENTAILMENT, CONTRADICTION, NEUTRAL)  # labels in the order of bars, which is that of the papers
Bars = Sequence[tuple[str, Mapping[str, float]]]
_LABEL = 180  # px that the names of rows may take
_PLAIN: dict[str, object] = {"title": None, "domain": False, "ticks": False, "labelLimit": _LABEL}
_ELEMENTS = {"svg", "g", "path", "rect", "line", "circle", "text", "tspan"}
_ATTRIBUTES = """
width height viewBox fill stroke stroke-width stroke-dasharray stroke-miterlimit opacity fill-opacity stroke-opacity
transform d x y x1 y1 x2 y2 dx dy cx cy r text-anchor font-family font-size font-weight display
"""


def save_chart(chart: Any, name: str, folder: str | Path) -> list[Path]:
    """Write one chart as ``NAME.svg`` and ``NAME.png``; returns the files."""
    chart = chart.configure(**_config("white"))
    written = []
    for suffix, more in (("svg", {}), ("png", {"scale_factor": 3})):
        content: Any = io.StringIO() if suffix == "svg" else io.BytesIO()
        chart.save(content, format=suffix, **more)
        written.append(Path(folder) / f"{name}.{suffix}")
        write_atomic(written[-1], content.getvalue())
    return written


def inline_svg(figure: Figure) -> str:
    """The chart as SVG for a page: only shapes and text, no style, link, script or identifier."""
    if isinstance(figure.chart, str):  # drawn here
        return figure.chart
    stream = io.StringIO()
    figure.chart.configure(**_config("transparent")).save(stream, format="svg")
    # Names of strangers stand in the chart: what is not on a list of shapes does not get into the page.
    root = _bare(ET.fromstring(stream.getvalue()))
    root.set("role", "img")
    root.set("aria-label", figure.alternative)
    del root.attrib["width"], root.attrib["height"]
    return ET.tostring(root, encoding="unicode")


def _bare(element: ET.Element) -> ET.Element:
    """Copy what is on the lists. Vega's own aria labels go too: hundreds of marks read one by one help nobody."""
    allowed = _ATTRIBUTES.split()
    copy = ET.Element(element.tag.rpartition("}")[2])
    copy.attrib.update({name: value for name, value in element.attrib.items() if name in allowed})
    copy.text, copy.tail = element.text, element.tail
    for child in element:
        hidden = child.get("display") == "none" or (child.get("class") == "background" and "stroke" not in child.attrib)
        if child.tag.rpartition("}")[2] in _ELEMENTS and not hidden:
            copy.append(_bare(child))
    return copy


def _config(background: str) -> dict[str, object]:
    text = {"labelColor": INK, "titleColor": INK, "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal"}
    return {
        "background": background,
        "font": FONTS,
        "padding": 2,
        "view": {"stroke": None},
        "axis": {**text, "gridColor": GRID, "domainColor": MUTED, "tickColor": MUTED},
        "legend": {**text, "title": None},
    }


def load_altair(purpose: str = "the HTML report") -> Any:
    """Vega-Altair, or which extra brings it and what it is needed for."""
    need("vl_convert", extra="report", purpose=purpose)
    return need("altair", extra="report", purpose=purpose)


def inline(values: Sequence[Mapping[str, Any]]) -> Any:
    """A chart of values that stand in it; the marks are added by the caller."""
    alt = load_altair()
    return alt.Chart(alt.InlineData(values=list(values)))


def kinds(field: str, names: Sequence[str], colours: Sequence[str], shapes: Sequence[str], **legend: Any) -> Any:
    """Colour and shape of points by kind: shapes tell them apart without colour."""
    alt = load_altair()
    key = alt.Legend(**({"title": None, "orient": "top"} | legend))
    return {
        "color": alt.Color(f"{field}:N", scale=alt.Scale(domain=list(names), range=list(colours)), legend=key),
        "shape": alt.Shape(f"{field}:N", scale=alt.Scale(domain=list(names), range=list(shapes)), legend=key),
    }


def names_beside(sides: Mapping[str, Sequence[Mapping[str, Any]]], field: str, where: Any, dx: int, dy: int = 0) -> Any:
    """Layers that write names to the right of points (``left``-aligned) or to their left."""
    layers = []
    for side, points in sides.items():
        shift = dx if side == "left" else -dx
        text = inline(points).mark_text(align=side, dx=shift, dy=dy, fontSize=10, color=INK)
        layers.append(text.encode(**where, text=f"{field}:N"))
    return layers


def layered(*layers: Any, height: int) -> Any:
    """Layers over each other, as wide as a phone."""
    alt = load_altair()
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    return alt.layer(*layers).properties(width=WIDTH, height=height, autosize=fit)


def stacked_bars(
    bars: Bars, name: str, title: str, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]
) -> Figure:
    """A bar per entry of shares of the labels."""
    words = [f"{short(bar)}: {', '.join(f'{x} {percent(of[x], 1)}' for x in SHOWN)}." for bar, of in bars]
    alt = load_altair()
    values = []
    names = _unique([bar for bar, _ in bars])
    for bar, (_, shares) in zip(names, bars, strict=True):
        end = 0.0
        for label in SHOWN:
            start, end, share = end, end + shares[label], shares[label]
            place = {"from": start, "to": end, "middle": (start + end) / 2}
            values.append({"name": bar, "label": label, "text": f"{percent(share)}" if share >= 0.08 else "", **place})
    base = inline(values)
    y = alt.Y("name:N", sort=names, axis=alt.Axis(minExtent=_extent(names), grid=False, **_PLAIN))
    # Placed by hand at the left edge: beside long names the plot is narrower than its legend.
    legend = alt.Legend(orient="none", direction="horizontal", legendX=-_extent(names), legendY=-20)
    scale = alt.Scale(domain=list(SHOWN), range=[FILLS[label] for label in SHOWN])
    colour = alt.Color("label:N", scale=scale, legend=legend)
    axis = alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1], title="share of answers")
    x = alt.X("from:Q", scale=alt.Scale(domain=[0, 1]), axis=axis)
    drawn = base.mark_bar(height=18).encode(x=x, x2="to:Q", y=y, color=colour)
    written = base.mark_text(color=ON_FILL, fontSize=11).encode(x="middle:Q", y=y, text="text:N")
    # A legend placed by hand takes no room of its own.
    padding = {"top": 24, "left": 2, "right": 2, "bottom": 2}
    chart = layered(drawn, written, height=28 * len(bars)).properties(padding=padding)
    return Figure(name, title, " ".join(["Stacked bars.", *words]), columns, tuple(rows), chart)


def dots_with_intervals(points: Sequence[dict[str, Any]], title: str) -> Any:
    """Dots with intervals; a point with ``ideal`` gets a tick where an even model would lie."""
    alt = load_altair()
    names = _unique([point["name"] for point in points])
    values = [{**point, "name": name} for name, point in zip(names, points, strict=True)]
    ends = [float(v[key]) for v in values for key in ("value", "low", "high", "ideal") if key in v]
    scale = alt.Scale(domain=[min([0.0, *ends]), max([1.0, *ends])], nice=True)
    base = inline(values)
    y = alt.Y("name:N", sort=names, axis=alt.Axis(minExtent=_extent(names), grid=True, **_PLAIN))
    x = alt.X("value:Q", scale=scale, axis=alt.Axis(tickCount=5, title=title, grid=False))
    colour = alt.condition("datum.this", alt.value(ACCENT), alt.value(MUTED))
    ticks = base.transform_filter("isValid(datum.ideal)").mark_tick(color=MUTED, thickness=2, size=14)
    lines = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=2).encode(color=colour)
    dots = base.mark_point(filled=True, size=50, opacity=1).encode(color=colour)
    return layered(
        ticks.encode(x=alt.X("ideal:Q", scale=scale), y=y),
        lines.encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=y),
        dots.encode(x=x, y=y),
        height=22 * len(points),
    )


def chart_point(name: str, *, this: bool = True, **numbers: float) -> dict[str, Any]:
    """A point of ``dots_with_intervals``; ``this`` is the model that a chart is about."""
    return {"name": name, "this": this, **defined_only(numbers)}


def defined_only(numbers: Mapping[str, float]) -> dict[str, float]:
    """Numbers of a point of a chart; what is undefined is left out, because JSON has no NaN."""
    return {name: value for name, value in numbers.items() if not math.isnan(value)}


def _unique(names: Sequence[object]) -> list[str]:
    """Names as the axis shows them; a repeated one is numbered, because rows of one name would be drawn as one."""
    cut = [short(name) for name in names]
    return [f"#{cut[:i].count(name) + 1} {name}" if cut.count(name) > 1 else name for i, name in enumerate(cut)]


def _extent(names: Sequence[str]) -> float:
    """Room for the longest name in any font: the reader's may be wider than the one vl-convert measures with."""
    widths = (sum(12.0 if unicodedata.east_asian_width(c) in "WF" else 6.4 for c in name) for name in names)
    return min(_LABEL, 4 + max(widths, default=0.0))


def drawn(title: str, alternative: str, draw: Callable[[Any], Any], content: Any) -> list[Figure]:
    """A chart; none where nothing can be drawn or the chart library is not installed."""
    try:
        figure = Figure("", title, f"{alternative}.", (), (), draw(content))
        return [figure._replace(chart=inline_svg(figure))]
    except (InputError, MissingExtraError):
        return []


KIND_FILLS = {"first": "#d55e00", "second": "#0072b2", "both": "#a88cc8", "neither": "#7fae8b"}
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
        fill = GREY if grey else KIND_FILLS[share.kind]
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

    A word comes with its share and its side, a key of KIND_FILLS, or empty for a word without lean.
    """
    longest = max((share for _, share, _ in words), default=0.0) or 1.0
    parts, said = [], []
    for at, (word, share, side) in enumerate(words):
        middle = at * _ROW + _ROW / 2
        width = (_RIGHT - _LEFT) * share / longest
        parts.append(_text(0, middle, short(word, 14), INK))
        parts.append(_bar(middle, f"{width:.1f}", KIND_FILLS.get(side, GREY)))
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
