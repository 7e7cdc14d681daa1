"""English sentences that say a gender, in pairs: what an eraser is fitted on, and what shows how much it left.

The built-in set puts gender words and first names into scenes of daily life. It comes in three parts that share no
word and no scene: an eraser is fitted on one, probes learn from the second and are tested on the third. The words that
make a gender direction (she, woman, mother, ...) are all in the first. Sentences and first names of the association
tests of ``evenli.encoders.seat`` are in none of them, so that an effect after the mitigation is not one that was
fitted away. What is left is measured by ``evenli.encoders.leakage``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from evenli.core.errors import InputError
from evenli.core.format import capitalised
from evenli.core.io import COLUMNS, hash_text, is_plain_text, iter_text, read_rows
from evenli.encoders.settings import BUILT_IN
from evenli.encoders.vectors import WordVectors
from evenli.words import read_table
from evenli.words.scenes import compose_templates
from evenli.words.swap.swapper import Swapper

Part = Literal["fit", "probe", "test", "domain"]
T = TypeVar("T")
FEMALE, MALE = 0, 1
"""Classes of the sentences."""
_TURNS: tuple[Part, ...] = ("fit", "probe", "test") * 3 + ("fit",)
_SCENES = {"fit": slice(0, 400), "probe": slice(400, 520), "test": slice(520, 638)}
_REPEATS = {"fit": {"word": 16, "name": 4}, "probe": {"word": 16, "name": 4}, "test": {"word": 1, "name": 1}}
_SEVERAL = 5  # sentences of a fitted word in the plural
_AGAIN = 4  # sentences of a fitted word in scenes that were not fitted on
"""Sentences of a pair. In the test it is one: sentences of one word are not independent."""
_NAMES = 500  # most popular pairs of first names; rarer ones are unknown to many word vectors
_NOT_PERSONS = {"fraternity", "men", "he"}  # a society, a plural, and a pronoun that has frames of its own
_TEXTS = ("text", "sentence", *COLUMNS["premise"], *COLUMNS["hypothesis"])
_FEWEST = 50
_ENOUGH = 1_000  # sentence pairs of a file, of which some can be spared
_MOST_DEFINITIONAL = 0.5
_NEUTRAL_FRAME = "The {} arrived in the morning."


@dataclass(frozen=True)
class SentencePair:
    """A sentence in a female and a male version."""

    female: str
    male: str
    words: tuple[str, ...]  # in which they differ, of both versions

    @property
    def concept(self) -> str:
        """The pair of words that tells the versions apart; all first names are one."""
        first, second = sorted(word.lower() for word in self.words[:2])
        return f"{first}/{second}" if {first, second} & _common_words() else "first names"


@dataclass(frozen=True)
class GenderedSet:
    """Sentence pairs to fit on, to train probes on, and to test them on; no word is in two parts."""

    fit: tuple[SentencePair, ...]
    probe: tuple[SentencePair, ...]
    test: tuple[SentencePair, ...]
    occupations: tuple[str, ...]  # whose names say no gender: do sentences on them lean to a side?
    # Sentences with the fitted words that were not fitted on: does the fit hold where it comes from?
    domain: tuple[SentencePair, ...] = ()
    source: str = "built-in"  # or the file that the first part comes from
    skipped: dict[str, int] = field(default_factory=dict)  # what was not used, by reason

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

        def known(words: Iterable[str]) -> bool:
            return all(vectors.find(word) >= 0 for word in words)

        parts = {part: getattr(self, part) for part in ("fit", "probe", "test", "domain")}
        pairs: dict[str, Any] = {part: tuple(p for p in some if known(p.words)) for part, some in parts.items()}
        kept = replace(self, occupations=tuple(word for word in self.occupations if known(word.split())), **pairs)
        counts = {part: len(getattr(kept, part)) for part in ("fit", "probe", "test", "occupations")}
        if min(counts.values()) < _FEWEST:
            listed = ", ".join(f"{part} {count}" for part, count in counts.items())
            raise InputError(
                f"{vectors.name} knows the words of too few sentences ({listed}; {_FEWEST} of each are needed); "
                "use vectors of a larger English vocabulary"
            )
        return replace(kept, skipped={**self.skipped, "a word without a vector": len(self.fit) - len(kept.fit)})

    @property
    def held_out(self) -> list[str]:
        """All sentences that are not fitted on: those of the probe, of the test, and the neutral ones."""
        return [*self.rows("probe")[0], *self.rows("test")[0], *self.neutral]

    @property
    def sha256(self) -> dict[str, str]:
        """Hashes of the sentences to fit on and of those held out."""
        texts = {"fit": self.rows("fit")[0], "held_out": self.held_out}
        return {part: hash_text("".join(f"{text}\n" for text in lines)) for part, lines in texts.items()}


@lru_cache(maxsize=1)
def gendered_set() -> GenderedSet:
    """The built-in set: some 80 pairs of words and 490 of first names in 638 scenes, the same every time."""
    scenes = compose_templates("en", 638)
    free = {part: cycle(scenes[chosen]) for part, chosen in _SCENES.items()}
    pairs: dict[str, list[SentencePair]] = {part: [] for part in _SCENES}
    # Words that define the gender direction are all fitted on; the others take turns, so that no part is easier.
    core = {row["female"].lower() for row in read_table("direction_pairs.csv", ("list",)) if row["list"] == "ten"}
    words = [pair for pair in _persons() if pair[0] not in core]
    turns: list[tuple[str, Part, tuple[str, str]]] = [("word", "fit", pair) for pair in _persons() if pair[0] in core]
    turns += [("word", part, pair) for pair, part in zip(words, cycle(_TURNS), strict=False)]
    # Popular first names that no association test uses.
    tested = {row["word"] for row in read_table("seat_words.csv", ("word", "kind")) if row["kind"] == "name"}
    rows = read_table("swap_names.csv", ("male", "female"))[:_NAMES]
    names = [(row["female"], row["male"]) for row in rows if not tested & {row["female"], row["male"]}]
    turns += [("name", part, pair) for pair, part in zip(names, cycle(_TURNS), strict=False)]
    turns.append(("name", "fit", ("she", "he")))  # a pronoun stands where a name does
    for kind, part, pair in turns:
        times = _REPEATS["fit"]["word"] if pair[0] == "she" else _REPEATS[part][kind]
        pairs[part] += (_in_scene(scene, pair, article=kind == "word") for scene in islice(free[part], times))
    for row in read_table("pronoun_frames.csv", ("female", "male", "frame")):
        female, male = (capitalised(row["frame"].format(row[side])) for side in ("female", "male"))
        pairs["fit"].append(SentencePair(female, male, (row["female"], row["male"])))
    fitted = [pair for kind, part, pair in turns if part == "fit" and kind == "word"]
    # Scenes of several persons: text says men and women as often as man and woman.
    several = cycle(scene for scene in scenes[_SCENES["fit"]] if "the [Sub] is " in scene)
    for female, male in fitted:
        some = (scene.replace("the [Sub] is ", "the [Sub] are ") for scene in islice(several, _SEVERAL))
        pairs["fit"] += (_in_scene(scene, (_plural(female), _plural(male)), article=True) for scene in some)
    others = cycle(scenes[_SCENES["probe"]])
    domain = [_in_scene(scene, pair, article=True) for pair in fitted for scene in islice(others, _AGAIN)]
    fit, probe, test = (tuple(pairs[part]) for part in ("fit", "probe", "test"))
    specific = {row["word"] for row in read_table("gender_specific.csv", ("word",))}
    rows = read_table("professions.csv", ("word", "definitional"))
    neutral = (row["word"] for row in rows if abs(float(row["definitional"])) < _MOST_DEFINITIONAL)
    return GenderedSet(fit, probe, test, tuple(word for word in neutral if word not in specific), tuple(domain))


def _in_scene(scene: str, pair: tuple[str, str], *, article: bool) -> SentencePair:
    # A name or pronoun takes no article.
    female, male = (capitalised(scene.replace("[Sub]" if article else "the [Sub]", word)) for word in pair)
    return SentencePair(female, male, pair)


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
    skipped = dict.fromkeys((*_REASONS, "a held-out word"), 0)
    pairs: list[SentencePair] = []
    for pair, _ in _gendered_texts(dict.fromkeys(_texts(path)), skipped):
        words = map(str.lower, pair.words)
        if held_out & {form for word in words for form in (word, word.removesuffix("s"))}:
            skipped["a held-out word"] += 1
        else:
            pairs.append(pair)
    if len(pairs) < _FEWEST:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in skipped.items())
        raise InputError(f"{path} has {len(pairs)} sentences to fit on, {_FEWEST} are needed (left out: {reasons})")
    kept = _spread(pairs, limit)
    # Of a large file a tenth shows whether the fit holds on other sentences of it; a small one is needed for the fit.
    held_back = kept[::10] if len(kept) >= _ENOUGH else []
    fit = tuple(pair for at, pair in enumerate(kept) if not held_back or at % 10)
    return replace(built_in, fit=fit, domain=tuple(held_back), source=str(path), skipped=skipped)


def sentences_to_fit(fit: str) -> GenderedSet:
    """The set that ``--fit`` names: ``built-in``, a file, or ``built-in+FILE`` for both."""
    if fit == BUILT_IN:
        return gendered_set()
    own = read_gendered(fit.removeprefix(f"{BUILT_IN}+"))
    if not fit.startswith(f"{BUILT_IN}+"):
        return own
    # A corpus has its own mixture of gender words, and lacks many; the built-in sentences have them all.
    return replace(own, fit=(*own.fit, *gendered_set().fit), source=f"{BUILT_IN} and {own.source}")


_REASONS = ("without a gender word", "both genders", "a word of no listed gender")


def _gendered_texts(texts: Iterable[str], skipped: dict[str, int]) -> Iterator[tuple[SentencePair, int]]:
    """The texts that state one gender, with their other version; of the others the reasons are counted."""
    # Two versions of a sentence are wanted, whether or not the copy is true of bodies and of named people.
    swapper = Swapper(names=True, conflicts="swap")
    rows = (row for name in ("swap_names.csv", "swap_words_en.csv") for row in read_table(name, ("male", "female")))
    classes = {row[name]: label for row in rows for name, label in (("female", FEMALE), ("male", MALE))}
    for text in texts:
        changes = swapper.swap_document([text]).changes[0]
        genders = {classes.get(change.word, classes.get(change.word.lower())) for change in changes}
        words = tuple(dict.fromkeys(word for change in changes for word in (change.word, change.replacement)))
        holds = (not changes, genders >= {FEMALE, MALE}, None in genders)
        if any(holds):
            skipped[_REASONS[holds.index(True)]] += 1
            continue
        versions = (text, swapper(text)) if genders == {FEMALE} else (swapper(text), text)
        yield SentencePair(*versions, words), FEMALE if genders == {FEMALE} else MALE


def _spread(items: list[T], limit: int) -> list[T]:
    """At most so many of them, from all over the list."""
    return items if len(items) <= limit else [items[at * len(items) // limit] for at in range(limit)]


@dataclass(frozen=True)
class ProbeText:
    """Sentences of running text and the gender that each states: half of them train a probe, half test it."""

    source: str  # built-in, or a file
    train: tuple[tuple[str, int], ...]
    test: tuple[tuple[str, int], ...]

    @property
    def texts(self) -> list[str]:
        """All sentences, those to train on first."""
        return [text for text, _ in (*self.train, *self.test)]

    @property
    def classes(self) -> NDArray[np.int64]:
        """Their genders."""
        return np.array([gender for _, gender in (*self.train, *self.test)], dtype=np.int64)


def probe_text(path: str | Path | None = None, *, limit: int = 4_000) -> ProbeText:
    """Text to look for gender in, which no eraser is fitted on.

    Without a file: 119 sentences that were written for this, each with its gender-swapped copy in the same half. Of a
    file: up to ``limit`` sentences that state one gender, as they stand, so that a probe may also learn what else the
    text says of women and men.
    """
    if path is None:
        whole = read_table("gender_text.csv", ("female", "male"))
        rows = [[(row["female"], FEMALE), (row["male"], MALE)] for row in whole]
        train, test = (tuple(chain.from_iterable(rows[at::2])) for at in (0, 1))
        return ProbeText("built-in", train, test)
    skipped = dict.fromkeys(_REASONS, 0)
    found = _gendered_texts(dict.fromkeys(_texts(Path(path))), skipped)
    texts = _spread([((pair.female, pair.male)[gender], gender) for pair, gender in found], limit)
    fewest = min(sum(gender == side for _, gender in texts) for side in (FEMALE, MALE))
    if fewest < _FEWEST:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in skipped.items())
        raise InputError(
            f"{path} states one of the genders in {fewest} sentences, {_FEWEST} of each are needed to look for it "
            f"(left out: {reasons})"
        )
    # Neighbours in a file are alike: sentence by sentence would put near copies into both halves.
    half = np.random.default_rng(0).permutation(len(texts)) < len(texts) // 2
    train, test = (tuple(texts[at] for at in np.flatnonzero(half == side)) for side in (True, False))
    return ProbeText(str(path), train, test)


def _persons() -> list[tuple[str, str]]:
    """Female and male nouns for one person: the common words of the swap list whose plurals are listed as well."""
    # Words added to the swap later stay out, so that the set and all figures on it stay the same.
    rows = read_table("swap_words_en.csv", ("male", "female", "ways", "list"))
    rows = [row for row in rows if row["ways"] == "both" and row["list"] != "added"]
    listed = {(row["female"], row["male"]) for row in rows}
    common = {row["word"] for row in read_table("gender_word_list.csv", ("word",))}
    pairs = [(row["female"], row["male"]) for row in rows if row["male"] not in _NOT_PERSONS]
    return [pair for pair in pairs if tuple(map(_plural, pair)) in listed and common.issuperset(pair)]


def _plural(word: str) -> str:
    for pattern, ending in ((r"man$", "men"), (r"fe$", "ves"), (r"(?<=[^aeou])y$", "ies"), (r"ss$", "sses")):
        if re.search(pattern, word):
            return re.sub(pattern, ending, word)
    return f"{word}s"


@lru_cache(maxsize=1)
def _common_words() -> frozenset[str]:
    """The words of the swap list, which are no names."""
    return frozenset(row["female"].lower() for row in read_table("swap_words_en.csv", ("male", "female")))


def _texts(path: Path) -> Iterator[str]:
    """The texts of a file, without white space around them."""
    if is_plain_text(path):
        yield from filter(None, (line.strip() for _, line in iter_text(path)))
        return
    rows = read_rows(path)
    columns = [name for name in _TEXTS if rows and name in rows[0]]
    if not columns:
        listed = ", ".join(map(str, rows[0])) if rows else "no rows"
        raise InputError(f"{path}: no column of text among {listed}; name one text, sentence, premise or hypothesis")
    for name in columns:
        yield from filter(None, (row[name].strip() for row in rows if isinstance(row[name], str)))
