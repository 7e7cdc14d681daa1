"""evenli: assess and mitigate gender bias in language-inference models.

>>> import evenli
>>> evenli.audit("fake:oracle:0.3").results["coal"]["measures"]["coal"]["value"]
0.2
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenli._version import __version__

if TYPE_CHECKING:
    from evenli.auditing import Audit, audit
    from evenli.datasets import PairSet, build_coal, load_coal
    from evenli.models import load_model
    from evenli.predictions import Predictions, predict

__all__ = [
    "Audit",
    "PairSet",
    "Predictions",
    "__version__",
    "audit",
    "build_coal",
    "load_coal",
    "load_model",
    "predict",
]

_HOMES = {
    "Audit": "evenli.auditing",
    "audit": "evenli.auditing",
    "PairSet": "evenli.datasets",
    "build_coal": "evenli.datasets",
    "load_coal": "evenli.datasets",
    "load_model": "evenli.models",
    "Predictions": "evenli.predictions",
    "predict": "evenli.predictions",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: ``import evenli`` and ``evenli --help`` stay fast."""
    if name not in _HOMES:
        raise AttributeError(f"module 'evenli' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
