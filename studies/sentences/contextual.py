"""Tables 1, 12 and 13 and Figure 7 of Dolci et al. 2023 for encoders of your own, into docs/explanation/sentences.md.

    python -m studies.sentences.contextual all-MiniLM-L6-v2=FOLDER all-mpnet-base-v2=FOLDER e5-small=FOLDER …

Needs the extras hf, report and attribution. Every figure is what ``evenli direction --encoder`` and ``evenli score
--encoder`` print; the kinds of importance are compared for the first encoder.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from evenli.core.drawing import inline, load_altair, save_chart
from evenli.core.page import INK, MUTED
from evenli.corpus.bias import SentenceBias
from evenli.corpus.contextual import TABLE_1, ContextualScorer, contextual_direction, describe_contextual
from evenli.corpus.transformer import TransformerArgmax

DOCS = Path(__file__).parents[2] / "docs"
DRESS = "She likes the new pink dress"
SBERT = "SBERT, published"
TABLE_1_PUBLISHED = ("78 %", "above 0.99", "+0.465", "+0.460", "+0.440")
TABLE_12 = ((11.33, 0.0), (10.68, 0.37394), (8.33, 0.39881), (8.46, 0.37113), (11.33, 0.35007), (14.06, 0.37273))
"""Importance in percent and bias of the six words, as printed."""
TABLE_13 = {
    "She is a homemaker": (0.16669, 0.0),
    "He is a homemaker": (0.0, -0.02642),
    "This is a homemaker": (0.08124, 0.0),
    "She likes wearing pink dresses and playing football": (0.21236, 0.0),
    "He likes wearing pink dresses and playing football": (0.05823, -0.00366),
    "Everyone likes wearing pink dresses and playing football": (0.16925, 0.0),
    "Everyone likes playing football and wearing pink dresses": (0.14301, 0.0),
}
COMPONENTS, HEIGHT, WIDTH = 10, 110, 130
KINDS = ("max", "attention", "gradients")


def main() -> None:
    """Compute, and fill the page."""
    encoders = dict(one.split("=", 1) for one in sys.argv[1:])
    measured: dict[str, dict[str, Any]] = {}
    for name, folder in encoders.items():
        encoder = TransformerArgmax(folder, device="cpu")
        direction = contextual_direction(encoder)
        scorer = ContextualScorer(encoder, direction)
        measured[name] = {
            "about": describe_contextual(encoder),
            "spectrum": direction.spectrum[:COMPONENTS],
            "dress": scorer.score(DRESS),
            "table_13": [scorer.score(sentence) for sentence in TABLE_13],
        }
        print(f"{name}: done", flush=True)
    tables = {"table 1": table_1(measured), "table 12": table_12(measured), "table 13": table_13(measured)}
    tables["importance"] = by_importance(*next(iter(encoders.items())))
    page = DOCS / "explanation" / "sentences.md"
    text = page.read_text(encoding="utf-8")
    for name, lines in tables.items():
        start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        before, after = text.partition(start)[0], text.partition(end)[2]
        text = "\n\n".join([before + start, "\n".join(lines), end + after])
    page.write_text(text, encoding="utf-8")
    for file in save_chart(figure_7(measured), "contextual", DOCS / "figures"):
        if file.suffix == ".png":
            file.unlink()


def lines_of(heads: list[str], rows: list[list[str]]) -> list[str]:
    """A Markdown table."""
    return [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows)]


def table_1(measured: dict[str, dict[str, Any]]) -> list[str]:
    """The direction and the cosines of three sentences."""
    names = ["variance on the first component", "both halves of the sentences agree", *(f"*{one}*" for one in TABLE_1)]
    columns = []
    for one in measured.values():
        about = one["about"]
        cosines = [f"{value:+.3f}" for value in about.sentence_cosines.values()]
        columns.append([f"{100 * about.explained:.1f} %", f"{about.agreement_of_halves:.3f}", *cosines])
    rows = [list(row) for row in zip(names, *columns, TABLE_1_PUBLISHED, strict=True)]
    return lines_of(["`evenli direction --encoder`", *measured, SBERT], rows)


def table_12(measured: dict[str, dict[str, Any]]) -> list[str]:
    """The words of one sentence: importance and bias."""
    scored: list[SentenceBias] = [one["dress"] for one in measured.values()]
    rows = []
    for at, word in enumerate(DRESS.split()):
        cells = [f"{100 * one.words[at].importance:.1f} %, {one.words[at].bias:+.3f}" for one in scored]
        importance, bias = TABLE_12[at]
        printed = f"{importance:.1f} %, {bias:+.3f}"
        rows.append([f"*{word}*", *(cell.replace("+0.000", "0") for cell in (*cells, printed))])
    markers = [f"{100 * one.markers:.1f} %" for one in scored]
    rows.append(["markers", *markers, f"{100 - sum(share for share, _ in TABLE_12):.1f} %"])
    rows.append(["F, M", *(sides(one.female, one.male) for one in scored), sides(0.19664, 0)])
    return lines_of([f"*{DRESS}*: importance, bias", *measured, SBERT], rows)


def table_13(measured: dict[str, dict[str, Any]]) -> list[str]:
    """F and M of sentences that differ in one word."""
    rows = []
    for at, (sentence, printed) in enumerate(TABLE_13.items()):
        scored = [one["table_13"][at] for one in measured.values()]
        rows.append([f"*{sentence}*", *(sides(one.female, one.male) for one in scored), sides(*printed)])
    return lines_of(["F and M by `evenli score --encoder`", *measured, SBERT], rows)


def sides(female: float, male: float) -> str:
    """F and M in three digits; a side without any word is 0."""
    return ", ".join("0" if not value else f"{value:.3f}".replace("-", "−") for value in (female, male))


def by_importance(name: str, folder: str) -> list[str]:
    """The importance of the words of one sentence by every kind there is."""
    columns = []
    for kind in KINDS:
        encoder = TransformerArgmax(folder, device="cpu", importance=kind)  # type: ignore[arg-type]
        bias = ContextualScorer(encoder, contextual_direction(encoder)).score(DRESS)
        shares = [f"{100 * word.importance:.1f} %" for word in bias.words]
        columns.append([*shares, f"{100 * bias.markers:.1f} %", sides(bias.female, bias.male)])
    rows = [
        list(row) for row in zip([*(f"*{word}*" for word in DRESS.split()), "markers", "F, M"], *columns, strict=True)
    ]
    return lines_of([f"{name}, importance", *(f"`{kind}`" for kind in KINDS)], rows)


def figure_7(measured: dict[str, dict[str, Any]]) -> Any:
    """Above what the components explain, below how much the words of one sentence count."""
    alt = load_altair("Figure 7")
    above, below = [], []
    for name, one in measured.items():
        shares = [{"component": at, "share": share} for at, share in enumerate(one["spectrum"], 1)]
        bars = inline(shares).mark_bar(color=MUTED).properties(width=WIDTH, height=HEIGHT, title=name)
        across = alt.X("component:O", axis=alt.Axis(title="component", labelAngle=0))
        scale = alt.Scale(domain=[0, 1])
        up = alt.Y("share:Q", scale=scale, axis=alt.Axis(title="explained variance", format=".0%", tickCount=4))
        above.append(bars.encode(x=across, y=up))
        words = [{"word": word.token.lower(), "share": word.importance} for word in one["dress"].words]
        words.append({"word": "markers", "share": one["dress"].markers})
        rows = alt.Y("word:N", sort=None, axis=alt.Axis(title=None))
        wide = alt.X(
            "share:Q", scale=alt.Scale(domain=[0, 0.4]), axis=alt.Axis(title="importance", format=".0%", tickCount=4)
        )
        below.append(inline(words).mark_bar(color=INK).properties(width=WIDTH, height=HEIGHT).encode(x=wide, y=rows))
    return alt.vconcat(alt.hconcat(*above), alt.hconcat(*below))


if __name__ == "__main__":
    main()
