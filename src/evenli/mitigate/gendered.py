"""English sentences that say a gender, in pairs: what an eraser is fitted on, and what shows how much it left.

The built-in set puts gender words and first names into scenes of daily life. It comes in three parts that share no
word and no scene: an eraser is fitted on one, probes learn from the second and are tested on the third. The words that
make a gender direction (she, woman, mother, ...) are all in the first. Sentences and first names of the association
tests of ``evenli.evaluate.seat`` are in none of them, so that an effect after the mitigation is not one that was
fitted away.

What is left is seen by two probes on gendered sentences, and by the neighbours of neutral ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenli.counterfactual.swapper import Swapper
from evenli.encoders.base import EmbeddingCache, Encoder, encode_checked
from evenli.encoders.vectors import WordVectors
from evenli.errors import InputError
from evenli.io import COLUMNS, hash_text, is_plain_text, iter_text, read_rows
from evenli.mitigate.erasers import Erased, Eraser, FloatArray
from evenli.resources import read_table
from evenli.stats.intervals import Estimate
from evenli.stats.leakage import Clustering, Leakage, leakage, neighbour_clustering
from evenli.suites.scenes import compose_templates

Part = Literal["fit", "probe", "test"]
FEMALE, MALE = 0, 1
"""Classes of the sentences."""
_TURNS: tuple[Part, ...] = ("fit", "probe", "test") * 3 + ("fit",)
_SCENES = {"fit": slice(0, 400), "probe": slice(400, 520), "test": slice(520, 638)}
_REPEATS = {"fit": {"word": 16, "name": 4}, "probe": {"word": 16, "name": 4}, "test": {"word": 1, "name": 1}}
"""Sentences of a pair. In the test it is one: sentences of one word are not independent."""
_NAMES = 500  # most popular pairs of first names; rarer ones are unknown to many word vectors
_NOT_PERSONS = {"fraternity", "men", "he"}  # a society, a plural, and a pronoun that has frames of its own
_TEXTS = ("text", "sentence", *COLUMNS["premise"], *COLUMNS["hypothesis"])
_FEWEST = 50
_MOST_DEFINITIONAL = 0.5
_NEUTRAL_FRAME = "The {} arrived in the morning."
_NEIGHBOURS = 20


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
    for row in read_table("pronoun_frames.csv", ("female", "male", "frame")):
        female, male, frame = row["female"], row["male"], row["frame"]
        pairs["fit"].append(SentencePair(frame.format(female), frame.format(male), (female, male)))
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
    side, swapper = _sides(), Swapper(names=True, conflicts="swap")
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
        raise InputError(f"{path} has {len(pairs)} sentences to fit on, {_FEWEST} are needed (left out: {reasons})")
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
    # Words added to the swap later stay out, so that the set and all figures on it stay the same.
    rows = read_table("swap_words.csv", ("male", "female", "ways", "list"))
    rows = [row for row in rows if row["ways"] == "both" and row["list"] != "added"]
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


@dataclass(frozen=True)
class Residual:
    """How much of gender is left in embeddings."""

    linear: Estimate
    """Accuracy of a linear probe on words it has not seen; ``majority``, that without looking, is neutral."""
    mlp: Estimate
    majority: float
    clustering: Estimate
    """Neutral texts that two-means puts on the side they leaned to before; 0.5 is neutral, random ones lie above it."""
    correlation: Estimate
    """Of how far neutral texts leaned before with the side of their neighbours; 0 is neutral."""

    @classmethod
    def of(cls, probes: Leakage, clusters: Clustering) -> Residual:
        """The results of probes and of the clustering."""
        return cls(probes.linear, probes.mlp, probes.majority, clusters.accuracy, clusters.correlation)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; NaN becomes null."""
        estimates = {name: getattr(self, name).as_dict() for name in ("linear", "mlp", "clustering", "correlation")}
        return {**estimates, "majority": round(self.majority, 6)}


@dataclass(frozen=True)
class HeldOut:
    """Embeddings of the held-out sentences: gendered ones to train and test probes, neutral ones on occupations."""

    probe: NDArray[Any]
    probe_classes: NDArray[np.int64]
    test: NDArray[Any]
    test_classes: NDArray[np.int64]
    neutral: NDArray[Any]

    @classmethod
    def of(cls, encoder: Encoder, sentences: GenderedSet) -> HeldOut:
        """Encode the held-out part of a set."""
        probe, test = sentences.rows("probe")[1], sentences.rows("test")[1]
        embeddings = encode_checked(encoder, sentences.held_out)
        parts = np.split(embeddings, [len(probe), len(probe) + len(test)])
        return cls(parts[0], probe, parts[1], test, parts[2])

    def erased(self, eraser: Eraser) -> HeldOut:
        """The same embeddings behind an eraser."""
        return replace(self, probe=eraser(self.probe), test=eraser(self.test), neutral=eraser(self.neutral))

    def lean(self) -> FloatArray:
        """How far the neutral sentences lean to the female side: half of them are above 0.

        The cosine of each, centred, with the difference between the mean female and male sentence, less its median.
        """
        means = [self.probe[self.probe_classes == label].mean(axis=0, dtype=np.float64) for label in (FEMALE, MALE)]
        g = means[0] - means[1]
        # Less the mean, which all sentences share, and less the median, so that both sides have as many.
        centred = self.neutral - self.neutral.mean(axis=0, dtype=np.float64)
        scale = np.linalg.norm(centred, axis=1) * np.linalg.norm(g)
        cosine = (centred @ g) / np.where(scale > 0, scale, 1.0)
        return np.asarray(cosine - np.median(cosine), dtype=np.float64)


def known_sentences(encoder: Any, sentences: GenderedSet) -> GenderedSet:
    """The sentences whose words an encoder knows: all of them unless it is made of word vectors."""
    # An eraser or a cache may stand before the encoder that has the vectors.
    while isinstance(encoder, Erased | EmbeddingCache):
        encoder = encoder.encoder
    vectors = getattr(getattr(encoder, "vocabulary", encoder), "vectors", None)
    return sentences.known_to(vectors) if isinstance(vectors, WordVectors) else sentences


def residual_leakage(held: HeldOut, lean_before: FloatArray, *, seed: int = 0) -> Residual:
    """What is left of gender: two probes on gendered sentences, and the neighbours of neutral ones.

    ``lean_before`` is ``HeldOut.lean`` of the encoder without mitigation.
    """
    generator = np.random.default_rng(seed)
    probes = leakage(held.probe, held.probe_classes, held.test, held.test_classes, generator)
    side = min(int((lean_before > 0).sum()), int((lean_before < 0).sum()), len(lean_before) // 4)
    if not side:
        raise InputError("the neutral sentences lean to no side: the encoder gives them all the same embedding")
    everyone = np.arange(len(lean_before))
    clusters = neighbour_clustering(
        held.neutral, lean_before, _NEIGHBOURS, generator=generator, most=side, asked=everyone
    )
    return Residual.of(probes, clusters)


def leakage_report(base: Encoder, eraser: Eraser, sentences: GenderedSet, *, seed: int) -> dict[str, Any]:
    """What is left of gender before and behind an eraser, as ``mitigated.json`` holds it."""
    before = HeldOut.of(base, sentences)
    lean = before.lean()
    return {
        "probe_sentences": 2 * len(sentences.probe),
        "test_sentences": 2 * len(sentences.test),
        "neutral_sentences": len(before.neutral),
        "sha256": sentences.sha256["held_out"],
        "before": residual_leakage(before, lean, seed=seed).to_dict(),
        "after": residual_leakage(before.erased(eraser), lean, seed=seed).to_dict(),
    }
