"""The entailment-probability probe (Sharma et al. 2021): is an occupation tied to one gender?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl
from numpy import bool_
from numpy.typing import NDArray

from evenli.audit.pairs import PairSet
from evenli.audit.suites.base import Request, Suite, label_shares, own
from evenli.audit.suites.probe import measures
from evenli.audit.suites.probe.build import LANGUAGES, build_probe, label_by_labour
from evenli.audit.suites.probe.measures import ProbeResult, Ranks, leans_dominant
from evenli.audit.suites.probe.read import read_probe
from evenli.core.blocks import PAGE, Block, Figure
from evenli.core.drawing import SHAPES, SIDES, WIDTH, inline, kinds, load_altair, names_beside
from evenli.core.errors import InputError
from evenli.core.format import number, p_bound, short, signed
from evenli.core.page import GRID, MUTED
from evenli.stats.sample import Sample

_HEIGHT = 240
_LETTER, _LINE = 5.6, 12.0  # width of a letter and height of a line at the size of names beside points, in px


class Probe(Suite):
    """Which gender the model calls likelier, of two hypotheses that differ in it."""

    name = "probe"
    title = "the entailment probe"
    reference = "Sharma et al. 2021"
    papers = ("Sharma, Dey, Sinha (2021), Evaluating Gender Bias in Natural Language Inference.",)
    headline = "probe_lean"
    built_in = "built-in probe"
    result = ProbeResult
    takes = ("dominance",)
    slice_title = "{}-dominated"
    items = "premises"
    answers = "Dominant gender more likely"
    conclusions = ("probe_lean", "probe_dp", "probe_b")
    self_sufficient = False

    summarise = own(measures.summarise)

    def pairs(self, request: Request) -> PairSet:
        translated = request.lang in LANGUAGES
        # Everything but the language is checked as for the English probe.
        (replace(request, lang="en") if translated else request).check_english(self.name)
        if translated and request.dominance is not None:
            raise InputError(
                f"the labour shares are those of the US, the language is '{request.lang}'; leave dominance out"
            )
        if request.data is not None:
            pairs = replace(read_probe(request.data), lang=request.lang)
        else:
            pairs = build_probe(lang=request.lang).pairs
        return pairs if request.dominance is None else label_by_labour(pairs, request.dominance)

    def slices(self, frame: pl.DataFrame) -> list[str]:
        return [str(name) for name in frame["stereotype"].sort().unique(maintain_order=True) if name]

    def blocks(self, result: ProbeResult, sample: Sample, medium: str) -> list[Block]:
        return [replace(shown(result), figures=probe_figures(result) if medium == PAGE else [])]

    def statement(self, result: ProbeResult) -> str:
        gap, direction = (result.measures[name] for name in ("probe_dp", "probe_b"))
        lean = result.measures["probe_lean"]
        # A side is named only where the interval lies on it; without an interval the value decides.
        low, high = (lean.value, lean.value) if math.isnan(lean.low) else (lean.low, lean.high)
        side = "female" if low > 0 else "male" if high < 0 else "to neither gender"
        return (
            f"On the probe occupations lean {side}: {lean.shown}, from -1 (all called male) to 1 (all female). "
            f"The two genders differ by dP {gap.shown}, and the gender that dominates the occupation is the more "
            f"entailed one for B {direction.shown} of the premises."
        )

    def biased(self, sample: Sample) -> tuple[NDArray[bool_], pl.DataFrame]:
        # An item is a premise with both its hypotheses.
        return leans_dominant(sample), sample.paired.first.frame


def shown(result: ProbeResult) -> Block:
    """Heading, slices by dominant gender, largest gaps, the labour market."""
    shares = label_shares(result.proportions)
    heading = f"Entailment probe ({result.premises:,} premises, both genders asked of each, {shares})"
    lines = []
    for group in result.measures["probe_dp"].by_stereotype:
        values = ", ".join(
            f"{result.measures[name].title.partition(',')[0]} {result.measures[name].by_stereotype[group].shown}"
            for name in ("probe_lean", "probe_s", "probe_dp", "probe_b")
        )
        lines.append(f"{group}-dominated occupations: {values}")
    lines.append("S, dP and B leave neutral out, and are 100 times as large in the paper.")
    gaps = ", ".join(
        f"{row.occupation} {number(row.dp, 2)}{' (female)' if row.signed > 0 else ' (male)' if row.signed else ''}"
        for row in result.occupations[:5]
    )
    lines.append(f"Largest gaps dP (and the likelier gender): {gaps}")
    disputed = [
        f"{row.occupation} ({row.stereotype}, {row.women_percent:g} %)" for row in result.occupations if row.disputed
    ]
    if disputed:
        lines.append(f"Label against the share of women who work in it: {', '.join(sorted(disputed))}; see --dominance")
    labour = result.labour
    if labour is None:
        lines.append("Labour market: too few occupations have a known share of women.")
    else:
        missing = f"; without {', '.join(labour.missing)}" if labour.missing else ""
        lines.append(
            f"Labour market (CPS 2019, {labour.n} occupations{missing}): gap against imbalance {_ranks(labour.size)}; "
            f"P_f - P_m against the share of women {_ranks(labour.direction)}"
        )
    return Block(heading, lines, measures=True)


def _ranks(ranks: Ranks) -> str:
    if ranks.reason:
        return f"undefined ({ranks.reason})"
    return f"Spearman {signed(ranks.spearman, 2)} (p {p_bound(ranks.p)}), Kendall {signed(ranks.kendall, 2)}"


def probe_figures(result: ProbeResult) -> list[Figure]:
    """The chart of the probe with its data; none where no occupation has a known share of women.

    Two panels, a point per occupation: dP against the imbalance of the market, P_f - P_m against its women.
    """
    known = [row for row in result.occupations if not math.isnan(row.women_percent)]
    points = [
        {**row.to_dict(), "imbalance": abs(2 * row.women_percent - 100)} for row in known if not math.isnan(row.dp)
    ]
    if not points:
        return []
    alt = load_altair("the chart of the probe")
    groups = sorted({row["stereotype"] for row in points})
    look = kinds("stereotype", groups, [SIDES.get(group, MUTED) for group in groups], SHAPES, title="dominated by")
    # Both panels reach up to the same number, so that a gap looks the same in both.
    most = 1.05 * max(max(row["dp"] for row in points), 0.01)
    panels = []
    for x, y, titles, low in (
        ("imbalance", "dp", ("|women - men| in the labour market, points", "gap dP"), 0),
        ("women_percent", "signed", ("women in the labour market, percent", "mean P_f - P_m"), -most),
    ):
        across = alt.X(f"{x}:Q", scale=alt.Scale(domain=[0, 100]), axis=alt.Axis(title=titles[0], grid=False))
        up = alt.Y(f"{y}:Q", scale=alt.Scale(domain=[low, most]), axis=alt.Axis(title=titles[1], gridColor=GRID))
        marks = inline(points).mark_point(filled=True, size=45, opacity=0.8).encode(x=across, y=up, **look)
        sides = placed_names(points, x, y, ([0, 100], [low, most]))
        layers = [marks, *names_beside(sides, "occupation", {"x": across, "y": up}, 6)]
        panels.append(alt.layer(*layers).properties(width=WIDTH, height=_HEIGHT))
    largest = ", ".join(f"{short(row.occupation)} {number(row.dp, 2)}" for row in known[:5])
    return [
        Figure(
            "probe",
            "Does the model differ where the labour market does, and in the same direction?",
            f"Points, an occupation each. Largest gaps dP: {largest}.",
            ("occupation", "dominated by", "gap dP", "P_f - P_m", "women, percent"),
            tuple((row.occupation, row.stereotype, row.dp, row.signed, row.women_percent) for row in known),
            alt.vconcat(*panels),
            kept=True,
        )
    ]


def placed_names(
    points: Sequence[dict[str, Any]], x: str, y: str, spans: tuple[Sequence[float], Sequence[float]]
) -> dict[str, list[dict[str, Any]]]:
    """Points that get their name written, largest first, by side: names cover no name and no point."""
    (left, right), (low, high) = spans
    # Placed in pixels: a name has a width in letters, whatever the axes measure.
    pixels = [((row[x] - left) / (right - left) * WIDTH, (high - row[y]) / (high - low) * _HEIGHT) for row in points]
    taken = [(a - 4, b - 4, a + 4, b + 4) for a, b in pixels]
    placed: dict[str, list[dict[str, Any]]] = {"left": [], "right": []}
    for row, (across, down) in sorted(zip(points, pixels, strict=True), key=lambda pair: -abs(pair[0][y])):
        length = _LETTER * len(row["occupation"])
        for side, start in (("left", across + 6), ("right", across - 6 - length)):
            a, b, c, d = start, down - _LINE / 2, start + length, down + _LINE / 2
            free = not any(a < box[2] and box[0] < c and b < box[3] and box[1] < d for box in taken)
            if a >= 0 and c <= WIDTH and free:
                taken.append((a, b, c, d))
                placed[side].append(row)
                break
    return placed


SUITE = Probe()
