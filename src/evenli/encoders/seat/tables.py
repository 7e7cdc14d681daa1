"""What people see of association tests: the table of a terminal, and the page with a chart.

How a table stands on a terminal is the same for all that encoders are asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from evenli.core.blocks import Block, Fact, Figure
from evenli.core.console import table
from evenli.core.drawing import Dot, dots
from evenli.core.format import interval, number, p_value, percent, printable, signed
from evenli.core.page import render
from evenli.core.record import Estimate
from evenli.encoders.seat import AVERAGED, SeatResult, average_effect, seat_tests
from evenli.encoders.seat.association import AssociationResult
from evenli.words import read_table

LIMIT = "An effect near 0 shows that these tests find nothing, not that an encoder is free of bias."
_READING = (
    "Which groups of words does the encoder bring close to which?",
    "A dot to the right of 0: the encoder puts the pairs as they are named here close to each other. To the left: the "
    "other way round. The size is that of a standardised difference, from -2 to 2.",
    "A line that does not touch 0 is a link that would hold for other words of the same kind, too.",
)


def cells(estimate: Estimate, digits: int = 3, *, sign: bool = False) -> list[str]:
    """Value and interval; the ends have two decimals."""
    shown = (signed if sign else number)(estimate.value, digits)
    return [shown, interval(estimate.low, estimate.high, 2, sign=sign)]


def print_block(block: Block, console: Console) -> None:
    """Print a table, its notes and how to read it; the row of a mean is bold."""
    means = [at for at, row in enumerate(block.rows) if row[0].startswith("mean")]
    console.print(table(block.columns, block.rows, means, tight=True))
    for note in block.notes:
        console.print(escape(printable(note)))  # a stored note may be anyone's
    if block.caption:
        console.print(escape(block.caption), style="dim")


def associations(result: SeatResult) -> Block:
    """A row for each test, the average of the gender tests, and how to read them."""
    # InferSent on GloVe without any mitigation is the row other encoders are set beside.
    original = next(row for row in read_table("published_seat.csv", ("model",)) if row["model"] == "Original")
    published = {name: float(value) for name, value in original.items() if name.startswith("C")}
    # They are of sentences; words alone give other effects.
    sentences = {test.name for test in result.tests if test.kind == "sentence"}
    compared = bool(published.keys() & sentences)
    coverage = f">{percent(result.settings.coverage)} interval"
    columns = ["test", ">effect d", coverage, ">p", ">Holm", ">BH", ">text p", ">texts"]
    rows, titles, notes = [], [], []
    for test in result.tests:
        p_values = [p_value(p) for p in (test.p, test.p_holm, test.p_bh, test.p_published)]
        row = [test.name or "–", *cells(test.effect, sign=True), *p_values, f"{test.sizes['X']}+{test.sizes['Y']}"]
        rows.append([*row, *([signed(published.get(test.name) if test.name in sentences else None)] * compared)])
        titles += [f"{test.name or 'test'}: {test.title}"] * bool(test.title)
        notes += [f"{test.name or 'test'}: {test.effect.note}"] * bool(test.effect.note)
    mean = result.mean
    if not mean.note:
        theirs = [signed(average_effect(published).signed)] * compared
        rows.append([f"mean {AVERAGED[0]}–{AVERAGED[-1]}", signed(mean.signed), *[""] * 6, *theirs])
        rows.append(["of sizes", signed(mean.absolute)])
    caption = _how_to_read(result.tests, compared)
    return Block("", columns=[*columns, *([">published"] * compared)], rows=rows, notes=titles + notes, caption=caption)


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


def seat_page(result: SeatResult, name: str) -> str:
    """Association tests of one encoder: every effect with its interval on one axis, then the table."""
    certain = [test for test in result.tests if test.effect.low > 0 or test.effect.high < 0]
    significant = [test for test in result.tests if test.p_holm < 0.05]
    total, mean = len(result.tests), result.mean
    holds = "they hold for other words, too: their interval excludes 0"
    facts = [
        Fact("Links found", str(len(certain)), f"of {total}", holds),
        Fact("Not by chance", str(len(significant)), f"of {total}", "with exactly these words: corrected p below 0.05"),
    ]
    if not mean.note:
        about = "of the six gender tests; 0 is neutral, 2 the most there can be"
        facts.append(Fact("Mean effect", signed(mean.signed, 2), "", about))
    caption = "Effects, p-values, and p corrected for the number of tests"
    block = tests_block("Association tests", result.tests, caption, [LIMIT], _READING)
    return render(f"Association tests of {printable(name)}", _links(certain, total), [block], facts)


def tests_block(
    heading: str, tests: Sequence[AssociationResult], caption: str, notes: Sequence[str], lines: Sequence[str] = ()
) -> Block:
    """Tests on a page: a chart and a table."""
    rows, points = [], []
    for test in tests:
        named = f"{test.name or '–'}: {test.title}" if test.title else test.name or "–"
        p_values = p_value(test.p), p_value(test.p_holm)
        rows.append([named, *cells(test.effect, sign=True), *p_values, test.effect.note])
        sides = _sides(test.title)
        label = f"{sides[0]} – {sides[2]}, {sides[1]} – {sides[3]}" if sides else test.title or test.name or "–"
        points.append(Dot(label, test.effect.value, test.effect.low, test.effect.high))
    figures = [Figure.of_svg("Effect with its interval; 0 is neutral", dots("effect d", points, above=True))]
    columns = ("test", ">effect d", ">interval", ">p", ">p (Holm)", "note")
    return Block(heading, lines, columns, rows, figures, caption, notes)


def _links(certain: Sequence[AssociationResult], total: int) -> str:
    """What the tests find, in a sentence: the strongest link about gender, or the strongest there is."""
    if not certain:
        return f"None of the {total} association tests finds a link that would hold for other words, too."
    # The tests are about more than gender; a link of gender is said first, be it weaker.
    strongest = max(certain, key=lambda test: (test.name in AVERAGED, abs(test.effect.value)))
    counted = f"{len(certain)} of {total} association tests find a link that would hold for other words, too"
    sides = _sides(strongest.title)
    if sides is None:
        return f"{counted}."
    x, y, a, b = (side[:1].lower() + side[1:] for side in sides)
    if strongest.effect.value < 0:
        a, b = b, a
    return f"This encoder brings {x} close to {a}, and {y} close to {b}; {counted}."


def _sides(title: str) -> list[str] | None:
    """Both targets and both attributes of a title such as "Male names and Female names, with Career and Family"."""
    # Names of sets may hold an "and" of their own; those of shipped tests are known.
    known = {test.title: [side.title for side in test.sets] for test in seat_tests("word")}
    if title in known:
        return known[title]
    parts = [part.split(" and ") for part in title.split(", with ")]
    return [*parts[0], *parts[1]] if [len(part) for part in parts] == [2, 2] else None
