"""The scores of a corpus as a chart: rows by their score with the thresholds, texts by F and M."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli._extras import need
from evenli.corpus.distribution import PERCENTILES, Distribution, distribution
from evenli.corpus.scored import CorpusScores
from evenli.errors import InputError
from evenli.report.charts import ACCENT, INK, MUTED, WIDTH, save_chart

_HEIGHT, _LINE = 160, 13
_COLOURS = {"female (F)": "#d55e00", "male (M)": "#0072b2"}
"""Apart for colour-blind readers; the sides of 0 tell them apart without colour."""
_SUFFIXES = (".svg", ".png")


def check_chart(file: str | Path) -> Path:
    """The chart to write, or why it cannot be written; to be asked before a corpus is scored for it."""
    file = Path(file)
    if file.suffix.lower() not in _SUFFIXES:
        raise InputError(f"{file}: charts are written as {' and '.join(_SUFFIXES)}; give a name with one of them")
    _altair()
    return file


def distribution_chart(scores: Distribution) -> Any:
    """Rows by score above, with a line per threshold; texts by F and M below, M to the left of 0."""
    alt = _altair()
    highest = float(scores.edges[-1])
    across = _scores(alt, "score of a row (largest Abs)", [0, highest])
    bars = alt.Chart(alt.InlineData(values=_bars(scores.edges, scores.rows))).mark_bar(color=MUTED)
    layers = [bars.encode(x=across, x2="to:Q", y=_counts(alt, "rows"), y2="zero:Q")]
    for line, (percentile, value) in enumerate(sorted(scores.thresholds.values.items())):
        # The label of a lower threshold stands above the beginning of the lines to its right.
        top, right = line * _LINE, value > 0.75 * highest
        point = alt.Chart(alt.InlineData(values=[{"at": value, "label": f"{percentile:g} %: {value:.4f}"}]))
        rule = point.mark_rule(color=ACCENT).encode(x="at:Q", y=alt.value(top), y2=alt.value(_HEIGHT))
        text = point.mark_text(
            align="right" if right else "left", dx=-3 if right else 3, fontSize=10, color=INK, baseline="top"
        )
        layers += [rule, text.encode(x="at:Q", y=alt.value(top), text="label:N")]
    above = alt.layer(*layers).properties(width=WIDTH, height=_HEIGHT)
    female, male = _COLOURS
    values = [{**bar, "side": female} for bar in _bars(scores.edges, scores.female)]
    values += [{**bar, "side": male} for bar in _bars(-scores.edges, scores.male)]
    below = (
        alt.Chart(alt.InlineData(values=values))
        .mark_bar()
        .encode(
            x=_scores(alt, "score of a text", [-highest, highest]),
            x2="to:Q",
            y=_counts(alt, "texts"),
            y2="zero:Q",
            color=alt.Color(
                "side:N",
                scale=alt.Scale(domain=[male, female], range=[_COLOURS[male], _COLOURS[female]]),
                legend=alt.Legend(title=None, orient="top"),
            ),
        )
        .properties(width=WIDTH, height=_HEIGHT)
    )
    # Independent, or the legend of the lower panel would stand above both.
    return alt.vconcat(above, below).resolve_scale(color="independent")


def write_distribution_chart(
    scored: CorpusScores | str | Path, file: str | Path, percentiles: tuple[float, ...] = PERCENTILES
) -> list[Path]:
    """Draw a scored corpus; ``NAME.svg`` or ``NAME.png``, either writes both."""
    file = check_chart(file)
    return save_chart(distribution_chart(distribution(scored, percentiles)), file.stem, file.parent)


def _altair() -> Any:
    need("vl_convert", extra="report", purpose="the chart of the scores")
    return need("altair", extra="report", purpose="the chart of the scores")


def _scores(alt: Any, title: str, domain: list[float]) -> Any:
    axis = alt.Axis(title=title, grid=False, tickCount=6, labelFlush=False)
    return alt.X("from:Q", scale=alt.Scale(domain=domain, nice=False), axis=axis)


def _counts(alt: Any, title: str) -> Any:
    return alt.Y("count:Q", axis=alt.Axis(title=title, tickCount=4))


def _bars(edges: NDArray[np.float64], counts: NDArray[np.int64]) -> list[dict[str, float]]:
    values = zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
    return [{"from": start, "to": end, "count": count, "zero": 0} for start, end, count in values if count]
