"""Templates: sentences with an open slot, and what a sentence gives away by its words and its script."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from itertools import pairwise

SLOT = "[Sub]"
"""Where a template takes its word."""
UNSPACED = ("ja", "zh")
"""Languages that write no spaces between words."""
_KANA = re.compile(r"[\u3040-\u30ff]")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def fill(template: str, word: str) -> str:
    """Put a word into every slot of a template."""
    return template.replace(SLOT, word)


def slot_word(template: str | None, sentence: str) -> str:
    """What stands in the slot of a template; empty where the sentence is not made from it.

    >>> slot_word("the [Sub] waves.", "the man waves."), slot_word("the [Sub] waves.", "a man waves.")
    ('man', '')
    """
    before, slot, after = (template or "").partition(SLOT)
    word = sentence[len(before) : len(sentence) - len(after)]
    return word if slot and sentence == before + word + after else ""


def any_of(words: Iterable[str], lang: str = "en", *, case: bool = False) -> re.Pattern[str]:
    """One of the words: anywhere where no spaces are written, else as a whole word (``man's`` but not ``man-made``)."""
    # Longest first, so that a compound wins over a word inside it.
    either = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in sorted(words, key=len, reverse=True))
    pattern = either if lang in UNSPACED else rf"(?<![\w-])(?:{either})(?![\w-])"
    return re.compile(pattern, 0 if case else re.IGNORECASE)


def looks_like(text: str, lang: str) -> bool:
    """Whether a sentence can be of a language, judged by its script alone.

    >>> looks_like("the nurse waves.", "en"), looks_like("看護師が手を振る。", "zh")
    (True, False)
    """
    han, kana = bool(_HAN.search(text)), bool(_KANA.search(text))
    return {"ja": kana or han, "zh": han and not kana}.get(lang, not han and not kana)


def leaking_words(template: str, words: Mapping[str, str], lang: str) -> list[str]:
    """Group-revealing words in a template outside its slot: by token, or by substring where no spaces are written."""
    text = unicodedata.normalize("NFKC", template.replace(SLOT, " ")).lower()
    for word in (word for word, group in words.items() if group == "-"):
        text = text.replace(word, " ")
    if lang in UNSPACED:
        return sorted(word for word in words if word in text)
    tokens = _WORD.findall(text)
    present = {*tokens, *(token.removesuffix("'s").removesuffix("’s") for token in tokens)}
    present |= {" ".join(pair) for pair in pairwise(tokens)}
    return sorted(present & set(words))
