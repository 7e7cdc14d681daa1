"""Run one task on embeddings: a classifier, a softmax over five grades (SICK-R, STS-B), or the plain cosine (STS14)."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata

from evenli.encoders.base import Embeddings
from evenli.evaluate.senteval.data import Rows, Task
from evenli.evaluate.senteval.fitting import (
    Fitter,
    SklearnFitter,
    TorchFitter,
    Values,
    evaluate,
    row_masks,
    torch_generator,
)
from evenli.evaluate.senteval.lockstep import Problem, Recipe, Table, Tensor, train_together
from evenli.evaluate.senteval.run import SentEvalSettings, TaskResult

_GRADES = 5
_RECIPE = Recipe(passes=50, most=1000, tenacity=3)


def run_task(task: Task, embeddings: Embeddings, settings: SentEvalSettings) -> TaskResult:
    """The result of one task; ``embeddings`` are those of its texts, then of the second texts of pairs."""
    if task.subsets:
        return _similarity(task, embeddings)
    every = torch.from_numpy(embeddings).to(settings.device or "cpu")
    features, other = every[: len(task)], every[len(task) :]
    if task.others:  # the features of a pair that InferSent introduced
        features = torch.cat([(features - other).abs_(), features * other], dim=1)
    with torch.inference_mode():
        if task.labels is not None:
            return _classified(task, task.labels, features, settings)
        assert task.scores is not None
        grades, dev = graded(features, task.scores, task.splits, settings.seed, task.name)
    gold = task.scores[task.splits["test"]]
    metrics = {"pearson": 100 * pearson(grades, gold), "spearman": 100 * spearman(grades, gold)}
    return _correlated(task.name, metrics, 100 * dev, len(gold))


def _classified(task: Task, labels: Rows, features: Tensor, settings: SentEvalSettings) -> TaskResult:
    fitter: Fitter
    if settings.classifier == "sklearn":
        fitter = SklearnFitter(features.cpu().numpy(), labels, settings.seed)
    else:
        fitter = TorchFitter(features, labels, Recipe(hidden=settings.hidden), settings.seed, task.name)
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
    return _correlated(task.name, {**weighted, **plain, **parts}, math.nan, len(similarity))


def _correlated(name: str, metrics: dict[str, float], dev: float, n: int) -> TaskResult:
    note = "the predictions do not vary, so no correlation is defined" if math.isnan(metrics["pearson"]) else ""
    return TaskResult(name, metrics["pearson"], metrics, dev, n, note)


def pearson(x: Values, y: Values) -> float:
    """Product-moment correlation in [-1, 1]; NaN where one side does not vary.

    SciPy's warns there, and early stopping asks for it at every look.
    """
    x, y = x - x.mean(), y - y.mean()
    spread = np.sqrt((x @ x) * (y @ y))
    return float(np.clip(x @ y / spread, -1, 1)) if spread > 0 else math.nan


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
    table = Table.of(features)
    targets = torch.from_numpy(soft_grades(scores)).to(features.device)
    train = row_masks([splits["train"]], len(scores))
    problem = Problem(table, targets, train, splits["dev"], np.zeros(1, dtype=np.int64), np.zeros(1))
    trained = train_together(problem, _Grades(scores[splits["dev"]]), _RECIPE, torch_generator(seed, task, "grades"))
    test = torch.from_numpy(splits["test"]).to(features.device)
    return _expected(trained.network.outputs(table, test))[:, 0], float(trained.scores[0])


class _Grades:
    """Squared error of the shares to learn from, Pearson's r on the dev rows to stop by."""

    def __init__(self, scores: Values) -> None:
        self._scores = scores

    def slope(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Gradient of the mean squared error over the grades, through the softmax."""
        shares = outputs.softmax(dim=1)
        error = (shares - targets[:, :, None]).mul_(2 / _GRADES)
        return error.sub_((error * shares).sum(dim=1, keepdim=True)).mul_(shares)

    def score(self, outputs: Tensor, models: Rows) -> Values:
        """Pearson's r of every model."""
        return np.array([pearson(one, self._scores) for one in _expected(outputs).T])


def _expected(outputs: Tensor) -> Values:
    shares = outputs.softmax(dim=1).cpu().numpy().astype(np.float64)
    return np.asarray(np.einsum("ngm,g->nm", shares, np.arange(1.0, _GRADES + 1)))
