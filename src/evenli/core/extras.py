"""Imports at run time: of what a user names, of our own by path, and of optional dependencies."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
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


def make_callable(package: str, target: str) -> None:
    """Let ``package(...)`` call ``target``, written ``module:function``.

    Importing a module of ``evenli.audit`` binds the package to the name ``evenli.audit`` and would hide a function of
    that name. A package that can be called is both.
    """

    class Callable(ModuleType):
        def __call__(self, *arguments: Any, **options: Any) -> Any:
            return load_object(target, package)(*arguments, **options)

        @property
        def __signature__(self) -> inspect.Signature:  # help() and editors show the function's parameters
            return inspect.signature(load_object(target, package))

    sys.modules[package].__class__ = Callable


def load_object(path: str, purpose: str) -> Any:
    """What ``module:attribute`` of ours names; where a library is missing, the extra that brings it is named."""
    module, _, attribute = path.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        extra = next((extra for extra, modules in _MODULES.items() if library in modules), None)
        if extra is None:
            raise
        raise MissingExtraError(library, extra, purpose) from error


_MODULES = {
    "hf": ("torch", "transformers"),
    "onnx": ("onnx", "onnxscript"),
    "report": ("altair", "vl_convert"),
    "encoders": ("sklearn", "concept_erasure"),
    "scale": ("ray",),
    "view": ("starlette", "uvicorn"),
}
"""What an extra brings, by the names that are imported."""


def check_extra(extra: str, purpose: str, *modules: str) -> None:
    """Refuse at once, and without importing anything, what an extra is missing for; by default all of its modules."""
    for module in modules or _MODULES[extra]:
        if importlib.util.find_spec(module) is None:
            raise MissingExtraError(module, extra, purpose)


def need(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional module or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # Something that the module itself needs is missing: another message, which is Python's.
        if error.name != module.partition(".")[0]:
            raise
        raise MissingExtraError(module.partition(".")[0], extra, purpose) from error
