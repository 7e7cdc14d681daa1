"""Charts of a gender direction: how much each component explains, and where the pairs lie."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenli._extras import need
from evenli.corpus.direction import DirectionReport, GenderDirection, bias_of, save_direction
from evenli.encoders.vectors import WordVectors
from evenli.report.charts import WIDTH, save_chart

_COMPONENTS = 10
_COLOURS = {"female": "#d55e00", "male": "#0072b2"}
"""Apart for colour-blind readers; the shapes of the marks differ too."""


def direction_chart(direction: GenderDirection, vectors: WordVectors) -> Any:
    """Explained variance by component above the cosines of the pairs' words with the direction."""
    need("vl_convert", extra="report", purpose="the chart of a gender direction")
    alt = need("altair", extra="report", purpose="the chart of a gender direction")
    shares = [{"component": i, "share": share} for i, share in enumerate(direction.spectrum[:_COMPONENTS], 1)]
    bars = (
        alt.Chart(alt.InlineData(values=shares))
        .mark_bar(color="#4d4d4d")
        .encode(
            x=alt.X("component:O", axis=alt.Axis(title="component", labelAngle=0)),
            y=alt.Y("share:Q", axis=alt.Axis(title="explained variance", format=".0%", tickCount=5)),
        )
        .properties(width=WIDTH, height=140)
    )
    if not direction.pairs:
        return bars
    values = []
    for pair in direction.pairs:
        for side, word, cosine in zip(_COLOURS, pair, bias_of(vectors, vectors.rows(pair), direction), strict=True):
            values.append({"pair": "–".join(pair), "side": side, "word": word, "cosine": float(cosine)})
    base = alt.Chart(alt.InlineData(values=values))
    rows = alt.Y("pair:N", sort=None, axis=alt.Axis(title=None, labelLimit=WIDTH // 2))
    line = base.mark_line(color="#b0b7bf").encode(x="cosine:Q", y=rows, detail="pair:N")
    scale = alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values()))
    legend = alt.Legend(title=None, orient="bottom")
    marks = base.mark_point(filled=True, size=60, opacity=1).encode(
        x=alt.X("cosine:Q", axis=alt.Axis(title="cosine with the direction")),
        y=rows,
        color=alt.Color("side:N", scale=scale, legend=legend),
        shape=alt.Shape("side:N", scale=alt.Scale(domain=list(_COLOURS), range=["circle", "square"]), legend=legend),
    )
    return alt.vconcat(bars, alt.layer(line, marks).properties(width=WIDTH, height=alt.Step(16)))


def write_direction(report: DirectionReport, folder: str | Path) -> list[Path]:
    """Write ``direction.npz`` and the chart as ``direction.svg`` and ``direction.png``; returns the files."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    file = save_direction(report.direction, folder / "direction.npz")
    return [file, *save_chart(direction_chart(report.direction, report.vectors), "direction", folder)]


def print_direction(summary: Mapping[str, Any]) -> None:
    """Print what ``DirectionReport.to_dict`` says."""
    missing = f", {len(summary['missing'])} without a vector" if summary["missing"] else ""
    print(
        f"{summary['vectors']}: {summary['words']:,} words, {summary['dimension']} numbers each; "
        f"{summary['pairs']} pairs{missing}"
    )
    ((other, cosine),) = summary["agreement"].items()
    print(
        f"first component: {summary['explained']:.1%} of the variance of the pairs (lengths kept: "
        f"{summary['explained_raw']:.1%}); without one pair the direction turns to cosine "
        f"{summary['leave_one_out']['lowest']:.3f} at worst; cosine with the {other} list {cosine:.3f}"
    )
    for side in ("female", "male"):
        print(f"most {side}: " + ", ".join(f"{word} {value:+.2f}" for word, value in summary[side]))
