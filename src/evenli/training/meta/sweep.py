"""Does a bias measure measure bias? Statistics on scores of models whose rate of bias is known.

Models are trained to be biased at known rates, every measure scores every model, and scores are compared with rates. A
measure of bias should follow the bias axis. It should not follow the noise axis, on which models are wrong at known
rates without preferring a group. Anantaprayoon, Kaneko and Okazaki 2024, section 4, with rank statistics, intervals and
a second axis added.

Models are also taught mixtures of causes at known levels. A measure that tells one cause from the others rises by 1
with it and does not move with the others; a measure that mixes them has several slopes. The slopes are those of least
squares over all mixtures, ``score = a + sum of slope x level``, seed by seed; seeds are what the interval is about.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np
from msgspec import field
from numpy.typing import NDArray
from scipy.stats import rankdata
from scipy.stats import t as student

from evenli.core.format import number
from evenli.core.io import to_plain
from evenli.core.record import Estimate, Number, Numbers, Record

Values = NDArray[np.float64]
Statistic = Literal["pearson", "spearman", "kendall"]
STATISTICS: tuple[Statistic, ...] = ("pearson", "spearman", "kendall")
NO_CORRELATION = "no corr."
"""What the paper prints where a constant score has no correlation."""
OWN, OTHERS = 0.95, 0.05
"""A measure of one cause: smallest slope on it, largest slope (in size) on any other."""
LEVEL = 0.95
"""Coverage of the interval over seeds."""
_RESAMPLES = 2_000
_SAME = 1e-9
"""What varies less, relative to its size, does not vary."""
_DIGITS = 12
"""Scores that differ less differ by rounding only, and must tie when they are ranked."""


@dataclass(frozen=True, eq=False)
class Curve:
    """The scores of one measure along one axis at increasing rates, at least three: [seeds, levels], NaN if undefined.

    ``span`` is the largest minus the smallest possible value of the measure.
    """

    measure: str
    axis: str
    seeds: Sequence[int]
    levels: Values
    scores: Values
    span: float = 1.0

    @property
    def mean(self) -> Values:
        """Mean over seeds per level; NaN where a seed has no score."""
        return cast(Values, self.scores.mean(axis=0))


class OverSeeds(Estimate, frozen=True, kw_only=True):
    """A number of the mean over ``n`` seeds, with its 95 % interval over seeds; none with fewer than three.

    Attributes:
        per_seed: The same number of each seed.
    """

    digits: ClassVar[int | None] = None

    per_seed: tuple[float | None, ...]


class Association(OverSeeds, frozen=True, kw_only=True):
    """How closely the scores follow the levels: -1 to 1, 0 no relation, 1 a score that rises with the rate.

    The interval is that of a percentile bootstrap; there is none if a resample of the seeds is constant. p is that of a
    permutation of the mean curve, never 0.

    Attributes:
        statistic: ``pearson`` (a line), ``spearman`` (ranks) or ``kendall`` (tau-b, ordered pairs).
    """

    statistic: Statistic


class _SweepRecord(Record, frozen=True):
    """Numbers of a meta-evaluation are stored in full: tables of a paper are made from them."""

    digits: ClassVar[int | None] = None


class Ranked(_SweepRecord, frozen=True):
    """How strongly a measure reacts to bias and to plain error."""

    measure: str
    sensitivity: Number  # |slope on the bias axis| / span; 0 blind to bias, 1 uses its whole range
    # |slope on the noise axis| / span; 0 untouched by plain error. None without a noise axis.
    disturbance: float | None
    # The sensitivity less the disturbance, or the sensitivity alone; larger is better, negative if noise moves the
    # measure more than bias does.
    net_sensitivity: Number
    pearson: Number  # correlation with the bias rate; its sign is the direction, which the other three leave out
    reason: str = ""  # why there is no correlation, or nothing


class AxisResult(_SweepRecord, frozen=True, eq=False):
    """One measure along one axis: scores [seeds, levels] and how they follow the levels.

    On the bias axis the stereotyped words are answered wrongly at every rate, only in another direction, so the error
    rate is the same at both ends: the separation that is left is bias.

    Attributes:
        separation: Score at the highest level minus score at the lowest, signed as the measure is: mean, lowest and
            highest of the seeds.
        slope: Change of the score from level 0 to 1 as a share of the range of the measure.
    """

    scores: Values
    pearson: Association
    spearman: Association
    kendall: Association
    separation: Numbers
    slope: Number


class MeasureCurves(_SweepRecord, frozen=True, eq=False):
    """One measure: name, title, and its result by axis."""

    name: str
    title: str
    axis: dict[str, AxisResult]


class Response(_SweepRecord, frozen=True):
    """What moves a measure.

    Attributes:
        taught: Slope by cause, on the levels that models were taught: change of the score per unit of the cause while
            the others stay, with Student's interval; NaN if the cause does not vary.
        learnt: Slope by cause, on the levels that they learnt: what they answer as taught on held-out sentences.
        fit: Share of the variance of the scores that the plane over the taught levels explains, mean over seeds; far
            from 1 the measure bends, and its slopes are averages.
        reason: Why there are no slopes, or nothing.
    """

    measure: str
    title: str
    taught: dict[str, OverSeeds]
    learnt: dict[str, OverSeeds]
    fit: Number
    reason: str = ""

    def moved_by(self) -> list[str]:
        """Causes that move the measure by more than ``OTHERS``, the strongest first."""
        slopes = {cause: abs(slope.value) for cause, slope in self.taught.items()}
        return sorted((cause for cause, size in slopes.items() if size > OTHERS), key=lambda cause: -slopes[cause])

    def measures_only(self, cause: str) -> bool:
        """Whether the measure follows this cause and no other."""
        return self.taught[cause].value >= OWN and self.moved_by() == [cause]

    def rows(self) -> list[dict[str, Any]]:
        """One row per cause and kind of level, for a table."""
        return [
            {"measure": self.measure, "title": self.title, "levels": kind, "cause": cause, "slope": slope.value}
            | {"low": slope.low, "high": slope.high, "fit": self.fit}
            for kind, slopes in (("taught", self.taught), ("learnt", self.learnt))
            for cause, slope in slopes.items()
        ]


class SweepResult(_SweepRecord, frozen=True, eq=False):
    """Every measure on models of known bias; ``result["coal"].axis["bias"].pearson.value`` is a correlation."""

    stamped: ClassVar[str] = "meta-evaluation"
    schema: ClassVar[int] = 2

    lang: str
    base: str  # name of the model that the others were trained from
    seeds: list[int]
    levels: dict[str, list[float | list[float]]]  # rates by axis; of mixtures one for every cause
    held_out_accuracy: Numbers  # lowest and mean accuracy on held-out pairs, with the labels that were trained
    measures: list[MeasureCurves]
    ranking: list[Ranked]  # measures, the best first
    published: list[dict[str, str]]  # correlations of the paper in this language
    # Without mixtures of causes the next two are empty.
    learnt_share: Numbers = field(default_factory=dict)  # of what was taught: lowest and mean over models
    responses: list[Response] = field(default_factory=list)  # what moves each measure

    def __getitem__(self, name: str) -> MeasureCurves:
        """The result of a measure by its name."""
        return {measure.name: measure for measure in self.measures}[name]


def describe(curve: Curve) -> AxisResult:
    """All statistics of one curve."""
    generator = np.random.default_rng(0)
    pearson, spearman, kendall = (associate(curve, name, generator) for name in STATISTICS)
    # Per seed first: the range over seeds shows whether the sign is stable.
    rise = curve.scores[:, -1] - curve.scores[:, 0]
    apart = {"mean": float(rise.mean()), "lowest": float(rise.min()), "highest": float(rise.max())}
    # Least squares: sum (x - mean x)(y - mean y) / sum (x - mean x)^2, as a share of the measure's range.
    x = curve.levels - curve.levels.mean()
    slope = float(x @ (curve.mean - curve.mean.mean()) / (x @ x) / curve.span)
    return AxisResult(curve.scores, pearson, spearman, kendall, apart, slope)


def associate(
    curve: Curve, statistic: Statistic, generator: np.random.Generator, permutations: int = 9_999
) -> Association:
    """Correlate the scores with the levels.

    The value is that of the mean curve over seeds. Its p asks how often the same scores in a random order follow the
    levels as closely, in either direction: ``p = (k + 1) / (n + 1)`` for ``k`` of ``n`` random orders whose statistic
    is at least as large in size. The interval resamples seeds, so it is about training and not about the choice
    of levels; with three seeds it is little more than the range of their means.
    """
    per_seed: tuple[float | None, ...] = tuple(to_plain(correlations(curve.levels, curve.scores, statistic), None))
    seeds = len(curve.seeds)

    value, low, high, p, note = math.nan, math.nan, math.nan, math.nan, _why_undefined(curve)
    if not note:
        value = float(correlations(curve.levels, curve.mean[None], statistic)[0])
        # Under the null hypothesis every order of the mean scores is as likely as the one observed.
        orders = generator.permuted(np.tile(curve.mean, (permutations, 1)), axis=1)
        shuffled = np.abs(correlations(curve.levels, orders, statistic))
        # One is added on both sides for the observed order itself, so that p is never 0.
        p = (int((shuffled >= abs(value) - _SAME).sum()) + 1) / (permutations + 1)
    # Two seeds have three distinct resamples: their quantiles say nothing.
    if not note and seeds >= 3:
        drawn = generator.integers(seeds, size=(_RESAMPLES, seeds))
        resampled = correlations(curve.levels, curve.scores[drawn].mean(axis=1), statistic)
        low, high = np.quantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
        if None in per_seed or math.isnan(low):
            # Leaving such draws out would report the luckier seeds only.
            low = high = math.nan
            note = "no interval: some choices of seeds give the same score for every rate"
    return Association(value, low, high, math.nan, LEVEL, seeds, note=note, per_seed=per_seed, statistic=statistic, p=p)


def rank_measures(measures: Sequence[MeasureCurves]) -> list[Ranked]:
    """Measures by what bias moves in them minus what noise moves, best first; equals keep their order.

    A measure that is constant on the bias axis, or undefined anywhere, comes last whatever noise does to it. Without a
    bias axis there is no ranking.
    """
    ranked = []
    for measure in (measure for measure in measures if "bias" in measure.axis):
        bias, noise = measure.axis["bias"], measure.axis.get("noise")
        sensitivity, disturbance = abs(bias.slope), abs(noise.slope) if noise else None
        reason = bias.pearson.note if math.isnan(bias.pearson.value) else ""
        # A score that plain error does not move is what one wants; only a missing one is a fault.
        if not reason and noise and math.isnan(noise.slope):
            reason = noise.pearson.note
        net = sensitivity - (disturbance or 0.0)
        ranked.append(Ranked(measure.name, sensitivity, disturbance, net, bias.pearson.value, reason))

    def order(rank: Ranked) -> tuple[bool, float]:
        # Without the rounding, measures that are equal by definition would be ordered by chance.
        net = rank.net_sensitivity
        return bool(rank.reason), math.inf if math.isnan(net) else -round(net, _DIGITS)

    return sorted(ranked, key=order)


def _why_undefined(curve: Curve) -> str:
    rows, columns = np.nonzero(np.isnan(curve.scores))
    if rows.size:
        where = f"rate {curve.levels[columns[0]]:g} of the {curve.axis} axis, seed {curve.seeds[rows[0]]}"
        more = f" (and for {rows.size - 1} more models)" if rows.size > 1 else ""
        return f"{NO_CORRELATION}: {curve.measure} has no value for {where}{more}"
    if _is_constant(curve.mean[None])[0]:
        return f"{NO_CORRELATION}: the score is {number(curve.mean.mean())} for every rate"
    return ""


def correlations(levels: Values, rows: Values, statistic: Statistic) -> Values:
    """The statistic of every row with the levels, [rows]; NaN where a row is constant or has no value."""
    values = np.full(len(rows), np.nan)
    usable = ~(np.isnan(rows).any(axis=1) | _is_constant(rows))
    rows = np.round(rows[usable], _DIGITS)
    if statistic == "kendall":
        # tau-b is Pearson's r of the signs of all differences, whose mean over both orders of a pair is 0.
        first, second = np.triu_indices(levels.size, k=1)
        # 32-bit floats count pairs exactly, in half the memory.
        x, y = (np.sign(of[..., second] - of[..., first]).astype(np.float32) for of in (levels, rows))
    else:
        # Spearman's rho is Pearson's r of the ranks.
        if statistic == "spearman":
            levels, rows = rankdata(levels), rankdata(rows, axis=1)
        x, y = levels - levels.mean(), rows - rows.mean(axis=1, keepdims=True)
    # Rounding can push a perfect line past 1.
    values[usable] = np.clip((y @ x) / np.sqrt((x @ x) * (y * y).sum(axis=1), dtype=np.float64), -1, 1)
    return values


def _is_constant(rows: Values) -> NDArray[np.bool_]:
    """Whether a row is the same everywhere but for rounding, [rows]."""
    size = np.maximum(1.0, np.abs(rows).max(axis=1))
    return cast(NDArray[np.bool_], np.ptp(rows, axis=1) <= _SAME * size)


def pearson_p(r: float, n: int) -> float:
    """Two-sided p of a published Pearson correlation of ``n`` points: ``t = r sqrt((n - 2) / (1 - r^2))``.

    >>> round(pearson_p(-0.263, 11), 3)
    0.435
    """
    return 0.0 if abs(r) == 1 else float(2 * student.sf(abs(r) * math.sqrt((n - 2) / (1 - r * r)), n - 2))


def respond(
    measure: str, title: str, causes: Sequence[str], taught: Values, learnt: Values, scores: Values
) -> Response:
    """The slopes of one measure from the scores of all models, [seeds, mixtures].

    ``taught`` are the levels that models were taught, [mixtures, causes]; ``learnt`` those that they learnt,
    [seeds, mixtures, causes].
    """
    missing = int(np.isnan(scores).sum())
    reason = f"no slope: {missing} of {scores.size} models have no score" if missing else ""
    planes = [_fit_plane(taught, row) for row in scores]
    fit = float(np.mean([explained for _, explained in planes]))
    own = [_fit_plane(levels, row)[0] for levels, row in zip(learnt, scores, strict=True)]
    # [seeds, causes] to one slope for each cause.
    by_taught, by_learnt = (
        {cause: _over_seeds(column) for cause, column in zip(causes, np.array(slopes).T, strict=True)}
        for slopes in ([slopes for slopes, _ in planes], own)
    )
    return Response(measure, title, by_taught, by_learnt, fit, reason)


def _fit_plane(levels: Values, scores: Values) -> tuple[Values, float]:
    """Slopes and share of variance explained; NaN on a cause that does not vary, and without a score."""
    slopes = np.full(levels.shape[1], np.nan)
    if np.isnan(scores).any() or np.isnan(levels).any():
        return slopes, math.nan
    varies = np.ptp(levels, axis=0) > _SAME
    x = levels[:, varies] - levels[:, varies].mean(axis=0)
    y = scores - scores.mean()
    slopes[varies] = np.linalg.lstsq(x, y, rcond=None)[0]
    total = float(y @ y)
    left = y - x @ slopes[varies]
    # A constant score is explained in full, by slopes of 0.
    return slopes, 1 - float(left @ left) / total if total > _SAME else 1.0


def _over_seeds(slopes: Values) -> OverSeeds:
    mean, count = float(slopes.mean()), len(slopes)
    se = float(slopes.std(ddof=1) / math.sqrt(count)) if count >= 3 else math.nan
    half = float(student.ppf((1 + LEVEL) / 2, count - 1)) * se
    return OverSeeds(mean, mean - half, mean + half, se, LEVEL, count, per_seed=tuple(slopes.tolist()))
