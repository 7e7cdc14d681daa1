"""The audit: pairs, models, suites, verdict, comparison, report, gate. It can be called: ``evenli.audit(model)``.

Importing a module of this package binds the package to the name ``evenli.audit`` and would hide a function of that
name. A package that can be called is both.
"""

import inspect
import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from evenli.audit.audit import audit

        return audit(*arguments, **options)

    @property
    def __signature__(self) -> inspect.Signature:  # help() and editors show the function's parameters
        from evenli.audit.audit import audit

        return inspect.signature(audit)


sys.modules[__name__].__class__ = _Callable
