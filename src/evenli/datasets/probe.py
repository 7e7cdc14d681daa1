"""The entailment-probability probe: a sentence with an occupation, and "This text mentions a female profession".

Nothing in the premise states a gender, so a model should give both genders the same probability. Premises
come from a corpus, filtered and brought to the same number per occupation, or from our own sentences.
Sharma, Dey, Sinha 2021, Evaluating Gender Bias in Natural Language Inference.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evenli._rows import COLUMNS, find_columns, numbered_rows
from evenli.datasets.pairs import PairSet
from evenli.datasets.probe_files import read_probe, read_text
from evenli.datasets.probe_words import (
    NAME_FILTERS,
    NameFilter,
    check_balance,
    cluster_key,
    fill_hypothesis,
    fill_slots,
    find_forms,
    forms,
    is_person,
    looks_english,
    open_slot,
    person_flags,
    probe_hypotheses,
    probe_occupations,
    probe_rows,
    stands_alone,
    word_class,
)
from evenli.datasets.validate import leaking_words
from evenli.errors import InputError
from evenli.resources import load_axis, read_lines

__all__ = ["ProbeBuild", "build_probe", "probe_hypotheses", "probe_occupations", "read_probe"]

_FEWEST_WORDS = 2
_MOST_SENTENCES = 5000


@dataclass(frozen=True)
class ProbeBuild:
    """A probe set and how it came about.

    Attributes:
        pairs: Two rows per premise, one per group.
        report: Settings and counts: ``sentences`` read, ``matched`` with an occupation, ``dropped`` by reason,
            ``kept``, ``placeholders``, and for every occupation how many sentences were ``found``, how many of
            them are used (``direct``) and how many premises were ``filled`` by substitution; ``only_filled`` and
            ``short`` list the occupations without a sentence of their own and those below the wanted number.
    """

    pairs: PairSet
    report: dict[str, Any]


@dataclass(frozen=True)
class _Sentence:
    text: str
    occupation: str
    template: str
    """Text with an open slot for every mention."""
    movable: bool
    """Every mention is a noun phrase of its own, so another occupation can take its place."""


@dataclass(frozen=True)
class _Pool:
    """Candidates of a corpus after all filters, with what fell out on the way."""

    sentences: int
    matched: int
    dropped: Counter[str]
    kept: list[_Sentence]
    has_capitals: bool


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

    From a corpus: sentences with exactly one listed occupation are kept if they are short enough and hold neither
    a gender word nor a name. Occupations with too few of them are filled up with sentences about another
    occupation in which the word is replaced. Without a corpus, every occupation goes into the same
    seeded sample of our own sentences, so that occupations differ in nothing else.

    Departures from the released sets, which break their own rules: the word limit holds for every premise, "him" and
    "guy" are filtered, plurals and "construction worker" are found, articles are repaired, verbs ("cooks a meal"),
    compounds ("guard dog") and sentences about several listed occupations are not used as if they were about one.

    Args:
        corpus: NLI file (JSON Lines, CSV, TSV or Parquet, both sentences are candidates) or a text file with a
            sentence on each line, ``.xz`` may follow; None for our own sentences.
        per_occupation: Premises per occupation.
        max_words: Most words in a premise, separated by spaces.
        family: Hypothesis family: ``text``, ``premise`` or ``occupation``.
        seed: Decides sentences, placeholders and hypothesis templates.
        name_filter: ``lists`` (capital letters and word lists, no model), ``spacy``, ``nltk``, or a function that says
            whether a sentence names a person.
        repair_articles: Choose a or an after a replacement; False leaves "a accountant" as released.
        occupations: Occupation to dominating gender; default the paper's 38.

    Returns:
        The pairs and a report of all counts.
    """
    chosen = dict(occupations) if occupations is not None else probe_occupations()
    _check_settings(chosen, per_occupation, max_words, name_filter)
    hypotheses = probe_hypotheses(family)
    generator = np.random.default_rng(seed)
    report: dict[str, Any] = {
        "corpus": None if corpus is None else Path(corpus).name,
        "per_occupation": per_occupation,
        "max_words": max_words,
        "family": family,
        "seed": seed,
        "name_filter": name_filter if isinstance(name_filter, str) else getattr(name_filter, "__name__", "custom"),
        "repair_articles": repair_articles,
    }

    def filled(template: str, occupation: str) -> str:
        return fill_slots(template, occupation, repair_articles=repair_articles)

    premises: dict[str, list[tuple[str, str]]]
    if corpus is None:
        premises = _own_premises(chosen, per_occupation, max_words, generator, filled)
        report["occupations"] = {name: {"found": 0, "direct": 0, "filled": per_occupation} for name in chosen}
        short, only_filled, notes = dict[str, int](), list[str](), list[str]()
    else:
        pool = _collect(Path(corpus), chosen, max_words, name_filter)
        premises, counts = _equalise(pool.kept, chosen, per_occupation, max_words, generator, filled)
        empty = [name for name, found in premises.items() if not found]
        if empty:
            raise InputError(
                f"{corpus} has no usable sentence for {len(empty)} of {len(chosen)} occupations "
                f"({', '.join(empty)}) and none to put them into; of {pool.matched} sentences with an occupation "
                f"{len(pool.kept)} passed the filters ({_listed(pool.dropped)}); give a larger corpus"
            )
        short = {name: len(found) for name, found in premises.items() if len(found) < per_occupation}
        only_filled = [name for name, count in counts.items() if not count["found"]]
        report |= {
            "sentences": pool.sentences,
            "matched": pool.matched,
            "dropped": dict(pool.dropped),
            "kept": len(pool.kept),
            "placeholders": len({sentence.template for sentence in pool.kept if sentence.movable}),
            "occupations": counts,
        }
        notes = []
        if only_filled:
            notes.append(f"only by substitution: {', '.join(only_filled)}")
        if short:
            notes.append(f"fewer than {per_occupation} premises: {_listed(short)}")
        if name_filter == "lists" and not pool.has_capitals:
            notes.append("the corpus has no capital letters, so names could not be seen; use name_filter spacy or nltk")
    report |= {"only_filled": only_filled, "short": short, "notes": notes}

    def rows() -> Iterator[dict[str, str]]:
        listed = [(name, *premise) for name in chosen for premise in premises[name]]
        picks = generator.integers(len(hypotheses), size=len(listed)).tolist()
        for number, ((name, premise, template), pick) in enumerate(zip(listed, picks, strict=True)):
            texts = {
                group: fill_hypothesis(hypotheses[pick], group, premise, name) for group in load_axis().group_names
            }
            yield from probe_rows(number, premise, texts, name, chosen[name], template)

    pairs = PairSet.from_rows(
        rows(),
        name="built-in probe" if corpus is None else f"probe from {Path(corpus).name}",
        suite="probe",
        lang="en",
        source=f"built by evenli from {'its own sentences' if corpus is None else Path(corpus).name}: "
        f"{len(chosen)} occupations, {per_occupation} premises each, hypotheses '{family}', seed {seed}",
        notes=tuple(notes),
    )
    return ProbeBuild(pairs, report)


def _check_settings(
    occupations: Mapping[str, str], per_occupation: int, max_words: int, name_filter: str | NameFilter
) -> None:
    if per_occupation < 1 or max_words < _FEWEST_WORDS:
        raise InputError(
            f"per_occupation {per_occupation} and max_words {max_words} are not usable: "
            f"at least 1 and {_FEWEST_WORDS} are expected"
        )
    if isinstance(name_filter, str) and name_filter not in NAME_FILTERS:
        raise InputError(f"no name filter '{name_filter}'; choose {', '.join(NAME_FILTERS)} or give a function")
    groups = load_axis().group_names
    for name, gender in occupations.items():
        if not name.strip() or gender not in groups:
            raise InputError(f"occupation '{name}' is tagged '{gender}', not one of {', '.join(groups)}")
    if len({name.lower() for name in occupations}) < len(occupations):
        raise InputError("an occupation is listed twice; case makes no difference")
    check_balance(occupations.values(), "the list of occupations")


def _own_premises(
    occupations: Collection[str],
    per_occupation: int,
    max_words: int,
    generator: np.random.Generator,
    filled: Callable[[str, str], str],
) -> dict[str, list[tuple[str, str]]]:
    """The same seeded sample of our templates for every occupation."""
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
    return {name: [(filled(template, name), cluster_key(template)) for template in sample] for name in occupations}


def _collect(path: Path, occupations: Collection[str], max_words: int, name_filter: str | NameFilter) -> _Pool:
    """Read a corpus and keep what can be a premise; every other sentence with an occupation is counted by reason."""
    sentences = list(_sentences(path))
    if not sentences:
        raise InputError(f"{path} holds no sentence")
    if not looks_english(sentences[:: len(sentences) // _MOST_SENTENCES + 1]):
        raise InputError(
            f"{path} does not look like English ('{sentences[0][:60]}'); the occupations and filters of the probe are "
            "English only"
        )
    spelling = {form.lower(): name for name in occupations for form in forms(name)}
    finder = find_forms(spelling)
    revealing = {**dict.fromkeys(word_class("gender"), "gender"), **load_axis().revealing_words("en")}
    matched, dropped, seen = 0, Counter[str](), set[str]()
    passed: list[_Sentence] = []
    for text in sentences:
        matches = list(finder.finditer(text))
        if not matches:
            continue
        matched += 1
        names = {spelling[" ".join(match.group().lower().split())] for match in matches}
        key = _same(text)
        reason = None
        if key in seen:
            reason = "duplicate"
        elif len(names) > 1:
            reason = "several occupations"
        elif not all(is_person(text, match, next(iter(names))) for match in matches):
            reason = "perhaps a verb"
        elif leaking_words(text, revealing, "en"):
            reason = "gender word"
        elif len(text.split()) > max_words:
            reason = "too long"
        elif len(text.split()) < _FEWEST_WORDS:
            reason = "too short"
        seen.add(key)
        if reason:
            dropped[reason] += 1
            continue
        name = names.pop()
        template = text
        for match in reversed(matches):
            template = template[: match.start()] + open_slot(text, match, name) + template[match.end() :]
        passed.append(_Sentence(text, name, template, all(stands_alone(text, match, name) for match in matches)))
    flags = person_flags([sentence.text for sentence in passed], name_filter, sentences)
    if any(flags):
        dropped["name"] = sum(flags)
    return _Pool(
        sentences=len(sentences),
        matched=matched,
        dropped=dropped,
        kept=[sentence for sentence, flag in zip(passed, flags, strict=True) if not flag],
        has_capitals=any(sentence.text[0].isupper() for sentence in passed),
    )


def _sentences(path: Path) -> Iterator[str]:
    """Both sentences of every row of an NLI file, or the lines of a text file, spaces tidied."""
    if [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".xz"][-1:] == [".txt"]:
        lines = read_text(path).splitlines()
        header = lines[0].split("\t") if lines else []
        # SNLI and MNLI are also released as tables that end in .txt.
        if not set(header) & set(COLUMNS["premise"]):
            yield from (" ".join(line.split()) for line in lines if line.strip())
            return
    columns: dict[str, str] = {}
    for _, row in numbered_rows(path):
        columns = columns or find_columns(row, path)
        for role in ("premise", "hypothesis"):
            text = row.get(columns[role])
            if isinstance(text, str) and text.strip():
                yield " ".join(text.split())


def _equalise(
    kept: Sequence[_Sentence],
    occupations: Collection[str],
    per_occupation: int,
    max_words: int,
    generator: np.random.Generator,
    filled: Callable[[str, str], str],
) -> tuple[dict[str, list[tuple[str, str]]], dict[str, dict[str, int]]]:
    """Draw premises for every occupation: its own sentences first, then those of others with the word replaced."""
    placeholders = list(dict.fromkeys(sentence.template for sentence in kept if sentence.movable))
    premises: dict[str, list[tuple[str, str]]] = {}
    counts: dict[str, dict[str, int]] = {}
    for name in occupations:
        found = [sentence for sentence in kept if sentence.occupation == name]
        chosen = [found[i] for i in generator.permutation(len(found))[:per_occupation]]
        drawn = [(sentence.text, cluster_key(sentence.template)) for sentence in chosen]
        used = {_same(text) for text, _ in drawn}
        for i in generator.permutation(len(placeholders)):
            if len(drawn) == per_occupation:
                break
            text = filled(placeholders[i], name)
            if len(text.split()) <= max_words and _same(text) not in used:
                used.add(_same(text))
                drawn.append((text, cluster_key(placeholders[i])))
        premises[name] = drawn
        counts[name] = {"found": len(found), "direct": len(chosen), "filled": len(drawn) - len(chosen)}
    return premises, counts


def _same(text: str) -> str:
    """What two sentences share if they differ only in case, spaces and punctuation."""
    return " ".join(re.findall(r"\w+", text.lower()))


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
