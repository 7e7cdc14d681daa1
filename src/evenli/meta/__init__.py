"""Meta-evaluation: train models whose bias is known, and see which measures rank them.

Three stages share one directory and can run on three machines: ``prepare`` writes the pairs and their labels,
``train_sweep`` trains one model per seed and level and stores its logits, ``score_sweep`` computes every measure from
those. ``meta_evaluation`` does all three.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenli.meta.controlled import write_controlled
    from evenli.meta.design import Design, SweepSettings
    from evenli.meta.folder import MetaFolder
    from evenli.meta.preparation import prepare
    from evenli.meta.run import meta_evaluation
    from evenli.meta.scoring import score_sweep
    from evenli.meta.training import train_sweep

__all__ = [
    "Design",
    "MetaFolder",
    "SweepSettings",
    "meta_evaluation",
    "prepare",
    "score_sweep",
    "train_sweep",
    "write_controlled",
]

_HOMES = {
    "Design": "design",
    "MetaFolder": "folder",
    "SweepSettings": "design",
    "meta_evaluation": "run",
    "prepare": "preparation",
    "score_sweep": "scoring",
    "train_sweep": "training",
    "write_controlled": "controlled",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: preparing needs no torch, training no polars."""
    if name not in _HOMES:
        raise AttributeError(f"module 'evenli.meta' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"evenli.meta.{_HOMES[name]}"), name)
