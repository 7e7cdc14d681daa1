"""Association tests: which words or sentences are compared with which, how an encoder does, and the mean effect.

The word lists are those of Caliskan et al. 2017 and May et al. 2019. A sentence test puts every word into the short
frames that fit its kind ("This is a rose.", "Roses are things."), so that a sentence says little but its word.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, get_args

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike, NDArray

from evenli.core.errors import InputError
from evenli.core.format import capitalised, number, signed
from evenli.core.io import hash_text, iter_rows, read_json
from evenli.core.record import Estimate, Number, Record
from evenli.encoders.base import Embeddings, Encoder, as_encoder, encode_checked, layers
from evenli.encoders.seat import association
from evenli.encoders.seat.association import DEFAULTS, AssociationResult, UnitSets, Values
from evenli.encoders.settings import Level
from evenli.encoders.settings import SeatSettings as SeatSettings
from evenli.stats.intervals import holm
from evenli.words import read_table

AVERAGED = ("C6", "C6b", "C7", "C7b", "C8", "C8b")
"""The gender tests, over which Dolci et al. 2023 average."""
Vectors = Mapping[str, NDArray[Any]]
_ROLES = {"targ1": "x", "targ2": "y", "attr1": "a", "attr2": "b"}
_SHOWN = 3


@dataclass(frozen=True)
class TextSet:
    """One side of a test."""

    title: str  # what the texts stand for, e.g. "Male names"
    texts: tuple[str, ...]  # words or sentences, all different
    # The word behind every text. Sentences of one word are not independent: intervals resample words.
    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.words) != len(self.texts):
            raise InputError(f"{self.title}: {len(self.words)} words for {len(self.texts)} texts; give one for each")
        if len(set(self.texts)) != len(self.texts):
            twice = next(text for text in self.texts if self.texts.count(text) > 1)
            raise InputError(f"{self.title} holds '{twice}' more than once; a repeated text is no further evidence")

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class AssociationTest:
    """Are the targets ``x`` closer to the attributes ``a``, and the targets ``y`` to ``b``?"""

    name: str
    level: Level
    x: TextSet
    y: TextSet
    a: TextSet
    b: TextSet

    @property
    def title(self) -> str:
        """What is compared with what.

        >>> seat_tests("word", ["C6"])[0].title
        'Male names and Female names, with Career and Family'
        """
        return f"{self.x.title} and {self.y.title}, with {self.a.title} and {self.b.title}"

    @property
    def sets(self) -> tuple[TextSet, TextSet, TextSet, TextSet]:
        """The four sets in the order x, y, a, b."""
        return self.x, self.y, self.a, self.b


def seat_tests(level: Level = "sentence", names: Sequence[str] | None = None) -> list[AssociationTest]:
    """The eight tests C1, C2, C6, C6b, C7, C7b, C8 and C8b.

    Both targets of a test are of one size. Where the frames give one of them more sentences, it is thinned evenly to
    the size of the other; the released files drop sentences at random, so the sizes agree but not every sentence.
    The level is ``word`` (WEAT) or ``sentence`` (SEAT); ``names`` keeps only these tests, in this order.
    """
    if level not in get_args(Level):
        raise InputError(f"unknown level '{level}'; choose {' or '.join(get_args(Level))}")
    rows = {row["test"]: row for row in read_table("seat_tests.csv", ("test", "x", "y", "a", "b"))}
    unknown = [name for name in names or () if name not in rows]
    if unknown:
        raise InputError(f"no association test {', '.join(unknown)}; there are {', '.join(rows)}")
    sets = _text_sets(level)
    tests = []
    for name in rows if names is None else names:
        x, y, a, b = (sets[rows[name][role]] for role in "xyab")
        size = min(len(x), len(y))
        tests.append(AssociationTest(name, level, _thinned(x, size), _thinned(y, size), a, b))
    return tests


def choose_tests(
    tests: Sequence[str | Path | AssociationTest] | None = None, level: Level = "sentence"
) -> list[AssociationTest]:
    """Tests by name, from a JSON file or as they are, in the order given, each once; None for all eight."""
    if tests is None:
        return seat_tests(level)
    if isinstance(tests, str) or not tests:
        raise InputError(f"tests is {tests!r}; give a list of one or more tests, such as ['C6', 'C8b']")
    chosen: list[AssociationTest] = []
    for test in dict.fromkeys(tests):
        if isinstance(test, AssociationTest):
            chosen.append(test)
        elif Path(test).suffix in {".json", ".jsonl"}:
            chosen += read_tests(test)
        else:
            chosen += seat_tests(level, [str(test)])
    names = [test.name for test in chosen]
    for name in names:
        if names.count(name) > 1:  # seeds and results go by name
            raise InputError(f"two tests are called {name}; rename one of the files")
    return chosen


def texts_of(tests: Iterable[AssociationTest]) -> list[str]:
    """All different texts of some tests, in order of appearance: what an encoder has to encode, once each."""
    return list(dict.fromkeys(text for test in tests for part in test.sets for text in part.texts))


def read_tests(path: str | Path) -> list[AssociationTest]:
    """The tests of a file: one JSON object, as the field publishes them under either ending, or one object a line."""
    path = Path(path)
    try:
        return [read_test(path)]
    except InputError:
        rows = list(iter_rows(path)) if path.suffix == ".jsonl" and path.is_file() else []
        if len(rows) < 2:  # one object over several lines, or a broken one: the first message says more
            raise
    return [_test(row, f"{path}, line {line}", f"{path.stem}-{at}") for at, (line, row) in enumerate(rows, 1)]


def read_test(path: str | Path) -> AssociationTest:
    """Read a test of the user's own.

    The file is a JSON object with ``targ1``, ``targ2``, ``attr1`` and ``attr2``, each with a ``category`` and a list of
    ``examples``. Repeated examples count once. Examples of several words make it a sentence test; a list ``words``, the
    word that each example is about, lets intervals resample words and not sentences.
    """
    path = Path(path)
    return _test(read_json(path), str(path), path.stem)


def _test(content: dict[str, Any], where: str, name: str) -> AssociationTest:
    missing = [role for role in _ROLES if role not in content]
    if missing:
        raise InputError(f"{where} has no {', '.join(missing)}; an association test needs {', '.join(_ROLES)}")
    sets = {ours: _text_set(content[theirs], f"{where}, {theirs}") for theirs, ours in _ROLES.items()}
    x, y = len(sets["x"]), len(sets["y"])
    if x != y:
        raise InputError(f"{where} has {x} different examples in targ1 and {y} in targ2; give as many of each")
    # The file does not say which; a space is what tells a sentence from a word.
    spaced = any(" " in text for part in sets.values() for text in part.texts)
    return AssociationTest(name, "sentence" if spaced else "word", **sets)


def _text_set(part: Any, where: str) -> TextSet:
    examples = part.get("examples") if isinstance(part, dict) else None
    if not isinstance(examples, list) or not examples:
        raise InputError(f"{where}: no list 'examples'; give at least two texts")
    bad = [text for text in examples if not isinstance(text, str) or not text.strip()]
    if bad:
        raise InputError(f"{where}: {json.dumps(bad[0])} is not a text; every example is a word or a sentence")
    words = part.get("words", examples)
    if not isinstance(words, list) or len(words) != len(examples) or not all(isinstance(word, str) for word in words):
        raise InputError(f"{where}: 'words' is not a list of one word for each of the {len(examples)} examples")
    members: dict[str, str] = {}
    for text, word in zip(examples, words, strict=True):
        members.setdefault(text, word)  # the first of repeated examples counts
    return TextSet(str(part.get("category") or where.rpartition(" ")[2]), tuple(members), tuple(members.values()))


def _text_sets(level: Level) -> dict[str, TextSet]:
    frames: dict[str, list[str]] = {}
    for row in read_table("seat_templates.csv", ("kind", "template")):
        frames.setdefault(row["kind"], []).append(row["template"])
    texts: dict[str, dict[str, str]] = {}
    for row in read_table("seat_words.csv", ("category", "word", "kind", "singular", "plural")):
        # The singular carries its article.
        forms = {"a": row["singular"], "one": row["singular"].rpartition(" ")[2], "many": row["plural"]}
        sentences = [capitalised(frame.format(**forms)) for frame in frames[row["kind"]]]
        for text in [row["word"]] if level == "word" else sentences:
            texts.setdefault(row["category"], {}).setdefault(text, row["word"])
    return {title: TextSet(title, tuple(members), tuple(members.values())) for title, members in texts.items()}


def _thinned(part: TextSet, size: int) -> TextSet:
    # Evenly spread, so that every word keeps some of its sentences.
    kept = [i * len(part) // size for i in range(size)]
    return TextSet(part.title, tuple(part.texts[i] for i in kept), tuple(part.words[i] for i in kept))


class AverageEffect(Record, frozen=True):
    """Mean of the effects of several tests, with their signs and without; NaN with a note if one is missing."""

    optional: ClassVar[tuple[str, ...]] = ("note",)

    signed: Number
    absolute: Number
    note: str = ""


def average_effect(effects: Mapping[str, float], names: Sequence[str] = AVERAGED) -> AverageEffect:
    """Mean effect of some tests, signed as published, and of the sizes: opposite effects cancel in the signed mean."""
    missing = [name for name in names if math.isnan(effects.get(name, math.nan))]
    if missing:
        return AverageEffect(math.nan, math.nan, f"undefined: no effect for {', '.join(missing)}")
    chosen = np.array([effects[name] for name in names])
    return AverageEffect(float(chosen.mean()), float(np.abs(chosen).mean()))


class SeatResult(Record, frozen=True):
    """Several association tests of one encoder.

    ``result["C6"]`` is the result of one test, ``result.mean`` the average of the gender tests C6 to C8b.

    Attributes:
        tests: One result each.
        settings: What they depend on besides encoder and texts.
        identity: Of the encoder; changes when its outputs could.
    """

    stamped: ClassVar[str] = "association tests"
    schema: ClassVar[int] = 2
    computed: ClassVar[Mapping[str, str]] = {"mean": "_defined_mean"}

    tests: tuple[AssociationResult, ...]
    settings: SeatSettings = DEFAULTS
    identity: str = ""

    def __getitem__(self, name: str) -> AssociationResult:
        return {test.name: test for test in self.tests}[name]

    def __repr__(self) -> str:
        mean = self.mean
        average = "" if mean.note else f", mean effect {signed(mean.signed)}, of sizes {number(mean.absolute)}"
        return f"SeatResult({len(self.tests)} tests{average})"

    @property
    def effects(self) -> dict[str, float]:
        """The effect of every test."""
        return {test.name: test.effect.value for test in self.tests}

    @property
    def mean(self) -> AverageEffect:
        """Average of the gender tests C6 to C8b; NaN with a note if one of them was not run."""
        return average_effect(self.effects)

    @property
    def _defined_mean(self) -> AverageEffect | None:
        """Average of the gender tests C6 to C8b; null if one of them was not run."""
        return None if self.mean.note else self.mean


def seat(
    encoder: Encoder | str,
    tests: Sequence[str | Path | AssociationTest] | None = None,
    settings: SeatSettings = DEFAULTS,
    on_step: Callable[[str], None] = lambda _: None,
) -> SeatResult:
    """Run association tests on an encoder (Caliskan et al. 2017, May et al. 2019).

    Args:
        encoder: Anything with ``encode(texts)`` that gives [n, d], or a spec as ``load_encoder`` takes it.
        tests: Names such as ``C6``, JSON files of your own, or test objects; default: all eight.
        settings: Level, seed, permutations and resamples.
        on_step: Told what is computed next.
    """
    encoder, chosen = as_encoder(encoder), choose_tests(tests, settings.level)
    on_step(f"encoding {len(texts_of(chosen)):,} texts")
    result = seat_from_vectors(chosen, encode_tests(encoder, chosen), settings, on_step)
    results = [_with_missing(encoder, test, scored) for test, scored in zip(chosen, result.tests, strict=True)]
    return replace(result, tests=tuple(results), identity=str(getattr(encoder, "identity", "")))


def seat_from_vectors(
    tests: Sequence[AssociationTest],
    vectors: Mapping[str, ArrayLike],
    settings: SeatSettings = DEFAULTS,
    on_step: Callable[[str], None] = lambda _: None,
) -> SeatResult:
    """Run tests on embeddings that are there already, one for every text, and correct their p-values for each other."""
    missing = [text for text in texts_of(tests) if text not in vectors]
    if missing:
        more = f" and {len(missing) - 1} more texts" if len(missing) > 1 else ""
        raise InputError(f"no vector for '{missing[0]}'{more}; give one for every text of the tests")
    # A generator per test, from seed and name: the order of tests and the tests beside it change no draw.
    seed = int(np.random.default_rng(settings.seed).integers(2**63))
    results = []
    for at, test in enumerate(tests, 1):
        on_step(f"test {test.name}, {at} of {len(tests)}")
        sets = [[np.asarray(vectors[text]) for text in part.texts] for part in test.sets]
        generator = np.random.default_rng([seed, int(hash_text(test.name), 16)])
        words = [part.words for part in test.sets]
        result = association.association_test(sets, settings, words=words, generator=generator)
        results.append(replace(result, name=test.name, title=test.title, kind=test.level))
    p_values = [result.p for result in results]
    corrected = zip(results, holm(p_values), association.benjamini_hochberg(p_values), strict=True)
    return SeatResult(tuple(replace(test, p_holm=by_holm, p_bh=by_bh) for test, by_holm, by_bh in corrected), settings)


def encode_tests(encoder: Encoder, tests: Sequence[AssociationTest]) -> dict[str, Embeddings]:
    """Embedding of every text of some tests, each encoded once."""
    texts = texts_of(tests)
    return dict(zip(texts, encode_checked(encoder, texts), strict=True))


def _with_missing(encoder: Any, test: AssociationTest, result: AssociationResult) -> AssociationResult:
    """Name the words without a vector: their sentences differ in the frames only, and no number shows that."""
    words = list(dict.fromkeys(word for part in test.sets for word in part.words))
    # Transformers take any text and have no such method.
    missing = next((tuple(layer.unknown(words)) for layer in layers(encoder) if hasattr(layer, "unknown")), ())
    if not missing:
        return result
    some = ", ".join(missing[:_SHOWN]) + (", …" if len(missing) > _SHOWN else "")
    note = f"{len(missing)} of {len(words)} words have no vector ({some}), which distorts the test"
    effect = replace(result.effect, note="; ".join(filter(None, (result.effect.note, note))))
    return replace(result, effect=effect, missing_vectors=missing)


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
    if not all(np.any(rows[text]) for rows in encoders for text in texts_of(tests)):
        note = "undefined: an embedding is zero and has no direction"
        return Estimate.undefined(note, settings.coverage, len(tests))
    draws: dict[tuple[str, ...], Values] = {}
    value, resampled = _sizes(tests, vectors, settings, draws)
    if before is not None:
        earlier, drawn = _sizes(tests, before, settings, draws)
        value, resampled = value - earlier, resampled - drawn
    note = "over the words of the tests, signs held"
    found = association.bootstrapped(value, resampled, settings.coverage, len(tests), note)
    return found if before is not None or math.isnan(found.low) else replace(found, low=max(found.low, 0.0))


def _sizes(
    tests: Sequence[AssociationTest], vectors: Vectors, settings: SeatSettings, draws: dict[tuple[str, ...], Values]
) -> tuple[float, Values]:
    """The mean size of the effects, and in every resample, signs held; ``draws`` keeps the draws of every set."""
    generator = np.random.default_rng(settings.seed)
    resampled, observed = np.zeros(settings.resamples), 0.0
    for test in tests:
        sets = [np.stack([vectors[text] for text in part.texts]) for part in test.sets]
        units = UnitSets(sets, [part.words for part in test.sets], settings.ddof)

        def draw(at: int, test: AssociationTest = test, units: UnitSets = units) -> Values:
            key = (test.sets[at].title, *sorted(set(test.sets[at].words)))
            if key not in draws:
                draws[key] = association.draw_words(units.index[at], settings.resamples, generator)
            return draws[key]

        # The sign of the observed effect, not of the resampled one: the size of noise is not an effect.
        resampled += np.sign(units.effect) * units.resampled(draw) / len(tests)
        observed += abs(units.effect) / len(tests)
    return observed, resampled
