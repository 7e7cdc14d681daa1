"""Mitigated encoders: fit an eraser or debias word vectors, measure what is left, and keep it as ``mitigated:FOLDER``.

The directory holds ``mitigated.json`` and an eraser or word vectors. The encoder itself is not copied: the spec of the
base is stored with absolute paths and its identity, and a base that has changed since is refused, because an eraser
means nothing to another encoder.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np

from evenli.core.errors import EvenliError, InputError, ModelError, RunError, translated
from evenli.core.io import hash_files
from evenli.core.mitigation import Fit, GenderedEmbeddings, Method
from evenli.core.record import Record, RecordError
from evenli.core.registry import MITIGATIONS
from evenli.core.settings import Settings, settings_of
from evenli.core.store import RunDir, read_manifest, replacing
from evenli.encoders.base import (
    DATA_BACKENDS,
    MITIGATED,
    Encoder,
    EncoderRequest,
    encode_checked,
    load_encoder,
    load_with_own_pooling,
    name_of,
    parse_spec,
    parts_of,
    resolved_spec,
)
from evenli.encoders.eraser import CHECK, Erased, Eraser, load_eraser
from evenli.encoders.gendered import GenderedSet, probe_text, sentences_to_fit
from evenli.encoders.leakage import LeakageReport, known_sentences, leakage_report
from evenli.encoders.settings import BUILT_IN, POOLINGS
from evenli.encoders.settings import MitigationSettings as MitigationSettings
from evenli.encoders.vectors import CACHE, VectorMean, load_vectors

_KIND, _ERASER, VECTORS = "mitigated encoder", "eraser.npz", "vectors.npz"


class Unmitigated(Record, frozen=True):
    """The encoder before the mitigation: its spec with absolute paths, its pooling, and what changes with it."""

    spec: str
    pooling: str
    identity: str


class FittedOn(Record, frozen=True):
    """The sentence pairs of a fit, and how many were left out for which reason."""

    source: str
    pairs: int
    sha256: str
    skipped: dict[str, int]


class StoredFile(Record, frozen=True):
    """The file of an eraser, or of debiased vectors: its hash, its name in the directory, and its dimension."""

    sha256: str
    file: str = _ERASER
    dimension: int = 0


class EraserFile(StoredFile, frozen=True, kw_only=True):
    """The file of an eraser.

    Attributes:
        identity: Changes with the eraser.
        rank: How many dimensions are removed.
        history: Accuracy of a probe before each round, where the method has rounds.
    """

    identity: str
    rank: int
    history: tuple[float, ...] = ()


class Mitigated(Record, frozen=True):
    """What ``mitigated.json`` holds of debiased word vectors.

    Attributes:
        method: Name of the mitigation.
        base: The encoder that is mitigated.
        settings: Seed and options of the method.
        eraser: The file beside it.
        note: What should be known of the base.
    """

    method: str
    base: Unmitigated
    settings: dict[str, Any]
    eraser: StoredFile
    note: str = ""


class MitigatedEncoder(Mitigated, frozen=True, kw_only=True):
    """What ``mitigated.json`` holds of an encoder behind an eraser.

    Attributes:
        fit: What the eraser was fitted on.
        leakage: What is left of gender.
    """

    eraser: EraserFile
    fit: FittedOn
    leakage: LeakageReport


def mitigate_encoder(
    spec: str,
    out: str | Path,
    settings: MitigationSettings,
    *,
    overwrite: bool = False,
    on_step: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> MitigatedEncoder:
    """Fit an eraser to an encoder, measure what it leaves, and write the directory; returns what its manifest holds.

    The spec is that of ``load_encoder``. The directory is a new one, an empty one, or with ``overwrite`` one of a
    mitigated encoder. ``on_step`` is told what is done next; ``options`` replace fields of the settings.
    """
    settings = settings_of(MitigationSettings, settings, options, "mitigate_encoder")
    # The directory is checked first: a fit can take long.
    with replacing(mitigated_folder(out), overwrite=overwrite) as folder:
        on_step("reading the sentences")
        sentences = sentences_to_fit(settings.fit)
        text = probe_text(None if settings.probe == BUILT_IN else settings.probe)
        on_step("loading the encoder")
        base = load_encoder(spec, pooling=settings.pooling, device=settings.device, online=settings.online)
        sentences = known_sentences(base, sentences)
        on_step(f"fitting {settings.method} on {len(sentences.fit):,} sentence pairs")
        eraser = fit_eraser(base, sentences, settings)
        Erased(base, eraser)  # refuses an eraser that changes nothing
        on_step("measuring what is left of gender")
        # The pooling to load the encoder with again; empty where its own files decide.
        used = getattr(base, "pooling", settings.pooling)
        pooling = used if used in POOLINGS else settings.pooling or ""
        written = EraserFile(
            sha256=hash_files([eraser.save(folder / _ERASER)]),
            identity=eraser.identity,
            dimension=eraser.dimension,
            rank=eraser.rank,
            history=tuple(map(float, eraser.history)),
        )
        result = MitigatedEncoder(
            method=settings.method,
            base=Unmitigated(resolved_spec(spec), pooling, identity_of(base)),
            settings={**cast(Settings, settings.options).to_dict(), "seed": settings.seed},
            eraser=written,
            note=str(getattr(base, "note", "")),
            fit=FittedOn(sentences.source, len(sentences.fit), sentences.sha256["fit"], dict(sentences.skipped)),
            leakage=leakage_report(base, eraser, sentences, text, seed=settings.seed),
        )
        mitigated_folder(folder).write_manifest(result.to_dict())
    return result


def fit_eraser(base: Encoder, sentences: GenderedSet, settings: MitigationSettings) -> Eraser:
    """The eraser of a method, fitted on the sentences of a set."""
    method: Method = MITIGATIONS.get(settings.method)
    # The versions of a pair stand in the same order in both halves.
    female, male = np.split(encode_checked(base, sentences.rows("fit")[0]), 2)
    data = GenderedEmbeddings(female, male, tuple(pair.concept for pair in sentences.fit))
    eraser = cast(Fit, method.fit)(data, settings.options, np.random.default_rng(settings.seed))
    if not isinstance(eraser, Eraser):
        raise InputError(f"the method '{settings.method}' gave {type(eraser).__name__}, not an Eraser")
    return eraser


def check_differs(base: Encoder, debiased: Encoder, where: Path) -> None:
    """Refuse vectors that are those of the base."""
    first, second = (encode_checked(encoder, CHECK) for encoder in (base, debiased))
    # Texts of unknown words are zeros before and after, which proves nothing.
    if first.shape == second.shape and np.array_equal(first, second) and first.any():
        raise ModelError(f"{where}: the vectors are those of the base; nothing was mitigated")


def mitigated_folder(path: str | Path) -> RunDir:
    """The folder of a mitigated encoder."""
    # The cached copy of the vectors counts as ours.
    return RunDir(path, kind=_KIND, manifest=MITIGATED, owned=(_ERASER, VECTORS, CACHE))


def identity_of(encoder: Encoder) -> str:
    """The encoder's ``identity``; without one a changed encoder could not be noticed."""
    identity = getattr(encoder, "identity", None)
    if identity is None:
        raise InputError(f"{name_of(encoder)} has no identity; give it one that changes when its outputs could")
    return str(identity)


def load(target: str, request: EncoderRequest) -> Erased | VectorMean:
    """The encoder of ``mitigated:FOLDER``: its base with the eraser behind it, or debiased vectors.

    It has the pooling it was fitted with. Where the base is code of the user's own the user names it,
    ``mitigated:FOLDER,py:module:function``: what stands in a file never imports code.
    """
    # A folder may have a comma in its name.
    path, _, given = (target, "", "") if Path(target).is_dir() else target.partition(",")
    folder = Path(path)
    about = read_mitigated(folder)
    request.keep_pooling(f"mitigated:{target}", about.base.pooling)
    file = folder / (VECTORS if about.eraser.file == VECTORS else _ERASER)
    if not file.is_file():
        raise ModelError(f"{folder} is not complete: no {file.name} in it; run the mitigation again")
    if hash_files([file]) != about.eraser.sha256:
        raise ModelError(f"{file} is not the one that {MITIGATED} describes; run the mitigation again")
    _check_chain(folder)
    base = _load_base(folder, about.base, request, given)
    if file.name == VECTORS:
        debiased = VectorMean(load_vectors(file), "hard-debiasing")
        check_differs(base, debiased, folder)
        return debiased
    with translated(f"{folder}: ", into=ModelError, kinds=(InputError,)):
        return Erased(base, load_eraser(file))


def read_mitigated(folder: str | Path) -> Mitigated:
    """What ``mitigated.json`` of a directory says."""
    file = Path(folder) / MITIGATED
    if not file.is_file():
        raise ModelError(f"{folder} is no mitigated encoder: no {MITIGATED} in it; write it with evenli mitigate")
    with translated("", into=ModelError, kinds=(RunError,)):
        about = read_manifest(file, kind=_KIND)
    with translated(f"{file} is broken (", "); write it again", into=ModelError, kinds=(RecordError,)):
        return (MitigatedEncoder if "leakage" in about else Mitigated).from_dict(about)


def _check_chain(folder: Path) -> None:
    """Refuse a directory that is its own base, or the base of its base."""
    seen: list[Path] = []
    while folder.resolve() not in seen:
        seen.append(folder.resolve())
        kind, target = parse_spec(read_mitigated(folder).base.spec)
        if kind != "mitigated" or not Path(target).is_dir():
            return
        folder = Path(target)
    raise ModelError(f"{folder} is its own base (see {folder / MITIGATED}); mitigate another encoder")


def _load_base(folder: Path, stored: Unmitigated, request: EncoderRequest, given: str) -> Encoder:
    """The base encoder of a directory, unchanged since the mitigation."""
    spec = given or stored.spec
    if not given and parse_spec(spec)[0] not in DATA_BACKENDS:
        raise ModelError(
            f"the base of {folder} is code ({spec}); refusing to import code named in a file. If you trust it, pass "
            f"mitigated:{folder},{spec}"
        )
    for place in map(Path, parts_of(spec)):
        if place.is_absolute() and not place.exists():
            raise ModelError(f"the base of {folder} is gone: no {place}; bring it back or mitigate another encoder")
    online = request.online and bool(given)  # a stored name is not looked up either
    with translated(f"the base of {folder} cannot be loaded ({spec}): ", into=ModelError, kinds=(EvenliError,)):
        base, _ = load_with_own_pooling(spec, pooling=stored.pooling or None, device=request.device, online=online)
    if identity_of(base) != stored.identity:
        raise ModelError(f"the base of {folder}, {stored.spec}, has changed since; mitigate the encoder again")
    return base
