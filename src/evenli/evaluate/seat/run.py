"""Run association tests on an encoder; average their effects."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike, NDArray

from evenli._version import __version__
from evenli.encoders.base import Embeddings, Encoder, encode_checked
from evenli.errors import InputError
from evenli.evaluate.compare import holm
from evenli.evaluate.seat import association
from evenli.evaluate.seat.association import DEFAULTS, NO_SPREAD, AssociationResult, SeatSettings, UnitSets, Values
from evenli.evaluate.seat.tests import AVERAGED, AssociationTest, choose_tests, texts_of
from evenli.io import hash_text, to_plain
from evenli.types import Estimate

Vectors = Mapping[str, NDArray[Any]]
_SHOWN = 3


@dataclass(frozen=True)
class AverageEffect:
    """Mean of the effects of several tests, with their signs and without; NaN with a note if one is missing."""

    signed: float
    absolute: float
    note: str = ""


def average_effect(effects: Mapping[str, float], names: Sequence[str] = AVERAGED) -> AverageEffect:
    """Mean effect of some tests, signed as published, and of the sizes: opposite effects cancel in the signed mean."""
    missing = [name for name in names if math.isnan(effects.get(name, math.nan))]
    if missing:
        return AverageEffect(math.nan, math.nan, f"undefined: no effect for {', '.join(missing)}")
    chosen = np.array([effects[name] for name in names])
    return AverageEffect(float(chosen.mean()), float(np.abs(chosen).mean()))


@dataclass(frozen=True, repr=False)
class SeatResult:
    """Several association tests of one encoder.

    ``result["C6"]`` is the result of one test, ``result.mean`` the average of the gender tests C6 to C8b.
    """

    tests: tuple[AssociationResult, ...]
    settings: SeatSettings = DEFAULTS
    encoder: str = ""

    def __getitem__(self, name: str) -> AssociationResult:
        return {test.name: test for test in self.tests}[name]

    def __repr__(self) -> str:
        mean = self.mean
        average = "" if mean.note else f", mean effect {mean.signed:+.3f}, of sizes {mean.absolute:.3f}"
        return f"SeatResult({len(self.tests)} tests{average})"

    @property
    def mean(self) -> AverageEffect:
        """Average of the gender tests C6 to C8b; NaN with a note if one of them was not run."""
        return self.average(AVERAGED)

    def average(self, names: Sequence[str] | None = None) -> AverageEffect:
        """Average of some tests; None for all."""
        effects = {test.name: test.effect for test in self.tests}
        return average_effect(effects, list(effects) if names is None else names)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; NaN becomes null."""
        mean = self.mean
        return {
            "identity": self.encoder,
            "version": __version__,
            "settings": asdict(self.settings),
            "tests": [test.to_dict() for test in self.tests],
            "mean": None if mean.note else to_plain({"signed": mean.signed, "absolute": mean.absolute}),
        }


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
        sets = [[np.asarray(vectors[text]) for text in part.texts] for part in test.sets]
        generator = np.random.default_rng([seed, int(hash_text(test.name), 16)])
        words = [part.words for part in test.sets]
        result = association.association_test(sets, settings, words=words, generator=generator)
        results.append(replace(result, name=test.name, kind=test.level))
    p_values = [result.p for result in results]
    corrected = zip(results, holm(p_values), association.benjamini_hochberg(p_values), strict=True)
    return SeatResult(tuple(replace(one, p_holm=by_holm, p_bh=by_bh) for one, by_holm, by_bh in corrected), settings)


def encode_tests(encoder: Encoder, tests: Sequence[AssociationTest]) -> dict[str, Embeddings]:
    """Embedding of every text of some tests, each encoded once."""
    texts = texts_of(tests)
    return dict(zip(texts, encode_checked(encoder, texts), strict=True))


def _with_missing(encoder: Any, test: AssociationTest, result: AssociationResult) -> AssociationResult:
    """Name the words without a vector: their sentences differ in the frames only, and no number shows that."""
    words = list(dict.fromkeys(word for part in test.sets for word in part.words))
    while not hasattr(encoder, "unknown") and hasattr(encoder, "encoder"):
        encoder = encoder.encoder  # what stands before an eraser or behind a cache
    # Transformers take any text and have no such method.
    missing = tuple(encoder.unknown(words)) if hasattr(encoder, "unknown") else ()
    if not missing:
        return result
    some = ", ".join(missing[:_SHOWN]) + (", …" if len(missing) > _SHOWN else "")
    note = f"{len(missing)} of {len(words)} words have no vector ({some}), which distorts the test"
    return replace(result, note="; ".join(filter(None, (result.note, note))), missing_vectors=missing)


def average_estimate(
    tests: Sequence[AssociationTest], vectors: Vectors, settings: SeatSettings = DEFAULTS, before: Vectors | None = None
) -> Estimate:
    """Mean size of the effects of several tests, ``mean |d|``, with an interval over the choice of words.

    Words are drawn anew for every set, once for all tests that use the set. Noise has no sign, so resampled sizes are
    too large where an effect is near 0: the signs of the effects are held as observed, and the interval ends at 0.

    With the vectors of an encoder ``before`` it is the difference to that one, negative if effects are smaller now.
    Both are asked with the same words in every resample, so that most of what words alone do drops out.
    """
    encoders = [vectors] if before is None else [vectors, before]
    if not all(np.any(one[text]) for one in encoders for text in texts_of(tests)):
        return undefined_estimate("undefined: an embedding is zero and has no direction", settings, len(tests))
    draws: dict[tuple[str, ...], Values] = {}
    value, resampled = _sizes(tests, vectors, settings, draws)
    if before is not None:
        earlier, drawn = _sizes(tests, before, settings, draws)
        value, resampled = value - earlier, resampled - drawn
    if not np.isfinite(resampled).all():
        return replace(undefined_estimate(NO_SPREAD, settings, len(tests)), value=value)
    low, high = association.percentile_interval(resampled, settings.coverage)
    low, se = low if before is not None else max(low, 0.0), float(resampled.std(ddof=1))
    note = "over the words of the tests, signs held"
    return Estimate(value, low, high, se, settings.coverage, len(tests), {}, note)


def undefined_estimate(note: str, settings: SeatSettings, n: int = 0) -> Estimate:
    """No value, and why."""
    return Estimate(math.nan, math.nan, math.nan, math.nan, settings.coverage, n, {}, note)


def _sizes(
    tests: Sequence[AssociationTest], vectors: Vectors, settings: SeatSettings, draws: dict[tuple[str, ...], Values]
) -> tuple[float, Values]:
    """The mean size of the effects, and in every resample, signs held; ``draws`` keeps the draws of every set."""
    generator = np.random.default_rng(settings.seed)
    resampled, observed = np.zeros(settings.resamples), 0.0
    for test in tests:
        sets = [np.stack([vectors[text] for text in part.texts]) for part in test.sets]
        units = UnitSets.of(sets, [part.words for part in test.sets], settings.ddof)

        def draw(at: int, test: AssociationTest = test, units: UnitSets = units) -> Values:
            key = (test.sets[at].title, *sorted(set(test.sets[at].words)))
            if key not in draws:
                draws[key] = association.draw_words(units.index[at], settings.resamples, generator)
            return draws[key]

        # The sign of the observed effect, not of the resampled one: the size of noise is not an effect.
        resampled += np.sign(units.effect) * units.resampled(draw) / len(tests)
        observed += abs(units.effect) / len(tests)
    return observed, resampled
