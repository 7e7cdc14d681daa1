"""The word classes that decide what *her* and *his* are; the words stand in ``pronoun_words.csv``.

The functions say of what kind an open-class word is, by its class or its ending. Words are in lower case.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache

from evenli.resources import read_table


def word_set(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


@cache
def _classes() -> dict[str, frozenset[str]]:
    words = defaultdict(set)
    for row in read_table("pronoun_words.csv", ("class", "word")):
        words[row["class"]].add(row["word"])
    return {name: frozenset(members) for name, members in words.items()}


def word_class(name: str) -> frozenset[str]:
    """The words of one class of ``pronoun_words.csv``."""
    return _classes()[name]


def _third_person(verb: str) -> str:
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        return verb + "es"
    return verb[:-1] + "ies" if verb.endswith("y") and verb[-2] not in "aeiou" else verb + "s"


# Closed classes. Words of BEFORE_NOUNS may stand inside a noun group all the same: "her once famous uncle".
DETERMINERS = word_class("determiner")
AUXILIARIES = word_class("auxiliary")
PREPOSITIONS = word_class("preposition")
CONJUNCTIONS = word_class("conjunction")
NEXT_PHRASE = DETERMINERS | word_class("pronoun")
FUNCTION = NEXT_PHRASE | AUXILIARIES | PREPOSITIONS | CONJUNCTIONS | word_class("adverb")
BEFORE_NOUNS = word_class("before_noun")

# Time and number.
DATES = word_class("date")
TIME_NOUNS = DATES | word_class("time_noun")
NUMBERS = word_class("number")

# Verbs. Of the words that are noun and verb, those of NOUN_FIRST are mostly nouns behind *her*.
NOUN_VERBS = word_class("noun_verb")
NOUN_FIRST = word_class("noun_first")
VERBS = NOUN_VERBS | word_class("pure_verb")
NOUN_FINITE = frozenset(map(_third_person, NOUN_VERBS))
PURE_FINITE = frozenset(map(_third_person, VERBS)) - NOUN_FINITE
PAST = word_class("past")
ING_NOUNS = word_class("ing_noun")
GERUND_NOUNS = word_class("gerund_noun")

# Verbs by what may follow them: an infinitive, a participle, a place, two objects.
LET = word_class("let")
MAKE = word_class("make")
PERCEIVE = word_class("perceive")
GIVE = word_class("give")
GIVE_OR_BRING = GIVE | word_class("bring")
RECIPIENTS = word_class("recipient")

_ADJECTIVE_ENDINGS = ("ful", "ous", "less")
MODIFIER_ENDINGS = ("y", "ed", "ing", "ic", "al", "ive", "en", "ant", "ent", "ue", "ite", "ark", *_ADJECTIVE_ENDINGS)


def is_recipient(word: str) -> bool:
    """True for a person or animal that can be given something, also in the plural."""
    return word in RECIPIENTS or (word.endswith("s") and word[:-1] in RECIPIENTS)


def is_adverb(word: str) -> bool:
    """True for a word on -ly that is not known as adjective, noun or name."""
    return len(word) > 4 and word.endswith("ly") and word not in word_class("ly_not_adverb")


def is_participle(word: str) -> bool:
    """True for a past participle: on -ed unless known as a noun, or irregular."""
    regular = len(word) > 3 and word.endswith("ed") and word not in word_class("ed_noun")
    return regular or word in word_class("participle")


def is_finite(word: str) -> bool:
    """True for a verb in the past or in the third person that is not also a plural noun."""
    return word in PAST or word in PURE_FINITE


def is_adjective(word: str) -> bool:
    """True for a listed adjective or one with an ending that hardly any noun has."""
    return word in word_class("adjective") or (len(word) > 5 and word.endswith(_ADJECTIVE_ENDINGS))


def is_modifier(word: str) -> bool:
    """True for what may stand between a possessive and its noun."""
    return is_adjective(word) or is_participle(word) or is_adverb(word)
