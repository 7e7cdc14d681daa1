"""English as far as templates and sentences need it.

Plurals, slots that remember number and capital letter; whether texts are English, whether they name a person.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cache

from evenli.words import read_table, word_classes
from evenli.words.lists import name_kinds, name_ranks
from evenli.words.templates import SLOT, article

SLOTS = "[Subs]"
"""Where a template takes its word in the plural."""
_ANY_SLOT = re.compile(r"\[\^?Subs?\]")  # a caret marks a slot whose word is capitalised
_ARTICLE = re.compile(r"\b(a)n? (?=\[\^?Sub\])", re.IGNORECASE)
WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_TELLING_VOCABULARY = 5000  # shows which words a corpus never writes in lower case
# English text has at least this share of function words and at most this share of letters beyond ASCII.
_FEW_WORDS, _LEAST_ENGLISH, _MOST_FOREIGN = 40, 0.15, 0.1
_COMMON_NAMES = 300  # ranks of first names that are also looked for in lower case


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


def open_slot(match: re.Match[str], occupation: str) -> str:
    """The slot that remembers number and capital letter of a mention."""
    word = " ".join(match.group().split())
    slot = next(slot for form, slot in forms(occupation).items() if form.lower() == word.lower())
    # The capital of an acronym says nothing, unless it opens the sentence.
    capital = word[0].isupper() and (occupation[0].islower() or not re.search(r"\w", match.string[: match.start()]))
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


def word_class(role: str) -> frozenset[str]:
    """The words of one role in ``probe_words.csv``."""
    return word_classes("probe_words.csv", "role")[role]


def looks_english(sentences: Sequence[str]) -> bool:
    """Whether sentences are English, judged by their letters and by the share of English function words.

    Fewer than 40 words are too little to judge by function words.

    >>> looks_english(["The nurse is at work."]), looks_english(["护士在工作。"])
    (True, False)
    """
    words = [word.lower() for sentence in sentences for word in WORD.findall(sentence)]
    letters = "".join(words)
    if sum(not letter.isascii() for letter in letters) > _MOST_FOREIGN * len(letters):
        return False
    known = sum(word in word_class("function") for word in words)
    return len(words) < _FEW_WORDS or known >= _LEAST_ENGLISH * len(words)


def names_person(sentence: str, vocabulary: Collection[str] = ()) -> bool:
    """Whether a sentence seems to name a person or a place, by capital letters alone.

    Inside a sentence every capitalised word counts, except occupations, acronyms, I, weekdays and months. The first
    word counts if the corpus never writes it in lower case (``vocabulary``) and it is a given name, a singular verb
    follows, or the vocabulary is large. In lower case a given name counts if it is no English word. The rule is strict:
    a false alarm costs a sentence, a name reveals a gender.

    >>> names_person("The nurse met Anna."), names_person("Anna is a nurse."), names_person("The CEO rests on Monday.")
    (True, True, False)
    >>> names_person("the nurse met anna."), names_person("will the nurse rest?")
    (True, False)
    """
    words = WORD.findall(sentence)
    for position, full in enumerate(words):
        word = re.sub(r"['’]\w+$", "", full)
        acronym = word.isupper() and len(word) > 1
        if word in _lower_names():
            return True
        if not word[0].isupper() or acronym or word.lower() in _common_words():
            continue
        if position:
            return True
        verb = len(words) > 1 and words[1].lower() in word_class("singular") and not word.endswith("ing")
        telling = verb or word in name_ranks() or len(vocabulary) >= _TELLING_VOCABULARY
        if telling and word.lower() not in vocabulary:
            return True
    return False


@cache
def _lower_names() -> frozenset[str]:
    """Common first names in lower case that are no words and no surnames: *john*, but not *will* or *hope*."""
    common = (name for name, rank in name_ranks().items() if rank <= _COMMON_NAMES and len(name) > 3)
    return frozenset(name.lower() for name in common if name not in name_kinds()) - _common_words()


@cache
def _common_words() -> frozenset[str]:
    """Lower-case words that are no names although they may be capitalised."""
    occupations = {part for name in _listed_plurals() for form in forms(name) for part in form.lower().split()}
    roles = ("calendar", "function", "determiner", "follower", "pronoun")
    return frozenset(occupations).union(*map(word_class, roles))
