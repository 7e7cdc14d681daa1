"""The public API: packages whose name is also a function, and paths."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from evenli.core.errors import InputError


def make_callable(package: str, target: str) -> None:
    """Let ``package(...)`` call ``target``, written ``module:function``.

    Importing a module of ``evenli.report`` binds the package to the name ``evenli.report`` and would hide a function of
    that name. A package that can be called is both.
    """

    def function() -> Any:
        module, _, name = target.partition(":")
        return getattr(importlib.import_module(module), name)

    class Callable(ModuleType):
        def __call__(self, *arguments: Any, **options: Any) -> Any:
            return function()(*arguments, **options)

        @property
        def __signature__(self) -> inspect.Signature:  # help() and editors show the function's parameters
            return inspect.signature(function())

    sys.modules[package].__class__ = Callable


def path_of(given: object, what: str) -> Path:
    """The path that a caller gave for ``what``; all but a text or a path is refused."""
    if not isinstance(given, str | os.PathLike):
        raise InputError(f"{what} is named by a path, not by {type(given).__name__}")
    return Path(given)
