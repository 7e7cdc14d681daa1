"""What a terminal shows of bias scores and gender directions.

Of a sentence it is how much each word counts and where it leans. The bars are the word importance of Figures 3 and 7b
of Dolci et al. 2023; where all words count the same there is nothing to draw. Charts are elsewhere: they load all that
an audit needs, which takes longer than many a corpus.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from evenli.core.console import table
from evenli.core.format import number, percent, printable, shortened, signed
from evenli.core.terminal import say
from evenli.corpus.bias import SentenceBias, WordBias
from evenli.corpus.mitigation.card import Balance
from evenli.corpus.scored import SIDES
from evenli.corpus.scoring import ENDS, CorpusSummary, ends_of
from evenli.encoders.direction import DirectionSummary

if TYPE_CHECKING:
    from evenli.corpus.contextual import ContextualSummary

_BAR, _WIDE = 8, 80  # columns of a bar, and of a terminal that has room for one


def print_sentence(bias: SentenceBias, console: Console, ends: Sequence[str] = ENDS) -> None:
    """Print the words of a sentence with importance, gender bias and their product, and the score they add up to."""
    counted = any(word.count is not None for word in bias.words)
    largest = largest_importance(bias) if console.width >= _WIDE else 0.0
    drawn = [""] if largest else []
    heads = ["token", *([">count"] if counted else []), ">importance", *drawn, bias_head(ends), ">weighted", ""]
    shown = table(heads, [])
    # A token may be as long as a line; notes are short and stand in one.
    shown.columns[0].overflow, shown.columns[0].max_width = "fold", 24
    shown.columns[-1].no_wrap, shown.columns[-1].style = True, "dim"
    full = "#" if console.options.ascii_only else "\N{FULL BLOCK}"
    for word in bias.words:
        known = word.note != "out of vocabulary"
        bars = [full * round(_BAR * word.importance / largest)] if largest else []
        cells = [percent(word.importance, 2), *bars, lean(word.bias), lean(word.weighted)]
        counts = ["" if word.count is None else f"{word.count:,}"] if counted else []
        colour = "magenta" if word.weighted > 0 else "cyan" if word.weighted < 0 else None
        text = escape(printable(word.token))
        shown.add_row(text, *counts, *(cells if known else [""] * len(cells)), note_of(word, ends), style=colour)
    blank = [""] if counted else []
    for name, share, note in (
        ("(added)", bias.added, "against short sentences"),
        ("(markers)", bias.markers, "special tokens"),
    ):
        if share:
            shown.add_row(name, *blank, percent(share, 2), *drawn, lean(0.0), lean(0.0), note)
    console.print(shown)
    if bias.empty:
        console.print("No word of this text has a vector: the score of 0 says nothing about it.", style="yellow")
    first, second = (escape(printable(end)) for end in ends)
    female = f"[bold]F {number(bias.female, 5)}[/] ({first})"
    male = f"[bold]M {lean(bias.male)}[/] ({second})"
    console.print(f"{female}  {male}  [bold]Abs {number(bias.absolute, 5)}[/]")


def largest_importance(bias: SentenceBias) -> float:
    """The largest importance of a word; 0 where all are alike."""
    shares = [word.importance for word in bias.words if word.note != "out of vocabulary"]
    return max(shares) if shares and max(shares) > min(shares) * (1 + 1e-9) else 0.0


def bias_head(ends: Sequence[str]) -> str:
    """Head of the column of leans."""
    return ">gender bias" if tuple(ends) == ENDS else ">bias"


def note_of(word: WordBias, ends: Sequence[str]) -> str:
    """Why a word does not count; words that define another axis than gender are not called gender words."""
    return "word of the axis" if word.note == "gender word" and tuple(ends) != ENDS else word.note


def lean(value: float) -> str:
    """A lean with five decimals, or plain 0."""
    return f"{value:.5f}" if round(value, 5) else "0"


def print_corpus(summary: CorpusSummary, charts: Sequence[str] = ()) -> None:
    """Print what ``evenli.corpus.scoring.summarise`` says of a scored corpus, one line per fact."""
    header = summary.header
    flags = ", ".join(f"{count:,} {name}" for name, count in header["counts"].items() if count)
    columns = ", ".join(header["columns"])
    say(f"{summary.folder}: {header['rows']:,} rows, columns {columns}{f'; {flags}' if flags else ''}")
    shown = ", ".join(f"{name} % {number(value, 4)}" for name, value in summary.percentiles.items())
    say(f"score of a row (largest of its columns), percentiles ({summary.method}): {shown}")
    ends = dict(zip(SIDES, ends_of(header), strict=True))
    say(f"rows: {balance_text(summary.balance, *ends.values())}")
    for side, sentences in summary.top.items():
        say(f"most {ends[side]}:")
        for value, text in sentences:
            say(f"  {signed(value, 4)}  {shortened(text)}")
    if charts:
        say(f"charts: {', '.join(charts)}")


def balance_text(balance: Balance, first: str = ENDS[0], second: str = ENDS[1]) -> str:
    """Sides and labels in one line."""
    labels = ", ".join(f"{printable(name)} {share:.1f} %" for name, share in balance.labels.items())
    sides = f"{balance.female:.1f} % lean {printable(first)}, {balance.male:.1f} % {printable(second)}"
    return f"{sides}; {labels}" if labels else sides


def print_direction(summary: DirectionSummary | ContextualSummary) -> None:
    """Print what is known of a direction, of word vectors or of an encoder."""
    if not isinstance(summary, DirectionSummary):
        say(
            f"{summary.encoder}: {summary.dimension} numbers, {summary.importance} pooling; "
            f"{summary.sentences} sentences in a female and a male version"
        )
        say(
            f"first component: {percent(summary.explained, 1)} of the variance of their differences; both halves of "
            f"the sentences agree to cosine {number(summary.agreement_of_halves)}"
        )
        for text, cosine in summary.sentence_cosines.items():
            say(f"  {signed(cosine, 5)}  {text}")
        return
    missing = f", {len(summary.missing)} without a vector" if summary.missing else ""
    say(f"{summary.vectors}: {summary.words:,} words, {summary.dimension} numbers each; {summary.pairs} pairs{missing}")
    agreement = "".join(
        f"; cosine with the {other} list {number(cosine)}" for other, cosine in summary.agreement.items()
    )
    say(
        f"first component: {percent(summary.explained, 1)} of the variance of the pairs (lengths kept: "
        f"{percent(summary.explained_raw, 1)}); without one pair the direction turns to cosine "
        f"{number(summary.leave_one_out['lowest'])} at worst{agreement}"
    )
    for side in SIDES:
        words = getattr(summary, side)
        say(f"most {side}: " + ", ".join(f"{word} {signed(value, 2)}" for word, value in words))
