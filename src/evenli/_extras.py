"""One helper for optional dependencies."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from evenli.errors import InputError, MissingExtraError


def import_object(spec: str, what: str) -> Any:
    """Import ``module:name`` that a user typed; the current directory is on the path.

    Args:
        spec: Module and name, joined by a colon.
        what: What it is given for, for the message.
    """
    module, _, name = spec.partition(":")
    if not module or not name:
        raise InputError(f"{what} {spec}: expected module:function")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # a module of the user's own may fail in any way
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"{what} {spec}: {reason}") from error
    return found


def need(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional module or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise MissingExtraError(module.partition(".")[0], extra, purpose) from error
