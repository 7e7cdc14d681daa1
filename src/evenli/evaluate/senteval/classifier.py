"""Classifiers: a softmax layer (or a small network) trained with Adam, or scikit-learn's logistic regression."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from evenli._extras import need
from evenli.evaluate.senteval.folds import torch_generator
from evenli.evaluate.senteval.lockstep import Problem, Recipe, Table, Tensor, train_together
from evenli.evaluate.senteval.procedures import Fits, Labels, Masks

DECAYS = (1e-5, 1e-4, 1e-3, 1e-2)
"""Weight decays to choose from."""


class TorchFitter:
    """All fits of a task in lockstep."""

    needs_held_out = True

    def __init__(self, features: Tensor, labels: Labels, recipe: Recipe, seed: int, task: str) -> None:
        self._table, self._recipe = Table.of(features), recipe
        self._seed, self._task = seed, task
        device = features.device
        self._labels = torch.from_numpy(labels).to(device)
        self._targets = torch.nn.functional.one_hot(self._labels, int(labels.max()) + 1).to(features.dtype)

    def grid(self, procedure: str) -> tuple[float, ...]:
        """Weight decays."""
        return DECAYS

    def fit(
        self, train: Masks, valid: Masks, folds: NDArray[np.int64], strengths: NDArray[np.float64], stage: str
    ) -> Fits:
        """Train, each model stopped by its own validation rows."""
        # Outputs are needed only for rows that validate some model.
        watched = np.flatnonzero(valid.any(axis=0))
        problem = Problem(self._table, self._targets, train, watched, folds, strengths)
        objective = _Accuracy(self._labels, valid, watched, folds)
        generator = torch_generator(self._seed, self._task, stage)
        network, scores = train_together(problem, objective, self._recipe, generator)

        def predict(rows: NDArray[np.int64]) -> Labels:
            outputs = network.outputs(self._table, torch.from_numpy(rows).to(self._table.matrix.device))
            return np.asarray(_argmax(outputs).cpu().numpy())

        return Fits(scores, predict)


class _Accuracy:
    """Cross-entropy to learn from, right answers on the validation rows to stop by."""

    def __init__(self, labels: Tensor, valid: Masks, watched: NDArray[np.int64], folds: NDArray[np.int64]) -> None:
        device = labels.device
        self._labels = labels[torch.from_numpy(watched).to(device)]
        self._valid = torch.from_numpy(np.ascontiguousarray(valid[:, watched].T)).to(device)
        self._folds, self._sizes = folds, valid.sum(axis=1)

    def slope(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Softmax minus target."""
        return outputs.softmax(dim=1).sub_(targets[:, :, None])

    def score(self, outputs: Tensor, models: NDArray[np.int64]) -> NDArray[np.float64]:
        """Share of right answers, from whole counts, so that equal is equal."""
        folds = self._folds[models]
        right = _argmax(outputs) == self._labels[:, None]
        counted = self._valid.index_select(1, torch.from_numpy(folds).to(right.device))
        hits: NDArray[np.int64] = right.logical_and_(counted).sum(dim=0).cpu().numpy()
        return np.asarray(hits / self._sizes[folds], dtype=np.float64)


def _argmax(outputs: Tensor) -> Tensor:
    """Class of the largest output, the first one of equals."""
    if outputs.shape[1] == 2:  # much faster than a search along a middle axis
        return (outputs[:, 1] > outputs[:, 0]).long()
    return outputs.argmax(dim=1)


class SklearnFitter:
    """Logistic regression of scikit-learn: no early stop, so no rows are held out; folds run in parallel threads."""

    needs_held_out = False

    def __init__(self, features: NDArray[np.float32], labels: Labels, seed: int) -> None:
        need("sklearn", extra="encoders", purpose="the scikit-learn classifier")
        self._features, self._labels, self._seed = features, labels, seed

    def grid(self, procedure: str) -> tuple[float, ...]:
        """Inverse strengths C, the larger ones for folds on a training part, as in SentEval."""
        return tuple(2.0**power for power in (range(-1, 6) if procedure == "cross_validated" else range(-2, 4)))

    def fit(
        self, train: Masks, valid: Masks, folds: NDArray[np.int64], strengths: NDArray[np.float64], stage: str
    ) -> Fits:
        """Fit one model after the other on every core."""
        joblib = need("joblib", extra="encoders", purpose="the scikit-learn classifier")
        models = joblib.Parallel(n_jobs=-1, prefer="threads")(
            joblib.delayed(self._one)(train[fold], strength) for fold, strength in zip(folds, strengths, strict=True)
        )
        scores = [self._score(model, valid[fold]) for model, fold in zip(models, folds, strict=True)]

        def predict(rows: NDArray[np.int64]) -> Labels:
            return np.stack([model.predict(self._features[rows]) for model in models], axis=1)

        return Fits(np.array(scores), predict)

    def _one(self, rows: NDArray[np.bool_], strength: float) -> Any:
        linear = need("sklearn.linear_model", extra="encoders", purpose="the scikit-learn classifier")
        model = linear.LogisticRegression(C=strength, max_iter=1000, random_state=self._seed)
        return model.fit(self._features[rows], self._labels[rows])

    def _score(self, model: Any, rows: NDArray[np.bool_]) -> float:
        if not rows.any():
            return float("nan")
        return float((model.predict(self._features[rows]) == self._labels[rows]).mean())
