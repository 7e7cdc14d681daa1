"""Exchange the genders of an English text: words, titles, pronouns and first names.

Three ways of doing it, for three purposes:

``default``
    Ours. All words change sides at once, so "a man and a woman" becomes "a woman and a man". Everything that
    is not a gendered word stays byte for byte, case is kept, and *her* and *his* are decided by context
    (``evenli.mitigate.pronouns``).
``paper``
    Dolci et al. 2023: exact tokens in lower case or capitalised, 122 words, *her* always becomes *him*.
``released``
    Sharma et al. 2021, as their notebook does it: the text is lower-cased and 19 arrows are applied one after
    the other. An arrow is skipped if its target was itself replaced before, so a sentence that names both
    genders collapses: "a man and a woman" becomes "a woman and a woman". Chains happen too: *guys* becomes
    *girls* and that *boys*. For replication only.
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
from evenli.mitigate.pronoun_words import word_set
from evenli.mitigate.pronouns import her_is_possessive, his_is_determiner
from evenli.resources import read_table
from evenli.resources.names import name_kinds

Mode = Literal["default", "paper", "released"]

# One group: split() gives separator, word, separator, word, ..., separator, and their join is the text.
_WORDS = re.compile(r"(\w+(?:['’]am\b)?)")
# word_tokenize keeps inner hyphens, slashes and dots, and cuts off clitics such as 's and 'll.
_TOKENS = re.compile(r"(\w+(?:[-/.]\w+)*)")

_SENTENCE_END = re.compile(r"[.!?:;…\n\"“”‘]")
_TITLES = word_set(
    "Mr Mrs Ms Miss Dr Prof Professor Judge Senator President Mayor Governor Minister Chancellor Secretary Detective"
    " Inspector Officer Sergeant Colonel Representative"
)
_SMALL_WORDS = word_set(
    "A An The This That When While If As And But Or For With Of I To In On At By Is Was Did Does Do Can Will So No Yes"
)
_PLACE_HEADS = word_set(
    "San Santa Santo St Saint Fort Port New Mount Mt Lake Cape Los Las El North South East West Camp Hotel"
)
_PLACE_TAILS = word_set(
    "Street Avenue Road River Lake Park Bridge University College Hospital Church County City Island Islands Airport"
    " Stadium Center Centre Beach Square Day Hall House Hotel Museum School Inc Corp Company Wheel"
)
_BEFORE_PLACES = word_set("in from to at near of into through across around outside toward")
_BEFORE_TIMES = word_set(
    "in of on by since until till last next this every each early late mid from to through during before after between"
)


class Change(NamedTuple):
    """One replaced word: where it starts, what stood there, what stands there now."""

    start: int
    word: str
    replacement: str


class Swapper:
    """Swap the genders of English texts; ``swapper(text)`` returns the swapped text.

    In the default mode the rules beyond the word list are: *her* is *his* before a noun group and *him*
    elsewhere, *his* is *her* before a noun group and *hers* elsewhere; *Ms* and *Miss* become *Mr*; a first
    name takes the name of the same rank of the other list. A capitalised name is left alone where it is not
    a first name: behind another name or a title (a surname), behind an article, in the name of a place
    ("St. Mary", "Jackson Street"), or, for the names in ``swap_name_words.csv``, at the start of a sentence
    (Will, Rose, Mark) and behind a preposition (in May, from Jordan).

    Swapping twice gives the original where the words map one to one (99.9 % of SNLI sentences). It does not for
    *Ms*, *Miss* and the other one-way rows of ``swap_words.csv``, where *her* is misread, and where a name
    meets a partner that is also a word or a place (Sandra becomes Mark, Grace becomes Christian).

    Args:
        mode: ``default``, ``paper`` or ``released``, see the module's text.
        names: Swap first names too; ``released`` never does.

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
            self._ordered = _sharma_arrows()
        elif mode == "paper":
            self._split = _TOKENS.split
            self._arrows = _paper_arrows()
            # The tokeniser keeps "Mr." as one token, which the list does not have.
            self._decide = dict.fromkeys(("mr", "Mr", "mrs", "Mrs"), _unless_dotted)
        else:
            self._split = _WORDS.split
            self._arrows, self._decide = _default_arrows()
        if names and mode != "released":
            pairs = _name_pairs()
            if mode == "default":
                self._decide = {**self._decide, **dict.fromkeys(pairs, _if_first_name)}
                pairs = {name: other for name, other in pairs.items() if _NEVER not in name_kinds().get(name, ())}
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
        arrows = self._arrows
        hits = [index for index in range(1, len(parts), 2) if parts[index] in arrows]
        if not hits:
            return []
        found = []
        for index in hits:
            word = parts[index]
            decide = self._decide.get(word)
            replacement = arrows[word] if decide is None else decide(parts, index, arrows[word])
            if replacement is not None:
                found.append((index, replacement))
        return found

    def _released(self, text: str) -> str:
        text = text.lower()
        replaced: set[str] = set()
        words = set(self._split(text)[1::2])
        for word, target in self._ordered.items():
            if target in replaced or word not in words:
                continue
            text = re.sub(rf"\b{word}\b", target, text)
            replaced.add(word)
            words.discard(word)
            words.add(target)
        return text


_Decision = Callable[[Sequence[str], int, str], "str | None"]
_NEVER = "never"


def _swap_chunk(mode: Mode, names: bool, texts: list[str]) -> list[str]:
    swapper = _cached_swapper(mode, names)
    return [swapper(text) for text in texts]


@lru_cache(maxsize=4)
def _cached_swapper(mode: Mode, names: bool) -> Swapper:
    return Swapper(mode, names)


def _forms(word: str) -> tuple[str, str, str]:
    return word, word[:1].upper() + word[1:], word.upper()


@lru_cache(maxsize=1)
def _name_pairs() -> dict[str, str]:
    rows = read_table("swap_names.csv", ("male", "female"))
    return {**{row["male"]: row["female"] for row in rows}, **{row["female"]: row["male"] for row in rows}}


def _sharma_arrows() -> dict[str, str]:
    return {row["word"]: row["replacement"] for row in read_table("swap_sharma.csv", ("word", "replacement"))}


def _word_arrows(lists: set[str]) -> dict[str, str]:
    arrows: dict[str, str] = {}
    for row in read_table("swap_words.csv", ("male", "female", "ways", "list")):
        if row["list"] not in lists:
            continue
        if row["ways"] in {"both", "to_female"}:
            arrows[row["male"]] = row["female"]  # the one-way his -> her stands behind his -> hers and wins
        if row["ways"] in {"both", "to_male"}:
            arrows[row["female"]] = row["male"]
    return arrows


def _paper_arrows() -> dict[str, str]:
    arrows = _word_arrows({"dolci"})
    return {
        form: other
        for word, target in arrows.items()
        for form, other in zip(_forms(word)[:2], _forms(target)[:2], strict=True)
    }


def _default_arrows() -> tuple[dict[str, str], dict[str, _Decision]]:
    arrows: dict[str, str] = {}
    for word, target in _word_arrows({"dolci", "evenli"}).items():
        for form, other in zip(_forms(word), _forms(target), strict=True):
            arrows.setdefault(form, other)
    # Abbreviations of states, illnesses and units.
    for form in ("PA", "MA", "MS", "ms", "miss", "MISS"):
        arrows.pop(form, None)
    arrows["Ma’am"], arrows["ma’am"] = "Sir", "sir"
    decide: dict[str, _Decision] = dict.fromkeys(_forms("her"), _her)
    decide |= dict.fromkeys(_forms("his"), _his)
    decide |= dict.fromkeys(("King", "Queen", "Prince", "Guy", "Abbot", "Duke", "Monk"), _unless_surname)
    decide |= dict.fromkeys(("groom", "grooms"), _unless_verb)
    decide |= dict.fromkeys(("Miss", "Ms"), _if_title)
    return arrows, decide


def _like(word: str, pattern: str) -> str:
    """``word`` in the case of ``pattern``."""
    if pattern.isupper():
        return word.upper()
    return word.capitalize() if pattern[0].isupper() else word


def _her(parts: Sequence[str], index: int, _: str) -> str:
    return _like("his" if her_is_possessive(parts, index) else "him", parts[index])


def _his(parts: Sequence[str], index: int, _: str) -> str:
    return _like("her" if his_is_determiner(parts, index) else "hers", parts[index])


def _unless_dotted(parts: Sequence[str], index: int, target: str) -> str | None:
    return None if parts[index + 1].startswith(".") else target


def _if_title(parts: Sequence[str], index: int, target: str) -> str | None:
    following = parts[index + 2] if index + 2 < len(parts) else ""
    return target if parts[index + 1] in {" ", ".", ". "} and following[:1].isupper() else None  # but M&Ms


def _unless_verb(parts: Sequence[str], index: int, target: str) -> str | None:
    previous = parts[index - 2].lower() if index > 1 else ""
    following = parts[index + 2].lower() if index + 2 < len(parts) and parts[index + 1] == " " else ""
    verbal = previous in {"to", "who", "and", "he", "she"} and following in {
        "a",
        "an",
        "the",
        "his",
        "her",
        "their",
        "its",
    }
    return None if verbal else target


def _unless_surname(parts: Sequence[str], index: int, target: str) -> str | None:
    return None if index > 1 and parts[index - 1] == " " and parts[index - 2] in _name_pairs() else target


def _starts_sentence(parts: Sequence[str], index: int) -> bool:
    if index == 1:
        return True
    gap, previous = parts[index - 1], parts[index - 2]
    abbreviated = previous in _TITLES or previous in _PLACE_HEADS or (len(previous) == 1 and previous.isupper())
    if gap.startswith(".") and abbreviated:
        return False
    return _SENTENCE_END.search(gap) is not None


def _if_first_name(parts: Sequence[str], index: int, target: str) -> str | None:
    """The partner of a name, or None where the capitalised word is not a first name."""
    name = parts[index]
    previous = parts[index - 2] if index > 1 else ""
    following = parts[index + 2] if index + 2 < len(parts) else ""
    adjoins = parts[index + 1] == " " and following[:1].isupper() and following[1:].islower()
    if adjoins and following in _PLACE_TAILS:
        return None
    if parts[index + 1] in {"'", "’"} and following == "t":  # Don't
        return None
    starts = _starts_sentence(parts, index)
    gap = parts[index - 1].strip()
    if not starts and gap in {"", "."}:
        if previous in _PLACE_HEADS or previous.lower() in {"a", "an", "the"}:
            return None
        if previous in _TITLES:
            return target if adjoins else None
        if gap == "" and _is_name_like(parts, index - 2):
            return None
    kinds = name_kinds().get(name)
    if kinds:
        lower = previous.lower() if not starts and gap == "" else ""
        if "word" in kinds and starts:
            return None
        if "place" in kinds and lower in _BEFORE_PLACES:
            return None
        if "time" in kinds and (lower in _BEFORE_TIMES or following.isdigit()):
            return None
    return target


def _is_name_like(parts: Sequence[str], index: int) -> bool:
    """True if the word is a first name, or capitalised for no other reason than being a name."""
    word = parts[index]
    if not (word[:1].isupper() and word[1:].islower()) or word.lower() in _default_words():
        return False
    return word in _name_pairs() or (word not in _SMALL_WORDS and not _starts_sentence(parts, index))


@lru_cache(maxsize=1)
def _default_words() -> frozenset[str]:
    return frozenset(_word_arrows({"dolci", "evenli"}))
