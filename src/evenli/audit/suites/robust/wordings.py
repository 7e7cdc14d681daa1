"""Ways to say the same: group nouns, determiners, frames, forms, templates; and the way back from a sentence.

A table of wordings (``wordings_en.csv``) has one line for each choice, and the first line of a dimension is the usual
one. Columns: dimension, name, kind, text, plural, and one for each group of the axis.

    noun         kind noun (every man is one), narrow (not every man is one), pronoun or name (both stand without a
                 determiner), or control (no group); a column for each group: ``woman/women``, names ``Mary;Linda``
    determiner   kind one or two; text with {singular}, {plural} or {a} (with an indefinite article)
    frame        text with {np} and {vp}, and how it reads in the plural where that differs
    form         of the hypothesis: kind same, or a text with {singular}, {plural} or {a}
    pattern      keep: which templates have a predicate that fits the frames; drop: which of these are left out
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from evenli.core.errors import ResourceError
from evenli.words import Axis, load_axis, read_table
from evenli.words.english import plural
from evenli.words.templates import leaking_words, with_article

DIMENSIONS = ("noun", "determiner", "frame", "form", "templates")
"""What a wording chooses; templates are sets of sentences."""
NOUN, NARROW, PRONOUN, NAME, CONTROL = "noun", "narrow", "pronoun", "name", "control"
BARE = {PRONOUN, NAME}
"""Kinds of nouns that stand without a determiner, and for one person only."""
_KINDS = {
    "noun": {NOUN, NARROW, PRONOUN, NAME, CONTROL},
    "determiner": {"one", "two"},
    "frame": {""},
    "form": {"", "same"},
    "pattern": {"keep", "drop"},
}
_COLUMNS = ("dimension", "name", "kind", "text")
_WORD_SLOTS = ("{singular}", "{plural}", "{a}")
_NAME = re.compile(r"[^,;|]+")
GROUP, OCCUPATION, PERSON = "group", "occupation", "person"
Who = tuple[str, str]
"""What a sentence names (a group, an occupation or a person), and which one."""


@dataclass(frozen=True)
class Spelling:
    """A word in the singular and in the plural, which may be the same; a bare one stands without a determiner."""

    singular: str
    plural: str
    bare: bool = False

    def put_into(self, text: str) -> str:
        """A text with the word in it: {singular}, {plural}, or {a} for the singular with its article, if it has one."""
        filled = text.replace("{singular}", self.singular).replace("{plural}", self.plural)
        return filled.replace("{a}", self.singular if self.bare else with_article(self.singular))


@dataclass(frozen=True)
class Choice:
    """One line of the table: a determiner, a frame or a form as it reads for one person and for two, or a noun.

    Of a noun ``words`` has the spelling of every group, or several that take turns.
    """

    name: str
    kind: str
    text: str = ""
    plural: str = ""
    words: Mapping[str, tuple[Spelling, ...]] = field(default_factory=dict)

    def read(self, *, two: bool) -> str:
        """The text for one person or for two."""
        return self.plural if two and self.plural else self.text

    def word(self, group: str, turn: int = 0) -> Spelling:
        """How a group is called in the sentence of this number."""
        spellings = self.words[group]
        return spellings[turn % len(spellings)]

    def phrase(self, word: Spelling) -> str:
        """A word with this determiner, where it takes one."""
        return word.singular if word.bare else word.put_into(self.text)


class Wordings:
    """All choices of a language by dimension, the usual one first.

    Lines of a table are added; those that cannot be asked or that change the right answer are refused.
    """

    def __init__(self, axis: Axis, lang: str) -> None:
        self.lang, self.groups = lang, axis.group_names
        self.revealing = axis.revealing_words(lang)
        self.choices: dict[str, list[Choice]] = {name: [] for name in _KINDS}

    def choice(self, dimension: str, name: str) -> Choice:
        """A choice by its name."""
        return next(choice for choice in self.choices[dimension] if choice.name == name)

    @property
    def person(self) -> Spelling:
        """The noun that names no group."""
        return next(noun for noun in self.choices["noun"] if noun.kind == CONTROL).word(self.groups[0])

    @property
    def group_nouns(self) -> list[Choice]:
        """The nouns that name a group."""
        return [noun for noun in self.choices["noun"] if noun.kind != CONTROL]

    @property
    def patterns(self) -> dict[str, str]:
        """The regular expressions by kind."""
        return {pattern.kind: pattern.text for pattern in self.choices["pattern"]}

    def spelling(self, word: str) -> Spelling:
        """An occupation in both numbers."""
        return Spelling(word, plural(word) if self.lang == "en" else word)

    def predicates(self, templates: Iterable[str]) -> dict[str, str]:
        """Templates whose sentence fits the frames, with their predicates: ``the [Sub] is waving.`` to ``waving``."""
        keep, drop = self.patterns["keep"], self.patterns.get("drop", "(?!)")
        kept = (template for template in templates if not re.search(drop, template))
        return {template: match[1] for template in kept if (match := re.fullmatch(keep, template))}

    def add(self, origin: str, row: Mapping[str, str]) -> None:
        """Read a line of a table."""
        dimension, name = row["dimension"].strip(), row["name"].strip()
        where = f"{origin}, {dimension} '{name}'"
        if dimension not in _KINDS:
            raise ResourceError(f"{origin}: no dimension '{dimension}'; choose {', '.join(_KINDS)}")
        if not _NAME.fullmatch(name):
            raise ResourceError(f"{where}: a name is needed, without commas, semicolons and bars")
        if any(choice.name == name for choice in self.choices[dimension]):
            raise ResourceError(f"{where} stands there twice")
        kind = row["kind"].strip()
        if kind not in _KINDS[dimension]:
            kinds = ", ".join(sorted(kind or "nothing" for kind in _KINDS[dimension]))
            raise ResourceError(f"{where}: kind '{kind}' is not one of {kinds}")
        if dimension == "noun":
            choice = Choice(name, kind, words=self._words(where, kind, row))
        else:
            choice = Choice(name, kind, row["text"].strip(), (row.get("plural") or "").strip())
            self._check(where, dimension, choice)
        self.choices[dimension].append(choice)

    def _words(self, where: str, kind: str, row: Mapping[str, str]) -> dict[str, tuple[Spelling, ...]]:
        words = {}
        for group in self.groups:
            texts = (text.partition("/") for text in (row.get(group) or "").split(";") if text.strip(" /"))
            spelled = tuple(Spelling(one.strip(), two.strip() or one.strip(), kind in BARE) for one, _, two in texts)
            if not spelled:
                raise ResourceError(f"{where} has no word for {group} in language '{self.lang}'")
            words[group] = spelled
            leaks = [word for spelling in spelled for word in self._leaks(spelling.singular, spelling.plural)]
            # 彼女 (she) holds 彼 (he) and 女 (woman): the longest word counts.
            longest = [word for word in leaks if not any(word != other and word in other for other in leaks)]
            given_away = {self.revealing[word] for word in longest}
            if kind != NAME and given_away - {group, "-"}:
                raise ResourceError(f"{where}: '{spelled[0].singular}' is not a word for {group}")
        # Two groups under one word would make the pairs of both the same question.
        different = len(set(words.values())) == len(self.groups)
        if different == (kind == CONTROL):
            rule = "a control has the same word for all groups" if different else "the groups have the same word"
            raise ResourceError(f"{where}: {rule}")
        return words

    def _leaks(self, *texts: str) -> list[str]:
        """Words that give a group away; slots are no words."""
        bare = " ".join(re.sub(r"\{\w+\}", " ", text) for text in texts)
        return leaking_words(bare, self.revealing, self.lang)

    def _check(self, where: str, dimension: str, choice: Choice) -> None:
        if dimension == "pattern":
            try:
                slots = re.compile(choice.text).groups
            except re.error as error:
                raise ResourceError(f"{where}: not a regular expression ({error})") from error
            if choice.kind == "keep" and slots != 1:
                raise ResourceError(f"{where}: the predicate must be the one group in brackets")
            return
        for text in (choice.text, choice.plural) if choice.plural else (choice.text,):
            if dimension == "frame" and not ("{np}" in text and "{vp}" in text):
                raise ResourceError(f"{where} needs the slots {{np}} and {{vp}}: '{text}'")
            if dimension != "frame" and choice.kind != "same" and not any(slot in text for slot in _WORD_SLOTS):
                raise ResourceError(f"{where} has no slot {', '.join(_WORD_SLOTS)}: '{text}'")
        if leaks := self._leaks(choice.text, choice.plural):
            raise ResourceError(
                f"{where} holds '{leaks[0]}', which gives a group away: the right answer would not be neutral"
            )


def read_wordings(axis: Axis, lang: str, more: Path | None = None) -> Wordings:
    """The wordings of a language, and those in a CSV file of the user's own; what cannot be asked is refused."""
    table = axis.language(lang).wordings
    if table is None:
        raise ResourceError(f"axis '{axis.id}' has no wordings in language '{lang}'; its TOML file may name a table")
    rows = [(table.name, row) for row in table.rows(*_COLUMNS)]
    if more is not None:
        rows += [(more.name, row) for row in read_table(more, _COLUMNS)]
    wordings = Wordings(axis, lang)
    for origin, row in rows:
        wordings.add(origin, row)
    needed = {name: wordings.choices[name] for name in ("determiner", "frame", "form")}
    missing = [name for name, of in {**needed, "keep": wordings.patterns.get("keep")}.items() if not of]
    kinds = [noun.kind for noun in wordings.choices["noun"]]
    if missing or kinds.count(CONTROL) != 1 or kinds[:1] != [NOUN]:
        what = ", ".join(missing) or "a first noun of kind noun and one of kind control"
        raise ResourceError(f"{table.name} lacks {what}")
    return wordings


@dataclass(frozen=True)
class Reader:
    """Reads sentences in the wordings of a language; frames are cut: ``before {np} middle {vp} after``."""

    phrases: Mapping[str, Who]
    hypotheses: Mapping[str, Who]
    frames: Sequence[Sequence[str]]

    def read(self, premise: str, hypothesis: str) -> tuple[Who, Who] | None:
        """Who the two sentences speak of; None where they are not a pair of these wordings."""
        for frame in self.frames:
            for who, predicate in self._subjects(frame, premise):
                for asked, asked_predicate in self._subjects(frame, hypothesis):
                    if predicate == asked_predicate:
                        return who, asked
                if hypothesis in self.hypotheses:
                    return who, self.hypotheses[hypothesis]
        return None

    def _subjects(self, frame: Sequence[str], text: str) -> list[tuple[Who, str]]:
        """Subjects that are known, the longest first, with their predicates."""
        before, first, middle, _, after = frame
        if not (text.startswith(before) and text.endswith(after)):
            return []
        inner = text[len(before) : len(text) - len(after)]
        # Between subject and predicate Chinese has nothing, so every cut is tried.
        ends = (at for at in range(1, len(inner)) if inner.startswith(middle, at))
        cuts = [(inner[:at], inner[at + len(middle) :]) for at in ends]
        ordered = cuts if first == "np" else [cut[::-1] for cut in cuts]
        known = sorted((cut for cut in ordered if cut[0] in self.phrases), key=lambda cut: -len(cut[0]))
        return [(self.phrases[phrase], predicate) for phrase, predicate in known]


@lru_cache(maxsize=8)
def reader(lang: str, occupations: tuple[str, ...]) -> Reader:
    """A reader of the wordings of the shipped axis."""
    wordings = read_wordings(load_axis(), lang)
    frames, forms = (
        [text for choice in wordings.choices[name] for text in dict.fromkeys((choice.text, choice.plural)) if text]
        for name in ("frame", "form")
    )
    phrases: dict[str, Who] = {}
    hypotheses: dict[str, Who] = {}
    for determiner in wordings.choices["determiner"]:
        for occupation in occupations:
            phrases[determiner.phrase(wordings.spelling(occupation))] = (OCCUPATION, occupation)
        for noun in wordings.choices["noun"]:
            for group, word in ((group, word) for group, words in noun.words.items() for word in words):
                who = (PERSON, "") if noun.kind == CONTROL else (GROUP, group)
                phrases[determiner.phrase(word)] = who
                hypotheses |= {word.put_into(form): who for form in forms}
    return Reader(phrases, hypotheses, [re.split(r"\{(\w+)\}", text) for text in frames])
