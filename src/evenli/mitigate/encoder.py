"""A mitigated encoder as a folder: an eraser, the encoder it belongs to, and what it leaves.

The folder holds ``eraser.npz`` and ``mitigated.json``. The encoder itself is not copied: the spec of the base is
stored with its whole path and its identity, and a base that has changed since is refused, because an eraser means
nothing to another encoder.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from evenli._version import __version__
from evenli.encoders.base import MITIGATED, encode_checked, load_encoder, parts_of, resolved_spec
from evenli.errors import EvenliError, InputError, ModelError
from evenli.io import hash_files, write_json
from evenli.mitigate.debiased import METHOD, DebiasedMean, load_debiased
from evenli.mitigate.erased import Erased
from evenli.mitigate.erasers import Affine, Projection, fit_inlp, fit_leace, fit_sentence_debias, load_eraser
from evenli.mitigate.folder import FORMAT, check_free
from evenli.mitigate.gendered import GenderedSet, gendered_set, read_gendered
from evenli.mitigate.residual import HeldOut, residual_leakage, told_apart

Method = Literal["inlp", "leace", "sent-debias"]
METHODS: tuple[Method, ...] = get_args(Method)
ERASER = "eraser.npz"
BUILT_IN = "built-in"


@dataclass(frozen=True)
class MitigationSettings:
    """How an eraser is fitted.

    Attributes:
        method: ``inlp``, ``leace`` or ``sent-debias``.
        fit: ``built-in``, or a corpus as ``read_gendered`` takes it.
        iterations: Most rounds of INLP.
        components: Directions that SentenceDebias removes.
        seed: Of INLP's held-out rows and of the probes.
    """

    method: Method
    fit: str = BUILT_IN
    iterations: int = 35
    components: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InputError(f"no method '{self.method}'; choose {', '.join(METHODS)}")
        if self.iterations < 1 or self.components < 1:
            raise InputError(
                f"{self.iterations} iterations and {self.components} components: one or more of each are needed"
            )


def mitigate_encoder(
    spec: str,
    out: str | Path,
    settings: MitigationSettings,
    *,
    pooling: str = "mean",
    device: str | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Fit an eraser to an encoder, measure what it leaves, and write the folder.

    Args:
        spec: The encoder, as ``load_encoder`` takes it.
        out: Folder to write: a new one, an empty one, or with ``overwrite`` one of a mitigated encoder.
        settings: Method and data.
        pooling: Of ``hf`` encoders.
        device: ``cpu``, ``cuda`` or ``mps``; None picks the fastest there is.
        overwrite: Replace a mitigated encoder in the folder.

    Returns:
        What ``mitigated.json`` holds.
    """
    out = Path(out)
    check_free(out, (ERASER,), overwrite=overwrite)
    sentences = gendered_set() if settings.fit == BUILT_IN else read_gendered(settings.fit)
    base = load_encoder(spec, pooling=pooling, device=device)
    sentences = told_apart(base, sentences)
    eraser = _fitted(encode_checked(base, sentences.rows("fit")[0]), sentences, settings)
    Erased(base, eraser)  # refuses an eraser that changes nothing
    held = HeldOut.of(base, sentences)
    lean = held.lean()
    leaks = {
        name: residual_leakage(part, lean, seed=settings.seed).as_dict()
        for name, part in (("before", held), ("after", held.erased(eraser)))
    }
    used = {"inlp": ("iterations", "seed"), "leace": ("seed",), "sent-debias": ("components", "seed")}
    about: dict[str, Any] = {
        "format": FORMAT,
        "version": __version__,
        "method": settings.method,
        "base": {"spec": resolved_spec(spec), "pooling": pooling, "identity": _identity(base)},
        "note": str(getattr(base, "note", "")),
        "settings": {name: asdict(settings)[name] for name in used[settings.method]},
        "fit": {
            "source": sentences.source,
            "pairs": len(sentences.fit),
            "sha256": sentences.fit_sha256,
            "skipped": sentences.skipped,
        },
        "eraser": {
            "file": ERASER,
            "identity": eraser.identity,
            "dimension": eraser.dimension,
            "rank": eraser.rank,
            "history": [round(value, 6) for value in eraser.history],
        },
        "leakage": {
            "probe_sentences": 2 * len(sentences.probe),
            "test_sentences": 2 * len(sentences.test),
            "neutral_sentences": len(held.neutral),
            "sha256": sentences.held_out_sha256,
            **leaks,
        },
    }
    _write(out, eraser, about)
    return about


def read_mitigated(folder: str | Path) -> dict[str, Any]:
    """What ``mitigated.json`` of a folder says."""
    file = Path(folder) / MITIGATED
    if not file.is_file():
        raise ModelError(
            f"{folder} is no mitigated encoder: no {MITIGATED} in it; write it with evenli mitigate, or again if that "
            "was stopped"
        )
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
        if about["format"] != FORMAT:
            raise ModelError(f"{file} is of the format '{about['format']}', this version reads '{FORMAT}'")
        texts = (*(about["base"][name] for name in ("spec", "pooling", "identity")), about["eraser"]["sha256"])
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("a text is expected for base and eraser")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{file} is broken ({type(error).__name__}: {error}); write it again") from error
    return dict(about)


def load_mitigated(folder: str | Path, *, device: str | None = None) -> Erased | DebiasedMean:
    """Load a mitigated encoder: its base by the stored spec, with the eraser behind it, or debiased vectors."""
    folder = Path(folder)
    about = read_mitigated(folder)
    if about["method"] == METHOD:
        return load_debiased(folder, about, _load_base(folder, about["base"], device))
    file = folder / ERASER
    if not file.is_file():
        raise ModelError(f"{folder} is half-written: no {ERASER} in it; mitigate the encoder again")
    if hash_files([file]) != about["eraser"]["sha256"]:
        raise ModelError(f"{file} is not the one {MITIGATED} speaks of; mitigate the encoder again")
    eraser = load_eraser(file)
    try:
        return Erased(_load_base(folder, about["base"], device), eraser)
    except InputError as error:
        raise ModelError(f"{folder}: {error}") from error


def _load_base(folder: Path, stored: dict[str, Any], device: str | None) -> Any:
    for place in map(Path, parts_of(stored["spec"])):
        if place.is_absolute() and not place.exists():
            raise ModelError(f"the base of {folder} is gone: no {place}; bring it back or mitigate another encoder")
    try:
        base = load_encoder(stored["spec"], pooling=stored["pooling"], device=device)
    except EvenliError as error:
        raise ModelError(f"the base of {folder} cannot be loaded ({stored['spec']}): {error}") from error
    if _identity(base) != stored["identity"]:
        raise ModelError(
            f"the base of {folder}, {stored['spec']}, has changed since the eraser was fitted; bring it back or "
            "mitigate the encoder again"
        )
    return base


def _fitted(made: Any, sentences: GenderedSet, settings: MitigationSettings) -> Projection | Affine:
    female, male = np.split(made, 2)  # versions of a pair stand in the same order
    classes = sentences.rows("fit")[1]
    if settings.method == "leace":
        return fit_leace(made, classes)
    if settings.method == "inlp":
        rounds = min(settings.iterations, made.shape[1] - 1)
        return fit_inlp(made, classes, rounds, np.random.default_rng(settings.seed))
    return fit_sentence_debias(female, male, settings.components)


def _identity(encoder: Any) -> str:
    return str(encoder.identity)


def _write(out: Path, eraser: Projection | Affine, about: dict[str, Any]) -> None:
    """Write the eraser, then the file that makes the folder whole."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / MITIGATED).unlink(missing_ok=True)
        eraser.save(out / f"{ERASER}.partial.npz").replace(out / ERASER)
    except OSError as error:
        raise InputError(f"cannot write to {out}: {error.strerror or error}") from error
    about["eraser"]["sha256"] = hash_files([out / ERASER])
    write_json(out / MITIGATED, about)
