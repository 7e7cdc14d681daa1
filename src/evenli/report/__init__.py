"""Results for people: terminal, HTML, charts, model card, gate. It can be called: ``evenli.report(run, "x.html")``."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Reports(ModuleType):
    """A package that writes the HTML report when it is called; see ``evenli.report.html.report``."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from evenli.report.html import report

        return report(*arguments, **options)


# ``evenli.report`` is both this package and, in the public API, a function: importing a module of the package would
# otherwise hide the function.
sys.modules[__name__].__class__ = _Reports
