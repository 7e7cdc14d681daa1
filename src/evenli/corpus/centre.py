"""What takes the male offset of word vectors out of a bias score.

With GloVe all but one of 117 function words lean male (*the* by -0.14), and they carry half of all absolute bias: the
published score finds sentences with many of them, most of all short ones. Four ways to count:

none            the published score
mean            the lean of a word less the mean lean of the frequent words without a gender
function-words  function words have no lean, like gender words
length          that, and five words without lean are added to every sentence, so that a short one does not come out
                on top because it is short

``docs/explanation/sentences.md`` has how well each finds 300 sentences that were labelled before any was scored.
"""

from __future__ import annotations

from functools import cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from evenli.encoders.vectors import WordVectors
from evenli.errors import InputError
from evenli.resources import read_lines
from evenli.resources.words import GenderWords

Centre = Literal["none", "mean", "function-words", "length"]
PUBLISHED: Centre = "none"
DEFAULT: Centre = "length"
ADDED = 5  # words without lean that ``length`` adds to a sentence
_FREQUENT = 10_000  # words at the top of a file of vectors, which are the frequent ones


def check_centre(centre: str) -> None:
    """Refuse an unknown way."""
    if centre not in get_args(Centre):
        raise InputError(f"--centre {centre} is unknown; choose {', '.join(get_args(Centre))}")


@cache
def function_words() -> frozenset[str]:
    """English function words without a gender, in lower case."""
    return frozenset(read_lines("function_words.txt"))


def empty_words(centre: Centre) -> frozenset[str]:
    """Words that have no lean, besides those that state a gender."""
    return function_words() if centre in {"function-words", "length"} else frozenset()


def added_words(centre: Centre) -> int:
    """Words without lean that are added to every sentence."""
    return ADDED if centre == "length" else 0


def usual_lean(vectors: WordVectors, biases: NDArray[np.float64], gender_words: GenderWords) -> float:
    """The mean bias of the frequent words that state no gender."""
    frequent = (at for at, word in enumerate(vectors.words[:_FREQUENT]) if word.isalpha())
    rows = [at for at in frequent if not gender_words.has(vectors.words[at], initial=False)]
    return float(np.nanmean(biases[rows])) if rows else 0.0
