"""Hard debiasing of a file of word vectors: a file of vectors again, or a directory that is an encoder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evenli.corpus.direction import gender_direction
from evenli.encoders.base import Encoder, resolved_spec
from evenli.encoders.vectors import VectorMean, WordVectors, load_vectors
from evenli.errors import InputError, MissingExtraError, ModelError, RunError
from evenli.io import hash_files
from evenli.mitigate.directory import VECTORS, mitigated_directory
from evenli.mitigate.erasers import CHECK
from evenli.mitigate.hard_debias import hard_debias, normalised, save_vectors
from evenli.mitigate.residual import Residual, word_leakage
from evenli.store import replacing

METHOD = "hard-debias"
_OTHER_FORMATS = {".txt", ".vec", ".bin", ".npy", ".gz"}


class DebiasedMean(VectorMean):
    """The mean of hard-debiased vectors."""

    method = "hard-debiasing"


@dataclass(frozen=True)
class HardDebiasSettings:
    """How word vectors are hard-debiased.

    Attributes:
        pairs: Pairs of the direction: ``ten``, ``long`` or a file.
        control: Only bring the vectors to length 1: the control for the side effect.
        seed: Of the probes that look for what is left.
    """

    pairs: str = "ten"
    control: bool = False
    seed: int = 0


@dataclass(frozen=True)
class HardDebiased:
    """What ``hard_debias_file`` wrote.

    Attributes:
        path: The file or directory.
        words: Number of words.
        notes: What was done.
        leakage: What was left of gender before and after; None if it could not be measured.
        not_measured: Why not.
    """

    path: Path
    words: int
    notes: tuple[str, ...]
    leakage: tuple[Residual, Residual] | None
    not_measured: str = ""

    @property
    def spec(self) -> str:
        """The encoder it is."""
        return f"{'vectors' if self.path.suffix == '.npz' else 'mitigated'}:{self.path}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        leaks = None
        if self.leakage is not None:
            leaks = {name: one.to_dict() for name, one in zip(("before", "after"), self.leakage, strict=True)}
        where = {"file" if self.path.suffix == ".npz" else "folder": str(self.path)}
        return {
            **where,
            "words": self.words,
            "notes": list(self.notes),
            "leakage": leaks,
            "not_measured": self.not_measured,
        }


def hard_debias_file(
    vectors: str | Path, out: str | Path, settings: HardDebiasSettings | None = None, *, overwrite: bool = False
) -> HardDebiased:
    """Hard-debias a file of word vectors and measure what is left.

    Args:
        vectors: The file, as ``load_vectors`` takes it, or ``vectors:FILE``.
        out: A file that ends in ``.npz``, or a directory, which is an encoder then.
        settings: What to do; None hard-debiases with the ten pairs.
        overwrite: Replace what is there.
    """
    settings = settings or HardDebiasSettings()
    out, file = Path(out), Path(str(vectors).removeprefix("vectors:"))
    _check_names(out, file, overwrite)
    before = load_vectors(file)
    direction = gender_direction(before, settings.pairs)
    after = normalised(before) if settings.control else hard_debias(before, direction)
    if out.suffix == ".npz":
        save_vectors(after, out)
    else:
        write_debiased(before, after, file, out, settings, overwrite=overwrite)
    leaks, reason = None, ""
    try:
        leaks = word_leakage(before, after, direction, seed=settings.seed)
    except (InputError, MissingExtraError) as error:
        # The vectors are written and good; a small vocabulary or a missing package is no reason to fail.
        reason = str(error)
    return HardDebiased(out, len(after), after.notes, leaks, reason)


def write_debiased(
    before: WordVectors,
    after: WordVectors,
    file: Path,
    out: Path,
    settings: HardDebiasSettings,
    *,
    overwrite: bool = False,
) -> None:
    """Write the directory of a mitigated encoder.

    Args:
        before: The vectors as they were.
        after: The hard-debiased ones.
        file: Where those of ``before`` are.
        out: The directory: a new one, an empty one, or with ``overwrite`` one of a mitigated encoder.
        settings: What was done.
        overwrite: Replace what is there.
    """
    base = VectorMean(before)
    _check_differs(base, DebiasedMean(after), str(out))
    with replacing(mitigated_directory(out), overwrite=overwrite) as folder:
        stored = save_vectors(after, folder / VECTORS)
        about = {
            "method": METHOD,
            "base": {"spec": resolved_spec(f"vectors:{file}"), "pooling": "mean", "identity": base.identity},
            "settings": {"pairs": settings.pairs, "control": settings.control},
            "eraser": {"file": VECTORS, "sha256": hash_files([stored]), "dimension": after.dimension},
        }
        mitigated_directory(folder).write_manifest(about)


def load_debiased(file: Path, base: Encoder) -> DebiasedMean:
    """The encoder of a directory; one that equals its base is refused."""
    debiased = DebiasedMean(load_vectors(file))
    _check_differs(base, debiased, str(file.parent))
    return debiased


def _check_names(out: Path, file: Path, overwrite: bool) -> None:
    if out.suffix in _OTHER_FORMATS:
        raise InputError(f"{out}: vectors are written as .npz; end the name in .npz, or name a folder")
    if out.suffix == ".npz" and out.exists() and not overwrite:
        raise RunError(f"{out} exists; pass --overwrite to replace it, or name another file")
    if ":" in str(file) and not file.exists():
        raise InputError(
            f"{file}: hard debiasing is for word vectors; for an encoder choose inlp, leace or sent-debias, or train "
            "one on hard-debiased vectors"
        )


def _check_differs(base: Encoder, debiased: VectorMean, where: str) -> None:
    first, second = (encoder.encode(CHECK) for encoder in (base, debiased))
    if first.shape == second.shape and np.array_equal(first, second) and first.any():
        raise ModelError(f"{where}: the vectors are those of the base; nothing was mitigated")
