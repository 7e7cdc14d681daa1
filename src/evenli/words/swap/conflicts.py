"""Texts whose genders cannot be exchanged without saying something else: bodies, titles of people, labels.

"A man with a beard", "a pregnant woman" and "Queen Victoria" are left as they are and counted, unless the user asks
for the swap all the same. A pair with such a text gets no copy: swapping one half would change its label.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise, permutations

from evenli.words import read_table
from evenli.words.lists import sides
from evenli.words.swap.names import Text, is_capitalised, name_pairs, word_at
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
_TITLES = _NAMED | _CIVIL  # gendered titles that stand before a name


@cache
def bodies(lang: str) -> dict[str, str]:
    """Words that say a gender by body or role, with that gender."""
    rows = [row for row in read_table("swap_conflicts.csv", ("word", "gender", "lang")) if row["lang"] == lang]
    return {form: row["gender"] for row in rows for form in (row["word"], row["word"].capitalize())}


def conflict_of(document: Sequence[Text], lang: str, *, names: bool) -> str:
    """The key of the reason why a document cannot be swapped, or nothing; ``names`` says that first names change."""
    if _body_conflict(document, lang):
        return BODY
    if lang != "en":
        return ""
    renamed = {name for text in document for name in text.names if names}
    # Also titles without a partner (Lady, Father): the person's other words must not change.
    if any(_title_conflict(text.parts, i, renamed) for text in document for i, word in text.words if word in _TITLES):
        return TITLE
    # Two of Mrs, Ms and Miss before the same name would both become Mr.
    pairs = (pair for text in document for pair in pairwise(text.parts[1::2]))
    titled = {(title, name) for title, name in pairs if title in _FEMALE_TITLES}
    if len(titled) > len({name for _, name in titled}):
        return COLLAPSE
    return NAME if not names and _name_conflict(document) else _uneven(document)


def _body_conflict(document: Sequence[Text], lang: str) -> bool:
    """True if a text has a bodily word of the gender of a word that changes."""
    listed = bodies(lang)
    if lang == "en":
        said = {word for text in document for word in text.parts[1::2]}
        # "Giving birth", which only the two words together say.
        pairs = (pair for text in document if "birth" in text.parts for pair in pairwise(text.parts[1::2]))
        said |= {f"{word} birth".lower() for word, other in pairs if other == "birth"}
        stated = {listed[word] for word in said & listed.keys()}
    else:
        wholes = ["".join(text.parts) for text in document]
        stated = {gender for word, gender in listed.items() if any(word in whole for whole in wholes)}
    if not stated:
        return False
    # First names, and spellings that no table has, could be of either gender.
    gender_of = sides(f"swap_words_{lang}.csv")
    genders = {gender_of.get(word.lower(), "either") for text in document for _, word, _ in text.changed_words}
    return bool(stated & genders) or "either" in genders


def _title_conflict(parts: Sequence[str], index: int, renamed: set[str]) -> bool:
    """True if the word is a gendered title before a name that stays: "Queen Victoria", "Mr. John Hill"."""
    word, following = parts[index], word_at(parts, index + 2)
    if parts[index + 1] not in {" ", ". ", " . "} or not is_capitalised(following) or following in renamed:
        return False
    if following in words.place_tail or following in context["place_tail"]:
        return False  # "Duke University", "King Street"
    return word in _NAMED or (following in name_pairs() and is_capitalised(word_at(parts, index + 4)))


def _name_conflict(document: Sequence[Text]) -> bool:
    """True if a name stays and another text states the gender of whoever bears it.

    So it is where a text changes and another one has a first name that the first has not ("Jane left", "A woman left"),
    and where the first text has names and no gender word while another one has a noun ("Jane is a woman").
    """
    if any(text.changes and other.names - text.names for text, other in permutations(document, 2)):
        return True
    first, *rest = document
    if first.changes:
        return False
    others = [(word, word_at(text.parts, index + 2)) for text in rest for index, word, _ in text.changed_words]
    titled = {following for word, following in others if word in _CIVIL}
    # Capitalised words behind a capitalised word, such as a first name that no list has: "Gerhard Schroeder".
    behind = zip(first.parts[1::2], first.parts[2::2], first.parts[3::2], strict=False)
    if any(
        gap == " " and surname in titled and is_capitalised(surname) and is_capitalised(word)
        for word, gap, surname in behind
    ):
        return True
    nouns = [word for word, _ in others if word.lower() not in context["title_or_pronoun"]]
    return bool(nouns) and any(word in name_pairs() for _, word in first.words)


def _uneven(document: Sequence[Text]) -> str:
    """COLLAPSE or UNEVEN if a word that stays is, in another text, one that changes or what one changes to.

    "The actress sang" and "The actor sang" would become one; "Best Actress" is a prize that stays.
    """
    sets = []
    for text in document:
        changed = {index for index, _, _ in text.changed_words}
        stays = {word.lower() for index, word in text.words if index not in changed}
        goes = {word.lower() for _, word, _ in text.changed_words}
        sets.append((stays, goes, {new.lower() for _, _, new in text.changed_words}))
    # Each text is compared with each other one, in both directions.
    for (_, goes, comes), (stays, others, _) in permutations(sets, 2):
        if comes & stays:
            return COLLAPSE
        if goes & (stays - others):
            return UNEVEN
    return ""
