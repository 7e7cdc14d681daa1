"""Encoders for people: what a mitigation leaves, and mitigated encoders beside their base."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evenli._extras import need
from evenli.errors import InputError
from evenli.evaluate.encoder_results import EncoderFigures, EncoderReport, difference
from evenli.format import interval, number, signed
from evenli.report.charts import GRID, INK, MUTED, WIDTH, save_chart

_LEAKS = {
    "linear": "linear probe",
    "mlp": "MLP probe",
    "clustering": "clusters",
    "correlation": "neighbour bias",
}
_POINTS = 2.0
"""Least width of the axis of SentEval."""
_HEIGHT = 260
_COLOURS = ("#0072b2", "#d55e00")
"""Base and mitigated: apart for colour-blind readers; the shapes differ too."""


def print_leakage(before: dict[str, Any], after: dict[str, Any], console: Console, *, words: bool = False) -> None:
    """Print what is left of gender before and after a mitigation.

    Args:
        before: A residual leakage as plain values.
        after: The same after the mitigation.
        console: Where to print.
        words: The figures are of words, not of sentences.
    """
    table = _table("what is left", "before", "interval", "after", "interval", "neutral", "n")
    neutral = {"linear": before["majority"], "mlp": before["majority"], "clustering": 0.5, "correlation": 0.0}
    for name, title in _LEAKS.items():
        cells = []
        for one in (before[name], after[name]):
            cells += [number(one["value"]), escape(interval(one["low"], one["high"], 2))]
        table.add_row(title, *cells, f"{neutral[name]:.2f}", f"{after[name]['n']:,}")
    console.print(table)
    probes = (
        "probes: accuracy of predicting to which side neutral words leaned, on words not trained on"
        if words
        else "probes: accuracy on sentences whose words neither eraser nor probe has seen"
    )
    console.print(
        escape(
            f"{probes}; clusters: neutral {'words' if words else 'sentences'} that two-means puts on the side they "
            "leaned to before; neighbour bias: correlation of that lean with the side of their nearest neighbours. "
            "95 % intervals over what was tested. A probe at neutral shows that this probe fails, not that nothing is "
            "left."
        ),
        style="dim",
    )


def print_encoders(report: EncoderReport, console: Console) -> None:
    """Print one line per encoder, the first without differences, and the SentEval tasks if there are any."""
    scored = any(one.senteval is not None for one in report.encoders)
    heads = ["mean |d|", "interval", "change", "interval", "linear", "MLP", "clusters", "neighbour bias"]
    table = _table("encoder", "method", *heads, *(["SentEval"] if scored else []))
    for at, one in enumerate(report.encoders):
        change = one.difference if at else {}
        mean, against_base = one.seat.mean, one.seat.change
        cells = [number(mean.value, 2), escape(interval(mean.low, mean.high, 2)), "", ""]
        if against_base is not None and not math.isnan(against_base.value):
            ends = interval(against_base.low, against_base.high, 2, sign=True)
            cells[2:] = [signed(against_base.value, 2), escape(ends)]
        cells += [_with_change(one.figure(name), change.get(name), 2) for name in _LEAKS]
        if scored:
            cells.append(_with_change(one.senteval_mean, change.get("senteval"), 1))
        table.add_row(escape(one.label), escape(one.method or "–"), *cells)
    console.print(table)
    for one in report.encoders:
        for note in _notes(one):
            console.print(escape(f"{one.label}: {note}"))
    if scored:
        _print_tasks(report, console)
    console.print(
        escape(
            "change and in brackets: difference to the first encoder. mean |d|: size of the SEAT effects C6 to C8b, 0 "
            "is neutral; 95 % intervals over the words of the tests, that of a change with the same words for both "
            "encoders; linear, MLP: accuracy of probes for gender on held-out words, "
            f"{report.encoders[0].leakage.majority:.2f} is neutral; clusters: 0.5 is neutral; neighbour bias: 0 is "
            "neutral."
            + (f" SentEval: mean of {len(report.tasks)} task(s), higher is better." if scored else "")
            + " Figures at neutral do not show that an encoder is free of bias."
        ),
        style="dim",
    )


def encoder_chart(report: EncoderReport) -> Any:
    """Fairness against accuracy: SEAT against SentEval, or against the linear probe where there is no SentEval."""
    need("vl_convert", extra="report", purpose="the chart of an encoder report")
    alt = need("altair", extra="report", purpose="the chart of an encoder report")
    scored = bool(report.tasks)
    points = [point for at, one in enumerate(report.encoders) for point in _points(one, base=at == 0, scored=scored)]
    if not points:
        raise InputError("nothing to draw: no encoder has both figures; see the notes of the report")
    title = (
        f"SentEval, mean of {len(report.tasks)} task(s): higher is more accurate"
        if scored
        else "accuracy of a linear probe for gender: 0.5 leaks nothing to it"
    )
    low, high = min(point["x"] for point in points), max(point["x"] for point in points)
    # Shuffles alone move the mean of SentEval by some tenths; they should not fill the chart.
    spare = max(0.0, _POINTS - (high - low)) / 2 if scored else 0.0
    domain = {"domain": [low - spare, high + spare]} if scored else {"zero": False}
    x = alt.X("x:Q", scale=alt.Scale(**domain, nice=True, padding=24), axis=alt.Axis(title=title, grid=False))
    effect = alt.Axis(title="SEAT, mean |d| of C6 to C8b: 0 is neutral", gridColor=GRID)
    y = alt.Y("y:Q", scale=alt.Scale(domainMin=0), axis=effect)
    kinds, legend = ["base", "mitigated"], alt.Legend(title=None, orient="top")
    base = alt.Chart(alt.InlineData(values=points))
    marks = base.mark_point(filled=True, size=70, opacity=1).encode(
        x=x,
        y=y,
        color=alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=list(_COLOURS)), legend=legend),
        shape=alt.Shape("kind:N", scale=alt.Scale(domain=kinds, range=["square", "circle"]), legend=legend),
    )
    rule = base.mark_rule(color=MUTED, opacity=0.6)
    layers = [rule.encode(x=x, y="low:Q", y2="high:Q")]
    if not scored:
        layers.append(rule.encode(x="left:Q", x2="right:Q", y="y:Q"))
    layers.append(marks)
    for align, shift, right in (("left", 7, False), ("right", -7, True)):
        # Names stand outward where there is room, else inward.
        chosen = [point for point in points if (point["x"] > (low + high) / 2) == (right != (spare > 0))]
        text = alt.Chart(alt.InlineData(values=chosen)).mark_text(align=align, dx=shift, dy=-7, fontSize=10, color=INK)
        layers.append(text.encode(x=x, y=y, text="label:N"))
    return alt.layer(*layers).properties(width=WIDTH, height=_HEIGHT)


def write_encoder_chart(report: EncoderReport, folder: str | Path) -> list[Path]:
    """Write the chart as ``encoders.svg`` and ``encoders.png``; returns the files."""
    return save_chart(encoder_chart(report), "encoders", folder)


def _points(one: EncoderFigures, *, base: bool, scored: bool) -> list[dict[str, Any]]:
    """The point of an encoder with the ends of its bars; none where a figure is undefined."""
    mean, probe = one.seat.mean, one.leakage.linear
    x = one.figure("senteval" if scored else "linear")
    if x is None or math.isnan(mean.value):
        return []
    # No interval is a bar without length, as Vega would draw an absent end at 0.
    low, high = (mean.value if math.isnan(end) else end for end in (mean.low, mean.high))
    left, right = (x, x) if scored else (probe.low, probe.high)
    kind = "base" if base else "mitigated"
    place = {"x": x, "y": mean.value, "low": low, "high": high, "left": left, "right": right}
    return [{"label": one.label, "kind": kind, **place}]


def _notes(one: EncoderFigures) -> list[str]:
    mean = one.seat.mean
    tasks = one.senteval.tasks if one.senteval else {}
    notes = [one.note, mean.note if math.isnan(mean.value) else ""]
    notes += [f"{test.name}: {test.note}" for test in one.seat.tests if test.note]
    notes += [f"{name}: {task.note}" for name, task in tasks.items() if task.note]
    return [note for note in notes if note]


def _print_tasks(report: EncoderReport, console: Console) -> None:
    encoders = [one for one in report.encoders if one.senteval is not None]
    results = [one.senteval for one in encoders if one.senteval is not None]
    table = _table("SentEval", *(one.label for one in encoders))
    for task in dict.fromkeys(task for result in results for task in result.tasks):
        scores = [one.score(task) for one in encoders]
        cells = [number(scores[0], 1)]
        cells += [_with_change(score, difference(score, scores[0]), 1) for score in scores[1:]]
        table.add_row(escape(task), *cells)
    console.print(table)
    for task, reason in {task: reason for result in results for task, reason in result.missing.items()}.items():
        console.print(escape(reason if reason.startswith(task) else f"{task}: {reason}"))


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(escape(first))
    for head in others:
        table.add_column(escape(head), justify="left" if head == "method" else "right", no_wrap=True)
    return table


def _with_change(value: float | None, change: float | None, digits: int) -> str:
    return number(value, digits) + ("" if change is None else f" ({signed(change, digits)})")
