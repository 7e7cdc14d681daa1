"""Does a bias measure measure bias? Statistics on scores of models whose rate of bias is known.

Models are trained to be biased at known rates, every measure scores every model, and scores are compared with rates. A
measure of bias should follow the bias axis. It should not follow the noise axis, on which models are wrong at known
rates without preferring a group. Anantaprayoon, Kaneko and Okazaki 2024, section 4, with rank statistics, intervals and
a second axis added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from evenli.errors import InputError
from evenli.io import to_plain
from evenli.stats.correlation import CONSTANT, DIGITS, STATISTICS, Statistic, Values, correlations, is_constant

AXES = ("bias", "noise")
NO_CORRELATION = "no corr."
"""What the paper prints where a constant score has no correlation."""
LEVEL = 0.95
"""Coverage of the interval over seeds."""
_RESAMPLES = 2_000


@dataclass(frozen=True, eq=False)
class Curve:
    """The scores of one measure along one axis.

    Attributes:
        measure: Name of the measure.
        axis: ``bias`` or ``noise``: what the levels are rates of.
        seeds: One training seed per row of ``scores``.
        levels: Rates from 0 to 1, increasing, [L].
        scores: Score of the model of a seed and level, [seeds, L]; NaN where the measure is undefined.
    """

    measure: str
    axis: str
    seeds: tuple[int, ...]
    levels: Values
    scores: Values

    def __post_init__(self) -> None:
        if self.axis not in AXES:
            raise InputError(f"no axis '{self.axis}' for {self.measure}; choose {' or '.join(AXES)}")
        # Lists are accepted and stored as arrays; a frozen dataclass is set this way.
        object.__setattr__(self, "seeds", tuple(self.seeds))
        object.__setattr__(self, "levels", _floats(self.levels, f"the levels of {self.measure}"))
        object.__setattr__(self, "scores", _floats(self.scores, f"the scores of {self.measure}"))
        levels = self.levels
        in_range = levels.ndim == 1 and levels.size and ((levels >= 0) & (levels <= 1)).all()
        if not in_range or (np.diff(levels) <= 0).any():
            raise InputError(f"the levels of {self.measure} are {levels.tolist()}; give increasing rates from 0 to 1")
        seeds, rates = len(self.seeds), levels.size
        if not seeds or self.scores.shape != (seeds, rates):
            raise InputError(
                f"the scores of {self.measure} have the shape {self.scores.shape}; give one row per seed ({seeds}) and "
                f"one column per level ({rates})"
            )
        if np.isinf(self.scores).any():
            raise InputError(f"{self.measure} has infinite scores; a score is a number, or NaN where it is undefined")

    @property
    def mean(self) -> Values:
        """Mean over seeds per level; NaN where a seed has no score."""
        return cast(Values, self.scores.mean(axis=0))


@dataclass(frozen=True)
class Association:
    """How closely the scores follow the levels.

    Attributes:
        statistic: ``pearson`` (a line), ``spearman`` (ranks) or ``kendall`` (tau-b, ordered pairs).
        value: The statistic of the mean curve over seeds, -1 to 1; 0 is no relation, 1 a score that rises with the
            rate. None where it is undefined.
        low: Lower end of the 95 % percentile bootstrap interval over seeds; None with fewer than three seeds, or if a
            resample of them is constant.
        high: Upper end.
        per_seed: The statistic of each seed's own curve.
        p: Two-sided permutation p of the mean curve; never 0.
        reason: Why there is no value or no interval, or nothing.
    """

    statistic: Statistic
    value: float | None
    low: float | None
    high: float | None
    per_seed: tuple[float | None, ...]
    p: float | None
    reason: str = ""


@dataclass(frozen=True)
class Separation:
    """Score at the highest level minus score at the lowest: mean, minimum and maximum over seeds."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Ranked:
    """How strongly a measure reacts to bias and to plain error.

    Attributes:
        measure: Name of the measure.
        sensitivity: ``|slope on the bias axis| / span``; 0 blind to bias, 1 uses its whole range.
        disturbance: ``|slope on the noise axis| / span``; 0 untouched by plain error. None without a noise axis.
        net_sensitivity: ``sensitivity - disturbance``, or the sensitivity alone; larger is better, negative if noise
            moves the measure more than bias does.
        pearson: Correlation with the bias rate; its sign is the direction, which the other three leave out.
        reason: Why there is no correlation, or nothing.
    """

    measure: str
    sensitivity: float
    disturbance: float | None
    net_sensitivity: float
    pearson: float | None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values; ``worth`` is the name of ``net_sensitivity`` up to version 0.1."""
        return {**asdict(self), "worth": self.net_sensitivity}


@dataclass(frozen=True, eq=False)
class AxisResult:
    """One measure along one axis.

    Attributes:
        scores: Score of the model of a seed and level, [seeds, levels]; NaN where the measure is undefined.
        pearson: Correlation with the level, as is ``spearman`` of ranks and ``kendall`` of ordered pairs.
        separation: Score at the highest level minus score at the lowest.
        slope: Change of the score from level 0 to 1 over the range of the measure.
    """

    scores: Values
    pearson: Association
    spearman: Association
    kendall: Association
    separation: Separation
    slope: float


@dataclass(frozen=True, eq=False)
class MeasureResult:
    """One measure: name, title, and its result by axis."""

    name: str
    title: str
    axis: dict[str, AxisResult]


@dataclass(frozen=True, eq=False)
class SweepResult:
    """Every measure on models of known bias; ``result["coal"].axis["bias"].pearson.value`` is a correlation.

    Attributes:
        lang: Language.
        base: Name of the model that the others were trained from.
        seeds: Training seeds.
        levels: Rates by axis.
        held_out_accuracy: Lowest and mean accuracy on held-out pairs, with the labels that were trained.
        measures: Every measure.
        ranking: Measures, the best first.
        published: Correlations of the paper in this language.
    """

    lang: str
    base: str
    seeds: list[int]
    levels: dict[str, list[float]]
    held_out_accuracy: dict[str, float]
    measures: list[MeasureResult]
    ranking: list[Ranked]
    published: list[dict[str, str]]

    def __getitem__(self, name: str) -> MeasureResult:
        """The result of a measure by its name."""
        for measure in self.measures:
            if measure.name == name:
                return measure
        raise KeyError(name)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, in full precision; undefined numbers are null."""
        ranking = [rank.to_dict() for rank in self.ranking]
        return {"schema": 1, **to_plain(self, digits=None), "ranking": to_plain(ranking, digits=None)}


def describe(curve: Curve, span: float, *, permutations: int = 9_999, seed: int = 0) -> AxisResult:
    """All statistics of one curve.

    Args:
        curve: Scores of one measure along one axis.
        span: Largest minus smallest possible value of the measure.
        permutations: Samples of the permutation test.
        seed: Its seed.
    """
    generator = np.random.default_rng(seed)
    pearson, spearman, kendall = (
        associate(curve, name, generator=generator, permutations=permutations) for name in STATISTICS
    )
    return AxisResult(curve.scores, pearson, spearman, kendall, separation(curve), slope(curve, span=span))


def associate(
    curve: Curve, statistic: Statistic, *, generator: np.random.Generator, permutations: int = 9_999
) -> Association:
    """Correlate the scores with the levels.

    The value is that of the mean curve over seeds. Its p asks how often the same scores in a random order follow the
    levels as closely, in either direction: ``p = (k + 1) / (n + 1)`` for ``k`` of ``n`` random orders whose statistic
    is at least as large in size. The interval resamples seeds, so it is about training and not about the choice
    of levels; with three seeds it is little more than the range of their means.

    Args:
        curve: Scores on at least three levels.
        statistic: ``pearson``, ``spearman`` or ``kendall``.
        generator: Source of the random orders and resamples.
        permutations: Random orders; at least 99.
    """
    if statistic not in STATISTICS:
        raise InputError(f"no statistic '{statistic}'; there are {', '.join(STATISTICS)}")
    if curve.levels.size < 3:
        raise InputError(
            f"{curve.measure} has scores for {curve.levels.size} rates; a correlation needs at least three"
        )
    if permutations < 99:
        raise InputError(f"{permutations} permutations are too few for a p-value; use at least 99")
    per_seed = tuple(_defined(r) for r in correlations(curve.levels, curve.scores, statistic))
    reason = _why_undefined(curve)
    if reason:
        return Association(statistic, None, None, None, per_seed, None, reason)
    value = float(correlations(curve.levels, curve.mean[None], statistic)[0])
    # Under the null hypothesis every order of the mean scores is as likely as the one observed.
    orders = generator.permuted(np.tile(curve.mean, (permutations, 1)), axis=1)
    shuffled = np.abs(correlations(curve.levels, orders, statistic))
    # One is added on both sides for the observed order itself, so that p is never 0.
    p = (int((shuffled >= abs(value) - CONSTANT).sum()) + 1) / (permutations + 1)
    # Two seeds have three distinct resamples: their quantiles say nothing.
    if len(curve.seeds) < 3:
        return Association(statistic, value, None, None, per_seed, p)
    drawn = generator.integers(len(curve.seeds), size=(_RESAMPLES, len(curve.seeds)))
    resampled = correlations(curve.levels, curve.scores[drawn].mean(axis=1), statistic)
    if None in per_seed or np.isnan(resampled).any():
        # Leaving such draws out would report the luckier seeds only.
        reason = "no interval: some choices of seeds give the same score for every rate"
        return Association(statistic, value, None, None, per_seed, p, reason)
    low, high = np.quantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Association(statistic, value, float(low), float(high), per_seed, p)


def slope(curve: Curve, *, span: float = 1.0) -> float:
    """Change of the score from rate 0 to rate 1 along the least-squares line, as a share of the measure's range.

    ``sum (x - mean x)(y - mean y) / sum (x - mean x)^2 / span`` for the levels ``x`` and the mean scores ``y``. Range
    -1 to 1 for a line within a measure whose range is ``span``; 0 is a score that does not move. NaN where a score is.

    Args:
        curve: Scores on at least two levels.
        span: Largest minus smallest possible value of the measure.
    """
    if not span > 0:
        raise InputError(f"the range of {curve.measure} is given as {span}; it must be above 0")
    if curve.levels.size < 2:
        raise InputError(f"{curve.measure} has scores for one rate only; a slope needs at least two")
    x = curve.levels - curve.levels.mean()
    return float(x @ (curve.mean - curve.mean.mean()) / (x @ x) / span)


def separation(curve: Curve) -> Separation:
    """Score at the highest level minus score at the lowest: does it separate a biased model from a wrong one?

    On the bias axis the stereotyped words are answered wrongly at every rate, only in another direction, so the error
    rate is the same at both ends: what is left is bias. In units of the measure; 0 is no separation, the sign is the
    measure's direction. NaN where an end has no score.
    """
    # Per seed first: the range over seeds shows whether the sign is stable.
    rise = curve.scores[:, -1] - curve.scores[:, 0]
    return Separation(float(rise.mean()), float(rise.min()), float(rise.max()))


def rank_measures(
    bias: Mapping[str, Curve], noise: Mapping[str, Curve] | None, spans: Mapping[str, float]
) -> list[Ranked]:
    """Measures by what bias moves in them minus what noise moves, best first.

    ``net_sensitivity = |slope_bias| / span - |slope_noise| / span``; see :class:`Ranked` for ranges and directions. A
    measure that is constant on the bias axis, or undefined anywhere, comes last whatever noise does to it. Equals keep
    the order they were given in.

    Args:
        bias: Curve on the bias axis per measure.
        noise: Curve on the noise axis per measure, or None.
        spans: Largest minus smallest possible value per measure.
    """
    for what, given in (("range", spans), ("curve on the noise axis", bias if noise is None else noise)):
        missing = [name for name in bias if name not in given]
        if missing:
            raise InputError(f"no {what} for {', '.join(missing)}; give one for every measure on the bias axis")
    ranked = []
    for name, curve in bias.items():
        sensitivity = abs(slope(curve, span=spans[name]))
        disturbance = None if noise is None else abs(slope(noise[name], span=spans[name]))
        pearson = _defined(correlations(curve.levels, curve.mean[None], "pearson")[0])
        reason = _why_undefined(curve) or (_why_missing(noise[name]) if noise is not None else "")
        ranked.append(Ranked(name, sensitivity, disturbance, sensitivity - (disturbance or 0.0), pearson, reason))

    def order(rank: Ranked) -> tuple[bool, float]:
        # Without the rounding, measures that are equal by definition would be ordered by chance.
        net = rank.net_sensitivity
        return bool(rank.reason), math.inf if math.isnan(net) else -round(net, DIGITS)

    return sorted(ranked, key=order)


def _floats(values: ArrayLike, what: str) -> Values:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} are not a table of numbers: {error}") from error


def _why_undefined(curve: Curve) -> str:
    missing = _why_missing(curve)
    if missing:
        return missing
    if is_constant(curve.mean[None])[0]:
        return f"{NO_CORRELATION}: the score is {curve.mean.mean():.3f} for every rate"
    return ""


def _why_missing(curve: Curve) -> str:
    rows, columns = np.nonzero(np.isnan(curve.scores))
    if not rows.size:
        return ""
    where = f"rate {curve.levels[columns[0]]:g} of the {curve.axis} axis, seed {curve.seeds[rows[0]]}"
    more = f" (and for {rows.size - 1} more models)" if rows.size > 1 else ""
    return f"{NO_CORRELATION}: {curve.measure} has no value for {where}{more}"


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
