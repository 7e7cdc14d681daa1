"""Erasers: frozen maps of embeddings that take a concept out of them, how they are fitted, and encoders behind one.

Three fits, by what they promise on the embeddings they saw:

- ``fit_leace``: class means are equal afterwards, with about the least change that an affine map needs for it.
- ``fit_inlp``: a linear classifier finds less in every round; no promise for a fixed number of rounds.
- ``fit_sentence_debias``: the directions in which swapped sentences differ most are gone; no promise about classes.

Equal class means defeat every linear classifier, and no other: ``evenli.encoders.leakage`` measures what is left.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenli.core.binary import read_arrays
from evenli.core.errors import InputError, ModelError
from evenli.core.extras import need
from evenli.core.format import number
from evenli.core.io import hash_text, write_atomic
from evenli.encoders.base import Encoder

FloatArray = NDArray[np.float64]
CHECK = ("She is a nurse.", "He is a doctor.", "My mother is there.", "A man walks in the park.")
"""Texts on which the outputs must differ from those of the base encoder."""
_LAYOUT = 1  # of a stored eraser; raise it when what is stored changes
_RARE = 5  # sentences of a pair of words that make it a concept of its own
_FEWEST = 2  # rows of a class: one alone has no spread
_HELD_OUT = 0.2
_ROUNDING = 1e-6  # of float32 embeddings
_EQUAL = "the class means are equal already: there is nothing linear to erase"
_NOTHING = 1e-9  # canonical correlation under which there is nothing to erase
_RIDGE = 1e-3  # of the mean variance: keeps the classifiers of INLP finite without steering them


class Eraser(ABC):
    """A frozen map [n, d] -> [n, d] that takes a concept out of embeddings: a kind and some arrays."""

    kind: ClassVar[str]
    parts: ClassVar[tuple[str, ...]]
    """Names of the arrays; the first is [rank, d]."""
    method: str
    history: tuple[float, ...]

    @abstractmethod
    def _erase(self, rows: FloatArray) -> FloatArray: ...

    def __call__(self, x: ArrayLike) -> NDArray[Any]:
        """Embeddings without the concept; float32 stays float32."""
        rows = _finite(x, "the embeddings")
        if rows.ndim != 2 or rows.shape[1] != self.dimension:
            wanted = f"[n, {self.dimension}]"
            raise InputError(f"the eraser is for embeddings {wanted}, found shape {rows.shape}; fit one for these")
        return np.asarray(self._erase(rows), dtype=np.float32 if np.asarray(x).dtype == np.float32 else np.float64)

    @property
    def dimension(self) -> int:
        """Numbers in an embedding."""
        return int(getattr(self, self.parts[0]).shape[1])

    @property
    def rank(self) -> int:
        """Dimensions removed."""
        return len(getattr(self, self.parts[0]))

    @property
    def identity(self) -> str:
        """SHA-256 of kind and numbers: changes when any output could."""
        digest = hashlib.sha256(self.kind.encode())
        for name in self.parts:
            values = getattr(self, name)
            digest.update(f"|{name}{values.shape}".encode() + np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()

    def _freeze(self, **arrays: FloatArray) -> None:
        for name, values in arrays.items():
            values.flags.writeable = False
            object.__setattr__(self, name, values)

    def save(self, path: str | Path) -> Path:
        """Write the eraser as ``.npz``; ``load_eraser`` reads it."""
        path = Path(path)
        if path.suffix != ".npz":  # numpy would add the ending by itself
            raise InputError(f"an eraser is stored as .npz, not as {path.name}")
        about = {"kind": self.kind, "layout": _LAYOUT, "method": self.method, "history": self.history}
        stored = {**{name: getattr(self, name) for name in self.parts}, **about}
        write_atomic(path, lambda file: np.savez(file, **stored))
        return path


@dataclass(frozen=True, eq=False)
class Projection(Eraser):
    """Removes a subspace: ``x - D^T D x`` for orthonormal rows D, which the rows given are made."""

    kind: ClassVar[str] = "projection"
    parts: ClassVar[tuple[str, ...]] = ("directions",)
    directions: FloatArray
    """Orthonormal basis [k, d] of what is removed."""
    method: str = "projection"
    history: tuple[float, ...] = field(default=(), repr=False)
    """INLP: balanced held-out accuracy before each round and after the last."""

    def __post_init__(self) -> None:
        rows = np.atleast_2d(_finite(self.directions, "the directions"))
        if rows.ndim != 2 or not rows.any():
            raise InputError(f"expected directions [k, d] that are not all zero, found shape {rows.shape}")
        # A basis stays as it is, bit by bit: a stored eraser keeps its identity.
        ready = np.allclose(rows @ rows.T, np.eye(len(rows)), rtol=0, atol=1e-12)
        self._freeze(directions=rows if ready else _basis(rows))

    def _erase(self, rows: FloatArray) -> FloatArray:
        return np.asarray(rows - (rows @ self.directions.T) @ self.directions)


@dataclass(frozen=True, eq=False)
class Affine(Eraser):
    """Removes what ``read`` sees along ``write``: ``x - write read (x - centre)``.

    An oblique projection around a centre. It is idempotent because ``read write`` is the identity, which is checked.
    """

    kind: ClassVar[str] = "affine"
    parts: ClassVar[tuple[str, ...]] = ("read", "write", "centre")
    read: FloatArray
    """[k, d]: what is measured of an embedding."""
    write: FloatArray
    """[d, k]: along what it is taken away."""
    centre: FloatArray
    """[d]: the embedding that stays as it is."""
    method: str = "affine"
    history: tuple[float, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        read, write, centre = (_finite(a, "an array of the eraser") for a in (self.read, self.write, self.centre))
        if read.ndim != 2 or not len(read) or write.shape != read.shape[::-1] or centre.shape != read.shape[1:]:
            shapes = f"{read.shape}, {write.shape} and {centre.shape}"
            raise InputError(f"expected read [k, d], write [d, k] and centre [d], found {shapes}")
        if not np.allclose(read @ write, np.eye(len(read)), atol=1e-6):
            raise InputError("read times write is not the identity: the eraser would not be a projection")
        self._freeze(read=read, write=write, centre=centre)

    def _erase(self, rows: FloatArray) -> FloatArray:
        return np.asarray(rows - ((rows - self.centre) @ self.read.T) @ self.write.T)


@dataclass(frozen=True)
class Erased:
    """An encoder whose embeddings pass through an eraser.

    A mitigated encoder that is the base encoder by mistake would look like a mitigation without effect. So the two are
    compared on the texts ``check`` when they are put together, and equal outputs are an error.
    """

    encoder: Encoder
    eraser: Eraser
    check: tuple[str, ...] = CHECK

    def __post_init__(self) -> None:
        before = self._base(self.check)
        after = self.eraser(before)
        if not np.abs(after - before).max() > _ROUNDING * np.abs(before).max():
            raise ModelError("the eraser changes nothing of the embeddings; fit it on those of this encoder")

    @property
    def dimension(self) -> int:
        """Numbers in an embedding."""
        return self.eraser.dimension

    @property
    def identity(self) -> str:
        """Changes when any output could, as far as the encoder has an identity."""
        return hash_text(f"{getattr(self.encoder, 'identity', type(self.encoder).__name__)}|{self.eraser.identity}")

    @property
    def note(self) -> str:
        """What a user should know of the encoder before trusting the embeddings."""
        return str(getattr(self.encoder, "note", ""))

    def encode(self, texts: Sequence[str]) -> NDArray[Any]:
        """Embeddings [n, d] without the concept."""
        return self.eraser(self._base(texts))

    def _base(self, texts: Sequence[str]) -> NDArray[Any]:
        embeddings = np.asarray(self.encoder.encode(list(texts)))
        expected = (len(texts), self.eraser.dimension)
        if embeddings.shape != expected:
            shape = f"{expected[1]} numbers for each of {expected[0]} texts"
            raise InputError(f"the eraser is for {shape}, the encoder gave shape {embeddings.shape}; fit another")
        return embeddings


def fit_leace(x: ArrayLike, y: ArrayLike, *, shrinkage: bool = True) -> Affine:
    """Least-squares concept erasure in closed form (Belrose et al. 2023), by the authors' library concept-erasure.

    On the rows given the cross-covariance with the class is zero, hence class means are equal, hence no linear
    classifier beats the best constant. New rows keep the promise as far as they share these moments: with fewer rows
    than several times d, expect some leakage on them. ``shrinkage`` of the covariance is better for rows to come;
    without it the rows given change least.
    """
    rows, classes = _labelled(x, y)
    onehot = np.eye(classes.max() + 1)[classes]
    means = (onehot.T @ rows) / onehot.sum(axis=0)[:, None]
    if np.abs(means - means.mean(axis=0)).max() <= _ROUNDING * np.abs(rows - rows.mean(axis=0)).max():
        raise InputError(_EQUAL)
    return _leace(rows, onehot, shrinkage=shrinkage)


def fit_leace_pairs(female: ArrayLike, male: ArrayLike, concepts: Sequence[str]) -> Affine:
    """LEACE with a concept for every pair of gender words, +1 for its female and -1 for its male word.

    What tells *woman* from *man* and what tells *mother* from *father* are different directions, and in text they are
    mixed in other shares than in any fit. With gender as one concept only their mean over the fit is erased, and a
    probe on other text finds the rest. ``concepts`` names the pair behind every row; rare ones are taken together, and
    there are no more than an eighth of the dimensions.
    """
    sides = [_finite(side, "the embeddings") for side in (female, male)]
    if sides[0].ndim != 2 or sides[0].shape != sides[1].shape or len(concepts) != len(sides[0]):
        shapes = f"{sides[0].shape}, {sides[1].shape} and {len(concepts)} concepts"
        raise InputError(f"expected two tables of the same shape and a concept for each row, not {shapes}")
    rows, _ = _labelled(np.concatenate(sides), np.repeat([0, 1], len(concepts)))
    # As for one concept: where all sentences together do not differ, gender was erased before.
    if (
        np.abs(sides[0].mean(axis=0) - sides[1].mean(axis=0)).max()
        <= _ROUNDING * np.abs(rows - rows.mean(axis=0)).max()
    ):
        raise InputError(_EQUAL)
    # Each concept takes a direction away, and the encoder should keep most of them.
    most = max(1, rows.shape[1] // 8)
    named = [name for name, count in Counter(concepts).most_common() if count >= _RARE]
    column = {name: at for at, name in enumerate(named[: most - 1])}  # the last column is for all the others
    z = np.zeros((len(rows), len(column) + 1))
    for row, name in enumerate(concepts):
        z[row, column.get(name, -1)], z[row + len(concepts), column.get(name, -1)] = 1.0, -1.0
    return _leace(rows, z[:, z.any(axis=0)], shrinkage=True)


def _leace(rows: FloatArray, concepts: FloatArray, *, shrinkage: bool) -> Affine:
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
    return Affine(read=read[kept], write=write[:, kept], centre=rows.mean(axis=0), method="LEACE")


def fit_inlp(x: ArrayLike, y: ArrayLike, iterations: int, generator: np.random.Generator) -> Projection:
    """Iterative nullspace projection: fit a linear classifier, project out what it looks at, repeat.

    The classifier is ridge regression on one-hot classes with equal weight for each class. Rounds end early once its
    balanced accuracy on held-out rows is no better than chance: further rounds would remove noise. Ravfogel et al.
    2020, "Null it out". ``generator`` chooses the fifth of each class that is held out.
    """
    rows, classes = _labelled(x, y)
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
        new = _basis(weights - weights.mean(axis=0))
        removed = _basis(np.vstack([removed, new - (new @ removed.T) @ removed]))
    if not len(removed):
        raise InputError(
            f"nothing linear to erase: held-out accuracy is {number(history[0])}, chance is {number(chance)}"
        )
    return Projection(removed, method="INLP", history=tuple(history))


def fit_sentence_debias(female: ArrayLike, male: ArrayLike, components: int = 1) -> Projection:
    """Project out the main directions in which sentences differ from their gender-swapped copies.

    Principal components of the differences, not centred: what all of them share is what is sought. Liang et al. 2020,
    "Towards debiasing sentence representations".
    """
    f, m = _finite(female, "the embeddings"), _finite(male, "the embeddings")
    if f.ndim != 2 or f.shape != m.shape or len(f) < _FEWEST:
        shapes = f"{f.shape} and {m.shape}"
        raise InputError(f"expected two tables of the same shape with {_FEWEST} or more rows, not {shapes}")
    _, sigma, axes = np.linalg.svd(f - m, full_matrices=False)
    # Directions below the rounding of float32 are noise, not differences.
    scale = max(np.abs(f).max(), np.abs(m).max()) * np.sqrt(f.size)
    rank = int((sigma > scale * np.finfo(np.float32).eps).sum())
    if not 1 <= components <= rank:
        raise InputError(f"{components} component(s) asked for, the {len(f)} pairs differ in {rank} direction(s)")
    return Projection(axes[:components], method="SentenceDebias")


def load_eraser(path: str | Path) -> Projection | Affine:
    """Read an eraser that ``save`` wrote; nothing is unpickled."""
    try:
        values: dict[str, Any] = read_arrays(Path(path))
        kind, layout = str(values.pop("kind")), int(values.pop("layout"))
        about: dict[str, Any] = {"method": str(values.pop("method")), "history": tuple(values.pop("history").tolist())}
    except (InputError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is not a stored eraser ({error})") from error
    if layout != _LAYOUT or kind not in _KINDS:
        raise InputError(f"{path} holds an eraser '{kind}' of layout {layout}; known: {', '.join(_KINDS)}, {_LAYOUT}")
    try:
        return _KINDS[kind](**values, **about)
    except (TypeError, InputError) as error:
        raise InputError(f"{path} is not a stored eraser ({error})") from error


_KINDS: dict[str, type[Projection] | type[Affine]] = {"projection": Projection, "affine": Affine}


def _finite(values: ArrayLike, what: str) -> FloatArray:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} are not a table of numbers ({error})") from error
    if not np.isfinite(array).all():
        raise InputError(f"{what} hold numbers that are not finite")
    return array


def _labelled(x: ArrayLike, y: ArrayLike) -> tuple[FloatArray, NDArray[np.int64]]:
    """Embeddings, and their classes as numbers from 0."""
    rows, labels = _finite(x, "the embeddings"), np.asarray(y)
    if rows.ndim != 2 or labels.shape != rows.shape[:1] or not rows.size:
        raise InputError(f"expected embeddings [n, d] and n classes, found shapes {rows.shape} and {labels.shape}")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise InputError("the classes hold numbers that are not finite")
    names, classes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(names) < 2:
        raise InputError(f"all {len(rows)} rows are of class {names[0]}; a concept needs two or more classes")
    if counts.min() < _FEWEST:
        raise InputError(f"class {names[counts.argmin()]} has {counts.min()} row(s), {_FEWEST} or more are needed")
    return rows, classes.astype(np.int64)


def _basis(rows: FloatArray) -> FloatArray:
    """Orthonormal rows with the same span."""
    _, sigma, axes = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(axes[sigma > sigma[0] * 1e-9], dtype=np.float64)


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
