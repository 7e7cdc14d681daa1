"""One helper for optional dependencies."""

from __future__ import annotations

import importlib
from types import ModuleType

from evenli.errors import MissingExtraError


def need(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional module or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise MissingExtraError(module.partition(".")[0], extra, purpose) from error
