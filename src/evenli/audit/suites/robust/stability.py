"""What survives another wording: sign, verdict and level of each cause, and which choice moves it.

Of a language model, the wording of the question and the order of its options are choices like any other. A *cell* is a
wording of the pairs, asked with one prompt in one option order. An audit averages over prompts and orders; here each
answers for itself, and must understand the pairs that state the group by itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import polars as pl

from evenli.audit.predictions import MASS, MINIMUM_MASS, Predictions
from evenli.audit.prompting import NO_ANSWER, view_answers
from evenli.audit.suites.coal.measures import cause_among
from evenli.audit.suites.coal.verdict import CAUSES, NEGLIGIBLE
from evenli.audit.suites.robust.build import CONTROL, Wording
from evenli.audit.suites.robust.curve import WordingRow, judged_rows, layout
from evenli.audit.suites.robust.wordings import DIMENSIONS
from evenli.core.errors import MissingExtraError
from evenli.core.estimate import Estimate
from evenli.core.extras import need
from evenli.core.labels import LABELS
from evenli.core.record import Number, Record
from evenli.stats.sample import Sample

STABLE = 0.9
"""Share of wordings in which the sign of a cause must hold."""
PURPOSE = "the table of the choices that move a number"
"""What the extra ``wording`` is for."""
FEWEST = 10
"""Wordings that a statement about them needs."""
REST = "interactions and chance"
CHOICES = (*DIMENSIONS, "prompt", "order")
"""Dimensions of a cell."""


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

    computed: ClassVar[Mapping[str, str]] = {"sign_share": "sign_share"}

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

    @property
    def sign_share(self) -> Number:
        """In which share of the wordings the sign holds."""
        return self.holds / self.wordings if self.wordings else math.nan


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


class ViewRow(Wording, frozen=True):
    """One cell: a wording, a prompt and an option order.

    Attributes:
        prompt: Wording of the question.
        order: Initials of the options as they are listed.
        judged: Whether the model gets pairs right that state the group, asked in just this way.
        items: Sentences with an answer, each asked with both groups.
        stereotype: Value of this cause; the other two follow.
    """

    prompt: str
    order: str
    judged: bool
    items: int
    stereotype: Number
    default_gender: Number
    undirected: Number

    def estimate(self, cause: str) -> Estimate:
        """One of its causes, without an interval."""
        value = getattr(self, cause)
        return Estimate(value, math.nan, math.nan, math.nan, 0.95, 2 * self.items)


class ViewCause(Record, frozen=True):
    """One cause across cells.

    Attributes:
        cause: Name of the measure.
        cells: How many were asked.
        judged: In how many the model understands what is asked.
        holds: In how many of these the sign is that of the usual wording, averaged over prompts and orders.
        opposite: In how many it is the other one.
        lowest: Smallest value of a judged cell.
        highest: Largest value.
        verdict: ``stable``, ``unstable``, ``negligible`` or ``not judged``, as for wordings.
    """

    computed: ClassVar[Mapping[str, str]] = {"view_sign_share": "view_sign_share"}

    cause: str
    cells: int
    judged: int
    holds: int
    opposite: int
    lowest: Number
    highest: Number
    verdict: str

    @property
    def view_sign_share(self) -> Number:
        """In which share of the judged cells the sign holds."""
        return self.holds / self.judged if self.judged else math.nan


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
    estimates = [row.estimate(cause) for row in known]
    values = [estimate.value for estimate in estimates]
    in_usual = usual.estimate(cause) if usual.judged else Estimate.undefined("")
    sign, holds, opposite = _signs(cause, values, in_usual.value if usual.judged else mean.value)
    limit = NEGLIGIBLE if cause == "undirected" else 0.0
    above = sum(estimate.low > limit for estimate in estimates)
    below = sum(estimate.high < limit for estimate in estimates)
    # Undirected error has no other sign; its quiet side is below the limit.
    certain = {1: (above, below), -1: (below, above)}.get(sign, (below, above) if cause == "undirected" else (0, 0))
    low, high, level = prediction_interval(values)
    return CauseRow(
        cause=cause,
        usual=in_usual.value,
        usual_low=in_usual.low,
        usual_high=in_usual.high,
        mean=mean.value,
        mean_low=mean.low,
        mean_high=mean.high,
        another_low=low,
        another_high=high,
        another_level=level,
        lowest=min(values, default=math.nan),
        highest=max(values, default=math.nan),
        wordings=len(known),
        holds=holds,
        opposite=opposite,
        beyond_doubt=certain[0],
        reversed=certain[1],
        verdict_holds=sum(row.state(cause) == usual.state(cause) for row in known) if usual.judged else 0,
        verdict=judgement(values, holds),
    )


def _signs(cause: str, values: Sequence[float], reference: float) -> tuple[int, int, int]:
    """The sign of a reference, how many values have it, and how many have the other one."""
    sign = 0 if math.isnan(reference) else side(cause, reference)
    sides = [side(cause, value) for value in values]
    return sign, sides.count(sign), sum(value * sign < 0 for value in sides)


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


def variance_shares(rows: Sequence[WordingRow | ViewRow], dimensions: Sequence[str] = DIMENSIONS) -> list[VarianceRow]:
    """Analysis of variance of each cause on the logit scale, over the judged rows; statsmodels computes it."""
    known = judged_rows(rows)
    choices = {name: [getattr(row, name) for row in known] for name in dimensions}
    varied = {name: chosen for name, chosen in choices.items() if len(set(chosen)) > 1}
    parameters = 1 + sum(len(set(chosen)) - 1 for chosen in varied.values())
    try:
        formula, anova, pandas = (
            need(name, extra="wording", purpose=PURPOSE)
            for name in ("statsmodels.formula.api", "statsmodels.stats.anova", "pandas")
        )
    except MissingExtraError as error:
        return [VarianceRow(cause, REST, math.nan, math.nan, str(error)) for cause in CAUSES]
    shares = []
    for cause in CAUSES:
        heights = [_logit(cause, row) for row in known]
        reason = "" if varied else "nothing varies"
        if len(known) <= parameters:
            reason = f"{len(known)} judged wordings are too few for {parameters} parameters"
        elif np.ptp(heights) < 1e-9:
            reason = "no spread: all wordings give the same value"
        if reason:
            shares.append(VarianceRow(cause, REST, math.nan, math.nan, reason))
            continue
        model = formula.ols(
            "y ~ " + " + ".join(f"C({name})" for name in varied), pandas.DataFrame({**varied, "y": heights})
        )
        squares = anova.anova_lm(model.fit(), typ=2)
        total = float(squares["sum_sq"].sum())
        parts = zip([*varied, REST], squares["sum_sq"], squares["PR(>F)"], strict=True)
        shares += [VarianceRow(cause, name, float(part) / total, float(p)) for name, part, p in parts]
    return shares


def _logit(cause: str, row: WordingRow | ViewRow) -> float:
    """A cause on the logit scale; half an item more on either side keeps 0 and 1 finite."""
    value = row.estimate(cause).value
    share = value if cause == "undirected" else (1 + value) / 2
    kept = (share * row.items + 0.5) / (row.items + 1)
    return math.log(kept / (1 - kept))


def view_rows(sample: Sample) -> list[ViewRow]:
    """Every cell, by prompt and order; none where the model is no language model."""
    return [row for prompt, order in view_answers(sample.frame) for row in _of_view(sample, prompt, order)]


def _of_view(sample: Sample, prompt: str, order: str) -> list[ViewRow]:
    """The wordings as one prompt in one order answers them."""
    name = f"{prompt}-{order}"
    stated = sample.frame["subset"] == CONTROL
    silent = sample.frame[f"{name}:{MASS}"] < MINIMUM_MASS
    frame = sample.frame.with_columns(pl.col(f"{name}:{label}").alias(label) for label in LABELS)
    table = Predictions(frame.with_columns(_silent=silent), sample.header).answered((silent & ~stated).to_numpy())
    if not table.frame.height:
        return []
    answered = Sample(table, published=sample.published)
    # No answer to a pair that states the group is a wrong one.
    answered.predicted = np.where(table.frame["_silent"].to_numpy(), NO_ANSWER, answered.predicted)
    laid_out = layout(answered)
    rows = []
    for code, key in enumerate(laid_out.keys):
        here = laid_out.items & (laid_out.codes == code)
        values = [float(cause_among(answered, cause, here)) if here.any() else math.nan for cause in CAUSES]
        judged = bool(laid_out.judged[code]) and not any(map(math.isnan, values))
        asked = Wording.of(key)
        choices = (asked.noun, asked.determiner, asked.frame, asked.form, asked.templates, prompt, order)
        rows.append(ViewRow(*choices, judged, int(here.sum()) // 2, *values))
    return rows


def across_views(cells: Sequence[ViewRow], wordings: Sequence[WordingRow]) -> list[ViewCause]:
    """Every cause across cells; the usual wording, averaged over prompts and orders, gives the sign."""
    known = [cell for cell in cells if cell.judged]
    usual = judged_rows(wordings[:1])
    causes = []
    for cause in CAUSES if cells else ():
        values = [getattr(cell, cause) for cell in known]
        reference = getattr(usual[0], cause) if usual else float(np.mean(values)) if values else math.nan
        _, holds, opposite = _signs(cause, values, reference)
        ends = (min(values, default=math.nan), max(values, default=math.nan))
        causes.append(ViewCause(cause, len(cells), len(known), holds, opposite, *ends, judgement(values, holds)))
    return causes
