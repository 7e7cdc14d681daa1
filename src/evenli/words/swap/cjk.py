"""The swap of Japanese and Chinese texts, which have no spaces between words.

Listed words are found longest first, so that 女の子 is taken before 女, and words that merely hold a listed one (其他,
大丈夫, 母国) are listed as well and stay. No segmenter is used: names are left alone, and a gender word inside a longer
word that nobody listed would change. ``studies/swap/quality.py`` says how often that happens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

from evenli.words import read_table
from evenli.words.lists import sides
from evenli.words.swap.conflicts import bodies


@cache
def arrows(lang: str) -> tuple[dict[str, str], re.Pattern[str]]:
    """Every word that changes, with its replacement; and what splits a text into other characters and listed words."""
    changes: dict[str, str] = {}
    stays: set[str] = set()
    for row in read_table(f"swap_words_{lang}.csv", ("male", "female", "ways")):
        if row["ways"] == "stay":
            stays.add(row["male"])
        if row["ways"] in {"both", "to_female"}:
            changes.setdefault(row["male"], row["female"])
        if row["ways"] in {"both", "to_male"}:
            changes.setdefault(row["female"], row["male"])
    words = sorted({*changes, *stays}, key=lambda word: (-len(word), word))
    return {word: other for word, other in changes.items() if word not in stays}, re.compile(f"({'|'.join(words)})")


def body_conflict(lang: str, texts: Sequence[str], changed: Iterable[str]) -> bool:
    """True if a text has a bodily word of the gender of a word that changes."""
    stated = {gender for word, gender in bodies(lang).items() if any(word in text for text in texts)}
    return bool(stated & {sides(f"swap_words_{lang}.csv")[word] for word in changed})
