"""How a task chooses its regularisation and is tested: nested folds, folds on the training part, or given splits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from evenli.evaluate.senteval.data import Task
from evenli.evaluate.senteval.folds import numpy_generator, stratified_folds

_HELD_OUT = 0.05
"""Share of the training rows that a final fit is stopped on."""

Labels = NDArray[np.int64]
Masks = NDArray[np.bool_]


class Fits(NamedTuple):
    """Models after training.

    Attributes:
        scores: Share of right answers of every model on the validation rows of its fold.
        predict: Answers of every model to some rows, [rows, models].
    """

    scores: NDArray[np.float64]
    predict: Callable[[NDArray[np.int64]], Labels]


class Fitter(Protocol):
    """Trains classifiers on parts of one task's rows."""

    needs_held_out: bool
    """True if a fit is stopped by validation rows."""

    def grid(self, procedure: str) -> tuple[float, ...]:
        """Strengths of the regularisation to try."""
        ...

    def fit(
        self, train: Masks, valid: Masks, folds: NDArray[np.int64], strengths: NDArray[np.float64], stage: str
    ) -> Fits:
        """Fit one model for every entry of ``folds`` and ``strengths``; masks are [folds, rows]."""
        ...


@dataclass(frozen=True, eq=False)
class Outcome:
    """Right answers in percent on the test rows and in the search, and every answer given (tested rows only)."""

    accuracy: float
    dev: float
    rows: NDArray[np.int64]
    answers: Labels


def evaluate(fitter: Fitter, task: Task, count: int, seed: int) -> Outcome:
    """Evaluate by the splits that a task comes with: none, all three, or train and test.

    Args:
        fitter: Trains the classifiers.
        task: A task on classes.
        count: Folds, outer and inner.
        seed: Of the folds.
    """
    assert task.labels is not None
    if "all" in task.splits:
        return nested(fitter, task.labels, count, seed, task.name)
    if "dev" in task.splits:
        return split(fitter, task.labels, task.splits)
    return cross_validated(fitter, task.labels, task.splits, count, seed, task.name)


def nested(fitter: Fitter, labels: Labels, count: int, seed: int, task: str) -> Outcome:
    """Every fold is tested once; its regularisation is searched by folds within the others."""
    outer = stratified_folds(labels, count, numpy_generator(seed, task, "outer"))
    rests = [np.flatnonzero(outer != fold) for fold in range(count)]
    # All inner folds of all outer folds are one search, so that they can be trained together.
    masks = [
        _fold_masks(rest, labels, count, numpy_generator(seed, task, "inner", fold)) for fold, rest in enumerate(rests)
    ]
    train, valid = (np.concatenate(part) for part in zip(*masks, strict=True))
    grid = fitter.grid("nested")
    chosen, dev = _best(_search(fitter, train, valid, grid).reshape(count, count, len(grid)).mean(axis=1))
    train, valid = _final(rests, len(labels), fitter, seed, task)
    fits = fitter.fit(train, valid, np.arange(count), np.array(grid)[chosen], "final")
    rows = np.arange(len(labels))
    # Every row is answered by the one model that has not seen its fold.
    answers = fits.predict(rows)[rows, outer]
    right = answers == labels
    accuracy = float(np.mean([100 * right[outer == fold].mean() for fold in range(count)]))
    return Outcome(accuracy, float(dev.mean()), rows, answers)


def cross_validated(
    fitter: Fitter, labels: Labels, splits: dict[str, NDArray[np.int64]], count: int, seed: int, task: str
) -> Outcome:
    """The regularisation is searched by folds of the training part; one fit on all of it is tested."""
    rest = splits["train"]
    train, valid = _fold_masks(rest, labels, count, numpy_generator(seed, task, "folds"))
    grid = fitter.grid("cross_validated")
    chosen, dev = _best(_search(fitter, train, valid, grid).reshape(1, count, len(grid)).mean(axis=1))
    train, valid = _final([rest], len(labels), fitter, seed, task)
    fits = fitter.fit(train, valid, np.zeros(1, dtype=np.int64), np.array(grid)[chosen], "final")
    return _tested(fits.predict(splits["test"])[:, 0], labels, splits["test"], float(dev[0]))


def split(fitter: Fitter, labels: Labels, splits: dict[str, NDArray[np.int64]]) -> Outcome:
    """The regularisation is searched on the dev part; the fit that was best there is tested."""
    train = np.zeros((1, len(labels)), dtype=bool)
    valid = np.zeros_like(train)
    train[0, splits["train"]] = valid[0, splits["dev"]] = True
    grid = fitter.grid("split")
    # The search is the final fit as well: the published procedure does not train again on train and dev.
    fits = fitter.fit(train, valid, np.zeros(len(grid), dtype=np.int64), np.array(grid), "search")
    chosen, dev = _best(fits.scores[None])
    answers = fits.predict(splits["test"])[:, chosen[0]]
    return _tested(answers, labels, splits["test"], float(dev[0]))


def _fold_masks(
    rows: NDArray[np.int64], labels: Labels, count: int, generator: np.random.Generator
) -> tuple[Masks, Masks]:
    """Divide some rows into folds; which rows every fold learns from and which it is validated on, [folds, rows]."""
    folds = stratified_folds(labels[rows], count, generator)
    train = np.zeros((count, len(labels)), dtype=bool)
    valid = np.zeros_like(train)
    for fold in range(count):
        train[fold, rows[folds != fold]] = True
        valid[fold, rows[folds == fold]] = True
    return train, valid


def _search(fitter: Fitter, train: Masks, valid: Masks, grid: tuple[float, ...]) -> NDArray[np.float64]:
    folds = np.repeat(np.arange(len(train)), len(grid))
    return fitter.fit(train, valid, folds, np.tile(grid, len(train)), "search").scores


def _best(scores: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Best column of every row and its score in percent, to two places: of equal ones the first of the grid wins.

    As in SentEval. That is the weakest decay of the torch classifier and the smallest C, so the strongest penalty, of
    scikit-learn's.
    """
    percent = np.round(100 * scores, 2)
    return np.argmax(percent, axis=1), percent.max(axis=1)


def _final(parts: list[NDArray[np.int64]], rows: int, fitter: Fitter, seed: int, task: str) -> tuple[Masks, Masks]:
    train = np.zeros((len(parts), rows), dtype=bool)
    valid = np.zeros_like(train)
    for fold, part in enumerate(parts):
        mixed = numpy_generator(seed, task, "held out", fold).permutation(part)
        held = max(1, int(_HELD_OUT * len(part))) if fitter.needs_held_out else 0
        valid[fold, mixed[:held]] = True
        train[fold, mixed[held:]] = True
    return train, valid


def _tested(answers: Labels, labels: Labels, rows: NDArray[np.int64], dev: float) -> Outcome:
    return Outcome(float(100 * (answers == labels[rows]).mean()), dev, rows, answers)
