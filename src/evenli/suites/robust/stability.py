"""What survives another wording: sign, verdict and level of each cause, and which choice moves it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from evenli._extras import need
from evenli.errors import MissingExtraError
from evenli.suites.coal.verdict import CAUSES, NEGLIGIBLE
from evenli.suites.robust.curve import WordingRow, judged_rows
from evenli.suites.robust.wordings import DIMENSIONS
from evenli.types import Estimate, Number, Record

STABLE = 0.9
"""Share of wordings in which the sign of a cause must hold."""
PURPOSE = "the table of the choices that move a number"
"""What the extra ``wording`` is for."""
FEWEST = 10
"""Wordings that a statement about them needs."""
REST = "interactions and chance"


class CauseRow(Record, frozen=True):
    """One cause across the wordings that the model understands.

    Attributes:
        cause: Name of the measure.
        usual: Value in the usual wording, on the items of this suite; its fixed-wording interval follows.
        mean: Mean over wordings; its interval, that of other occupations and templates, follows.
        another_low: Where the value lies if another wording had been picked: from here.
        another_high: To here.
        another_level: In so many of 100 cases; order statistics, so no distribution is assumed.
        lowest: Smallest value of a wording.
        highest: Largest value.
        wordings: How many are judged.
        holds: In how many of them the sign is that of the usual wording (of the mean, where that is not judged). For
            undirected error, which has no sign: on the same side of 0.05.
        opposite: In how many it is the other one; in the rest the value is 0.
        beyond_doubt: In how many of these the interval excludes the other sign.
        reversed: In how many wordings the interval lies on the other side.
        verdict_holds: In how many the interval allows the same statement as in the usual wording.
        verdict: ``stable``, ``unstable`` (the sign holds in fewer than 90 %), ``negligible`` (within 0.05 of 0 in at
            least 90 %), or ``not judged`` with fewer than ten wordings.
    """

    cause: str
    usual: Number
    usual_low: Number
    usual_high: Number
    mean: Number
    mean_low: Number
    mean_high: Number
    another_low: Number
    another_high: Number
    another_level: Number
    lowest: Number
    highest: Number
    wordings: int
    holds: int
    opposite: int
    beyond_doubt: int
    reversed: int
    verdict_holds: int
    verdict: str


class VarianceRow(Record, frozen=True):
    """Share of the differences between wordings that one dimension explains.

    Attributes:
        cause: Name of the measure.
        dimension: What was chosen, or the rest.
        share: Its type II sum of squares, of the sum of all; analysis of variance on the logit scale.
        p: Of its F test; NaN for the rest.
        note: Why it is undefined, or empty.
    """

    cause: str
    dimension: str
    share: Number
    p: Number
    note: str = ""


class LevelRow(Record, frozen=True):
    """One choice: in how many judged wordings it stands, and the mean of each cause over them."""

    dimension: str
    choice: str
    wordings: int
    stereotype: Number
    default_gender: Number
    undirected: Number


def prediction_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float, float]:
    """Ends between which a further value like these lies, and in which share of cases; the extremes of few values.

    Of n values and a further one, each is equally likely to be the k-th smallest of all n + 1.

    >>> prediction_interval(range(39))
    (0.0, 38.0, 0.95)
    """
    ordered, n = sorted(float(value) for value in values), len(values)
    if n < 2:
        return math.nan, math.nan, math.nan
    cut = max(1, math.floor((n + 1) * (1 - level) / 2 + 1e-9))
    return ordered[cut - 1], ordered[n - cut], (n + 1 - 2 * cut) / (n + 1)


def side(cause: str, value: float) -> int:
    """The sign of a cause; of undirected error, whether it is more than negligible."""
    if cause == "undirected":
        return 1 if value > NEGLIGIBLE else 0
    # Sums of shares that cancel may leave 1e-17.
    return 0 if abs(value) < 1e-9 else int(math.copysign(1, value))


def across(rows: Sequence[WordingRow], means: Mapping[str, Estimate]) -> list[CauseRow]:
    """Every cause across wordings; ``means`` are the means over wordings by cause. The usual wording comes first."""
    known = judged_rows(rows)
    return [_across(cause, known, rows[0], means[cause]) for cause in CAUSES] if rows else []


def _across(cause: str, known: Sequence[WordingRow], usual: WordingRow, mean: Estimate) -> CauseRow:
    values = [row.estimate(cause).value for row in known]
    reference = usual.estimate(cause).value if usual.judged else mean.value
    sign = side(cause, reference) if not math.isnan(reference) else 0
    holding = [row for row in known if side(cause, row.estimate(cause).value) == sign]
    limit = NEGLIGIBLE if cause == "undirected" else 0.0
    above = sum(row.estimate(cause).low > limit for row in known)
    below = sum(row.estimate(cause).high < limit for row in known)
    certain = {1: (above, below), -1: (below, above)}.get(sign, (below, above) if cause == "undirected" else (0, 0))
    numbers: dict[str, Any] = dict(zip(_ANOTHER, prediction_interval(values), strict=True))
    for name, one in (("usual", usual.estimate(cause)), ("mean", mean)):
        known_there = usual.judged or name == "mean"
        for end in ("value", "low", "high"):
            key = name if end == "value" else f"{name}_{end}"
            numbers[key] = getattr(one, end) if known_there else math.nan
    return CauseRow(
        cause=cause,
        **numbers,
        lowest=min(values, default=math.nan),
        highest=max(values, default=math.nan),
        wordings=len(known),
        holds=len(holding),
        opposite=sum(side(cause, value) * sign < 0 for value in values),
        beyond_doubt=certain[0],
        reversed=certain[1],
        verdict_holds=sum(row.state(cause) == usual.state(cause) for row in known) if usual.judged else 0,
        verdict=judgement(values, len(holding)),
    )


_ANOTHER = ("another_low", "another_high", "another_level")


def judgement(values: Sequence[float], holds: int) -> str:
    """What so many values say, of which ``holds`` have the sign that was expected."""
    if len(values) < FEWEST:
        return "not judged"
    small = sum(abs(value) <= NEGLIGIBLE for value in values)
    if small >= STABLE * len(values):
        return "negligible"
    return "stable" if holds >= STABLE * len(values) else "unstable"


def levels(rows: Sequence[WordingRow]) -> list[LevelRow]:
    """The mean of each cause over the judged wordings of every choice."""
    level_rows = []
    for dimension in DIMENSIONS:
        for choice in dict.fromkeys(getattr(row, dimension) for row in rows):
            of = [row for row in judged_rows(rows) if getattr(row, dimension) == choice]
            means = (float(np.mean([getattr(row, c) for row in of])) if of else math.nan for c in CAUSES)
            level_rows.append(LevelRow(dimension, choice, len(of), *means))
    return level_rows


def variance_shares(rows: Sequence[Any], dimensions: Sequence[str] = DIMENSIONS) -> list[VarianceRow]:
    """Analysis of variance of each cause on the logit scale, over the judged rows; statsmodels computes it."""
    known = judged_rows(rows)
    varied = [name for name in dimensions if len({getattr(row, name) for row in known}) > 1]
    try:
        formula, anova = (
            need(name, extra="wording", purpose=PURPOSE)
            for name in ("statsmodels.formula.api", "statsmodels.stats.anova")
        )
        pandas = need("pandas", extra="wording", purpose=PURPOSE)
    except MissingExtraError as error:
        return [VarianceRow(cause, REST, math.nan, math.nan, str(error)) for cause in CAUSES]

    def fit(heights: Sequence[float]) -> list[tuple[str, float, float]]:
        table = pandas.DataFrame({name: [getattr(row, name) for row in known] for name in varied} | {"y": heights})
        model = formula.ols("y ~ " + " + ".join(f"C({name})" for name in varied), data=table).fit()
        squares = anova.anova_lm(model, typ=2)
        total = float(squares["sum_sq"].sum())
        names = [*varied, REST]
        return [
            (n, float(s) / total, float(p)) for n, s, p in zip(names, squares["sum_sq"], squares["PR(>F)"], strict=True)
        ]

    return [row for cause in CAUSES for row in _shares(cause, known, varied, fit)]


def _shares(
    cause: str,
    known: Sequence[WordingRow],
    varied: Sequence[str],
    fit: Callable[[Sequence[float]], list[tuple[str, float, float]]],
) -> list[VarianceRow]:
    heights = [_logit(cause, row) for row in known]
    parameters = 1 + sum(len({getattr(row, name) for row in known}) - 1 for name in varied)
    reason = ""
    if len(known) <= parameters:
        reason = f"{len(known)} judged wordings are too few for {parameters} parameters"
    elif np.ptp(heights) < 1e-9:
        reason = "no spread: all wordings give the same value"
    if reason or not varied:
        return [VarianceRow(cause, REST, math.nan, math.nan, reason or "nothing varies")]
    return [VarianceRow(cause, name, share, p) for name, share, p in fit(heights)]


def _logit(cause: str, row: WordingRow) -> float:
    """A cause on the logit scale; half an item more on either side keeps 0 and 1 finite."""
    value = row.estimate(cause).value
    share = value if cause == "undirected" else (1 + value) / 2
    kept = (share * row.items + 0.5) / (row.items + 1)
    return math.log(kept / (1 - kept))
