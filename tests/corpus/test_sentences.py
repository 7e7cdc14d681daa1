"""The bias score of a sentence: the worked examples of the paper, its rules, and that batches change nothing."""

from __future__ import annotations

import io
import itertools
import math
import pickle
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from conftest import make_checkpoint
from evenli.core.errors import InputError, MissingExtraError
from evenli.core.io import read_rows
from evenli.corpus.bias import BiasScorer
from evenli.corpus.contextual import ContextualScorer, contextual_direction
from evenli.corpus.importance import Idf, MaxPooled, Sif, Uniform, WordCounts
from evenli.corpus.pages import sentence_page
from evenli.corpus.texts import print_sentence
from evenli.corpus.transformer import TransformerArgmax
from evenli.encoders.direction import direction_from_sentences, gender_direction
from evenli.encoders.vectors import WordVectors
from evenli.words import read_table
from evenli.words.lists import GenderWords, is_word, sentence_starts, split_words

DRESS = "She likes the new pink dress"
TABLE_2 = {"likes": -0.05719, "the": -0.10195, "new": -0.00051, "pink": 0.25705, "dress": 0.28579}
COUNTS_2 = (497, 716, 342, 602, 526, 609)
TABLE_12 = {"likes": 0.37394, "the": 0.39881, "new": 0.37113, "pink": 0.35007, "dress": 0.37273}
COUNTS_12 = (87, 82, 64, 65, 87, 108)


def axis(dimension: int = 2):
    """The first coordinate as the gender direction."""
    first = np.eye(dimension)[:1].repeat(3, axis=0)
    return direction_from_sentences(first, -first)


def vectors_with(biases: dict[str, float]) -> WordVectors:
    """Vectors of which the cosine with the first coordinate is given."""
    return WordVectors.of(biases, [[b, math.sqrt(1 - b * b)] for b in biases.values()])


def scorer_with(biases: dict[str, float], **settings) -> BiasScorer:
    return BiasScorer(vectors_with(biases), axis(), **settings)


def reference_score(text, vectors, direction, gender_words, weights, punctuation=False) -> tuple[float, float, float]:
    """F, M and Abs word by word, as published."""
    tokens = split_words(text)
    placed = zip(tokens, sentence_starts(tokens), strict=True)
    kept = [(token, gender_words.has(token, initial=start)) for token, start in placed if vectors.find(token) >= 0]
    shares = weights.weigh([[token for token, _ in kept]])[0].shares
    female = male = 0.0
    for (token, gendered), share in zip(kept, shares, strict=True):
        if gendered or not (punctuation or is_word(token)):
            continue
        vector = vectors.matrix[vectors.find(token)].astype(np.float64)
        bias = float(vector @ direction.vector / (np.linalg.norm(vector) * np.linalg.norm(direction.vector)))
        female, male = female + max(bias, 0.0) * float(share), male + min(bias, 0.0) * float(share)
    return female, male, female - male


def counted_as(counts: Sequence[int], total: int) -> MaxPooled:
    """Importance by the counts of an encoder that counts every sentence alike."""

    def argmax_counts(sentences):
        return np.array([*counts] * len(sentences)), np.full(len(sentences), len(counts))

    return MaxPooled(SimpleNamespace(identity="", dimension=total, argmax_counts=argmax_counts))


@pytest.fixture(scope="module")
def captions() -> list[str]:
    """Sentences with all that matters: names, abbreviations, quotes, numbers, unknown words, repeated words."""
    return [
        "A person on a horse jumps over a broken down airplane.",
        'Will Will come? "Rose" asked. Mark did not; Grace and Mary did.',
        "Mr. Hill's 12-year-old doesn't like the U.S., she said...",
        "",
        "   ",
        "zzz qqq",
        "the the the dress the pink pink",
        "- Rose, the nurse - 'Mark' - (Will) 3:30",
        "woman",
        'He said: "Hope". Hope is a word. Joy is, too! Joy',
    ] * 3


@pytest.fixture(scope="module")
def random_vectors(captions: list[str]) -> WordVectors:
    words = sorted({word for text in captions for word in split_words(text)} - {"zzz", "qqq", "Hope", "3:30"})
    return WordVectors.of(words, np.random.default_rng(3).standard_normal((len(words), 7)))


def test_worked_example_of_the_paper() -> None:
    bias = scorer_with({"She": 0.4, **TABLE_2}, weights=counted_as(COUNTS_2, 4096)).score(DRESS)
    assert (round(bias.female, 5), round(bias.male, 5), round(bias.absolute, 5)) == (0.07550, -0.01858, 0.09409)
    assert bias.markers == pytest.approx(0.1963, abs=5e-5)
    assert [word.count for word in bias.words] == list(COUNTS_2)
    assert [round(word.importance * 100, 2) for word in bias.words] == [12.13, 17.48, 8.35, 14.70, 12.84, 14.87]
    # The paper prints -0.00008 for "new", from a bias with more digits than it prints.
    assert [round(word.weighted, 5) for word in bias.words[1:]] == [-0.01000, -0.00851, -0.00007, 0.03301, 0.04249]
    assert (bias.words[0].bias, bias.words[0].note) == (0.0, "gender word")
    assert bias.absolute == bias.female - bias.male


def test_worked_example_of_the_transformer() -> None:
    bias = scorer_with({"she": 0.4, **TABLE_12}, weights=counted_as(COUNTS_12, 768)).score(DRESS)
    assert (round(bias.female, 5), bias.male) == (0.19664, 0.0)
    assert bias.markers == pytest.approx(0.3581, abs=5e-5)


def test_uniform_by_hand() -> None:
    scorer = scorer_with({"pink": 0.6, "ball": -0.3, "a": 0.0})
    female, male, absolute = scorer.score_many(["a pink ball pink"])[0]
    assert (female, male, absolute) == pytest.approx((0.3, -0.075, 0.375), abs=1e-7)
    shares = [word.importance for word in scorer.score("a pink ball pink").words]
    assert shares == [0.25] * 4 and scorer.score("a pink ball").markers == pytest.approx(0.0)


def test_markers_take_their_share() -> None:
    half = scorer_with({"pink": 0.6}, weights=Uniform(markers=0.5))
    assert half.score_many(["pink"])[0, 0] == pytest.approx(0.3, abs=1e-7)
    assert half.score("pink").markers == pytest.approx(0.5)
    with pytest.raises(InputError, match="markers"):
        Uniform(markers=1.0)


def test_batches_agree_with_sentences_and_with_the_reference(captions: list[str], random_vectors) -> None:
    direction, gender_words = axis(7), GenderWords()
    counts = WordCounts.count(captions)
    for weights in (Uniform(), Idf(counts), Sif(counts, markers=0.2)):
        for punctuation in (False, True):
            scorer = BiasScorer(random_vectors, direction, gender_words, weights, punctuation)
            batch = scorer.score_many(captions)
            assert len(np.unique(batch[:, 0])) == 7  # six sentences differ; the others have nothing but zeros
            for text, row in zip(captions, batch, strict=True):
                bias = scorer.score(text)
                assert (bias.female, bias.male, bias.absolute) == tuple(row)
                assert sum(max(word.weighted, 0) for word in bias.words) == pytest.approx(row[0], abs=1e-15)
                assert sum(min(word.weighted, 0) for word in bias.words) == pytest.approx(row[1], abs=1e-15)
                slow = reference_score(text, random_vectors, direction, gender_words, weights, punctuation)
                assert slow == pytest.approx(tuple(row), abs=1e-15)


@pytest.mark.parametrize("size", [1, 2, 7, 29])
def test_batch_size_changes_no_bit(captions: list[str], random_vectors, size: int) -> None:
    whole = BiasScorer(random_vectors, axis(7)).score_many(captions)
    fresh = BiasScorer(random_vectors, axis(7))
    parts = [fresh.score_many(captions[at : at + size]) for at in range(0, len(captions), size)]
    assert np.concatenate(parts).tobytes() == whole.tobytes()
    backwards = BiasScorer(random_vectors, axis(7)).score_many(captions[::-1])
    assert backwards[::-1].tobytes() == whole.tobytes()


def test_real_sentences(shared_data: Path) -> None:
    rows = read_rows(shared_data / "snli" / "snli_1.0_dev.jsonl.xz")[:2500]
    texts = [row[key] for row in rows for key in ("premise", "hypothesis")]
    words = sorted({word for text in texts for word in split_words(text)})[::2]
    vectors = WordVectors.of(words, np.random.default_rng(0).standard_normal((len(words), 9)))
    scorer, gender_words = BiasScorer(vectors, axis(9)), GenderWords()
    batch = scorer.score_many(texts)  # more than one block of the scorer
    some = np.random.default_rng(1).choice(len(texts), 300)
    slow = np.array([reference_score(texts[at], vectors, axis(9), gender_words, Uniform()) for at in some])
    assert np.abs(slow - batch[some]).max() < 1e-15
    assert scorer.score_many(texts[4090:4100]).tobytes() == batch[4090:4100].tobytes()


def test_order_of_words_does_not_matter() -> None:
    scorer = scorer_with(TABLE_2)
    there, back = scorer.score_many(["likes the new pink dress", "dress pink new the likes"])
    assert there == pytest.approx(back, abs=1e-16)


def test_gender_words_and_names_have_no_bias() -> None:
    words = {"woman": 0.5, "Mary": 0.5, "will": -0.4, "Will": -0.4, "sings": 0.1}
    scorer = scorer_with(words)
    assert not scorer.score_many(["woman", "Woman WOMAN", "Mary"]).any()
    for text, expected in (
        ("Will sings", -0.2),  # begins a sentence: a word
        ("sings Will", 0.0),
        ("sings will", -0.2),
        ("sings. Will", -0.2),
        ('sings. "Will', -0.2),
        ("sings , Will", 0.0),
        ("- Will", -0.4),
    ):
        assert scorer.score_many([text])[0, 1] == pytest.approx(expected, abs=1e-7), text
    everything = scorer_with(words, gender_words=GenderWords((), ()))
    assert everything.score_many(["woman"])[0, 0] == pytest.approx(0.5, abs=1e-7)  # the control
    with pytest.raises(InputError, match="string"):
        GenderWords("woman")


def test_gender_word_list() -> None:
    rows = read_table("gender_word_list.csv")
    of = {
        name: {row["word"] for row in rows if name in row["source"].split()}
        for name in ("gn_glove", "debiaswe", "dolci")
    }
    assert {name: len(words) for name, words in of.items()} == {"gn_glove": 409, "debiaswe": 218, "dolci": 122}
    assert len(rows) == len({row["word"] for row in rows}) == 429
    glove = [row["group"] for row in rows if "gn_glove" in row["source"].split()]
    assert (glove.count("male"), glove.count("female")) == (207, 202)
    assert {row["group"] for row in rows} == {"male", "female"}
    shipped = GenderWords()
    assert (len(shipped.words), len(shipped.names)) == (429, 4966)


def test_punctuation() -> None:
    words = {"pink": 0.6, ".": 0.9, "3": -0.8}
    bias = scorer_with(words).score("pink 3.")
    assert (bias.female, bias.male) == (pytest.approx(0.2, abs=1e-7), 0.0)  # it keeps its share, but has no bias
    assert [word.note for word in bias.words] == ["", "punctuation", "punctuation"]
    bias = scorer_with(words, punctuation=True).score("pink 3.")
    assert (bias.female, bias.male) == (pytest.approx(0.5, abs=1e-7), pytest.approx(-0.8 / 3, abs=1e-7))


def test_unknown_words_are_dropped_before_weighting() -> None:
    scorer = scorer_with({"pink": 0.6, "Ball": -0.2, "ball": -0.4})
    bias = scorer.score("pink xyzzy PINK")
    assert bias.female == pytest.approx(0.6, abs=1e-7) and bias.words[1].note == "out of vocabulary"
    assert [word.importance for word in bias.words] == [0.5, 0.0, 0.5]
    assert scorer.score_many(["Ball", "BALL"])[:, 1] == pytest.approx([-0.2, -0.4], abs=1e-7)  # exact, else lower case


def test_nothing_to_score() -> None:
    scorer = scorer_with({"pink": 0.6, "woman": 0.5})
    texts = ["pink", "", None, " \n", "xyzzy", "woman"]
    assert scorer.score_many(texts)[1:].tolist() == [[0.0] * 3] * 5
    assert [scorer.score(text).empty for text in texts] == [False, True, True, True, True, False]
    assert scorer.score(None).empty and scorer.score("xyzzy").empty and not scorer.score("woman").empty
    assert scorer.score_many([]).shape == (0, 3)
    counted = scorer_with({"pink": 0.6}, weights=counted_as([1], 4))
    assert counted.score_many([None, "pink"])[:, 0] == pytest.approx([0, 0.15], abs=1e-7)
    for each in (scorer, counted):
        with pytest.raises(InputError, match="text 1.*float"):
            each.score_many(["pink", float("nan")])
        with pytest.raises(InputError, match="text 5000.*int"):
            each.score_many(["pink"] * 5000 + [3])


def test_a_direction_of_another_space_is_refused() -> None:
    with pytest.raises(InputError, match="2.*3|3.*2"):
        BiasScorer(vectors_with(TABLE_2), axis(3))


def test_identity_follows_every_setting() -> None:
    made = [
        scorer_with(TABLE_2),
        scorer_with({**TABLE_2, "pink": 0.2}),
        scorer_with(TABLE_2, punctuation=True),
        scorer_with(TABLE_2, weights=Uniform(markers=0.1)),
        scorer_with(TABLE_2, weights=Idf(WordCounts.count(["pink"]))),
        scorer_with(TABLE_2, weights=Idf(WordCounts.count(["dress"]))),
        scorer_with(TABLE_2, weights=Sif(WordCounts.count(["dress"]))),
        scorer_with(TABLE_2, gender_words=GenderWords(["pink"])),
        BiasScorer(vectors_with(TABLE_2), direction_from_sentences(np.eye(2)[[1, 1]], -np.eye(2)[[1, 1]])),
    ]
    assert len({scorer.identity for scorer in made}) == len(made)
    assert scorer_with(TABLE_2).identity == made[0].identity


def test_a_scorer_travels_to_another_process() -> None:
    scorer = scorer_with(TABLE_2)
    before = scorer.score_many([DRESS])
    copy = pickle.loads(pickle.dumps(scorer))
    assert copy.identity == scorer.identity and copy.score_many([DRESS]).tobytes() == before.tobytes()


def test_idf_and_sif_by_hand() -> None:
    idf = Idf(WordCounts.count(["The dress", "the the ball", None, "", "the"]))
    assert (idf.counts.documents, idf.counts.tokens) == (3, 6)
    common, rare, unseen = 1 + math.log(4 / 4), 1 + math.log(4 / 2), 1 + math.log(4 / 1)
    assert [idf.mass(word) for word in ("THE", "dress", "new")] == pytest.approx([common, rare, unseen])
    assert idf.of(["the", "dress"]) == pytest.approx([common / (common + rare), rare / (common + rare)])
    sif = Sif(idf.counts, a=0.5)
    assert [sif.mass(word) for word in ("the", "ball", "new")] == pytest.approx([0.5 / (0.5 + 4 / 6), 0.75, 1.0])
    assert sif.of(["the", "ball", "new", "the"]).sum() == pytest.approx(1)
    with pytest.raises(InputError, match="text"):
        Idf(WordCounts.count([None, ""]))
    with pytest.raises(InputError, match="SIF"):
        Sif(idf.counts, a=0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I can't, won't; cannot!", "I ca n't , wo n't ; can not !"),
        ("the woman's dogs' toys", "the woman 's dogs ' toys"),
        ("Yes, ma'am: 1,000 at 3:30 p.m.", "Yes , ma'am : 1,000 at 3:30 p.m."),
        ("A middle-aged T-shirt...", "A middle-aged T-shirt ..."),
        ("he’s (not) “here”", "he ’s ( not ) “ here ”"),
        ("Dr. No stands. $5 10%", "Dr. No stands . $ 5 10 %"),
        ("  \n", ""),
    ],
)
def test_words(text: str, expected: str) -> None:
    assert split_words(text) == expected.split()


def test_nothing_but_space_is_lost(shared_data: Path) -> None:
    for row in read_rows(shared_data / "snli" / "snli_1.0_dev.jsonl.xz")[:1000]:
        assert "".join(split_words(row["premise"])) == "".join(row["premise"].split())


class Fixed:
    """An encoder that drops a word; what lacks to its dimension is on its markers."""

    identity = "fixed"
    dimension = 20

    def argmax_counts(self, sentences):
        places = (itertools.count(1) for _ in sentences)
        counts = [[0 if word == "ball" else next(at) for word in s] for s, at in zip(sentences, places, strict=True)]
        return np.array(list(itertools.chain(*counts))), np.array([len(s) for s in sentences])


def test_max_pooled_weights_align_words_and_leave_markers_out() -> None:
    weights = MaxPooled(Fixed())
    importance = weights.weigh([["a", "ball", "pink", "a"], [], ["ball", "pink"]])
    assert [weighed.counts for weighed in importance] == [(1, 0, 2, 3), (), (0, 1)]
    assert importance[0].shares.tolist() == [0.05, 0, 0.1, 0.15]
    bias = scorer_with({"a": -0.2, "ball": -0.9, "pink": 0.6}, weights=weights).score("a ball xyzzy pink a")
    assert (bias.female, bias.male) == (pytest.approx(0.06, abs=1e-7), pytest.approx(-0.04, abs=1e-7))
    assert bias.markers == pytest.approx(0.7)


class Counting(Fixed):
    """The same, and how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def argmax_counts(self, sentences):
        self.calls += 1
        return super().argmax_counts(sentences)


def test_counts_in_arrays_change_no_bit(captions: list[str], random_vectors) -> None:
    texts = [*captions, " ".join(captions), None]
    counting = Counting()
    fast = BiasScorer(random_vectors, axis(7), weights=MaxPooled(counting))
    found = fast.score_many(texts)
    assert counting.calls == 1 and found[:, 2].max() > 0
    for text, row in zip(texts, found, strict=True):
        bias = fast.score(text)  # the long way, word by word
        assert (bias.female, bias.male, bias.absolute) == tuple(row)
    parts = [fast.score_many(texts[at : at + 3]) for at in range(0, len(texts), 3)]
    assert np.concatenate(parts).tobytes() == found.tobytes()


def test_an_encoder_must_count_all_words() -> None:
    class Short(Counting):
        def argmax_counts(self, sentences):
            counts, lengths = super().argmax_counts(sentences)
            return counts[1:], lengths

    with pytest.raises(InputError, match="1 words.*2"):
        scorer_with({"a": 0.1, "pink": 0.6}, weights=MaxPooled(Short())).score_many(["a pink"])


@pytest.mark.parametrize("sign", ["\0", "\0\0", "a\0"])
def test_a_text_may_hold_any_character(sign: str) -> None:
    scorer = scorer_with({"pink": 0.6, "ball": -0.2, "\0": 0.4}, punctuation=True)
    texts = ["pink", f"pink {sign} ball", f"{sign}", "ball", ""]
    singles = [scorer_with({"pink": 0.6, "ball": -0.2, "\0": 0.4}, punctuation=True).score(text) for text in texts]
    together = scorer.score_many(texts)
    assert together.tolist() == [[single.female, single.male, single.absolute] for single in singles]
    assert together[1, 0] == pytest.approx({"\0": 1.0 / 3, "\0\0": 1.4 / 4, "a\0": 1.0 / 3}[sign], abs=1e-7)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> TransformerArgmax:
    return TransformerArgmax(make_checkpoint(tmp_path_factory.mktemp("encoder")), device="cpu", batch_size=2)


TEXTS = ["The woman isn't at the house.", "a nurse", "two people walk near a zebra, a dog and a red child"]


def test_transformer_counts(encoder: TransformerArgmax) -> None:
    """Counts per piece, markers included, sum to the dimension, and match a plain computation without padding."""
    torch = pytest.importorskip("torch")
    assert encoder.dimension == 32
    counts, lengths = encoder.argmax_counts(TEXTS)
    for text, counted in zip(TEXTS, np.split(counts, np.cumsum(lengths)[:-1]), strict=True):
        assert len(counted) == len(split_words(text))
        pieces = encoder._tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        offsets = pieces.pop("offset_mapping")[0].tolist()
        with torch.inference_mode():
            hidden = encoder._model(**pieces).last_hidden_state[0].numpy()
        wins = np.bincount(hidden.argmax(axis=0), minlength=len(hidden))
        assert wins.sum() == 32
        assert counted.sum() + wins[0] + wins[-1] == 32  # the rest sits on [CLS] and [SEP]
        at = 0
        for token, count in zip(split_words(text), counted, strict=True):
            at = text.index(token, at)
            own = [i for i, (a, b) in enumerate(offsets) if a < b and at <= a and b <= at + len(token)]
            assert own and count == wins[own].sum(), token
            at += len(token)


def test_transformer_takes_words_too(encoder: TransformerArgmax) -> None:
    spaced = ["a nurse waits", "the dog"]
    both = zip(encoder.argmax_counts([text.split() for text in spaced]), encoder.argmax_counts(spaced), strict=True)
    assert all(np.array_equal(*pair) for pair in both)
    shares = MaxPooled(encoder).weigh([["a", "nurse", "waits"]])[0].shares
    assert 0 < shares.sum() <= 1 and (shares * 32 == np.round(shares * 32)).all()
    short = TransformerArgmax(encoder.spec, device="cpu", max_length=4)
    assert short.argmax_counts(["a nurse waits near"])[0][2:].tolist() == [0, 0]
    assert short.identity != encoder.identity


def test_contextual_bias(encoder: TransformerArgmax) -> None:
    torch = pytest.importorskip("torch")
    scorer = ContextualScorer(encoder, axis(32))
    bias = scorer.score("a woman waits")
    with torch.inference_mode():
        hidden = encoder._model(**encoder._tokenizer("a woman waits", return_tensors="pt")).last_hidden_state[0].numpy()
    cosines = hidden[:, 0] / np.linalg.norm(hidden, axis=1)
    wins = np.bincount(hidden.argmax(axis=0), minlength=5)
    assert bias.words[1].note == "gender word" and bias.words[1].bias == 0
    assert [bias.words[0].bias, bias.words[2].bias] == pytest.approx([cosines[1], cosines[3]], abs=1e-6)
    assert [word.count for word in bias.words] == wins[1:4].tolist()
    expected = [cosines[i] * wins[i] / 32 for i in (1, 3)]
    assert bias.female - bias.male == pytest.approx(sum(map(abs, expected)), abs=1e-6)
    assert bias.markers == pytest.approx((wins[0] + wins[4]) / 32)
    many = scorer.score_many(["a woman waits", None, " ", *TEXTS])
    assert many[0] == pytest.approx([bias.female, bias.male, bias.absolute], abs=1e-5)
    assert not many[1:3].any() and (many[3:, 2] > 0).all()
    with pytest.raises(InputError, match=r"\(32,\)"):
        ContextualScorer(encoder, axis(2)).score("a dog")


def test_pieces_of_a_word_do_not_cancel(encoder: TransformerArgmax) -> None:
    torch = pytest.importorskip("torch")
    text = "a flibbertigibbet isn't here"
    pieces = encoder._tokenizer(text, return_tensors="pt")
    with torch.inference_mode():
        hidden = encoder._model(**pieces).last_hidden_state[0].numpy()
    inner = hidden[1:-1]
    wins = np.bincount(hidden.argmax(axis=0), minlength=len(hidden))[1:-1]
    letters = [
        any(map(str.isalpha, token)) for token in encoder._tokenizer.convert_ids_to_tokens(pieces["input_ids"][0])
    ]
    for at in range(32):  # some axis has pieces of one word on both sides
        cosines = inner[:, at] / np.linalg.norm(inner, axis=1) * np.array(letters[1:-1])
        unit = replace(axis(32), vector=np.eye(32)[at])
        bias = ContextualScorer(encoder, unit).score(text)
        assert len(bias.words) == len(inner) > len(split_words(text))
        weighted = cosines * wins / 32
        assert bias.female == pytest.approx(weighted[weighted > 0].sum(), abs=1e-6)
        assert bias.male == pytest.approx(weighted[weighted < 0].sum(), abs=1e-6)
        assert "".join(word.token for word in bias.words) == text.replace(" ", "")


def test_attention_as_importance(encoder: TransformerArgmax) -> None:
    torch = pytest.importorskip("torch")
    attending = TransformerArgmax(encoder.spec, device="cpu", importance="attention")
    assert attending.identity != encoder.identity
    text = "a nurse waits"
    batch = attending._tokenizer(text, return_tensors="pt")
    with torch.inference_mode():
        output = attending._model(**batch, output_attentions=True)
    received = output.attentions[-1][0].mean(dim=0).mean(dim=0).numpy()
    bias = ContextualScorer(attending, axis(32)).score(text)
    assert [word.importance for word in bias.words] == pytest.approx(received[1:-1].tolist(), abs=1e-6)
    assert bias.markers == pytest.approx(received[0] + received[-1], abs=1e-6)
    assert all(word.count is None for word in bias.words)
    hidden = output.last_hidden_state[0].numpy()
    padded = attending.encode([text, "two people walk near a dog and a red child"])[0]
    assert padded == pytest.approx((hidden * received[:, None]).sum(axis=0), abs=1e-5)
    with pytest.raises(InputError, match="max or attention"):
        TransformerArgmax(encoder.spec, importance="mean")  # type: ignore[arg-type]


def test_direction_of_an_encoder_from_sentences(encoder: TransformerArgmax) -> None:
    pairs = [(f"the woman walks {end}", f"the man walks {end}") for end in ("here", "near a dog", "in the rain")]
    direction = contextual_direction(encoder, pairs)
    rows = encoder.encode([text for pair in pairs for text in pair])
    difference = rows[::2] - rows[1::2]
    assert (difference @ direction.vector).sum() > 0 and direction.count == 3
    assert direction.identity == contextual_direction(encoder, pairs).identity
    assert direction.identity != contextual_direction(encoder, pairs[1:]).identity
    assert contextual_direction(encoder).count > 100


def test_max_pooled_embedding(encoder: TransformerArgmax) -> None:
    torch = pytest.importorskip("torch")
    with torch.inference_mode():
        hidden = encoder._model(**encoder._tokenizer("a nurse", return_tensors="pt")).last_hidden_state[0].numpy()
    assert encoder.encode(TEXTS)[1] == pytest.approx(hidden.max(axis=0), abs=1e-5)


def test_the_table_fits_a_terminal() -> None:
    def shown(bias, width: int = 80) -> str:
        stream = io.StringIO()
        print_sentence(bias, Console(file=stream, width=width))
        return stream.getvalue()

    out = shown(scorer_with({"She": 0.4, **TABLE_2}, weights=counted_as(COUNTS_2, 4096)).score(DRESS))
    assert max(map(len, out.splitlines())) <= 80
    rows = [line.split() for line in out.splitlines()]
    assert ["likes", "716", "17.48%", 8 * "█", "-0.05719", "-0.01000"] in rows
    assert ["She", "497", "12.13%", 6 * "█", "0", "0", "gender", "word"] in rows
    assert rows[-2][:2] == ["(markers)", "19.63%"]
    assert rows[-1] == ["F", "0.07550", "(female)", "M", "-0.01858", "(male)", "Abs", "0.09409"]
    assert "█" not in shown(scorer_with(TABLE_2).score(DRESS)), "words that count the same have no chart"
    assert "█" not in shown(scorer_with(TABLE_2, weights=counted_as(COUNTS_2[1:], 4096)).score(DRESS), width=60)
    out = shown(scorer_with(TABLE_2).score(f"xyzzy[/] {'q' * 90}"))
    assert "says nothing" in out and "xyzzy" in out and max(map(len, out.splitlines())) <= 80


CENTRES = ("none", "mean", "function-words", "length")


def test_centres_by_hand() -> None:
    words = ["she", "he", "woman", "man", "the", "is", "pink", "truck", "plain"]
    vectors = WordVectors.of(
        words,
        np.array([[1, 0], [-1, 0], [1, 0.1], [-1, 0.1], [-0.6, 0.8], [-0.6, 0.8], [0.8, 0.6], [-0.8, 0.6], [0, 1]]),
    )
    direction = gender_direction(vectors, [("she", "he"), ("woman", "man")])
    scored = {centre: BiasScorer(vectors, direction, centre=centre).score("The truck is pink") for centre in CENTRES}
    none, mean, function, length = (scored[centre] for centre in CENTRES)
    assert (none.female, none.male) == pytest.approx((0.8 / 4, -(0.6 + 0.8 + 0.6) / 4))
    usual = (-0.6 - 0.6 + 0.8 - 0.8 + 0) / 5  # of the words that state no gender
    assert mean.female == pytest.approx((0.8 - usual) / 4)
    assert mean.male == pytest.approx(-(2 * (0.6 + usual) + 0.8 + usual) / 4)
    assert (function.female, function.male) == pytest.approx((0.2, -0.2))
    assert [word.note for word in function.words] == ["function word", "", "function word", ""]
    assert (length.female, length.male) == pytest.approx((0.2 * 4 / 9, -0.2 * 4 / 9))
    assert length.added == pytest.approx(5 / 9) and none.added == 0
    assert sum(word.importance for word in length.words) == pytest.approx(4 / 9)


def test_a_clitic_is_a_function_word_but_not_for_the_published_score() -> None:
    words = ["she", "he", "woman", "man", "truck", "'s", "n't", "’s"]
    rows = [[1, 0], [-1, 0], [1, 0.1], [-1, 0.1], [-0.8, 0.6], *[[-0.6, 0.8]] * 3]
    vectors = WordVectors.of(words, np.array(rows))
    direction = gender_direction(vectors, [("she", "he"), ("woman", "man")])
    published, ours = (BiasScorer(vectors, direction, centre=centre) for centre in ("none", "function-words"))
    assert published.score("truck's").male == pytest.approx(-(0.8 + 0.6) / 2)
    for clitic in ("'s", "n't", "’s"):
        assert ours.score(f"truck{clitic}").male == pytest.approx(-0.8 / 2), clitic


@pytest.mark.parametrize("centre", CENTRES)
def test_centred_scores_of_many_are_those_of_one(centre) -> None:
    words = ["she", "he", "woman", "man", "the", "is", "pink", "truck"]
    generator = np.random.default_rng(0)
    vectors = WordVectors.of(words, generator.normal(size=(8, 5)))
    direction = gender_direction(vectors, [("she", "he"), ("woman", "man")])
    texts = ["The truck is pink", "pink", "", "she is", "zzz", "the the truck"]
    for weights in (None, counted_as([1, 2, 3, 1], 10)):
        scorer = BiasScorer(vectors, direction, weights=weights, centre=centre)
        chosen = texts if weights is None else texts[:1]
        singles = [scorer.score(text) for text in chosen]
        expected = [[single.female, single.male, single.absolute] for single in singles]
        np.testing.assert_allclose(scorer.score_many(chosen), expected, atol=1e-15)
        assert [sum(word.weighted for word in single.words) for single in singles] == pytest.approx(
            [single.female + single.male for single in singles]
        )
    assert len({BiasScorer(vectors, direction, centre=choice).identity for choice in CENTRES}) == 4
    with pytest.raises(InputError, match="function-words"):
        BiasScorer(vectors, direction, centre="half")  # type: ignore[arg-type]


def test_bars_are_plain_letters_where_a_terminal_has_no_others() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    scorer = scorer_with({"She": 0.4, **TABLE_2}, weights=counted_as(COUNTS_2, 4096))
    print_sentence(scorer.score(DRESS), Console(file=stream, width=80))
    stream.seek(0)
    assert ["likes", "716", "17.48%", "########", "-0.05719", "-0.01000"] in map(str.split, stream.read().splitlines())


def test_a_page_of_one_sentence() -> None:
    scorer = scorer_with({"She": 0.4, **TABLE_2}, weights=counted_as(COUNTS_2, 4096))
    page = sentence_page(scorer.score(DRESS))
    assert "17.48%" in page and "0.09409" in page and page.count("<rect") == 6
    widths = [float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)"', page)]
    assert np.array(widths) / max(widths) == pytest.approx(np.array(COUNTS_2) / 716, abs=1e-3)
    hostile = sentence_page(scorer_with(TABLE_2).score("<script>alert(1)</script> the dress"))
    assert "<script>alert" not in hostile and "&lt;script" in hostile and "<rect" not in hostile
    long = sentence_page(scorer_with(TABLE_2, weights=counted_as(range(300), 10**6)).score("dress " * 300))
    assert "first 100 of 300 words" in long and long.count("<rect") == 100


def test_gradients_add_up_to_the_difference(encoder: TransformerArgmax) -> None:
    pytest.importorskip("captum", reason="pip install 'evenli[attribution]'")
    torch = pytest.importorskip("torch")
    from evenli.corpus.transformer import integrated_gradients

    attributed = TransformerArgmax(encoder.spec, device="cpu", importance="gradients")
    assert attributed.identity != encoder.identity
    model, tokenizer = attributed._model, attributed._tokenizer
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt", return_attention_mask=True)
    found = integrated_gradients(model, tokenizer, batch, steps=800)
    # The same function by hand: a mask for every word, the mean of the outputs along that of the sentence.
    words = batch["attention_mask"].bool() & ~torch.isin(
        batch["input_ids"], torch.tensor([tokenizer.cls_token_id, tokenizer.sep_token_id])
    )
    masked = {
        **batch,
        "input_ids": torch.where(words, tokenizer.mask_token_id or tokenizer.unk_token_id, batch["input_ids"]),
    }
    keep = batch["attention_mask"][..., None].float()
    with torch.no_grad():
        mine, theirs = ((model(**inputs).last_hidden_state * keep).sum(1) / keep.sum(1) for inputs in (batch, masked))
    difference = ((mine - theirs) * mine / mine.norm(dim=1, keepdim=True)).sum(dim=1)
    assert difference.abs().min() > 0.05, "there is something to attribute"
    assert found.sum(dim=1).tolist() == pytest.approx(difference.tolist(), rel=0.02, abs=0.005)
    assert not found[~words].any(), "markers and padding have none"
    bias = ContextualScorer(attributed, axis(32)).score(TEXTS[0])
    assert sum(word.importance for word in bias.words) == pytest.approx(1, abs=1e-6) and bias.markers == 0
    assert attributed.encode(TEXTS)[1] == pytest.approx(mine[1].numpy(), abs=1e-5)


def test_gradients_without_captum_name_the_extra(encoder: TransformerArgmax, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(name, name=name.partition(".")[0])

    monkeypatch.setattr("evenli.core.extras.importlib.import_module", absent)
    with pytest.raises(MissingExtraError, match="evenli\\[attribution\\]"):
        TransformerArgmax(encoder.spec, device="cpu", importance="gradients")
