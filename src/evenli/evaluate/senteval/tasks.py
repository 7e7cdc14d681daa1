"""Run one task on embeddings: features, classifier or correlation, metrics."""

from __future__ import annotations

import math

import numpy as np
import torch

from evenli.encoders.base import Embeddings
from evenli.evaluate.senteval.classifier import SklearnFitter, TorchFitter
from evenli.evaluate.senteval.data import Rows, Task
from evenli.evaluate.senteval.lockstep import Recipe, Tensor
from evenli.evaluate.senteval.procedures import Fitter, Labels, evaluate
from evenli.evaluate.senteval.relatedness import cosines, graded, pearson, spearman
from evenli.evaluate.senteval.results import SentEvalSettings, TaskResult
from evenli.models.loading import pick_device


class TaskRunner:
    """Scores the embeddings of a task.

    Args:
        settings: Classifier, folds and seed.
    """

    def __init__(self, settings: SentEvalSettings) -> None:
        self._settings, self._device = settings, pick_device(torch, settings.device)

    def run(self, task: Task, embeddings: Embeddings) -> TaskResult:
        """The result of one task; ``embeddings`` are those of its texts, then of the second texts of pairs."""
        if task.subsets:
            return _similarity(task, embeddings)
        features = torch.from_numpy(embeddings[: len(task)]).to(self._device)
        if task.others:  # the features of a pair that InferSent introduced
            other = torch.from_numpy(embeddings[len(task) :]).to(self._device)
            features = torch.cat([(features - other).abs_(), features * other], dim=1)
        with torch.inference_mode():
            return self._graded(task, features) if task.labels is None else self._classified(task, features)

    def _classified(self, task: Task, features: Tensor) -> TaskResult:
        labels, settings = task.labels, self._settings
        assert labels is not None
        fitter: Fitter
        if settings.classifier == "sklearn":
            fitter = SklearnFitter(features.cpu().numpy(), labels, settings.seed)
        else:
            fitter = TorchFitter(features, labels, Recipe(hidden=settings.hidden), settings.seed, task.name)
        outcome = evaluate(fitter, task, settings.kfold, settings.seed)
        metrics = {"accuracy": outcome.accuracy}
        if task.name == "MRPC":
            metrics["f1"] = _f1(outcome.answers, labels[outcome.rows])
        return TaskResult(task.name, outcome.accuracy, metrics, outcome.dev, len(outcome.rows))

    def _graded(self, task: Task, features: Tensor) -> TaskResult:
        assert task.scores is not None
        grades, dev = graded(features, task.scores, task.splits, self._settings.seed, task.name)
        gold = task.scores[task.splits["test"]]
        metrics = {"pearson": 100 * pearson(grades, gold), "spearman": 100 * spearman(grades, gold)}
        return _correlated(task.name, metrics, 100 * dev, len(gold))


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


def _f1(answers: Labels, labels: Rows) -> float:
    """F1 of class 1 in percent; 0 if neither answers nor labels hold it."""
    hits = int(((answers == 1) & (labels == 1)).sum())
    total = int((answers == 1).sum() + (labels == 1).sum())
    return 200 * hits / total if total else 0.0
