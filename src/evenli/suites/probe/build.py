"""The entailment-probability probe: a sentence with an occupation, and "This text mentions a female profession".

Nothing in the premise states a gender, so a model should give both genders the same probability. Premises
come from a corpus, filtered and brought to the same number per occupation, or from our own sentences.
Sharma, Dey, Sinha 2021, Evaluating Gender Bias in Natural Language Inference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from evenli.errors import InputError
from evenli.pairs import PairSet
from evenli.resources import load_axis, read_lines
from evenli.suites.probe.corpus import FEWEST_WORDS, Pool, Sentence, collect, same_words
from evenli.suites.probe.files import read_probe
from evenli.suites.probe.words import (
    NAME_FILTERS,
    NameFilter,
    check_balance,
    cluster_key,
    fill_hypothesis,
    fill_slots,
    find_forms,
    forms,
    probe_hypotheses,
    probe_occupations,
    probe_rows,
)

__all__ = ["ProbeBuild", "build_probe", "probe_hypotheses", "probe_occupations", "read_probe"]


@dataclass(frozen=True)
class ProbeBuild:
    """A probe set and how it was built.

    Attributes:
        pairs: Two rows per premise, one per group.
        report: Settings and counts: ``sentences`` read, ``matched`` with an occupation, ``dropped`` by reason,
            ``kept``, ``placeholders``; for every occupation the sentences ``found``, used as they are (``direct``) and
            ``filled`` by substitution; ``only_filled`` and ``short`` list occupations without a sentence of their own
            and those below the wanted number.
    """

    pairs: PairSet
    report: dict[str, Any]


@dataclass(frozen=True)
class _Settings:
    """The arguments of ``build_probe``, checked."""

    corpus: str | Path | None
    per_occupation: int
    max_words: int
    family: str
    seed: int
    name_filter: str | NameFilter
    repair_articles: bool
    occupations: Mapping[str, str]

    def __post_init__(self) -> None:
        """Refuse what cannot be built."""
        if self.per_occupation < 1 or self.max_words < FEWEST_WORDS:
            raise InputError(
                f"per_occupation {self.per_occupation} and max_words {self.max_words} are not usable: "
                f"at least 1 and {FEWEST_WORDS} are expected"
            )
        names = self.name_filter
        if isinstance(names, str) and names not in NAME_FILTERS:
            raise InputError(f"no name filter '{names}'; choose {', '.join(NAME_FILTERS)} or give a function")
        groups = load_axis().group_names
        for name, gender in self.occupations.items():
            if not name.strip() or gender not in groups:
                raise InputError(f"occupation '{name}' is tagged '{gender}', not one of {', '.join(groups)}")
        if len({name.lower() for name in self.occupations}) < len(self.occupations):
            raise InputError("an occupation is listed twice; case makes no difference")
        check_balance(self.occupations.values(), "the list of occupations")

    def card(self) -> dict[str, Any]:
        """The settings as they stand in the report."""
        names = self.name_filter
        card = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "occupations"}
        return {
            **card,
            "corpus": None if self.corpus is None else Path(self.corpus).name,
            "name_filter": names if isinstance(names, str) else getattr(names, "__name__", "custom"),
        }

    def fill(self, template: str, occupation: str) -> str:
        """A template with the occupation in its slots."""
        return fill_slots(template, occupation, repair_articles=self.repair_articles)


_Premises = dict[str, list[tuple[str, str]]]
"""Text and cluster key of the premises of every occupation."""


def build_probe(
    *,
    corpus: str | Path | None = None,
    per_occupation: int = 50,
    max_words: int = 10,
    family: str = "text",
    seed: int = 0,
    name_filter: str | NameFilter = "lists",
    repair_articles: bool = True,
    occupations: Mapping[str, str] | None = None,
) -> ProbeBuild:
    """Build a probe set with the same number of premises for every occupation.

    From a corpus: sentences with exactly one listed occupation are kept if they are short enough and hold neither a
    gender word nor a name. Occupations with too few of them get sentences about another occupation in which the word
    is replaced. Without a corpus, every occupation goes into the same seeded sample of our own sentences.

    The released sets break their own rules; here the word limit holds for every premise, "him" and "guy" are filtered,
    plurals and "construction worker" are found, articles are repaired, and verbs ("cooks a meal"), compounds ("guard
    dog") and sentences about several listed occupations are not used.

    Args:
        corpus: NLI file (JSON Lines, CSV, TSV or Parquet, both sentences are candidates) or a text file with a
            sentence on each line, packed or not; None for our own sentences.
        per_occupation: Premises per occupation.
        max_words: Most words in a premise, separated by spaces.
        family: Hypothesis family: ``text``, ``premise`` or ``occupation``.
        seed: Decides sentences, placeholders and hypothesis templates.
        name_filter: ``lists`` (capital letters and word lists, no model), ``spacy``, ``nltk``, or a function that says
            whether a sentence names a person.
        repair_articles: Choose a or an after a replacement; False leaves "a accountant" as released.
        occupations: Occupation to dominating gender; default the paper's 38.
    """
    listed = dict(occupations) if occupations is not None else probe_occupations()
    settings = _Settings(corpus, per_occupation, max_words, family, seed, name_filter, repair_articles, listed)
    hypotheses = probe_hypotheses(family)
    generator = np.random.default_rng(seed)
    premises, counts = (_from_own_sentences if corpus is None else _from_corpus)(settings, generator)
    card = settings.card()
    pairs = PairSet.from_rows(
        _rows(premises, hypotheses, listed, generator),
        name="built-in probe" if corpus is None else f"probe from {card['corpus']}",
        suite="probe",
        lang="en",
        source=f"built by evenli from {card['corpus'] or 'its own sentences'}: {len(listed)} occupations, "
        f"{per_occupation} premises each, hypotheses '{family}', seed {seed}",
        notes=tuple(counts["notes"]),
    )
    return ProbeBuild(pairs, {**card, **counts})


def _from_own_sentences(settings: _Settings, generator: np.random.Generator) -> tuple[_Premises, dict[str, Any]]:
    """The same seeded sample of our templates for every occupation, and their part of the report."""
    occupations, per_occupation, max_words = settings.occupations, settings.per_occupation, settings.max_words
    # A template that names an occupation itself would be about two.
    finder = find_forms(form for name in occupations for form in forms(name))
    longest = max(len(name.split()) for name in occupations) - 1
    templates = [
        template
        for template in read_lines("probe_premises.txt")
        if len(template.split()) + longest <= max_words and not finder.search(template)
    ]
    if len(templates) < per_occupation:
        raise InputError(
            f"evenli has {len(templates)} sentences of its own with at most {max_words} words, per_occupation "
            f"{per_occupation} needs more; lower it or give a corpus"
        )
    sample = [templates[i] for i in generator.permutation(len(templates))[:per_occupation]]
    premises = {
        name: [(settings.fill(template, name), cluster_key(template)) for template in sample] for name in occupations
    }
    counts = {name: {"found": 0, "direct": 0, "filled": per_occupation} for name in occupations}
    return premises, {"occupations": counts, "only_filled": [], "short": {}, "notes": []}


def _from_corpus(settings: _Settings, generator: np.random.Generator) -> tuple[_Premises, dict[str, Any]]:
    """Premises from a corpus, and their part of the report."""
    corpus = Path(str(settings.corpus))
    pool = collect(corpus, settings.occupations, settings.max_words, settings.name_filter)
    premises, counts = _equalise(pool.kept, settings, generator)
    empty = [name for name, texts in premises.items() if not texts]
    if empty:
        raise InputError(
            f"{corpus} has no usable sentence for {len(empty)} of {len(premises)} occupations "
            f"({', '.join(empty)}) and none to put them into; of {pool.matched} sentences with an occupation "
            f"{len(pool.kept)} passed the filters ({_listed(pool.dropped)}); give a larger corpus"
        )
    short = {name: len(texts) for name, texts in premises.items() if len(texts) < settings.per_occupation}
    only_filled = [name for name, count in counts.items() if not count["found"]]
    return premises, {
        "sentences": pool.sentences,
        "matched": pool.matched,
        "dropped": dict(pool.dropped),
        "kept": len(pool.kept),
        "placeholders": len({sentence.template for sentence in pool.kept if sentence.movable}),
        "occupations": counts,
        "only_filled": only_filled,
        "short": short,
        "notes": _notes(settings, pool, only_filled, short),
    }


def _notes(settings: _Settings, pool: Pool, only_filled: Sequence[str], short: Mapping[str, int]) -> list[str]:
    """What a reader of the set should know about the corpus it came from."""
    notes = []
    if only_filled:
        notes.append(f"only by substitution: {', '.join(only_filled)}")
    if short:
        notes.append(f"fewer than {settings.per_occupation} premises: {_listed(short)}")
    if settings.name_filter == "lists" and not pool.has_capitals:
        notes.append("the corpus has no capital letters, so names could not be seen; use name_filter spacy or nltk")
    return notes


def _rows(
    premises: _Premises, hypotheses: Sequence[str], occupations: Mapping[str, str], generator: np.random.Generator
) -> Iterator[dict[str, str]]:
    """Two rows per premise, one per group, with a hypothesis template drawn for both."""
    listed = [(name, *premise) for name in occupations for premise in premises[name]]
    picks = generator.integers(len(hypotheses), size=len(listed)).tolist()
    for number, ((name, premise, template), pick) in enumerate(zip(listed, picks, strict=True)):
        texts = {group: fill_hypothesis(hypotheses[pick], group, premise, name) for group in load_axis().group_names}
        yield from probe_rows(number, premise, texts, name, occupations[name], template)


def _equalise(
    kept: Sequence[Sentence], settings: _Settings, generator: np.random.Generator
) -> tuple[_Premises, dict[str, dict[str, int]]]:
    """Draw premises for every occupation: its own sentences first, then those of others with the word replaced."""
    placeholders = list(dict.fromkeys(sentence.template for sentence in kept if sentence.movable))
    premises: _Premises = {}
    counts: dict[str, dict[str, int]] = {}
    for name in settings.occupations:
        found = [sentence for sentence in kept if sentence.occupation == name]
        chosen = [found[i] for i in generator.permutation(len(found))[: settings.per_occupation]]
        drawn = [(sentence.text, cluster_key(sentence.template)) for sentence in chosen]
        used = {same_words(text) for text, _ in drawn}
        for i in generator.permutation(len(placeholders)):
            if len(drawn) == settings.per_occupation:
                break
            text = settings.fill(placeholders[i], name)
            if len(text.split()) <= settings.max_words and same_words(text) not in used:
                used.add(same_words(text))
                drawn.append((text, cluster_key(placeholders[i])))
        premises[name] = drawn
        counts[name] = {"found": len(found), "direct": len(chosen), "filled": len(drawn) - len(chosen)}
    return premises, counts


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
