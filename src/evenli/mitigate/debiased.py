"""Hard-debiased word vectors as a folder: an encoder again, the mean of a text's words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from evenli._version import __version__
from evenli.encoders.base import MITIGATED, VectorMean, resolved_spec
from evenli.encoders.vectors.base import WordVectors
from evenli.encoders.vectors.files import load_vectors
from evenli.errors import InputError, ModelError
from evenli.io import hash_files, write_json
from evenli.mitigate.erased import CHECK
from evenli.mitigate.folder import FORMAT, check_free
from evenli.mitigate.hard_debias import save_vectors

METHOD = "hard"
VECTORS = "vectors.npz"


class DebiasedMean(VectorMean):
    """The mean of hard-debiased vectors."""

    method = "hard-debiasing"


def write_debiased(
    before: WordVectors, after: WordVectors, file: Path, out: Path, *, settings: dict[str, Any], overwrite: bool = False
) -> dict[str, Any]:
    """Write the folder of a mitigated encoder.

    Args:
        before: The vectors as they were.
        after: The hard-debiased ones.
        file: Where those of ``before`` are.
        out: The folder: a new one, an empty one, or with ``overwrite`` one that this function wrote.
        settings: What was done.
        overwrite: Replace what is there.

    Returns:
        What ``mitigated.json`` holds.
    """
    check_free(out, (VECTORS,), overwrite=overwrite)
    base = VectorMean(before)
    _check_differs(base, DebiasedMean(after), str(out))
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / MITIGATED).unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to {out}: {error.strerror or error}") from error
    save_vectors(after, out / VECTORS)
    about: dict[str, Any] = {
        "format": FORMAT,
        "version": __version__,
        "method": METHOD,
        "base": {"spec": resolved_spec(f"vectors:{file}"), "pooling": "mean", "identity": base.identity},
        "settings": settings,
        "eraser": {"file": VECTORS, "sha256": hash_files([out / VECTORS]), "dimension": after.dimension},
    }
    write_json(out / MITIGATED, about)
    return about


def load_debiased(folder: Path, about: dict[str, Any], base: Any) -> DebiasedMean:
    """The encoder of a folder, proved to be another one than its base."""
    file = folder / VECTORS
    if not file.is_file() or hash_files([file]) != about["eraser"]["sha256"]:
        raise ModelError(f"{file} is not the one {MITIGATED} speaks of; mitigate the vectors again")
    made = DebiasedMean(load_vectors(file))
    _check_differs(base, made, str(folder))
    return made


def _check_differs(base: VectorMean, made: VectorMean, where: str) -> None:
    first, second = (one.encode(CHECK) for one in (base, made))
    if first.shape == second.shape and np.array_equal(first, second) and first.any():
        raise ModelError(f"{where}: the vectors are those of the base; nothing was mitigated")
