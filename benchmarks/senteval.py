"""The lockstep trainer of SentEval against the same procedure with one fit after the other.

    PYTHONPATH=src python benchmarks/senteval.py --data senteval --encoder vectors:glove.txt --tasks TREC,SICKE

The plain way is what the published procedure says: for every fold and every weight decay a torch.nn.Linear of its own,
batches of exactly 64 rows, torch.optim.Adam. Both use the same folds. Prints the seconds of either (embeddings not
counted), their ratio and both accuracies, which must agree within --tolerance points. Cross-validated tasks take
the plain way minutes on a CPU: --kfold 3 makes them shorter.
"""

from __future__ import annotations

import argparse
import copy
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from evenli.encoders.base import encode_checked, load_encoder
from evenli.encoders.senteval.data import Task, read_task
from evenli.encoders.senteval.fitting import DECAYS, Fits, Fitter, Outcome, TorchFitter, evaluate, torch_generator
from evenli.encoders.senteval.lockstep import Recipe

SEED = 1111


def main() -> None:
    """Measure and print."""
    arguments = parse()
    encoder = load_encoder(arguments.encoder, device=arguments.device)
    print(f"{torch.get_num_threads()} thread(s), {arguments.device}, {arguments.kfold} folds")
    for name in arguments.tasks.split(","):
        task = read_task(name, arguments.data)
        if task.labels is None:
            raise SystemExit(f"{name} is no classification task")
        both = torch.from_numpy(encode_checked(encoder, task.texts + task.others)).to(arguments.device)
        u, v = both[: len(task)], both[len(task) :]
        features = torch.cat([(u - v).abs(), u * v], dim=1) if task.others else u
        plain = PlainFitter(features, task.labels)
        slow, one_by_one = timed(plain, task, arguments.kfold)
        with torch.inference_mode():
            together = TorchFitter(features, task.labels, Recipe(), SEED, name)
            fast, lockstep = timed(together, task, arguments.kfold)
        print(
            f"{name}: {plain.fits} fits one by one {slow:.1f} s, in lockstep {fast:.1f} s: {slow / fast:.1f}x; "
            f"accuracy {one_by_one.accuracy:.2f} and {lockstep.accuracy:.2f}, "
            f"dev {one_by_one.dev:.2f} and {lockstep.dev:.2f}; "
            f"same answer in {(one_by_one.answers == lockstep.answers).mean():.1%}"
        )
        assert abs(one_by_one.accuracy - lockstep.accuracy) <= arguments.tolerance, "the two differ by more than chance"


class PlainFitter:
    """One fit after the other, as published."""

    needs_held_out = True

    def __init__(self, features: Any, labels: NDArray[np.int64]) -> None:
        self._features, self._labels = features, torch.from_numpy(labels).to(features.device)
        self.fits = 0

    def grid(self, procedure: str) -> tuple[float, ...]:
        """Weight decays."""
        return DECAYS

    def fit(
        self,
        train: NDArray[np.bool_],
        valid: NDArray[np.bool_],
        folds: NDArray[np.int64],
        strengths: NDArray[np.float64],
        stage: str,
    ) -> Fits:
        """Every model on its own."""
        fits = [
            self._one(np.flatnonzero(train[fold]), np.flatnonzero(valid[fold]), decay)
            for fold, decay in zip(folds, strengths, strict=True)
        ]

        def predict(rows: NDArray[np.int64]) -> NDArray[np.int64]:
            with torch.no_grad():
                answers = [model(self._features[rows]).argmax(dim=1).cpu().numpy() for model, _ in fits]
            return np.stack(answers, axis=1)

        return Fits(np.array([score for _, score in fits]), predict)

    def _one(self, rows: NDArray[np.int64], watched: NDArray[np.int64], decay: float) -> tuple[Any, float]:
        self.fits += 1
        recipe, generator = Recipe(), torch_generator(SEED)
        x, y = self._features[rows], self._labels[rows]
        dev_x, dev_y = self._features[watched], self._labels[watched]
        torch.manual_seed(SEED)
        model = torch.nn.Linear(x.shape[1], int(self._labels.max()) + 1).to(x.device)
        adam = torch.optim.Adam(model.parameters(), weight_decay=decay)
        best, kept, misses, passes = -1.0, model, 0, 0
        while misses <= recipe.tenacity and passes <= recipe.most:
            for _ in range(recipe.passes):
                for batch in torch.randperm(len(x), generator=generator).to(x.device).split(recipe.batch):
                    loss = torch.nn.functional.cross_entropy(model(x[batch]), y[batch])
                    adam.zero_grad()
                    loss.backward()
                    adam.step()
            passes += recipe.passes
            with torch.no_grad():
                score = float((model(dev_x).argmax(dim=1) == dev_y).double().mean())
            if score > best:
                best, kept = score, copy.deepcopy(model)
            else:
                misses += 1
        return kept, best


def timed(fitter: Fitter, task: Task, kfold: int) -> tuple[float, Outcome]:
    """Seconds and outcome of a task's procedure."""
    started = time.perf_counter()
    outcome = evaluate(fitter, task, kfold, SEED)
    return time.perf_counter() - started, outcome


def parse() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the SentEval files")
    parser.add_argument("--encoder", required=True, help="as in evenli senteval, e.g. vectors:glove.txt")
    parser.add_argument("--tasks", default="TREC,MRPC,SICKE", help="classification tasks")
    parser.add_argument("--kfold", type=int, default=10)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tolerance", type=float, default=2.0, help="points of accuracy")
    return parser.parse_args()


if __name__ == "__main__":
    main()
