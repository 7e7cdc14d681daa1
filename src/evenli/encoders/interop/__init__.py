"""SEAT inside other evaluation libraries, and evenli's encoders inside mteb.

``SeatEvaluator`` is an evaluator of sentence-transformers, ``SeatTask`` a task of mteb. Both libraries take the larger
score for the better one, hence the score to compare by is the mean absolute effect with a minus: 0 is best, about -2
worst. It is no measure of quality. An encoder that tells nothing apart has small effects, too: use it beside others.
The libraries are loaded when a name is first used.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenli.core.errors import InputError, ModelError
from evenli.encoders.base import Encoder
from evenli.encoders.seat import AssociationTest, SeatSettings, average_effect, seat_from_vectors

PRIMARY = "negative_mean_absolute_effect"
_SETTINGS = SeatSettings(resamples=0)
_HOMES = {"SeatEvaluator": "evenli.encoders.interop.st", "SeatTask": "evenli.encoders.interop.mteb"}


def seat_metrics(
    tests: Sequence[AssociationTest], texts: Sequence[str], vectors: ArrayLike, settings: SeatSettings = _SETTINGS
) -> tuple[dict[str, float], str]:
    """Effects and p-values of some tests and the means over them, as a flat dictionary; and what is undefined, why.

    The means are over the tests given: ``mean_effect`` with signs, ``mean_absolute_effect`` without, and PRIMARY, the
    latter with a minus. An undefined value is NaN: a model that diverges in training should not stop it. ``texts`` are
    those of ``texts_of(tests)``, with a row of ``vectors`` each.
    """
    rows = np.asarray(vectors)
    if rows.ndim != 2 or len(rows) != len(texts):
        raise ModelError(f"the model gave an array of shape {rows.shape} for {len(texts)} texts; expected [n, d]")
    result = seat_from_vectors(tests, dict(zip(texts, rows, strict=True)), settings)
    mean = average_effect(result.effects, list(result.effects))
    metrics = {f"{name}_effect": effect for name, effect in result.effects.items()}
    metrics |= {f"{test.name}_p": test.p for test in result.tests}
    metrics |= {"mean_effect": mean.signed, "mean_absolute_effect": mean.absolute, PRIMARY: -mean.absolute}
    return metrics, "; ".join(f"{test.name}: {test.effect.note}" for test in result.tests if test.effect.note)


def as_mteb_model(encoder: Encoder, name: str | None = None) -> Any:
    """An encoder as a model for ``mteb.evaluate``; ``encode`` also takes a plain list of texts.

    mteb keeps results under name, ``organisation/model`` (default: ``evenli/`` and the class), and revision. That is
    taken from the encoder's identity and from its outputs on a few texts, so that an encoder and its mitigated version
    do not share results.
    """
    name = f"evenli/{type(encoder).__name__}" if name is None else name
    if name.count("/") != 1 or not all(name.split("/")):
        raise InputError(f"mteb takes no model name '{name}'; give organisation/model")
    return import_module("evenli.encoders.interop.mteb").MtebModel(encoder, name)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'evenli.encoders.interop' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
