"""Word vectors, and the direction in which a vector space tells women from men.

>>> from evenli.vectors import WordVectors, gender_direction
>>> words = ["she", "he", "woman", "man", "nurse"]
>>> toy = WordVectors.of(words, [[1, 1, 0], [-1, 1, 0], [1, 0, 1], [-1, 0, 1], [1, 2, 2]])
>>> g = gender_direction(toy, [("she", "he"), ("woman", "man")])
>>> [round(float(x), 3) for x in bias_of(toy, toy.rows(["nurse", "she", "he"]), g)]
[0.333, 0.707, -0.707]
"""

from evenli.vectors.base import WordVectors
from evenli.vectors.direction import (
    GenderDirection,
    Stability,
    agreement,
    bias_of,
    direction_from_sentences,
    gender_direction,
    load_direction,
    nearest,
    save_direction,
    stability,
)
from evenli.vectors.files import load_vectors

__all__ = [
    "GenderDirection",
    "Stability",
    "WordVectors",
    "agreement",
    "bias_of",
    "direction_from_sentences",
    "gender_direction",
    "load_direction",
    "load_vectors",
    "nearest",
    "save_direction",
    "stability",
]
