"""Several runs on one page: a ranking per pair set, every measure on one axis, and stability across wordings."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from evenli.audit.audit import Audit
from evenli.audit.compare import model_names
from evenli.audit.report.terminal import reworded, robust_run
from evenli.audit.results import AuditResult, SuiteResult
from evenli.audit.suites.base import ROBUST, Suite, get_suite
from evenli.core.drawing import Dot, dots
from evenli.core.format import number
from evenli.core.registry import DEFAULT_SUITE
from evenli.stats.proportion import rank

if TYPE_CHECKING:
    from evenli.audit.report.html import RunView

VERDICTS = {
    "bias": ("Bias", "Every lean that is significant after Holm's correction is named."),
    "error": ("Plain error", "No lean is significant: errors go in both directions or contradict each other."),
    "undecided": ("Undecided", "The intervals allow both a lean and none."),
    "even": ("Even at this resolution", "All intervals of the verdict lie within 0.05 of 0."),
    "none": ("No verdict", "A model that does not do the task, or was not asked enough, says nothing about bias."),
}


@dataclass(frozen=True)
class RankingRow:
    """One model in a ranking; ``group`` is 0 where it is not ranked, and ``verdict`` says why."""

    index: int
    name: str
    suite: Suite  # the one that ranks
    result: AuditResult
    group: int
    ranks: str
    verdict: str

    @property
    def scored(self) -> SuiteResult:
        """Result of that suite."""
        return self.result.suites[self.suite.name]


def run_names(audits: Sequence[Audit]) -> list[str]:
    """Model names; runs of one model differ by language, and where that is the same by number."""
    names = model_names(audits)
    with_lang = [f"{name} ({run.result.lang or ''})" for name, run in zip(names, audits, strict=True)]
    names = [long if names.count(name) > 1 else name for name, long in zip(names, with_lang, strict=True)]
    return [f"{name} #{names[:i].count(name) + 1}" if names.count(name) > 1 else name for i, name in enumerate(names)]


def rankings(views: Sequence[RunView]) -> list[tuple[str, list[RankingRow]]]:
    """One ranking per pair set, least biased first: scores on different pairs are not comparable."""
    sets: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, view in enumerate(views):
        if view.ranked is not None:
            card = view.result.data_of(view.ranked.name) or view.data
            sets[view.ranked.name, card.sha256].append(index)
    return [_ranking(views, get_suite(suite), members) for (suite, _), members in sets.items()]


def _ranking(views: Sequence[RunView], suite: Suite, members: Sequence[int]) -> tuple[str, list[RankingRow]]:
    """Models that have a verdict and a defined score are ranked; the others stand below them."""
    scores = {i: views[i].result.suites[suite.name] for i in members}
    intervals = {i: (score.value, score.low, score.high) for i, score in scores.items()}
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
        rows.append(RankingRow(index, view.name, suite, view.result, group, ranks, verdict))
    first = views[members[0]]
    data = first.result.data_of(suite.name) or first.data
    return f"{data.name} ({data.lang})", rows


def comparison(rows: Sequence[RankingRow]) -> list[tuple[str, Markup]]:
    """Models side by side, in the order of the ranking: a drawing per measure, and one per further suite."""
    suite = rows[0].suite
    compared = [(suite.name, name, title) for name, (title, _, _) in suite.ranked.items()]
    for other, title in further(rows):
        first = rows[0].result.suites[other]
        compared.append((other, first.headline or next(iter(first.measures)), title))
    drawn = []
    for asked, name, title in compared:
        results = [(row.name, row.result.suites[asked]) for row in rows if asked in row.result.suites]
        shown = [(model, result.measures[name], result.problem) for model, result in results if name in result.measures]
        points = [Dot(model, found.value, found.low, found.high, bool(problem)) for model, found, problem in shown]
        drawn.append((title, Markup(dots(title, points, shown[-1][1].ideal if shown else 0.0))))
    return drawn


def further(rows: Sequence[RankingRow]) -> list[tuple[str, str]]:
    """Suites beside the one that ranks that all models were asked, with the title of their headline measure."""
    # Where one model was not asked, a drawing beside the others would compare nothing.
    shared = [suite for suite in rows[0].result.suites if all(suite in row.result.suites for row in rows)]
    return [(suite, rows[0].result.suites[suite].main.title) for suite in shared if suite != rows[0].suite.name]


def compared(rows: Sequence[RankingRow]) -> str:
    """The ranking in a sentence, and the cause in which the models differ most."""
    ranked = [row for row in rows if row.group > 0]
    first = [row.name for row in ranked if row.group == 1]
    unranked = f" {len(rows) - len(ranked)} of {len(rows)} models cannot be judged." if len(ranked) < len(rows) else ""
    if len(first) < 2 and len(ranked) < 2:
        return f"{first[0]} is the only model here that can be judged." if first else "No model here can be judged."
    names = f"{', '.join(first[:-1])} and {first[-1]}" if len(first) > 1 else first[0]
    if len(first) == len(ranked):
        said = f"By {rows[0].suite.title} {names} do not differ significantly."
    elif len(first) == 1:
        said = f"{names} is the least biased of these models."
    else:
        said = f"{names} are the least biased of these models; they do not differ significantly."
    return f"{said}{_most_different(ranked)}{unranked}"


def _most_different(ranked: Sequence[RankingRow]) -> str:
    """The cause with the largest gap between two models whose intervals do not overlap; empty where all do."""
    gaps = []
    for name, (_, _, words) in ranked[0].suite.ranked.items():
        estimates = [(row.scored.measures[name], row.name) for row in ranked if words and name in row.scored.measures]
        estimates = [(estimate, model) for estimate, model in estimates if not math.isnan(estimate.low)]
        if len(estimates) > 1:
            (least, below), (most, above) = (pick(estimates, key=lambda pair: pair[0].value) for pick in (min, max))
            if least.high < most.low:
                ends = f"{below} ({number(least.value, 2)}) and {above} ({number(most.value, 2)})"
                gaps.append((most.value - least.value, f" {ends} differ most, {words}."))
    return max(gaps)[1] if gaps else ""


def stability(runs: Sequence[tuple[str, Audit]]) -> list[list[str]]:
    """Whether the causes survive other wordings, a row per named run; empty where no model was asked in other words.

    Other wordings may be asked in the run itself, in another one of these, or in one that lies beside it.
    """
    robust = {_model(run): run for _, run in runs if ROBUST in run.result.suites}
    rows, known = [], False
    for name, run in runs:
        if reworded(run.result) is None:
            continue  # a run of wordings alone: its model has a row where it was audited, too
        asked = robust.get(_model(run)) or robust_run(run)
        known = known or asked is not None
        causes = get_suite(DEFAULT_SUITE).tested
        rows.append([name, *(["not asked"] * len(causes) if asked is None else _across(asked, causes))])
    return rows if known else []


def _model(run: Audit) -> tuple[str, str]:
    # A model without a fingerprint is only ever itself.
    return run.result.model.fingerprint or f"run {id(run)}", str(run.result.lang)


def _across(audit: Audit, causes: Sequence[str]) -> list[str]:
    result: Any = audit.result.suites[ROBUST]
    said = []
    for cause in map(result.cause, causes):
        ends = f"{number(cause.lowest, 2)} to {number(cause.highest, 2)}"
        held = f": {cause.holds} of {cause.wordings} wordings, {ends}" if cause.wordings else ""
        said.append(f"{cause.verdict}{held}")
    return said
