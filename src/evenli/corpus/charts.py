"""Bias scores and gender directions: charts; ``score_text`` has what a terminal shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.core.drawing import SHAPES, SIDES, WIDTH, inline, kinds, load_altair, save_chart
from evenli.core.errors import InputError
from evenli.core.format import number
from evenli.core.page import ACCENT, INK, MUTED
from evenli.corpus.scored import PERCENTILES, CorpusScores, Distribution, distribution
from evenli.encoders.direction import GenderDirection, bias_of, save_direction
from evenli.encoders.vectors import WordVectors

_HEIGHT, _LINE, _COMPONENTS = 160, 13, 10
_PURPOSE = "the chart of bias scores"


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
