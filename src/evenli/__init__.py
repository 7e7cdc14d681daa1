"""evenli: assess and mitigate gender bias in language-inference models and sentence encoders.

>>> import evenli
>>> evenli.audit("fake:oracle:0.3").coal.value
0.2
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evenli._version import __version__
from evenli.core.startup import silence

silence()  # before any dependency is imported

if TYPE_CHECKING:
    from evenli._mitigate import mitigate as mitigate
    from evenli.audit.audit import Audit as Audit
    from evenli.audit.audit import audit as audit
    from evenli.audit.audit import load_run as load_run
    from evenli.audit.audit import robustness as robustness
    from evenli.audit.compare import compare_runs as compare  # noqa: F401
    from evenli.audit.gate import gate as gate
    from evenli.audit.models import load_model as load_model
    from evenli.audit.pairs import PairSet as PairSet
    from evenli.audit.report.html import report as report
    from evenli.corpus.scoring import score as score
    from evenli.encoders.base import load_encoder as load_encoder
    from evenli.encoders.seat import seat as seat
    from evenli.encoders.senteval import senteval as senteval
    from evenli.training.nli import train as train
    from evenli.words.swap.swapper import swap as swap

_PUBLIC = {
    "Audit": "audit.audit:Audit",
    "PairSet": "audit.pairs:PairSet",
    "audit": "audit.audit:audit",
    "compare": "audit.compare:compare_runs",
    "gate": "audit.gate:gate",
    "load_encoder": "encoders.base:load_encoder",
    "load_model": "audit.models:load_model",
    "load_run": "audit.audit:load_run",
    "mitigate": "_mitigate:mitigate",
    "report": "audit.report.html:report",
    "robustness": "audit.audit:robustness",
    "score": "corpus.scoring:score",
    "seat": "encoders.seat:seat",
    "senteval": "encoders.senteval:senteval",
    "swap": "words.swap.swapper:swap",
    "train": "training.nli:train",
}
"""Public names and where they live; each is imported when it is first used, so that ``import evenli`` stays fast."""

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'evenli' has no attribute '{name}'; it has {', '.join(_PUBLIC)}")
    module, _, attribute = _PUBLIC[name].partition(":")
    return getattr(import_module(f"evenli.{module}"), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
