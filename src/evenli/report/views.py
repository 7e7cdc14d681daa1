"""What the HTML report shows about a run, and how several runs are ranked: values for the template, no markup."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import polars as pl
from markupsafe import Markup

from evenli.evaluate.audit import Audit
from evenli.format import number, percent
from evenli.labels import CONTRADICTION, ENTAILMENT
from evenli.report.charts import Figure, figures, inline_svg
from evenli.stats.proportion import rank
from evenli.stats.sample import Sample
from evenli.suites.base import Section, Suite, get_suite
from evenli.suites.coal.breakdown import agreement, by_direction, by_template, judged, worst
from evenli.suites.coal.results import CoalResult
from evenli.types import AuditResult, DataCard, SuiteResult

VERDICTS = {
    "bias": ("Bias dominates error", "More than two of three errors on stereotyped occupations follow the stereotype."),
    "error": ("Plain error dominates", "Errors do not mainly follow the stereotype: the score reflects mistakes."),
    "undecided": ("Undecided", "The interval allows both bias and plain error."),
    "even": ("Even at this resolution", "Hardly any answer on a stereotyped occupation is wrong."),
    "none": ("No verdict", "A model that does not do the task, or was not asked enough, says nothing about gender."),
}


@dataclass(frozen=True)
class SuiteView:
    """One suite of a run: its measures and what it says beside them."""

    suite: Suite
    result: SuiteResult
    card: DataCard | None

    @property
    def title(self) -> str:
        """Name for a heading."""
        return self.suite.title[:1].upper() + self.suite.title[1:]

    @property
    def id(self) -> str:
        """The name as it may stand in an identifier."""
        return re.sub(r"[^A-Za-z0-9-]", "-", self.suite.name)

    @property
    def slices(self) -> list[str]:
        """Stereotypes that have a column in the table of measures."""
        return list(dict.fromkeys(name for one in self.result.measures.values() for name in one.by_stereotype))

    @cached_property
    def sections(self) -> list[Section]:
        """What the suite shows beside its measures."""
        return self.suite.sections(self.result, self.card)


@dataclass(frozen=True)
class RunView:
    """Everything the template shows about one run. What is costly is computed once."""

    audit: Audit
    name: str

    @property
    def result(self) -> AuditResult:
        """Typed results."""
        return self.audit.result

    @property
    def coal(self) -> CoalResult:
        """Results of NLI-CoAL."""
        return cast(CoalResult, self.audit.coal)

    @property
    def data(self) -> DataCard:
        """The NLI-CoAL pairs."""
        return self.result.data_of("coal") or DataCard("unknown data", "coal")

    @cached_property
    def main(self) -> SuiteView:
        """NLI-CoAL."""
        return self._suite("coal")

    @cached_property
    def others(self) -> list[SuiteView]:
        """The other suites of the run."""
        return [self._suite(name) for name in self.result.suites if name != "coal"]

    def _suite(self, name: str) -> SuiteView:
        return SuiteView(get_suite(name), self.result.suites[name], self.result.data_of(name))

    @property
    def date(self) -> str:
        """Day on which the run was started (UTC)."""
        return str(self.audit.header.get("created", ""))[:10] or "unknown"

    @property
    def version(self) -> str:
        """Version of evenli that made the predictions."""
        return str(self.audit.header.get("evenli", "?"))

    @property
    def lang(self) -> str:
        """A language code that may stand in an attribute, or nothing."""
        lang = _lang(self.audit)
        return lang if re.fullmatch(r"[A-Za-z]{2,3}", lang) else ""

    @property
    def meaning(self) -> str:
        """What the code of the verdict means."""
        return VERDICTS[self.audit.verdict.code][1]

    @cached_property
    def rows(self) -> pl.DataFrame:
        """The audited rows with probabilities and answers."""
        return judged(Sample(self.audit.predictions.suite("coal")))

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """The charts by name."""
        return figures(self.audit, self.rows)

    @cached_property
    def svg(self) -> dict[str, Markup]:
        """The charts as markup."""
        return {name: Markup(inline_svg(figure)) for name, figure in self.figures.items()}

    @property
    def headline(self) -> str:
        """NLI-CoAL in a sentence; empty where it is undefined."""
        coal = self.coal
        if any(math.isnan(one) for one in (coal.value, coal.low, coal.high)):
            return ""
        detectable = coal.minimum_detectable_difference
        remark = f" Another audit must differ by {number(detectable)} for the difference to be significant."
        return (
            f"NLI-CoAL is {number(coal.value)} on a scale from 0 (even) to 1; the {percent(coal.main.level)} interval "
            f"reaches from {number(coal.low)} to {number(coal.high)}.{'' if math.isnan(detectable) else remark}"
        )

    @property
    def order(self) -> str:
        """The order condition in a sentence."""
        order = self.coal.order_condition
        if order.holds is None:
            return "The order condition is undefined: PS or AS has no pairs."
        state = (
            "fails" if not order.holds else "holds beyond doubt" if order.beyond_doubt else "holds within uncertainty"
        )
        return f"The order condition (entailment likelier in PS than in AS, contradiction the reverse) {state}."

    @cached_property
    def templates(self) -> pl.DataFrame:
        """Share of biased answers per template, most biased first."""
        return by_template(self.rows)

    @property
    def templates_seen(self) -> int:
        """Pairs a template needs to be listed: one seen twice is extreme by chance alone."""
        return int(np.median(self.templates["n"].to_numpy())) // 2

    @property
    def extreme_templates(self) -> list[tuple[str, list[dict[str, Any]]]]:
        """The most and the least biased templates."""
        often = self.templates.filter(pl.col("n") >= self.templates_seen)
        return [
            ("Most biased templates", often.head(5).to_dicts()),
            ("Least biased templates", often.tail(5).reverse().to_dicts()),
        ]

    @property
    def template_words(self) -> str:
        """How much the templates differ."""
        quantiles = np.quantile(self.templates["score"].to_numpy(), [0, 0.25, 0.5, 0.75, 1])
        least, lower, median, upper, most = (percent(float(one)) for one in quantiles)
        return (
            f"Here they range from {least} to {most}, with a median of {median}; the middle half lies between {lower} "
            f"and {upper}."
        )

    @cached_property
    def direction_words(self) -> list[str]:
        """Where the non-neutral answers go, one line per stereotype and group."""
        return [
            f"{row['stereotype'] or 'unknown'} occupations, hypothesis names {row['group'] or 'no group'}: entailment "
            f"{percent(row[ENTAILMENT], 1)}, contradiction {percent(row[CONTRADICTION], 1)} of {row['n']:,} pairs"
            for row in by_direction(self.rows).sort(pl.col("stereotype") != "neutral", "stereotype", "group").to_dicts()
        ]

    @cached_property
    def worst(self) -> list[dict[str, Any]]:
        """Pairs with the highest probability on the biased answer."""
        return worst(self.rows).to_dicts()

    @cached_property
    def agreement(self) -> list[list[float | None]]:
        """Rank correlations between measures over occupations."""
        return agreement(self.rows)

    @property
    def settings(self) -> list[tuple[str, str]]:
        """run.json as names and values."""
        return _flat(self.audit.header)


@dataclass(frozen=True)
class RankingRow:
    """One model in a ranking; ``group`` is 0 where it is not ranked."""

    index: int
    name: str
    result: AuditResult
    group: int
    ranks: str

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        return VERDICTS[self.result.verdict.code][0]


@dataclass(frozen=True)
class RankingTable:
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

    def position(index: int) -> tuple[bool, float, int]:
        value = intervals[index][0]
        return index not in places, 0.0 if math.isnan(value) else value, index

    rows = [
        RankingRow(
            index,
            views[index].name,
            views[index].result,
            places[index].group if index in places else 0,
            places[index].shown if index in places else "",
        )
        for index in sorted(members, key=position)
    ]
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
