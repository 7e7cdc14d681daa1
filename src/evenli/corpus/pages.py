"""Pages: a scored corpus, its sentences first, and one sentence word by word."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evenli.core.blocks import Block, Fact, Figure
from evenli.core.drawing import drawn
from evenli.core.format import number, percent, printable, shortened
from evenli.core.page import render
from evenli.core.svg import word_bars
from evenli.corpus.bias import SentenceBias
from evenli.corpus.charts import distribution_chart
from evenli.corpus.mitigation.review import marker
from evenli.corpus.run import Scorer
from evenli.corpus.scored import CorpusScores, distribution, top_sentences
from evenli.corpus.scoring import ENDS, balance_of
from evenli.corpus.texts import bias_head, largest_importance, lean, note_of

_PERCENTILES = (50, 90, 95, 97, 99, 100)
_SENTENCES = 200  # on each side of a corpus
_DRAWN = 100  # words of a chart


def corpus_page(scored: CorpusScores | str | Path, scorer: Scorer | None = None) -> str:
    """A scored corpus: its sentences first, the words that make the score marked where ``scorer`` can say which."""
    scored = CorpusScores.read(scored)
    spread = distribution(scored, _PERCENTILES)
    values = spread.thresholds
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
    figures = drawn("How the scores are distributed", "Histogram of the scores", distribution_chart, spread)
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
            figures=figures,
            columns=("percentile", ">score"),
            rows=[[f"{p:g} %", v] for p, v in values.items()],
            caption="Percentiles of the score of a row",
        ),
    ]
    files = scored.header.get("source", {}).get("files") or [scored.path]
    more = f" and {len(files) - 1} more files" if len(files) > 1 else ""
    return render(f"Bias scores of {printable(Path(files[0]).name)}{more}", lead, blocks, facts)


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
        Fact(second.capitalize(), lean(bias.male), "", f"M: what leans {second}, 0 or less"),
        Fact("Together", number(bias.absolute, 5), "", "Abs = F - M, 0 is neutral"),
    ]
    title = f"Importance of the words (orange: leans {first}, blue: {second}, grey: neither)"
    bars = []
    for word in words[:_DRAWN]:
        side = "first" if word.weighted > 0 else "second" if word.weighted < 0 else ""
        bars.append((printable(word.token), word.importance, side))
    figures = [Figure.of_svg(title, word_bars(bars))] if largest_importance(bias) else []
    more = [f"The chart has the first {_DRAWN} of {len(words):,} words."] if figures and len(words) > _DRAWN else []
    equal = [] if figures else ["All words count the same."]
    rows = []
    for word in bias.words:
        count = "" if word.count is None else word.count
        numbers = percent(word.importance, 2), lean(word.bias), lean(word.weighted)
        rows.append([printable(word.token), count, *numbers, note_of(word, ends)])
    rest = [(bias.added, "words without lean that are added"), (bias.markers, "special tokens of the encoder")]
    notes = [f"{percent(share, 2)} of the importance are on {what}." for share, what in rest if share]
    columns = ("word", ">count", ">importance", bias_head(ends), ">weighted", "note")
    block = Block("Words", [*equal, *more], columns, rows, figures, "Weighted is importance times bias", notes=notes)
    return render(f"Bias score of: {printable(shortened(bias.text, 80))}", lead, [block], facts)
