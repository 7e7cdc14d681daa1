"""English sentences that say a gender, in pairs: what an eraser is fitted on, and what shows how much it left.

The built-in set puts gender words and first names into scenes of daily life. It comes in three parts that share no
word and no scene: an eraser is fitted on one, probes learn from the second and are tested on the third. The words that
make a gender direction (she, woman, mother, ...) are all in the first. Sentences and first names of the association
tests of ``evenli.evaluate.seat`` are in none of them, so that an effect after the mitigation is not one that was
fitted away.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import cycle, islice
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenli.encoders.vectors import WordVectors
from evenli.errors import InputError
from evenli.io import COLUMNS, file_kind, hash_text, read_rows, read_text, split_lines
from evenli.mitigate.swap import Swapper
from evenli.resources import read_table
from evenli.suites.scenes import compose_templates

Part = Literal["fit", "probe", "test"]
FEMALE, MALE = 0, 1
"""Classes of the sentences."""
_TURNS: tuple[Part, ...] = ("fit", "probe", "test", "fit", "probe", "test", "fit", "probe", "test", "fit")
_SCENES = {"fit": slice(0, 400), "probe": slice(400, 520), "test": slice(520, 638)}
_REPEATS = {"fit": {"word": 16, "name": 4}, "probe": {"word": 16, "name": 4}, "test": {"word": 1, "name": 1}}
"""Sentences of a pair. In the test it is one: sentences of one word are not independent."""
_NAMES = 500  # most popular pairs of first names; rarer ones are unknown to many word vectors
_NOT_PERSONS = {"fraternity", "men", "he"}  # a society, a plural, and a pronoun that has frames of its own
_PRONOUNS = {
    ("her", "him"): (
        "I met {} at the station.",
        "We waited for {} in the rain.",
        "The letter was written by {}.",
        "Nobody had seen {} since Monday.",
        "They gave {} a cup of tea.",
        "The dog ran after {} across the field.",
    ),
    ("hers", "his"): (
        "The green umbrella is {}.",
        "The seat by the window was {}.",
        "I thought the keys were {}.",
        "The last slice of bread is {}.",
        "None of the coats was {}.",
        "The idea had been {} from the start.",
    ),
}
_TEXTS = ("text", "sentence", *COLUMNS["premise"], *COLUMNS["hypothesis"])
_FEWEST = 50
_MOST_DEFINITIONAL = 0.5
_NEUTRAL_FRAME = "The {} arrived in the morning."


@dataclass(frozen=True)
class SentencePair:
    """A sentence in a female and a male version."""

    female: str
    male: str
    words: tuple[str, ...]
    """The words and names in which they differ, of both versions."""


@dataclass(frozen=True)
class GenderedSet:
    """Sentence pairs to fit on, to train probes on, and to test them on; no word is in two parts."""

    fit: tuple[SentencePair, ...]
    probe: tuple[SentencePair, ...]
    test: tuple[SentencePair, ...]
    occupations: tuple[str, ...]
    """Occupations whose names say no gender: do sentences on them lean to a side?"""
    source: str = "built-in"
    """``built-in`` or the file the first part comes from."""
    skipped: dict[str, int] = field(default_factory=dict)
    """What was not used, by reason."""

    def rows(self, part: Part) -> tuple[list[str], NDArray[np.int64]]:
        """Sentences of a part and their classes: first all female versions, then all male ones in the same order."""
        pairs: tuple[SentencePair, ...] = getattr(self, part)
        texts = [pair.female for pair in pairs] + [pair.male for pair in pairs]
        return texts, np.repeat([FEMALE, MALE], len(pairs))

    @property
    def neutral(self) -> list[str]:
        """One sentence for each occupation."""
        return [_NEUTRAL_FRAME.format(word) for word in self.occupations]

    def known_to(self, vectors: WordVectors) -> GenderedSet:
        """The pairs and occupations whose words have a vector: an encoder over these vectors leaves out the others."""

        def known(pairs: tuple[SentencePair, ...]) -> tuple[SentencePair, ...]:
            return tuple(pair for pair in pairs if all(vectors.find(word) >= 0 for word in pair.words))

        jobs = tuple(word for word in self.occupations if (vectors.rows(word.split()) >= 0).all())
        kept = replace(self, fit=known(self.fit), probe=known(self.probe), test=known(self.test), occupations=jobs)
        counts = {part: len(getattr(kept, part)) for part in ("fit", "probe", "test", "occupations")}
        if min(counts.values()) < _FEWEST:
            listed = ", ".join(f"{part} {count}" for part, count in counts.items())
            raise InputError(
                f"{vectors.name} knows the words of too few sentences ({listed}; {_FEWEST} of each are needed); "
                "use vectors of a larger English vocabulary"
            )
        return replace(kept, skipped={**self.skipped, "a word without a vector": len(self.fit) - len(kept.fit)})

    @property
    def fit_sha256(self) -> str:
        """Hash of the sentences to fit on."""
        return _hash_lines(self.rows("fit")[0])

    @property
    def held_out_sha256(self) -> str:
        """Hash of all other sentences."""
        return _hash_lines([*self.rows("probe")[0], *self.rows("test")[0], *self.neutral])


@lru_cache(maxsize=1)
def gendered_set() -> GenderedSet:
    """The built-in set: some 60 pairs of words and 490 of first names in 638 scenes, the same every time."""
    scenes = compose_templates("en", 638)
    free = {part: cycle(scenes[chosen]) for part, chosen in _SCENES.items()}
    pairs: dict[str, list[SentencePair]] = {part: [] for part in _SCENES}
    # Words that define the gender direction are all fitted on; the others take turns, so that no part is easier.
    core = {row["female"].lower() for row in read_table("direction_pairs.csv", ("list",)) if row["list"] == "ten"}
    words = [pair for pair in _persons() if pair[0] not in core]
    turns: list[tuple[str, Part, tuple[str, str]]] = [("word", "fit", pair) for pair in _persons() if pair[0] in core]
    turns += [("word", part, pair) for pair, part in zip(words, cycle(_TURNS), strict=False)]
    turns += [("name", part, pair) for pair, part in zip(_first_names(), cycle(_TURNS), strict=False)]
    turns.append(("name", "fit", ("she", "he")))  # a pronoun stands where a name does
    for kind, part, (female, male) in turns:
        times = _REPEATS["fit"]["word"] if female == "she" else _REPEATS[part][kind]
        for scene in islice(free[part], times):
            # A name or pronoun takes no article.
            texts = (scene.replace("[Sub]" if kind == "word" else "the [Sub]", word) for word in (female, male))
            first, second = (text[0].upper() + text[1:] for text in texts)
            pairs[part].append(SentencePair(first, second, (female, male)))
    for (female, male), frames in _PRONOUNS.items():
        pairs["fit"] += [SentencePair(frame.format(female), frame.format(male), (female, male)) for frame in frames]
    return GenderedSet(tuple(pairs["fit"]), tuple(pairs["probe"]), tuple(pairs["test"]), _neutral())


def read_gendered(path: str | Path, *, limit: int = 5_000) -> GenderedSet:
    """Take the sentences to fit on from a corpus: each that says one gender, with its gender-swapped copy.

    Probe and test stay the built-in ones, so that figures compare across fits; sentences with a word of theirs are
    left out, as are those that name both genders and those with a word of no listed gender. At most ``limit`` pairs are
    kept, spread evenly over the file: text, one sentence a line, or a table with a column ``text``, ``sentence``,
    ``premise`` or ``hypothesis``.
    """
    path = Path(path)
    # What the probes are tested on must not have been seen by the eraser.
    built_in = gendered_set()
    held_out = {word.lower() for pair in (*built_in.probe, *built_in.test) for word in pair.words}
    side, swapper = _sides(), Swapper()
    pairs: list[SentencePair] = []
    skipped = {"without a gender word": 0, "both genders": 0, "a word of no listed gender": 0, "a held-out word": 0}
    for text in dict.fromkeys(_texts(path)):
        changes = swapper.explain(text)
        genders = {side.get(change.word, side.get(change.word.lower())) for change in changes}
        words = tuple(dict.fromkeys(word for change in changes for word in (change.word, change.replacement)))
        if not changes:
            skipped["without a gender word"] += 1
        elif genders >= {FEMALE, MALE}:
            skipped["both genders"] += 1
        elif None in genders:
            skipped["a word of no listed gender"] += 1
        elif held_out & {form for word in map(str.lower, words) for form in (word, word.removesuffix("s"))}:
            skipped["a held-out word"] += 1
        else:
            copy = swapper(text)
            female, male = (text, copy) if genders == {FEMALE} else (copy, text)
            pairs.append(SentencePair(female, male, words))
    if len(pairs) < _FEWEST:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in skipped.items())
        raise InputError(
            f"{path} has {len(pairs)} sentences to fit on, {_FEWEST} or more are needed (left out: {reasons}); "
            "give a larger English corpus or leave out --fit"
        )
    kept = pairs if len(pairs) <= limit else [pairs[i * len(pairs) // limit] for i in range(limit)]
    return replace(built_in, fit=tuple(kept), source=str(path), skipped=skipped)


def _neutral() -> tuple[str, ...]:
    """Occupations whose names say no gender."""
    specific = {row["word"] for row in read_table("gender_specific.csv", ("word",))}
    rows = read_table("professions.csv", ("word", "definitional"))
    return tuple(
        row["word"]
        for row in rows
        if row["word"] not in specific and abs(float(row["definitional"])) < _MOST_DEFINITIONAL
    )


def _persons() -> list[tuple[str, str]]:
    """Female and male nouns for one person: the common words of the swap list whose plurals are listed as well."""
    rows = [row for row in read_table("swap_words.csv", ("male", "female", "ways")) if row["ways"] == "both"]
    listed = {(row["female"], row["male"]) for row in rows}
    common = {row["word"] for row in read_table("gender_word_list.csv", ("word",))}
    return [
        (female, male)
        for female, male in ((row["female"], row["male"]) for row in rows)
        if (_plural(female), _plural(male)) in listed and {female, male} <= common and male not in _NOT_PERSONS
    ]


def _plural(word: str) -> str:
    for pattern, ending in ((r"man$", "men"), (r"fe$", "ves"), (r"(?<=[^aeou])y$", "ies"), (r"ss$", "sses")):
        if re.search(pattern, word):
            return re.sub(pattern, ending, word)
    return f"{word}s"


def _first_names() -> list[tuple[str, str]]:
    """Popular female and male first names that no association test uses."""
    tested = {row["word"] for row in read_table("seat_words.csv", ("word", "kind")) if row["kind"] == "name"}
    rows = read_table("swap_names.csv", ("male", "female"))[:_NAMES]
    return [(row["female"], row["male"]) for row in rows if not tested & {row["female"], row["male"]}]


def _sides() -> dict[str, int]:
    """The class of every word and name that the swap knows."""
    rows = (row for name in ("swap_names.csv", "swap_words.csv") for row in read_table(name, ("male", "female")))
    return {row[name]: label for row in rows for name, label in (("female", FEMALE), ("male", MALE))}


def _texts(path: Path) -> Iterator[str]:
    """The texts of a file, without white space around them."""
    if file_kind(path) == ".txt":
        lines = split_lines(read_text(path))
        # SNLI and MNLI are also released as tables that end in .txt.
        if not set(lines[0].split("\t") if lines else ()) & set(COLUMNS["premise"]):
            yield from filter(None, map(str.strip, lines))
            return
    rows = read_rows(path)
    columns = [name for name in _TEXTS if rows and name in rows[0]]
    if not columns:
        listed = ", ".join(map(str, rows[0])) if rows else "no rows"
        raise InputError(f"{path}: no column of text among {listed}; name one text, sentence, premise or hypothesis")
    for name in columns:
        yield from filter(None, (row[name].strip() for row in rows if isinstance(row[name], str)))


def _hash_lines(texts: Sequence[str]) -> str:
    return hash_text("".join(f"{text}\n" for text in texts))
