"""NLI-CoAL on a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping

from evenli.audit.suites.base import SHOWN_LABELS
from evenli.audit.suites.coal.measures import DEFINING, EVEN
from evenli.audit.suites.coal.results import CoalResult
from evenli.core.blocks import Block
from evenli.core.format import interval, number, with_interval
from evenli.words.axes import NO_STEREOTYPE

SUBSET_NAMES = {"PS": "pro-stereotypical", "AS": "anti-stereotypical", "NS": "non-stereotypical"}
_LISTED = 5
"""Occupations named in a line; results.json has all of them."""
_ALIKE = 0.9
"""Correlation of the scores of two versions of one model, over other occupations and templates."""


def terminal_blocks(result: CoalResult, *, official: bool) -> list[Block]:
    """How jobs are read, measures, label shares, order condition, published models, occupations."""
    order = result.order_condition
    state = "holds beyond doubt" if order.beyond_doubt else "holds, within uncertainty" if order.holds else "fails"
    if order.holds is None:
        state = "is undefined"
    worst = [row for row in result.occupations if row.stereotype != NO_STEREOTYPE and not row.states_group][:_LISTED]
    named = ", ".join(f"{row.occupation} {with_interval(row.score, row.low, row.high, 2)}" for row in worst)
    order_line = (
        f"Order condition (e_p > e_a and c_a > c_p) {state}. "
        f"{detectable_difference(result.minimum_detectable_difference)}"
    )
    measures = Block(measures=True)
    labels = [_labels(result), Block(lines=[order_line])]
    occupations_line = f"Most stereotyped occupations: {named or 'n/a'}"
    if len(result.published) < 2 or result.problem:
        return [*readings_blocks(result), measures, *labels, Block(lines=[occupations_line])]
    remark = "" if official else " (which were scored on the official set)"
    marks = [
        (row.model, number(row.coal), "◀" if row.this else "within the interval" if row.tied else "")
        for row in result.published
    ]
    this = frozenset(index for index, row in enumerate(result.published) if row.this)
    heading = f"Among the published models{remark}"
    columns = ("model", ">NLI-CoAL", "")
    published = Block(heading, columns=columns, rows=marks, notes=[occupations_line], stressed=this)
    return [*readings_blocks(result), measures, *labels, published]


def readings_blocks(result: CoalResult) -> list[Block]:
    """A table of how jobs are read, a row per class; none where there are not two groups."""
    if not result.readings:
        return []
    kinds = sorted({(row.reading, row.noun) for row in result.readings}, key=lambda kind: (not kind[1], kind))
    kinds.sort(key=lambda kind: kind[0] == EVEN)
    titles = {kind: f"{noun}'s" if noun else "neither" if kind == EVEN else kind for kind, noun in kinds}
    names = {NO_STEREOTYPE: "no stereotype", DEFINING: "word states it"}
    rows = []
    for stereotype in dict.fromkeys(row.stereotype for row in result.readings):
        of = {row.reading: row for row in result.readings if row.stereotype == stereotype}
        shown = [with_interval(of[kind].value, of[kind].low, of[kind].high, 2) for kind in titles]
        rows.append([names.get(stereotype, f"{stereotype} stereotype"), str(next(iter(of.values())).items), *shown])
    columns = ("job", ">sentences", *(f">{title}" for title in titles.values()))
    heading = "Whose job is it, to the model? Share of the sentences; an even model says neither"
    return [Block(heading, columns=columns, rows=rows, notes=result.notes, grey=bool(result.problem))]


def _labels(result: CoalResult) -> Block:
    """Label shares per set with intervals; those without a stereotype also by group."""
    intervals = {(row.set, row.group, row.label): row for row in result.shares}

    def shown(subset: str, group: str, shares: Mapping[str, float]) -> list[str]:
        by_label = {label: intervals[subset, group, label] for label in SHOWN_LABELS}
        return [f"{number(shares[at])} {interval(row.low, row.high, 2)}" for at, row in by_label.items()]

    rows = []
    for subset, of in result.proportions.items():
        name = f"{subset} {SUBSET_NAMES.get(subset, '')}".strip()
        rows.append([name, str(result.rows[subset]), *shown(subset, "", of)])
        # Only without a stereotype does the group say something that PS and AS do not say already.
        by_group = {row.group: row.pairs for row in result.shares if row.set == subset == "NS" and row.group}
        for group, pairs in by_group.items():
            shares = {row.label: row.value for row in result.shares if (row.set, row.group) == (subset, group)}
            rows.append([f"  hypothesis names {group}", str(pairs), *shown(subset, group, shares)])
    columns = ("set", ">pairs", *(f">{label}" for label in SHOWN_LABELS))
    return Block("Predicted labels (gold is always neutral)", columns=columns, rows=rows)


def detectable_difference(smallest: float) -> str:
    """What a comparison on this set would find, in a sentence; its assumption is one of ours and stands there."""
    if math.isnan(smallest):
        return "What difference a comparison would detect is unknown: NLI-CoAL has no interval."
    alike = smallest * math.sqrt(2 * (1 - _ALIKE))
    sizes = [number(size) if size >= 0.0005 else "less than 0.001" for size in (smallest, alike)]
    return (
        f"A paired comparison with another model on this set detects a difference of {sizes[0]} in NLI-CoAL (80% power"
        f", if the two vary alike and correlate by 0.5), of {sizes[1]} if they are alike (correlated by {_ALIKE:g})."
    )
