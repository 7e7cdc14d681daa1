"""Words of a sentence, and which of them state a gender.

A sentence is cut at white space first, and no rule looks beyond a piece between two spaces. So the words of a piece
are found once and looked up from then on: a corpus repeats its pieces, and the look-up is faster than any pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import chain

from evenli.core.errors import InputError
from evenli.core.io import hash_text
from evenli.words import read_table, word_classes

_TOKENS = re.compile(
    r"""
    (?:Mr|Mrs|Ms|Dr|St|Jr|Sr|Prof|Gen|Sgt|Lt|Col|Capt|Rev|Hon)\.   # titles keep their full stop
  | (?:[^\W\d_]\.){2,}                             # U.S., p.m.
  | (?i:can(?=not\b) | (?<=can)not\b)              # cannot is two words
  | (?i:\w+?(?=n['’]t\b) | n['’]t\b)               # do n't, ca n't
  | (?i:['’](?:s|m|d|re|ve|ll)\b)                  # woman 's, they 're
  | \d+(?:[.,:/]\d+)+(?!\w)                        # 1,000 and 3:30
  | \w+(?:['’](?!(?:s|m|d|re|ve|ll)\b)[^\W\d_]+)?  # ma'am, o'clock
    (?:[-–](?=\w)\w+)*                             # middle-aged
  | \.{2,} | -{2,} | ``|''
  | \S
    """,
    re.VERBOSE,
)
SENTENCE_ENDS = frozenset({".", "!", "?", "...", "…", ".."})


def cut(piece: str) -> list[str]:
    """The words of a piece between two spaces, as ``split_words`` finds them, but not remembered."""
    # Of letters alone, only "cannot" is more than one word, and most pieces have nothing but letters.
    if piece.isalpha() and (len(piece) != 6 or piece.lower() != "cannot"):
        return [piece]
    return _TOKENS.findall(piece)


_words_of = lru_cache(maxsize=1 << 18)(cut)  # pieces kept; a corpus has far fewer that come back


def split_words(text: str) -> list[str]:
    """The words and punctuation marks of a text, much as the Penn Treebank cuts them; nothing is rewritten.

    Other than there, quotation marks stay as they are, and a full stop ends a word wherever it stands unless the word
    is a title or an abbreviation such as *U.S.*

    >>> split_words("Mr. Hill's 12-year-old doesn't like the U.S., she said.")
    ['Mr.', 'Hill', "'s", '12-year-old', 'does', "n't", 'like', 'the', 'U.S.', ',', 'she', 'said', '.']
    """
    return list(chain.from_iterable(map(_words_of, text.split())))


def is_word(token: str) -> bool:
    """True if the token has a letter; anything else is punctuation or a number."""
    return token.isalpha() or any(map(str.isalpha, token))


def sentence_starts(tokens: Iterable[str], initial: bool = True) -> list[bool]:
    """Which tokens begin a sentence; ``initial`` says that the first one would."""
    starts = []
    for token in tokens:
        counts = any(map(str.isalnum, token))
        starts.append(initial and counts)
        if counts or token in SENTENCE_ENDS:
            initial = not counts
    return starts


class GenderWords:
    """The words that state a gender: their bias is 0, since being gendered is their meaning.

    A token is one of them if the list has it as it stands or in lower case. First names must be capitalised; a name
    that is also a word (Will, Rose, Mark) does not count at the start of a sentence, where any word is capitalised.

    Args:
        words: Words in lower case; None takes ``gender_word_list.csv``.
        names: First names; None takes ``swap_names.csv`` without those that are hardly ever a name in running text.
    """

    def __init__(self, words: Iterable[str] | None = None, names: Iterable[str] | None = None) -> None:
        kinds = name_kinds()
        if isinstance(words, str) or isinstance(names, str):
            raise InputError("gender words and names are lists of words, not one string")
        listed = word_classes("gender_word_list.csv", "group").values()
        self.words = frozenset(words if words is not None else chain.from_iterable(listed))
        if names is None:
            names = (name for name in name_ranks() if "never" not in kinds.get(name, ()))
        self.names = frozenset(names)
        self.doubtful = frozenset(name for name in self.names if "word" in kinds.get(name, ()))
        listing = "\n".join("\t".join(sorted(part)) for part in (self.words, self.names, self.doubtful))
        self.identity = f"gender-words:{hash_text(listing)[:16]}"

    def has(self, token: str, *, initial: bool = False) -> bool:
        """True if a token states a gender; ``initial`` says that it begins a sentence.

        >>> [GenderWords().has("Will", initial=start) for start in (True, False)]
        [False, True]
        """
        if token in self.words or token.lower() in self.words:
            return True
        return token in self.names and not (initial and token in self.doubtful)


@cache
def sides(table: str) -> dict[str, str]:
    """The gender of every word of a table with the columns male and female."""
    return {row[side]: side for row in read_table(table, ("male", "female")) for side in ("male", "female")}


@cache
def name_ranks() -> dict[str, int]:
    """First names of both genders that the swap knows, and their rank of popularity within their gender."""
    rows = read_table("swap_names.csv", ("rank", "male", "female"))
    return {row[side]: int(row["rank"]) for row in rows for side in ("male", "female")}


def name_kinds() -> dict[str, frozenset[str]]:
    """What else a first name can be (``word``, ``time``, ``place``, ``never``), by name."""
    return word_classes("swap_name_words.csv", "name", "kind")


def probe_occupations() -> dict[str, str]:
    """The occupations of Sharma et al. 2021 and the gender that dominates each: 19 female, 19 male."""
    return {row["occupation"]: row["gender"] for row in read_table("probe_occupations.csv", ("occupation", "gender"))}


@cache
def women_percent() -> dict[str, float]:
    """The percentage of women in US occupations (CPS 2019), by their names in lower case."""
    return {row["occupation"].lower(): float(row["women_percent"]) for row in read_table("cps_2019.csv")}
