"""Texts whose genders cannot be exchanged without saying something else: bodies, titles of people, labels.

"A man with a beard", "a pregnant woman" and "Queen Victoria" are left as they are and counted, unless the user asks
for the swap all the same. A pair with such a text gets no copy: swapping one half would change its label.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise, permutations

from evenli.words import read_table
from evenli.words.lists import sides
from evenli.words.swap.names import is_capitalised, name_pairs, word_at
from evenli.words.swap.pronoun_case import context, words

BODY, TITLE, NAME, COLLAPSE = "body", "title", "name", "collapse"
UNEVEN, LANGUAGE = "uneven", "language"
REASONS = {
    BODY: "a body or role that only one gender has (pregnant, beard, ballerina)",
    TITLE: "a title of a named person (Queen Victoria, Sir Edmund, Father Brown)",
    NAME: "a first name stays that the other text of the pair speaks of as a man or a woman",
    COLLAPSE: "two words of the pair would become one (Ms. and Mrs., actress and actor)",
    UNEVEN: "a word changes in one text of the pair and is a name or a compound in the other",
    LANGUAGE: "another language",
}
"""Why a text has no swapped copy, for people."""

_NAMED = context["person_title"]
_FEMALE_TITLES = frozenset({"Mrs", "Ms", "Miss"})
_CIVIL = _FEMALE_TITLES | {"Mr"}
TITLES = _NAMED | _CIVIL  # gendered titles that stand before a name
_TITLE_OR_PRONOUN = frozenset(
    ["he", "she", "him", "her", "his", "hers", "himself", "herself", "mr", "mrs", "ms", "miss", "sir", "madam"]
)
Changes = Sequence[tuple[int, str]]  # place and new word of everything that changes in one text


@cache
def bodies(lang: str) -> dict[str, str]:
    """Words that say a gender by body or role, with that gender."""
    rows = [row for row in read_table("swap_conflicts.csv", ("word", "gender", "lang")) if row["lang"] == lang]
    return {form: row["gender"] for row in rows for form in (row["word"], row["word"].capitalize())}


def _words_and_pairs(parts: Sequence[str]) -> Iterator[str]:
    """Every word, and "giving birth", which only the two words together say."""
    yield from parts[1::2]
    if "birth" in parts:
        yield from (f"{word} birth".lower() for word, other in pairwise(parts[1::2]) if other == "birth")


def body_conflict(texts: Sequence[Sequence[str]], changed: Iterable[str], lang: str) -> bool:
    """True if a text has a bodily word of the gender of a word that changes."""
    listed = bodies(lang)
    if lang == "en":
        stated = {listed[word] for parts in texts for word in _words_and_pairs(parts) if word in listed}
    else:
        wholes = ["".join(parts) for parts in texts]
        stated = {gender for word, gender in listed.items() if any(word in whole for whole in wholes)}
    if not stated:
        return False
    # First names, and spellings that no table has, could be of either gender.
    gender_of = sides("swap_words.csv" if lang == "en" else f"swap_words_{lang}.csv")
    genders = {gender_of.get(word.lower(), "either") for word in changed}
    return bool(stated & genders) or "either" in genders


def title_conflict(parts: Sequence[str], index: int, renamed: set[str]) -> bool:
    """True if the word is a gendered title before a name that stays: "Queen Victoria", "Mr. John Hill"."""
    word, following = parts[index], word_at(parts, index + 2)
    if parts[index + 1] not in {" ", ". ", " . "} or not is_capitalised(following) or following in renamed:
        return False
    if following in words.place_tail or following in context["place_tail"]:
        return False  # "Duke University", "King Street"
    return word in _NAMED or (following in name_pairs() and is_capitalised(word_at(parts, index + 4)))


def titles_collapse(texts: Sequence[Sequence[str]]) -> bool:
    """True if two of Mrs, Ms and Miss stand before the same name and would both become Mr."""
    pairs = (pair for parts in texts for pair in pairwise(parts[1::2]))
    titled = {(title, name) for title, name in pairs if title in _FEMALE_TITLES}
    return len(titled) > len({name for _, name in titled})


def name_conflict(names: Sequence[set[str]], texts: Sequence[Sequence[str]], changes: Sequence[Changes]) -> bool:
    """True if a name stays and another text states the gender of whoever bears it.

    So it is where a text changes and another one has a first name that the first has not ("Jane left", "A woman left"),
    and where the first text has names and no gender word while another one has a noun ("Jane is a woman").
    """
    if any(changes[text] and names[other] - names[text] for text, other in permutations(range(len(names)), 2)):
        return True
    if changes[0]:
        return False
    first, *rest = texts
    others = [(parts, i) for parts, changed in zip(rest, changes[1:], strict=True) for i, _ in changed if i % 2]
    titled = {word_at(parts, index + 2) for parts, index in others if parts[index] in _CIVIL}
    # Capitalised words behind a capitalised word, such as a first name that no list has: "Gerhard Schroeder".
    behind = zip(first[1::2], first[2::2], first[3::2], strict=False)
    if any(
        gap == " " and surname in titled and is_capitalised(surname) and is_capitalised(word)
        for word, gap, surname in behind
    ):
        return True
    return any(word in name_pairs() for word in first[1::2]) and any(
        parts[index].lower() not in _TITLE_OR_PRONOUN for parts, index in others
    )


def uneven(texts: Sequence[Sequence[str]], changes: Sequence[Changes]) -> str:
    """COLLAPSE or UNEVEN if a word that stays is, in another text, one that changes or what one changes to.

    "The actress sang" and "The actor sang" would become one; "Best Actress" is a prize that stays.
    """
    stays, goes, comes = [], [], []
    for parts, changed in zip(texts, changes, strict=True):
        places = {index: new.lower() for index, new in changed if index % 2}
        stays.append({parts[index].lower() for index in range(1, len(parts), 2) if index not in places})
        goes.append({parts[index].lower() for index in places})
        comes.append(set(places.values()))
    # Each text is compared with each other one, in both directions.
    for text, other in permutations(range(len(texts)), 2):
        if comes[text] & stays[other]:
            return COLLAPSE
        if goes[text] & (stays[other] - goes[other]):
            return UNEVEN
    return ""
