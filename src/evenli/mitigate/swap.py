"""Exchange the genders of an English text: words, titles, pronouns and first names.

Three ways of doing it, for three purposes:

``default``
    Ours. All words change at once: "a man and a woman" becomes "a woman and a man". All other bytes stay, case is
    kept, and context decides *her* and *his* (``evenli.mitigate.pronouns``).
``paper``
    Dolci et al. 2023: exact tokens in lower case or capitalised, 122 words, *her* always becomes *him*.
``released``
    Sharma et al. 2021, as their notebook does it, for replication only: lower case, 19 replacements one after the
    other, each skipped if its target was itself replaced. So "a man and a woman" becomes "a woman and a woman", and
    *guys* becomes *girls* and then *boys*.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from itertools import chain
from multiprocessing import get_context
from typing import Literal, NamedTuple, get_args

from evenli.errors import InputError
from evenli.mitigate.pronouns import her_is_possessive, his_is_determiner, words
from evenli.resources import read_table
from evenli.resources.words import name_kinds

Mode = Literal["default", "paper", "released"]

# One group: split() gives separator, word, separator, word, ..., separator, and their join is the text.
_WORDS = re.compile(r"(\w+(?:['’]am\b)?)")
# word_tokenize keeps inner hyphens, slashes and dots, and cuts off clitics such as 's and 'll.
_TOKENS = re.compile(r"(\w+(?:[-/.]\w+)*)")

_SENTENCE_END = re.compile(r"[.!?:;…\n\"“”‘]")
_DEFAULT_LISTS = {"dolci", "evenli"}
# Given the split text, the place of a word and its listed partner: the replacement, or None to leave the word alone.
_Decision = Callable[[Sequence[str], int, str], "str | None"]


class Change(NamedTuple):
    """One replaced word: where it starts, what stood there, what stands there now."""

    start: int
    word: str
    replacement: str


class Swapper:
    """Swap the genders of English texts; ``swapper(text)`` returns the swapped text.

    Beyond the word list, the default mode has these rules. Before a noun group *her* becomes *his* and *his* becomes
    *her*; elsewhere *him* and *hers*. *Ms* and *Miss* become *Mr*. A first name becomes the name of the same rank of
    the other gender, unless it is a surname (behind a name or title), stands behind an article, is part of a place
    ("St. Mary", "Jackson Street") or may be another word (``swap_name_words.csv``: "Will you", "in May").

    Swapping twice gives the original for 99.9 % of SNLI sentences. Exceptions: one-way rows of ``swap_words.csv`` such
    as *Ms*, a misread *her*, and names whose partner is also a word or place (Sandra becomes Mark).

    The module describes the modes. ``names`` swaps first names too; ``released`` never does.

    >>> Swapper()("Mr. Hill told Mary that the policewoman's dog bit him and her sister.")
    "Mrs. Hill told James that the policeman's dog bit her and his brother."
    >>> Swapper("released")("A man and a woman")
    'a woman and a woman'
    """

    def __init__(self, mode: Mode = "default", names: bool = True) -> None:
        if mode not in get_args(Mode):
            raise InputError(f"swap mode '{mode}' is unknown; choose {', '.join(get_args(Mode))}")
        self.mode: Mode = mode
        self.names = names
        self._arrows: dict[str, str] = {}
        self._decide: dict[str, _Decision] = {}
        if mode == "released":
            self._split: Callable[[str], list[str]] = _WORDS.split
            rows = read_table("swap_sharma.csv", ("word", "replacement"))
            self._ordered = {row["word"]: row["replacement"] for row in rows}
        elif mode == "paper":
            self._split = _TOKENS.split
            self._arrows = _in_cases(_word_arrows({"dolci"}), _CASES[:2])
            # The tokeniser keeps "Mr." as one token, which the list does not have.
            self._decide = dict.fromkeys(("mr", "Mr", "mrs", "Mrs"), _unless_dotted)
        else:
            self._split = _WORDS.split
            self._arrows, self._decide = _default_arrows()
        if names and mode != "released":
            pairs = _name_pairs()
            if mode == "default":
                self._decide = {**self._decide, **dict.fromkeys(pairs, _if_first_name)}
                pairs = {name: other for name, other in pairs.items() if "never" not in name_kinds().get(name, ())}
            self._arrows = {**pairs, **self._arrows}

    def __call__(self, text: str) -> str:
        """The text with the genders exchanged."""
        if self.mode == "released":
            return self._released(text)
        parts = self._split(text)
        changes = self._changes(parts)
        if not changes:
            return text
        for index, replacement in changes:
            parts[index] = replacement
        return "".join(parts)

    def swap_all(self, texts: Iterable[str], workers: int = 1) -> list[str]:
        """Swap many texts, in order; with ``workers`` > 1 in that many new processes.

        One process handles some 250,000 captions a second, so more of them pay off from millions of texts on.
        """
        if workers < 1:
            raise InputError(f"workers must be 1 or more, not {workers}")
        texts = list(texts)
        if workers == 1 or len(texts) < 2 * workers:
            return [self(text) for text in texts]
        size = max(1, min(20_000, -(-len(texts) // (2 * workers))))
        chunks = [texts[start : start + size] for start in range(0, len(texts), size)]
        job = partial(_swap_chunk, self.mode, self.names)
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            return list(chain.from_iterable(pool.map(job, chunks)))

    def gendered(self, text: str) -> bool:
        """True if the text has a word that this swapper replaces."""
        if self.mode == "released":
            return not self._ordered.keys().isdisjoint(self._split(text.lower())[1::2])
        return bool(self._changes(self._split(text)))

    def explain(self, text: str) -> list[Change]:
        """What is replaced and where; ``released`` compares the lower-cased text before and after all arrows."""
        parts = self._split(text.lower() if self.mode == "released" else text)
        if self.mode == "released":
            after = self._split(self._released(text))
            changes = [(i, after[i]) for i in range(1, len(parts), 2) if parts[i] != after[i]]
        else:
            changes = self._changes(parts)
        starts = [0]
        for part in parts:
            starts.append(starts[-1] + len(part))
        return [Change(starts[index], parts[index], replacement) for index, replacement in changes]

    def _changes(self, parts: list[str]) -> list[tuple[int, str]]:
        """Index and replacement of every word that changes."""
        arrows = self._arrows
        changes = []
        # Most texts have no gendered word, so the filter comes first, in a comprehension.
        for index in [index for index in range(1, len(parts), 2) if parts[index] in arrows]:
            word = parts[index]
            decide = self._decide.get(word)
            replacement = arrows[word] if decide is None else decide(parts, index, arrows[word])
            if replacement is not None:
                changes.append((index, replacement))
        return changes

    def _released(self, text: str) -> str:
        text = text.lower()
        replaced: set[str] = set()
        present = set(self._split(text)[1::2])
        for word, target in self._ordered.items():
            if target not in replaced and word in present:
                text = re.sub(rf"\b{word}\b", target, text)
                replaced.add(word)
                present = present - {word} | {target}
        return text


@lru_cache(maxsize=1)
def _name_pairs() -> dict[str, str]:
    rows = read_table("swap_names.csv", ("male", "female"))
    return {**{row["male"]: row["female"] for row in rows}, **{row["female"]: row["male"] for row in rows}}


def _word_arrows(lists: set[str]) -> dict[str, str]:
    arrows: dict[str, str] = {}
    for row in read_table("swap_words.csv", ("male", "female", "ways", "list")):
        if row["list"] not in lists:
            continue
        # The one-way his -> her stands behind his -> hers in the table and replaces it.
        if row["ways"] in {"both", "to_female"}:
            arrows[row["male"]] = row["female"]
        if row["ways"] in {"both", "to_male"}:
            arrows[row["female"]] = row["male"]
    return arrows


# Lower case, capitalised (str.capitalize would lower the rest), upper case.
_CASES: tuple[Callable[[str], str], ...] = (str, lambda word: word[:1].upper() + word[1:], str.upper)


def _in_cases(arrows: dict[str, str], cases: Sequence[Callable[[str], str]]) -> dict[str, str]:
    return {case(word): case(target) for word, target in arrows.items() for case in cases}


def _default_arrows() -> tuple[dict[str, str], dict[str, _Decision]]:
    arrows = _in_cases(_word_arrows(_DEFAULT_LISTS), _CASES)
    # Abbreviations of states, illnesses and units, and the verb.
    for form in ("PA", "MA", "MS", "ms", "miss", "MISS"):
        arrows.pop(form, None)
    arrows |= {"Ma’am": "Sir", "ma’am": "sir"}
    decide: dict[str, _Decision] = dict.fromkeys(("her", "Her", "HER", "his", "His", "HIS"), _pronoun)
    decide |= dict.fromkeys(("King", "Queen", "Prince", "Guy", "Abbot", "Duke", "Monk"), _unless_surname)
    decide |= {"groom": _unless_verb, "grooms": _unless_verb, "Miss": _if_title, "Ms": _if_title}
    return arrows, decide


def _pronoun(parts: Sequence[str], index: int, _: str) -> str:
    pronoun = parts[index]
    if pronoun.lower() == "her":
        other = "his" if her_is_possessive(parts, index) else "him"
    else:
        other = "her" if his_is_determiner(parts, index) else "hers"
    if pronoun.isupper():
        return other.upper()
    return other.capitalize() if pronoun[0].isupper() else other


def _unless_dotted(parts: Sequence[str], index: int, target: str) -> str | None:
    return None if parts[index + 1].startswith(".") else target


def _if_title(parts: Sequence[str], index: int, target: str) -> str | None:
    # "Ms. Hill", but not "M&Ms are" and "Miss the bus".
    return target if parts[index + 1] in {" ", ".", ". "} and _word_at(parts, index + 2)[:1].isupper() else None


def _unless_verb(parts: Sequence[str], index: int, target: str) -> str | None:
    # "to groom the dog": a subject or "to" before it and an object behind it.
    following = _word_at(parts, index + 2).lower() if parts[index + 1] == " " else ""
    object_follows = following in {"a", "an", "the", "his", "her", "their", "its"}
    verbal = object_follows and _word_at(parts, index - 2).lower() in {"to", "who", "and", "he", "she"}
    return None if verbal else target


def _unless_surname(parts: Sequence[str], index: int, target: str) -> str | None:
    return None if parts[index - 1] == " " and _word_at(parts, index - 2) in _name_pairs() else target


def _word_at(parts: Sequence[str], index: int) -> str:
    return parts[index] if 0 < index < len(parts) else ""


def _starts_sentence(parts: Sequence[str], index: int) -> bool:
    if index == 1:
        return True
    gap, previous = parts[index - 1], parts[index - 2]
    # The full stop of an abbreviation ends no sentence: "Dr. Hill", "St. Mary", "J. Hill".
    abbreviated = previous in words.title or previous in words.place_head or (len(previous) == 1 and previous.isupper())
    return not (gap.startswith(".") and abbreviated) and _SENTENCE_END.search(gap) is not None


def _if_first_name(parts: Sequence[str], index: int, target: str) -> str | None:
    """The partner of a name, or None where the capitalised word is not a first name."""
    previous, following = _word_at(parts, index - 2), _word_at(parts, index + 2)
    adjoins = parts[index + 1] == " " and following[:1].isupper() and following[1:].islower()
    # "Jackson Street", and the Don of "Don't".
    if adjoins and following in words.place_tail:
        return None
    if parts[index + 1] in {"'", "’"} and following == "t":
        return None
    starts = _starts_sentence(parts, index)
    gap = parts[index - 1].strip()
    # Behind an article, a place word, a title or another name it is no first name; "Dr. James Hill" has one.
    if not starts and gap in {"", "."}:
        if previous in words.place_head or previous.lower() in {"a", "an", "the"}:
            return None
        if previous in words.title:
            return target if adjoins else None
        if gap == "" and _is_name_like(parts, index - 2):
            return None
    # Names that are also words ("Will you"), places ("from Jordan") or times ("in May", "May 5").
    kinds = name_kinds().get(parts[index], frozenset())
    lower = previous.lower() if not starts and gap == "" else ""
    other = (
        ("word" in kinds and starts)
        or ("place" in kinds and lower in words.before_place)
        or ("time" in kinds and (lower in words.before_time or following.isdigit()))
    )
    return None if other else target


def _is_name_like(parts: Sequence[str], index: int) -> bool:
    """True if the word is a first name, or capitalised for no other reason than being a name."""
    word = parts[index]
    if not (word[:1].isupper() and word[1:].islower()) or word.lower() in _default_words():
        return False
    return word in _name_pairs() or (word not in words.small_word and not _starts_sentence(parts, index))


@lru_cache(maxsize=1)
def _default_words() -> frozenset[str]:
    return frozenset(_word_arrows(_DEFAULT_LISTS))


@lru_cache(maxsize=4)
def _cached_swapper(mode: Mode, names: bool) -> Swapper:
    return Swapper(mode, names)


def _swap_chunk(mode: Mode, names: bool, texts: list[str]) -> list[str]:
    # A worker gets many chunks; building the tables once for all of them is what the cache is for.
    return list(map(_cached_swapper(mode, names), texts))
