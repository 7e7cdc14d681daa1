"""Content hashes of files and texts, and the files of a checkpoint that are worth one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

MATTERS = {".safetensors", ".json", ".txt", ".model", ".codes", ".vocab", ".bpe", ".tiktoken"}
"""Endings of the files that a checkpoint's outputs depend on: weights, configuration and vocabularies."""
_RECORDS = {"training.json", "checkpoint.safetensors", "run.json", "results.json"}
"""What evenli writes into a folder about a run; the model in it answers the same without them."""


def hash_files(paths: Iterable[Path]) -> str:
    """SHA-256 over names and contents, in the order given."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\x00")
        with path.open("rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                digest.update(block)
    return digest.hexdigest()


def hash_text(text: str) -> str:
    """SHA-256 of a string."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def checkpoint_files(folder: Path, *, nested: bool = False) -> list[Path]:
    """What the outputs of a checkpoint depend on; code in it is never run, so it does not count.

    A pickle counts where it is what would be loaded: in a folder without ``model*.safetensors``.

    Args:
        folder: The checkpoint.
        nested: Also files of folders in it, where a sentence-transformer keeps its parts.
    """
    there = [file for file in (folder.rglob("*") if nested else folder.iterdir()) if file.is_file()]
    safe = any(file.name.startswith("model") and file.suffix == ".safetensors" for file in there)
    endings = MATTERS if safe else MATTERS | {".bin"}
    return sorted(file for file in there if file.suffix in endings and file.name not in _RECORDS)
