"""One sentence, word by word: how much each word counts and where it leans, on a terminal and as a page.

The bars are the word importance of Figures 3 and 7b of Dolci et al. 2023. Where all words count the same there is
nothing to draw.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from evenli.core.blocks import Block, Fact, Figure
from evenli.core.console import table
from evenli.core.format import number, percent, printable, shortened
from evenli.core.page import render
from evenli.core.svg import word_bars
from evenli.corpus.bias import SentenceBias, WordBias
from evenli.corpus.scoring import ENDS

_BAR, _WIDE = 8, 80  # columns of a bar, and of a terminal that has room for one
_DRAWN = 100  # words of a chart


def print_sentence(bias: SentenceBias, console: Console, ends: Sequence[str] = ENDS) -> None:
    """Print the words of a sentence with importance, gender bias and their product, and the score they add up to."""
    counted = any(word.count is not None for word in bias.words)
    largest = _largest(bias) if console.width >= _WIDE else 0.0
    drawn = [""] if largest else []
    heads = ["token", *([">count"] if counted else []), ">importance", *drawn, _bias_head(ends), ">weighted", ""]
    shown = table(heads, [])
    # A token may be as long as a line; notes are short and stand in one.
    shown.columns[0].overflow, shown.columns[0].max_width = "fold", 24
    shown.columns[-1].no_wrap, shown.columns[-1].style = True, "dim"
    full = "#" if console.options.ascii_only else "\N{FULL BLOCK}"
    for word in bias.words:
        known = word.note != "out of vocabulary"
        bars = [full * round(_BAR * word.importance / largest)] if largest else []
        cells = [percent(word.importance, 2), *bars, _signed(word.bias), _signed(word.weighted)]
        counts = ["" if word.count is None else f"{word.count:,}"] if counted else []
        colour = "magenta" if word.weighted > 0 else "cyan" if word.weighted < 0 else None
        text = escape(printable(word.token))
        shown.add_row(text, *counts, *(cells if known else [""] * len(cells)), _note(word, ends), style=colour)
    blank = [""] if counted else []
    for name, share, note in (
        ("(added)", bias.added, "against short sentences"),
        ("(markers)", bias.markers, "special tokens"),
    ):
        if share:
            shown.add_row(name, *blank, percent(share, 2), *drawn, _signed(0.0), _signed(0.0), note)
    console.print(shown)
    if bias.empty:
        console.print("No word of this text has a vector: the score of 0 says nothing about it.", style="yellow")
    first, second = (escape(printable(end)) for end in ends)
    female = f"[bold]F {number(bias.female, 5)}[/] ({first})"
    male = f"[bold]M {_signed(bias.male)}[/] ({second})"
    console.print(f"{female}  {male}  [bold]Abs {number(bias.absolute, 5)}[/]")


def sentence_page(bias: SentenceBias, ends: Sequence[str] = ENDS) -> str:
    """A page with the sentence, its score, a bar for every word and the table of the terminal."""
    words = [word for word in bias.words if word.note != "out of vocabulary"]
    strongest = max(words, key=lambda word: abs(word.weighted), default=None)
    lead = "No word of this text carries a lean."
    if strongest is not None and strongest.weighted:
        side = ends[0] if strongest.weighted > 0 else ends[1]
        lead = f"The word that adds most to the score is \N{LEFT DOUBLE QUOTATION MARK}{printable(strongest.token)}"
        lead += f"\N{RIGHT DOUBLE QUOTATION MARK}, which leans {printable(side)}."
    first, second = (printable(end) for end in ends)
    facts = [
        Fact(first.capitalize(), number(bias.female, 5), "", f"F: what leans {first}, 0 or more"),
        Fact(second.capitalize(), _signed(bias.male), "", f"M: what leans {second}, 0 or less"),
        Fact("Together", number(bias.absolute, 5), "", "Abs = F - M, 0 is neutral"),
    ]
    title = f"Importance of the words (orange: leans {first}, blue: {second}, grey: neither)"
    bars = []
    for word in words[:_DRAWN]:
        side = "first" if word.weighted > 0 else "second" if word.weighted < 0 else ""
        bars.append((printable(word.token), word.importance, side))
    figures = [Figure.of_svg(title, word_bars(bars))] if _largest(bias) else []
    more = [f"The chart has the first {_DRAWN} of {len(words):,} words."] if figures and len(words) > _DRAWN else []
    equal = [] if figures else ["All words count the same."]
    rows = []
    for word in bias.words:
        count = "" if word.count is None else word.count
        numbers = percent(word.importance, 2), _signed(word.bias), _signed(word.weighted)
        rows.append([printable(word.token), count, *numbers, _note(word, ends)])
    rest = [(bias.added, "words without lean that are added"), (bias.markers, "special tokens of the encoder")]
    notes = [f"{percent(share, 2)} of the importance are on {what}." for share, what in rest if share]
    columns = ("word", ">count", ">importance", _bias_head(ends), ">weighted", "note")
    block = Block("Words", [*equal, *more], columns, rows, figures, "Weighted is importance times bias", notes=notes)
    return render(f"Bias score of: {printable(shortened(bias.text, 80))}", lead, [block], facts)


def _largest(bias: SentenceBias) -> float:
    """The largest importance of a word; 0 where all are alike."""
    shares = [word.importance for word in bias.words if word.note != "out of vocabulary"]
    return max(shares) if shares and max(shares) > min(shares) * (1 + 1e-9) else 0.0


def _bias_head(ends: Sequence[str]) -> str:
    return ">gender bias" if tuple(ends) == ENDS else ">bias"


def _note(word: WordBias, ends: Sequence[str]) -> str:
    """Why a word does not count; words that define another axis than gender are not called gender words."""
    return "word of the axis" if word.note == "gender word" and tuple(ends) != ENDS else word.note


def _signed(value: float) -> str:
    return f"{value:.5f}" if round(value, 5) else "0"
