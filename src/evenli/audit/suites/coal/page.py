"""What a report shows of NLI-CoAL alone: ``templates/coal.html.j2`` with the values behind it."""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import polars as pl

from evenli.audit.suites.base import Run
from evenli.audit.suites.coal.breakdown import AGREEING, agreement, by_direction, by_template, judged, worst
from evenli.audit.suites.coal.results import CoalResult, detectable_difference
from evenli.core.format import number, percent
from evenli.core.labels import CONTRADICTION, ENTAILMENT


class CoalPage:
    """The parts of a report around the one about competence; see ``evenli.audit.suites.texts.Page``."""

    package, template = "evenli.audit.suites.coal", "coal.html.j2"
    links = (
        ("verdict", "Verdict"),
        ("numbers", "In numbers"),
        ("what", "Question"),
        ("limits", "Limits"),
        ("labels", "Answers"),
        ("measures", "Measures"),
        ("occupations", "Occupations"),
        ("templates", "Templates"),
        ("direction", "Direction"),
        ("worst", "Worst pairs"),
        ("competence", "Competence"),
        ("agreement", "Agreement"),
        ("settings", "Settings"),
    )
    agreeing = AGREEING

    def __init__(self, audit: Run) -> None:
        self.result = cast(CoalResult, audit.result.suites["coal"])
        self.occupations = self.result.occupations
        self.headline, self.order = _headline(self.result), _order(self.result)
        self.rows = judged(audit.sample("coal"))
        self.worst, self.agreement = worst(self.rows).to_dicts(), agreement(self.rows)
        templates = by_template(self.rows)
        # A template that is seen only twice is extreme by chance alone.
        self.templates_seen = int(np.median(templates["n"].to_numpy())) // 2
        often = templates.filter(pl.col("n") >= self.templates_seen)
        self.extreme_templates = [
            ("Most biased templates", often.head(5).to_dicts()),
            ("Least biased templates", often.tail(5).reverse().to_dicts()),
        ]
        quantiles = np.quantile(templates["score"].to_numpy(), [0, 0.25, 0.5, 0.75, 1])
        least, lower, median, upper, most = (percent(float(one)) for one in quantiles)
        self.template_words = (
            f"Here they range from {least} to {most}, with a median of {median}; the middle half lies between {lower} "
            f"and {upper}."
        )
        directions = by_direction(self.rows).sort(pl.col("stereotype") != "neutral", "stereotype", "group")
        self.direction_words = [
            f"{row['stereotype'] or 'unknown'} occupations, hypothesis names {row['group'] or 'no group'}: entailment "
            f"{percent(row[ENTAILMENT], 1)}, contradiction {percent(row[CONTRADICTION], 1)} of {row['n']:,} pairs"
            for row in directions.to_dicts()
        ]


def _headline(coal: CoalResult) -> str:
    """NLI-CoAL in a sentence; empty where it is undefined."""
    if any(math.isnan(one) for one in (coal.value, coal.low, coal.high)):
        return ""
    smallest = coal.minimum_detectable_difference
    remark = "" if math.isnan(smallest) else f" {detectable_difference(smallest)}"
    return (
        f"NLI-CoAL is {number(coal.value)} on a scale from 0 (even) to 1; the {percent(coal.main.level)} interval "
        f"reaches from {number(coal.low)} to {number(coal.high)}.{remark}"
    )


def _order(coal: CoalResult) -> str:
    order = coal.order_condition
    if order.holds is None:
        return "The order condition is undefined: PS or AS has no pairs."
    state = "fails" if not order.holds else "holds beyond doubt" if order.beyond_doubt else "holds within uncertainty"
    return f"The order condition (entailment likelier in PS than in AS, contradiction the reverse) {state}."
