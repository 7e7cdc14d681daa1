"""The directory of a mitigated encoder: ``mitigated.json``, and an eraser or debiased word vectors.

The encoder itself is not copied: the spec of the base is stored with absolute paths and its identity, and a base that
has changed since is refused, because an eraser means nothing to another encoder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evenli.encoders.base import MITIGATED, Encoder, load_encoder, name_of, parts_of
from evenli.encoders.vectors import CACHE
from evenli.errors import EvenliError, InputError, ModelError
from evenli.io import hash_files
from evenli.store import UNREADABLE, RunDir

ERASER, VECTORS = "eraser.npz", "vectors.npz"
_FORMAT = "evenli mitigated-encoder 1"
_SCHEMA = 1


def mitigated_directory(path: str | Path) -> RunDir:
    """The directory at ``path``; partial files of earlier versions and the copy of its vectors count as ours."""
    owned = (*(f"{name}*" for name in (ERASER, VECTORS, MITIGATED)), CACHE)
    return RunDir(path, kind="mitigated encoder", manifest=MITIGATED, owned=owned, schema=_SCHEMA)


def read_mitigated(folder: str | Path) -> dict[str, Any]:
    """What ``mitigated.json`` of a directory says."""
    file = Path(folder) / MITIGATED
    if not file.is_file():
        raise ModelError(f"{folder} is no mitigated encoder: no {MITIGATED} in it; write it with evenli mitigate")
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
        # Before there was a schema there was one format.
        known = about["schema"] <= _SCHEMA if "schema" in about else about["format"] == _FORMAT
        texts = (*(about["base"][name] for name in ("spec", "pooling", "identity")), about["eraser"]["sha256"])
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("a text is expected for base and eraser")
    except UNREADABLE as error:
        raise ModelError(f"{file} is broken ({type(error).__name__}: {error}); write it again") from error
    if not known:
        raise ModelError(f"{file} was written by another evenli ({about.get('evenli', '?')}); upgrade evenli")
    return dict(about)


def checked_file(folder: Path, name: str, about: dict[str, Any]) -> Path:
    """The file of the eraser or the vectors, if it is the one that the manifest describes."""
    file = folder / name
    if not file.is_file():
        raise ModelError(f"{folder} is not complete: no {name} in it; run the mitigation again")
    if hash_files([file]) != about["eraser"]["sha256"]:
        raise ModelError(f"{file} is not the one that {MITIGATED} describes; run the mitigation again")
    return file


def load_base(folder: Path, stored: dict[str, Any], device: str | None) -> Encoder:
    """The base encoder of a directory, unchanged since the mitigation."""
    for place in map(Path, parts_of(stored["spec"])):
        if place.is_absolute() and not place.exists():
            raise ModelError(f"the base of {folder} is gone: no {place}; bring it back or mitigate another encoder")
    try:
        base = load_encoder(stored["spec"], pooling=stored["pooling"], device=device)
    except EvenliError as error:
        raise ModelError(f"the base of {folder} cannot be loaded ({stored['spec']}): {error}") from error
    if identity_of(base) != stored["identity"]:
        raise ModelError(
            f"the base of {folder}, {stored['spec']}, has changed since the mitigation; bring it back or mitigate the "
            "encoder again"
        )
    return base


def identity_of(encoder: Encoder) -> str:
    """The encoder's ``identity``; without one a changed encoder could not be noticed."""
    identity = getattr(encoder, "identity", None)
    if identity is None:
        raise InputError(f"{name_of(encoder)} has no identity; give it one that changes when its outputs could")
    return str(identity)
