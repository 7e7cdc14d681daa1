"""Intervals of measures: method of variance estimates recovery (MOVER; Zou and Donner 2008). Corrections of p-values.

An estimate is a sum of terms, one for each mean that its measure reads and each stereotype class. A mean of answers is
a share, and gets Wilson's (1927) interval with the effective number of answers that its clusters leave (Korn and
Graubard 1998; Franco et al. 2019) and the quantile of Student's t. The distances from value to end add up over the
terms as standard errors do, each side for itself, with all covariances between terms.

Answers that no word of a class gave, or none with a probability of 1 %, have no variance to speak of. They follow the
*word rule*: one word is one piece of evidence, however many sentences it has. Of n words none gives an answer with
probability ``1 - level`` if the share of words that would is ``1 - (1 - level) ** (1 / n)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri, stdtrit

from evenli.core.errors import InputError
from evenli.core.record import Estimate, Scoring
from evenli.stats.measure import Measure
from evenli.stats.proportion import score_interval
from evenli.stats.proportion import wilson as wilson
from evenli.stats.sample import Codes, CrossedDesign, Sample, Values
from evenli.stats.variance import (
    Function,
    Mean,
    NotOfMeansError,
    TwoWay,
    correction,
    degrees_of_freedom,
    jackknife,
    means_and_slopes,
)

Key = TypeVar("Key", bound=Hashable)
POWER_FACTOR = 1.959964 + 0.841621
"""z of a two-sided 5 % test plus z of 80 % power."""
FEWEST_TEMPLATES = 5
"""With fewer templates that all occupations share there is no interval: it would hold the truth in 80 to 90 % of cases
where templates differ much."""
_ALIKE = "the interval has no width: the same number in every occupation and template leaves nothing that varies"
_UNDEFINED = "undefined: this slice has no rows that the formula needs"
_LEFT_OUT = "no interval: undefined where an occupation or a template is left out"

Z = float(ndtri(0.975))
_NEVER = 0.01
"""An answer that has less than this probability everywhere counts as one that was never given."""
_FEW = 3
"""Of so few answers the end next to 0 is that of a Poisson mean."""
LEAST_P = 1e-6
"""A p is never given as less: the approximation does not reach further, and stored numbers have six decimals."""


@dataclass(frozen=True, eq=False)
class Terms:
    """The terms of an estimate.

    Attributes:
        shares: The mean of each term where it is a share; NaN for others.
        sizes: How much the estimate changes when such a share goes from 0 to 1.
        covariance: Of the terms.
        classes: Number of the class of each term.
        hidden: For each class, how far down and up the estimate goes if all its words give answers that none gave.
        words: Words of each class.
    """

    shares: Values
    sizes: Values
    covariance: TwoWay
    classes: Codes
    hidden: Values
    words: Values

    def reach(self, level: float) -> tuple[float, float]:
        """How far the interval reaches down and up."""
        variance, df = self.covariance.spread(np.ones(len(self.shares)))
        t = float(stdtrit(df, (1 + level) / 2)) if math.isfinite(df) else float(ndtri((1 + level) / 2))
        down, up = (self.covariance.spread(side).variance for side in self._errors(t, level)) if variance else (0, 0)
        unseen = self._unseen(level)
        return math.sqrt(down + unseen[0]), math.sqrt(up + unseen[1])

    def _unseen(self, level: float) -> Values:
        """Squares of what answers that were never given may add below and above."""
        return np.asarray(np.square(self.hidden * word_rule(self.words, level)[:, None]).sum(axis=0))

    def _errors(self, t: float, level: float) -> Values:
        """How many standard errors the interval of each term reaches down and up."""
        errors = np.full((2, len(self.shares)), t)
        variances = self.covariance.variances
        bent = (variances > 0) & (np.abs(self.shares - 0.5) < 0.5 - 1e-9)
        share, sd = self.shares[bent], np.sqrt(variances[bent]) / np.abs(self.sizes[bent])
        n = share * (1 - share) / sd**2  # as many independent answers would have this variance
        low, high = score_interval(share, n, t)
        # Wilson's end next to 0 (or 1) is too near the share where answers are few (Brown, Cai and DasGupta 2001).
        low = np.where(share * n <= _FEW, rare(share * n, level) / n, low)
        high = np.where((1 - share) * n <= _FEW, 1 - rare((1 - share) * n, level) / n, high)
        # An answer that few words gave is no better known to be rare than one that none gave.
        rule = word_rule(self.words, level)[self.classes[bent]]
        low, high = np.minimum(low, 1 - rule), np.maximum(high, rule)
        down, up = (share - low) / sd, (high - share) / sd
        turned = self.sizes[bent] < 0
        errors[:, bent] = np.where(turned, up, down), np.where(turned, down, up)
        return errors

    @property
    def se(self) -> float:
        """Standard error; what no word showed counts as its 95 % end does."""
        variance, _ = self.covariance.spread(np.ones(len(self.shares)))
        return math.sqrt(variance + float(self._unseen(0.95).max()) / Z**2)

    def p(self, value: float) -> float:
        """Two-sided p of the hypothesis that the true value is 0: 1 - level of the interval that ends there."""
        if value == 0:
            return 1.0
        outside, inside = math.log(LEAST_P), 0.0
        for _ in range(22):
            middle = (outside + inside) / 2
            reach = self.reach(1 - math.exp(middle))[0 if value > 0 else 1]
            outside, inside = (middle, inside) if reach >= abs(value) else (outside, middle)
        return math.exp(inside)


def word_rule(words: Values, level: float) -> Values:
    """The largest share of words that may give an answer when none of so many does: 0.206 for 13 words and 95 %."""
    return np.asarray(1 - (1 - level) ** (1 / words))


def rare(count: Values, level: float) -> Values:
    """The smallest mean of a Poisson variable that gives so many with probability ``1 - level``: 0.051 for 1."""
    return np.asarray(gammaincinv(count, 1 - level))


class _Term(NamedTuple):
    """One mean in one class: its errors row by row, each row's weight, and what ``Terms`` says of it."""

    stratum: int
    rows: Codes
    scores: Values
    mass: float
    share: float
    size: float
    alike: float  # the answer of all rows; NaN where they differ
    least: int  # smallest answer that a row can have; the largest is 1


def terms_of_means(function: Function, samples: Sequence[Sample], stereotype: str | None) -> Terms:
    """The terms of a function of means, or of its difference between two samples on the same rows."""
    design, terms = samples[0].design, []
    means, slopes = zip(*(means_and_slopes(function, sample, stereotype) for sample in samples), strict=True)
    for asked, by in zip(zip(*means, strict=True), zip(*slopes, strict=True), strict=True):
        if any(len(one.rows) != len(asked[0].rows) for one in asked):
            raise InputError("the two runs count different words; score both again with 'evenli measure'")
        if any(by):
            strata = design.strata[asked[0].rows]
            words = design.occupations[asked[0].rows]
            terms += [_term(asked, by, int(stratum), strata == stratum, words) for stratum in np.unique(strata)]
    if not terms:
        raise NotOfMeansError
    strata, classes = np.unique([term.stratum for term in terms], return_inverse=True)
    hidden, words = np.zeros((len(strata), 2)), np.zeros(len(strata))
    for at, stratum in enumerate(strata):
        of_rows: dict[bytes, list[_Term]] = {}
        for term in (term for term in terms if term.stratum == stratum):
            of_rows.setdefault(term.rows.tobytes(), []).append(term)
        # All rows of a class rest on the same words, so what they lack may be missing by one chance.
        hidden[at] = np.sum([_unseen(same, paired=len(samples) == 2) for same in of_rows.values()], axis=0)
        words[at] = len(np.unique(design.occupations[np.concatenate([same[0].rows for same in of_rows.values()])]))
    shares, sizes = np.array([(term.share, term.size) for term in terms]).T
    return Terms(shares, sizes, _covariance(terms, design), classes, hidden, words)


def _term(means: Sequence[Mean], slopes: Sequence[float], stratum: int, here: NDArray[np.bool_], words: Codes) -> _Term:
    columns, count = [mean.values[here].astype(np.float64) for mean in means], len(here)
    # Around the mean of the class: how many rows a class has is fixed, so that its level brings no error.
    errors = [slope * (column - column.mean()) / count for column, slope in zip(columns, slopes, strict=True)]
    paired, fixed = len(columns) == 2, means[0].fixed
    column, scores = (columns[1] - columns[0], errors[1] - errors[0]) if paired else (columns[0], errors[0])
    # A difference is no share: it has no ends near which its spread shrinks.
    least = -1 if paired or means[0].signed else 0
    size, low, high = float(slopes[-1]) * len(column) / count, column.min(), column.max()
    share = math.nan if least or fixed or low < 0 or high > 1 else float(column.mean())
    # One word says nothing about others, whatever its answers.
    single = np.ptp(words[here]) == 0
    answer = float(column.mean()) if single else round(low)
    alike = single or max(high - answer, answer - low) <= (0 if paired else _NEVER)
    alike = alike and least <= answer <= 1 and not fixed
    mass = max(map(abs, slopes)) / count
    return _Term(stratum, means[0].rows[here], scores, mass, share, size, answer if alike else math.nan, least)


def _unseen(terms: Sequence[_Term], *, paired: bool) -> tuple[float, float]:
    """How far down and up some means of the same rows go if all their words give one answer that none gave.

    A row has one answer, so that more of one is less of another. Of two models nothing is hidden where any answer
    differs: it shows how much differences vary.
    """
    alike = [term for term in terms if not math.isnan(term.alike)]
    if paired and len(alike) < len(terms):
        return 0.0, 0.0
    sums = [0.0, *(term.size * answer for term in alike for answer in range(term.least, 2))]
    now = sum(term.size * term.alike for term in alike)
    return now - min(sums), max(sums) - now


def _covariance(terms: Sequence[_Term], design: CrossedDesign) -> TwoWay:
    count, strata = len(terms), [term.stratum for term in terms]
    occupations, cells = np.zeros((2, count, count))
    templates = np.zeros((count, int(design.templates.max()) + 1))
    of_words, of_templates = np.zeros(len(design.stratum)), np.zeros(templates.shape[1])
    for stratum in set(strata):
        inside = [at for at in range(count) if strata[at] == stratum]
        # Words belong to one class, and so do their cells, which are numbered class by class.
        first, last = np.flatnonzero(design.stratum[design.of_cell[0]] == stratum)[[0, -1]]
        by_word, by_cell = np.zeros((len(inside), len(design.stratum))), np.zeros((len(inside), last - first + 1))
        for row, at in enumerate(inside):
            rows, term = terms[at].rows, terms[at]
            by_cell[row], _ = _by_cluster(term, design.cells[rows] - first, by_cell.shape[1])
            by_word[row], mass = _by_cluster(term, design.occupations[rows], by_word.shape[1])
            of_words += mass
            templates[at], mass = _by_cluster(term, design.templates[rows], templates.shape[1])
            of_templates += mass
        block = np.ix_(inside, inside)
        occupations[block], cells[block] = by_word @ by_word.T, by_cell @ by_cell.T
    df = degrees_of_freedom(of_words, len(set(strata))), degrees_of_freedom(of_templates, 1)
    return TwoWay(occupations, templates @ templates.T, cells, df)


def _by_cluster(term: _Term, codes: Codes, count: int) -> tuple[Values, Values]:
    """Scores of clusters, so much enlarged that their squares are without bias, and the weights of clusters."""
    mass = np.asarray(term.mass * np.bincount(codes, minlength=count), dtype=np.float64)
    scores = math.sqrt(correction(mass)) * np.bincount(codes, term.scores, count)
    return np.asarray(scores, dtype=np.float64), mass


@dataclass(frozen=True)
class Interval:
    """Ends, standard error, two-sided p of the hypothesis that the true value is 0, and why they are undefined."""

    low: float = math.nan
    high: float = math.nan
    se: float = math.nan
    p: float = math.nan
    note: str = ""


def estimate_measures(
    sample: Sample,
    measures: Sequence[Measure],
    stereotypes: Sequence[str | None] = (None,),
    scoring: Scoring | None = None,
) -> dict[tuple[str, str | None], Estimate]:
    """Estimate every measure on every slice of one suite; None is everything."""
    level = (scoring or Scoring()).level
    estimates = {}
    for name in stereotypes:
        part = np.ones(sample.frame.height, dtype=bool) if name is None else sample.where("stereotype", name)
        for entry in measures:
            # n counts the rows that the formula reads, not all rows of the suite.
            rows = part & entry.rows(sample)
            value = float(entry(sample, name))
            bounds = _estimate(entry, value, [sample], name, level)
            clusters = sample.design.count(rows)
            ends = (bounds.low, bounds.high, bounds.se)
            estimates[entry.name, name] = Estimate(
                value, *ends, level, int(rows.sum()), clusters, bounds.note, bounds.p
            )
    return estimates


def estimate_functions(
    sample: Sample,
    functions: Mapping[Key, Callable[[Sample], Values]],
    bounds: tuple[float, float],
    scoring: Scoring | None = None,
) -> dict[Key, Estimate]:
    """Estimate functions of a sample whose values lie between the bounds, by their keys."""

    def entry(key: Key, function: Callable[[Sample], Values]) -> Measure:
        return Measure(str(key), "", "", lambda sample, stereotype: function(sample), *bounds)

    entries = [entry(key, function) for key, function in functions.items()]
    estimates = estimate_measures(sample, entries, scoring=scoring)
    return {key: estimates[str(key), None] for key in functions}


def estimate_difference(entry: Measure, first: Sample, second: Sample, level: float = 0.95) -> Interval:
    """Interval of ``second - first`` of one measure on the same rows: what the rows have in common cancels."""
    return _estimate(entry, float(entry(second)) - float(entry(first)), [first, second], None, level)


def _estimate(
    entry: Measure, value: float, samples: Sequence[Sample], stereotype: str | None, level: float
) -> Interval:
    if math.isnan(value):
        return Interval(note=_UNDEFINED)
    if reason := too_few(samples[0].design):
        return Interval(note=reason)
    paired, sizes = len(samples) == 2, np.array([entry.high - entry.low])
    try:
        terms = terms_of_means(entry, samples, stereotype)
    except NotOfMeansError:
        # The terms of a measure of another kind cannot be told; it is one term, with the range of the measure.
        covariance = jackknife(entry, samples, stereotype)
        if covariance is None:
            return Interval(note=_LEFT_OUT)
        share = (value - entry.low) / sizes if np.isfinite(sizes).all() and not paired else np.array([math.nan])
        terms = Terms(share, sizes, covariance, np.zeros(1, dtype=np.int64), np.zeros((1, 2)), np.array([np.inf]))
    se = terms.se
    p = terms.p(value) if paired or entry.low < 0 else math.nan
    if se < 1e-8:  # rounding
        return Interval(value, value, 0.0, p, note=_ALIKE)
    down, up = terms.reach(level)
    bounds = (-math.inf, math.inf) if paired else (entry.low, entry.high)
    return Interval(max(bounds[0], value - down), min(bounds[1], value + up), se, p)


def too_few(design: CrossedDesign) -> str:
    """Why nobody can tell how far an estimate would move with other occupations and templates; empty if one can."""
    templates = int(design.templates.max()) + 1
    if templates == 1 and np.bincount(design.stratum).max() == 1:
        one = "one occupation" if len(design.stratum) == 1 else "one occupation per stereotype"
        return f"no interval: {one} and one template leave nothing that varies"
    if design.is_crossed and len(design.stratum) > 1 and templates < FEWEST_TEMPLATES:
        shared = (
            "1 sentence shared by all words is" if templates == 1 else f"{templates} sentences shared by all words are"
        )
        return f"no interval: {shared} too few"
    return ""


def minimum_detectable_difference(estimate: Estimate) -> float:
    """Smallest true difference to another model on the same set that a paired 5 % test finds with 80 % power.

    ``(z_0.975 + z_0.8) * se``, for a model whose score varies as much over occupations and templates as this one's and
    correlates with it by one half: then the difference of the two has the standard error that each has alone.
    """
    return float(POWER_FACTOR * estimate.se)


def prediction_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float, float]:
    """Ends between which one further value like these lies, and with which probability; the extremes of few values.

    Of n values and a further one, each is equally likely to be the k-th smallest of all n + 1. The share of many
    further values inside is not this probability, but varies about it: between the extremes it is Beta(n - 1, 2).

    >>> prediction_interval(range(39))
    (0.0, 38.0, 0.95)
    """
    ordered, n = sorted(float(value) for value in values), len(values)
    if n < 2:
        return math.nan, math.nan, math.nan
    cut = max(1, math.floor((n + 1) * (1 - level) / 2 + 1e-9))
    return ordered[cut - 1], ordered[n - cut], (n + 1 - 2 * cut) / (n + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction (1979); an undefined p stays undefined and does not count.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected = np.array(p_values, dtype=np.float64)
    order = np.argsort(corrected)[: np.count_nonzero(~np.isnan(corrected))]  # NaN sorts to the end
    # The smallest is multiplied by the number of tests, the next by one less; none may come out below a smaller one.
    multiplied = corrected[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(multiplied), 1)
    return [float(p) for p in corrected]
