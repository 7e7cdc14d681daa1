"""Encoders for people: what a mitigation leaves, and mitigated encoders beside their base."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evenli._extras import need
from evenli.errors import InputError
from evenli.report.charts import GRID, INK, MUTED, WIDTH, save_chart

_LEAKS = {
    "linear": "linear probe",
    "mlp": "MLP probe",
    "clustering": "clusters",
    "correlation": "company",
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
        cells = [cell for one in (before[name], after[name]) for cell in (_number(one["value"]), _interval(one))]
        table.add_row(title, *cells, f"{neutral[name]:.2f}", f"{after[name]['n']:,}")
    console.print(table)
    told = (
        "probes: accuracy of telling to which side neutral words leaned, on words not trained on"
        if words
        else "probes: accuracy on sentences whose words neither eraser nor probe has seen"
    )
    console.print(
        escape(
            f"{told}; clusters: neutral {'words' if words else 'sentences'} that two-means puts on the side they "
            "leaned to before; company: correlation of that lean with the side of their nearest neighbours. 95 % "
            "intervals over what was tested. A probe at neutral shows that this probe fails, not that nothing is left."
        ),
        style="dim",
    )


def print_encoders(report: dict[str, Any], console: Console) -> None:
    """Print one line per encoder, the first without differences, and the SentEval tasks if there are any."""
    encoders = report["encoders"]
    scored = any(one["senteval"] is not None for one in encoders)
    heads = ["mean |d|", "interval", "change", "interval", "linear", "MLP", "clusters", "company"]
    heads += ["SentEval"] if scored else []
    table = _table("encoder", "method", *heads)
    for at, one in enumerate(encoders):
        delta = one["difference"] if at else {}
        mean = one["seat"]["mean"]
        cells = [_number(mean["value"], digits=2), _interval(mean), *_change(one["seat"]["change"])]
        cells += [_changed(one["leakage"][name]["value"], delta.get(name), digits=2) for name in _LEAKS]
        if scored:
            cells.append(_changed((one["senteval"] or {}).get("overall"), delta.get("senteval"), digits=1))
        table.add_row(escape(one["label"]), escape(one["method"] or "–"), *cells)
    console.print(table)
    for one in encoders:
        tasks = (one["senteval"] or {}).get("tasks", {})
        notes = [one["note"], "" if one["seat"]["mean"]["value"] is not None else one["seat"]["mean"]["note"]]
        notes += [f"{test['name']}: {test['note']}" for test in one["seat"]["tests"] if test["note"]]
        notes += [f"{task}: {found['note']}" for task, found in tasks.items() if found["note"]]
        for note in filter(None, notes):
            console.print(escape(f"{one['label']}: {note}"))
    if scored:
        _print_tasks(report, console)
    majority = encoders[0]["leakage"]["majority"]
    console.print(
        escape(
            "change and in brackets: difference to the first encoder. mean |d|: size of the SEAT effects C6 to C8b, 0 "
            "is neutral; 95 % intervals over the words of the tests, that of a change with the same words for both "
            "encoders; linear, MLP: accuracy of probes for gender on held-out words, "
            f"{majority:.2f} is neutral; clusters: 0.5 is neutral; company: 0 is neutral."
            + (f" SentEval: mean of {len(report['tasks'])} task(s), higher is better." if scored else "")
            + " Figures at neutral do not show that an encoder is free of bias."
        ),
        style="dim",
    )


def encoder_chart(report: dict[str, Any]) -> Any:
    """Fairness against accuracy: SEAT against SentEval, or against the linear probe where there is no SentEval."""
    need("vl_convert", extra="report", purpose="the chart of an encoder report")
    alt = need("altair", extra="report", purpose="the chart of an encoder report")
    scored = bool(report["tasks"])
    points = []
    for at, one in enumerate(report["encoders"]):
        mean, probe = one["seat"]["mean"], one["leakage"]["linear"]
        x = one["senteval"]["overall"] if scored else probe["value"]
        if x is None or mean["value"] is None:
            continue
        kind = "mitigated" if at else "base"
        # No interval is a bar without length, as Vega would draw an absent end at 0.
        ends = {name: mean["value"] if mean[name] is None else mean[name] for name in ("low", "high")}
        sides = {"left": x, "right": x} if scored else {"left": probe["low"], "right": probe["high"]}
        points.append({"label": one["label"], "kind": kind, "x": x, "y": mean["value"], **ends, **sides})
    if not points:
        raise InputError("nothing to draw: no encoder has both figures; see the notes of the report")
    title = (
        f"SentEval, mean of {len(report['tasks'])} task(s): higher is more accurate"
        if scored
        else "accuracy of a linear probe for gender: 0.5 leaks nothing to it"
    )
    kinds = ["base", "mitigated"]
    base = alt.Chart(alt.InlineData(values=points))
    scale, outward = alt.Scale(zero=False, nice=True, padding=24), False
    if scored:
        # Shuffles alone move the mean by some tenths; they should not fill the chart.
        low, high = min(point["x"] for point in points), max(point["x"] for point in points)
        spare = max(0.0, _POINTS - (high - low)) / 2
        scale, outward = alt.Scale(domain=[low - spare, high + spare], nice=True, padding=24), spare > 0
    x = alt.X("x:Q", scale=scale, axis=alt.Axis(title=title, grid=False))
    y = alt.Y(
        "y:Q",
        scale=alt.Scale(domainMin=0),
        axis=alt.Axis(title="SEAT, mean |d| of C6 to C8b: 0 is neutral", gridColor=GRID),
    )
    legend = alt.Legend(title=None, orient="top")
    marks = base.mark_point(filled=True, size=70, opacity=1).encode(
        x=x,
        y=y,
        color=alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=list(_COLOURS)), legend=legend),
        shape=alt.Shape("kind:N", scale=alt.Scale(domain=kinds, range=["square", "circle"]), legend=legend),
    )
    bars = base.mark_rule(color=MUTED, opacity=0.6).encode(x=x, y="low:Q", y2="high:Q")
    across = base.mark_rule(color=MUTED, opacity=0.6).encode(x="left:Q", x2="right:Q", y="y:Q")
    middle = (min(point["x"] for point in points) + max(point["x"] for point in points)) / 2
    names = []
    for align, shift, right in (("left", 7, False), ("right", -7, True)):  # outward where there is room, else inward
        chosen = [point for point in points if (point["x"] > middle) == (right != outward)]
        text = alt.Chart(alt.InlineData(values=chosen)).mark_text(align=align, dx=shift, dy=-7, fontSize=10, color=INK)
        names.append(text.encode(x=x, y=y, text="label:N"))
    layers = [bars, marks] if scored else [bars, across, marks]
    return alt.layer(*layers, *names).properties(width=WIDTH, height=_HEIGHT)


def write_encoder_chart(report: dict[str, Any], folder: str | Path) -> list[Path]:
    """Write the chart as ``encoders.svg`` and ``encoders.png``; returns the files."""
    return save_chart(encoder_chart(report), "encoders", folder)


def _print_tasks(report: dict[str, Any], console: Console) -> None:
    encoders = [one for one in report["encoders"] if one["senteval"] is not None]
    tasks = list(dict.fromkeys(task for one in encoders for task in one["senteval"]["tasks"]))
    table = _table("SentEval", *(one["label"] for one in encoders))
    for task in tasks:
        first = _score(encoders[0], task)
        cells = []
        for at, one in enumerate(encoders):
            score = _score(one, task)
            change = score - first if at and score is not None and first is not None else None
            cells.append(_changed(score, change, digits=1))
        table.add_row(escape(task), *cells)
    console.print(table)
    missing = {task: why for one in encoders for task, why in one["senteval"]["missing"].items()}
    for task, why in missing.items():
        console.print(escape(why if why.startswith(task) else f"{task}: {why}"))


def _score(one: dict[str, Any], task: str) -> float | None:
    found = one["senteval"]["tasks"].get(task)
    return None if found is None or found["score"] is None else float(found["score"])


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(escape(first))
    for head in others:
        table.add_column(escape(head), justify="left" if head == "method" else "right", no_wrap=True)
    return table


def _number(value: float | None, digits: int = 3) -> str:
    return "n/a" if value is None else f"{value:.{digits}f}"


def _changed(value: float | None, difference: float | None, digits: int) -> str:
    if value is None:
        return "n/a"
    return f"{value:.{digits}f}" + ("" if difference is None else f" ({difference:+.{digits}f})")


def _change(change: dict[str, Any] | None) -> tuple[str, str]:
    if change is None or change["value"] is None:
        return "", ""
    return f"{change['value']:+.2f}", _interval(change, sign="+")


def _interval(one: dict[str, Any], sign: str = "") -> str:
    return "–" if one["low"] is None else escape(f"[{one['low']:{sign}.2f}, {one['high']:{sign}.2f}]")
