"""Which capitalised words of a document are first names of people.

A word of ``swap_names.csv`` counts as a first name only with evidence, and it is decided once for all texts of a
document: "Clinton" in the premise and in the hypothesis is a first name in both or in neither. One use that speaks
against it ("Mr. Newton", "Jackson Street", "the Madonna", "O'Brien") is enough to leave the word alone everywhere.

A text is given as the alternation of separators and words that ``re.split`` with one group returns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from evenli.words import read_table
from evenli.words.lists import name_kinds, name_ranks, sides
from evenli.words.swap.pronoun_case import context, words

Parts = Sequence[str]
ALONE = 700  # names up to this rank of popularity may stand alone; rarer ones need a surname behind them
_WITH_SURNAME = 1500
_AMBIGUOUS = 400  # a name that is also a word or a surname needs a surname behind it and a rank up to this one

_SENTENCE_END = re.compile(r"[.!?:;…\n\"“”‘`]")
_TITLES = words.title | context["title"]
_PLACE_HEADS = words.place_head | context["place_head"]
_TAILS = words.place_tail | context["place_tail"]


@dataclass
class Text:
    """A text of a document: its words and what stands between them, what changes in it, and its first names."""

    parts: list[str]
    changes: list[tuple[int, str]]  # place and what stands there then, in the order of the text
    names: set[str] = field(default_factory=set)

    @property
    def words(self) -> list[tuple[int, str]]:
        """The words with their places."""
        return [*enumerate(self.parts)][1::2]

    @property
    def changed_words(self) -> list[tuple[int, str, str]]:
        """Place, word and new word of every word that changes."""
        return [(index, self.parts[index], new) for index, new in self.changes if index % 2]


@cache
def name_pairs() -> dict[str, str]:
    """Every first name with its partner: the name of the same rank of the other gender."""
    rows = read_table("swap_names.csv", ("male", "female"))
    return {**{row["male"]: row["female"] for row in rows}, **{row["female"]: row["male"] for row in rows}}


def word_at(parts: Parts, index: int) -> str:
    """The word at a place, or nothing outside the text."""
    return parts[index] if 0 < index < len(parts) else ""


def starts_sentence(parts: Parts, index: int) -> bool:
    """True if the word is the first of a sentence."""
    if index == 1:
        return True
    gap, previous = parts[index - 1], parts[index - 2]
    # The full stop of an abbreviation ends no sentence: "Dr. Hill", "St. Mary", "J. Hill".
    abbreviated = previous in _TITLES or previous in words.place_head or (len(previous) == 1 and previous.isupper())
    return not (gap.startswith(".") and abbreviated) and _SENTENCE_END.search(gap) is not None


def is_capitalised(word: str) -> bool:
    """A capital and at least one other letter that is not one: Hill, McCain, but not US or I."""
    return word[:1].isupper() and not word.isupper() and len(word) > 1


def in_title_case(parts: Parts) -> bool:
    """True for a headline in which nearly every word is capitalised, so that capitals say nothing."""
    words = [word for word in parts[1::2] if word.isalpha() and len(word) > 3]
    return len(words) > 4 and sum(map(is_capitalised, words)) > 0.8 * len(words)


def first_names(texts: Sequence[Parts]) -> set[str]:
    """The words that are first names of people, in all texts of the document."""
    table, kinds = name_pairs(), name_kinds()
    uses = [(parts, i) for parts in texts for i in range(1, len(parts), 2) if parts[i] in table]
    refused = {parts[i] for parts, i in uses if "never" in kinds.get(parts[i], ()) or _speaks_against(parts, i)}
    others = ((parts, i) for parts, i in uses if parts[i] not in refused)
    return {parts[i] for parts, i in others if not in_title_case(parts) and _speaks_for(parts, i)}


def _surname_behind(parts: Parts, index: int) -> bool:
    """True before a capitalised word, perhaps behind an initial: "John Hill", "George W. Bush"."""
    place, gap = index + 2, parts[index + 1] if index + 1 < len(parts) else ""
    if gap == " " and re.fullmatch("[A-Z]", word_at(parts, place)) and word_at(parts, place) != "I":
        gap, place = parts[place + 1].lstrip("."), place + 2
    following = word_at(parts, place)
    return gap.strip(" ") == "" and gap != "" and is_capitalised(following) and following not in words.small_word


def _speaks_against(parts: Parts, index: int) -> bool:
    """True if this use of the word is a surname, a place, a firm, a month or another word."""
    name, before, behind = parts[index], parts[index - 1], parts[index + 1]
    previous, following = word_at(parts, index - 2), word_at(parts, index + 2)
    # O'Brien, Jean-Claude, AC/DC; "Don't"; "M & M" is no gap of one space.
    if before[-1:] in {"'", "’", "-", "/", "@", "#", "_"} and previous:
        return True
    if (behind[:1] in {"-", "/", "@", "_"} and following) or (behind in {"'", "’"} and following == "t"):
        return True
    kinds = name_kinds().get(name, frozenset())
    if behind == " " and (following in _TAILS or following.isdigit() or re.fullmatch("[IVX]+", following)):
        # Some tails are surnames as well: "James Hill" is a person, "Jackson Hill" a place.
        return following != "I" and bool(following not in context["surname_tail"] or kinds)
    if behind.strip() == "&":
        return True
    if starts_sentence(parts, index):
        return bool("word" in kinds and not _surname_behind(parts, index))
    gap = before.strip()
    if gap in {"", "."}:
        if previous in _PLACE_HEADS or previous.lower() in context["before_no_name"]:
            return True
        if previous in context["person_title"]:  # King Charles, Uncle Bob
            return False
        if previous in _TITLES:
            return not _surname_behind(parts, index)
        if gap == "" and _is_name_like(parts, index - 2):
            return True
        if len(previous) == 1 and previous.isupper() and previous != "I":  # "J. Carter"
            return True
    lower = previous.lower() if gap == "" else ""
    return ("place" in kinds and lower in words.before_place) or ("time" in kinds and lower in words.before_time)


def _speaks_for(parts: Parts, index: int) -> bool:
    """True if this use, which nothing speaks against, is that of a person's first name."""
    name, kinds = parts[index], name_kinds().get(parts[index], frozenset())
    surname = _surname_behind(parts, index)
    if "place" in kinds:
        # What people do and machines, towns or firms rarely do.
        return not surname and word_at(parts, index + 2).lower() in context["person_verb"]
    rank = name_ranks()[name]
    if surname:
        return rank <= (_AMBIGUOUS if kinds else _WITH_SURNAME)
    return rank <= ALONE and not kinds & {"surname", "time"}


def _is_name_like(parts: Parts, index: int) -> bool:
    """True if the word is a first name, or capitalised for no other reason than being a name."""
    word = parts[index]
    if not is_capitalised(word) or word.lower() in _role_words():
        return False
    return word in name_pairs() or (word not in words.small_word and not starts_sentence(parts, index))


@cache
def _role_words() -> frozenset[str]:
    """Words that may stand capitalised before a first name: gender words, offices and nationalities."""
    titles = (title.lower() for title in _TITLES)
    return frozenset([*sides("swap_words_en.csv"), *titles, "state", "u.s", "minister", "spokesman"])
