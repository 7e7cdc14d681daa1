"""The charts of a report: Vega-Altair specifications, rendered once to static SVG.

Rendered here, with vl-convert, and not by Vega in the page: the page then needs no script library (Vega is larger than
the whole report) and no ``eval``, which a strict Content-Security-Policy forbids; it prints, and it can be read without
scripts. Charts are drawn 360 px wide, the width of a phone, and enlarged on wider screens, so that their text stays
readable. Every chart carries a text alternative and its data as a table.
"""

from __future__ import annotations

import io
import math
import unicodedata
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple, cast

import polars as pl

from evenli._extras import need
from evenli.evaluate.audit import Audit
from evenli.format import number, percent, short
from evenli.io import write_atomic
from evenli.labels import CONTRADICTION, ENTAILMENT, NEUTRAL
from evenli.page import ACCENT, GRID, INK, MUTED
from evenli.suites.base import SHOWN_LABELS as SHOWN
from evenli.suites.base import get_suite
from evenli.suites.coal import SUITE as COAL
from evenli.suites.coal.breakdown import by_direction, by_template, judged
from evenli.suites.coal.results import SUBSET_NAMES, CoalResult

FONTS = "system-ui, 'Noto Sans', 'Noto Sans CJK JP', 'Noto Sans CJK SC', 'Hiragino Sans', 'Yu Gothic', sans-serif"
FILLS = {ENTAILMENT: "#6cb6ff", NEUTRAL: "#d0d4da", CONTRADICTION: "#f2a65e"}
"""Label colours: apart for colour-blind readers, pale enough for dark text on them in both modes."""
ON_FILL = "#111417"
SIDES = {"female": "#d55e00", "male": "#0072b2"}
"""Apart for colour-blind readers; so are the shapes of the points."""
SHAPES = ("circle", "square")
WIDTH = 360
Bars = Sequence[tuple[str, Mapping[str, float]]]
_LABEL = 180  # px that the names of rows may take
_LISTED, _BINS = 15, 20  # occupations of a chart, bars of a histogram
_PLAIN: dict[str, object] = {"title": None, "domain": False, "ticks": False, "labelLimit": _LABEL}
_ELEMENTS = {"svg", "g", "path", "rect", "line", "circle", "text", "tspan"}
_ATTRIBUTES = """
width height viewBox fill stroke stroke-width stroke-dasharray stroke-miterlimit opacity fill-opacity stroke-opacity
transform d x y x1 y1 x2 y2 dx dy cx cy r text-anchor font-family font-size font-weight display
"""


class Figure(NamedTuple):
    """A chart with everything needed where it cannot be seen: what it shows in words, and its data as a table."""

    name: str
    title: str
    alternative: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    chart: Any


def figures(audit: Audit, rows: pl.DataFrame | None = None) -> dict[str, Figure]:
    """All NLI-CoAL charts of a run by name; ``rows`` is what ``judged`` made of its table, if at hand."""
    coal = cast(CoalResult, audit.coal)
    rows = judged(audit.sample(COAL.name)) if rows is None else rows
    drawn = [_proportions(coal), _measures(coal), _published(coal, audit.name), _occupations(coal)]
    return {figure.name: figure for figure in [*drawn, _templates(rows), _direction(rows)] if figure.rows}


def suite_figures(name: str, audit: Audit) -> list[Figure]:
    """The charts that a suite draws of its result; those of NLI-CoAL stand in ``figures``."""
    draw = get_suite(name).figures
    return list(resolve_name(draw)(audit)) if draw else []


def all_figures(audit: Audit) -> list[Figure]:
    """Every chart of a run."""
    drawn = list(figures(audit).values()) if COAL.name in audit.result.suites else []
    return drawn + [figure for name in audit.result.suites for figure in suite_figures(name, audit)]


def write_charts(audit: Audit, folder: str | Path) -> list[Path]:
    """Write every chart of a run as SVG and PNG; returns the files."""
    return [file for figure in all_figures(audit) for file in save_chart(figure.chart, figure.name, folder)]


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


def _layered(*layers: Any, height: int) -> Any:
    alt = load_altair()
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    return alt.layer(*layers).properties(width=WIDTH, height=height, autosize=fit)


def _stacked(bars: Bars, name: str, title: str, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> Figure:
    """A bar per entry of shares of the labels."""
    words = [f"{short(bar)}: {', '.join(f'{x} {percent(of[x], 1)}' for x in SHOWN)}." for bar, of in bars]
    return Figure(name, title, " ".join(["Stacked bars.", *words]), columns, tuple(rows), _bars(bars))


def _bars(bars: Bars) -> Any:
    alt = load_altair()
    values = []
    names = _unique([name for name, _ in bars])
    for name, (_, shares) in zip(names, bars, strict=True):
        end = 0.0
        for label in SHOWN:
            start, end, share = end, end + shares[label], shares[label]
            place = {"from": start, "to": end, "middle": (start + end) / 2}
            values.append({"name": name, "label": label, "text": f"{percent(share)}" if share >= 0.08 else "", **place})
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
    return _layered(drawn, written, height=28 * len(bars)).properties(
        padding={"top": 24, "left": 2, "right": 2, "bottom": 2}
    )


def _intervals(points: Sequence[dict[str, Any]], title: str) -> Any:
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
    return _layered(
        ticks.encode(x=alt.X("ideal:Q", scale=scale), y=y),
        lines.encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=y),
        dots.encode(x=x, y=y),
        height=22 * len(points),
    )


def _proportions(coal: CoalResult) -> Figure:
    defined = ((name, of) for name, of in coal.proportions.items() if not any(map(math.isnan, of.values())))
    bars = [(f"{subset} {SUBSET_NAMES.get(subset, '')}".strip(), shares) for subset, shares in defined]
    rows = [(name, *(shares[label] for label in SHOWN)) for name, shares in bars]
    return _stacked(bars, "proportions", "Answers per set", ("set", *SHOWN), rows)


def _measures(coal: CoalResult) -> Figure:
    defined = [one for one in coal.measures.values() if not math.isnan(one.value)]
    points, words = [], []
    for m in defined:
        points.append(_point(m.title, value=m.value, low=m.low, high=m.high, ideal=m.ideal))
        ends = "" if math.isnan(m.low) else f" ({number(m.low)} to {number(m.high)})"
        words.append(f"{short(m.title)} {number(m.value)}{ends}.")
    return Figure(
        "measures",
        "All measures with their intervals; the grey tick is an even model",
        "Dots with intervals. " + " ".join(words),
        ("measure", "value", "low", "high", "even model"),
        tuple((one.title, one.value, one.low, one.high, f"{one.ideal:g}") for one in defined),
        _intervals(points, "value"),
    )


def _published(coal: CoalResult, model: str) -> Figure:
    points = []
    # A model without a verdict has no place among others.
    for row in () if coal.problem else coal.published:
        if not math.isnan(row.coal):
            ends = {"low": coal.low, "high": coal.high} if row.this else {}
            points.append(_point(model if row.this else row.model, this=row.this, value=row.coal, **ends))
    rows = tuple((p["name"], p["value"], p.get("low"), p.get("high")) for p in points) if len(points) > 1 else ()
    return Figure(
        "published",
        "NLI-CoAL beside the published models of the language",
        "Dots, most biased first. " + " ".join(f"{short(p['name'])} {number(p['value'])}." for p in points),
        ("model", "NLI-CoAL", "low", "high"),
        rows,
        _intervals(points, "NLI-CoAL"),
    )


def _occupations(coal: CoalResult) -> Figure:
    defined = [row for row in coal.occupations if not math.isnan(row.score) and not row.states_group][:_LISTED]
    points = []
    for row in defined:
        name = f"{short(row.occupation or '?', 20)} ({short(row.stereotype or '?', 8)})"
        points.append(_point(name, value=row.score, low=row.low, high=row.high))
    return Figure(
        "occupations",
        f"The {len(defined)} occupations with the largest share of biased answers, stereotyped ones first",
        "Dots with intervals. " + " ".join(f"{p['name']} {number(p['value'], 2)}." for p in points),
        ("occupation", "stereotype", "biased", "low", "high"),
        tuple((row.occupation, row.stereotype, row.score, row.low, row.high) for row in defined),
        _intervals(points, "share of biased answers"),
    )


def _point(name: str, *, this: bool = True, **numbers: float) -> dict[str, Any]:
    return {"name": name, "this": this, **defined_only(numbers)}


def defined_only(numbers: Mapping[str, float]) -> dict[str, float]:
    """Numbers of a point of a chart; what is undefined is left out, because JSON has no NaN."""
    return {name: value for name, value in numbers.items() if not math.isnan(value)}


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
        _layered(bars.encode(x=x, x2="to:Q", y=y, y2=alt.datum(0)), height=150),
    )


def _direction(rows: pl.DataFrame) -> Figure:
    directions = by_direction(rows).to_dicts()
    bars = [(f"{row['stereotype'] or '?'} → {row['group'] or '?'}", row) for row in directions]
    title = "Answers by stereotype of the occupation → group in the hypothesis"
    cells = [(r["stereotype"], r["group"], r["n"], *(r[label] for label in SHOWN)) for r in directions]
    return _stacked(bars, "direction", title, ("stereotype", "group", "pairs", *SHOWN), cells)


def _unique(names: Sequence[object]) -> list[str]:
    """Names as the axis shows them; a repeated one is numbered, because rows of one name would be drawn as one."""
    cut = [short(name) for name in names]
    return [f"#{cut[:i].count(name) + 1} {name}" if cut.count(name) > 1 else name for i, name in enumerate(cut)]


def _extent(names: Sequence[str]) -> float:
    """Room for the longest name in any font: the reader's may be wider than the one vl-convert measures with."""
    widths = (sum(12.0 if unicodedata.east_asian_width(c) in "WF" else 6.4 for c in name) for name in names)
    return min(_LABEL, 4 + max(widths, default=0.0))
