"""Japanese and Chinese text cut into words, so that it can be scored: both are written without spaces.

Maximum matching: from left to right the longest word that is known, else one character. The words are those that have
a vector and those that state a gender, so nothing is cut that a score could have used whole. This is no grammar: where
words overlap it may cut wrongly. Text that was cut before, with spaces between words, stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from evenli.core.io import hash_text
from evenli.words.lists import split_words

_LONGEST = 12  # characters of a word
_SCRIPT = re.compile(r"[\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+")


class Segmenter:
    """Cuts runs of Japanese or Chinese characters; everything else stays.

    >>> Segmenter(["看護師", "彼女"])("彼女は看護師です。")
    '彼女 は 看護師 で す 。'
    """

    def __init__(self, words: Iterable[str]) -> None:
        self._words = frozenset(word for word in words if 1 < len(word) <= _LONGEST and _SCRIPT.fullmatch(word))
        self._longest = max(map(len, self._words), default=1)
        self.identity = hash_text("\n".join(sorted(self._words)))[:16]

    def __call__(self, text: str) -> str:
        """The text with a space on either side of every word."""
        return " ".join(_SCRIPT.sub(lambda run: f" {' '.join(self._cut(run[0]))} ", text).split())

    def words(self, text: str) -> list[str]:
        """The words in order, each as it stands in the text."""
        return split_words(self(text))

    def _cut(self, run: str) -> list[str]:
        cuts, at = [], 0
        while at < len(run):
            ends = range(min(len(run), at + self._longest), at + 1, -1)
            end = next((end for end in ends if run[at:end] in self._words), at + 1)
            cuts.append(run[at:end])
            at = end
        return cuts
