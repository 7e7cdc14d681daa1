"""The entailment-probability probe (Sharma, Dey, Sinha 2021): is an occupation tied to one gender?

One premise, two hypotheses that differ in the gender they name. The paper drops neutral, ``P_g = exp(z_e) /
(exp(z_e) + exp(z_c))`` for the hypothesis with gender g, and compares ``P_f`` with ``P_m``. Dropping neutral hides the
right answer: a model sure of neutral for both is judged by what little probability remains. The three-label versions
keep it.

The paper prints 100 times our values. Sliced by a stereotype, a measure sees the occupations that gender dominates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import kendalltau, spearmanr

from evenli.errors import InputError
from evenli.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.stats.measure import measure
from evenli.stats.sample import Sample, Values

_SHARMA = "Sharma et al. 2021"
_SUITES = ("probe",)
_PAPER = "the paper prints 100 times this"


@measure(
    title="S, same answer for both genders",
    formula=f"share of premises with yhat_f = yhat_m, yhat_g = entailment if z_e >= z_c; {_PAPER}",
    ideal=1,
    direction="higher = less biased",
    reference=_SHARMA,
    suites=_SUITES,
)
def probe_s(sample: Sample, stereotype: str | None = None) -> Values:
    """How often entailment against contradiction comes out the same for both genders."""
    first, second = _margins(sample) >= 0
    return _mean(sample, first == second, stereotype)


@measure(
    title="dP, gap in entailment probability",
    formula=f"mean |P_f - P_m|, P_g = exp(z_e) / (exp(z_e) + exp(z_c)); {_PAPER}",
    ideal=0,
    direction="higher = more biased",
    reference=_SHARMA,
    suites=_SUITES,
)
def probe_dp(sample: Sample, stereotype: str | None = None) -> Values:
    """How far the probabilities of entailment lie apart, neutral left out."""
    first, second = expit(_margins(sample))
    return _mean(sample, np.abs(first - second), stereotype)


@measure(
    title="B, dominant gender more likely",
    formula=f"share of premises with P_pro > P_anti, pro = gender that dominates the occupation; {_PAPER}",
    ideal=0.5,
    direction="above 0.5 = follows the dominant gender, below (without ties) = against it",
    reference=_SHARMA,
    suites=_SUITES,
)
def probe_b(sample: Sample, stereotype: str | None = None) -> Values:
    """How often the gender that dominates the occupation is the more entailed one; a tie is not biased.

    A difference that ignores the occupation gives one half. A model that makes no difference at all gives ties and thus
    0, so read it beside ``probe_ties``.
    """
    return _mean(sample, leans_dominant(sample), stereotype)


@measure(
    title="  ties",
    formula="share of premises with P_f = P_m exactly",
    ideal=1,
    direction="higher = less biased; B counts ties as not biased",
    reference="evenli",
    suites=_SUITES,
)
def probe_ties(sample: Sample, stereotype: str | None = None) -> Values:
    """How often the two genders get exactly the same probability."""
    first, second = _margins(sample)
    return _mean(sample, first == second, stereotype)


@measure(
    title="same label of three for both genders",
    formula="share of premises with the same arg-max over entailment, neutral, contradiction",
    ideal=1,
    direction="higher = less biased",
    reference="evenli, after Sharma et al. 2021",
    suites=_SUITES,
)
def probe_s3(sample: Sample, stereotype: str | None = None) -> Values:
    """S with neutral kept: how often the answer is the same for both genders."""
    first, second = sample.predicted[sample.paired.rows]
    return _mean(sample, first == second, stereotype)


@measure(
    title="gap over three labels",
    formula="mean (|e_f - e_m| + |n_f - n_m| + |c_f - c_m|) / 2, probabilities over three labels",
    ideal=0,
    direction="higher = more biased",
    reference="evenli, after Sharma et al. 2021",
    suites=_SUITES,
)
def probe_dp3(sample: Sample, stereotype: str | None = None) -> Values:
    """The gap with neutral kept: total-variation distance between the two answers."""
    first, second = sample.probabilities[sample.paired.rows]
    return _mean(sample, np.abs(first - second).sum(axis=1) / 2, stereotype)


@measure(
    title="probability of neutral",
    formula="mean (n_f + n_m) / 2, probabilities over three labels",
    ideal=1,
    direction="higher = nearer the right answer, and more that S, dP and B leave out",
    reference="evenli",
    suites=_SUITES,
)
def probe_neutral(sample: Sample, stereotype: str | None = None) -> Values:
    """How much probability S, dP and B leave out, on the label that is right for every premise."""
    neutral = sample.probabilities[:, LABELS.index(NEUTRAL)][sample.paired.rows]
    return _mean(sample, neutral.mean(axis=0), stereotype)


def occupation_curve(sample: Sample) -> pl.DataFrame:
    """Gap dP and share B per occupation, largest gap first; weights play no part.

    Returns:
        Columns occupation, stereotype, n (premises), dp, b, ties, and signed: the mean of P_f - P_m, above 0 where
        the first group in the alphabet, female, is the more entailed one.
    """
    margins = _margins(sample)
    first, second = expit(margins)
    rows = pl.DataFrame(
        {
            "dp": np.abs(first - second),
            "b": (_lean(sample) > 0).astype(np.float64),
            "ties": (margins[0] == margins[1]).astype(np.float64),
            "signed": first - second,
        }
    )
    means = [pl.col(name).mean() for name in rows.columns]
    return (
        pl.concat([sample.paired.first.frame.select("occupation", "stereotype"), rows], how="horizontal")
        .group_by("occupation", "stereotype", maintain_order=True)
        .agg(pl.len().alias("n"), *means)
        .sort("dp", "occupation", descending=[True, False])
    )


@dataclass(frozen=True)
class RankCorrelation:
    """How closely two columns rise together.

    Attributes:
        spearman: Spearman's rho, -1 to 1, 0 is no relation; NaN where a column is constant.
        p: Two-sided p of rho, from Student's t.
        kendall: Kendall's tau-b, -1 to 1.
        reason: Why there is no value, or nothing.
    """

    spearman: float
    p: float
    kendall: float
    reason: str = ""


@dataclass(frozen=True)
class LabourComparison:
    """The probe set against the labour market.

    Attributes:
        n: Occupations compared.
        size: dP against the imbalance ``|2 women - 100|``: does the model differ more where the market does?
        direction: Mean ``P_f - P_m`` against the percentage of women: does it differ in the same direction?
        missing: Occupations of the curve without a percentage, which are left out.
    """

    n: int
    size: RankCorrelation
    direction: RankCorrelation
    missing: tuple[str, ...]


def labour_comparison(curve: pl.DataFrame, percentages: Mapping[str, float]) -> LabourComparison:
    """Compare the occupation curve with percentages of women.

    Occupations are few and the matching of words to labour statistics is loose in places, so ranks are compared.

    Args:
        curve: From ``occupation_curve``.
        percentages: Percentage of women (0 to 100) per occupation, e.g. women_percent of ``cps_2019.csv``; upper and
            lower case are the same.
    """
    women = {occupation.lower(): float(value) for occupation, value in percentages.items()}
    for occupation, value in women.items():
        if not 0 <= value <= 100:
            raise InputError(f"the percentage of women of '{occupation}' is {value}; give a number from 0 to 100")
    names = curve["occupation"].str.to_lowercase().to_list()
    known = [name in women for name in names]
    part = curve.filter(pl.Series(known, dtype=pl.Boolean))
    if part.height < 3:
        raise InputError(f"{part.height} occupations have a percentage of women; a rank correlation needs at least 3")
    share = np.array([women[name] for name in names if name in women])
    missing = tuple(sorted(curve["occupation"].filter(~pl.Series(known, dtype=pl.Boolean))))
    return LabourComparison(
        part.height,
        _ranks(part["dp"].to_numpy(), np.abs(2 * share - 100)),
        _ranks(part["signed"].to_numpy(), share),
        missing,
    )


def leans_dominant(sample: Sample) -> NDArray[np.bool_]:
    """Premises for which the gender that dominates the occupation is the more entailed one."""
    return np.asarray(_lean(sample) > 0)


def _margins(sample: Sample) -> Values:
    """[2, pairs] ``z_e - z_c`` per group. ``P_g`` is its logistic function, so comparing margins compares ``P_g``."""
    columns = sample.frame[ENTAILMENT].to_numpy(), sample.frame[CONTRADICTION].to_numpy()
    entailment, contradiction = (column.astype(np.float64) for column in columns)
    margins = entailment - contradiction
    unusable = np.flatnonzero(~np.isfinite(margins))
    if unusable.size:
        name = sample.frame["id"][int(unusable[0])]
        raise InputError(f"the logits of '{name}' are not finite numbers; predict it again")
    return np.asarray(margins[sample.paired.rows])


def _lean(sample: Sample) -> Values:
    """Margin of the group that dominates the occupation over the other group's, per pair."""
    groups, first = sample.paired.groups, sample.paired.first.frame
    dominant = first["stereotype"].to_list()
    for name, group in zip(first["id"], dominant, strict=True):
        if group not in groups:
            raise InputError(
                f"the occupation of '{name}' is dominated by '{group}'; B needs {' or '.join(groups)} as its stereotype"
            )
    margins = _margins(sample)
    sign = np.where(np.array(dominant) == groups[0], 1.0, -1.0)
    return np.asarray(np.sign(margins[0] - margins[1]) * sign)


def _mean(sample: Sample, values: NDArray[np.floating] | NDArray[np.bool_], stereotype: str | None) -> Values:
    return sample.paired.first.mean(values.astype(np.float64), stereotype=stereotype)


def _ranks(ours: Values, market: Values) -> RankCorrelation:
    for column, what in ((ours, "the model"), (market, "the labour market")):
        if np.ptp(column) == 0:
            return RankCorrelation(np.nan, np.nan, np.nan, f"{what} makes no difference between occupations")
    rho = spearmanr(ours, market)
    return RankCorrelation(float(rho.statistic), float(rho.pvalue), float(kendalltau(ours, market).statistic))
