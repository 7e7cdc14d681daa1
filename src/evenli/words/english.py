"""English grammar as far as templates need it: articles, plurals, and slots that remember number and capital letter."""

from __future__ import annotations

import re
from functools import cache

from evenli.words import read_table
from evenli.words.templates import SLOT, any_of

SLOTS = "[Subs]"
"""Where a template takes its word in the plural."""
_ANY_SLOT = re.compile(r"\[\^?Subs?\]")  # a caret marks a slot whose word is capitalised
_ARTICLE = re.compile(r"\b(a)n? (?=\[\^?Sub\])", re.IGNORECASE)


def article(word: str) -> str:
    """``a`` or ``an`` by sound, as far as spelling shows it.

    >>> [article(word) for word in ("auditor", "CEO", "MRI technician", "university clerk", "heir")]
    ['an', 'a', 'an', 'a', 'an']
    """
    first = word.partition(" ")[0]
    if first.isupper() and len(first) > 1:  # letters are read by name: an MRI
        return "an" if first[0] in "AEFHILMNORSX" else "a"
    vowel = r"hour|heir|honest|honou?r|(?!uni[^mn]|us[ei]|eu|ewe|one|once)[aeiou]"
    return "an" if re.match(vowel, first, re.IGNORECASE) else "a"


def with_article(word: str) -> str:
    """A word behind its indefinite article."""
    return f"{article(word)} {word}"


@cache
def _listed_plurals() -> dict[str, str]:
    return {row["occupation"]: row["plural"] for row in read_table("probe_occupations.csv", ("occupation", "plural"))}


def plural(word: str) -> str:
    """A word in the plural: as the list of occupations has it, else by its last letters."""
    if word in _listed_plurals():
        return _listed_plurals()[word]
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + ("es" if re.search(r"(?:s|x|z|ch|sh)$", word) else "s")


def forms(occupation: str) -> dict[str, str]:
    """Every spelling of an occupation to its slot; the released sets also write ``salespersons``."""
    return {occupation: SLOT, occupation + "s": SLOTS, plural(occupation): SLOTS}


def open_slots(text: str, occupation: str) -> str:
    """A text with a plain slot for every mention of the occupation."""
    return any_of(forms(occupation)).sub(SLOT, text)


def open_slot(text: str, match: re.Match[str], occupation: str) -> str:
    """The slot that remembers number and capital letter of a mention."""
    word = " ".join(match.group().split())
    slot = next(slot for form, slot in forms(occupation).items() if form.lower() == word.lower())
    # The capital of an acronym says nothing, unless it opens the sentence.
    capital = word[0].isupper() and (occupation[0].islower() or not re.search(r"\w", text[: match.start()]))
    return slot.replace("[", "[^") if capital else slot


def fill_slots(template: str, occupation: str, *, repair_articles: bool) -> str:
    """Put an occupation into a template; number, capital letter and (if wanted) article are made to agree."""
    # A sentence in capitals stays one.
    shouted = _ANY_SLOT.sub("", template).isupper()

    def word(match: re.Match[str]) -> str:
        text = plural(occupation) if "Subs" in match.group() else occupation
        text = text[0].upper() + text[1:] if "^" in match.group() else text
        return text.upper() if shouted else text

    if repair_articles:
        n = article(occupation)[1:]
        template = _ARTICLE.sub(lambda match: f"{match[1]}{n.upper() if shouted else n} ", template)
    return _ANY_SLOT.sub(word, template)


def cluster_key(template: str) -> str:
    """The template as a cluster key: one name for the slot, and one article whatever the occupation was."""
    return _ANY_SLOT.sub(SLOT, _ARTICLE.sub(r"\1 ", template))
