"""Tasks on scores: a softmax over five grades for SICK-R and STS-B, the plain cosine for STS14."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata

from evenli.evaluate.senteval.folds import torch_generator
from evenli.evaluate.senteval.lockstep import Problem, Recipe, Table, Tensor, train_together

GRADES = 5
RECIPE = Recipe(passes=50, most=1000, tenacity=3)

Values = NDArray[np.float64]


def pearson(x: Values, y: Values) -> float:
    """Product-moment correlation in [-1, 1]; NaN where one side does not vary.

    SciPy's warns there, and early stopping asks for it at every look.
    """
    x, y = x - x.mean(), y - y.mean()
    spread = np.sqrt((x @ x) * (y @ y))
    return float(np.clip(x @ y / spread, -1, 1)) if spread > 0 else float("nan")


def spearman(x: Values, y: Values) -> float:
    """Correlation of ranks, equal values sharing the mean of theirs."""
    return pearson(rankdata(x), rankdata(y))


def soft_grades(scores: Values) -> NDArray[np.float32]:
    """Every score as shares of the two grades around it (Tai et al. 2015).

    Grades are 1 to 5. A score below 1, as STS-B has, keeps its share of grade 1 and leaves the rest of the weight to
    none, as SentEval has it.
    """
    grade = np.arange(1, GRADES + 1)
    below = np.floor(scores)[:, None]
    share = scores[:, None] - below
    return np.where(grade == below + 1, share, np.where(grade == below, 1 - share, 0)).astype(np.float32)


def graded(
    features: Tensor, scores: Values, splits: dict[str, NDArray[np.int64]], seed: int, task: str
) -> tuple[Values, float]:
    """Learn the grades on the training rows; the expected grade of the test rows, and Pearson's r on the dev rows."""
    table = Table.of(features)
    targets = torch.from_numpy(soft_grades(scores)).to(features.device)
    mask = np.zeros((1, len(scores)), dtype=bool)
    mask[0, splits["train"]] = True
    problem = Problem(table, targets, mask, splits["dev"], np.zeros(1, dtype=np.int64), np.zeros(1))
    trained = train_together(problem, _Grades(scores[splits["dev"]]), RECIPE, torch_generator(seed, task, "grades"))
    test = torch.from_numpy(splits["test"]).to(features.device)
    return _expected(trained.network.outputs(table, test))[:, 0], float(trained.scores[0])


class _Grades:
    """Squared error of the shares to learn from, Pearson's r on the dev rows to stop by."""

    def __init__(self, scores: Values) -> None:
        self._scores = scores

    def slope(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Gradient of the mean squared error over the grades, through the softmax."""
        shares = outputs.softmax(dim=1)
        error = (shares - targets[:, :, None]).mul_(2 / GRADES)
        return error.sub_((error * shares).sum(dim=1, keepdim=True)).mul_(shares)

    def score(self, outputs: Tensor, models: NDArray[np.int64]) -> Values:
        """Pearson's r of every model."""
        return np.array([pearson(one, self._scores) for one in _expected(outputs).T])


def _expected(outputs: Tensor) -> Values:
    shares = outputs.softmax(dim=1).cpu().numpy().astype(np.float64)
    return np.asarray(np.einsum("ngm,g->nm", shares, np.arange(1.0, GRADES + 1)))


def cosines(u: NDArray[np.float32], v: NDArray[np.float32]) -> Values:
    """Cosine of every pair of rows; 0 for a zero vector, which has no direction."""
    first, second = u.astype(np.float64), v.astype(np.float64)
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    products = np.einsum("nd,nd->n", first, second)
    return np.asarray(np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0))
