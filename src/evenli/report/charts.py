"""The charts of a report: Vega-Altair specifications, rendered once to static SVG.

Rendered here, with vl-convert, and not by Vega in the page: the page then needs no script library (Vega is larger than
the whole report) and no ``eval``, which a strict Content-Security-Policy forbids; it prints, and it can be read without
scripts. Charts are drawn 360 px wide, the width of a phone, and enlarged on wider screens, so that their text stays
readable. Every chart carries a text alternative and its data as a table.
"""

from __future__ import annotations

import io
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from evenli._extras import need
from evenli.errors import InputError
from evenli.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.report.runs import Run
from evenli.suites.coal.breakdown import by_direction, by_template, judged
from evenli.suites.coal.results import SUBSET_NAMES

FONTS = "system-ui, 'Noto Sans', 'Noto Sans CJK JP', 'Noto Sans CJK SC', 'Hiragino Sans', 'Yu Gothic', sans-serif"
INK, MUTED, GRID, ACCENT = "#1f2328", "#59636e", "#d0d7de", "#0b57d0"
"""Colours that report.css exchanges in dark mode; it finds them by these very values."""
FILLS = {ENTAILMENT: "#6cb6ff", NEUTRAL: "#d0d4da", CONTRADICTION: "#f2a65e"}
"""Label colours: apart for colour-blind readers, pale enough for dark text on them in both modes."""
ON_FILL = "#111417"
WIDTH = 360
_LABEL = 180  # px that the names of rows may take
_PLAIN: dict[str, Any] = {"title": None, "domain": False, "ticks": False, "labelLimit": _LABEL}
_SHOWN = (ENTAILMENT, CONTRADICTION, NEUTRAL)  # the column order of the paper's Table 3
_ELEMENTS = {"svg", "g", "path", "rect", "line", "circle", "text", "tspan"}
_ATTRIBUTES = {
    *(
        "width",
        "height",
        "viewBox",
        "fill",
        "stroke",
        "stroke-width",
        "stroke-dasharray",
        "stroke-miterlimit",
        "opacity",
    ),
    *(
        "fill-opacity",
        "stroke-opacity",
        "transform",
        "d",
        "x",
        "y",
        "x1",
        "y1",
        "x2",
        "y2",
        "dx",
        "dy",
        "cx",
        "cy",
        "r",
    ),
    *("text-anchor", "font-family", "font-size", "font-weight", "display"),
}


@dataclass(frozen=True)
class Figure:
    """A chart with everything needed where it cannot be seen.

    Attributes:
        name: File name without suffix.
        title: Caption.
        alternative: What the chart shows, in words.
        columns: Heads of the data table.
        rows: The data behind the chart.
        chart: The Altair chart.
    """

    name: str
    title: str
    alternative: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    chart: Any


def figures(run: Run, rows: pl.DataFrame | None = None) -> dict[str, Figure]:
    """All charts of a run by name; ``rows`` is ``judged(run.sample)`` if at hand."""
    rows = judged(run.sample) if rows is None else rows
    made = (
        _proportions(run),
        _measures(run),
        _standing(run),
        _occupations(run),
        _templates(rows),
        _direction(rows),
    )
    return {figure.name: figure for figure in made if figure.rows}


def write_charts(run: Run, folder: str | Path) -> list[Path]:
    """Write every chart of a run as SVG and PNG; returns the files."""
    return [file for figure in figures(run).values() for file in save_chart(figure.chart, figure.name, folder)]


def save_chart(chart: Any, name: str, folder: str | Path) -> list[Path]:
    """Write one chart as ``NAME.svg`` and ``NAME.png``; returns the files."""
    folder = Path(folder)
    chart = chart.configure(**_config("white"))
    written = []
    for suffix, more in (("svg", {}), ("png", {"scale_factor": 3})):
        content: Any = io.StringIO() if suffix == "svg" else io.BytesIO()
        chart.save(content, format=suffix, **more)
        data = content.getvalue()
        file = folder / f"{name}.{suffix}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data.encode() if isinstance(data, str) else data)
        except OSError as error:
            raise InputError(f"cannot write {file}: {error.strerror}; choose another folder") from error
        written.append(file)
    return written


def inline_svg(figure: Figure) -> str:
    """The chart as SVG for a page: only shapes and text, no style, link, script or identifier."""
    stream = io.StringIO()
    figure.chart.configure(**_config("transparent")).save(stream, format="svg")
    root = _bare(ET.fromstring(stream.getvalue()))
    root.set("role", "img")
    root.set("aria-label", figure.alternative)
    del root.attrib["width"], root.attrib["height"]
    return ET.tostring(root, encoding="unicode")


def _bare(element: ET.Element) -> ET.Element:
    """Copy what is on the lists. Vega's own aria labels go too: hundreds of marks read one by one help nobody."""
    copy = ET.Element(element.tag.rpartition("}")[2])
    copy.attrib.update({name: value for name, value in element.attrib.items() if name in _ATTRIBUTES})
    copy.text, copy.tail = element.text, element.tail
    for child in element:
        hidden = child.get("display") == "none" or (child.get("class") == "background" and "stroke" not in child.attrib)
        if child.tag.rpartition("}")[2] in _ELEMENTS and not hidden:
            copy.append(_bare(child))
    return copy


def _config(background: str) -> dict[str, Any]:
    text = {"labelColor": INK, "titleColor": INK, "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal"}
    return {
        "background": background,
        "font": FONTS,
        "padding": 2,
        "view": {"stroke": None},
        "axis": {**text, "gridColor": GRID, "domainColor": MUTED, "tickColor": MUTED},
        "legend": {**text, "title": None},
    }


def _altair() -> Any:
    need("vl_convert", extra="report", purpose="the HTML report")
    return need("altair", extra="report", purpose="the HTML report")


def _layered(*layers: Any, height: int) -> Any:
    alt = _altair()
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    return alt.layer(*layers).properties(width=WIDTH, height=height, autosize=fit)


def _stacked(bars: Sequence[tuple[str, dict[str, float]]]) -> Any:
    alt = _altair()
    values = []
    names = _unique([name for name, _ in bars])
    for name, (_, shares) in zip(names, bars, strict=True):
        start = 0.0
        for label in _SHOWN:
            end = start + shares[label]
            text = f"{shares[label]:.0%}" if shares[label] >= 0.08 else ""
            middle = (start + end) / 2
            values.append({"name": name, "label": label, "from": start, "to": end, "middle": middle, "text": text})
            start = end
    base = alt.Chart(alt.InlineData(values=values))
    y = alt.Y("name:N", sort=names, axis=alt.Axis(minExtent=_extent(names), grid=False, **_PLAIN))
    # Placed by hand at the left edge: beside long names the plot is narrower than its legend.
    legend = alt.Legend(orient="none", direction="horizontal", legendX=-_extent(names), legendY=-20)
    scale = alt.Scale(domain=list(_SHOWN), range=[FILLS[label] for label in _SHOWN])
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
    alt = _altair()
    names = _unique([point["name"] for point in points])
    values = [{**point, "name": name} for name, point in zip(names, points, strict=True)]
    ends = [float(v[key]) for v in values for key in ("value", "low", "high", "ideal") if v.get(key) is not None]
    scale = alt.Scale(domain=[min([0.0, *ends]), max([1.0, *ends])], nice=True)
    base = alt.Chart(alt.InlineData(values=values))
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


def _proportions(run: Run) -> Figure:
    coal = run.results["coal"]
    bars = [(_set_name(subset), shares) for subset, shares in coal["proportions"].items() if _whole(shares)]
    return Figure(
        "proportions",
        "Answers per set",
        "Stacked bars. " + " ".join(f"{name}: {_shares(shares)}." for name, shares in bars),
        ("set", *_SHOWN),
        tuple((name, *(shares[label] for label in _SHOWN)) for name, shares in bars),
        _stacked(bars),
    )


def _measures(run: Run) -> Figure:
    entries = [entry for entry in run.results["coal"]["measures"].values() if _known(entry.get("value"))]
    points = [
        {
            **{key: entry[key] for key in ("value", "low", "high", "ideal") if _known(entry.get(key))},
            "name": entry["title"],
            "this": True,
        }
        for entry in entries
    ]
    rows = tuple((e["title"], e["value"], e.get("low"), e.get("high"), e.get("ideal")) for e in entries)
    return Figure(
        "measures",
        "All measures with their intervals; the grey tick is an even model",
        "Dots with intervals. " + " ".join(f"{_short(r[0])} {_span(*r[1:4])}." for r in rows),
        ("measure", "value", "low", "high", "even model"),
        rows,
        _intervals(points, "value"),
    )


def _standing(run: Run) -> Figure:
    coal = run.results["coal"]
    own = coal["measures"].get("coal", {})
    entries = [row for row in coal["published"] if _known(row.get("coal"))]
    points: list[dict[str, Any]] = []
    for row in entries:
        this = bool(row.get("this"))
        span = {key: own[key] for key in ("low", "high") if this and _known(own.get(key))}
        points.append({"name": run.model if this else row["model"], "value": row["coal"], "this": this, **span})
    rows = tuple((p["name"], p["value"], p.get("low"), p.get("high")) for p in points) if len(points) > 1 else ()
    return Figure(
        "published",
        "NLI-CoAL beside the published models of the language",
        "Dots, most biased first. " + " ".join(f"{_short(p['name'])} {p['value']:.3f}." for p in points),
        ("model", "NLI-CoAL", "low", "high"),
        rows,
        _intervals(points, "NLI-CoAL"),
    )


def _occupations(run: Run, count: int = 15) -> Figure:
    entries = [row for row in run.results["coal"]["occupations"] if _known(row.get("score"))][:count]
    points = [
        {
            "name": f"{_short(row['occupation'] or '?', 20)} ({_short(row['stereotype'] or '?', 8)})",
            "value": row["score"],
            "this": True,
            **{key: row[key] for key in ("low", "high") if _known(row.get(key))},
        }
        for row in entries
    ]
    rows = tuple((r["occupation"], r["stereotype"], r["score"], r.get("low"), r.get("high")) for r in entries)
    return Figure(
        "occupations",
        f"The {len(rows)} occupations with the largest share of biased answers",
        "Dots with intervals. " + " ".join(f"{p['name']} {p['value']:.2f}." for p in points),
        ("occupation", "stereotype", "biased", "low", "high"),
        rows,
        _intervals(points, "share of biased answers"),
    )


def _templates(rows: pl.DataFrame, bins: int = 20) -> Figure:
    alt = _altair()
    scores = by_template(rows)["score"].to_list()
    counts = [0] * bins
    for score in scores:
        # The small shift keeps 0.15 in its own bin: 0.15 * 20 is 3 only up to rounding.
        counts[min(int(score * bins + 1e-9), bins - 1)] += 1
    values = [{"from": i / bins, "to": (i + 1) / bins, "count": count} for i, count in enumerate(counts)]
    x = alt.X(
        "from:Q",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format=".0%", title="share of biased answers", grid=False),
    )
    y = alt.Y("count:Q", axis=alt.Axis(title="templates", tickMinStep=1))
    bars = alt.Chart(alt.InlineData(values=values)).mark_bar(color=ACCENT, binSpacing=1)
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
    found = by_direction(rows).to_dicts()
    bars = [(f"{row['stereotype'] or '?'} → {row['group'] or '?'}", row) for row in found]
    return Figure(
        "direction",
        "Answers by stereotype of the occupation → group in the hypothesis",
        "Stacked bars. " + " ".join(f"{_short(name)}: {_shares(shares)}." for name, shares in bars),
        ("stereotype", "group", "pairs", *_SHOWN),
        tuple((r["stereotype"], r["group"], r["n"], *(r[label] for label in _SHOWN)) for r in found),
        _stacked(bars),
    )


def _set_name(subset: str) -> str:
    return f"{subset} {SUBSET_NAMES.get(subset, '')}".strip()


def _shares(shares: dict[str, float]) -> str:
    return ", ".join(f"{label} {shares[label]:.1%}" for label in _SHOWN)


def _span(value: float, low: float | None, high: float | None) -> str:
    return f"{value:.3f}" + (f" ({low:.3f} to {high:.3f})" if _known(low) and _known(high) else "")


def _whole(shares: dict[str, Any]) -> bool:
    return all(_known(shares.get(label)) for label in LABELS)


def _known(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _unique(names: Sequence[object]) -> list[str]:
    """Names as the axis shows them; a repeated one is numbered, because rows of one name would be drawn as one."""
    short = [_short(name) for name in names]
    return [f"#{short[:i].count(name) + 1} {name}" if short.count(name) > 1 else name for i, name in enumerate(short)]


def _extent(names: Sequence[str]) -> float:
    """Room for the longest name in any font: the reader's may be wider than the one vl-convert measures with."""
    widths = (sum(12.0 if unicodedata.east_asian_width(c) in "WF" else 6.4 for c in name) for name in names)
    return min(_LABEL, 4 + max(widths, default=0.0))


def _short(text: object, limit: int = 34) -> str:
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"
