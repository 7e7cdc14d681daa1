"""What people see of encoders before and after a mitigation: the tables of a terminal, and the page."""

from __future__ import annotations

import math
from dataclasses import replace

from evenli.core.blocks import Block, Fact, Figure
from evenli.core.drawing import Dot, dots
from evenli.core.format import interval, number, signed
from evenli.core.page import render
from evenli.core.record import Estimate
from evenli.encoders.comparison import EncoderFigures, EncoderReport, difference
from evenli.encoders.leakage import Residual
from evenli.encoders.seat import AVERAGED
from evenli.encoders.seat.tables import LIMIT, cells, tests_block

_PLACES = {"words": "held-out words", "on_text": "running text", "on_domain": "fitted words"}
_PROBES = {"linear": "linear probe", "mlp": "MLP probe"}
_NEIGHBOURS = {"clustering": "clusters", "correlation": "neighbour bias"}
_LEAKS = {
    "linear": "linear probe, held-out words",
    "mlp": "MLP probe, held-out words",
    "on_text": "linear probe, text",
    **_NEIGHBOURS,
}


def leakage_block(before: Residual, after: Residual, *, words: bool = False) -> Block:
    """What is left of gender before and after a mitigation; of words or of sentences."""
    found: list[tuple[str, Estimate, Estimate, float]] = []
    for place, title in _PLACES.items():
        first, second = (leaks if place == "words" else getattr(leaks, place) for leaks in (before, after))
        for name, how in _PROBES.items() if first and second else ():
            found.append((f"{title}, {how}", getattr(first, name), getattr(second, name), first.majority))
    for (name, title), neutral in zip(_NEIGHBOURS.items(), (0.5, 0.0), strict=True):
        found.append((title, getattr(before, name), getattr(after, name), neutral))
    rows = [[title, *cells(was), *cells(now), number(zero, 2), f"{now.n:,}"] for title, was, now, zero in found]
    # Vectors of words have no running text, so their probe is another.
    probes = "accuracy of predicting to which side neutral words leaned, on words not trained on"
    if not words:
        probes = (
            "accuracy of a linear and a neural probe for gender: in sentences whose words neither eraser nor probe has "
            "seen, in text that nothing was fitted on, and in other sentences with the fitted words"
        )
    caption = (
        f"{probes}; clusters: neutral {'words' if words else 'sentences'} that two-means puts on the side they leaned "
        "to before; neighbour bias: correlation of that lean with the side of their nearest neighbours. 95 % intervals "
        "over what was tested. A probe at neutral shows that this probe fails, not that nothing is left."
    )
    columns = ("what is left", ">before", ">interval", ">after", ">interval", ">neutral", ">n")
    return Block("", columns=columns, rows=rows, caption=caption)


def report_blocks(report: EncoderReport) -> list[Block]:
    """A row per encoder, the first without differences, and the SentEval tasks if there are any."""
    scored = any(encoder.senteval is not None for encoder in report.encoders)
    columns = ["encoder", "method", ">mean |d|", ">interval", ">change", ">interval", ">linear", ">MLP", ">text"]
    rows = []
    for encoder in report.encoders:
        against_base = encoder.seat.change
        moved = against_base is not None and not math.isnan(against_base.value)
        row = [encoder.label, encoder.method or "–", *cells(encoder.seat.mean, 2)]
        row += cells(against_base, 2, sign=True) if against_base is not None and moved else ["", ""]
        change = {} if encoder is report.encoders[0] else encoder.difference
        row += [_with_change(encoder.figure(name), change.get(name), 2) for name in _LEAKS]
        rows.append(row + [_with_change(encoder.figure("senteval"), change.get("senteval"), 1)] * scored)
    columns += [">clusters", ">neighbour bias", *[">SentEval"] * scored]
    notes = [f"{encoder.label}: {note}" for encoder in report.encoders for note in _notes(encoder)]
    neutral = _neutral(report)
    caption = (
        "change and in brackets: difference to the first encoder. mean |d|: size of the SEAT effects C6 to C8b, 0 "
        "is neutral; 95 % intervals over the words of the tests, that of a change with the same words for both "
        "encoders; linear, MLP: accuracy of probes for gender on held-out words, "
        f"{number(neutral['linear'], 2)} is neutral; text: of the linear one on text, {number(neutral['on_text'], 2)} "
        "is neutral; clusters: 0.5 is neutral; neighbour bias: 0 is neutral."
        + (f" SentEval: mean of {len(report.tasks)} task(s), higher is better." if scored else "")
        + " Figures at neutral do not show that an encoder is free of bias."
    )
    blocks = [Block("", columns=columns, rows=rows, notes=notes), *([_tasks_block(report)] if scored else [])]
    return [*blocks[:-1], replace(blocks[-1], caption=caption)]


def _notes(encoder: EncoderFigures) -> list[str]:
    tasks = encoder.senteval.tasks if encoder.senteval else {}
    notes = [encoder.note, encoder.seat.mean.note if math.isnan(encoder.seat.mean.value) else ""]
    notes += [f"{test.name}: {test.effect.note}" for test in encoder.seat.tests if test.effect.note]
    return [note for note in notes if note] + [f"{name}: {task.note}" for name, task in tasks.items() if task.note]


def _tasks_block(report: EncoderReport) -> Block:
    encoders = [encoder for encoder in report.encoders if encoder.senteval is not None]
    results = {encoder.label: encoder.senteval for encoder in encoders if encoder.senteval is not None}
    rows = []
    for task in dict.fromkeys(task for result in results.values() for task in result.tasks):
        first, *others = (encoder.score(task) for encoder in encoders)
        rows.append([task, number(first, 1), *(_with_change(other, difference(other, first), 1) for other in others)])
    missing = {task: reason for result in results.values() for task, reason in result.missing.items()}
    notes = [why if why.startswith(task) else f"{task}: {why}" for task, why in missing.items()]
    return Block("", columns=["SentEval", *(f">{label}" for label in results)], rows=rows, notes=notes)


def _with_change(value: float | None, change: float | None, digits: int) -> str:
    return number(value, digits) + ("" if change is None else f" ({signed(change, digits)})")


def _neutral(report: EncoderReport) -> dict[str, float]:
    """What a probe reaches that always says the more frequent gender; in running text that is not half."""
    leaks = report.encoders[0].leakage
    on_text = leaks.on_text.majority if leaks.on_text else leaks.majority
    return dict(zip(_LEAKS, (leaks.majority, leaks.majority, on_text, 0.5, 0.0), strict=True))


def encoders_page(report: EncoderReport) -> str:
    """Mitigated encoders beside their base: before and after, what still leaks, what it costs."""
    rows, points, blocks = [], [], []
    for encoder in report.encoders:
        mean, label = encoder.seat.mean, encoder.label
        points.append(Dot(label, mean.value, mean.low, mean.high))
        leaks = [number(encoder.figure(name), 2) for name in _LEAKS]
        rows.append([label, encoder.method or "–", *cells(mean, 2), *leaks, number(encoder.figure("senteval"), 1)])
        notes = [encoder.note] if encoder.note else []
        blocks.append(tests_block(f"Tests of {label}", encoder.seat.tests, f"Association tests of {label}", notes))
    rows.append(["neutral", "", "0", "", *(number(value, 2) for value in _neutral(report).values()), ""])
    title = f"Mean size of the effects {AVERAGED[0]} to {AVERAGED[-1]}; 0 is neutral"
    compared = Block(
        "Before and after",
        lines=["The first encoder is the one before mitigation."],
        figures=[Figure.of_svg(title, dots(title, points))],
        columns=("encoder", "method", ">mean |d|", ">interval", *(f">{leak}" for leak in _LEAKS.values()), ">SentEval"),
        rows=rows,
        caption="SEAT, what leaks of gender, SentEval (higher is better); the last row is what nothing left would give",
        notes=[LIMIT, "A probe at neutral shows that this probe fails, not that nothing is left."],
    )
    facts = [
        Fact(point.name, number(point.value, 2), interval(point.low, point.high, 2), "mean effect; 0 is neutral")
        for point in points[:3]
    ]
    return render(f"Encoders: {report.encoders[0].label}", _lead(report), [compared, *blocks], facts)


def _lead(report: EncoderReport) -> str:
    """What the mitigations did, in a sentence."""
    first, *others = report.encoders
    mean = number(first.seat.mean.value, 2)
    if not others:
        return f"{first.label} shows a mean effect of {mean} in the gender tests; 0 is neutral."
    parts = []
    for encoder in others:
        change = encoder.seat.change
        # A change counts as one where its interval excludes 0.
        moved = "has no defined change"
        if change is not None and not math.isnan(change.value):
            certain = change.low > 0 or change.high < 0
            word = "lowers" if change.value < 0 else "raises"
            moved = f"{word} it by {number(abs(change.value), 2)}" if certain else "makes no difference beyond chance"
        parts.append(f"{encoder.label} {moved}")
    return f"The mean effect of {first.label} is {mean}; {'; '.join(parts)}."
