"""Ways to say the same: group nouns, determiners, sentence frames, hypothesis forms and templates.

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
from dataclasses import dataclass
from pathlib import Path

from evenli.audit.suites.base import SLOT
from evenli.audit.suites.checks import leaking_words
from evenli.audit.suites.probe.words import article
from evenli.audit.suites.probe.words import plural as english_plural
from evenli.core.errors import InputError, ResourceError
from evenli.words import Axis, read_table
from evenli.words.tables import Table

DIMENSIONS = ("noun", "determiner", "frame", "form", "templates")
"""What a wording chooses; templates are sets of sentences."""
NOUN, NARROW, PRONOUN, NAME, CONTROL = "noun", "narrow", "pronoun", "name", "control"
_KINDS = {
    "noun": {NOUN, NARROW, PRONOUN, NAME, CONTROL},
    "determiner": {"one", "two"},
    "frame": {""},
    "form": {"", "same"},
    "pattern": {"keep", "drop"},
}
WORD_SLOTS = ("{singular}", "{plural}", "{a}")
_NAME = re.compile(r"[^,;|]+")


@dataclass(frozen=True)
class Spelling:
    """A word in the singular and, where the table has it, in the plural."""

    singular: str
    plural: str = ""


@dataclass(frozen=True)
class Noun:
    """How the groups are called: by group, one spelling or several that take turns."""

    name: str
    kind: str
    words: Mapping[str, tuple[Spelling, ...]]

    @property
    def bare(self) -> bool:
        """Whether it stands without a determiner, and for one person only."""
        return self.kind in {PRONOUN, NAME}

    def word(self, group: str, turn: int = 0) -> Spelling:
        """How a group is called in the sentence of this number."""
        spellings = self.words[group]
        return spellings[turn % len(spellings)]


@dataclass(frozen=True)
class Choice:
    """A determiner, a frame or a form: how it reads for one person, and for two."""

    name: str
    kind: str
    text: str
    plural: str

    def read(self, *, two: bool) -> str:
        """The text for one person or for two."""
        return self.plural if two and self.plural else self.text


@dataclass(frozen=True)
class Wordings:
    """All choices of a language. The first of each kind is the usual one."""

    lang: str
    groups: tuple[str, ...]
    nouns: tuple[Noun, ...]
    determiners: tuple[Choice, ...]
    frames: tuple[Choice, ...]
    forms: tuple[Choice, ...]
    keep: re.Pattern[str]
    drop: re.Pattern[str]

    @property
    def person(self) -> Noun:
        """The noun that names no group."""
        return next(noun for noun in self.nouns if noun.kind == CONTROL)

    @property
    def group_nouns(self) -> list[Noun]:
        """The nouns that name a group."""
        return [noun for noun in self.nouns if noun.kind != CONTROL]

    def find(self, dimension: str, name: str) -> Choice:
        """A determiner, frame or form by name."""
        choices: tuple[Choice, ...] = getattr(self, f"{dimension}s")
        return next(choice for choice in choices if choice.name == name)

    def noun(self, name: str) -> Noun:
        """A noun by name."""
        return next(noun for noun in self.nouns if noun.name == name)

    def spelling(self, word: str) -> Spelling:
        """An occupation in both numbers."""
        return Spelling(word, english_plural(word) if self.lang == "en" else word)

    def predicates(self, templates: Iterable[str]) -> dict[str, str]:
        """Templates whose sentence fits the frames, with their predicates: ``the [Sub] is waving.`` to ``waving``."""
        by_template = {}
        for template in templates:
            match = self.keep.fullmatch(template)
            if match and not self.drop.search(template):
                by_template[template] = match[1]
        return by_template


def fill_word(text: str, word: Spelling, *, bare: bool = False) -> str:
    """Put a word into a text: {singular}, {plural}, or {a} for the singular with its article; a name has none."""
    filled = text.replace("{singular}", word.singular).replace("{plural}", word.plural)
    return filled.replace("{a}", word.singular if bare else f"{article(word.singular)} {word.singular}")


def noun_phrase(determiner: Choice, word: Spelling, *, bare: bool = False) -> str:
    """A word with its determiner; a pronoun or a name stands bare."""
    return word.singular if bare else fill_word(determiner.text, word)


def sentence(frame: Choice, phrase: str, predicate: str, *, two: bool) -> str:
    """A sentence in its frame."""
    return frame.read(two=two).replace("{np}", phrase).replace("{vp}", predicate)


def read_wordings(axis: Axis, lang: str, more: str | Path | None = None) -> Wordings:
    """The wordings of a language, and those in a file of the user's own behind them; what cannot be asked is refused.

    Args:
        axis: Whose groups are named.
        lang: Language of the axis.
        more: A CSV file with further lines.
    """
    table = axis.language(lang).wordings
    if table is None:
        raise ResourceError(f"axis '{axis.id}' has no wordings in language '{lang}'; its TOML file may name a table")
    rows = [(table.name, row) for row in table.rows("dimension", "name", "kind", "text")]
    if more is not None:
        added = read_table(Path(more), ("dimension", "name", "kind", "text"))
        rows += [(Path(more).name, row) for row in added]
    reader = _Reader(axis, lang)
    for origin, row in rows:
        reader.add(origin, row)
    return reader.wordings(table)


class _Reader:
    """Reads the lines of a table and refuses those that cannot be asked or that change the right answer."""

    def __init__(self, axis: Axis, lang: str) -> None:
        self.lang, self.groups = lang, axis.group_names
        self.revealing = axis.revealing_words(lang)
        self.nouns: list[Noun] = []
        self.choices: dict[str, list[Choice]] = {name: [] for name in ("determiner", "frame", "form", "pattern")}

    def add(self, origin: str, row: Mapping[str, str]) -> None:
        dimension, name = row["dimension"].strip(), row["name"].strip()
        where = f"{origin}, {dimension} '{name}'"
        if dimension not in _KINDS:
            raise ResourceError(f"{origin}: no dimension '{dimension}'; choose {', '.join(_KINDS)}")
        if not _NAME.fullmatch(name):
            raise ResourceError(f"{where}: a name is needed, without commas, semicolons and bars")
        known = self.nouns if dimension == "noun" else self.choices[dimension]
        if any(choice.name == name for choice in known):
            raise ResourceError(f"{where} stands there twice")
        kind = row["kind"].strip()
        if kind not in _KINDS[dimension]:
            kinds = ", ".join(sorted(kind or "nothing" for kind in _KINDS[dimension]))
            raise ResourceError(f"{where}: kind '{kind}' is not one of {kinds}")
        if dimension == "noun":
            self.nouns.append(self._noun(where, name, kind, row))
            return
        choice = Choice(name, kind, row["text"].strip(), (row.get("plural") or "").strip())
        self._check(where, dimension, choice)
        self.choices[dimension].append(choice)

    def _noun(self, where: str, name: str, kind: str, row: Mapping[str, str]) -> Noun:
        words = {}
        for group in self.groups:
            spelled = [_spelling(text) for text in (row.get(group) or "").split(";") if text.strip()]
            if not spelled:
                raise ResourceError(f"{where} has no word for {group} in language '{self.lang}'")
            words[group] = tuple(spelled)
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
        return Noun(name, kind, words)

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
            if dimension != "frame" and choice.kind != "same" and not any(slot in text for slot in WORD_SLOTS):
                raise ResourceError(f"{where} has no slot {', '.join(WORD_SLOTS)}: '{text}'")
        if leaks := self._leaks(choice.text, choice.plural):
            raise ResourceError(
                f"{where} holds '{leaks[0]}', which gives a group away: the right answer would not be neutral"
            )

    def wordings(self, table: Table) -> Wordings:
        """What was read, checked as a whole."""
        patterns = {pattern.kind: pattern.text for pattern in self.choices["pattern"]}
        chosen = {name: tuple(self.choices[name]) for name in ("determiner", "frame", "form")}
        missing = [name for name, of in chosen.items() if not of] + [k for k in ("keep",) if k not in patterns]
        kinds = [noun.kind for noun in self.nouns]
        if missing or kinds.count(CONTROL) != 1 or kinds[:1] != [NOUN]:
            what = ", ".join(missing) or "a first noun of kind noun and one of kind control"
            raise ResourceError(f"{table.name} lacks {what}")
        texts = [text for of in chosen.values() for choice in of for text in (choice.text, choice.plural)]
        if any("{plural}" in text for text in texts):
            for noun in self.nouns:
                if not noun.bare and not all(spelling.plural for of in noun.words.values() for spelling in of):
                    raise ResourceError(f"{table.name}, noun '{noun.name}' has no plural; write woman/women")
        return Wordings(
            self.lang,
            self.groups,
            tuple(self.nouns),
            chosen["determiner"],
            chosen["frame"],
            chosen["form"],
            re.compile(patterns["keep"]),
            re.compile(patterns.get("drop", "(?!)")),
        )


def _spelling(text: str) -> Spelling:
    singular, _, plural = text.strip().partition("/")
    return Spelling(singular.strip(), plural.strip() or singular.strip())


def check_templates(templates: Sequence[str], axis: Axis, lang: str, origin: str) -> None:
    """Refuse templates without a slot, or with a word that gives a group away."""
    revealing = axis.revealing_words(lang)
    for number, template in enumerate(templates, 1):
        if SLOT not in template:
            raise InputError(f"{origin}, template {number} has no {SLOT} slot: '{template}'")
        if leaks := leaking_words(template, revealing, lang):
            raise InputError(
                f"{origin}, template {number} holds '{leaks[0]}', which gives a group away: the right answer would not "
                f"be neutral"
            )
