"""What a terminal shows of bias scores and gender directions.

Apart from the charts, which load all that an audit needs: that takes longer than many a corpus.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenli.core.format import number, percent, printable, shortened, signed
from evenli.corpus.mitigation.card import Balance
from evenli.corpus.scored import SIDES
from evenli.corpus.scoring import ENDS, CorpusSummary, ends_of
from evenli.encoders.direction import DirectionSummary

if TYPE_CHECKING:
    from evenli.corpus.contextual import ContextualSummary


def print_corpus(summary: CorpusSummary, charts: Sequence[str] = ()) -> None:
    """Print what ``evenli.corpus.scoring.summarise`` says of a scored corpus, one line per fact."""
    header = summary.header
    flags = ", ".join(f"{count:,} {name}" for name, count in header["counts"].items() if count)
    columns = printable(", ".join(header["columns"]))
    print(f"{summary.folder}: {header['rows']:,} rows, columns {columns}{f'; {flags}' if flags else ''}")
    shown = ", ".join(f"{name} % {number(value, 4)}" for name, value in summary.percentiles.items())
    print(f"score of a row (largest of its columns), percentiles ({summary.method}): {shown}")
    ends = dict(zip(SIDES, ends_of(header), strict=True))
    print(f"rows: {balance_text(summary.balance, *ends.values())}")
    for side, sentences in summary.top.items():
        print(f"most {printable(ends[side])}:")
        for value, text in sentences:
            print(f"  {signed(value, 4)}  {printable(shortened(text))}")
    if charts:
        print(f"charts: {', '.join(charts)}")


def balance_text(balance: Balance, first: str = ENDS[0], second: str = ENDS[1]) -> str:
    """Sides and labels in one line."""
    labels = ", ".join(f"{printable(name)} {share:.1f} %" for name, share in balance.labels.items())
    sides = f"{balance.female:.1f} % lean {printable(first)}, {balance.male:.1f} % {printable(second)}"
    return f"{sides}; {labels}" if labels else sides


def print_direction(summary: DirectionSummary | ContextualSummary) -> None:
    """Print what is known of a direction, of word vectors or of an encoder."""
    if not isinstance(summary, DirectionSummary):
        print(
            f"{summary.encoder}: {summary.dimension} numbers, {summary.importance} pooling; "
            f"{summary.sentences} sentences in a female and a male version"
        )
        print(
            f"first component: {percent(summary.explained, 1)} of the variance of their differences; both halves of "
            f"the sentences agree to cosine {number(summary.agreement_of_halves)}"
        )
        for text, cosine in summary.sentence_cosines.items():
            print(f"  {signed(cosine, 5)}  {text}")
        return
    missing = f", {len(summary.missing)} without a vector" if summary.missing else ""
    print(
        f"{summary.vectors}: {summary.words:,} words, {summary.dimension} numbers each; {summary.pairs} pairs{missing}"
    )
    agreement = "".join(
        f"; cosine with the {other} list {number(cosine)}" for other, cosine in summary.agreement.items()
    )
    print(
        f"first component: {percent(summary.explained, 1)} of the variance of the pairs (lengths kept: "
        f"{percent(summary.explained_raw, 1)}); without one pair the direction turns to cosine "
        f"{number(summary.leave_one_out['lowest'])} at worst{agreement}"
    )
    for side in SIDES:
        words = getattr(summary, side)
        print(f"most {side}: " + ", ".join(f"{printable(word)} {signed(value, 2)}" for word, value in words))
