"""Exchange the genders of a text or of a whole document: words, titles, pronouns and, on request, first names.

Three ways of doing it in English, for three purposes:

``default``
    Ours. All words change at once: "a man and a woman" becomes "a woman and a man". All other bytes stay, case is
    kept, and context decides *her* and *his* (``evenli.words.swap.pronoun_case``) and whether a word is a gender word
    at all (``rules``). Texts whose genders cannot be exchanged are left alone (``conflicts``).
``paper``
    Dolci et al. 2023: exact tokens in lower case or capitalised, 122 words, *her* always becomes *him*.
``released``
    Sharma et al. 2021, as their notebook does it, for replication only: lower case, 19 replacements one after the
    other, each skipped if its target was itself replaced. So "a man and a woman" becomes "a woman and a woman", and
    *guys* becomes *girls* and then *boys*.

Japanese and Chinese have the default mode only. They have no spaces between words: listed words are found longest
first, so that 女の子 is taken before 女, and words that merely hold a listed one (其他, 大丈夫, 母国) are listed as
well and stay. No segmenter is used: names are left alone, and a gender word inside a longer word that nobody listed
would change. ``studies/swap/quality.py`` says how often that happens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Literal, NamedTuple, get_args

from evenli.core.errors import InputError
from evenli.words import read_table
from evenli.words.lists import name_kinds
from evenli.words.swap.conflicts import conflict_of
from evenli.words.swap.names import Text, first_names, name_pairs, word_at
from evenli.words.swap.rules import Decision, cased_as, decisions, in_proper_name, possessive

Mode = Literal["default", "paper", "released"]
Conflicts = Literal["skip", "swap"]
Lang = Literal["en", "ja", "zh"]

# One group: split() gives separator, word, separator, word, ..., separator, and their join is the text.
_WORDS = re.compile(r"(\w+(?:['’]am\b)?)")
# word_tokenize keeps inner hyphens, slashes and dots, and cuts off clitics such as 's and 'll.
_TOKENS = re.compile(r"(\w+(?:[-/.]\w+)*)")
_DEFAULT_LISTS = {"dolci", "evenli", "added"}
# Abbreviations of states, illnesses and units, and the verb.
_NO_WORDS = ("PA", "MA", "MS", "ms", "miss", "MISS", "BRO", "SIS")


class Change(NamedTuple):
    """One replaced word: where it starts, what stood there, what stands there now."""

    start: int
    word: str
    replacement: str


@dataclass(frozen=True)
class Swapped:
    """A document with its genders exchanged, or as it was and the reason why."""

    texts: tuple[str, ...]
    changes: tuple[tuple[Change, ...], ...]
    conflict: str = ""  # key of ``conflicts.REASONS`` if the document had words to swap and was left alone

    @classmethod
    def unchanged(cls, texts: Sequence[str], conflict: str = "") -> Swapped:
        """Texts that stay as they are, perhaps for a reason."""
        return cls(tuple(texts), ((),) * len(texts), conflict)

    @property
    def changed(self) -> bool:
        """True if a word was replaced."""
        return any(self.changes)


class Swapper:
    """Swap the genders of texts; ``swapper(text)`` returns the swapped text.

    ``swap_document`` decides once for several texts that belong together, such as premise and hypothesis: a name is
    renamed in all of them or in none, and where one text cannot be swapped none is.

    Beyond the word list, the default mode has these rules. Before a noun group *her* becomes *his* and *his* becomes
    *her*; elsewhere *him* and *hers*. *Ms* and *Miss* become *Mr*. Verbs, compounds and proper names stay ("man the
    lifeboats", "cowboy hat", "Warner Brothers"). With ``names`` a first name becomes the name of the same rank of the
    other gender if there is evidence that it is one (``names``); by default first names stay, in mode ``paper`` they
    change, as published. Texts in which the swap would make no sense ("a man with a beard") stay; with
    ``conflicts="swap"`` they change, too.

    Swapping twice gives the original for 99 % of SNLI sentences. Exceptions: one-way rows of ``swap_words_en.csv`` such
    as *Ms* and *actress*, and a misread *her*.

    >>> Swapper()("Mr. Hill told Mary that the policewoman's dog bit him and her sister.")
    "Mrs. Hill told Mary that the policeman's dog bit her and his brother."
    >>> Swapper(names=True)("Mary told her brother.")
    'James told his sister.'
    >>> Swapper("released")("A man and a woman")
    'a woman and a woman'
    """

    def __init__(
        self, mode: Mode = "default", names: bool | None = None, *, conflicts: Conflicts = "skip", lang: Lang = "en"
    ) -> None:
        for what, value, known in (("mode", mode, Mode), ("language", lang, Lang), ("conflicts", conflicts, Conflicts)):
            if value not in get_args(known):
                raise InputError(f"swap {what} '{value}' is unknown; choose {', '.join(get_args(known))}")
        if lang != "en" and (mode != "default" or names):
            what = f"mode {mode} is" if mode != "default" else "first names are swapped in"
            raise InputError(f"{what} English only, the language is '{lang}'; leave it out")
        self.mode: Mode = mode
        self.names = mode == "paper" if names is None else names
        self.lang: Lang = lang
        self.conflicts: Conflicts = conflicts
        self._ours = mode == "default" and lang == "en"  # with rules for the words around a word
        self._arrows: dict[str, str] = {}
        self._decide: dict[str, Decision] = {}
        if mode == "released":
            self._split: Callable[[str], list[str]] = _WORDS.split
            rows = read_table("swap_sharma.csv", ("word", "replacement"))
            self._ordered = {row["word"]: row["replacement"] for row in rows}
        elif mode == "paper":
            self._split = _TOKENS.split
            self._arrows = (name_pairs() if self.names else {}) | _word_arrows({"dolci"}, _CASES[:2])
            # The tokeniser keeps "Mr." as one token, which the list does not have.
            self._decide = dict.fromkeys(("mr", "Mr", "mrs", "Mrs"), _unless_dotted)
        elif lang == "en":
            self._split = _WORDS.split
            self._arrows, self._decide = _word_arrows(_DEFAULT_LISTS, _CASES), decisions()
            for form in _NO_WORDS:
                self._arrows.pop(form, None)
            self._arrows |= {"Ma’am": "Sir", "ma’am": "sir", "SHe": "He"}
        else:
            self._arrows, listed = _listed(lang)
            self._split = listed.split

    @property
    def settings(self) -> dict[str, str | bool]:
        """How it swaps, for the header of what it wrote."""
        return {"mode": self.mode, "names": self.names, "conflicts": self.conflicts, "lang": self.lang}

    def __call__(self, text: str) -> str:
        """The text with the genders exchanged."""
        return self.swap_document([text]).texts[0]

    def swap_document(self, texts: Sequence[str]) -> Swapped:
        """Texts that belong together, with the genders exchanged in all of them or in none."""
        texts = [text.lower() for text in texts] if self.mode == "released" else texts
        document = [Text(parts, self._changes(parts)) for parts in map(self._split, texts)]
        if self._ours and len(texts) > 1:
            _agree(document)
            _same_titles(document)
        if self._ours and (self.names or (len(texts) > 1 and any(text.changes for text in document))):
            _find_names(document, rename=self.names)
        if not any(text.changes for text in document):
            return Swapped.unchanged(texts)
        checked = self.mode == "default" and self.conflicts == "skip"
        if checked and (reason := conflict_of(document, self.lang, names=self.names)):
            return Swapped.unchanged(texts, reason)
        changes = []
        for text in document:
            starts = list(accumulate(map(len, text.parts), initial=0))
            changes.append(tuple(Change(starts[index], text.parts[index], new) for index, new in text.changes))
            for index, new in text.changes:
                text.parts[index] = new
        return Swapped(tuple("".join(text.parts) for text in document), tuple(changes))

    def _changes(self, parts: list[str]) -> list[tuple[int, str]]:
        """Index and replacement of every word that changes."""
        if self.mode == "released":
            return self._released(parts)
        arrows, changes = self._arrows, list[tuple[int, str]]()
        # Most texts have no gendered word, so the filter comes first, in a comprehension.
        for index in [index for index in range(1, len(parts), 2) if parts[index] in arrows]:
            word = parts[index]
            decide = self._decide.get(word)
            replacement = arrows[word] if decide is None else decide(parts, index, arrows[word])
            if replacement is None or (self._ours and word[0].isupper() and in_proper_name(parts, index)):
                continue
            changes.append((index, replacement))
            if self._ours:
                changes += possessive(parts, index, replacement)
        return changes

    def _released(self, before: list[str]) -> list[tuple[int, str]]:
        replaced, present, text = set[str](), set(before[1::2]), "".join(before)
        for word, target in self._ordered.items():
            if target not in replaced and word in present:
                text = re.sub(rf"\b{word}\b", target, text)
                replaced.add(word)
                present = present - {word} | {target}
        after = self._split(text)
        return [(index, after[index]) for index in range(1, len(before), 2) if before[index] != after[index]]


@cache
def _listed(lang: str) -> tuple[dict[str, str], re.Pattern[str]]:
    """Every Japanese or Chinese word that changes, with its replacement; and what splits a text at listed words."""
    rows = read_table(f"swap_words_{lang}.csv", ("male", "female", "ways"))
    stays = {row["male"] for row in rows if row["ways"] == "stay"}
    changes = dict(reversed([*_arrows(rows)]))  # of several rows of a word the first counts
    words = sorted({*changes, *stays}, key=lambda word: (-len(word), word))
    return {word: other for word, other in changes.items() if word not in stays}, re.compile(f"({'|'.join(words)})")


def _word_arrows(lists: set[str], cases: Sequence[Callable[[str], str]]) -> dict[str, str]:
    rows = read_table("swap_words_en.csv", ("male", "female", "ways", "list"))
    # The one-way his -> her stands behind his -> hers in the table and replaces it.
    arrows = dict(_arrows(row for row in rows if row["list"] in lists))
    return {case(word): case(target) for word, target in arrows.items() for case in cases}


def _arrows(rows: Iterable[dict[str, str]]) -> Iterator[tuple[str, str]]:
    for row in rows:
        if row["ways"] in {"both", "to_female"}:
            yield row["male"], row["female"]
        if row["ways"] in {"both", "to_male"}:
            yield row["female"], row["male"]


# Lower case, capitalised (str.capitalize would lower the rest), upper case.
_CASES: tuple[Callable[[str], str], ...] = (str, lambda word: word[:1].upper() + word[1:], str.upper)


def _unless_dotted(parts: Sequence[str], index: int, target: str) -> str | None:
    return None if parts[index + 1].startswith(".") else target


def _agree(document: list[Text]) -> None:
    """Leave a capitalised word alone in all texts if it is part of a proper name in one: "Stephen King", "King"."""
    stays: set[str] = set()
    for text in document:
        done = {index for index, _ in text.changes}
        capitals = ((i, word) for i, word in text.words if word[0].isupper() and i > 1 and i not in done)
        stays |= {word for index, word in capitals if in_proper_name(text.parts, index)}
    for text in document:
        text.changes = [(index, new) for index, new in text.changes if text.parts[index] not in stays]


def _same_titles(document: list[Text]) -> None:
    """Swap "miss Hill" as well where another text has "Miss Hill"; alone it could be the verb of "I miss Berlin"."""
    titled = {word_at(t.parts, index + 2) for t in document for index, word, _ in t.changed_words if word == "Miss"}
    for text in document if titled else ():
        missed = [(i, "mr") for i, word in text.words[:-1] if word == "miss" and text.parts[i + 2] in titled]
        text.changes = sorted(text.changes + missed)


def _find_names(document: list[Text], *, rename: bool) -> None:
    """Note the first names of the document that stand in each text; let them change as well, in all of its texts."""
    names, pairs = first_names([text.parts for text in document]), name_pairs()
    for text in document if names else ():
        named = [(i, word, name) for i, word in text.words if (name := _spelled_name(word, names))]
        text.names = {name for *_, name in named}
        if rename:
            taken = {index for index, _ in text.changes}
            renamed = [(i, cased_as(word, pairs[name].lower())) for i, word, name in named if i not in taken]
            text.changes = sorted(text.changes + renamed)


def _spelled_name(word: str, names: set[str]) -> str:
    """Which of the names a word is, or nothing; a name that is no word may be in lower or in upper case."""
    name = word.capitalize() if word.islower() or word.isupper() else word
    return name if name in names and (name == word or not name_kinds().get(name)) else ""


def swap(text: str, *, mode: Mode = "default", names: bool | None = None, lang: Lang = "en") -> str:
    """The text with its genders exchanged; first names stay unless ``names`` asks for them.

    >>> swap("She called her father.")
    'He called his mother.'
    >>> swap("彼女は母に電話した。", lang="ja")
    '彼は父に電話した。'
    """
    if not isinstance(text, str):
        raise InputError(f"swap takes a text, not {type(text).__name__}")
    return Swapper(mode, names, lang=lang)(text)
