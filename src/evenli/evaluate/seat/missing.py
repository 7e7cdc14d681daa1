"""Words of an association test that an encoder over word vectors has no vector for.

Sentences about them differ in nothing but their frames, so the effect of the test says little or nothing, and nothing
in it shows that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evenli.evaluate.seat.association import AssociationResult
from evenli.evaluate.seat.tests import AssociationTest

_SHOWN = 3


def unknown_words(encoder: Any, words: Sequence[str]) -> list[str]:
    """Those of ``words`` that the encoder has no vector for; none if it takes any text, as transformers do."""
    while not hasattr(encoder, "unknown") and hasattr(encoder, "encoder"):
        encoder = encoder.encoder  # what stands before an eraser or behind a cache
    return list(encoder.unknown(words)) if hasattr(encoder, "unknown") else []


def tell_unknown(
    encoder: Any, tests: Sequence[AssociationTest], results: Sequence[AssociationResult]
) -> list[AssociationResult]:
    """The results, each with a note on the words of its test that have no vector."""
    told = []
    for test, result in zip(tests, results, strict=True):
        words = list(dict.fromkeys(word for part in test.sets for word in part.words))
        missing = unknown_words(encoder, words)
        if missing:
            some = ", ".join(missing[:_SHOWN]) + (", …" if len(missing) > _SHOWN else "")
            note = f"{len(missing)} of {len(words)} words have no vector ({some}), which distorts the test"
            result = replace(result, note="; ".join(filter(None, (result.note, note))))
        told.append(result)
    return told
