"""Association tests: which words or sentences are compared with which (WEAT and SEAT).

The word lists are those of Caliskan et al. 2017 and May et al. 2019. A sentence test puts every word into the short
frames that fit its kind ("This is a rose.", "Roses are things."), so that a sentence says little but its word.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evenli.errors import InputError, ResourceError
from evenli.io import read_text
from evenli.resources import read_table

Level = Literal["word", "sentence"]
LEVELS: tuple[Level, ...] = ("word", "sentence")
AVERAGED = ("C6", "C6b", "C7", "C7b", "C8", "C8b")
"""The gender tests, over which Dolci et al. 2023 average."""
_ROLES = {"targ1": "x", "targ2": "y", "attr1": "a", "attr2": "b"}


@dataclass(frozen=True)
class TextSet:
    """One side of a test.

    Attributes:
        title: What the texts stand for, e.g. ``Male names``.
        texts: Words or sentences, all different.
        words: The word behind every text. Sentences of one word are not independent: intervals resample words.
    """

    title: str
    texts: tuple[str, ...]
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
    def sets(self) -> tuple[TextSet, TextSet, TextSet, TextSet]:
        """The four sets in the order x, y, a, b."""
        return self.x, self.y, self.a, self.b


def seat_tests(level: Level = "sentence", names: Sequence[str] | None = None) -> list[AssociationTest]:
    """The eight tests C1, C2, C6, C6b, C7, C7b, C8 and C8b.

    Both targets of a test are of one size. Where the frames give one of them more sentences, it is thinned evenly to
    the size of the other; the released files drop sentences at random, so the sizes agree but not every sentence.

    Args:
        level: ``word`` (WEAT) or ``sentence`` (SEAT).
        names: Keep only these tests, in this order.
    """
    if level not in LEVELS:
        raise InputError(f"unknown level '{level}'; choose {' or '.join(LEVELS)}")
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
        elif Path(test).suffix == ".json":
            chosen.append(read_test(test))
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


def read_test(path: str | Path) -> AssociationTest:
    """Read a test of the user's own.

    The file is a JSON object with ``targ1``, ``targ2``, ``attr1`` and ``attr2``, each with a ``category`` and a list of
    ``examples``. Repeated examples count once. Examples of several words make it a sentence test; a list ``words``, the
    word that each example is about, lets intervals resample words and not sentences.
    """
    path = Path(path)
    try:
        content = json.loads(read_text(path))
    except ValueError as error:
        raise InputError(f"{path} is not a JSON file: {error}") from error
    missing = [role for role in _ROLES if not isinstance(content, dict) or role not in content]
    if missing:
        raise InputError(f"{path} has no {', '.join(missing)}; an association test needs {', '.join(_ROLES)}")
    sets = {ours: _text_set(content[theirs], f"{path}, {theirs}") for theirs, ours in _ROLES.items()}
    if len(sets["x"]) != len(sets["y"]):
        raise InputError(
            f"{path} has {len(sets['x'])} different examples in targ1 and {len(sets['y'])} in targ2; the test compares "
            "equal parts, give as many of each"
        )
    # The file does not say which; a space is what tells a sentence from a word.
    spaced = any(" " in text for part in sets.values() for text in part.texts)
    return AssociationTest(path.stem, "sentence" if spaced else "word", **sets)


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
    kept = dict(reversed(list(zip(examples, words, strict=True))))  # the first of repeated examples counts
    texts = tuple(dict.fromkeys(examples))
    title = str(part.get("category") or where.rpartition(" ")[2])
    return TextSet(title, texts, tuple(kept[text] for text in texts))


def _text_sets(level: Level) -> dict[str, TextSet]:
    frames: dict[str, list[str]] = {}
    for row in read_table("seat_templates.csv", ("kind", "template")):
        frames.setdefault(row["kind"], []).append(row["template"])
    texts: dict[str, dict[str, str]] = {}
    for row in read_table("seat_words.csv", ("category", "word", "kind", "singular", "plural")):
        if row["kind"] not in frames:
            raise ResourceError(f"seat_words.csv: no template for '{row['word']}' of the kind '{row['kind']}'")
        members = texts.setdefault(row["category"], {})
        for text in [row["word"]] if level == "word" else [_sentence(frame, row) for frame in frames[row["kind"]]]:
            members.setdefault(text, row["word"])
    return {title: TextSet(title, tuple(members), tuple(members.values())) for title, members in texts.items()}


def _sentence(frame: str, row: dict[str, str]) -> str:
    """Fill a frame; ``singular`` carries its article."""
    text = frame.format(a=row["singular"], one=row["singular"].rpartition(" ")[2], many=row["plural"])
    return text[0].upper() + text[1:]


def _thinned(part: TextSet, size: int) -> TextSet:
    # Evenly spread, so that every word keeps some of its sentences.
    kept = [i * len(part) // size for i in range(size)]
    return TextSet(part.title, tuple(part.texts[i] for i in kept), tuple(part.words[i] for i in kept))
