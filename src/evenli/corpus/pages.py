"""Pages and charts: a scored corpus, its sentences first; one sentence word by word; a gender direction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.core.blocks import Block, Fact, Figure
from evenli.core.drawing import SHAPES, SIDES, WIDTH, drawn, inline, kinds, load_altair, save_chart, word_bars
from evenli.core.errors import InputError
from evenli.core.format import number, percent, printable, shortened
from evenli.core.page import ACCENT, INK, MUTED, render
from evenli.corpus.bias import SentenceBias
from evenli.corpus.mitigation.review import marker
from evenli.corpus.run import Scorer
from evenli.corpus.scored import PERCENTILES, CorpusScores, Distribution, distribution, top_sentences
from evenli.corpus.scoring import ENDS, balance_of
from evenli.corpus.texts import bias_head, largest_importance, lean, note_of
from evenli.encoders.direction import GenderDirection, bias_of, save_direction
from evenli.encoders.vectors import WordVectors

_PERCENTILES = (50, 90, 95, 97, 99, 100)
_SENTENCES = 200  # on each side of a corpus
_DRAWN = 100  # words of a chart
_HEIGHT, _LINE, _COMPONENTS = 160, 13, 10  # of charts: panels, lines of labels, components of a direction
_PURPOSE = "the chart of bias scores"


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


def check_chart(file: str | Path) -> Path:
    """The chart to write, or why it cannot be written; to be asked before a corpus is scored for it."""
    file = Path(file)
    if file.suffix.lower() not in (".svg", ".png"):
        raise InputError(f"{file}: charts are written as .svg and .png; give a name with one of them")
    load_altair(_PURPOSE)
    return file


def write_distribution_chart(scored: CorpusScores | str | Path, file: str | Path) -> list[Path]:
    """Draw a scored corpus; ``NAME.svg`` or ``NAME.png``, either writes both."""
    file = check_chart(file)
    return save_chart(distribution_chart(distribution(scored, PERCENTILES)), file.stem, file.parent)


def distribution_chart(scores: Distribution) -> Any:
    """Rows by score above, with a line per threshold; texts by F and M below, M to the left of 0."""
    alt = load_altair(_PURPOSE)
    highest = float(scores.edges[-1])
    bars = _histogram(alt, _bars(scores.edges, scores.rows), "rows", "score of a row (largest Abs)", [0, highest])
    layers = [bars.mark_bar(color=MUTED)]
    for line, (percentile, value) in enumerate(sorted(scores.thresholds.items())):
        # The label of a lower threshold stands above the beginning of the lines to its right.
        top, side, dx = line * _LINE, *(("right", -3) if value > 0.75 * highest else ("left", 3))
        point = inline([{"at": value, "label": f"{percentile:g} %: {number(value, 4)}"}])
        rule = point.mark_rule(color=ACCENT).encode(x="at:Q", y=alt.value(top), y2=alt.value(_HEIGHT))
        text = point.mark_text(align=side, dx=dx, fontSize=10, color=INK, baseline="top")
        layers += [rule, text.encode(x="at:Q", y=alt.value(top), text="label:N")]
    values = [{**bar, "side": "female (F)"} for bar in _bars(scores.edges, scores.female)]
    values += [{**bar, "side": "male (M)"} for bar in _bars(-scores.edges, scores.male)]
    colours = alt.Scale(domain=["male (M)", "female (F)"], range=[SIDES["male"], SIDES["female"]])
    below = _histogram(alt, values, "texts", "score of a text", [-highest, highest]).mark_bar()
    below = below.encode(color=alt.Color("side:N", scale=colours, legend=alt.Legend(title=None, orient="top")))
    panels = [panel.properties(width=WIDTH, height=_HEIGHT) for panel in (alt.layer(*layers), below)]
    # Independent, or the legend of the lower panel would stand above both.
    return alt.vconcat(*panels).resolve_scale(color="independent")


def _histogram(alt: Any, values: Sequence[Mapping[str, object]], counted: str, title: str, domain: list[float]) -> Any:
    axis = alt.Axis(title=title, grid=False, tickCount=6, labelFlush=False)
    across = alt.X("from:Q", scale=alt.Scale(domain=domain, nice=False), axis=axis)
    up = alt.Y("count:Q", axis=alt.Axis(title=counted, tickCount=4))
    return inline(values).encode(x=across, x2="to:Q", y=up, y2="zero:Q")


def _bars(edges: NDArray[np.float64], counts: NDArray[np.int64]) -> list[dict[str, float]]:
    values = zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
    return [{"from": start, "to": end, "count": count, "zero": 0} for start, end, count in values if count]


def write_direction(direction: GenderDirection, vectors: WordVectors, folder: str | Path) -> list[Path]:
    """Write ``direction.npz`` and the chart as ``direction.svg`` and ``direction.png``; returns the files."""
    file = save_direction(direction, Path(folder) / "direction.npz")
    return [file, *save_chart(direction_chart(direction, vectors), "direction", folder)]


def direction_chart(direction: GenderDirection, vectors: WordVectors) -> Any:
    """Explained variance by component above the cosines of the pairs' words with the direction."""
    alt = load_altair(_PURPOSE)
    shares = [{"component": i, "share": share} for i, share in enumerate(direction.spectrum[:_COMPONENTS], 1)]
    bars = inline(shares).mark_bar(color="#4d4d4d").properties(width=WIDTH, height=140)
    bars = bars.encode(
        x=alt.X("component:O", axis=alt.Axis(title="component", labelAngle=0)),
        y=alt.Y("share:Q", axis=alt.Axis(title="explained variance", format=".0%", tickCount=5)),
    )
    if not direction.pairs:
        return bars
    values = []
    for pair in direction.pairs:
        for side, word, cosine in zip(SIDES, pair, bias_of(vectors, vectors.rows(pair), direction), strict=True):
            values.append({"pair": "–".join(pair), "side": side, "word": word, "cosine": float(cosine)})
    base = inline(values)
    rows = alt.Y("pair:N", sort=None, axis=alt.Axis(title=None, labelLimit=WIDTH // 2))
    line = base.mark_line(color="#b0b7bf").encode(x="cosine:Q", y=rows, detail="pair:N")
    marks = base.mark_point(filled=True, size=60, opacity=1).encode(
        x=alt.X("cosine:Q", axis=alt.Axis(title="cosine with the direction")),
        y=rows,
        **kinds("side", list(SIDES), list(SIDES.values()), SHAPES, orient="bottom"),
    )
    return alt.vconcat(bars, alt.layer(line, marks).properties(width=WIDTH, height=alt.Step(16)))
