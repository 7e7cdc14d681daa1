"""What moves a measure: its slope on each of the causes that models were taught.

Models are taught mixtures of causes at known levels. A measure that tells one cause from the others rises by 1 with it
and does not move with the others; a measure that mixes them has several slopes. The slopes are those of least squares
over all mixtures, ``score = a + sum of slope x level``, seed by seed; seeds are what the interval is about.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from evenli.record import Number, Record

Values = NDArray[np.float64]
Against = Literal["taught", "learnt"]
OWN, OTHERS = 0.95, 0.05
"""A measure of one cause: smallest slope on it, largest slope (in size) on any other."""
LEVEL = 0.95
_SAME = 1e-9


class Slope(Record, frozen=True):
    """Change of a score per unit of a cause while the others stay, mean over seeds; NaN if the cause does not vary.

    ``low`` and ``high`` are Student's 95 % interval over seeds; None with fewer than three.
    """

    digits: ClassVar[int | None] = None

    value: Number
    low: float | None
    high: float | None
    per_seed: tuple[float | None, ...]


class Response(Record, frozen=True):
    """What moves a measure.

    Attributes:
        taught: Slope by cause, on the levels that models were taught.
        learnt: Slope by cause, on the levels that they learnt: what they answer as taught on held-out sentences.
        fit: Share of the variance of the scores that the plane over the taught levels explains, mean over seeds; far
            from 1 the measure bends, and its slopes are averages.
        reason: Why there are no slopes, or nothing.
    """

    digits: ClassVar[int | None] = None

    measure: str
    title: str
    taught: dict[str, Slope]
    learnt: dict[str, Slope]
    fit: Number
    reason: str = ""

    def moved_by(self, against: Against = "taught") -> list[str]:
        """Causes that move the measure by more than ``OTHERS``, the strongest first."""
        slopes = {cause: abs(slope.value) for cause, slope in getattr(self, against).items()}
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


def respond(
    measure: str, title: str, causes: Sequence[str], taught: Values, learnt: Values, scores: Values
) -> Response:
    """The slopes of one measure.

    Args:
        measure: Its name.
        title: Its name for people.
        causes: Names of the causes.
        taught: Levels that models were taught [mixtures, causes].
        learnt: Levels that they learnt [seeds, mixtures, causes].
        scores: Score of every model [seeds, mixtures].
    """
    missing = int(np.isnan(scores).sum())
    reason = f"no slope: {missing} of {scores.size} models have no score" if missing else ""
    every = np.broadcast_to(taught, (len(scores), *taught.shape))
    planes = [_fit_plane(x, y) for x, y in zip(every, scores, strict=True)]
    fit = float(np.mean([explained for _, explained in planes]))
    slopes = np.array([slope for slope, _ in planes])
    own = np.array([_fit_plane(x, y)[0] for x, y in zip(learnt, scores, strict=True)])
    return Response(measure, title, _by_cause(causes, slopes), _by_cause(causes, own), fit, reason)


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


def _by_cause(causes: Sequence[str], slopes: Values) -> dict[str, Slope]:
    return {cause: _average(slopes[:, number]) for number, cause in enumerate(causes)}


def _average(slopes: Values) -> Slope:
    mean, count = float(slopes.mean()), len(slopes)
    if count < 3 or math.isnan(mean):
        return Slope(mean, None, None, tuple(slopes.tolist()))
    half = float(student.ppf((1 + LEVEL) / 2, count - 1) * slopes.std(ddof=1) / math.sqrt(count))
    return Slope(mean, mean - half, mean + half, tuple(slopes.tolist()))
