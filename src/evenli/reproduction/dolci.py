"""What Dolci, Azzalini and Tanelli 2023 publish about their bias score and can be checked without their vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from evenli.corpus.bias import BiasScorer, SentenceBias
from evenli.corpus.direction import GenderDirection, gender_direction
from evenli.corpus.importance import Counted
from evenli.encoders.vectors.base import WordVectors
from evenli.reproduction.ledger import Row, chapter
from evenli.resources import read_table

_PAPER = "Dolci et al. 2023"
_SENTENCE = "She likes the new pink dress"
# Cosines with the gender direction and arg-max counts as printed; "She" is a gender word and counts 0 whatever it has.
_TABLE2 = {"likes": -0.05719, "the": -0.10195, "new": -0.00051, "pink": 0.25705, "dress": 0.28579}
_COUNTS2 = (497, 716, 342, 602, 526, 609)
_TABLE12 = {"likes": 0.37394, "the": 0.39881, "new": 0.37113, "pink": 0.35007, "dress": 0.37273}
_COUNTS12 = (87, 82, 64, 65, 87, 108)


@chapter
def worked_examples(data: Path | None) -> Iterator[Row]:
    """Tables 2 and 12 from their printed word biases and counts, through our scorer."""
    first = _score(_TABLE2, _COUNTS2, 4096)
    table = f"{_PAPER}, Table 2"
    yield Row("F of the worked example", table, 0.07550, first.female, tolerance=5e-6)
    yield Row("M of the worked example", table, -0.01858, first.male, tolerance=5e-6)
    yield Row("Abs of the worked example", table, 0.09409, first.absolute, tolerance=1e-5)
    yield Row(
        "importance on words of the worked example",
        f"{table}, caption",
        1.0,
        1 - first.markers,
        reason="the printed counts sum to 80 %; the rest must sit on the sentence markers",
        known=True,
    )
    second = _score(_TABLE12, _COUNTS12, 768)
    yield Row("F of the worked example, SBERT", f"{_PAPER}, Table 12", 0.19664, second.female, tolerance=1e-5)
    yield Row("M of the worked example, SBERT", f"{_PAPER}, Table 12", 0.0, second.male)


@chapter
def word_lists(data: Path | None) -> Iterator[Row]:
    """Sizes of the lists the method rests on."""
    words = read_table("gender_word_list.csv")
    pairs = read_table("direction_pairs.csv")
    yield Row(
        "gender words that are no names",
        _PAPER,
        409,
        sum("gn_glove" in row["source"] for row in words),
        reason="the union of the two GN-GloVe files has exactly this size",
    )
    yield Row("pairs of the gender direction", _PAPER, 10, sum(row["list"] == "ten" for row in pairs))
    yield Row(
        "pairs of the long list",
        _PAPER,
        50,
        sum(row["list"] == "long" for row in pairs),
        reason="the source has 52, of which four are of several words and have no GloVe vector",
        known=True,
    )


@chapter
def out_of_reach(data: Path | None) -> Iterator[Row]:
    """What is printed and cannot be computed here, with the reason, so that it is not missed."""
    glove = "needs the GloVe file; evenli direction --vectors FILE shows ours, docs/sentences.md has figures"
    weights = "needs the authors' encoder, whose weights are not to be had; docs/sentences.md has ours"
    yield Row("variance on the first component, ten pairs", f"{_PAPER}, prose", 0.58, None, reason=glove)
    yield Row("variance on the first component, long list", f"{_PAPER}, prose", 0.41, None, reason=glove)
    yield Row("cosine of the directions of the two lists", f"{_PAPER}, prose", 0.93, None, reason=glove)
    for encoder, printed in (("InferSent", 0.29852), ("SBERT", 0.46018)):
        yield Row(
            f"cosine of 'My mother is a nurse' with the direction, {encoder}",
            f"{_PAPER}, Table 1",
            printed,
            None,
            reason=weights,
        )
    yield Row("F of 'She is a homemaker', SBERT", f"{_PAPER}, examples with SBERT", 0.16669, None, reason=weights)
    yield Row("highest F of STS-B", f"{_PAPER}, Table 14", 0.08772, None, reason=weights)
    yield Row("highest F of the MNLI part", f"{_PAPER}, Table 15", 0.08836, None, reason=weights)


def _score(biases: Mapping[str, float], counts: Sequence[int], total: int) -> SentenceBias:
    """Score the example with vectors made so that every word has the printed cosine with the direction."""
    words = ["she", "he", "woman", "man", *biases]
    plane = [(1.0, 0.0), (-1.0, 0.0), (1.0, 0.0), (-1.0, 0.0), *((b, (1 - b * b) ** 0.5) for b in biases.values())]
    vectors = WordVectors.of(words, np.array(plane))
    direction: GenderDirection = gender_direction(vectors, [("she", "he"), ("woman", "man")])
    return BiasScorer(vectors, direction, weights=Counted(counts, total)).score(_SENTENCE)
