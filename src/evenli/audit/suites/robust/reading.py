"""Who a sentence speaks of: the way back from a sentence to its words, for models whose bias is known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from evenli.audit.suites.robust.wordings import CONTROL, WORD_SLOTS, fill_word, noun_phrase, read_wordings
from evenli.words import load_axis

GROUP, OCCUPATION, PERSON = "group", "occupation", "person"
Who = tuple[str, str]
"""What is named (a group, an occupation or a person), and which one."""


@dataclass(frozen=True)
class Pattern:
    """A frame or a form cut at its slots: ``before FIRST middle SECOND after``; a form has one slot."""

    before: str
    first: str
    middle: str
    after: str

    @classmethod
    def of(cls, text: str) -> Pattern:
        """Cut a text."""
        before, first, middle, *rest = re.split(r"\{(\w+)\}", text)
        return cls(before, first, middle if rest else "", rest[-1] if rest else middle)

    def split(self, text: str) -> Iterator[tuple[str, str]]:
        """What may stand in the slots; between subject and predicate Chinese has nothing, so every cut is tried."""
        if not (text.startswith(self.before) and text.endswith(self.after)):
            return
        inner = text[len(self.before) : len(text) - len(self.after)]
        for at in range(1, len(inner)):
            if inner.startswith(self.middle, at):
                yield inner[:at], inner[at + len(self.middle) :]


@dataclass(frozen=True)
class Reader:
    """Reads sentences in the wordings of a language."""

    phrases: Mapping[str, Who]
    predicates: Mapping[str, Who]
    frames: tuple[Pattern, ...]
    forms: tuple[Pattern, ...]

    def read(self, premise: str, hypothesis: str) -> tuple[Who, Who] | None:
        """Who the two sentences speak of; None where they are not a pair of these wordings."""
        for frame in self.frames:
            for who, predicate in self._subjects(frame, premise):
                for asked, asked_predicate in self._subjects(frame, hypothesis):
                    if predicate == asked_predicate:
                        return who, asked
                for form in self.forms:
                    word = hypothesis.removeprefix(form.before).removesuffix(form.after)
                    if word in self.predicates and form.before + word + form.after == hypothesis:
                        return who, self.predicates[word]
        return None

    def _subjects(self, frame: Pattern, text: str) -> list[tuple[Who, str]]:
        """Subjects that are known, the longest first, with their predicates."""
        cuts = (cut if frame.first == "np" else cut[::-1] for cut in frame.split(text))
        known = [(phrase, predicate) for phrase, predicate in cuts if phrase in self.phrases]
        return [(self.phrases[phrase], predicate) for phrase, predicate in sorted(known, key=lambda cut: -len(cut[0]))]


@lru_cache(maxsize=8)
def reader(lang: str, occupations: tuple[str, ...]) -> Reader:
    """A reader of the wordings of the shipped axis."""
    wordings = read_wordings(load_axis(), lang)
    named = [(noun, group, word) for noun in wordings.nouns for group, words in noun.words.items() for word in words]
    phrases: dict[str, Who] = {}
    predicates: dict[str, Who] = {}
    for determiner in wordings.determiners:
        for occupation in occupations:
            phrases[noun_phrase(determiner, wordings.spelling(occupation))] = (OCCUPATION, occupation)
        for noun, group, word in named:
            who = (PERSON, "") if noun.kind == CONTROL else (GROUP, group)
            phrases[noun_phrase(determiner, word, bare=noun.bare)] = who
            predicates |= {fill_word(slot, word, bare=noun.bare): who for slot in WORD_SLOTS}
    frames, forms = (
        tuple(Pattern.of(text) for choice in choices for text in dict.fromkeys((choice.text, choice.plural)) if text)
        for choices in (wordings.frames, wordings.forms)
    )
    return Reader(phrases, predicates, frames, forms)
