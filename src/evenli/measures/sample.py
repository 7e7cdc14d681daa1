"""A weighted view of a prediction table: the one thing every measure reads.

A measure written against ``Sample`` is a function of weighted means. Give it one weight per row and it returns a
number; give it a matrix of resampling weights and the same code returns one number per resample.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.errors import InputError
from evenli.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.predictions import Predictions

Values = NDArray[np.float64]
Weights = NDArray[np.float32]


class Sample:
    """Predictions with row weights.

    Args:
        predictions: Rows of one suite.
        weights: None for one each; [n]; or [resamples, n].
    """

    def __init__(self, predictions: Predictions, weights: Weights | None = None) -> None:
        self.frame = predictions.frame
        if self.frame.height == 0:
            raise InputError("no predictions to measure")
        logits = predictions.logits
        shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
        self._probabilities = shifted / shifted.sum(axis=1, keepdims=True)
        self._predicted = logits.argmax(axis=1)
        self.weights = weights
        self._masks: dict[tuple[str | None, str | None], NDArray[np.bool_]] = {}
        self._totals: dict[tuple[str | None, str | None], tuple[Weights, Values]] = {}

    def weighted(self, weights: Weights) -> Sample:
        """The same rows under other weights."""
        other = Sample.__new__(Sample)
        other.__dict__.update(self.__dict__, weights=weights, _totals={})
        other.__dict__.pop("paired", None)
        return other

    def rate(self, label: str, subset: str | None = None, stereotype: str | None = None) -> Values:
        """Weighted share of rows predicted ``label``."""
        return self.mean((self._predicted == LABELS.index(label)).astype(np.float32), subset, stereotype)

    def probability(self, label: str, subset: str | None = None, stereotype: str | None = None) -> Values:
        """Weighted mean probability of ``label``."""
        return self.mean(self._probabilities[:, LABELS.index(label)], subset, stereotype)

    def above(self, label: str, threshold: float, subset: str | None = None, stereotype: str | None = None) -> Values:
        """Weighted share of rows that give ``label`` a probability strictly above ``threshold``."""
        over = self._probabilities[:, LABELS.index(label)] > threshold
        return self.mean(over.astype(np.float32), subset, stereotype)

    def mean(self, values: NDArray[np.floating], subset: str | None = None, stereotype: str | None = None) -> Values:
        """Weighted mean of a column over a slice; NaN where the slice has no weight."""
        key = (subset, stereotype)
        if key not in self._masks:
            mask = np.ones(self.frame.height, dtype=bool)
            if subset is not None:
                mask &= self._subsets == subset
            if stereotype is not None:
                mask &= self._stereotypes == stereotype
            self._masks[key] = mask
        mask = self._masks[key]
        if self.weights is None:
            return np.asarray(values[mask].mean(dtype=np.float64) if mask.any() else np.nan)
        if key not in self._totals:
            part = np.ascontiguousarray(self.weights[..., mask])
            self._totals[key] = part, part.sum(axis=-1, dtype=np.float64)
        part, total = self._totals[key]
        summed = part @ values[mask].astype(np.float32)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(total > 0, summed / total, np.nan), dtype=np.float64)

    @property
    def probabilities(self) -> Values:
        """[n, 3] softmax of the logits, in LABELS order."""
        return np.asarray(self._probabilities)

    @property
    def is_neutral(self) -> NDArray[np.bool_]:
        """Rows whose arg-max is neutral."""
        return np.asarray(self._predicted == LABELS.index(NEUTRAL))

    @cached_property
    def biased(self) -> NDArray[np.bool_]:
        """Rows with the answer a biased model gives: entailment in PS, contradiction in AS, not neutral in NS."""
        pro = (self._subsets == "PS") & (self._predicted == LABELS.index(ENTAILMENT))
        anti = (self._subsets == "AS") & (self._predicted == LABELS.index(CONTRADICTION))
        return np.asarray(pro | anti | ((self._subsets == "NS") & ~self.is_neutral))

    @property
    def predicted(self) -> NDArray[np.int64]:
        """Arg-max label index of every row."""
        return np.asarray(self._predicted)

    @cached_property
    def paired(self) -> Paired:
        """Rows that ask the same of two groups, side by side: those whose id differs in the group at its end only."""
        groups, rows = _pair_rows(self.frame)
        first = Sample(Predictions(self.frame[rows[0]]))
        if self.weights is not None:
            # The two rows share occupation and template, so a resample draws both or neither.
            first = first.weighted(np.ascontiguousarray(self.weights[..., rows[0]]))
        return Paired(groups, rows, first)

    @cached_property
    def _subsets(self) -> NDArray[np.object_]:
        return self.frame["subset"].to_numpy()

    @cached_property
    def _stereotypes(self) -> NDArray[np.object_]:
        return self.frame["stereotype"].fill_null("").to_numpy()


@dataclass(frozen=True, eq=False)
class Paired:
    """The rows of a sample in pairs, one row per group.

    Attributes:
        groups: The two groups, in alphabetical order.
        rows: [2, pairs] positions in the sample, one line per group.
        first: The rows of the first group with their weights. A mean over pairs is a mean over these.
    """

    groups: tuple[str, str]
    rows: NDArray[np.int64]
    first: Sample


def cluster_weights(frame: pl.DataFrame, resamples: int, generator: np.random.Generator) -> Weights:
    """Two-way cluster bootstrap: occupations and templates are drawn anew, a row counts the product.

    Rows share occupations and templates, so neither rows nor one of the two clusters alone are independent. Occupations
    are drawn within their stereotype because the design fixes how many of each there are. This is the pigeonhole
    bootstrap of Owen (2007); it errs on the wide side.
    """
    occupations = frame["occupation"].fill_null("").rank("dense").to_numpy().astype(np.int64) - 1
    templates = frame["template"].fill_null("").rank("dense").to_numpy().astype(np.int64) - 1
    strata = frame["stereotype"].fill_null("").rank("dense").to_numpy().astype(np.int64) - 1
    drawn = np.zeros((resamples, int(occupations.max()) + 1), dtype=np.float32)
    stratum_of = np.zeros(drawn.shape[1], dtype=np.int64)
    stratum_of[occupations] = strata
    for stratum in np.unique(strata):
        members = np.flatnonzero(stratum_of == stratum)
        drawn[:, members] = _draw(len(members), resamples, generator)
    drawn_templates = _draw(int(templates.max()) + 1, resamples, generator)
    weights: Weights = drawn[:, occupations]
    weights *= drawn_templates[:, templates]
    return weights


def row_weights(frame: pl.DataFrame, resamples: int, generator: np.random.Generator) -> Weights:
    """Naive bootstrap over rows within their subset, for comparison: too narrow, because rows are not independent."""
    weights = np.zeros((resamples, frame.height), dtype=np.float32)
    subsets = frame["subset"].to_numpy()
    for subset in np.unique(subsets):
        members = np.flatnonzero(subsets == subset)
        weights[:, members] = _draw(len(members), resamples, generator)
    return weights


def _draw(size: int, resamples: int, generator: np.random.Generator) -> Weights:
    """How often each of ``size`` members is drawn when ``size`` are drawn with replacement, ``resamples`` times."""
    picks = generator.integers(0, size, (resamples, size)) + np.arange(resamples)[:, None] * size
    return np.bincount(picks.ravel(), minlength=resamples * size).reshape(resamples, size).astype(np.float32)


def _pair_rows(frame: pl.DataFrame) -> tuple[tuple[str, str], NDArray[np.int64]]:
    """The two groups and the [2, pairs] positions of their rows; anything that is not a pair is refused by its id."""
    names, members = frame["id"].cast(pl.String).to_list(), frame["group"].to_list()
    groups = sorted({group for group in members if group is not None})
    if len(groups) > 2:
        raise InputError(f"rows are compared in pairs of two groups; the table has {', '.join(groups)}: choose two")
    found: dict[str, dict[str, int]] = {}
    for row, (name, group) in enumerate(zip(names, members, strict=True)):
        key = name.removesuffix(f"-{group}")
        if group is None or key == name:
            raise InputError(f"the id '{name}' does not end in its group; a pair has ids like 7-female and 7-male")
        if group in found.setdefault(key, {}):
            raise InputError(f"the id '{name}' occurs twice; ids must be unique")
        found[key][group] = row
    for key, pair in found.items():
        if len(pair) < 2:
            there = next(iter(pair))
            raise InputError(
                f"'{key}-{there}' has no partner: {key} has a row for {there} only, a pair needs two groups"
            )
    first, second = groups
    rows = np.array([(pair[first], pair[second]) for pair in found.values()], dtype=np.int64).T
    for column in ("occupation", "stereotype", "template"):
        differs = np.flatnonzero(~frame[column][rows[0]].eq_missing(frame[column][rows[1]]).to_numpy())
        if differs.size:
            one, other = (names[line[differs[0]]] for line in rows)
            raise InputError(f"'{one}' and '{other}' differ in {column}; a pair differs in its group only")
    return (first, second), rows
