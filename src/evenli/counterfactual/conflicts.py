"""Texts whose genders cannot be exchanged without saying something else: bodies, titles of people, labels.

"A man with a beard", "a pregnant woman" and "Queen Victoria" are left as they are and counted, unless the user asks
for the swap all the same. A pair with such a text gets no copy: swapping one half would change its label.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from evenli.counterfactual.names import is_capitalised, name_pairs, word_at
from evenli.counterfactual.pronouns import context
from evenli.resources import read_table

BODY, TITLE, NAME, COLLAPSE, LANGUAGE = "body", "title", "name", "titles collapse", "language"
REASONS = {
    BODY: "a body or role that only one gender has (pregnant, beard, ballerina)",
    TITLE: "a title of a named person (Queen Victoria, Sir Edmund, Father Brown)",
    NAME: "a first name stays that the other text of the pair speaks of as a man or a woman",
    COLLAPSE: "two titles of different people would become one (Ms. and Mrs.)",
    LANGUAGE: "another language",
}
"""Why a text has no swapped copy, for people."""

_NAMED = context["person_title"]
_CIVIL = frozenset({"Mr", "Mrs", "Ms", "Miss"})
TITLES = _NAMED | _CIVIL
"""Gendered titles that stand before a name."""
_FEMALE_TITLES = frozenset({"Mrs", "Ms", "Miss"})


@lru_cache(maxsize=1)
def _bodies() -> dict[str, str]:
    """Words that say a gender by body or role, with that gender."""
    rows = [row for row in read_table("swap_conflicts.csv", ("word", "gender", "lang")) if row["lang"] == "en"]
    return {form: row["gender"] for row in rows for form in (row["word"], row["word"].capitalize())}


@lru_cache(maxsize=1)
def _sides() -> dict[str, str]:
    rows = read_table("swap_words.csv", ("male", "female"))
    return {row[side]: side for row in rows for side in ("male", "female")}


def body_conflict(texts: Sequence[Sequence[str]], changed: Iterable[str]) -> bool:
    """True if a text has a bodily word of the gender of a word that changes."""
    found = {_bodies()[word] for parts in texts for word in parts[1::2] if word in _bodies()}
    if not found:
        return False
    genders = {_sides().get(word.lower(), "either") for word in changed}
    return bool(found & genders) or "either" in genders


def title_conflict(parts: Sequence[str], index: int, renamed: set[str]) -> bool:
    """True if the word is a gendered title before a name that stays: "Queen Victoria", "Mr. John Hill"."""
    word, following = parts[index], word_at(parts, index + 2)
    if parts[index + 1] not in {" ", ". ", " . "} or not is_capitalised(following) or following in renamed:
        return False
    return word in _NAMED or (
        word in _CIVIL and following in name_pairs() and is_capitalised(word_at(parts, index + 4))
    )


def titles_collapse(texts: Sequence[Sequence[str]]) -> bool:
    """True if two of Mrs, Ms and Miss stand before the same name and would both become Mr."""
    titles: dict[str, set[str]] = {}
    for parts in texts:
        for index in range(1, len(parts) - 2, 2):
            if parts[index] in _FEMALE_TITLES:
                titles.setdefault(parts[index + 2], set()).add(parts[index])
    return any(len(found) > 1 for found in titles.values())


def name_conflict(names: Sequence[set[str]], changed: Sequence[bool]) -> bool:
    """True if a text changes and another one has a first name that the first has not: "Jane left", "A woman left"."""
    return any(
        changed[one] and names[other] - names[one]
        for one in range(len(names))
        for other in range(len(names))
        if one != other
    )
