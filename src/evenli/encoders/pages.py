"""Pages on encoders, corpora and sweeps, in the look of the report: the answer first, then charts and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

from evenli.core.blocks import Block, Fact, Figure
from evenli.core.format import interval, number, p_value, printable, signed
from evenli.core.page import render
from evenli.core.svg import Dot, dots
from evenli.encoders.report import EncoderReport
from evenli.encoders.seat import AVERAGED, AssociationResult, SeatResult, seat_tests
from evenli.encoders.senteval import SentEvalResult

_LIMIT = "An effect near 0 shows that these tests find nothing, not that an encoder is free of bias."
_LEAKS = {
    "linear": "linear probe, held-out words",
    "mlp": "MLP probe, held-out words",
    "on_text": "linear probe, text",
    "clustering": "clusters",
    "correlation": "neighbour bias",
}
_TASKS = {
    "MR": "film reviews",
    "CR": "product reviews",
    "SUBJ": "fact or opinion",
    "MPQA": "opinions in news",
    "TREC": "kinds of questions",
    "SST2": "sentiment, 2 grades",
    "SST5": "sentiment, 5 grades",
    "STSB": "likeness (STSB)",
    "SICKR": "likeness (SICK)",
    "SICKE": "inference (SICK)",
    "STS14": "likeness (STS14)",
    "MRPC": "paraphrases",
}
"""What the tasks of SentEval ask, in words that fit beside a chart."""


_READING = (
    "A dot to the right of 0: the encoder puts the pairs as they are named here close to each other. To the left: the "
    "other way round. The size is that of a standardised difference, from -2 to 2.",
    "A line that does not touch 0 is a link that would hold for other words of the same kind, too.",
)


def seat_page(result: SeatResult, name: str) -> str:
    """Association tests of one encoder: every effect with its interval on one axis, then the table."""
    beyond = [test for test in result.tests if test.low > 0 or test.high < 0]
    significant = [test for test in result.tests if test.p_holm < 0.05]
    total, mean = len(result.tests), result.mean
    holds = "they hold for other words, too: their interval excludes 0"
    facts = [
        Fact("Links found", str(len(beyond)), f"of {total}", holds),
        Fact("Not by chance", str(len(significant)), f"of {total}", "with exactly these words: corrected p below 0.05"),
    ]
    if not mean.note:
        about = "of the six gender tests; 0 is neutral, 2 the most there can be"
        facts.append(Fact("Mean effect", signed(mean.signed, 2), "", about))
    caption = "Effects, p-values, and p corrected for the number of tests"
    lines = ["Which groups of words does the encoder bring close to which?", *_READING]
    block = _tests("Association tests", result.tests, caption, [_LIMIT], lines)
    return render(f"Association tests of {printable(name)}", _links(beyond, total), [block], facts)


def _tests(
    heading: str, tests: Sequence[AssociationResult], caption: str, notes: Sequence[str], lines: Sequence[str] = ()
) -> Block:
    rows, points = [], []
    for test in tests:
        named = f"{test.name or '–'}: {test.title}" if test.title else test.name or "–"
        ends = interval(test.low, test.high, 2, sign=True)
        rows.append([named, signed(test.effect), ends, p_value(test.p), p_value(test.p_holm), test.note])
        sides = _sides(test.title)
        label = test.title if sides is None else f"{sides[0]} – {sides[2]}, {sides[1]} – {sides[3]}"
        points.append(Dot(label or test.name or "–", test.effect, test.low, test.high))
    return Block(
        heading,
        lines=lines,
        figures=[Figure.of_svg("Effect with its interval; 0 is neutral", dots("effect d", points, above=True))],
        columns=("test", ">effect d", ">interval", ">p", ">p (Holm)", "note"),
        rows=rows,
        caption=caption,
        notes=notes,
    )


def _links(beyond: Sequence[AssociationResult], total: int) -> str:
    """What the tests find, in a sentence: the strongest link about gender, or the strongest there is."""
    if not beyond:
        return f"None of the {total} association tests finds a link that would hold for other words, too."
    # The tests are about more than gender; a link of gender is said first, be it weaker.
    strongest = max(beyond, key=lambda test: (test.name in AVERAGED, abs(test.effect)))
    counted = f"{len(beyond)} of {total} association tests find a link that would hold for other words, too"
    sides = _sides(strongest.title)
    if sides is None:
        return f"{counted}."
    x, y, a, b = (side[:1].lower() + side[1:] for side in sides)
    if strongest.effect < 0:
        a, b = b, a
    return f"This encoder brings {x} close to {a}, and {y} close to {b}; {counted}."


def _sides(title: str) -> list[str] | None:
    """Both targets and both attributes of a title such as "Male names and Female names, with Career and Family"."""
    # Names of sets may hold an "and" of their own; those of shipped tests are known.
    for test in seat_tests("word"):
        if test.title == title:
            return [side.title for side in test.sets]
    parts = [part.split(" and ") for part in title.split(", with ")]
    return [*parts[0], *parts[1]] if [len(part) for part in parts] == [2, 2] else None


def senteval_page(result: SentEvalResult, name: str) -> str:
    """SentEval: what an encoder is worth on twelve tasks."""
    lead = f"{len(result.tasks)} tasks were run; an average needs all twelve."
    if result.overall is not None:
        lead = f"On twelve tasks this encoder reaches {number(result.overall, 1)} on average."
    rows, points = [], []
    for task, one in result.tasks.items():
        named = f"{task}: {_TASKS[task]}" if task in _TASKS else task
        rows.append([named, number(one.score, 2), number(one.dev, 2), f"{one.n:,}", one.note])
        points.append(Dot(_TASKS.get(task, task), one.score / 100, math.nan, math.nan))
    block = Block(
        "Tasks",
        lines=[
            "What an encoder is worth: a simple classifier learns each task from its sentences alone.",
            "Compare an encoder with itself before and after a mitigation: what the mitigation costs stands here.",
        ],
        columns=("task", ">score", ">development set", ">rows", "note"),
        rows=rows,
        figures=[Figure.of_svg("Score by task; 1 is the best there can be", dots("score", points))],
        caption="Accuracy in percent; 100 times Pearson's r for STSB, SICKR and STS14",
        notes=[f"Not run: {reason}" for reason in result.missing.values()],
    )
    return render(f"SentEval of {printable(name)}", lead, [block])


def encoders_page(report: EncoderReport) -> str:
    """Mitigated encoders beside their base: before and after, what still leaks, what it costs."""
    blocks = [_before_after_block(report)]
    for one in report.encoders:
        notes = [one.note] if one.note else []
        blocks.append(_tests(f"Tests of {one.label}", one.seat.tests, f"Association tests of {one.label}", notes))
    facts = []
    for one in report.encoders[:3]:
        mean = one.seat.mean
        ends = interval(mean.low, mean.high, 2)
        facts.append(Fact(one.label, number(mean.value, 2), ends, "mean effect; 0 is neutral"))
    return render(f"Encoders: {report.encoders[0].label}", _before_after(report), blocks, facts)


def _before_after_block(report: EncoderReport) -> Block:
    rows, points = [], []
    title = f"Mean size of the effects {AVERAGED[0]} to {AVERAGED[-1]}; 0 is neutral"
    for one in report.encoders:
        mean = one.seat.mean
        points.append(Dot(one.label, mean.value, mean.low, mean.high))
        leaks = [number(one.figure(leak), 2) for leak in _LEAKS]
        size = [number(mean.value, 2), interval(mean.low, mean.high, 2)]
        rows.append([one.label, one.method or "–", *size, *leaks, number(one.senteval_mean, 1)])
    held = report.encoders[0].leakage
    on_text = held.on_text.majority if held.on_text else held.majority
    # What a probe reaches that always says the more frequent gender; in running text that is not half.
    values = {"linear": held.majority, "mlp": held.majority, "on_text": on_text, "clustering": 0.5, "correlation": 0.0}
    neutral = ["neutral", "", "0", "", *(number(values[leak], 2) for leak in _LEAKS), ""]
    return Block(
        "Before and after",
        lines=["The first encoder is the one before mitigation."],
        figures=[Figure.of_svg(title, dots(title, points))],
        columns=("encoder", "method", ">mean |d|", ">interval", *(f">{leak}" for leak in _LEAKS.values()), ">SentEval"),
        rows=[*rows, neutral],
        caption="SEAT, what leaks of gender, SentEval (higher is better); the last row is what nothing left would give",
        notes=[_LIMIT, "A probe at neutral shows that this probe fails, not that nothing is left."],
    )


def _before_after(report: EncoderReport) -> str:
    """What the mitigations did, in a sentence."""
    first, *others = report.encoders
    if not others:
        mean = number(first.seat.mean.value, 2)
        return f"{first.label} shows a mean effect of {mean} in the gender tests; 0 is neutral."
    parts = []
    for one in others:
        change = one.seat.change
        # A change counts as one where its interval excludes 0.
        moved = "has no defined change"
        if change is not None and not math.isnan(change.value):
            certain = change.low > 0 or change.high < 0
            word = "lowers" if change.value < 0 else "raises"
            moved = f"{word} it by {number(abs(change.value), 2)}" if certain else "makes no difference beyond chance"
        parts.append(f"{one.label} {moved}")
    return f"The mean effect of {first.label} is {number(first.seat.mean.value, 2)}; {'; '.join(parts)}."
