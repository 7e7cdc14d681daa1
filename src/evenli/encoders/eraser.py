"""Erasers: frozen maps of embeddings that take a concept out of them, and encoders behind one.

``inlp``, ``leace`` and ``sent_debias`` fit them. Equal class means defeat every linear classifier, and no other:
``evenli.encoders.leakage`` measures what is left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenli.core.binary import read_arrays
from evenli.core.errors import InputError, ModelError, translated
from evenli.core.io import hash_text
from evenli.encoders.base import Encoder, encode_checked, table, write_npz

FloatArray = NDArray[np.float64]
CHECK = ("She is a nurse.", "He is a doctor.", "My mother is there.", "A man walks in the park.")
"""Texts on which the outputs must differ from those of the base encoder."""
_FEWEST = 2  # rows of a class: one alone has no spread
ROUNDING = 1e-6  # of float32 embeddings
_LAYOUT = 2  # of a stored eraser; raise it when what is stored changes
_PARTS = ("read", "write", "centre")


@dataclass(frozen=True, eq=False)
class Eraser:
    """A map [n, d] -> [n, d] that removes what ``read`` sees along ``write``: ``x - write read (x - centre)``.

    An oblique projection around a centre. It is idempotent because ``read write`` is the identity, which is checked.
    """

    read: FloatArray  # [k, d]: what is measured of an embedding
    write: FloatArray  # [d, k]: along what it is taken away
    centre: FloatArray  # [d]: the embedding that stays as it is
    method: str = "affine"
    history: tuple[float, ...] = field(default=(), repr=False)  # INLP: balanced held-out accuracy round by round

    def __post_init__(self) -> None:
        read, write = (table(rows, "the arrays of the eraser") for rows in (self.read, self.write))
        centre = table(np.atleast_2d(self.centre), "the arrays of the eraser")[0]
        if write.shape != read.shape[::-1] or centre.shape != read.shape[1:]:
            shapes = f"{read.shape}, {write.shape} and {centre.shape}"
            raise InputError(f"expected read [k, d], write [d, k] and centre [d], found {shapes}")
        if not np.allclose(read @ write, np.eye(len(read)), atol=1e-6):
            raise InputError("read times write is not the identity: the eraser would not be a projection")
        for name, values in zip(_PARTS, (read, write, centre), strict=True):
            values.flags.writeable = False
            object.__setattr__(self, name, values)

    def __call__(self, x: ArrayLike) -> NDArray[Any]:
        """Embeddings without the concept; float32 stays float32."""
        rows = table(x, "the embeddings")
        if rows.shape[1] != self.dimension:
            wanted = f"{self.dimension} numbers for each text"
            raise InputError(f"the eraser is for {wanted}, found embeddings of shape {rows.shape}; fit one for these")
        erased = rows - ((rows - self.centre) @ self.read.T) @ self.write.T
        return np.asarray(erased, dtype=np.float32 if np.asarray(x).dtype == np.float32 else np.float64)

    @property
    def dimension(self) -> int:
        """Numbers in an embedding."""
        return int(self.read.shape[1])

    @property
    def rank(self) -> int:
        """Dimensions removed."""
        return len(self.read)

    @property
    def identity(self) -> str:
        """SHA-256 of all numbers: changes when any output could."""
        numbers = b"".join(getattr(self, name).tobytes() for name in _PARTS)
        return hashlib.sha256(str(self.read.shape).encode() + numbers).hexdigest()

    def save(self, path: str | Path) -> Path:
        """Write the eraser as ``.npz``; ``load_eraser`` reads it."""
        return write_npz(path, "an eraser is", **vars(self), layout=_LAYOUT)


def projection(directions: ArrayLike, method: str = "projection", history: tuple[float, ...] = ()) -> Eraser:
    """The eraser of a subspace, ``x - D^T D x`` with orthonormal rows D that span the directions [k, d]."""
    rows = table(np.atleast_2d(directions), "the directions")
    if not rows.any():
        raise InputError("the directions are all zero")
    # A basis stays as it is, bit by bit.
    if not np.allclose(rows @ rows.T, np.eye(len(rows)), rtol=0, atol=1e-12):
        rows = basis(rows)
    return Eraser(rows, rows.T, np.zeros(rows.shape[1]), method, history)


def load_eraser(path: str | Path) -> Eraser:
    """Read an eraser that ``save`` wrote; nothing is unpickled."""
    kinds = (InputError, ValueError, KeyError, TypeError, AttributeError)
    with translated(f"{path} is not a stored eraser (", ")", kinds=kinds):
        values: dict[str, Any] = read_arrays(Path(path))
        layout, method, history = int(values.pop("layout")), str(values.pop("method")), values.pop("history").tolist()
        if layout != _LAYOUT:
            raise InputError(f"layout {layout}, known is {_LAYOUT}")
        return Eraser(**values, method=method, history=tuple(history))


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
        before = encode_checked(self.encoder, list(self.check))
        after = self.eraser(before)
        if not np.abs(after - before).max() > ROUNDING * np.abs(before).max():
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
        return self.eraser(encode_checked(self.encoder, list(texts)))


def labelled(x: ArrayLike, y: ArrayLike) -> tuple[FloatArray, NDArray[np.int64]]:
    """Embeddings, and their classes as numbers from 0."""
    rows, labels = table(x, "the embeddings"), np.asarray(y)
    if labels.shape != rows.shape[:1]:
        raise InputError(f"expected embeddings [n, d] and n classes, found shapes {rows.shape} and {labels.shape}")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise InputError("the classes hold numbers that are not finite")
    names, classes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(names) < 2:
        raise InputError(f"all {len(rows)} rows are of class {names[0]}; a concept needs two or more classes")
    if counts.min() < _FEWEST:
        raise InputError(f"class {names[counts.argmin()]} has {counts.min()} row(s), {_FEWEST} or more are needed")
    return rows, classes.astype(np.int64)


def basis(rows: FloatArray) -> FloatArray:
    """Orthonormal rows with the same span."""
    _, sigma, axes = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(axes[sigma > sigma[0] * 1e-9], dtype=np.float64)


def unit_rows(rows: FloatArray) -> FloatArray:
    """Rows at length 1; zeros stay zeros."""
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1.0), dtype=np.float64)
