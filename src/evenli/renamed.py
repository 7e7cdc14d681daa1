"""Keys of results.json whose names changed with schema 2. Old names go with the next release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RENAMED = {"dev": "dev2020", "standing": "published", "even": "ideal"}
"""Old to new."""


def renamed(content: Any) -> Any:
    """Old keys under their new names, at any depth."""
    if isinstance(content, Mapping):
        return {RENAMED.get(key, key): renamed(value) for key, value in content.items()}
    return [renamed(item) for item in content] if isinstance(content, list) else content
