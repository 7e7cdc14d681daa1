"""What is left of gender in sentences that an eraser was not fitted on: which sentences, and which numbers."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from evenli.core.errors import InputError
from evenli.encoders.base import CallableEncoder
from evenli.encoders.gendered import FEMALE, MALE, GenderedSet, gendered_set, probe_text
from evenli.encoders.leakage import HeldOut, known_sentences, leakage, leakage_report, residual_leakage
from evenli.encoders.vectors import VectorMean, WordVectors
from evenli.words.lists import split_words

pytest.importorskip("sklearn")
D = 4


def few() -> GenderedSet:
    whole = gendered_set()
    return replace(whole, probe=whole.probe[:60], test=whole.test[:50], occupations=whole.occupations[:80], domain=())


def word(text: str) -> NDArray[np.float64]:
    return np.random.default_rng(zlib.crc32(text.lower().encode())).normal(size=D)


def encode(texts: Sequence[str]) -> NDArray[np.float64]:
    """Means of random vectors; 1 in the first column for a sentence that names a woman, -1 for a man."""
    sentences = few()
    side = {pair.female: 1.0 for part in ("probe", "test") for pair in getattr(sentences, part)}
    side |= {pair.male: -1.0 for part in ("probe", "test") for pair in getattr(sentences, part)}
    rows = np.array([np.mean([word(token) for token in split_words(text)], axis=0) for text in texts])
    rows[:, 0] = rows[:, 0] / 10 + [side.get(text, 0.0) for text in texts]
    return rows


ENCODER = CallableEncoder(encode)


@pytest.fixture(scope="module")
def held() -> HeldOut:
    return HeldOut.of(ENCODER, few(), probe_text())


def test_the_parts_are_those_of_the_set(held: HeldOut) -> None:
    sentences, text = few(), probe_text()
    for part, rows, classes in (
        ("probe", held.words.train, held.words.train_classes),
        ("test", held.words.test, held.words.test_classes),
    ):
        texts, expected = sentences.rows(part)  # type: ignore[arg-type]
        assert rows == pytest.approx(encode(texts), abs=1e-5) and classes.tolist() == expected.tolist()
    assert held.neutral == pytest.approx(encode(sentences.neutral), abs=1e-5) and len(held.neutral) == 80
    assert held.text is not None and held.domain is None
    assert held.text.train == pytest.approx(encode([text for text, _ in text.train]), abs=1e-5)
    assert held.text.test == pytest.approx(encode([text for text, _ in text.test]), abs=1e-5)
    assert held.text.train_classes.tolist() == [gender for _, gender in text.train]
    assert held.text.test_classes.tolist() == [gender for _, gender in text.test]
    assert HeldOut.of(ENCODER, few()).text is None


@pytest.mark.parametrize(("pairs", "used"), [(39, False), (41, True)])
def test_other_sentences_with_fitted_words_are_split_by_pairs(pairs: int, used: bool) -> None:
    sentences = replace(few(), domain=gendered_set().fit[:pairs])
    domain = HeldOut.of(ENCODER, sentences).domain
    assert (domain is not None) is used
    if domain is not None:
        first, second = sentences.domain[::2], sentences.domain[1::2]
        for half, rows, classes in (
            (first, domain.train, domain.train_classes),
            (second, domain.test, domain.test_classes),
        ):
            texts = [version for pair in half for version in (pair.female, pair.male)]
            assert rows == pytest.approx(encode(texts), abs=1e-5)
            assert classes.tolist() == [FEMALE, MALE] * len(half)


def erase(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The first column holds the gender."""
    return np.column_stack([np.zeros(len(rows)), rows[:, 1:]])


def test_every_part_is_erased(held: HeldOut) -> None:
    other = replace(held, domain=held.text).erased(erase)
    for before, after in ((held.words, other.words), (held.text, other.text), (held.text, other.domain)):
        assert before is not None and after is not None
        for name in ("train", "test"):
            assert getattr(after, name) == pytest.approx(erase(getattr(before, name)))
            assert getattr(after, f"{name}_classes") is getattr(before, f"{name}_classes")
    assert other.neutral == pytest.approx(erase(held.neutral))
    assert HeldOut(held.words, held.neutral).erased(erase).text is None


def test_a_report_has_both_sides_of_an_eraser(held: HeldOut) -> None:
    text = probe_text()
    found = leakage_report(ENCODER, erase, few(), text, seed=3)  # type: ignore[arg-type]
    assert (found.probe_sentences, found.test_sentences, found.neutral_sentences) == (120, 100, 80)
    assert (found.probe_text, found.sha256) == ("built-in", few().sha256["held_out"])
    assert found.before.linear.value > 0.95 and found.after.linear.low < 0.5 < found.after.linear.high
    lean = held.lean()
    assert found.before == residual_leakage(held, lean, seed=3)
    assert found.after == residual_leakage(held.erased(erase), lean, seed=3)
    probes = leakage(*held.words, np.random.default_rng(3))
    assert (found.before.linear, found.before.mlp, found.before.majority) == (
        *(probes.linear, probes.mlp),
        probes.majority,
    )
    assert held.text is not None and found.before.on_domain is None
    assert found.before.on_text == leakage(*held.text, np.random.default_rng(3))


def test_a_quarter_of_the_sentences_of_each_side_is_clustered(held: HeldOut) -> None:
    """At most: where a side has fewer, as many as it has."""
    lean, held = held.lean(), replace(held, text=None)
    assert residual_leakage(held, lean).clustering.n == 2 * 20
    uneven = np.where(np.arange(80) < 9, 1.0, -1.0) * np.linspace(1, 2, 80)
    assert residual_leakage(held, uneven).clustering.n == 2 * 9
    with pytest.raises(InputError, match="side"):
        residual_leakage(held, np.ones(80))


def test_an_encoder_of_word_vectors_is_asked_what_it_knows() -> None:
    sentences = gendered_set()
    assert known_sentences(ENCODER, sentences) is sentences
    words = {
        token for part in ("fit", "probe", "test") for text in sentences.rows(part)[0] for token in split_words(text)
    }  # type: ignore[arg-type]
    words |= {token for row in sentences.occupations for token in row.split()}
    words |= {other for part in ("fit", "probe", "test") for pair in getattr(sentences, part) for other in pair.words}
    missing = sentences.fit[0].words[0]
    known = sorted(words - {missing})
    kept = known_sentences(VectorMean(WordVectors.of(known, np.ones((len(known), 2)))), sentences)
    assert len(kept.fit) == sum(missing not in pair.words for pair in sentences.fit) < len(sentences.fit)
    assert kept.occupations == sentences.occupations


def test_a_sentence_like_the_mean_leans_to_no_side(held: HeldOut) -> None:
    """Its direction is undefined: it counts as 0, before the median is taken off."""
    side = np.array([[2.0, 0, 0, 0], [1.0, 0, 0, 0], [0.0, 0, 0, 0], [-1.0, 0, 0, 0], [-2.0, 0, 0, 0]])
    words = held.words.train[:, [0, 1, 2, 3]] * [1, 0, 0, 0]
    lean = replace(held, words=held.words._replace(train=words), neutral=side).lean()
    assert lean == pytest.approx([1, 1, 0, -1, -1])
