"""Several runs on one page: a ranking per pair set, every measure on one axis, and stability across wordings."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from markupsafe import Markup

from evenli.evaluate.audit import Audit
from evenli.evaluate.compare import model_names
from evenli.evaluate.robustness import robust_run
from evenli.format import number
from evenli.report.hero import Dot, dots
from evenli.stats.proportion import rank
from evenli.suites.coal import SUITE as COAL
from evenli.suites.coal.results import CoalResult
from evenli.suites.coal.verdict import CAUSES
from evenli.suites.robust import SUITE as ROBUST
from evenli.suites.robust.results import RobustResult
from evenli.types import AuditResult

if TYPE_CHECKING:
    from evenli.report.html import RunView

VERDICTS = {
    "bias": ("Bias", "A cause is named where its interval supports it; several may hold."),
    "error": ("Plain error", "No lean is supported: errors go in both directions or contradict each other."),
    "undecided": ("Undecided", "The intervals allow both a lean and none."),
    "even": ("Even at this resolution", "The intervals of all causes lie within 0.05 of 0."),
    "none": ("No verdict", "A model that does not do the task, or was not asked enough, says nothing about bias."),
}


@dataclass(frozen=True)
class RankingRow:
    """One model in a ranking; ``group`` is 0 where it is not ranked, and ``verdict`` says why."""

    index: int
    name: str
    result: AuditResult
    group: int
    ranks: str
    verdict: str


def run_names(audits: Sequence[Audit]) -> list[str]:
    """Model names; runs of one model differ by language, and where that is the same by number."""
    names = model_names(audits)
    names = [
        f"{name} ({lang_of(run)})" if names.count(name) > 1 else name for name, run in zip(names, audits, strict=True)
    ]
    return [f"{name} #{names[:i].count(name) + 1}" if names.count(name) > 1 else name for i, name in enumerate(names)]


def rankings(views: Sequence[RunView]) -> list[tuple[str, list[RankingRow]]]:
    """One ranking per pair set, least biased first: scores on different pairs are not comparable."""
    sets: dict[str, list[int]] = defaultdict(list)
    for index, view in enumerate(views):
        if view.coal is not None:
            sets[view.data.sha256].append(index)
    return [_ranking(views, members) for members in sets.values()]


def _ranking(views: Sequence[RunView], members: Sequence[int]) -> tuple[str, list[RankingRow]]:
    """Models that have a verdict and a defined score are ranked; the others stand below them."""
    scores = {i: cast(CoalResult, views[i].coal) for i in members}
    intervals = {i: (one.value, one.low, one.high) for i, one in scores.items()}
    # A mute model has a low score and no verdict; ranked, it would come first.
    ranked = [i for i in members if views[i].audit.verdict.code != "none" and not any(map(math.isnan, intervals[i]))]
    places = dict(zip(ranked, rank([intervals[i] for i in ranked]), strict=True))
    rows = []
    # Unranked models last; ties keep the order in which the runs were given.
    for index in sorted(members, key=lambda i: (i not in places, np.nan_to_num(intervals[i][0]), i)):
        view, place = views[index], places.get(index)
        group, ranks = (place.group, place.shown) if place else (0, "")
        verdict = ", ".join(cause.label for cause in view.audit.verdict.causes)
        verdict = verdict or scores[index].problem or VERDICTS[view.audit.verdict.code][0]
        rows.append(RankingRow(index, view.name, view.result, group, ranks, verdict))
    data = views[members[0]].data
    return f"{data.name} ({data.lang})", rows


COMPARED = {
    "stereotype": "Follows stereotypes (below 0: goes against them)",
    "default_gender": "Assumes a man without a stereotype (below 0: a woman)",
    "undirected": "Errs without a direction",
    "coal": "NLI-CoAL, the published score",
}
"""Measures that are set side by side, each on one axis."""


def comparison(rows: Sequence[RankingRow]) -> list[tuple[str, Markup]]:
    """Models side by side, in the order of the ranking: a drawing per measure, and one per further suite."""
    compared = [(COAL.name, name, title) for name, title in COMPARED.items()]
    for suite, title in further(rows):
        shown = rows[0].result.suites[suite]
        compared.append((suite, shown.headline or next(iter(shown.measures)), title))
    drawn = []
    for suite, name, title in compared:
        points, even = [], 0.0
        for row in rows:
            one = row.result.suites[suite].measures.get(name) if suite in row.result.suites else None
            if one is not None:
                points.append(Dot(row.name, one.value, one.low, one.high, bool(row.result.suites[suite].problem)))
                even = one.ideal
        drawn.append((title, Markup(dots(title, points, even))))
    return drawn


def further(rows: Sequence[RankingRow]) -> list[tuple[str, str]]:
    """Suites beside NLI-CoAL that all models were asked, with the title of their headline measure."""
    # Where one model was not asked, a drawing beside the others would compare nothing.
    shared = [suite for suite in rows[0].result.suites if all(suite in row.result.suites for row in rows)]
    return [(suite, rows[0].result.suites[suite].main.title) for suite in shared if suite != COAL.name]


def compared(rows: Sequence[RankingRow]) -> str:
    """The ranking in a sentence, and the cause in which the models differ most."""
    ranked = [row for row in rows if row.group > 0]
    first = [row.name for row in ranked if row.group == 1]
    unranked = f" {len(rows) - len(ranked)} of {len(rows)} models cannot be judged." if len(ranked) < len(rows) else ""
    if len(first) < 2 and len(ranked) < 2:
        return f"{first[0]} is the only model here that can be judged." if first else "No model here can be judged."
    names = f"{', '.join(first[:-1])} and {first[-1]}" if len(first) > 1 else first[0]
    if len(first) == len(ranked):
        said = f"By the published score {names} do not differ significantly."
    elif len(first) == 1:
        said = f"{names} is the least biased of these models."
    else:
        said = f"{names} are the least biased of these models; they do not differ significantly."
    return f"{said}{_most_different(ranked)}{unranked}"


_DIFFER = {
    "stereotype": "in how far they follow stereotypes",
    "default_gender": "in whom they assume where a job has no stereotype",
    "undirected": "in errors without a direction",
}


def _most_different(ranked: Sequence[RankingRow]) -> str:
    """The cause with the largest gap between two models whose intervals do not overlap; empty where all do."""
    gaps = []
    for name, words in _DIFFER.items():
        estimates = [(row.result.coal.measures[name], row.name) for row in ranked if name in row.result.coal.measures]
        estimates = [(one, model) for one, model in estimates if not math.isnan(one.low)]
        if len(estimates) > 1:
            (least, below), (most, above) = (pick(estimates, key=lambda pair: pair[0].value) for pick in (min, max))
            if least.high < most.low:
                ends = f"{below} ({number(least.value, 2)}) and {above} ({number(most.value, 2)})"
                gaps.append((most.value - least.value, f" {ends} differ most, {words}."))
    return max(gaps)[1] if gaps else ""


def stability(views: Sequence[RunView]) -> list[list[str]]:
    """Whether the causes survive other wordings, a row per model; empty where no model was asked in other words.

    Other wordings may be asked in the run itself, in another run of the page, or in one that lies beside it.
    """
    robust = {_model(view): view.audit for view in views if ROBUST.name in view.result.suites}
    rows, known = [], False
    for view in views:
        if view.coal is None:
            continue  # a run of wordings alone: its model has a row where it was audited, too
        asked = robust.get(_model(view)) or robust_run(view.audit)
        known = known or asked is not None
        rows.append([view.name, *(["not asked"] * len(CAUSES) if asked is None else _across(asked))])
    return rows if known else []


def _model(view: RunView) -> tuple[str, str]:
    # A model without a fingerprint is only ever itself.
    return view.result.model.fingerprint or f"run {id(view)}", str(view.result.lang)


def _across(audit: Audit) -> list[str]:
    result = cast(RobustResult, audit.robust)
    said = []
    for name in CAUSES:
        one = result.cause(name)
        ends = f"{number(one.lowest, 2)} to {number(one.highest, 2)}"
        said.append(f"{one.verdict}: {one.holds} of {one.wordings} wordings, {ends}" if one.wordings else one.verdict)
    return said


def lang_of(audit: Audit) -> str:
    """Language of a run."""
    card = audit.result.data_of(COAL.name)
    return str(audit.result.lang or (card.lang if card else ""))
