"""Imports at run time: of what a user names, and of optional dependencies."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from evenli.core.errors import EvenliError, InputError, MissingExtraError, named_reason, translated


def import_object(spec: str, what: str) -> Any:
    """Import ``module:name`` that a user typed as ``what``; the current directory is on the path."""
    module, _, name = spec.partition(":")
    if not module or not name:
        raise InputError(f"{what} {spec}: expected module:function")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    # A module of the user's own may fail in any way.
    with translated(f"{what} {spec}: ", kinds=(Exception, EvenliError, SystemExit), reason=named_reason):
        target: Any = importlib.import_module(module)
        for part in name.split("."):
            target = getattr(target, part)
    return target


EXTRA_MODULES = {
    "hf": ("torch", "transformers"),
    "onnx": ("onnx", "onnxscript"),
    "report": ("altair", "vl_convert"),
    "encoders": ("sklearn", "concept_erasure"),
    "scale": ("ray",),
    "view": ("starlette", "uvicorn"),
}
"""What an extra brings, by the names that are imported."""


def _check_docstrings(module: str, purpose: str) -> None:
    """Refuse altair where Python drops the docstrings: it reads its own when it is imported."""
    if module == "altair" and sys.flags.optimize > 1:
        raise InputError(f"{purpose} needs docstrings; run Python without -OO (PYTHONOPTIMIZE is 1 at most)")


def check_extra(extra: str, purpose: str, *modules: str) -> None:
    """Refuse at once, and without importing anything, what an extra is missing for; by default all of its modules."""
    for module in modules or EXTRA_MODULES[extra]:
        if importlib.util.find_spec(module) is None:
            raise MissingExtraError(module, extra, purpose)
        _check_docstrings(module, purpose)


def need(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional module or say which extra brings it."""
    _check_docstrings(module, purpose)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # Something that the module itself needs is missing: another message, which is Python's.
        if error.name != module.partition(".")[0]:
            raise
        raise MissingExtraError(module.partition(".")[0], extra, purpose) from error
