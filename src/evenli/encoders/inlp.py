"""INLP, iterative nullspace projection: fit a linear classifier, project out what it looks at, repeat.

Ravfogel et al. 2020, "Null it out". A linear classifier finds less in every round; nothing is promised for a fixed
number of rounds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenli.core.errors import InputError
from evenli.core.format import number
from evenli.core.mitigation import Method
from evenli.encoders.eraser import Eraser, FloatArray, basis, labelled, projection
from evenli.encoders.settings import InlpSettings

_HELD_OUT = 0.2
_RIDGE = 1e-3  # of the mean variance: keeps the classifiers finite without steering them


def fit_inlp(x: ArrayLike, y: ArrayLike, iterations: int, generator: np.random.Generator) -> Eraser:
    """Project out what ridge regression on one-hot classes, with equal weight for each class, looks at.

    Rounds end early once its balanced accuracy on held-out rows is no better than chance: further rounds would remove
    noise. ``generator`` chooses the fifth of each class that is held out.
    """
    rows, classes = labelled(x, y)
    if not 1 <= iterations < rows.shape[1]:
        raise InputError(f"{iterations} rounds: expected 1 or more, and fewer than the {rows.shape[1]} dimensions")
    held = np.zeros(len(rows), dtype=bool)
    for label, count in enumerate(np.bincount(classes)):
        of_class = generator.permutation(np.flatnonzero(classes == label))
        held[of_class[: max(1, round(_HELD_OUT * count))]] = True
    chance = 1 / (classes.max() + 1)
    # All rounds start from the embeddings given: projecting a projection again would pile up rounding.
    removed = np.zeros((0, rows.shape[1]))
    history: list[float] = []
    for round_ in range(iterations + 1):
        left = rows - (rows @ removed.T) @ removed
        weights, offset = _ridge(left[~held], classes[~held])
        right = (left[held] @ weights.T + offset).argmax(axis=1) == classes[held]
        history.append(float(np.mean([right[classes[held] == label].mean() for label in np.unique(classes)])))
        if history[-1] <= chance or round_ == iterations:
            break
        # Only differences between the rows of weights decide, so their mean is no direction of the concept.
        new = basis(weights - weights.mean(axis=0))
        removed = basis(np.vstack([removed, new - (new @ removed.T) @ removed]))
    if not len(removed):
        raise InputError(
            f"nothing linear to erase: held-out accuracy is {number(history[0])}, chance is {number(chance)}"
        )
    return projection(removed, method="INLP", history=tuple(history))


def _ridge(x: FloatArray, classes: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
    """Weights [c, d] and offsets [c] of ridge regression on one-hot classes, each class with the same total weight."""
    share = 1 / (np.bincount(classes) * (classes.max() + 1))
    weight = share[classes]
    mean = weight @ x
    centred = (x - mean) * np.sqrt(weight)[:, None]
    onehot = (np.eye(classes.max() + 1)[classes] - 1 / (classes.max() + 1)) * np.sqrt(weight)[:, None]
    gram = centred.T @ centred
    # All rows equal leave a gram of zeros, which any ridge makes solvable.
    gram[np.diag_indices_from(gram)] += _RIDGE * np.trace(gram) / len(gram) or 1.0
    weights = np.linalg.solve(gram, centred.T @ onehot).T
    return weights, -(weights @ mean)


INLP = Method(
    "inlp",
    "Project out what linear classifiers find of gender",
    "Ravfogel et al. 2020",
    lambda data, settings, generator: fit_inlp(
        *data.labelled(), min(settings.iterations, data.female.shape[1] - 1), generator
    ),
    InlpSettings(),
)
