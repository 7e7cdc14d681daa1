"""A weighted view of a prediction table: the one thing every measure reads.

A measure written against ``Sample`` is a function of weighted means. Give it one weight per row and it returns a
number; give it a matrix of weights and the same code returns one number per weighting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.core.binary import check_fork
from evenli.core.errors import InputError
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.core.registry import DEFAULT_SUITE

Values = NDArray[np.float64]
Weights = NDArray[np.float32]
Codes = NDArray[np.int64]
Found = TypeVar("Found")
_EXACT, _ROUNDED = 1e-9, 1e-5
"""How far above a threshold a mean is still rounding: of float64 sums, and of the float32 sums of weightings."""


@dataclass(frozen=True)
class LogitTable:
    """Rows with logits, plus the header of the run that made them."""

    frame: pl.DataFrame
    header: dict[str, Any] = field(default_factory=dict)

    @property
    def logits(self) -> NDArray[np.float64]:
        """[n, 3] in LABELS order."""
        return self.frame.select(LABELS).to_numpy().astype(np.float64)


class Sample:
    """Predictions with row weights.

    Args:
        predictions: Rows of one suite.
        weights: None for one each; [n]; or [weightings, n].
        published: Our own measures keep what only published ones count: words that state a group themselves.
    """

    def __init__(self, predictions: LogitTable, weights: Weights | None = None, *, published: bool = False) -> None:
        check_fork()
        self.frame, self.header, self.published = predictions.frame, predictions.header, published
        if self.frame.height == 0:
            raise InputError("no predictions to measure")
        logits = predictions.logits
        # Shifted by the largest, which changes no probability: exp of a large logit would overflow.
        shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
        self.probabilities: Values = shifted / shifted.sum(axis=1, keepdims=True)
        """[n, 3] softmax of the logits, in LABELS order."""
        self.predicted: NDArray[np.int64] = logits.argmax(axis=1)
        """Arg-max label index of every row."""
        self.weights = weights
        self._masks: dict[tuple[str | None, str | None], NDArray[np.bool_] | slice] = {}
        self._where: dict[tuple[str, str], NDArray[np.bool_]] = {}
        self._pair_means: dict[str, tuple[Values, Values]] = {}
        self._pair_columns: dict[str, Weights] = {}
        self.kept: dict[str, Any] = {}
        """What ``once`` found."""

    @property
    def card(self) -> dict[str, Any]:
        """What the header says of these pairs; empty where it says nothing."""
        suites = self.frame["suite"].unique().to_list() if "suite" in self.frame.columns else [DEFAULT_SUITE]
        return next((card for card in self.header.get("data", []) if card.get("suite") in suites), {})

    def once(self, name: str, find: Callable[[Sample], Found]) -> Found:
        """What is found in the rows, whatever their weights; it is looked for once."""
        if name not in self.kept:
            self.kept[name] = find(self)
        kept: Found = self.kept[name]
        return kept

    @property
    def undefined(self) -> Values:
        """NaN, one for each weighting."""
        return np.full(() if self.weights is None else self.weights.shape[:-1], np.nan)

    def weighted(self, weights: Weights) -> Sample:
        """The same rows under other weights."""
        # What was found in the rows is shared; what depends on weights (means of pairs, paired) is found anew.
        reweighted = Sample.__new__(Sample)
        reweighted.__dict__.update(self.__dict__, weights=weights, _pair_means={})
        reweighted.__dict__.pop("paired", None)
        return reweighted

    def on(self, design: CrossedDesign) -> Sample:
        """This sample with the design of another on the same rows, which need not be found and held twice."""
        self.__dict__["design"] = design
        return self

    def rate(
        self,
        label: str,
        subset: str | None = None,
        stereotype: str | None = None,
        rows: NDArray[np.bool_] | None = None,
    ) -> Values:
        """Weighted share of rows predicted ``label``, over a slice or over given rows."""
        return self.mean((self.predicted == LABELS.index(label)).astype(np.float32), subset, stereotype, rows)

    def probability(self, label: str, stereotype: str | None = None) -> Values:
        """Weighted mean probability of ``label``."""
        return self.mean(self.probabilities[:, LABELS.index(label)], stereotype=stereotype)

    def above(self, label: str, threshold: float, stereotype: str | None = None) -> Values:
        """Weighted share of rows that give ``label`` a probability strictly above ``threshold``."""
        over = self.probabilities[:, LABELS.index(label)] > threshold
        return self.mean(over.astype(np.float32), stereotype=stereotype)

    def above_in_pairs(self, label: str, threshold: float, stereotype: str | None = None) -> Values:
        """Weighted share of pairs of occupation and group word whose mean probability of ``label`` is above it.

        The mean is over the pair's templates. A pair weighs the mean weight of its rows, so without weights each counts
        once. NaN where a hypothesis does not end in its template, because the word cannot be told then.
        """
        word_pairs = self._word_pairs
        if word_pairs is None:
            return self.undefined
        order, starts = word_pairs
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
            mask = self.where("stereotype", stereotype)[order][starts]
            means, weight = means[..., mask], weight[..., mask]
        above = means > threshold + (_EXACT if self.weights is None else _ROUNDED)
        summed, total = (weight * above).sum(axis=-1), weight.sum(axis=-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(total > 0, summed / total, np.nan), dtype=np.float64)

    def mean(
        self,
        values: NDArray[np.floating],
        subset: str | None = None,
        stereotype: str | None = None,
        rows: NDArray[np.bool_] | None = None,
        *,
        signed: bool = False,
        fixed: bool = False,
    ) -> Values:
        """Weighted mean of a column over a slice, or over given rows; NaN where they have no weight.

        ``signed`` says that the column lies on both sides of 0, as differences do. Its interval then does not take 0
        for the end of a share, also where no negative value was seen. ``fixed`` says that the column does not depend on
        answers at all, as scores and weights of words: it is no share, and no answer is missing in it.
        """
        return self._mean(values, self._mask(subset, stereotype) if rows is None else rows, signed, fixed)

    def _mean(self, values: NDArray[np.floating], mask: NDArray[np.bool_] | slice, signed: bool, fixed: bool) -> Values:
        chosen = np.ascontiguousarray(values[mask])
        if self.weights is None:
            return np.asarray(chosen.mean(dtype=np.float64) if chosen.size else np.nan)
        # Sums in float64 and products in float32: the matrix of weights is large, and a mean needs six digits.
        part = np.ascontiguousarray(self.weights[..., mask])
        total = part.sum(axis=-1, dtype=np.float64)
        summed = part @ chosen.astype(np.float32, copy=False)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(total > 0, summed / total, np.nan), dtype=np.float64)

    def _mask(self, subset: str | None, stereotype: str | None) -> NDArray[np.bool_] | slice:
        """The rows of a slice; nothing is copied where it is everything."""
        key = (subset, stereotype)
        if key not in self._masks:
            mask = np.ones(self.frame.height, dtype=bool)
            if subset is not None:
                mask &= self.where("subset", subset)
            if stereotype is not None:
                mask &= self.where("stereotype", stereotype)
            self._masks[key] = slice(None) if mask.all() else mask
        return self._masks[key]

    @property
    def is_neutral(self) -> NDArray[np.bool_]:
        """Rows whose arg-max is neutral."""
        return np.asarray(self.predicted == LABELS.index(NEUTRAL))

    @cached_property
    def design(self) -> CrossedDesign:
        """Which occupation and template each row belongs to."""
        return CrossedDesign.of(self.frame)

    @cached_property
    def biased(self) -> NDArray[np.bool_]:
        """Rows with the answer a biased model gives: entailment in PS, contradiction in AS, not neutral in NS."""
        pro = self.where("subset", "PS") & (self.predicted == LABELS.index(ENTAILMENT))
        anti = self.where("subset", "AS") & (self.predicted == LABELS.index(CONTRADICTION))
        return np.asarray(pro | anti | (self.where("subset", "NS") & ~self.is_neutral))

    @cached_property
    def paired(self) -> Paired:
        """Rows that ask the same of two groups, side by side: those whose id differs in the group at its end only."""
        groups, rows, first = self._pairing
        if self.weights is not None:
            # The two rows share occupation and template, so both are drawn or neither is.
            first = first.weighted(self.weights.take(rows[0], axis=-1))
        return Paired(groups, rows, first)

    @cached_property
    def _pairing(self) -> tuple[tuple[str, str], NDArray[np.int64], Sample]:
        # Without weights, so that all weightings share what is computed in the rows.
        groups, rows = _pair_rows(self.frame)
        return groups, rows, Sample(LogitTable(self.frame[rows[0]]))

    @cached_property
    def _word_pairs(self) -> tuple[NDArray[np.int64] | slice, NDArray[np.int64]] | None:
        """Row order that puts each pair of occupation and group word side by side, and where each pair begins."""
        bare, template = pl.col("hypothesis").str.strip_chars_end(" ."), pl.col("template").str.strip_chars_end(" .")
        columns = self.frame.select(
            pl.col("occupation").fill_null(""), word=bare.str.strip_suffix(template), ends=bare.str.ends_with(template)
        )
        if not columns["ends"].fill_null(False).all():
            return None
        pairs = columns.select(pl.struct("occupation", "word").rank("dense")).to_series().to_numpy().astype(np.int64)
        # Dev's generator writes them side by side already, and then nothing need be copied.
        together = int((np.diff(pairs) != 0).sum()) + 1 == len(np.unique(pairs))
        order = slice(None) if together else np.argsort(pairs, kind="stable")
        return order, np.flatnonzero(np.diff(pairs[order], prepend=-1))

    def where(self, column: str, value: str) -> NDArray[np.bool_]:
        """Rows with a value in a column, found once."""
        if (column, value) not in self._where:
            chosen = (self.frame[column].fill_null("") == value).to_numpy()
            chosen.setflags(write=False)
            self._where[column, value] = chosen
        return self._where[column, value]


@dataclass(frozen=True, eq=False)
class CrossedDesign:
    """Which occupation, template and cell (one occupation in one template) each row belongs to, as numbers from 0.

    ``stratum`` is the stereotype of each occupation: the design fixes how many occupations of each there are.
    ``of_cell`` gives occupation and template of each cell.
    """

    occupations: Codes
    templates: Codes
    cells: Codes
    stratum: Codes
    of_cell: tuple[Codes, Codes]

    @classmethod
    def of(cls, frame: pl.DataFrame) -> CrossedDesign:
        """Read it from a table."""
        # Ranks number the texts without a dictionary of Python objects, which a million rows would make large.
        columns = frame.select(pl.col("occupation", "template", "stereotype").fill_null("").rank("dense") - 1)
        words, templates, strata = (column.to_numpy().astype(np.int64) for column in columns)
        # A word listed under two stereotypes is two occupations.
        keys, occupations = np.unique(strata * (int(words.max()) + 1) + words, return_inverse=True)
        count = int(templates.max()) + 1
        pairs, cells = np.unique(occupations * count + templates, return_inverse=True)
        of_cell = (pairs // count, pairs % count)
        return cls(occupations, templates, cells, keys // (int(words.max()) + 1), of_cell)

    def count(self, rows: NDArray[np.bool_]) -> dict[str, int]:
        """Occupations and templates among some rows."""
        ways = {"occupations": self.occupations, "templates": self.templates}
        return {name: int((np.bincount(codes[rows]) > 0).sum()) for name, codes in ways.items()}

    @cached_property
    def is_crossed(self) -> bool:
        """Whether occupations share their templates: more than half of all combinations are asked."""
        return 2 * len(self.of_cell[0]) > len(self.stratum) * (int(self.templates.max()) + 1)

    @cached_property
    def strata(self) -> Codes:
        """The stratum of every row."""
        return self.stratum[self.occupations]


@dataclass(frozen=True, eq=False)
class Paired:
    """The rows of a sample in pairs: the two groups in alphabetical order, and the [2, pairs] rows of each.

    ``first`` holds the rows of the first group with their weights; a mean over pairs is a mean over these.
    """

    groups: tuple[str, str]
    rows: NDArray[np.int64]
    first: Sample

    def mean(
        self,
        values: NDArray[Any],
        stereotype: str | None = None,
        pairs: NDArray[np.bool_] | None = None,
        *,
        signed: bool = False,
    ) -> Values:
        """Weighted mean of a column over pairs: all, those of a slice, or some of these."""
        if pairs is not None and stereotype is not None:
            pairs = pairs & self.first.where("stereotype", stereotype)
        return self.first.mean(values.astype(np.float64), stereotype=stereotype, rows=pairs, signed=signed)


def _pair_rows(frame: pl.DataFrame) -> tuple[tuple[str, str], NDArray[np.int64]]:
    """The two groups and the [2, pairs] positions of their rows; anything that is not a pair is refused by its id."""
    names, members = frame["id"].cast(pl.String).to_list(), frame["group"].to_list()
    groups = sorted({group for group in members if group is not None})
    if len(groups) > 2:
        raise InputError(f"rows are compared in pairs of two groups; the table has {', '.join(groups)}: choose two")
    pairs: dict[str, dict[str, int]] = {}
    for row, (name, group) in enumerate(zip(names, members, strict=True)):
        key = name.removesuffix(f"-{group}")
        if group is None or key == name:
            raise InputError(f"the id '{name}' does not end in its group; a pair has ids like 7-female and 7-male")
        if group in pairs.setdefault(key, {}):
            raise InputError(f"the id '{name}' occurs twice; ids must be unique")
        pairs[key][group] = row
    for key, pair in pairs.items():
        if len(pair) < 2:
            (name,) = pair
            raise InputError(f"'{key}-{name}' has no partner: {key} has a row for {name} only, a pair needs two groups")
    first, second = groups
    rows = np.array([(pair[first], pair[second]) for pair in pairs.values()], dtype=np.int64).T
    # An interval clusters by these, and both rows of a pair must be in one cluster.
    for column in ("occupation", "stereotype", "template"):
        differs = np.flatnonzero(~frame[column][rows[0]].eq_missing(frame[column][rows[1]]).to_numpy())
        if differs.size:
            name, other = (names[line[differs[0]]] for line in rows)
            raise InputError(f"'{name}' and '{other}' differ in {column}; a pair differs in its group only")
    return (first, second), rows
