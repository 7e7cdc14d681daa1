"""evenli: assess and mitigate gender bias in language-inference models and sentence encoders.

>>> import evenli
>>> evenli.audit("fake:oracle:0.3").coal.value
0.2
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evenli._network import silence
from evenli._version import __version__

silence()  # before any dependency is imported

if TYPE_CHECKING:
    from evenli.corpus.scoring import score as score
    from evenli.encoders import load_encoder as load_encoder
    from evenli.evaluate.audit import Audit as Audit
    from evenli.evaluate.audit import audit as audit
    from evenli.evaluate.audit import load_run as load_run
    from evenli.evaluate.compare import compare_runs as compare  # noqa: F401
    from evenli.evaluate.robustness import robustness as robustness
    from evenli.evaluate.seat import seat as seat
    from evenli.evaluate.senteval import senteval as senteval
    from evenli.mitigate.api import mitigate as mitigate
    from evenli.mitigate.api import swap as swap
    from evenli.models import load_model as load_model
    from evenli.pairs import PairSet as PairSet
    from evenli.report.gate import gate as gate
    from evenli.report.html import report as report
    from evenli.training import train as train

_PUBLIC = {
    "Audit": "evaluate.audit:Audit",
    "PairSet": "pairs:PairSet",
    "audit": "evaluate.audit:audit",
    "compare": "evaluate.compare:compare_runs",
    "gate": "report.gate:gate",
    "load_encoder": "encoders:load_encoder",
    "load_model": "models:load_model",
    "load_run": "evaluate.audit:load_run",
    "mitigate": "mitigate.api:mitigate",
    "report": "report.html:report",
    "robustness": "evaluate.robustness:robustness",
    "score": "corpus.scoring:score",
    "seat": "evaluate.seat:seat",
    "senteval": "evaluate.senteval:senteval",
    "swap": "mitigate.api:swap",
    "train": "training:train",
}
"""Public names and where they live; each is imported when it is first used, so that ``import evenli`` stays fast."""

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'evenli' has no attribute '{name}'; it has {', '.join(_PUBLIC)}")
    module, _, attribute = _PUBLIC[name].partition(":")
    return getattr(import_module(f"evenli.{module}"), attribute)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
