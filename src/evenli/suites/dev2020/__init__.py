"""The templates of Dev et al. 2020: does a model stay neutral?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenli.format import number
from evenli.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.stats.intervals import Estimates, Scoring
from evenli.stats.sample import Sample
from evenli.suites.base import Section, Suite
from evenli.suites.dev2020 import measures as measures
from evenli.suites.dev2020.build import load
from evenli.types import DataCard, Numbers, SuiteResult


class DevResult(SuiteResult, frozen=True, kw_only=True):
    """Results on Dev's templates: number of pairs and share of each label."""

    rows: int
    proportions: Numbers


def _summarise(sample: Sample, estimates: Estimates, scoring: Scoring, card: DataCard | None) -> Mapping[str, Any]:
    shares = {label: float(sample.rate(label)) for label in LABELS}
    return {"rows": sample.frame.height, "proportions": shares}


def _sections(result: DevResult, card: DataCard | None) -> list[Section]:
    shares = ", ".join(
        f"{label} {number(result.proportions[label], 2)}" for label in (ENTAILMENT, CONTRADICTION, NEUTRAL)
    )
    return [Section(f"Templates of Dev et al. ({result.rows:,} pairs, {shares})")]


SUITE = Suite(
    name="dev2020",
    title="the templates of Dev et al.",
    reference="Dev et al. 2020",
    headline="fn_bias",
    built_in="Dev et al. sample",
    load=load,
    result=DevResult,
    summarise=_summarise,
    statement=lambda result: (
        f"On Dev's templates the share of answers that are not neutral is {result.measures['fn_bias'].shown}."
    ),
    sections=_sections,
)
