"""Run one task on embeddings: a classifier, a softmax over five grades (SICK-R, STS-B), or the plain cosine (STS14).

A classification task has nested folds, folds on its training part, or given splits. The classifier is a softmax layer
(or a small network) trained with Adam, or scikit-learn's logistic regression.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch.nn import functional as F  # noqa: N812 - its name everywhere

from evenli.core.errors import InputError
from evenli.core.extras import need
from evenli.core.io import hash_text
from evenli.encoders.base import Embeddings
from evenli.encoders.senteval import SentEvalSettings, TaskResult
from evenli.encoders.senteval.data import Rows, Task
from evenli.encoders.senteval.lockstep import FitRecipe, Masks, Objective, Tensor, Values, train_together

DECAYS = (1e-5, 1e-4, 1e-3, 1e-2)
_HELD_OUT = 0.05  # share of the training rows that a final fit is stopped on
_GRADES = 5
_GRADED = FitRecipe(passes=50, most=1000, tenacity=3)

Parts = dict[tuple[object, ...], Rows]  # by the purpose that seeds their folds


def run_task(task: Task, embeddings: Embeddings, settings: SentEvalSettings) -> TaskResult:
    """The result of one task; ``embeddings`` are those of its texts, then of the second texts of pairs."""
    if task.subsets:
        return _similarity(task, embeddings)
    with torch.inference_mode(mode=False), torch.enable_grad():  # whatever mode the caller is in
        every = torch.from_numpy(embeddings).to(settings.device or "cpu")
        features, other = every[: len(task)], every[len(task) :]
        if task.others:  # the features of a pair that InferSent introduced
            features = torch.cat([(features - other).abs_(), features * other], dim=1)
        if task.labels is not None:
            return _classified(task, task.labels, features, settings)
        assert task.scores is not None
        grades, dev = graded(features, task.scores, task.splits, settings.seed, task.name)
    gold = task.scores[task.splits["test"]]
    metrics = {"pearson": 100 * pearson(grades, gold), "spearman": 100 * spearman(grades, gold)}
    return _correlated(task, metrics, 100 * dev, len(gold))


def _classified(task: Task, labels: Rows, features: Tensor, settings: SentEvalSettings) -> TaskResult:
    fitter: Fitter
    if settings.classifier == "sklearn":
        fitter = SklearnFitter(features.cpu().numpy(), labels, settings.seed)
    else:
        fitter = TorchFitter(features, labels, FitRecipe(hidden=settings.hidden), settings.seed, task.name)
    outcome = evaluate(fitter, task, settings.kfold, settings.seed)
    metrics = {"accuracy": outcome.accuracy}
    if task.name == "MRPC":  # F1 of class 1
        answered, true = outcome.answers == 1, labels[outcome.rows] == 1
        metrics["f1"] = 200 * int((answered & true).sum()) / max(1, int(answered.sum() + true.sum()))
    return TaskResult(task.name, outcome.accuracy, metrics, outcome.dev, len(outcome.rows))


def _similarity(task: Task, embeddings: Embeddings) -> TaskResult:
    """Cosine against human scores, subset by subset; the mean weighs a subset by its pairs."""
    scores = task.scores
    assert scores is not None
    similarity = cosines(embeddings[: len(task)], embeddings[len(task) :])
    sizes = [len(rows) for rows in task.subsets.values()]
    weighted, plain, parts = {}, {}, {}
    for name, measure in (("pearson", pearson), ("spearman", spearman)):
        each = {part: 100 * measure(similarity[rows], scores[rows]) for part, rows in task.subsets.items()}
        weighted[name] = float(np.average(list(each.values()), weights=sizes))
        plain[f"{name}_mean"] = float(np.mean(list(each.values())))
        parts.update({f"{name}_{part}": value for part, value in each.items()})
    return _correlated(task, {**weighted, **plain, **parts}, math.nan, len(similarity))


def _correlated(task: Task, metrics: dict[str, float], dev: float, n: int) -> TaskResult:
    notes = ["the predictions do not vary, so no correlation is defined"] if math.isnan(metrics["pearson"]) else []
    if task.unscored:
        notes.append(f"{task.unscored:,} of {len(task) + task.unscored:,} pairs have no human score and are left out")
    return TaskResult(task.name, metrics["pearson"], metrics, dev, n, "; ".join(notes))


def pearson(x: Values, y: Values) -> float:
    """Product-moment correlation in [-1, 1]; NaN where one side does not vary.

    SciPy's warns there, and early stopping asks for it at every look.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # scores beyond all bounds have no correlation
        x, y = x - x.mean(), y - y.mean()
        spread = np.sqrt((x @ x) * (y @ y))
        return float(np.clip(x @ y / spread, -1, 1)) if 0 < spread < np.inf else math.nan


def spearman(x: Values, y: Values) -> float:
    """Correlation of ranks, equal values sharing the mean of theirs."""
    return pearson(rankdata(x), rankdata(y))


def cosines(u: NDArray[np.float32], v: NDArray[np.float32]) -> Values:
    """Cosine of every pair of rows; 0 for a zero vector, which has no direction."""
    first, second = u.astype(np.float64), v.astype(np.float64)
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    products = np.einsum("nd,nd->n", first, second)
    return np.asarray(np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0))


def soft_grades(scores: Values) -> NDArray[np.float32]:
    """Every score as shares of the two grades around it (Tai et al. 2015).

    Grades are 1 to 5. A score below 1, as STS-B has, keeps its share of grade 1 and leaves the rest of the weight to
    none, as SentEval has it.
    """
    grade = np.arange(1, _GRADES + 1)
    below = np.floor(scores)[:, None]
    share = scores[:, None] - below
    return np.where(grade == below + 1, share, np.where(grade == below, 1 - share, 0)).astype(np.float32)


def graded(features: Tensor, scores: Values, splits: dict[str, Rows], seed: int, task: str) -> tuple[Values, float]:
    """Learn the grades on the training rows; the expected grade of the test rows, and Pearson's r on the dev rows."""
    targets = torch.from_numpy(soft_grades(scores)).to(features.device)

    def loss(outputs: Tensor, rows: Tensor) -> Tensor:
        return (outputs.softmax(dim=1) - targets[rows][:, :, None]).square().mean(dim=1)

    def score(outputs: Tensor, models: Rows) -> Values:
        return np.array([pearson(grades, scores[splits["dev"]]) for grades in _expected(outputs).T])

    objective = Objective(_GRADES, loss, splits["dev"], score)
    train = row_masks([splits["train"]], len(scores))
    generator = torch.Generator().manual_seed(seed_of(seed, task, "grades"))
    outputs, reached = train_together(features, objective, train, np.zeros(1), _GRADED, generator)
    return _expected(outputs(splits["test"]))[:, 0], float(reached[0])


def _expected(outputs: Tensor) -> Values:
    shares = outputs.softmax(dim=1).cpu().numpy().astype(np.float64)
    return np.asarray(np.einsum("ngm,g->nm", shares, np.arange(1.0, _GRADES + 1)))


def seed_of(*names: object) -> int:
    """A seed of its own for every seed given, task and purpose; generators of torch are always on the CPU."""
    return int(hash_text("|".join(map(str, names)))[:14], 16)


def stratified_folds(labels: Rows, count: int, generator: np.random.Generator) -> Rows:
    """Deal the rows of every class in random order to ``count`` folds; the fold of every row.

    The deal goes on where the class before ended, so that folds differ by one row at most, also within a class.
    """
    smallest = int(np.bincount(labels)[np.unique(labels)].min())
    if not 2 <= count <= smallest:
        raise InputError(f"{count} folds: the smallest class has {smallest} rows; choose 2 to {smallest} folds")
    folds = np.empty(len(labels), dtype=np.int64)
    dealt = 0
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == label))
        folds[rows] = (np.arange(len(rows)) + dealt) % count
        dealt += len(rows)
    return folds


class Fits(NamedTuple):
    """Models after training: share of right validation answers of each, and their answers to some rows."""

    scores: Values
    predict: Callable[[Rows], Rows]  # [rows, models]


class FitResult(NamedTuple):
    """Right answers in percent on the test rows and in the search, and every answer given (tested rows only)."""

    accuracy: float
    dev: float
    rows: Rows
    answers: Rows


def evaluate(fitter: Fitter, task: Task, count: int, seed: int) -> FitResult:
    """Evaluate by the splits that a task comes with: none, all three, or train and test."""
    labels, splits, key = task.labels, task.splits, (seed, task.name)
    assert labels is not None
    if "all" in splits:
        # Every fold is tested once; its regularisation is searched by folds within the others.
        outer = stratified_folds(labels, count, np.random.default_rng(seed_of(*key, "outer")))
        rests: Parts = {("inner", fold): np.flatnonzero(outer != fold) for fold in range(count)}
        fits, dev = _searched(fitter, labels, rests, count, "nested", key)
        rows = np.arange(len(labels))
        # Every row is answered by the one model that has not seen its fold.
        answers = fits.predict(rows)[rows, outer]
        accuracy = float(np.mean([100 * (answers == labels)[outer == fold].mean() for fold in range(count)]))
        return FitResult(accuracy, float(dev.mean()), rows, answers)
    test = splits["test"]
    if "dev" in splits:
        # The search is the final fit as well: the published procedure does not train again on train and dev.
        grid = fitter.grids["split"]
        train, valid = (row_masks([splits[part]] * len(grid), len(labels)) for part in ("train", "dev"))
        fits = fitter.fit(train, valid, np.array(grid), "search")
        chosen, dev = _best(fits.scores[None])
        answers = fits.predict(test)[:, chosen[0]]
    else:
        fits, dev = _searched(fitter, labels, {("folds",): splits["train"]}, count, "cross_validated", key)
        answers = fits.predict(test)[:, 0]
    return FitResult(float(100 * (answers == labels[test]).mean()), float(dev[0]), test, answers)


def _searched(
    fitter: Fitter, labels: Rows, parts: Parts, count: int, procedure: str, key: tuple[int, str]
) -> tuple[Fits, Values]:
    """For every part of the rows the model that learned from all of it, and what the search saw; key: seed and task."""
    grid, rows = np.array(fitter.grids[procedure]), len(labels)
    # All folds of all parts are one search, so that they can be trained together.
    learn, check = [], []
    for purpose, part in parts.items():
        folds = stratified_folds(labels[part], count, np.random.default_rng(seed_of(*key, *purpose)))
        learn += [part[folds != fold] for fold in range(count)]
        check += [part[folds == fold] for fold in range(count)]
    train, valid = (row_masks(some, rows).repeat(len(grid), axis=0) for some in (learn, check))
    fits = fitter.fit(train, valid, np.tile(grid, len(learn)), "search")
    chosen, dev = _best(fits.scores.reshape(len(parts), count, len(grid)).mean(axis=1))
    # The final fits; some rows are held out where they stop the training.
    learn, check = [], []
    for fold, part in enumerate(parts.values()):
        mixed = np.random.default_rng(seed_of(*key, "held out", fold)).permutation(part)
        held = max(1, int(_HELD_OUT * len(part))) if fitter.needs_held_out else 0
        learn.append(mixed[held:])
        check.append(mixed[:held])
    return fitter.fit(row_masks(learn, rows), row_masks(check, rows), grid[chosen], "final"), dev


def row_masks(parts: Sequence[Rows], rows: int) -> Masks:
    """[parts, rows], true where a row is in a part."""
    masks = np.zeros((len(parts), rows), dtype=bool)
    for mask, part in zip(masks, parts, strict=True):
        mask[part] = True
    return masks


def _best(scores: Values) -> tuple[Rows, Values]:
    """Best column of every row and its score in percent, to two places: of equal ones the first of the grid wins.

    As in SentEval. That is the weakest decay of the torch classifier and the smallest C, so the strongest penalty, of
    scikit-learn's.
    """
    percent = np.round(100 * scores, 2)
    return np.argmax(percent, axis=1), percent.max(axis=1)


class TorchFitter:
    """All fits of a task at once, each model stopped by its own validation rows."""

    needs_held_out = True  # rows that stop a fit
    grids = dict.fromkeys(("nested", "split", "cross_validated"), DECAYS)  # strengths of the regularisation to try

    def __init__(self, features: Tensor, labels: Rows, recipe: FitRecipe, seed: int, task: str) -> None:
        self._features, self._recipe, self._seed, self._task = features, recipe, seed, task
        self._labels = torch.from_numpy(labels).to(features.device)

    def fit(self, train: Masks, valid: Masks, strengths: Values, stage: str) -> Fits:
        """Fit one model for every entry of ``strengths``; masks are [models, rows].

        Cross-entropy is to learn from, the share of right validation answers to stop by.
        """
        watched = np.flatnonzero(valid.any(axis=0))
        counted = torch.from_numpy(valid[:, watched].T.copy()).to(self._labels.device)

        def loss(outputs: Tensor, rows: Tensor) -> Tensor:
            labels = self._labels[rows][:, None].expand(-1, outputs.shape[2])
            return F.cross_entropy(outputs, labels, reduction="none")

        def score(outputs: Tensor, models: Rows) -> Values:  # from whole counts, so that equal is equal
            right = _argmax(outputs) == self._labels[watched][:, None]
            return np.asarray((right & counted[:, models]).sum(dim=0).cpu().numpy() / valid[models].sum(axis=1))

        objective = Objective(int(self._labels.max()) + 1, loss, watched, score)
        generator = torch.Generator().manual_seed(seed_of(self._seed, self._task, stage))
        outputs, scores = train_together(self._features, objective, train, strengths, self._recipe, generator)
        return Fits(scores, lambda rows: _argmax(outputs(rows)).cpu().numpy())


def _argmax(outputs: Tensor) -> Tensor:
    """Class of the largest output, the first one of equals."""
    if outputs.shape[1] == 2:  # much faster than a search along a middle axis
        return (outputs[:, 1] > outputs[:, 0]).long()
    return outputs.argmax(dim=1)


class SklearnFitter:
    """Logistic regression of scikit-learn: no early stop, so no rows are held out; folds run in parallel threads."""

    needs_held_out = False
    # Inverse strengths C, the larger ones for folds on a training part, as in SentEval.
    grids = dict.fromkeys(("nested", "split"), tuple(2.0**power for power in range(-2, 4)))
    grids["cross_validated"] = tuple(2.0**power for power in range(-1, 6))

    def __init__(self, features: NDArray[np.float32], labels: Rows, seed: int) -> None:
        purpose = "the scikit-learn classifier"
        self._linear = need("sklearn.linear_model", extra="encoders", purpose=purpose)
        self._joblib = need("joblib", extra="encoders", purpose=purpose)
        self._features, self._labels, self._seed = features, labels, seed

    def fit(self, train: Masks, valid: Masks, strengths: Values, stage: str) -> Fits:
        """Fit one model after the other on every core."""

        def answers(rows: Masks, strength: float) -> Rows:
            model = self._linear.LogisticRegression(C=strength, max_iter=1000, random_state=self._seed)
            fitted = model.fit(self._features[rows], self._labels[rows])
            return np.asarray(fitted.predict(self._features))

        run = self._joblib.Parallel(n_jobs=-1, prefer="threads")
        rows = zip(train, strengths, strict=True)
        given = np.stack(run(self._joblib.delayed(answers)(*fit) for fit in rows), axis=1)
        right = (given == self._labels[:, None]).T
        scores = [right[at, mask].mean() if mask.any() else np.nan for at, mask in enumerate(valid)]
        return Fits(np.array(scores), lambda asked: given[asked])


Fitter = TorchFitter | SklearnFitter
