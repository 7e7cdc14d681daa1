"""A weighted view of a prediction table: the one thing every measure reads.

A measure written against ``Sample`` is a function of weighted means. Give it one weight per row and it returns a
number; give it a matrix of resampling weights and the same code returns one number per resample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.errors import InputError
from evenli.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.predictions import Predictions

Values = NDArray[np.float64]
Weights = NDArray[np.float32]
AT_ONCE = 12_000_000
"""Weights held at a time, 48 MB: all resamples of NLI-CoAL, a few of a set of millions. Slices copy them, four times at
most."""
_EXACT, _ROUNDED = 1e-9, 1e-5
"""How far above a threshold a mean is still rounding: of float64 sums, and of the float32 sums of resamples."""


class Sample:
    """Predictions with row weights.

    Args:
        predictions: Rows of one suite.
        weights: None for one each; [n]; or [resamples, n].
        published: Our own measures keep what only published ones count: words that state a group themselves.
    """

    def __init__(self, predictions: Predictions, weights: Weights | None = None, *, published: bool = False) -> None:
        self.frame, self.header, self.published = predictions.frame, predictions.header, published
        if self.frame.height == 0:
            raise InputError("no predictions to measure")
        logits = predictions.logits
        shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
        self.probabilities: Values = shifted / shifted.sum(axis=1, keepdims=True)
        """[n, 3] softmax of the logits, in LABELS order."""
        self.predicted: NDArray[np.int64] = logits.argmax(axis=1)
        """Arg-max label index of every row."""
        self.weights = weights
        self._masks: dict[tuple[str | None, str | None], NDArray[np.bool_] | slice] = {}
        self._totals: dict[tuple[str | None, str | None], tuple[Weights, Values]] = {}
        self._pair_means: dict[str, tuple[Values, Values]] = {}
        self._pair_columns: dict[str, Weights] = {}
        self.kept: dict[str, Any] = {}
        """What a measure found in the rows, whatever their weights."""
        self._sums: dict[str, Values] = {}

    def weighted(self, weights: Weights) -> Sample:
        """The same rows under other weights."""
        other = Sample.__new__(Sample)
        other.__dict__.update(self.__dict__, weights=weights, _totals={}, _pair_means={}, _sums={})
        other.__dict__.pop("paired", None)
        return other

    def rate(self, label: str, subset: str | None = None, stereotype: str | None = None) -> Values:
        """Weighted share of rows predicted ``label``."""
        return self.mean((self.predicted == LABELS.index(label)).astype(np.float32), subset, stereotype)

    def probability(self, label: str, subset: str | None = None, stereotype: str | None = None) -> Values:
        """Weighted mean probability of ``label``."""
        return self.mean(self.probabilities[:, LABELS.index(label)], subset, stereotype)

    def above(self, label: str, threshold: float, subset: str | None = None, stereotype: str | None = None) -> Values:
        """Weighted share of rows that give ``label`` a probability strictly above ``threshold``."""
        over = self.probabilities[:, LABELS.index(label)] > threshold
        return self.mean(over.astype(np.float32), subset, stereotype)

    def above_in_pairs(self, label: str, threshold: float, stereotype: str | None = None) -> Values:
        """Weighted share of pairs of occupation and group word whose mean probability of ``label`` is above it.

        The mean is over the pair's templates. A pair weighs the mean weight of its rows, so without weights each counts
        once. NaN where a hypothesis does not end in its template, because the word cannot be told then.
        """
        found = self._word_pairs
        if found is None:
            return np.full(() if self.weights is None else self.weights.shape[:-1], np.nan)
        order, starts = found
        if label not in self._pair_means:
            sizes = np.diff(starts, append=self.frame.height)
            probabilities = self.probabilities[order, LABELS.index(label)]
            if self.weights is None:
                self._pair_means[label] = np.add.reduceat(probabilities, starts) / sizes, np.ones(len(starts))
            else:
                if label not in self._pair_columns:
                    ones = np.ones_like(probabilities)
                    self._pair_columns[label] = np.stack([probabilities, ones], axis=1).astype(np.float32)
                weights, columns = self.weights[..., order], self._pair_columns[label]
                ends = zip(starts, starts + sizes, strict=True)
                sums = np.stack([weights[..., a:b] @ columns[a:b] for a, b in ends], axis=-2).astype(np.float64)
                with np.errstate(invalid="ignore"):  # a pair that was not drawn has no mean and no weight
                    self._pair_means[label] = sums[..., 0] / sums[..., 1], sums[..., 1] / sizes
        means, weight = self._pair_means[label]
        if stereotype is not None:
            mask = self._stereotypes[order][starts] == stereotype
            means, weight = means[..., mask], weight[..., mask]
        above = means > threshold + (_EXACT if self.weights is None else _ROUNDED)
        summed, total = (weight * above).sum(axis=-1), weight.sum(axis=-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(total > 0, summed / total, np.nan), dtype=np.float64)

    def mean(self, values: NDArray[np.floating], subset: str | None = None, stereotype: str | None = None) -> Values:
        """Weighted mean of a column over a slice; NaN where the slice has no weight."""
        key = (subset, stereotype)
        if key not in self._masks:
            mask = np.ones(self.frame.height, dtype=bool)
            if subset is not None:
                mask &= self._subsets == subset
            if stereotype is not None:
                mask &= self._stereotypes == stereotype
            # Nothing is copied where the slice is everything.
            self._masks[key] = slice(None) if mask.all() else mask
        chosen = np.ascontiguousarray(values[self._masks[key]])
        if self.weights is None:
            return np.asarray(chosen.mean(dtype=np.float64) if chosen.size else np.nan)
        if key not in self._totals:
            rows = self._masks[key]
            part = self.weights if isinstance(rows, slice) else self.weights.take(np.flatnonzero(rows), axis=-1)
            part = np.ascontiguousarray(part)
            self._totals[key] = part, part.sum(axis=-1, dtype=np.float64)
        part, total = self._totals[key]
        summed = part @ chosen.astype(np.float32, copy=False)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(total > 0, summed / total, np.nan), dtype=np.float64)

    def sums(self, name: str, columns: Callable[[Sample], Values]) -> Values:
        """Weighted sums of [n, k] columns, [k] or [resamples, k]; both are made once and kept under ``name``."""
        if name not in self.kept:
            self.kept[name] = columns(self)
        if name not in self._sums:
            table: Values = self.kept[name]
            summed = table.sum(axis=0) if self.weights is None else self.weights @ table.astype(self.weights.dtype)
            self._sums[name] = np.asarray(summed, dtype=np.float64)
        return self._sums[name]

    @property
    def is_neutral(self) -> NDArray[np.bool_]:
        """Rows whose arg-max is neutral."""
        return np.asarray(self.predicted == LABELS.index(NEUTRAL))

    @cached_property
    def biased(self) -> NDArray[np.bool_]:
        """Rows with the answer a biased model gives: entailment in PS, contradiction in AS, not neutral in NS."""
        pro = (self._subsets == "PS") & (self.predicted == LABELS.index(ENTAILMENT))
        anti = (self._subsets == "AS") & (self.predicted == LABELS.index(CONTRADICTION))
        return np.asarray(pro | anti | ((self._subsets == "NS") & ~self.is_neutral))

    @cached_property
    def paired(self) -> Paired:
        """Rows that ask the same of two groups, side by side: those whose id differs in the group at its end only."""
        groups, rows, first = self._pairing
        if self.weights is not None:
            # The two rows share occupation and template, so a resample draws both or neither.
            first = first.weighted(self.weights.take(rows[0], axis=-1))
        return Paired(groups, rows, first)

    @cached_property
    def _pairing(self) -> tuple[tuple[str, str], NDArray[np.int64], Sample]:
        groups, rows = _pair_rows(self.frame)
        return groups, rows, Sample(Predictions(self.frame[rows[0]]))

    @cached_property
    def _word_pairs(self) -> tuple[NDArray[np.int64] | slice, NDArray[np.int64]] | None:
        """Row order that puts each pair of occupation and group word side by side, and where each pair begins."""
        bare, template = pl.col("hypothesis").str.strip_chars_end(" ."), pl.col("template").str.strip_chars_end(" .")
        columns = self.frame.select(
            pl.col("occupation").fill_null(""), word=bare.str.strip_suffix(template), found=bare.str.ends_with(template)
        )
        if not columns["found"].fill_null(False).all():
            return None
        pairs = columns.select(pl.struct("occupation", "word").rank("dense")).to_series().to_numpy().astype(np.int64)
        # Dev's generator writes them side by side already, and then nothing need be copied.
        together = int((np.diff(pairs) != 0).sum()) + 1 == len(np.unique(pairs))
        order = slice(None) if together else np.argsort(pairs, kind="stable")
        return order, np.flatnonzero(np.diff(pairs[order], prepend=-1))

    @cached_property
    def _subsets(self) -> NDArray[np.object_]:
        return self.frame["subset"].to_numpy()

    @cached_property
    def _stereotypes(self) -> NDArray[np.object_]:
        return self.frame["stereotype"].fill_null("").to_numpy()


@dataclass(frozen=True, eq=False)
class Paired:
    """The rows of a sample in pairs: the two groups in alphabetical order, and the [2, pairs] rows of each.

    ``first`` holds the rows of the first group with their weights; a mean over pairs is a mean over these.
    """

    groups: tuple[str, str]
    rows: NDArray[np.int64]
    first: Sample


def weight_chunks(
    frame: pl.DataFrame,
    resamples: int,
    generator: np.random.Generator,
    method: str = "cluster",
    *,
    at_once: int = AT_ONCE,
) -> Iterator[Weights]:
    """Bootstrap weights, [resamples, rows] a few resamples at a time, so that memory does not grow with the table.

    ``cluster`` is the two-way cluster bootstrap: occupations and templates are drawn anew, a row counts the product.
    Rows share occupations and templates, so neither rows nor one of the two alone are independent. Occupations are
    drawn within their stereotype because the design fixes how many of each there are. This is the pigeonhole bootstrap
    of Owen (2007); it errs on the wide side. ``row`` draws rows within their subset, for comparison: too narrow.

    How the resamples are cut does not change what is drawn. A chunk holds at most ``at_once`` weights, or one resample.
    """
    size = min(resamples, max(1, at_once // frame.height))
    if 8 < size < resamples:
        # BLAS sums eight rows abreast: whole eights give the digits that all rows at once give.
        size -= size % 8
    expand = {"cluster": _clusters, "row": _rows}[method](frame, _Drawing(resamples, size, at_once, generator))
    for start in range(0, resamples, size):
        yield expand(start)


@dataclass(frozen=True, eq=False)
class _Drawing:
    """How draws are cut: ``size`` resamples at a time, at most ``at_once`` counts kept."""

    resamples: int
    size: int
    at_once: int
    generator: np.random.Generator

    def members(self, count: int) -> Callable[[int], Weights]:
        """Draw among ``count`` members for all resamples; gives the counts of the chunk that begins at a resample."""
        if count * self.resamples <= self.at_once:
            kept = draw_counts(count, self.resamples, self.generator)
            return lambda start: kept[start : start + self.size]
        # Too many to keep: remember where the generator stood before each chunk and draw again when it is due.
        stood = {}
        for start in range(0, self.resamples, self.size):
            stood[start] = deepcopy(self.generator)
            draw_counts(count, self._rows(start), self.generator)
        return lambda start: draw_counts(count, self._rows(start), deepcopy(stood[start]))

    def _rows(self, start: int) -> int:
        return min(self.size, self.resamples - start)


def _clusters(frame: pl.DataFrame, drawing: _Drawing) -> Callable[[int], Weights]:
    codes = frame.select(pl.col("occupation", "template", "stereotype").fill_null("").rank("dense").cast(pl.Int64) - 1)
    occupations, templates, strata = (column.to_numpy() for column in codes)
    stratum_of = np.zeros(int(occupations.max()) + 1, dtype=np.int64)
    stratum_of[occupations] = strata
    groups = [np.flatnonzero(stratum_of == stratum) for stratum in np.unique(stratum_of)]
    drawn = [(members, drawing.members(len(members))) for members in groups]
    drawn_templates = drawing.members(int(templates.max()) + 1)

    def expand(start: int) -> Weights:
        of_template = drawn_templates(start)
        of_occupation = np.zeros((len(of_template), len(stratum_of)), dtype=np.float32)
        for members, counts in drawn:
            of_occupation[:, members] = counts(start)
        weights: Weights = np.take(of_occupation, occupations, axis=1)
        weights *= np.take(of_template, templates, axis=1)
        return weights

    return expand


def _rows(frame: pl.DataFrame, drawing: _Drawing) -> Callable[[int], Weights]:
    subsets = frame["subset"].to_numpy()
    groups = [np.flatnonzero(subsets == subset) for subset in np.unique(subsets)]
    drawn = [(members, drawing.members(len(members))) for members in groups]

    def expand(start: int) -> Weights:
        blocks = [(members, counts(start)) for members, counts in drawn]
        weights = np.zeros((len(blocks[0][1]), frame.height), dtype=np.float32)
        for members, counts in blocks:
            weights[:, members] = counts
        return weights

    return expand


def draw_counts(size: int, resamples: int, generator: np.random.Generator) -> Weights:
    """How often each of ``size`` members is drawn when ``size`` are drawn with replacement, ``resamples`` times."""
    picks = generator.integers(0, size, (resamples, size))
    picks += np.arange(resamples)[:, None] * size
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
            (one,) = pair
            raise InputError(f"'{key}-{one}' has no partner: {key} has a row for {one} only, a pair needs two groups")
    first, second = groups
    rows = np.array([(pair[first], pair[second]) for pair in found.values()], dtype=np.int64).T
    for column in ("occupation", "stereotype", "template"):
        differs = np.flatnonzero(~frame[column][rows[0]].eq_missing(frame[column][rows[1]]).to_numpy())
        if differs.size:
            one, other = (names[line[differs[0]]] for line in rows)
            raise InputError(f"'{one}' and '{other}' differ in {column}; a pair differs in its group only")
    return (first, second), rows
