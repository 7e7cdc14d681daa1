"""The entailment-probability probe (Sharma, Dey, Sinha 2021): is an occupation tied to one gender?

One premise, two hypotheses that differ in the gender they name. The paper drops neutral, ``P_g = exp(z_e) /
(exp(z_e) + exp(z_c))`` for the hypothesis with gender g, and compares ``P_f`` with ``P_m``. Dropping neutral hides the
right answer: a model sure of neutral for both is judged by what little probability remains. The three-label versions
keep it.

The paper prints 100 times our values. Sliced by a stereotype, a measure sees the occupations that gender dominates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import kendalltau, spearmanr

from evenli.audit.results import SuiteResult
from evenli.core.errors import InputError
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.core.record import MeasureResult, Number, Numbers, Record
from evenli.stats.measure import measure
from evenli.stats.sample import Sample, Values
from evenli.words.lists import women_percent

_measure = partial(measure, reference="Sharma et al. 2021", suites=("probe",))
_less = partial(_measure, ideal=1, direction="higher = less biased")
_more = partial(_measure, ideal=0, direction="higher = more biased")
_OURS = "evenli, after Sharma et al. 2021"
_PAPER = "the paper prints 100 times this"
_DIGITS = 6
FEWEST_RANKS = 3  # occupations with a percentage of women that a rank correlation needs


class ProbeOccupation(Record, frozen=True):
    """Gap dP, share B, ties and signed gap of one occupation, with the percentage of women who work in it."""

    occupation: str
    stereotype: str
    n: int
    dp: Number
    b: Number
    ties: Number
    signed: Number
    women_percent: Number
    disputed: bool = False
    """Whether most people in the occupation are of the other gender than its label says."""


class Ranks(Record, frozen=True):
    """Rank correlation over occupations: rho with its two-sided p, and tau-b; ``reason`` says why it is undefined."""

    spearman: Number
    p: Number
    kendall: Number
    reason: str = ""


class Labour(Record, frozen=True):
    """The probe set against the labour market.

    Attributes:
        n: Occupations compared.
        size: dP against the imbalance ``|2 women - 100|``: does the model differ more where the market does?
        direction: Mean ``P_f - P_m`` against the percentage of women: does it differ in the same direction?
        missing: Occupations without a percentage, which are left out.
    """

    n: int
    size: Ranks
    direction: Ranks
    missing: list[str]


class ProbeResult(SuiteResult, frozen=True, kw_only=True):
    """Results of the probe.

    Attributes:
        rows: Pairs asked, two per premise.
        premises: Premises.
        proportions: Share of each label.
        occupations: One row each, largest gap first.
        labour: Comparison with labour statistics; None where too few occupations have any.
    """

    rows: int
    premises: int
    proportions: Numbers
    occupations: list[ProbeOccupation]
    labour: Labour | None


@_measure(
    title="lean, female minus male",
    formula="share of premises with P_f > P_m minus share with P_m > P_f",
    bounds=(-1, 1),
    ideal=0,
    direction="below 0 = occupations are called male, above = female, whoever dominates them",
    reference="evenli",
    stressed=True,
)
def probe_lean(sample: Sample, stereotype: str | None = None) -> Values:
    """Which gender the model calls likelier overall: B averages this away where both genders dominate as many jobs."""
    first, second = _margins(sample)
    return sample.paired.mean(np.sign(first - second), stereotype, signed=True)


@_less(
    title="S, same answer for both genders",
    formula=f"share of premises with yhat_f = yhat_m, yhat_g = entailment if z_e >= z_c; {_PAPER}",
    stressed=True,
)
def probe_s(sample: Sample, stereotype: str | None = None) -> Values:
    """How often entailment against contradiction comes out the same for both genders."""
    first, second = _margins(sample) >= 0
    return sample.paired.mean(first == second, stereotype)


@_more(
    title="dP, gap in entailment probability",
    formula=f"mean |P_f - P_m|, P_g = exp(z_e) / (exp(z_e) + exp(z_c)); {_PAPER}",
    stressed=True,
)
def probe_dp(sample: Sample, stereotype: str | None = None) -> Values:
    """How far the probabilities of entailment lie apart, neutral left out."""
    first, second = expit(_margins(sample))
    return sample.paired.mean(np.abs(first - second), stereotype)


@_measure(
    title="B, dominant gender more likely",
    formula=f"share of premises with P_pro > P_anti, pro = gender that dominates the occupation; {_PAPER}",
    ideal=0.5,
    direction="above 0.5 = follows the dominant gender, below (without ties) = against it",
    stressed=True,
)
def probe_b(sample: Sample, stereotype: str | None = None) -> Values:
    """How often the gender that dominates the occupation is the more entailed one; a tie is not biased.

    A difference that ignores the occupation gives one half. A model that makes no difference at all gives ties and thus
    0, so read it beside ``probe_ties``.
    """
    return sample.paired.mean(leans_dominant(sample), stereotype)


@_measure(
    title="  ties",
    formula="share of premises with P_f = P_m exactly",
    ideal=1,
    direction="higher = less biased; B counts ties as not biased",
    reference="evenli",
)
def probe_ties(sample: Sample, stereotype: str | None = None) -> Values:
    """How often the two genders get exactly the same probability."""
    first, second = _margins(sample)
    return sample.paired.mean(first == second, stereotype)


@_less(
    title="same label of three for both genders",
    formula="share of premises with the same arg-max over entailment, neutral, contradiction",
    reference=_OURS,
)
def probe_s3(sample: Sample, stereotype: str | None = None) -> Values:
    """S with neutral kept: how often the answer is the same for both genders."""
    first, second = sample.predicted[sample.paired.rows]
    return sample.paired.mean(first == second, stereotype)


@_more(
    title="gap over three labels",
    formula="mean (|e_f - e_m| + |n_f - n_m| + |c_f - c_m|) / 2, probabilities over three labels",
    reference=_OURS,
)
def probe_dp3(sample: Sample, stereotype: str | None = None) -> Values:
    """The gap with neutral kept: total-variation distance between the two answers."""
    first, second = sample.probabilities[sample.paired.rows]
    return sample.paired.mean(np.abs(first - second).sum(axis=1) / 2, stereotype)


@_measure(
    title="probability of neutral",
    formula="mean (n_f + n_m) / 2, probabilities over three labels",
    ideal=1,
    direction="higher = nearer the right answer, and more that S, dP and B leave out",
    reference="evenli",
)
def probe_neutral(sample: Sample, stereotype: str | None = None) -> Values:
    """How much probability S, dP and B leave out, on the label that is right for every premise."""
    neutral = sample.probabilities[:, LABELS.index(NEUTRAL)][sample.paired.rows]
    return sample.paired.mean(neutral.mean(axis=0), stereotype)


def occupation_curve(sample: Sample) -> pl.DataFrame:
    """Gap dP, share B, ties and signed gap P_f - P_m per occupation, largest gap first; weights play no part."""
    margins = _margins(sample)
    first, second = expit(margins)
    columns = {
        "dp": np.abs(first - second),
        "b": leans_dominant(sample),
        "ties": margins[0] == margins[1],
        "signed": first - second,
    }
    rows = sample.paired.first.frame.select("occupation", "stereotype")
    return (
        rows.with_columns(pl.Series(name, values) for name, values in columns.items())
        .group_by("occupation", "stereotype", maintain_order=True)
        # Rounded as it is stored: differences in the last digits are noise of the sums and must not decide ranks.
        .agg(pl.len().alias("n"), pl.col(*columns).mean().round(_DIGITS))
        .sort("dp", "occupation", descending=[True, False])
    )


def labour_comparison(curve: pl.DataFrame, percentages: Mapping[str, float]) -> Labour:
    """Compare the occupation curve with percentages of women (0 to 100) per occupation; case does not matter.

    Occupations are few and the matching of words to labour statistics is loose in places, so ranks are compared.
    """
    women = {occupation.lower(): float(value) for occupation, value in percentages.items()}
    for occupation, value in women.items():
        if not 0 <= value <= 100:
            raise InputError(f"the percentage of women of '{occupation}' is {value}; give a number from 0 to 100")
    known = curve["occupation"].str.to_lowercase().is_in(list(women))
    part = curve.filter(known)
    if part.height < FEWEST_RANKS:
        raise InputError(
            f"{part.height} occupations have a percentage of women; a rank correlation needs at least {FEWEST_RANKS}"
        )
    share = np.array([women[name] for name in part["occupation"].str.to_lowercase()])
    return Labour(
        n=part.height,
        size=_correlate(part["dp"].to_numpy(), np.abs(2 * share - 100)),
        direction=_correlate(part["signed"].to_numpy(), share),
        missing=sorted(curve["occupation"].filter(~known)),
    )


def leans_dominant(sample: Sample) -> NDArray[np.bool_]:
    """Premises for which the gender that dominates the occupation is the more entailed one."""
    groups, first = sample.paired.groups, sample.paired.first.frame
    for name, group in first.select("id", "stereotype").iter_rows():
        if group not in groups:
            raise InputError(f"'{name}' is dominated by '{group}'; B needs {' or '.join(groups)} as its stereotype")
    # Margins instead of probabilities: two that differ may both round to 1.
    margins = _margins(sample)
    is_first = (first["stereotype"] == groups[0]).to_numpy()
    return np.asarray(np.where(is_first, margins[0] > margins[1], margins[1] > margins[0]))


def _margins(sample: Sample) -> Values:
    """[2, pairs] ``z_e - z_c`` per group. ``P_g`` is its logistic function, so comparing margins compares ``P_g``."""
    entailment, contradiction = sample.frame.select(ENTAILMENT, CONTRADICTION).to_numpy().astype(np.float64).T
    margins = entailment - contradiction
    unusable = np.flatnonzero(~np.isfinite(margins))
    if unusable.size:
        name = sample.frame["id"][int(unusable[0])]
        raise InputError(f"the logits of '{name}' are not finite numbers; predict it again")
    return np.asarray(margins[sample.paired.rows])


def _correlate(ours: Values, market: Values) -> Ranks:
    for column, what in ((ours, "the model"), (market, "the labour market")):
        if np.ptp(column) == 0:
            return Ranks(np.nan, np.nan, np.nan, f"{what} makes no difference between occupations")
    rho = spearmanr(ours, market)
    return Ranks(float(rho.statistic), float(rho.pvalue), float(kendalltau(ours, market).statistic))


def summarise(sample: Sample, measures: dict[str, MeasureResult]) -> ProbeResult:
    """The result of a run."""
    curve, women = occupation_curve(sample), women_percent()
    rows = []
    for row in curve.iter_rows(named=True):
        share = women.get(row["occupation"].lower(), math.nan)
        disputed = (row["stereotype"] == "female" and share < 50) or (row["stereotype"] == "male" and share > 50)
        rows.append(ProbeOccupation(**row, women_percent=share, disputed=disputed))
    comparable = sum(not math.isnan(row.women_percent) for row in rows) >= FEWEST_RANKS
    return ProbeResult(
        measures=measures,
        rows=sample.frame.height,
        premises=sample.paired.first.frame.height,
        proportions={label: float(sample.rate(label)) for label in LABELS},
        occupations=rows,
        labour=labour_comparison(curve, women) if comparable else None,
    )
