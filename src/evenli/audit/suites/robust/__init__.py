"""Does the answer survive another wording? NLI-CoAL asked in many ways that mean the same."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.audit.pairs import PairSet
from evenli.audit.suites.base import Suite, own
from evenli.audit.suites.coal import axis_texts
from evenli.audit.suites.coal.verdict import NEGLIGIBLE
from evenli.audit.suites.robust import build, stability
from evenli.audit.suites.robust.curve import judged_rows, on_shared
from evenli.audit.suites.robust.stability import CHOICES, PURPOSE, REST, CauseRow, RobustResult, VarianceRow
from evenli.audit.suites.robust.wordings import DIMENSIONS
from evenli.core.blocks import PAGE, Block
from evenli.core.errors import MissingExtraError
from evenli.core.extras import check_extra
from evenli.core.format import capitalised, interval, number, p_value, percent, with_interval
from evenli.stats.sample import Sample

TITLES = {"stereotype": "stereotype", "default_gender": "default gender", "undirected": "undirected error"}


class Robust(Suite):
    """Whether a cause keeps its sign, and how far its level moves."""

    name = "robust"
    title = "NLI-CoAL in other words"
    reference = "evenli, after Seshadri et al. 2022"
    headline = "stereotype_mean"
    built_in = "wordings"
    result = RobustResult
    takes = ("full",)
    items = "pairs"
    self_sufficient = False

    pairs = own(build.load)
    summarise = own(stability.summarise)
    shared = own(on_shared)
    texts = own(axis_texts)

    def announce(self, pairs: PairSet) -> Sequence[str]:
        try:
            check_extra("wording", PURPOSE, "statsmodels")
        except MissingExtraError as error:
            # Said before minutes of work, not after.
            return f"{error}; everything else is computed without it", *pairs.notes[:1]
        return pairs.notes[:1]

    def statement(self, result: RobustResult) -> str:
        return f"Across wordings: {'; '.join(map(_said, result.causes))}."

    def blocks(self, result: RobustResult, sample: Sample, medium: str) -> list[Block]:
        figures = []
        if medium == PAGE:
            from evenli.audit.suites.robust.chart import figure  # here: only a report needs charts

            figures = [figure(result)]
        about = "which choice moves the number? Share of variance"
        shown = [
            _over_wordings(result),
            Block(measures=True, figures=figures),
            _one_change(result),
            shares_block(result.shares, DIMENSIONS, capitalised(about)),
        ]
        if result.views:
            heading = f"Prompts and option orders among the choices: {about}"
            shown += [_over_views(result), shares_block(result.view_shares, CHOICES, heading)]
        return shown

    def biased(self, sample: Sample) -> tuple[NDArray[np.bool_], pl.DataFrame]:
        asked = ~sample.frame["occupation"].is_null()
        return sample.biased[asked.to_numpy()], sample.frame.filter(asked)

    def contrast(self, first: RobustResult, second: RobustResult) -> dict[str, int | str]:
        """In how many wordings, of those that both models understand, the first is below the second."""
        of_second = {row.key: row.stereotype for row in judged_rows(second.wordings)}
        values = [(row.stereotype, of_second[row.key]) for row in judged_rows(first.wordings) if row.key in of_second]
        below, above = (sum(sign * (b - a) > 1e-9 for a, b in values) for sign in (1, -1))
        sentence = (
            f"The first has the lower stereotype in {below} of {len(values)} wordings that both understand, the second "
            f"in {above}."
        )
        sentence = sentence if values else "The two models understand no wording in common."
        return {"wordings": len(values), "first_below": below, "second_below": above, "sentence": sentence}


def _said(row: CauseRow) -> str:
    title, of = TITLES[row.cause], f"of {row.wordings} wordings"
    if row.verdict == "not judged":
        return f"{title} cannot be judged, because the model understands {row.wordings} only"
    ends = f"{number(row.lowest, 2)} to {number(row.highest, 2)}"
    if row.verdict == "negligible":
        return f"{title} is negligible in nine of ten {of} or more ({ends})"
    what = "is above 0.05" if row.cause == "undirected" and row.usual > NEGLIGIBLE else "keeps its sign"
    what = "stays below 0.05" if row.cause == "undirected" and row.usual <= NEGLIGIBLE else what
    opposite = f", has the opposite one in {row.opposite}" if row.opposite else ""
    return f"{title} {what} in {row.holds} {of}{opposite} ({ends}): {row.verdict}"


def _over_wordings(result: RobustResult) -> Block:
    """Causes across wordings; the whole curve is a chart."""
    unknown = [row for row in result.wordings if not row.judged]
    lines = [result.line]
    if unknown:
        first = unknown[0]
        lines.append(
            f"Not judged in {len(unknown)} of {len(result.wordings)} wordings, where the model fails pairs that state "
            f"the group (first: {first.key}; {first.problem})."
        )
    rows = [
        [
            TITLES[row.cause],
            with_interval(row.usual, row.usual_low, row.usual_high, 2),
            with_interval(row.mean, row.mean_low, row.mean_high, 2),
            interval(row.another_low, row.another_high, 2),
            *(f"{count}/{row.wordings}" for count in (row.holds, row.opposite, row.verdict_holds)),
            row.verdict,
        ]
        for row in result.causes
    ]
    level = result.causes[0].another_level
    of = "" if math.isnan(level) else f" Of further wordings {percent(level)} would lie within 'another wording'"
    columns = ["cause", ">usual wording", ">mean of wordings", ">another wording", ">sign holds", ">opposite"]
    columns += [">same verdict", ""]
    heading = f"Does it survive another wording?{of}"
    return Block(heading, columns=columns, rows=rows, notes=lines, grey=bool(result.problem))


def _over_views(result: RobustResult) -> Block:
    """Each cause with every prompt and order by itself."""
    rows = [
        [
            TITLES[row.cause],
            f"{row.judged}/{row.cells}",
            *(f"{count}/{row.judged}" for count in (row.holds, row.opposite)),
            interval(row.lowest, row.highest, 2),
            row.verdict,
        ]
        for row in result.view_causes
    ]
    columns = ("cause", ">understood", ">sign holds", ">opposite", ">lowest, highest", "")
    heading = "Every wording with each prompt and option order by itself; an audit averages over them"
    return Block(heading, columns=columns, rows=rows)


def _one_change(result: RobustResult) -> Block:
    """The usual wording, and those that differ from it in one choice."""
    usual = result.wordings[0]
    columns = {"follow": "follow", "defy": "defy", **TITLES}
    # The usual templates are our own, which the heading need not say.
    named = ", ".join(getattr(usual, name) for name in DIMENSIONS if name != "templates")
    rows = []
    for row in result.wordings:
        changed = row.differs(usual)
        if len(changed) > 1:
            continue
        name = f"{changed[0]}: {getattr(row, changed[0])}" if changed else f"usual: {named}"
        estimates = map(row.estimate, columns)
        shown = [with_interval(estimate.value, estimate.low, estimate.high, 2) for estimate in estimates]
        rows.append([name, *shown, "" if row.judged else "not judged"])
    heading = "One choice changed at a time; the other wordings are in results.json and in the chart"
    headings = ("wording", *(f">{name}" for name in columns.values()), "")
    return Block(heading, columns=headings, rows=rows, stressed={0})


def shares_block(shares: Sequence[VarianceRow], dimensions: Sequence[str], heading: str) -> Block:
    """Share of the differences that each dimension explains."""
    names = [name for name in (*dimensions, REST) if any(row.dimension == name for row in shares)]
    of = {(row.cause, row.dimension): row for row in shares}
    rows = [[name, *(_share(of.get((cause, name))) for cause in TITLES)] for name in names]
    notes = [f"{TITLES[row.cause]}: {row.note}." for row in shares if row.note]
    # A reason that all causes share is said once.
    if len(notes) == len(TITLES) and len({row.note for row in shares}) == 1:
        notes = [f"{capitalised(shares[0].note)}."]
    columns = ("dimension", *(f">{title}" for title in TITLES.values()))
    defined = any(not math.isnan(row.share) for row in shares)
    return Block(heading, columns=columns, rows=rows if defined else [], notes=notes)


def _share(row: VarianceRow | None) -> str:
    if row is None or math.isnan(row.share):
        return number(math.nan)
    return percent(row.share) + (f" (p {p_value(row.p)})" if not math.isnan(row.p) else "")


SUITE = Robust()
