"""What Dolci, Azzalini and Tanelli 2023 publish about their bias score and can be checked without their vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from evenli.corpus.bias import BiasScorer, SentenceBias
from evenli.corpus.importance import MaxPooled
from evenli.encoders.direction import gender_direction
from evenli.encoders.vectors import WordVectors
from evenli.words import read_table
from studies.ledger.ledger import Published, Row, chapter

_PAPER = "Dolci et al. 2023"
_SENTENCE = "She likes the new pink dress"
# Cosines with the gender direction and arg-max counts as printed; "She" is a gender word and counts 0 whatever it has.
_TABLE2 = {"likes": -0.05719, "the": -0.10195, "new": -0.00051, "pink": 0.25705, "dress": 0.28579}
_COUNTS2 = (497, 716, 342, 602, 526, 609)
_TABLE12 = {"likes": 0.37394, "the": 0.39881, "new": 0.37113, "pink": 0.35007, "dress": 0.37273}
_COUNTS12 = (87, 82, 64, 65, 87, 108)

_GLOVE = "needs the GloVe file; evenli direction --vectors FILE shows ours, docs/explanation/sentences.md has figures"
_WEIGHTS = "needs the authors' encoder, whose weights are not to be had; docs/explanation/sentences.md has ours"
_OUT_OF_REACH = (
    ("variance on the first component, ten pairs", "prose", 0.58, _GLOVE),
    ("variance on the first component, long list", "prose", 0.41, _GLOVE),
    ("cosine of the directions of the two lists", "prose", 0.93, _GLOVE),
    ("cosine of 'My mother is a nurse' with the direction, InferSent", "Table 1", 0.29852, _WEIGHTS),
    ("cosine of 'My mother is a nurse' with the direction, SBERT", "Table 1", 0.46018, _WEIGHTS),
    ("F of 'She is a homemaker', SBERT", "examples with SBERT", 0.16669, _WEIGHTS),
    ("highest F of STS-B", "Table 14", 0.08772, _WEIGHTS),
    ("highest F of the MNLI part", "Table 15", 0.08836, _WEIGHTS),
)


@chapter
def worked_examples(data: Path | None) -> Iterator[Row]:
    """Tables 2 and 12 from their printed word biases and counts, through our scorer."""
    first, second = _score(_TABLE2, _COUNTS2, 4096), _score(_TABLE12, _COUNTS12, 768)
    table2 = Published(f"{_PAPER}, Table 2", 5e-6, kind="arithmetic")
    yield table2.row("F of the worked example", 0.07550, first.female)
    yield table2.row("M of the worked example", -0.01858, first.male)
    yield table2.row("Abs of the worked example", 0.09409, first.absolute, tolerance=1e-5)
    markers = "the printed counts sum to 80 %; the rest must sit on the sentence markers"
    caption = Published(f"{_PAPER}, Table 2, caption", kind="arithmetic")
    yield caption.row("importance on words of the worked example", 1.0, 1 - first.markers, differs=markers)
    table12 = Published(f"{_PAPER}, Table 12", kind="arithmetic")
    yield table12.row("F of the worked example, SBERT", 0.19664, second.female, tolerance=1e-5)
    yield table12.row("M of the worked example, SBERT", 0.0, second.male)


@chapter
def word_lists(data: Path | None) -> Iterator[Row]:
    """Sizes of the lists the method rests on."""
    paper = Published(_PAPER)
    names = sum("gn_glove" in row["source"] for row in read_table("gender_word_list.csv"))
    union = "the union of the two GN-GloVe files has exactly this size"
    yield paper.row("gender words that are no names", 409, names, reason=union)
    lists = [row["list"] for row in read_table("direction_pairs.csv")]
    yield paper.row("pairs of the gender direction", 10, lists.count("ten"))
    phrases = "the source has 52, of which four are of several words and have no GloVe vector"
    yield paper.row("pairs of the long list", 50, lists.count("long"), differs=phrases)


@chapter
def out_of_reach(data: Path | None) -> Iterator[Row]:
    """What is printed and cannot be computed here, with the reason, so that it is not missed."""
    for what, where, published, reason in _OUT_OF_REACH:
        yield Row(what, f"{_PAPER}, {where}", published, None, reason=reason, kind="models")


def _score(biases: Mapping[str, float], counts: Sequence[int], total: int) -> SentenceBias:
    """Score the example with vectors that have the printed cosines with the direction."""
    words = ["she", "he", "woman", "man", *biases]
    # In the plane a unit vector is fixed by its cosine with the first axis, the gender direction.
    plane = [(1.0, 0.0), (-1.0, 0.0), (1.0, 0.0), (-1.0, 0.0), *((b, (1 - b * b) ** 0.5) for b in biases.values())]
    vectors = WordVectors.of(words, np.array(plane))
    direction = gender_direction(vectors, [("she", "he"), ("woman", "man")])
    answer = np.array(counts), np.array([len(counts)])
    encoder = SimpleNamespace(identity="printed", dimension=total, argmax_counts=lambda sentences: answer)
    return BiasScorer(vectors, direction, weights=MaxPooled(encoder)).score(_SENTENCE)
