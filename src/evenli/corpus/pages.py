"""The page about a scored corpus: its sentences first."""

from __future__ import annotations

from pathlib import Path

from evenli.core.blocks import Block, Fact
from evenli.core.drawing import drawn
from evenli.core.format import number, printable
from evenli.core.page import render
from evenli.corpus.charts import distribution_chart
from evenli.corpus.mitigation.review import marker
from evenli.corpus.run import Scorer
from evenli.corpus.scored import CorpusScores, distribution, top_sentences
from evenli.corpus.scoring import balance_of

_PERCENTILES = (50, 90, 95, 97, 99, 100)
_SENTENCES = 200  # on each side of a corpus


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
