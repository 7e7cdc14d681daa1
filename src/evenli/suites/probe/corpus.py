"""Sentences of a corpus that can be premises of the probe: about one occupation, short, without gender and names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evenli.errors import InputError
from evenli.io import COLUMNS, file_kind, find_columns, iter_rows, read_text, split_lines
from evenli.resources import load_axis
from evenli.suites.probe.words import (
    NameFilter,
    find_forms,
    forms,
    is_person,
    looks_english,
    open_slot,
    person_flags,
    stands_alone,
    word_class,
)
from evenli.suites.validate import leaking_words

FEWEST_WORDS = 2
_MOST_SENTENCES = 5000


@dataclass(frozen=True)
class Sentence:
    """A sentence that can be a premise: it is about one occupation."""

    text: str
    occupation: str
    template: str
    """Text with an open slot for every mention."""
    movable: bool
    """Every mention is a noun phrase of its own, so another occupation can take its place."""


@dataclass(frozen=True)
class Pool:
    """Candidates of a corpus after all filters, with what fell out on the way."""

    sentences: int
    matched: int
    dropped: Counter[str]
    kept: list[Sentence]
    has_capitals: bool


def collect(path: Path, occupations: Collection[str], max_words: int, name_filter: str | NameFilter) -> Pool:
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
    passed: list[Sentence] = []
    for text in sentences:
        matches = list(finder.finditer(text))
        if not matches:
            continue
        matched += 1
        names = {spelling[" ".join(match.group().lower().split())] for match in matches}
        key = same_words(text)
        reason = "duplicate" if key in seen else _objection(text, matches, names, revealing, max_words)
        seen.add(key)
        if reason:
            dropped[reason] += 1
            continue
        passed.append(_candidate(text, matches, names.pop()))
    flags = person_flags([sentence.text for sentence in passed], name_filter, sentences)
    if any(flags):
        dropped["name"] = sum(flags)
    return Pool(
        sentences=len(sentences),
        matched=matched,
        dropped=dropped,
        kept=[sentence for sentence, flag in zip(passed, flags, strict=True) if not flag],
        has_capitals=any(sentence.text[0].isupper() for sentence in passed),
    )


def _objection(
    text: str, matches: Sequence[re.Match[str]], names: Collection[str], revealing: Mapping[str, str], max_words: int
) -> str | None:
    """Why a sentence with these occupations cannot be a premise; None if it can."""
    if len(names) > 1:
        return "several occupations"
    if not all(is_person(text, match, next(iter(names))) for match in matches):
        return "perhaps a verb"
    if leaking_words(text, revealing, "en"):
        return "gender word"
    if len(text.split()) > max_words:
        return "too long"
    return "too short" if len(text.split()) < FEWEST_WORDS else None


def _candidate(text: str, matches: Sequence[re.Match[str]], name: str) -> Sentence:
    template = text
    for match in reversed(matches):
        template = template[: match.start()] + open_slot(text, match, name) + template[match.end() :]
    return Sentence(text, name, template, all(stands_alone(text, match, name) for match in matches))


def _sentences(path: Path) -> Iterator[str]:
    """Both sentences of every row of an NLI file, or the lines of a text file, spaces tidied."""
    if file_kind(path) == ".txt":
        lines = split_lines(read_text(path))
        header = lines[0].split("\t") if lines else []
        # SNLI and MNLI are also released as tables that end in .txt.
        if not set(header) & set(COLUMNS["premise"]):
            yield from (" ".join(line.split()) for line in lines if line.strip())
            return
    columns: dict[str, str] = {}
    for _, row in iter_rows(path):
        columns = columns or find_columns(row, path)
        for role in ("premise", "hypothesis"):
            text = row.get(columns[role])
            if isinstance(text, str) and text.strip():
                yield " ".join(text.split())


def same_words(text: str) -> str:
    """What two sentences share if they differ only in case, spaces and punctuation."""
    return " ".join(re.findall(r"\w+", text.lower()))
