"""LEACE, least-squares concept erasure in closed form, by the authors' library concept-erasure.

Belrose et al. 2023. Class means are equal afterwards, with about the least change that an affine map needs for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from evenli.core.errors import InputError
from evenli.core.extras import need
from evenli.core.mitigation import Method
from evenli.encoders.base import paired
from evenli.encoders.eraser import ROUNDING, Eraser, FloatArray, labelled
from evenli.encoders.settings import LeaceSettings

_RARE = 5  # sentences of a pair of words that make it a concept of its own
_EQUAL = "the class means are equal already: there is nothing linear to erase"
_NOTHING = 1e-9  # canonical correlation under which there is nothing to erase


def fit_leace(x: ArrayLike, y: ArrayLike, *, shrinkage: bool = True) -> Eraser:
    """LEACE of classes.

    On the rows given the cross-covariance with the class is zero, hence class means are equal, hence no linear
    classifier beats the best constant. New rows keep the promise as far as they share these moments: with fewer rows
    than several times d, expect some leakage on them. ``shrinkage`` of the covariance is better for rows to come;
    without it the rows given change least.
    """
    rows, classes = labelled(x, y)
    onehot = np.eye(classes.max() + 1)[classes]
    means = (onehot.T @ rows) / onehot.sum(axis=0)[:, None]
    if np.abs(means - means.mean(axis=0)).max() <= ROUNDING * np.abs(rows - rows.mean(axis=0)).max():
        raise InputError(_EQUAL)
    return _leace(rows, onehot, shrinkage=shrinkage)


def fit_leace_pairs(female: ArrayLike, male: ArrayLike, concepts: Sequence[str]) -> Eraser:
    """LEACE with a concept for every pair of gender words, +1 for its female and -1 for its male word.

    What tells *woman* from *man* and what tells *mother* from *father* are different directions, and in text they are
    mixed in other shares than in any fit. With gender as one concept only their mean over the fit is erased, and a
    probe on other text finds the rest. ``concepts`` names the pair behind every row; rare ones are taken together, and
    there are no more than an eighth of the dimensions.
    """
    sides = paired(female, male)
    if len(concepts) != len(sides[0]):
        raise InputError(f"{len(concepts)} concepts for {len(sides[0])} rows; give one for each")
    rows, _ = labelled(np.concatenate(sides), np.repeat([0, 1], len(concepts)))
    # As for one concept: where all sentences together do not differ, gender was erased before.
    if np.abs(sides[0].mean(axis=0) - sides[1].mean(axis=0)).max() <= ROUNDING * np.abs(rows - rows.mean(axis=0)).max():
        raise InputError(_EQUAL)
    # Each concept takes a direction away, and the encoder should keep most of them.
    most = max(1, rows.shape[1] // 8)
    named = [name for name, count in Counter(concepts).most_common() if count >= _RARE]
    column = {name: at for at, name in enumerate(named[: most - 1])}  # the last column is for all the others
    z = np.zeros((len(rows), len(column) + 1))
    for row, name in enumerate(concepts):
        z[row, column.get(name, -1)], z[row + len(concepts), column.get(name, -1)] = 1.0, -1.0
    return _leace(rows, z[:, z.any(axis=0)], shrinkage=True)


def _leace(rows: FloatArray, concepts: FloatArray, *, shrinkage: bool) -> Eraser:
    """The eraser of the linear relation between rows [n, d] and concepts [n, k]."""
    torch = need("torch", extra="encoders", purpose="LEACE")
    library = need("concept_erasure", extra="encoders", purpose="LEACE")
    fitted = library.LeaceEraser.fit(
        torch.from_numpy(rows),
        torch.from_numpy(concepts),
        shrinkage=shrinkage,
        # Would mix in a projection of another rank where the trace grows; outputs are not fed back into a model here.
        constrain_cov_trace=False,
        svd_tol=_NOTHING,
    )
    # proj_left and proj_right are the two factors of the projection; stored as they are, it stays of low rank.
    read, write = fitted.proj_right.numpy(), fitted.proj_left.numpy()
    # The library leaves rows of zeros where a direction is below its tolerance.
    kept = np.abs(read).max(axis=1) > 0
    if not kept.any():
        raise InputError(_EQUAL)
    return Eraser(read=read[kept], write=write[:, kept], centre=rows.mean(axis=0), method="LEACE")


LEACE = Method(
    "leace",
    "Erase what any linear classifier could find of gender",
    "Belrose et al. 2023",
    lambda data, settings, generator: (
        fit_leace(*data.labelled())
        if settings.concepts == "one" or not data.concepts
        else fit_leace_pairs(data.female, data.male, data.concepts)
    ),
    LeaceSettings(),
)
