"""The trainer of SentEval against scikit-learn's solvers, on the same embeddings and folds, in one run.

    PYTHONPATH=src python benchmarks/senteval.py --data senteval --encoder vectors:glove.txt --tasks TREC,SICKE

Two solvers of scikit-learn: logistic regression (``--classifier sklearn``), and ``MLPClassifier`` without hidden layer,
whose Adam follows the published procedure: batches of 64 rows, the same weight decays, stopped by validation rows.
Prints accuracies and seconds without encoding. Cross-validated tasks take minutes: ``--kfold 3`` makes them shorter.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.neural_network import MLPClassifier

from evenli.encoders.base import encode_checked, load_encoder
from evenli.encoders.senteval.data import read_task
from evenli.encoders.senteval.fitting import Fits, SklearnFitter, TorchFitter, evaluate
from evenli.encoders.senteval.lockstep import FitRecipe


def main() -> None:
    """Measure and print."""
    arguments = parse()
    encoder = load_encoder(arguments.encoder, device="cpu")
    print(f"{torch.get_num_threads()} thread(s), {arguments.kfold} folds")
    for name in arguments.tasks.split(","):
        task = read_task(name, arguments.data)
        if task.labels is None:
            raise SystemExit(f"{name} is not a classification task")
        both = torch.from_numpy(encode_checked(encoder, task.texts + task.others))
        u, v = both[: len(task)], both[len(task) :]
        x, labels = torch.cat([(u - v).abs(), u * v], dim=1) if task.others else u, task.labels
        for seed in range(arguments.seed, arguments.seed + arguments.seeds):
            fitters: dict[str, Any] = {
                "evenli": TorchFitter(x, labels, FitRecipe(), seed, name),
                "LogisticRegression": SklearnFitter(x.numpy(), labels, seed),
                "MLPClassifier": AdamFitter(x.numpy(), labels, seed),
            }
            for label, fitter in fitters.items():
                started = time.perf_counter()
                accuracy = evaluate(fitter, task, arguments.kfold, seed).accuracy
                print(f"{name} seed {seed} {label}: {accuracy:.2f}, {time.perf_counter() - started:.1f} s", flush=True)


class AdamFitter:
    """scikit-learn's Adam, one fit after the other."""

    needs_held_out = True
    grids = TorchFitter.grids  # weight decays

    def __init__(self, features: NDArray[np.float32], labels: NDArray[np.int64], seed: int) -> None:
        self._features, self._labels, self._seed = features, labels, seed

    def fit(self, train: Any, valid: Any, strengths: NDArray[np.float64], stage: str) -> Fits:
        """Fit every model alone."""
        fits = [self._one(*some) for some in zip(train, valid, strengths, strict=True)]
        scores = np.array([score for score, _ in fits])
        return Fits(scores, lambda rows: np.stack([fit.predict(self._features[rows]) for _, fit in fits], axis=1))

    def _one(self, train: Any, valid: Any, decay: float) -> tuple[float, MLPClassifier]:
        recipe, classes = FitRecipe(), np.unique(self._labels)
        # Its penalty is divided by the rows of a batch.
        model = MLPClassifier(
            (), batch_size=recipe.batch, alpha=recipe.batch * decay, random_state=np.random.RandomState(self._seed)
        )
        best, kept, misses, passes = -1.0, ([], []), 0, 0
        while misses <= recipe.tenacity and passes <= recipe.most:
            for _ in range(recipe.passes):
                model.partial_fit(self._features[train], self._labels[train], classes=classes)
            passes += recipe.passes
            score = float((model.predict(self._features[valid]) == self._labels[valid]).mean())
            if score > best:
                best = score
                kept = [part.copy() for part in model.coefs_], [part.copy() for part in model.intercepts_]
            else:
                misses += 1
        model.coefs_, model.intercepts_ = kept
        return best, model


def parse() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the SentEval files")
    parser.add_argument("--encoder", required=True, help="as in evenli senteval, e.g. vectors:glove.txt")
    parser.add_argument("--tasks", default="TREC,MRPC,SICKE", help="classification tasks")
    parser.add_argument("--kfold", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1111, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
