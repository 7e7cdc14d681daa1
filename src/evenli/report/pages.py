"""Pages on encoders, corpora and sweeps, in the look of the report: the answer first, then charts and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evenli.corpus.run import Scorer
from evenli.corpus.scored import CorpusScores, distribution, top_sentences
from evenli.corpus.scoring import balance_of
from evenli.drawing import Figure, inline_svg
from evenli.errors import InputError, MissingExtraError
from evenli.evaluate.encoder_report import EncoderReport
from evenli.evaluate.seat import AVERAGED, AssociationResult, SeatResult, seat_tests
from evenli.evaluate.senteval import SentEvalResult
from evenli.format import interval, number, p_value, percent, printable, signed
from evenli.io import write_atomic
from evenli.mitigate.review import marker
from evenli.page import Block, Fact, render
from evenli.report.hero import Dot, dots
from evenli.report.meta import LIMITS, meta_chart, response_chart
from evenli.report.scores import distribution_chart
from evenli.stats.sweep import SweepResult

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
_PERCENTILES = (50, 90, 95, 97, 99, 100)
_SENTENCES = 200  # on each side of a corpus


def write_page(text: str, path: str | Path) -> Path:
    """Write a page, atomically."""
    write_atomic(path, text.encode("utf-8", "replace"))
    return Path(path)


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
        charts=[("Effect with its interval; 0 is neutral", dots("effect d", points, above=True))],
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
        charts=[("Score by task; 1 is the best there can be", dots("score", points))],
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
        charts=[(title, dots(title, points))],
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


def corpus_page(scored: CorpusScores | str | Path, scorer: Scorer | None = None) -> str:
    """A scored corpus: its sentences first, the words that make the score marked where ``scorer`` can say which."""
    scored = CorpusScores.read(scored)
    spread = distribution(scored, _PERCENTILES)
    values = spread.thresholds.values
    largest = [
        (value, side, text) for side, of in top_sentences(scored, _SENTENCES).items() for value, text in of if value
    ]
    largest.sort(key=lambda row: (abs(row[0]), *row), reverse=True)
    # With a scorer the words that make up the score are marked, else the gendered ones.
    mark, marks = marker(scorer)
    texts = mark([text for *_, text in largest])
    rows = [[text, side, value] for text, (value, side, _) in zip(texts, largest, strict=True)]
    balance = balance_of(scored)
    lead = (
        f"{balance.male:.0f} of 100 rows lean male by their words, {balance.female:.0f} female; the most biased row in "
        f"twenty scores above {number(values[95.0], 3)}."
    )
    facts = [
        Fact("Rows", f"{scored.rows:,}", "", "each scored by its words, 0 is neutral"),
        Fact("Half of them score at most", number(values[50.0], 3), "", "the score of a row adds up both sides"),
        Fact("The highest score", number(values[100.0], 3), "", "of all rows; its words are marked below"),
    ]
    charts = _drawn("How the scores are distributed", "Histogram of the scores", distribution_chart, spread)
    blocks = [
        Block(
            "Sentences",
            lines=[marks],
            columns=("sentence", "leans", ">score"),
            rows=rows,
            caption=f"The {len(rows)} sentences that lean most, strongest first: the words of that side added up. "
            "The score of a row adds up both sides.",
            filtered=True,
        ),
        Block(
            "Distribution",
            charts=charts,
            columns=("percentile", ">score"),
            rows=[[f"{p:g} %", v] for p, v in values.items()],
            caption="Percentiles of the score of a row",
        ),
    ]
    files = scored.header.get("source", {}).get("files") or [scored.path]
    more = f" and {len(files) - 1} more files" if len(files) > 1 else ""
    return render(f"Bias scores of {printable(Path(files[0]).name)}{more}", lead, blocks, facts)


def meta_page(results: SweepResult) -> str:
    """A sweep: does each measure follow the bias that was trained in, or plain error?"""
    ranked = [rank for rank in results.ranking if not rank.reason]
    titles = {entry.name: entry.title for entry in results.measures}
    lead = "No measure follows the trained-in bias."
    if ranked:
        lead = f"Of {len(titles)} measures, {titles[ranked[0].measure]} follows the trained-in bias best."
    elif results.responses:
        alone = sum(any(one.measures_only(cause) for cause in one.taught) for one in results.responses)
        mixed = sum(len(one.moved_by()) > 1 for one in results.responses)
        total = len(results.responses)
        lead = f"{alone} of {total} measures follow one cause of bias alone; {mixed} mix several causes."
    blocks = [_curves(results, titles)] if "bias" in results.levels else []
    blocks += [_causes(results)] if results.responses else []
    learnt = []
    if "lowest" in results.held_out_accuracy:
        lowest = percent(results.held_out_accuracy["lowest"])
        learnt = [f"The model that learnt least answers {lowest} of new sentences as taught."]
    blocks.append(Block("Limits", lines=[*learnt, LIMITS]))
    facts = []
    for cause in results.responses[0].taught if results.responses else ():
        only = [one.title.strip() for one in results.responses if one.measures_only(cause)]
        names = f", such as “{only[0]}”" if only else ""
        facts.append(
            Fact(f"Follow “{cause}” alone", str(len(only)), f"of {len(results.responses)}", f"measures{names}")
        )
    return render(f"Which measures follow bias? {printable(results.base)} ({results.lang})", lead, blocks, facts)


def _curves(results: SweepResult, titles: dict[str, str]) -> Block:
    title = "Score against rate: mean and range over seeds"
    return Block(
        "Response curves",
        lines=[
            "Models were trained to known rates of bias, and of plain error.",
            "A good measure rises with the first only.",
        ],
        charts=_drawn(title, "Lines, a measure each", meta_chart, results),
        columns=("measure", ">sensitivity to bias", ">disturbance by error", ">net", ">Pearson"),
        rows=[
            [titles[rank.measure], rank.sensitivity, rank.disturbance, rank.net_sensitivity, rank.pearson]
            for rank in results.ranking
        ],
        caption="Measures, best first; shares of the range of each measure",
        notes=[f"{titles[rank.measure]}: {rank.reason}." for rank in results.ranking if rank.reason],
    )


def _causes(results: SweepResult) -> Block:
    return Block(
        "Response to each cause",
        lines=[
            "Models were trained to follow stereotypes, to assume a man, or to err without a direction, each to a "
            "known degree. A number says how far a measure moves when that cause goes from nothing to everything.",
            "A measure of one cause has 1 in its column and 0 in the others.",
        ],
        charts=_drawn("Change of the score per unit of each cause", "A map of slopes", response_chart, results),
        columns=("measure", *(f">{cause}" for cause in results.responses[0].taught), ">fit"),
        rows=[
            [one.title.strip(), *(signed(slope.value) for slope in one.taught.values()), one.fit]
            for one in results.responses
        ],
        caption="Slopes on the levels that were taught; fit is the share of the variance that they explain",
        filtered=True,
    )


def _drawn(title: str, alternative: str, draw: Callable[[Any], Any], content: Any) -> list[tuple[str, str]]:
    """A chart as (title, SVG); none where nothing can be drawn or the chart library is not installed."""
    try:
        return [(title, inline_svg(Figure("", title, f"{alternative}.", (), (), draw(content))))]
    except (InputError, MissingExtraError):
        return []
