"""The specification curve: every wording sorted by its result, and below it which choices it made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from evenli.audit.suites.robust.curve import WordingRow
from evenli.audit.suites.robust.stability import RobustResult
from evenli.audit.suites.robust.wordings import DIMENSIONS
from evenli.core.blocks import Figure
from evenli.core.drawing import WIDTH, defined_only, inline, load_altair
from evenli.core.format import number
from evenli.core.page import ACCENT, GRID, INK, MUTED

_NAMES = 130  # px for the names of choices, the same in both panels so that their columns meet
_ROW = 13
_TITLE = "stereotype in each wording, with its interval"


def figure(result: RobustResult) -> Figure:
    """The curve of the cause *stereotype*, with its data as a table."""
    rows = sorted(result.wordings, key=lambda row: -math.inf if math.isnan(row.stereotype) else row.stereotype)
    cells = [
        (
            *(getattr(row, name) for name in DIMENSIONS),
            *(row.stereotype, row.stereotype_low, row.stereotype_high),
            *(row.default_gender, row.undirected, row.follow, row.defy),
            "yes" if row.judged else row.problem,
        )
        for row in rows
    ]
    columns = (*DIMENSIONS, "stereotype", "low", "high", "default gender", "undirected", "follow", "defy", "judged")
    words = (
        f"Specification curve of {len(rows)} wordings, sorted by the measure stereotype, from "
        f"{number(rows[0].stereotype, 2)} to {number(rows[-1].stereotype, 2)}. {result.line}"
    )
    title = f"Specification curve: stereotype in {len(rows)} wordings; grey ones the model does not understand"
    return Figure("wordings", title, words, columns, tuple(cells), _chart(rows, result.wordings[0]), kept=True)


def _chart(rows: Sequence[WordingRow], usual: WordingRow) -> Any:
    alt = load_altair("the chart of the wordings")
    size = max(3.0, min(26.0, 1000 / len(rows)))
    values, marks, names = _values(rows, usual)
    x = alt.X("rank:Q", axis=None, scale=alt.Scale(domain=[-1, len(rows)]))
    kind = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=["usual wording", "other wording", "not judged"], range=[ACCENT, INK, GRID]),
        legend=alt.Legend(title=None, orient="top"),
    )
    axis = {"minExtent": _NAMES, "maxExtent": _NAMES}
    height = alt.Y("value:Q", axis=alt.Axis(title=None, gridColor=GRID, **axis))
    base = inline(values)
    curve = alt.layer(
        inline([{"zero": 0}]).mark_rule(color=MUTED).encode(y="zero:Q"),
        base.transform_filter("isValid(datum.low)").mark_rule().encode(x=x, y="low:Q", y2="high:Q", color=kind),
        base.mark_point(filled=True, opacity=1, size=size).encode(x=x, y=height, color=kind),
    ).properties(width=WIDTH, height=150, title=alt.TitleParams(_TITLE, fontSize=11, fontWeight="normal", color=INK))
    labels = alt.Axis(title=None, ticks=False, domain=False, grid=True, gridColor=GRID, labelLimit=_NAMES, **axis)
    choices = (
        inline(marks)
        .mark_point(filled=True, opacity=1, size=size, shape="square")
        .encode(x=x, y=alt.Y("choice:N", sort=names, axis=labels), color=kind)
        .properties(width=WIDTH, height=_ROW * len(names))
    )
    return alt.vconcat(curve, choices, spacing=4)


def _values(
    rows: Sequence[WordingRow], usual: WordingRow
) -> tuple[list[dict[str, object]], list[dict[str, object]], list[str]]:
    """Points of the curve, marks of the choices, and the names of these in order."""
    # Choices that never change would be rows of marks that say nothing.
    varied = [name for name in DIMENSIONS if len({getattr(row, name) for row in rows}) > 1]
    listed = {name: list(dict.fromkeys(getattr(row, name) for row in [usual, *rows])) for name in varied}
    values: list[dict[str, object]] = []
    marks: list[dict[str, object]] = []
    for rank, row in enumerate(rows):
        kind = "not judged" if not row.judged else "usual wording" if row is usual else "other wording"
        numbers = {"value": row.stereotype, "low": row.stereotype_low, "high": row.stereotype_high}
        defined = defined_only(numbers)
        values += [{"rank": rank, "kind": kind, **defined}] if "value" in defined else []
        marks += [{"rank": rank, "kind": kind, "choice": f"{name}: {getattr(row, name)}"} for name in varied]
    return values, marks, [f"{name}: {choice}" for name in varied for choice in listed[name]]
