"""Encoders for people: SEAT, SentEval, what a mitigation leaves, and mitigated encoders beside their base."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from evenli.core.console import table
from evenli.core.drawing import SHAPES, SIDES, WIDTH, inline, kinds, load_altair, names_beside, save_chart
from evenli.core.errors import InputError, MissingExtraError
from evenli.core.format import interval, number, p_value, percent, printable, signed
from evenli.core.page import GRID, MUTED, write_page
from evenli.encoders.pages import encoders_page
from evenli.encoders.report import EncoderFigures, EncoderReport, difference
from evenli.encoders.residual import Residual
from evenli.encoders.seat import AVERAGED, AssociationResult, SeatResult, average_effect
from evenli.encoders.senteval import SentEvalResult
from evenli.encoders.senteval.data import TASKS
from evenli.words import read_table

PUBLISHED = dict(zip(TASKS, (80.7, 85.2, 92.7, 90.2, 86.2, 82.0, 44.1, 74.7, 88.7, 85.7, 68.0, 75.6), strict=True))
"""SentEval of InferSent on GloVe without mitigation (Dolci et al. 2023, Table 8), the first number of every task."""
PUBLISHED_OVERALL = 79.45
_SECOND = ("f1", "spearman")  # second numbers that papers print beside the first
_LEAKS = {"clustering": "clusters", "correlation": "neighbour bias"}
_PLACES = {"words": "held-out words", "on_text": "running text", "on_domain": "fitted words"}
_PROBES = {"linear": "linear probe", "mlp": "MLP probe"}
_FIGURES = ("linear", "mlp", "on_text", *_LEAKS)
_POINTS = 2.0  # least width of the axis of SentEval
_HEIGHT, _NAME, _LETTER = 260, 14, 6  # of the chart, of a name on it, and the width of a letter, in pixels


def print_associations(result: SeatResult, console: Console) -> None:
    """Print one line per test, the average of the gender tests and how to read them."""
    # InferSent on GloVe without any mitigation is the row other encoders are set beside.
    original = next(row for row in read_table("published_seat.csv", ("model",)) if row["model"] == "Original")
    published = {name: float(value) for name, value in original.items() if name.startswith("C")}
    # They are of sentences; words alone give other effects.
    compared = any(test.name in published and test.kind == "sentence" for test in result.tests)
    coverage = f"{percent(result.settings.coverage)} interval"
    heads = ["test", "effect d", coverage, "p", "Holm", "BH", "text p", "texts"]
    rows = []
    for test in result.tests:
        ends, sizes = interval(test.low, test.high, 2, sign=True), f"{test.sizes['X']}+{test.sizes['Y']}"
        p_values = [p_value(p) for p in (test.p, test.p_holm, test.p_bh, test.p_published)]
        theirs = [signed(published.get(test.name) if test.kind == "sentence" else None)] if compared else []
        rows.append([test.name or "–", signed(test.effect), ends, *p_values, sizes, *theirs])
    mean = result.mean
    if not mean.note:
        average = [signed(average_effect(published).signed)] if compared else []
        rows.append([f"mean {AVERAGED[0]}–{AVERAGED[-1]}", signed(mean.signed), *[""] * 6, *average])
        rows.append(["of sizes", signed(mean.absolute)])
    _print_table([*heads, "published"] if compared else heads, rows, console, bold=len(result.tests))
    notes = [f"{test.name or 'test'}: {test.note}" for test in result.tests if test.note]
    titles = [f"{test.name or 'test'}: {test.title}" for test in result.tests if test.title]
    _print_below(console, [*titles, *notes], _how_to_read(result.tests, compared))


def _how_to_read(results: Sequence[AssociationResult], compared: bool) -> str:
    exact = [result.name for result in results if result.exact]
    sampled = max((result.permutations for result in results if not result.exact), default=0)
    partitions = ["all partitions" + (f" for {', '.join(exact)}" if sampled else "")] if exact else []
    partitions += [f"{sampled:,} partitions, sampled"] if sampled else []
    sides = "two-sided" if any(result.sides == "two" for result in results) else "one-sided"
    return (
        "d: positive if the first targets go with the first attributes, 0 if neither does; interval: bootstrap over "
        "the words of targets and attributes (over the texts of a test file that does not list its words); "
        f"p: {sides}, words dealt out with all their texts, {' and '.join(partitions) or 'no partitions'}; Holm and "
        "BH: p corrected for the tests shown; text p: texts dealt out (May et al. 2019), too small for repeated words."
        + (" published: InferSent on GloVe, Dolci et al. 2023." if compared else "")
        + " An effect near 0 does not show that a model is free of bias."
    )


def print_senteval(result: SentEvalResult, console: Console) -> None:
    """Print one line per task and the mean."""
    rows = []
    for name, task in result.tasks.items():
        second = next((f"{key} {number(task.metrics[key], 2)}" for key in _SECOND if key in task.metrics), "")
        dev = "" if math.isnan(task.dev) else number(task.dev, 2)
        rows.append([name, number(task.score, 2), second, dev, f"{task.n:,}", number(PUBLISHED.get(name), 1)])
    if result.overall is not None:
        rows.append(["mean", number(result.overall, 2), "", "", "", number(PUBLISHED_OVERALL, 2)])
    _print_table(("task", "score", "second", "dev", "rows", "published"), rows, console, bold=len(result.tasks))
    notes = [f"{name}: {task.note}" for name, task in result.tasks.items() if task.note]
    notes += [f"not run: {reason}" for reason in result.missing.values()]
    legend = (
        "score: accuracy in percent, 100 times Pearson's r for STS tasks and SICKR; dev: what the search for the "
        "regularisation saw. published: InferSent on GloVe, Dolci et al. 2023."
    )
    if result.overall is None:
        legend += f" No mean: it needs all {len(TASKS)} tasks."
    _print_below(console, notes, legend)


def print_leakage(before: Residual, after: Residual, console: Console, *, words: bool = False) -> None:
    """Print what is left of gender before and after a mitigation; of words or of sentences."""
    rows: list[list[str]] = []
    for place, title in _PLACES.items():
        first, second = (one if place == "words" else getattr(one, place) for one in (before, after))
        if first and second:
            neutral = first.majority
            rows += (_leak_row(f"{title}, {how}", first, second, name, neutral) for name, how in _PROBES.items())
    rows += (_leak_row(title, before, after, name, 0.5 * (name == "clustering")) for name, title in _LEAKS.items())
    _print_table(("what is left", "before", "interval", "after", "interval", "neutral", "n"), rows, console)
    # Vectors of words have no running text, so their probe is another.
    probes = "accuracy of predicting to which side neutral words leaned, on words not trained on"
    tested = "words" if words else "sentences"
    if not words:
        probes = (
            "accuracy of a linear and a neural probe for gender: in sentences whose words neither eraser nor probe has "
            "seen, in text that nothing was fitted on, and in other sentences with the fitted words"
        )
    legend = (
        f"{probes}; clusters: neutral {tested} that two-means puts on the side they leaned to before; "
        "neighbour bias: correlation of that lean with the side of their nearest neighbours. 95 % intervals over what "
        "was tested. A probe at neutral shows that this probe fails, not that nothing is left."
    )
    _print_below(console, [], legend)


def _leak_row(title: str, before: Any, after: Any, name: str, neutral: float) -> list[str]:
    cells, estimates = [title], [getattr(one, name) for one in (before, after)]
    for one in estimates:
        cells += [number(one.value), interval(one.low, one.high, 2)]
    return [*cells, number(neutral, 2), f"{estimates[1].n:,}"]


def print_encoders(report: EncoderReport, console: Console) -> None:
    """Print one line per encoder, the first without differences, and the SentEval tasks if there are any."""
    scored = any(one.senteval is not None for one in report.encoders)
    heads = ["encoder", "method", "mean |d|", "interval", "change", "interval", "linear", "MLP", "text", "clusters"]
    rows = []
    for at, one in enumerate(report.encoders):
        change = one.difference if at else {}
        mean, against_base = one.seat.mean, one.seat.change
        cells = [one.label, one.method or "–", number(mean.value, 2), interval(mean.low, mean.high, 2), "", ""]
        if against_base is not None and not math.isnan(against_base.value):
            cells[4:] = signed(against_base.value, 2), interval(against_base.low, against_base.high, 2, sign=True)
        cells += [_with_change(one.figure(name), change.get(name), 2) for name in _FIGURES]
        if scored:
            cells.append(_with_change(one.senteval_mean, change.get("senteval"), 1))
        rows.append(cells)
    _print_table([*heads, "neighbour bias", *(["SentEval"] if scored else [])], rows, console)
    _print_below(console, [f"{one.label}: {note}" for one in report.encoders for note in _notes(one)])
    if scored:
        _print_tasks(report, console)
    held = report.encoders[0].leakage
    # Running text has more of one gender: a probe that always names it is right in more than half of the cases.
    neutral = number(held.majority, 2)
    on_text = number(held.on_text.majority, 2) if held.on_text else neutral
    legend = (
        "change and in brackets: difference to the first encoder. mean |d|: size of the SEAT effects C6 to C8b, 0 "
        "is neutral; 95 % intervals over the words of the tests, that of a change with the same words for both "
        "encoders; linear, MLP: accuracy of probes for gender on held-out words, "
        f"{neutral} is neutral; text: of the linear one on text, {on_text} is neutral; clusters: 0.5 is neutral; "
        "neighbour bias: 0 is neutral."
        + (f" SentEval: mean of {len(report.tasks)} task(s), higher is better." if scored else "")
        + " Figures at neutral do not show that an encoder is free of bias."
    )
    _print_below(console, [], legend)


def _notes(one: EncoderFigures) -> list[str]:
    tasks = one.senteval.tasks if one.senteval else {}
    notes = [one.note, one.seat.mean.note if math.isnan(one.seat.mean.value) else ""]
    notes += [f"{test.name}: {test.note}" for test in one.seat.tests if test.note]
    notes += [f"{name}: {task.note}" for name, task in tasks.items() if task.note]
    return [note for note in notes if note]


def _print_tasks(report: EncoderReport, console: Console) -> None:
    results = {one.label: one.senteval for one in report.encoders if one.senteval is not None}
    encoders = [one for one in report.encoders if one.label in results]
    rows = []
    for task in dict.fromkeys(task for result in results.values() for task in result.tasks):
        first, *others = (one.score(task) for one in encoders)
        rows.append([task, number(first, 1), *(_with_change(other, difference(other, first), 1) for other in others)])
    _print_table(["SentEval", *results], rows, console)
    missing = {task: reason for result in results.values() for task, reason in result.missing.items()}
    _print_below(console, [why if why.startswith(task) else f"{task}: {why}" for task, why in missing.items()])


def _with_change(value: float | None, change: float | None, digits: int) -> str:
    return number(value, digits) + ("" if change is None else f" ({signed(change, digits)})")


def _print_table(heads: Sequence[str], rows: Iterable[Sequence[str]], console: Console, *, bold: int = -1) -> None:
    first, *others = (head if head == "method" else f">{head}" for head in heads)
    console.print(table([first.removeprefix(">"), *others], rows, [bold], tight=True))


def _print_below(console: Console, notes: Iterable[str], legend: str = "") -> None:
    """Notes line by line, and how to read the table."""
    for note in notes:
        console.print(escape(printable(note)))  # a stored note may be anyone's
    if legend:
        console.print(escape(legend), style="dim")


def encoder_chart(report: EncoderReport) -> Any:
    """Fairness against accuracy: SEAT against SentEval, or against the linear probe where there is no SentEval."""
    alt = load_altair("the chart of an encoder report")
    scored = bool(report.tasks)
    points = [point for at, one in enumerate(report.encoders) for point in _points(one, base=at == 0, scored=scored)]
    if not points:
        raise InputError("nothing to draw: no encoder has both figures; see the notes of the report")
    title = "accuracy of a linear probe for gender: 0.5 leaks nothing to it"
    if scored:
        title = f"SentEval, mean of {len(report.tasks)} task(s): higher is more accurate"
    low, high = min(point["x"] for point in points), max(point["x"] for point in points)
    # Shuffles alone move the mean of SentEval by some tenths; they should not fill the chart.
    spare = max(0.0, _POINTS - (high - low)) / 2 if scored else 0.0
    domain = {"domain": [low - spare, high + spare]} if scored else {"zero": False}
    x = alt.X("x:Q", scale=alt.Scale(**domain, nice=True, padding=24), axis=alt.Axis(title=title, grid=False))
    effect = alt.Axis(title="SEAT, mean |d| of C6 to C8b: 0 is neutral", gridColor=GRID)
    y = alt.Y("y:Q", scale=alt.Scale(domainMin=0), axis=effect)
    base = inline(points)
    look = kinds("kind", ["base", "mitigated"], [SIDES["male"], SIDES["female"]], SHAPES[::-1])
    marks = base.mark_point(filled=True, size=70, opacity=1).encode(x=x, y=y, **look)
    rule = base.mark_rule(color=MUTED, opacity=0.6)
    layers = [rule.encode(x=x, y="low:Q", y2="high:Q")]
    if not scored:
        layers.append(rule.encode(x="left:Q", x2="right:Q", y="y:Q"))
    # Names stand outward where there is room, else inward.
    sides: dict[str, list[dict[str, Any]]] = {"left": [], "right": []}
    apart = _NAME * max(*(point["high"] for point in points), 1e-6) / _HEIGHT
    letter = _LETTER * (high - low + 2 * spare) / WIDTH
    for point in points:
        outward = "right" if (point["x"] > (low + high) / 2) != (spare > 0) else "left"
        sides[_free_side(point, points, outward, (letter, apart))].append(point)
    for side in sides.values():
        _spread_names(side, apart)
    layers += [marks, *names_beside(sides, "label", {"x": x, "y": "name_y:Q"}, 7, -7)]
    return alt.layer(*layers).properties(width=WIDTH, height=_HEIGHT)


def _free_side(
    point: Mapping[str, Any], points: Sequence[Mapping[str, Any]], wanted: str, size: tuple[float, float]
) -> str:
    """How the name of a point is aligned: as wanted, unless another point stands there and none on the other side.

    ``size`` is that of a letter in the units of the axes.
    """

    def is_free(side: str) -> bool:
        onward = 1 if side == "left" else -1  # left-aligned names run to the right
        ahead = [onward * (one["x"] - point["x"]) for one in points if abs(one["y"] - point["y"]) < 2 * size[1]]
        return not any(0 < distance < size[0] * len(point["label"]) for distance in ahead)

    other = "left" if wanted == "right" else "right"
    return other if is_free(other) and not is_free(wanted) else wanted


def _spread_names(points: list[dict[str, Any]], apart: float) -> None:
    """Give every name a height of its own, ``name_y``, so that those of points of like effect do not overlap."""
    below = -math.inf
    for point in sorted(points, key=lambda point: float(point["y"])):
        point["name_y"] = below = max(point["y"], below + apart)


def write_encoder_report(
    report: EncoderReport, folder: str | Path, on_warning: Callable[[str], None] = lambda _: None
) -> list[Path]:
    """Write the page and the chart of a report into its directory; returns the files.

    ``on_warning`` is told why there is no chart: the figures are there and stored, and are a report without one.
    """
    files = [write_page(encoders_page(report), Path(folder) / "report.html")]
    try:
        files += save_chart(encoder_chart(report), "encoders", folder)
    except (InputError, MissingExtraError) as error:
        on_warning(f"no chart: {error}")
    return files


def _points(one: EncoderFigures, *, base: bool, scored: bool) -> list[dict[str, Any]]:
    """The point of an encoder with the ends of its bars; none where a figure is undefined."""
    mean, probe = one.seat.mean, one.leakage.linear
    x = one.figure("senteval" if scored else "linear")
    if x is None or math.isnan(mean.value):
        return []
    # No interval is a bar without length, as Vega would draw an absent end at 0.
    low, high = (mean.value if math.isnan(end) else end for end in (mean.low, mean.high))
    left, right = (x, x) if scored else (probe.low, probe.high)
    place = {"x": x, "y": mean.value, "low": low, "high": high, "left": left, "right": right}
    return [{"label": one.label, "kind": "base" if base else "mitigated", **place}]
