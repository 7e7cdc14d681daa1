"""Run the tasks on an encoder."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evenli.encoders.base import Embeddings, Encoder
from evenli.encoders.cache import EmbeddingCache
from evenli.errors import InputError
from evenli.evaluate.senteval.classifier import SklearnFitter, TorchFitter
from evenli.evaluate.senteval.data import TASKS, Task, folder_of, read_task
from evenli.evaluate.senteval.lockstep import Recipe, Tensor
from evenli.evaluate.senteval.procedures import Fitter, cross_validated, nested, split
from evenli.evaluate.senteval.relatedness import cosines, graded, pearson, spearman
from evenli.evaluate.senteval.results import SentEvalResult, TaskResult, settings_of
from evenli.models.loading import pick_device

CLASSIFIERS = ("torch", "sklearn")

OnTask = Callable[[str, TaskResult | None], None]


def run_senteval(
    encoder: Encoder,
    data: str | Path,
    *,
    tasks: Sequence[str] | None = None,
    seed: int = 1111,
    kfold: int = 10,
    hidden: int = 0,
    classifier: str = "torch",
    device: str | None = None,
    cache: EmbeddingCache | str | Path | None = None,
    on_task: OnTask | None = None,
    known: Mapping[str, TaskResult] | None = None,
) -> SentEvalResult:
    """Evaluate an encoder on the SentEval tasks (Conneau and Kiela 2018; the twelve of Dolci et al. 2023).

    A task whose files are not there, or broken, is reported in ``missing`` with the reason, and the others run. A
    task's result depends on the seed and its own data, not on which tasks run beside it.

    Args:
        encoder: Anything with ``encode(texts)`` that gives [n, d].
        data: Folder with the task files, flat or as SentEval's download lays them out.
        tasks: Some of TASKS; default: all.
        seed: Of folds, shuffles and initial weights.
        kfold: Folds of the cross-validated tasks, outer and inner.
        hidden: Units of a sigmoid layer before the softmax; 0 for logistic regression.
        classifier: ``torch`` (softmax layer, Adam, early stop) or ``sklearn`` (logistic regression).
        device: Where classifiers are trained: ``cpu``, ``cuda`` or ``mps``; None picks the fastest there is.
        cache: An EmbeddingCache of this encoder, or a folder to keep its embeddings in.
        on_task: Called with a task's name and None when it starts, and with its result when it is done.
        known: Results that are there already, of the same encoder, settings and data; these tasks are not run.
    """
    names = _chosen(tasks)
    if classifier not in CLASSIFIERS:
        raise InputError(f"no classifier '{classifier}'; choose {' or '.join(CLASSIFIERS)}")
    if hidden < 0 or (hidden and classifier == "sklearn"):
        raise InputError(f"hidden {hidden} with classifier {classifier}; give 0, or units for the torch classifier")
    if kfold < 2:
        raise InputError(f"kfold {kfold}: expected 2 or more")
    data = folder_of(data)
    if isinstance(cache, EmbeddingCache) and encoder is not cache and encoder is not cache.encoder:
        raise InputError("the cache is one of another encoder; give that of this one, or a folder")
    store = cache if isinstance(cache, EmbeddingCache) else EmbeddingCache(encoder, cache)
    settings = settings_of(store.identity, seed=seed, kfold=kfold, hidden=hidden, classifier=classifier)
    runner = _Runner(seed, kfold, Recipe(hidden=hidden), classifier, pick_device(torch, device))
    done: dict[str, TaskResult] = {}
    missing: dict[str, str] = {}
    for name in names:
        if known is not None and name in known:
            done[name] = known[name]
            continue
        try:
            task = read_task(name, data)
        except InputError as error:
            missing[name] = str(error)
            continue
        if on_task is not None:
            on_task(name, None)
        # An encoder that fails is no fault of the task: it stops the run.
        both = store.encode(task.texts + task.others)
        try:
            done[name] = replace(runner.run(task, both), data=task.sha256)
        except InputError as error:  # too few rows for the folds
            missing[name] = f"{name}: {error}"
            continue
        if on_task is not None:
            on_task(name, done[name])
    return SentEvalResult(done, missing, settings)


def _chosen(tasks: Sequence[str] | None) -> list[str]:
    if tasks is None:
        return list(TASKS)
    unknown = [name for name in tasks if name not in TASKS]
    if unknown or isinstance(tasks, str) or not tasks:
        raise InputError(f"no SentEval task '{', '.join(unknown)}'; choose from {', '.join(TASKS)}")
    return [name for name in TASKS if name in tasks]


class _Runner:
    def __init__(self, seed: int, kfold: int, recipe: Recipe, classifier: str, device: str) -> None:
        self._seed, self._kfold, self._recipe = seed, kfold, recipe
        self._classifier, self._device = classifier, device

    def run(self, task: Task, both: Embeddings) -> TaskResult:
        if task.subsets:
            return _similarity(task, both)
        features = self._features(task, both)
        with torch.inference_mode():
            return self._graded(task, features) if task.labels is None else self._classified(task, features)

    def _features(self, task: Task, both: Any) -> Tensor:
        """Embeddings, or [|u - v|, u * v] of pairs."""
        u = torch.from_numpy(both[: len(task)]).to(self._device)
        if not task.others:
            return u
        v = torch.from_numpy(both[len(task) :]).to(self._device)
        return torch.cat([(u - v).abs_(), u * v], dim=1)

    def _classified(self, task: Task, features: Tensor) -> TaskResult:
        labels = task.labels
        assert labels is not None
        fitter: Fitter
        if self._classifier == "sklearn":
            fitter = SklearnFitter(features.cpu().numpy(), labels, self._seed)
        else:
            fitter = TorchFitter(features, labels, self._recipe, self._seed, task.name)
        if "all" in task.splits:
            found = nested(fitter, labels, self._kfold, self._seed, task.name)
        elif "dev" in task.splits:
            found = split(fitter, labels, task.splits)
        else:
            found = cross_validated(fitter, labels, task.splits, self._kfold, self._seed, task.name)
        metrics = {"accuracy": found.accuracy}
        if task.name == "MRPC":
            metrics["f1"] = _f1(found.answers, labels[found.rows])
        return TaskResult(task.name, found.accuracy, metrics, found.dev, len(found.rows))

    def _graded(self, task: Task, features: Tensor) -> TaskResult:
        assert task.scores is not None
        found, dev = graded(features, task.scores, task.splits, self._seed, task.name)
        gold = task.scores[task.splits["test"]]
        metrics = {"pearson": 100 * pearson(found, gold), "spearman": 100 * spearman(found, gold)}
        return _correlated(task.name, metrics, 100 * dev, len(gold))


def _similarity(task: Task, both: Any) -> TaskResult:
    """Cosine against human scores, subset by subset; the mean weighs a subset by its pairs."""
    assert task.scores is not None
    found = cosines(both[: len(task)], both[len(task) :])
    sizes = np.array([len(rows) for rows in task.subsets.values()])
    metrics, plain, parts = {}, {}, {}
    for name, measure in (("pearson", pearson), ("spearman", spearman)):
        each = {part: 100 * measure(found[rows], task.scores[rows]) for part, rows in task.subsets.items()}
        values = np.array(list(each.values()))
        metrics[name] = float(np.average(values, weights=sizes))
        plain[f"{name}_mean"] = float(values.mean())
        parts.update({f"{name}_{part}": value for part, value in each.items()})
    return _correlated(task.name, {**metrics, **plain, **parts}, None, len(found))


def _correlated(name: str, metrics: dict[str, float], dev: float | None, n: int) -> TaskResult:
    note = "the predictions do not vary, so no correlation is defined" if math.isnan(metrics["pearson"]) else ""
    return TaskResult(name, metrics["pearson"], metrics, dev, n, note)


def _f1(answers: Any, labels: Any) -> float:
    """F1 of class 1 in percent; 0 if neither answers nor labels hold it."""
    hits = int(((answers == 1) & (labels == 1)).sum())
    total = int((answers == 1).sum() + (labels == 1).sum())
    return 200 * hits / total if total else 0.0
