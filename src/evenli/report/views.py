"""What the HTML report shows about a run, and how several runs are ranked: values for the template, no markup."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl
from markupsafe import Markup

from evenli.evaluate.audit import Audit
from evenli.format import number, percent
from evenli.labels import CONTRADICTION, ENTAILMENT
from evenli.report.charts import Figure, figures, inline_svg
from evenli.stats.proportion import rank
from evenli.stats.sample import Sample
from evenli.suites.base import get_suite
from evenli.suites.coal.breakdown import agreement, by_direction, by_template, judged, worst
from evenli.suites.coal.results import CoalResult
from evenli.types import AuditResult, DataCard

VERDICTS = {
    "bias": ("Bias dominates error", "More than two of three errors on stereotyped occupations follow the stereotype."),
    "error": ("Plain error dominates", "Errors do not mainly follow the stereotype: the score reflects mistakes."),
    "undecided": ("Undecided", "The interval allows both bias and plain error."),
    "even": ("Even at this resolution", "Hardly any answer on a stereotyped occupation is wrong."),
    "none": ("No verdict", "A model that does not do the task, or was not asked enough, says nothing about gender."),
}


class SuiteView:
    """One suite of a run: its measures and what it says beside them."""

    def __init__(self, name: str, result: AuditResult) -> None:
        self.suite, self.result, self.card = get_suite(name), result.suites[name], result.data_of(name)
        self.title = self.suite.title[:1].upper() + self.suite.title[1:]
        self.id = re.sub(r"[^A-Za-z0-9-]", "-", name)
        self.slices = list(dict.fromkeys(part for one in self.result.measures.values() for part in one.by_stereotype))
        self.sections = self.suite.sections(self.result, self.card)


class RunView:
    """Everything the template shows about one run."""

    def __init__(self, audit: Audit, name: str) -> None:
        self.audit, self.name, self.result = audit, name, audit.result
        self.coal = cast(CoalResult, audit.coal)
        self.data = audit.result.data_of("coal") or DataCard("unknown data", "coal")
        self.main, *self.others = (
            SuiteView(suite, audit.result) for suite in sorted(audit.result.suites, key=lambda one: one != "coal")
        )
        self.date = str(audit.header.get("created", ""))[:10] or "unknown"
        self.version = str(audit.header.get("evenli", "?"))
        self.settings = _flat(audit.header)
        # It stands in an attribute.
        self.lang = _lang(audit) if re.fullmatch(r"[A-Za-z]{2,3}", _lang(audit)) else ""
        self.meaning = VERDICTS[audit.verdict.code][1]
        self.headline, self.order = _headline(self.coal), _order(self.coal)
        self.rows = judged(Sample(audit.predictions.suite("coal")))
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

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """The charts by name."""
        return figures(self.audit, self.rows)

    @cached_property
    def svg(self) -> dict[str, Markup]:
        """The charts as markup."""
        return {name: Markup(inline_svg(figure)) for name, figure in self.figures.items()}


def _headline(coal: CoalResult) -> str:
    """NLI-CoAL in a sentence; empty where it is undefined."""
    if any(math.isnan(one) for one in (coal.value, coal.low, coal.high)):
        return ""
    detectable = coal.minimum_detectable_difference
    remark = f" Another audit must differ by {number(detectable)} for the difference to be significant."
    return (
        f"NLI-CoAL is {number(coal.value)} on a scale from 0 (even) to 1; the {percent(coal.main.level)} interval "
        f"reaches from {number(coal.low)} to {number(coal.high)}.{'' if math.isnan(detectable) else remark}"
    )


def _order(coal: CoalResult) -> str:
    order = coal.order_condition
    if order.holds is None:
        return "The order condition is undefined: PS or AS has no pairs."
    state = "fails" if not order.holds else "holds beyond doubt" if order.beyond_doubt else "holds within uncertainty"
    return f"The order condition (entailment likelier in PS than in AS, contradiction the reverse) {state}."


@dataclass(frozen=True)
class RankingRow:
    """One model in a ranking; ``group`` is 0 where it is not ranked."""

    index: int
    name: str
    result: AuditResult
    group: int
    ranks: str
    verdict: str


class RankingTable(NamedTuple):
    """Models on one pair set, least biased first."""

    data: str
    rows: list[RankingRow]


def run_names(audits: Sequence[Audit]) -> list[str]:
    """Model names; runs of one model differ by language, and where that is the same by number."""
    names = [audit.name for audit in audits]
    names = [
        f"{name} ({_lang(run)})" if names.count(name) > 1 else name for name, run in zip(names, audits, strict=True)
    ]
    return [f"{name} #{names[:i].count(name) + 1}" if names.count(name) > 1 else name for i, name in enumerate(names)]


def rankings(views: Sequence[RunView]) -> list[RankingTable]:
    """One ranking per pair set: scores on different pairs are not comparable."""
    sets: dict[str, list[int]] = defaultdict(list)
    for index, view in enumerate(views):
        sets[view.data.sha256].append(index)
    return [_ranking(views, members) for members in sets.values()]


def _ranking(views: Sequence[RunView], members: Sequence[int]) -> RankingTable:
    """Models that have a verdict and a defined score are ranked; the others stand below them."""
    intervals = {i: (views[i].coal.value, views[i].coal.low, views[i].coal.high) for i in members}
    ranked = [i for i in members if views[i].audit.verdict.code != "none" and not any(map(math.isnan, intervals[i]))]
    places = dict(zip(ranked, rank([intervals[i] for i in ranked]), strict=True))
    rows = []
    for index in sorted(members, key=lambda i: (i not in places, np.nan_to_num(intervals[i][0]), i)):
        view, place = views[index], places.get(index)
        group, ranks = (place.group, place.shown) if place else (0, "")
        rows.append(RankingRow(index, view.name, view.result, group, ranks, VERDICTS[view.audit.verdict.code][0]))
    data = views[members[0]].data
    return RankingTable(f"{data.name} ({data.lang})", rows)


def _lang(audit: Audit) -> str:
    card = audit.result.data_of("coal")
    return str(audit.result.lang or (card.lang if card else ""))


def _flat(value: Any, prefix: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict) and value:
        return [pair for key, item in value.items() for pair in _flat(item, f"{prefix}.{key}" if prefix else str(key))]
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return [pair for index, item in enumerate(value) for pair in _flat(item, f"{prefix}[{index}]")]
    if isinstance(value, list):
        return [(prefix, ", ".join(map(str, value)) or "–")]
    return [(prefix, "–" if value in (None, "", {}) else str(value))]
