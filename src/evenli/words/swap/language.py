"""Which language a corpus is in: English, Japanese, Chinese, or one that cannot be swapped.

Scripts tell Japanese (kana) and Chinese (Han without kana) apart. A text in Latin letters is English unless words
such as *der*, *que* or *het* outnumber English function words. Short texts of other Latin languages without a function
word cannot be told from English one by one; whole corpora can.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from evenli.core.errors import InputError
from evenli.words.swap.pronoun_case import context
from evenli.words.swap.swapper import Lang

LANGUAGES = {"en": "English", "ja": "Japanese", "zh": "Chinese"}
UNKNOWN = "another language"
EMPTY = "no letters"
_MAJORITY = 0.8

_KANA = re.compile(r"[\u3041-\u30fa\uff66-\uff9f]")
_HAN = re.compile(r"[\u3400-\u9fff]")
_LATIN = re.compile(r"[A-Za-z]")
_OTHER = re.compile(r"[\u0370-\u1cff\uac00-\ud7a3]")


def text_language(text: str) -> str:
    """``en``, ``ja``, ``zh``, ``UNKNOWN`` or ``EMPTY``, of one text."""
    if _KANA.search(text):
        return "ja"
    han, latin, other = (len(pattern.findall(text)) for pattern in (_HAN, _LATIN, _OTHER))
    if other > latin + han:
        return UNKNOWN
    if han > latin / 4:
        return "zh"
    if not latin:
        return EMPTY
    tokens = re.findall(r"\w+", text.lower())
    # Foreign are function words of German, French, Spanish, Portuguese, Italian, Dutch, Polish, Turkish, Vietnamese,
    # Indonesian and Swedish that are no English words.
    english, foreign = (sum(token in context[kind] for token in tokens) for kind in ("english", "foreign"))
    return UNKNOWN if foreign > max(1, english) else "en"


def corpus_language(texts: Iterable[str], what: str, lang: str = "auto") -> Lang:
    """The language of a corpus; refuses what cannot be swapped.

    With ``auto`` at least 80 % of the texts must be in one known language. A language that is named must be that of
    at least one text. Texts of other languages get no swapped copy.
    """
    if lang != "auto" and lang not in LANGUAGES:
        raise InputError(f"language '{lang}' cannot be swapped; choose auto, {', '.join(LANGUAGES)}")
    counts = Counter(map(text_language, texts))
    del counts[EMPTY]
    if not (total := counts.total()):
        raise InputError(f"{what} holds no text with letters")
    shares = ", ".join(f"{LANGUAGES.get(key, key)} {100 * n / total:.0f} %" for key, n in counts.most_common())
    if lang != "auto":
        if not counts[lang]:
            raise InputError(
                f"{what} holds no {LANGUAGES[lang]} text ({shares}); leave the language (--lang) out or name its own"
            )
        return lang  # type: ignore[return-value]
    best = counts.most_common(1)[0][0]
    if best == UNKNOWN:
        listed = ", ".join(f"{name} ({key})" for key, name in LANGUAGES.items())
        raise InputError(f"{what} is in a language that cannot be swapped ({shares}); evenli swaps {listed}")
    if counts[best] < _MAJORITY * total:
        raise InputError(f"{what} mixes languages ({shares}); name one (--lang) to swap its texts")
    return best  # type: ignore[return-value]
