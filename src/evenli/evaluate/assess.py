"""From a prediction table to results: every measure, its interval, competence and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import msgspec

from evenli.errors import InputError
from evenli.evaluate.competence import competence
from evenli.predictions import Predictions
from evenli.registry import SUITES
from evenli.stats.intervals import Estimates, Scoring
from evenli.stats.measure import Measure, as_measure
from evenli.stats.sample import Sample
from evenli.suites.base import assess_suite, get_suite, measure_results
from evenli.suites.coal.verdict import refuse
from evenli.types import AuditResult, Competence, DataCard, ModelCard, SuiteResult, Verdict

OwnMeasure = Measure | Callable[[Sample], Any]


def assess(
    predictions: Predictions, scoring: Scoring | None = None, measures: Sequence[OwnMeasure] = ()
) -> AuditResult:
    """Compute the results of a stored table: every suite that it holds.

    Args:
        predictions: The table.
        scoring: How intervals are made.
        measures: Measures of your own, computed on the first suite that the table holds.
    """
    scoring = scoring or Scoring()
    names = suites_of(predictions)
    if not names:
        raise InputError(f"the table holds no rows of an audit (suite {', '.join(SUITES)})")
    checks = predictions.suite("check")
    gate = competence(checks) if checks.frame.height else None
    header = predictions.header
    cards = [DataCard.from_dict(card) for card in header.get("data", [])]
    results: dict[str, SuiteResult] = {}
    verdict: Verdict | None = None
    for name in names:
        suite = get_suite(name)
        sample = Sample(predictions.suite(name))
        card = next((one for one in cards if one.suite == name), None)
        results[name], estimates = assess_suite(suite, sample, scoring, card)
        if suite.judge is not None and verdict is None:
            verdict = suite.judge(estimates, gate)
    results[names[0]] = _with_own(results[names[0]], predictions.suite(names[0]), measures, scoring)
    return AuditResult(
        model=ModelCard.from_dict(header.get("model", {})),
        data=cards,
        timings=header.get("timings", {}),
        lang=next((card.lang for card in cards if card.suite == names[0]), None),
        scoring=asdict(scoring),
        verdict=verdict or _no_verdict(results, gate),
        competence=gate,
        suites=results,
    )


def suites_of(predictions: Predictions) -> list[str]:
    """The suites of an audit that a table holds, in the order of the registry."""
    held = set(predictions.frame["suite"].unique())
    return [name for name in SUITES if name in held]


def keep_own(result: AuditResult, before: AuditResult) -> AuditResult:
    """Carry over measures that were computed before and cannot be now: their function is not at hand."""
    suites = {}
    for name, suite in result.suites.items():
        old = before.suites[name].measures if name in before.suites else {}
        missing = {
            key: msgspec.structs.replace(one, note="not computed again: its function was not given")
            for key, one in old.items()
            if key not in suite.measures and one.reference == "own"
        }
        suites[name] = msgspec.structs.replace(suite, measures={**suite.measures, **missing})
    return msgspec.structs.replace(result, suites=suites)


def _with_own(result: SuiteResult, table: Predictions, measures: Sequence[OwnMeasure], scoring: Scoring) -> SuiteResult:
    if not measures:
        return result
    own = [as_measure(one) for one in measures]
    known = [entry.name for entry in own if entry.name in result.measures]
    if known:
        raise InputError(f"there is a measure '{known[0]}' already; rename your function")
    slices = list(next(iter(result.measures.values())).by_stereotype)
    added, _ = measure_results(Sample(table), own, slices, scoring)
    return msgspec.structs.replace(result, measures={**result.measures, **added})


def _no_verdict(results: dict[str, SuiteResult], gate: Competence | None) -> Verdict:
    """What a run says in which no suite gives a verdict."""
    statements = " ".join(get_suite(name).statement(result) for name, result in results.items())
    none = f"No verdict: only NLI-CoAL gives one, and it was not asked. {statements}"
    return refuse(gate) or Verdict("none", none)


__all__ = ["Estimates", "OwnMeasure", "Scoring", "assess", "keep_own", "suites_of"]
