"""Run association tests on an encoder."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike

from evenli.encoders.base import Embeddings, Encoder, encode_checked
from evenli.errors import InputError
from evenli.evaluate.compare import holm
from evenli.evaluate.seat.association import association_test, benjamini_hochberg
from evenli.evaluate.seat.results import DEFAULTS, AssociationResult, SeatResult, SeatSettings
from evenli.evaluate.seat.tests import AssociationTest, choose_tests, texts_of
from evenli.io import hash_text

_SHOWN = 3


def seat(
    encoder: Encoder,
    tests: Sequence[str | Path | AssociationTest] | None = None,
    settings: SeatSettings = DEFAULTS,
) -> SeatResult:
    """Run association tests on an encoder (Caliskan et al. 2017, May et al. 2019).

    Args:
        encoder: Anything with ``encode(texts)`` that gives [n, d].
        tests: Names such as ``C6``, JSON files of your own, or test objects; default: all eight.
        settings: Level, seed, permutations and resamples.
    """
    chosen = choose_tests(tests, settings.level)
    result = seat_from_vectors(chosen, encode_tests(encoder, chosen), settings)
    results = [_with_missing(encoder, test, one) for test, one in zip(chosen, result.tests, strict=True)]
    return dataclasses.replace(result, tests=tuple(results), encoder=str(getattr(encoder, "identity", "")))


def seat_from_vectors(
    tests: Sequence[AssociationTest], vectors: Mapping[str, ArrayLike], settings: SeatSettings = DEFAULTS
) -> SeatResult:
    """Run tests on embeddings that are there already and correct their p-values for each other.

    The draws of a test depend on the seed and on the test's name: its result alone is its result among others, but for
    the correction.

    Args:
        tests: From ``seat_tests`` or ``read_test``.
        vectors: Embedding of every text of the tests. A text has one vector wherever it occurs.
        settings: Seed, permutations and resamples.
    """
    missing = [text for text in texts_of(tests) if text not in vectors]
    if missing:
        more = f" and {len(missing) - 1} more texts" if len(missing) > 1 else ""
        raise InputError(f"no vector for '{missing[0]}'{more}; give one for every text of the tests")
    # A generator per test, from seed and name: the order of tests and the tests beside it change no draw.
    seed = int(np.random.default_rng(settings.seed).integers(2**63))
    results = []
    for test in tests:
        x, y, a, b = ([np.asarray(vectors[text]) for text in part.texts] for part in test.sets)
        generator = np.random.default_rng([seed, int(hash_text(test.name), 16)])
        words = [part.words for part in test.sets]
        result = association_test(x, y, a, b, settings, words=words, generator=generator)
        results.append(replace(result, name=test.name, kind=test.level))
    p_values = [result.p for result in results]
    corrected = zip(results, holm(p_values), benjamini_hochberg(p_values), strict=True)
    return SeatResult(tuple(replace(one, p_holm=by_holm, p_bh=by_bh) for one, by_holm, by_bh in corrected), settings)


def encode_tests(encoder: Encoder, tests: Sequence[AssociationTest]) -> dict[str, Embeddings]:
    """Embedding of every text of some tests, each encoded once."""
    texts = texts_of(tests)
    return dict(zip(texts, encode_checked(encoder, texts), strict=True))


def missing_vectors(encoder: Any, words: Sequence[str]) -> list[str]:
    """Those of ``words`` that the encoder has no vector for; none if it takes any text, as transformers do."""
    while not hasattr(encoder, "unknown") and hasattr(encoder, "encoder"):
        encoder = encoder.encoder  # what stands before an eraser or behind a cache
    return list(encoder.unknown(words)) if hasattr(encoder, "unknown") else []


def _with_missing(encoder: Encoder, test: AssociationTest, result: AssociationResult) -> AssociationResult:
    """Name the words without a vector: their sentences differ in the frames only, and no number shows that."""
    words = list(dict.fromkeys(word for part in test.sets for word in part.words))
    missing = missing_vectors(encoder, words)
    if not missing:
        return result
    some = ", ".join(missing[:_SHOWN]) + (", …" if len(missing) > _SHOWN else "")
    note = f"{len(missing)} of {len(words)} words have no vector ({some}), which distorts the test"
    return replace(result, note="; ".join(filter(None, (result.note, note))), missing_vectors=tuple(missing))
