"""Packages whose name is also a function of the public API."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


def make_callable(package: str, target: str) -> None:
    """Let ``package(...)`` call ``target``, written ``module:function``.

    Importing a module of ``evenli.report`` binds the package to the name ``evenli.report`` and would hide a function of
    that name. A package that can be called is both.
    """

    class Callable(ModuleType):
        def __call__(self, *arguments: Any, **options: Any) -> Any:
            module, _, function = target.partition(":")
            return getattr(importlib.import_module(module), function)(*arguments, **options)

    sys.modules[package].__class__ = Callable
