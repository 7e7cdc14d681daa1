"""Fit an eraser to an encoder, measure what it leaves, and keep both as an encoder: ``mitigated:FOLDER``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from evenli.encoders.base import Encoder, EncoderRequest, encode_checked, load_encoder, resolved_spec
from evenli.errors import InputError, ModelError
from evenli.io import hash_files
from evenli.mitigate.debiased import DebiasedMean, load_debiased
from evenli.mitigate.directory import (
    ERASER,
    VECTORS,
    checked_file,
    identity_of,
    load_base,
    mitigated_directory,
    read_mitigated,
)
from evenli.mitigate.erasers import Affine, Erased, Eraser, Projection, load_eraser
from evenli.mitigate.gendered import GenderedSet, gendered_set, read_gendered
from evenli.mitigate.methods import GenderedEmbeddings, Method
from evenli.mitigate.residual import HeldOut, known_sentences, residual_leakage
from evenli.registry import MITIGATIONS
from evenli.store import replacing

BUILT_IN = "built-in"


@dataclass(frozen=True)
class MitigationSettings:
    """How an eraser is fitted.

    Attributes:
        method: Name of a method: ``inlp``, ``leace``, ``sent-debias`` or one of another package.
        fit: ``built-in``, or a corpus as ``read_gendered`` takes it.
        seed: Of the method and of the probes.
        options: Options of the method; those not given have their defaults.
    """

    method: str
    fit: str = BUILT_IN
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        method: Method = MITIGATIONS.get(self.method)
        object.__setattr__(self, "options", method.settings(self.options))


def mitigate_encoder(
    spec: str,
    out: str | Path,
    settings: MitigationSettings,
    *,
    pooling: str = "mean",
    device: str | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Fit an eraser to an encoder, measure what it leaves, and write the directory.

    Args:
        spec: The encoder, as ``load_encoder`` takes it.
        out: Directory to write: a new one, an empty one, or with ``overwrite`` one of a mitigated encoder.
        settings: Method and data.
        pooling: Of ``hf`` encoders.
        device: ``cpu``, ``cuda`` or ``mps``; None picks the fastest there is.
        overwrite: Replace a mitigated encoder in the directory.

    Returns:
        What ``mitigated.json`` holds.
    """
    # The directory is checked first: a fit can take long.
    with replacing(mitigated_directory(out), overwrite=overwrite) as folder:
        sentences = gendered_set() if settings.fit == BUILT_IN else read_gendered(settings.fit)
        base = load_encoder(spec, pooling=pooling, device=device)
        sentences = known_sentences(base, sentences)
        eraser = _fit(base, sentences, settings)
        Erased(base, eraser)  # refuses an eraser that changes nothing
        file = eraser.save(folder / ERASER)
        about: dict[str, Any] = {
            "method": settings.method,
            "base": {"spec": resolved_spec(spec), "pooling": pooling, "identity": identity_of(base)},
            "note": str(getattr(base, "note", "")),
            "settings": {**settings.options, "seed": settings.seed},
            "fit": {
                "source": sentences.source,
                "pairs": len(sentences.fit),
                "sha256": sentences.fit_sha256,
                "skipped": sentences.skipped,
            },
            "eraser": {"file": ERASER, "sha256": hash_files([file]), **_figures(eraser)},
            "leakage": _leakage(base, eraser, sentences, settings.seed),
        }
        mitigated_directory(folder).write_manifest(about)
    return about


def load_mitigated(folder: str | Path, *, device: str | None = None) -> Erased | DebiasedMean:
    """Load a mitigated encoder: its base by the stored spec, with the eraser behind it, or debiased vectors."""
    folder = Path(folder)
    about = read_mitigated(folder)
    file = checked_file(folder, VECTORS if about["eraser"].get("file") == VECTORS else ERASER, about)
    base = load_base(folder, about["base"], device)
    if file.name == VECTORS:
        return load_debiased(file, base)
    try:
        return Erased(base, load_eraser(file))
    except InputError as error:
        raise ModelError(f"{folder}: {error}") from error


def load(target: str, request: EncoderRequest) -> Erased | DebiasedMean:
    """The encoder of ``mitigated:FOLDER``; it keeps the pooling it was fitted with."""
    return load_mitigated(target, device=request.device)


def _fit(base: Encoder, sentences: GenderedSet, settings: MitigationSettings) -> Projection | Affine:
    method: Method = MITIGATIONS.get(settings.method)
    # The versions of a pair stand in the same order in both halves.
    data = GenderedEmbeddings(*np.split(encode_checked(base, sentences.rows("fit")[0]), 2))
    eraser = method.fit(data, settings.options, np.random.default_rng(settings.seed))
    if not isinstance(eraser, Projection | Affine):
        raise InputError(
            f"the method '{settings.method}' gave {type(eraser).__name__}; expected a Projection or an Affine of "
            "evenli.mitigate.erasers, which can be stored"
        )
    return eraser


def _figures(eraser: Eraser) -> dict[str, Any]:
    history = [round(value, 6) for value in eraser.history]
    return {
        "identity": eraser.identity,
        "dimension": eraser.dimension,
        "rank": eraser.rank,
        "history": history,
    }


def _leakage(base: Encoder, eraser: Eraser, sentences: GenderedSet, seed: int) -> dict[str, Any]:
    before = HeldOut.of(base, sentences)
    lean = before.lean()
    return {
        "probe_sentences": 2 * len(sentences.probe),
        "test_sentences": 2 * len(sentences.test),
        "neutral_sentences": len(before.neutral),
        "sha256": sentences.held_out_sha256,
        "before": residual_leakage(before, lean, seed=seed).to_dict(),
        "after": residual_leakage(before.erased(eraser), lean, seed=seed).to_dict(),
    }
