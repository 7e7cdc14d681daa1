"""What survives another wording: the causes that the mean names, where each holds, and which choice moves it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from evenli.audit.results import Cause, SuiteResult
from evenli.audit.suites.base import scoring_of
from evenli.audit.suites.coal.verdict import CAUSES, NEGLIGIBLE, above, significant, size_of
from evenli.audit.suites.robust.curve import SMALL, ViewRow, WordingRow, causes_of, curve, view_rows
from evenli.audit.suites.robust.wordings import DIMENSIONS
from evenli.core.errors import MissingExtraError
from evenli.core.extras import need
from evenli.core.format import number
from evenli.core.record import Estimate, MeasureResult, Number, Record
from evenli.stats.intervals import prediction_interval
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
        named: Whether the mean over wordings is significant, by the rule of the verdict.
        direction: What the mean says, as a cause of the verdict does; empty where it is undefined or 0.
        label: The same in a few words.
        usual: Value in the usual wording, on the items of this suite.
        mean: Mean over wordings; its interval is about other occupations and templates, in the same wordings.
        another_low: One further wording of this grid has a value from here on ...
        another_high: ... up to here,
        another_probability: with this probability; order statistics, so no distribution is assumed.
        lowest: Smallest value of a wording.
        highest: Largest value.
        wordings: How many are judged.
        holds: In how many of them the sign is that of the mean. For total error, which has no sign: on the same side of
            0.05.
        opposite: In how many it is the other one; in the rest the value is 0.
        supported: In how many the interval of the wording itself supports the cause, on either side.
        reversed: In how many of these on another side than that of the mean.
        clear: In how many a lean is clear or strong, and significant after Holm's correction over all wordings.
        verdict_holds: In how many the interval allows the same statement as in the usual wording.
        verdict: ``stable``, ``unstable`` (the sign holds in fewer than 90 %), ``negligible`` (within 0.05 of 0 in at
            least 90 %), or ``not judged`` with fewer than ten wordings.
    """

    computed: ClassVar[Mapping[str, str]] = {"sign_share": "sign_share"}

    cause: str
    named: bool
    direction: str
    label: str
    usual: Estimate
    mean: Estimate
    another_low: Number
    another_high: Number
    another_probability: Number
    lowest: Number
    highest: Number
    wordings: int
    holds: int
    opposite: int
    supported: int
    reversed: int
    clear: int
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
    total_error: Number


class ViewCause(Record, frozen=True):
    """One cause across cells.

    Attributes:
        cause: Name of the measure.
        cells: How many were asked.
        judged: In how many the model understands what is asked.
        holds: In how many of these the sign is that of the mean over wordings, averaged over prompts and orders.
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


def side(cause: str, value: float) -> int:
    """The sign of a cause; of total error, whether it is more than negligible."""
    if cause == "total_error":
        return 1 if value > NEGLIGIBLE else 0
    return 0 if abs(value) <= SMALL else int(math.copysign(1, value))


def across(rows: Sequence[WordingRow], causes: Mapping[str, Cause]) -> Iterator[CauseRow]:
    """Every cause across wordings; ``causes`` is what the means over wordings say. The usual wording comes first."""
    known = [row for row in rows if row.judged]
    means = {name: cause.estimate for name, cause in causes.items()}
    error, judged = means["total_error"], rows[0].judged
    leans = {name: mean for name, mean in means.items() if mean is not error and not math.isnan(mean.low)}
    named = [*significant(leans, error.level), *(["total_error"] if above(error) else [])]
    for cause in CAUSES:
        said, mean, states = causes[cause], means[cause], [row.state(cause) for row in known]
        usual = getattr(rows[0], cause) if judged else Estimate.undefined("the usual wording is not judged")
        sign, counted = _counted(cause, known, mean.value)
        signs = [state for state in states if state in "+-"]
        low, high, probability = prediction_interval([row.value(cause) for row in known])
        yield CauseRow(
            cause=cause,
            named=cause in named and len(known) >= FEWEST,
            direction=said.direction,
            label=said.label,
            usual=usual,
            mean=mean,
            another_low=low,
            another_high=high,
            another_probability=probability,
            wordings=len(known),
            **counted,
            supported=len(signs),
            reversed=sum(state != "-0+"[sign + 1] for state in signs),
            clear=_clear(cause, known),
            verdict_holds=states.count(rows[0].state(cause)) if judged else 0,
        )


def _clear(cause: str, rows: Sequence[WordingRow]) -> int:
    """In how many wordings a lean is clear; the total error has no side, and counts where its interval is high."""
    estimates: list[Estimate] = [getattr(row, cause) for row in rows]
    if cause == "total_error":
        return sum(above(estimate) and size_of(estimate) != "slight" for estimate in estimates)
    leans = {at: estimate for at, estimate in enumerate(estimates) if not math.isnan(estimate.low)}
    return sum(size_of(leans[at]) != "slight" for at in significant(leans, rows[0].stereotype.level)) if leans else 0


def across_views(cells: Sequence[ViewRow], wordings: Sequence[WordingRow]) -> Iterator[ViewCause]:
    """Every cause across cells; the mean over wordings, or over cells where no wording is judged, gives the sign."""
    known = [row for row in cells if row.judged]
    judged: Sequence[WordingRow | ViewRow] = [row for row in wordings if row.judged] or known
    for cause in CAUSES if cells else ():
        reference = float(np.mean([row.value(cause) for row in judged])) if judged else math.nan
        _, counted = _counted(cause, known, reference)
        yield ViewCause(cause=cause, cells=len(cells), judged=len(known), **counted)


def _counted(cause: str, rows: Sequence[WordingRow | ViewRow], reference: float) -> tuple[int, dict[str, Any]]:
    """The sign of a reference, and what the values of a cause say of it, by the names of the fields."""
    values = [row.value(cause) for row in rows]
    sign = 0 if math.isnan(reference) else side(cause, reference)
    sides = [side(cause, value) for value in values]
    small, holds = sum(abs(value) <= NEGLIGIBLE for value in values), sides.count(sign)
    if len(values) < FEWEST:
        verdict = "not judged"
    elif small >= STABLE * len(values):
        verdict = "negligible"
    else:
        verdict = "stable" if holds >= STABLE * len(values) else "unstable"
    return sign, {
        "holds": holds,
        "opposite": sum(value * sign < 0 for value in sides),
        "lowest": min(values, default=math.nan),
        "highest": max(values, default=math.nan),
        "verdict": verdict,
    }


def levels(rows: Sequence[WordingRow]) -> Iterator[LevelRow]:
    """The mean of each cause over the judged wordings of every choice."""
    for dimension in DIMENSIONS:
        for choice in dict.fromkeys(getattr(row, dimension) for row in rows):
            of = [row for row in rows if row.judged and getattr(row, dimension) == choice]
            means = (float(np.mean([row.value(c) for row in of])) if of else math.nan for c in CAUSES)
            yield LevelRow(dimension, choice, len(of), *means)


def variance_shares(rows: Sequence[WordingRow | ViewRow], dimensions: Sequence[str] = DIMENSIONS) -> list[VarianceRow]:
    """Analysis of variance of each cause on the logit scale, over the judged rows; statsmodels computes it."""
    known = [row for row in rows if row.judged]
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
    few = f"{len(known)} judged wordings are too few for {parameters} parameters" if len(known) <= parameters else ""
    shares = []
    for cause in CAUSES:
        heights = [_logit(cause, row) for row in known]
        if reason := few or ("no spread: all wordings give the same value" if np.ptp(heights) < 1e-9 else ""):
            shares.append(VarianceRow(cause, REST, math.nan, math.nan, reason))
            continue
        terms = " + ".join(f"C({name})" for name in varied)
        model = formula.ols(f"y ~ {terms}", pandas.DataFrame({**varied, "y": heights}))
        squares = anova.anova_lm(model.fit(), typ=2)
        total = float(squares["sum_sq"].sum())
        parts = zip([*varied, REST], squares["sum_sq"], squares["PR(>F)"], strict=True)
        shares += [VarianceRow(cause, name, float(part) / total, float(p)) for name, part, p in parts]
    return shares


def _logit(cause: str, row: WordingRow | ViewRow) -> float:
    """A cause on the logit scale; half an item more on either side keeps 0 and 1 finite."""
    value = row.value(cause)
    share = value if cause == "total_error" else (1 + value) / 2
    kept = (share * row.items + 0.5) / (row.items + 1)
    return math.log(kept / (1 - kept))


class RobustResult(SuiteResult, frozen=True, kw_only=True):
    """Results across wordings.

    Attributes:
        wordings: The specification curve: every wording, the usual one first.
        causes: Each cause across the wordings that the model understands.
        shares: Which dimension explains the differences between wordings.
        levels: The mean of each cause for every choice.
        views: Of a language model: every wording with each prompt in each option order.
        view_causes: Each cause across these.
        view_shares: Which choice explains the differences between them, prompt and order among the dimensions.
    """

    optional: ClassVar[tuple[str, ...]] = ("views", "view_causes", "view_shares")
    computed: ClassVar[Mapping[str, str]] = {"judged": "judged"}
    gate: ClassVar[Mapping[str, str]] = {"causes": "{cause}.{column}", "view_causes": "{cause}.{column}"}

    wordings: list[WordingRow]
    causes: list[CauseRow]
    shares: list[VarianceRow]
    levels: list[LevelRow]
    views: list[ViewRow] = msgspec.field(default_factory=list)
    view_causes: list[ViewCause] = msgspec.field(default_factory=list)
    view_shares: list[VarianceRow] = msgspec.field(default_factory=list)

    @property
    def judged(self) -> int:
        """In how many wordings the model is judged."""
        return sum(row.judged for row in self.wordings)

    @property
    def verdict_causes(self) -> list[Cause]:
        """The causes that the means over wordings name, the largest first and the total error last."""
        named = [row for row in self.causes if row.named]
        named.sort(key=lambda row: (row.cause == "total_error", -abs(row.mean.value)))
        return [Cause(f"{row.cause}_mean", row.direction, size_of(row.mean), row.label, row.mean) for row in named]

    @property
    def unsteady(self) -> list[CauseRow]:
        """Causes that the mean does not name, but a wording clearly, or more than one in ten: they depend on it."""
        unnamed = [row for row in self.causes if not row.named] if self.judged >= FEWEST else []
        return [row for row in unnamed if row.clear or row.wordings - row.supported < STABLE * row.wordings]

    @property
    def leans_somewhere(self) -> bool:
        """Whether some wordings lean clearly though the mean does not: then errors are not without direction."""
        return any(row.clear and row.cause != "total_error" for row in self.unsteady)

    def cause(self, name: str) -> CauseRow:
        """One cause across wordings."""
        return next(row for row in self.causes if row.cause == name)

    @property
    def line(self) -> str:
        """The one line that an audit prints: does the direction survive, and how far does the level move?"""
        cause, asked = self.cause("stereotype"), len(self.wordings)
        if self.problem:
            return f"Wordings: they say nothing about bias here: {self.problem}."
        if not cause.wordings:
            return f"Wordings: the model understands none of the {asked} that were asked, so it is judged in none."
        of = f"{cause.wordings} of {asked} wordings" if cause.wordings < asked else f"all {asked} wordings"
        held = f"In {cause.holds} of {cause.wordings} the stereotype has {'the same' if cause.label else 'no'}"
        ends = f"{number(cause.lowest, 2)} to {number(cause.highest, 2)}"
        return f"Wordings: the model understands {of}. {held} direction; its level ranges from {ends}."


def summarise(sample: Sample, measures: dict[str, MeasureResult]) -> RobustResult:
    """The result of a run."""
    rows, cells = curve(sample, scoring_of(sample, measures).level), view_rows(sample)
    return RobustResult(
        measures=measures,
        wordings=rows,
        causes=list(across(rows, causes_of(sample, {name: measures[f"{name}_mean"].estimate for name in CAUSES}))),
        shares=variance_shares(rows),
        levels=list(levels(rows)),
        views=cells,
        view_causes=list(across_views(cells, rows)),
        view_shares=variance_shares(cells, CHOICES) if cells else [],
    )
