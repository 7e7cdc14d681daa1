"""Content hashes of files and texts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


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
