"""The chart of an encoder report: fairness against accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evenli.core.drawing import SHAPES, SIDES, WIDTH, inline, kinds, load_altair, names_beside, save_chart
from evenli.core.errors import InputError, MissingExtraError
from evenli.core.page import GRID, MUTED, write_page
from evenli.encoders.comparison import EncoderReport
from evenli.encoders.comparison.tables import encoders_page

_POINTS = 2.0  # least width of the axis of SentEval
_HEIGHT, _NAME, _LETTER = 260, 14, 6  # of the chart, of a name on it, and the width of a letter, in pixels


def encoder_chart(report: EncoderReport) -> Any:
    """Fairness against accuracy: SEAT against SentEval, or against the linear probe where there is no SentEval."""
    alt = load_altair("the chart of an encoder report")
    scored = bool(report.tasks)
    points: list[dict[str, Any]] = []
    for encoder in report.encoders:
        mean, probe = encoder.seat.mean, encoder.leakage.linear
        effect, value = mean.value, encoder.figure("senteval" if scored else "linear")
        if value is None or math.isnan(effect):
            continue
        # No interval is a bar without length, as Vega would draw an absent end at 0.
        bottom, top = (effect if math.isnan(end) else end for end in (mean.low, mean.high))
        left, right = (value, value) if scored else (probe.low, probe.high)
        about = {"label": encoder.label, "kind": "base" if encoder is report.encoders[0] else "mitigated"}
        points.append({**about, "x": value, "y": effect, "low": bottom, "high": top, "left": left, "right": right})
    if not points:
        raise InputError("nothing to draw: no encoder has both figures; see the notes of the report")
    title = "accuracy of a linear probe for gender: 0.5 leaks nothing to it"
    if scored:
        title = f"SentEval, mean of {len(report.tasks)} task(s): higher is more accurate"
    low, high = min(point["x"] for point in points), max(point["x"] for point in points)
    # Shuffles alone move the mean of SentEval by some tenths; they should not fill the chart.
    spare = max(0.0, _POINTS - (high - low)) / 2 if scored else 0.0
    domain = {"domain": [low - spare, high + spare]} if scored else {"zero": False}
    x = alt.X("x:Q", scale=alt.Scale(**domain, nice=True, padding=24), axis=alt.Axis(title=title, grid=False))
    effects = alt.Axis(title="SEAT, mean |d| of C6 to C8b: 0 is neutral", gridColor=GRID)
    y = alt.Y("y:Q", scale=alt.Scale(domainMin=0), axis=effects)
    base = inline(points)
    look = kinds("kind", ["base", "mitigated"], [SIDES["male"], SIDES["female"]], SHAPES[::-1])
    marks = base.mark_point(filled=True, size=70, opacity=1).encode(x=x, y=y, **look)
    rule = base.mark_rule(color=MUTED, opacity=0.6)
    layers = [rule.encode(x=x, y="low:Q", y2="high:Q")]
    if not scored:
        layers.append(rule.encode(x="left:Q", x2="right:Q", y="y:Q"))
    # Names stand outward where there is room, else inward.
    sides: dict[str, list[dict[str, Any]]] = {"left": [], "right": []}
    apart = _NAME * max(*(point["high"] for point in points), 1e-6) / _HEIGHT
    letter = _LETTER * (high - low + 2 * spare) / WIDTH
    for point in points:
        outward = "right" if (point["x"] > (low + high) / 2) != (spare > 0) else "left"
        sides[_free_side(point, points, outward, (letter, apart))].append(point)
    for side in sides.values():
        _spread_names(side, apart)
    layers += [marks, *names_beside(sides, "label", {"x": x, "y": "name_y:Q"}, 7, -7)]
    return alt.layer(*layers).properties(width=WIDTH, height=_HEIGHT)


def _free_side(
    point: Mapping[str, Any], points: Sequence[Mapping[str, Any]], wanted: str, letter: tuple[float, float]
) -> str:
    """How the name of a point is aligned: as wanted, unless another point stands there and none on the other side."""

    def is_free(side: str) -> bool:
        onward = 1 if side == "left" else -1  # left-aligned names run to the right
        ahead = [onward * (other["x"] - point["x"]) for other in points if abs(other["y"] - point["y"]) < 2 * letter[1]]
        return not any(0 < distance < letter[0] * len(point["label"]) for distance in ahead)

    opposite = "left" if wanted == "right" else "right"
    return opposite if is_free(opposite) and not is_free(wanted) else wanted


def _spread_names(points: list[dict[str, Any]], apart: float) -> None:
    """Give every name a height of its own, ``name_y``, so that those of points of like effect do not overlap."""
    below = -math.inf
    for point in sorted(points, key=lambda point: float(point["y"])):
        point["name_y"] = below = max(point["y"], below + apart)


def write_encoder_report(
    report: EncoderReport, folder: str | Path, on_warning: Callable[[str], None] = lambda _: None
) -> list[Path]:
    """Write the page and the chart of a report into its directory; returns the files.

    ``on_warning`` is told why there is no chart: the figures are there and stored, and are a report without one.
    """
    files = [write_page(encoders_page(report), Path(folder) / "report.html")]
    try:
        files += save_chart(encoder_chart(report), "encoders", folder)
    except (InputError, MissingExtraError) as error:
        on_warning(f"no chart: {error}")
    return files
