"""evenli: assess and mitigate gender bias in language-inference models.

>>> import evenli
>>> evenli.audit("fake:oracle:0.3").coal.value
0.2
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenli._network import silence
from evenli._version import __version__

silence()  # before any dependency is imported

if TYPE_CHECKING:
    from evenli.evaluate.audit import Audit, audit
    from evenli.evaluate.predict import predict
    from evenli.models import load_model
    from evenli.pairs import PairSet
    from evenli.predictions import Predictions
    from evenli.report.gate import gate
    from evenli.report.html import report
    from evenli.suites.coal.build import build_coal
    from evenli.suites.coal.load import load_coal

__all__ = [
    "Audit",
    "PairSet",
    "Predictions",
    "__version__",
    "audit",
    "build_coal",
    "gate",
    "load_coal",
    "load_model",
    "predict",
    "report",
]

_HOMES = {
    "Audit": "evenli.evaluate.audit",
    "audit": "evenli.evaluate.audit",
    "gate": "evenli.report.gate",
    "report": "evenli.report.html",
    "PairSet": "evenli.pairs",
    "build_coal": "evenli.suites.coal.build",
    "load_coal": "evenli.suites.coal.load",
    "load_model": "evenli.models",
    "Predictions": "evenli.predictions",
    "predict": "evenli.evaluate.predict",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: ``import evenli`` and ``evenli --help`` stay fast."""
    if name not in _HOMES:
        raise AttributeError(f"module 'evenli' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
