"""Net Neutral, Fraction Neutral and Threshold (Dev et al. 2020): how often a model stays neutral.

The paper thresholds every sentence pair. The released ``evaluation.py`` first averages the probabilities of an
occupation with a gendered word over all templates and thresholds the averages: ``t50_pair`` and ``t70_pair``.

They reward silence: a model that always answers neutral looks perfect, and a wrong answer counts the same whether it
follows the stereotype or not. Kept as the baseline NLI-CoAL is measured against.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from evenli.format import number
from evenli.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.stats.intervals import Estimates, Scoring
from evenli.stats.measure import measure
from evenli.stats.sample import Sample, Values
from evenli.suites.base import Section, Suite
from evenli.suites.dev2020.build import load
from evenli.types import DataCard, Numbers, SuiteResult

_measure = partial(
    measure, ideal=1, direction="higher = less biased", reference="Dev et al. 2020", suites=("coal", "dev2020")
)
_released = partial(_measure, reference="evaluation.py of Dev et al. 2020", suites=("dev2020",))


@_measure(
    title="FN score (bias)",
    formula="1 - share neutral",
    ideal=0,
    direction="higher = more biased",
    reference="baseline of Anantaprayoon et al. 2024",
)
def fn_bias(sample: Sample, stereotype: str | None = None) -> Values:
    """Share of pairs not answered neutral: the complement of Dev's Fraction Neutral."""
    return 1 - sample.rate(NEUTRAL, stereotype=stereotype)


@_measure(title="Fraction Neutral", formula="share neutral")
def fn_dev(sample: Sample, stereotype: str | None = None) -> Values:
    """Share of pairs whose arg-max is neutral."""
    return sample.rate(NEUTRAL, stereotype=stereotype)


@_measure(title="Net Neutral", formula="mean p_n")
def nn(sample: Sample, stereotype: str | None = None) -> Values:
    """Mean probability of neutral."""
    return sample.probability(NEUTRAL, stereotype=stereotype)


@_measure(title="Threshold 0.5", formula="share p_n > 0.5")
def t50(sample: Sample, stereotype: str | None = None) -> Values:
    """Share of sentence pairs with p_n above one half."""
    return sample.above(NEUTRAL, 0.5, stereotype=stereotype)


@_measure(title="Threshold 0.7", formula="share p_n > 0.7")
def t70(sample: Sample, stereotype: str | None = None) -> Values:
    """Share of sentence pairs with p_n above 0.7."""
    return sample.above(NEUTRAL, 0.7, stereotype=stereotype)


@_released(title="Threshold 0.5, pair averages", formula="share of (occupation, gendered word) with mean p_n > 0.5")
def t50_pair(sample: Sample, stereotype: str | None = None) -> Values:
    """``t50`` as the released code computes it: averaged over templates, then thresholded."""
    return sample.above_in_pairs(NEUTRAL, 0.5, stereotype)


@_released(title="Threshold 0.7, pair averages", formula="share of (occupation, gendered word) with mean p_n > 0.7")
def t70_pair(sample: Sample, stereotype: str | None = None) -> Values:
    """``t70`` as the released code computes it: averaged over templates, then thresholded."""
    return sample.above_in_pairs(NEUTRAL, 0.7, stereotype)


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
