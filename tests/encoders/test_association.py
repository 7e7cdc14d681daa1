"""Association tests: hand-computed numbers, the slow definition, invariances, and our own test files."""

from __future__ import annotations

import io
import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import chisquare, false_discovery_control, norm

from evenli.core.errors import InputError
from evenli.encoders.seat import (
    AVERAGED,
    SeatResult,
    SeatSettings,
    TextSet,
    average_effect,
    choose_tests,
    read_test,
    seat,
    seat_from_vectors,
    seat_tests,
    texts_of,
)
from evenli.encoders.seat.association import (
    AssociationResult,
    _all_parts,
    _random_parts,
    association_test,
    benjamini_hochberg,
)
from evenli.encoders.seat.tables import associations, print_block
from evenli.stats.intervals import holm

SIZES = {
    "C1": (350, 350, 215, 250),
    "C2": (330, 330, 215, 250),
    "C6": (64, 64, 101, 112),
    "C6b": (80, 80, 101, 112),
    "C7": (72, 72, 80, 80),
    "C7b": (72, 72, 64, 64),
    "C8": (56, 56, 80, 80),
    "C8b": (56, 56, 64, 64),
}
A, B = [[1, 0], [2, 0]], [[0, 1], [0, 5]]  # s(w) = cosine minus sine of the angle of w
ONE, FIFTH, MINUS_FIFTH, MINUS_ONE = [1, 0], [4, 3], [3, 4], [0, 1]


def run(x, y, a=A, b=B, *, words=None, resamples: int = 0, **settings) -> AssociationResult:
    return association_test((x, y, a, b), SeatSettings(resamples=resamples, **settings), words=words)


def drawn(n: int, *, attributes: int = 6, dimensions: int = 10, shift: float = 0.0, seed: int = 0) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    x, y, a, b = (generator.normal(size=(size, dimensions)) for size in (n, n, attributes, attributes + 1))
    x[:, 0] += shift
    a[:, 0] += 2
    return [x, y, a, b]


def slow(x, y, a, b, *, ddof: int = 1, two_sided: bool = False) -> tuple[float, float]:
    """The definition, word by word and partition by partition."""

    def cosine(u, v) -> float:
        return float(np.dot(u, v)) / math.sqrt(float(np.dot(u, u)) * float(np.dot(v, v)))

    s = [sum(cosine(w, v) for v in a) / len(a) - sum(cosine(w, v) for v in b) / len(b) for w in [*x, *y]]
    n, centre = len(x), sum(s) / len(s)
    std = math.sqrt(sum((v - centre) ** 2 for v in s) / (len(s) - ddof))
    d = (sum(s[:n]) - sum(s[n:])) / n / std

    def statistic(half) -> float:
        inside = sum(s[i] for i in half)
        value = inside - (sum(s) - inside)
        return abs(value) if two_sided else value

    halves = list(itertools.combinations(range(2 * n), n))
    observed = statistic(range(n))
    return d, sum(statistic(half) >= observed - 1e-9 for half in halves) / len(halves)


def test_hand_computed() -> None:
    found = run([ONE, FIFTH], [MINUS_FIFTH, MINUS_ONE])
    assert found.effect.value == pytest.approx(1.2 / math.sqrt(2.08 / 3))
    assert (found.p, found.exact, found.permutations) == (pytest.approx(1 / 6), True, 6)
    assert run([ONE, FIFTH], [MINUS_FIFTH, MINUS_ONE], ddof=0).effect.value == pytest.approx(1.2 / math.sqrt(2.08 / 4))
    assert run([ONE, FIFTH], [MINUS_FIFTH, MINUS_ONE], sides="two").p == pytest.approx(2 / 6)
    mixed = run([ONE, MINUS_FIFTH], [FIFTH, MINUS_ONE])
    assert mixed.effect.value == pytest.approx(0.8 / math.sqrt(2.08 / 3))
    assert mixed.p == pytest.approx(2 / 6)
    assert run([ONE, MINUS_FIFTH], [FIFTH, MINUS_ONE], sides="two").p == pytest.approx(4 / 6)


def test_ties_count() -> None:
    # Sums of halves of 1, .2, .2, -1: the observed 1.2 twice.
    assert run([ONE, FIFTH], [[8, 6], MINUS_ONE]).p == pytest.approx(2 / 6)
    # No difference at all: X and Y hold the same values, every half at or above the middle counts.
    same = run([ONE, MINUS_ONE], [[3, 0], [0, 2]])
    assert same.effect.value == pytest.approx(0)
    assert same.p == pytest.approx(5 / 6)
    assert run([ONE, MINUS_ONE], [[3, 0], [0, 2]], sides="two").p == 1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ddof", [0, 1])
def test_equals_the_definition(seed: int, ddof: int) -> None:
    sets = drawn(5, shift=1.0, seed=seed)
    for sides in ("one", "two"):
        d, p = slow(*sets, ddof=ddof, two_sided=sides == "two")
        found = run(*sets, ddof=ddof, sides=sides)
        assert found.effect.value == pytest.approx(d, abs=1e-12)
        assert found.p == pytest.approx(p, abs=1e-12)


def test_eight_words_a_side_are_counted_exactly() -> None:
    found = run(*drawn(8))
    assert (found.exact, found.permutations) == (True, 12_870)
    assert not run(*drawn(8), permutations=12_869).exact
    assert not run(*drawn(10)).exact


def test_all_halves_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    pooled = np.sort(np.random.default_rng(0).normal(size=10))
    whole = np.array([sum(half) for half in itertools.combinations(pooled, 5)])
    monkeypatch.setattr("evenli.encoders.seat.association._COUNTED", 100)
    parts = list(_all_parts(pooled, 5))
    assert [len(part) for part in parts] == [100, 100, 52]
    np.testing.assert_allclose(np.concatenate(parts), whole, atol=1e-15)
    sets = drawn(5, shift=1.0)
    assert run(*sets).p == slow(*sets)[1]


@pytest.mark.parametrize("sides", ["one", "two"])
def test_sampled_agrees_with_exact(sides: str) -> None:
    sets = drawn(8, shift=0.6, seed=3)
    exact, sampled = run(*sets, sides=sides), run(*sets, sides=sides, permutations=12_000)
    assert exact.exact and not sampled.exact and sampled.permutations == 12_000
    assert 0.01 < exact.p < 0.99
    assert abs(sampled.p - exact.p) < 4 * math.sqrt(exact.p * (1 - exact.p) / 12_000)
    assert sampled.effect.value == exact.effect.value


def test_large_sets_agree_with_the_normal_limit() -> None:
    x, y, a, b = drawn(350, shift=0.15, seed=1)
    found = run(x, y, a, b)
    # The sum over a random half has the variance n / 2 times that of s, so z = d sqrt(n / 2).
    assert found.p == pytest.approx(norm.sf(found.effect.value * math.sqrt(350 / 2)), abs=0.005)


def test_all_halves_are_equally_likely() -> None:
    chosen = halves(60_000, 6, seed=5)
    assert (chosen.sum(axis=1) == 3).all()
    counts = np.unique(chosen @ (1 << np.arange(6)), return_counts=True)[1]
    assert len(counts) == 20
    assert chisquare(counts).pvalue > 0.001
    for size in (16, 700):
        many = halves(4_000, size)
        assert many.shape == (4_000, size) and (many.sum(axis=1) == size / 2).all()
        # Every item is as likely as any other, within five standard errors.
        assert np.abs(many.mean(axis=0) - 0.5).max() < 5 * 0.5 / math.sqrt(4_000)


def halves(count: int, size: int, seed: int = 0) -> np.ndarray:
    packed = _random_parts(count, size, size // 2, np.random.default_rng(seed))
    bits = np.unpackbits(packed, axis=0).T
    assert not bits[:, size:].any()  # the bits that only fill up the last byte
    return bits[:, :size]


def test_p_is_never_zero() -> None:
    sets = drawn(20, shift=50.0)
    assert run(*sets, permutations=1_000).p == 1 / 1_000
    assert run(*sets, permutations=1_000, sides="two").p == 1 / 1_000
    assert run(*drawn(8, shift=50.0)).p == pytest.approx(1 / 12_870)


@pytest.mark.parametrize("n", [7, 30])
def test_swapping_targets_flips_the_sign_and_keeps_the_two_sided_p(n: int) -> None:
    x, y, a, b = drawn(n, shift=0.5)
    first, second = (run(*pair, a, b, sides="two", permutations=5_000) for pair in ((x, y), (y, x)))
    assert second.effect.value == pytest.approx(-first.effect.value)
    assert second.p == first.p


def test_swapping_attributes_flips_the_sign_and_keeps_the_two_sided_p() -> None:
    x, y, a, b = drawn(7, shift=0.5)
    first, second = run(x, y, a, b, sides="two"), run(x, y, b, a, sides="two")
    assert second.effect.value == pytest.approx(-first.effect.value)
    assert second.p == first.p
    assert run(y, x, b, a).effect.value == pytest.approx(first.effect.value)
    # One-sided, the two directions share the observed half and nothing else.
    assert run(x, y, a, b).p + run(x, y, b, a).p == pytest.approx(1 + 1 / math.comb(14, 7))


@pytest.mark.parametrize("n", [7, 30])
def test_scale_rotation_and_order_do_not_matter(n: int) -> None:
    x, y, a, b = sets = drawn(n, shift=0.5)
    generator = np.random.default_rng(9)
    plain = run(*sets, permutations=5_000)
    rotation = np.linalg.qr(generator.normal(size=(10, 10)))[0]
    changed = [
        [part * generator.uniform(0.1, 9, size=(len(part), 1)) for part in sets],
        [part * 1e200 for part in sets],
        [part @ rotation for part in sets],
        [generator.permutation(part) for part in sets],
        [np.repeat(part, 2, axis=0) if part is a or part is b else part for part in sets],
    ]
    for parts in changed:
        found = run(*parts, permutations=5_000)
        assert found.effect.value == pytest.approx(plain.effect.value, abs=1e-9)
        assert found.p == plain.p
    assert run(x + 1, y, a, b).effect.value != pytest.approx(
        plain.effect.value, abs=1e-3
    )  # control: a shift does matter


def test_the_generator_decides_everything() -> None:
    sets = drawn(30, shift=0.2)
    assert run(*sets, resamples=200) == run(*sets, resamples=200)
    assert run(*sets, resamples=200).p != run(*sets, resamples=200, seed=1).p


@pytest.mark.parametrize(
    ("sets", "reason"),
    [
        (([ONE, FIFTH, FIFTH], [ONE, FIFTH], A, B), "|X| = 3"),
        (([ONE], [FIFTH], A, B), "|Y| = 1"),
        (([], [ONE, FIFTH], A, B), "|X| = 0"),
        (([ONE, FIFTH], [ONE, FIFTH], [ONE], B), "|A| = 1"),
        (([ONE, [0, 0]], [ONE, FIFTH], A, B), "X are zero"),
        (([ONE, FIFTH], [ONE, FIFTH], A, [[0, 0], [0, 0]]), "B are zero"),
        (([ONE, [math.nan, 1]], [ONE, FIFTH], A, B), "1 of 2 embeddings of X"),
        (([FIFTH, [8, 6]], [FIFTH, [12, 9]], A, B), "same association"),
        (([ONE, FIFTH], [ONE, MINUS_ONE], A, A), "same association"),
    ],
)
def test_undefined_is_nan_with_a_reason(sets, reason: str) -> None:
    found = run(*sets, resamples=200)
    assert math.isnan(found.effect.value) and math.isnan(found.p) and math.isnan(found.effect.low)
    assert reason in found.effect.note
    assert found.permutations == 0
    assert found.to_dict()["effect"]["value"] is None
    assert math.isnan(AssociationResult.from_dict(found.to_dict()).effect.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sides": "three"}, "three"),
        ({"ddof": 2}, "ddof"),
        ({"permutations": 10}, "permutations is 10"),
        ({"resamples": 10}, "resamples is 10"),
        ({"coverage": 95}, "coverage"),
        ({"level": "token"}, "token"),
        ({"words": [["a"], ["b"], ["c"], ["d"]]}, "word"),
    ],
)
def test_bad_settings(settings, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run([ONE, FIFTH], [ONE, MINUS_ONE], **settings)


def test_bad_embeddings() -> None:
    with pytest.raises(InputError, match=r"\[2, 3\]"):
        run([ONE, FIFTH], [[1, 2, 3], [3, 2, 1]])
    with pytest.raises(InputError, match="row"):
        run([1.0, 2.0], [ONE, FIFTH])
    with pytest.raises(InputError, match="table"):
        run([["a", "b"]], [ONE, FIFTH])


def test_interval_surrounds_the_effect_and_grows_with_the_level() -> None:
    sets = drawn(40, attributes=40, shift=1.0)
    narrow, wide = (run(*sets, resamples=1_000, coverage=level) for level in (0.5, 0.95))
    assert wide.effect.low < narrow.effect.low < wide.effect.value < narrow.effect.high < wide.effect.high
    assert wide.effect.low > 0
    # Control: the interval of a test without effect holds 0.
    null = run(*drawn(40, attributes=40), resamples=1_000)
    assert null.effect.low < 0 < null.effect.high


def test_sentences_of_one_word_do_not_count_as_evidence_of_their_own() -> None:
    sets = drawn(8, attributes=8, shift=0.5)
    words = [[str(i) for i in range(len(part))] for part in sets]
    one_each = run(*sets, words=words, resamples=2_000)
    sentences = [np.repeat(part, 10, axis=0) for part in sets]
    behind = [list(np.repeat(part, 10)) for part in words]
    by_word = run(*sentences, words=behind, resamples=2_000)
    naive = run(*sentences, resamples=2_000)
    width, honest = naive.effect.high - naive.effect.low, by_word.effect.high - by_word.effect.low
    assert honest > 2 * width
    assert honest == pytest.approx(one_each.effect.high - one_each.effect.low, rel=0.1)
    shared = run(*sentences, words=[["w"] * 80, *behind[1:]], resamples=200)
    assert math.isnan(shared.effect.low) and not math.isnan(shared.effect.value)
    assert shared.effect.note == "no interval: only one word behind X"


def planted(generator: np.random.Generator, words: int, sentences: int) -> tuple[list[np.ndarray], list[list[str]]]:
    """Two samples of words from one population: a word differs from others, its sentences hardly from each other."""
    centres = generator.normal(size=(2 * words, 8))
    targets = np.repeat(centres, sentences, axis=0) + 0.3 * generator.normal(size=(2 * words * sentences, 8))
    names = [str(word) for word in range(words) for _ in range(sentences)]
    attributes = generator.normal(size=(2, 6, 8))
    half = words * sentences
    own = [str(at) for at in range(6)]
    return [targets[:half], targets[half:], *attributes], [names, names, own, own]


def test_like_against_like_is_found_as_often_as_said() -> None:
    generator, draws = np.random.default_rng(7), 500
    honest, published = 0, 0
    for _ in range(draws):
        sets, words = planted(generator, 6, 8)
        found = run(*sets, words=words, permutations=1_000)
        honest, published = honest + (found.p <= 0.05), published + (found.p_published <= 0.05)
    assert 0.03 <= honest / draws <= 0.07
    assert published / draws > 0.15  # the control: sentences of one word are taken for independent


def test_p_deals_out_words_and_the_published_one_texts() -> None:
    sets = drawn(8, attributes=8, shift=0.5)
    words = [[str(i) for i in range(len(part))] for part in sets]
    one_each = run(*sets, words=words)
    assert one_each.p == one_each.p_published == run(*sets).p
    behind = [list(np.repeat(part, 5)) for part in words]
    repeated = run(*(np.repeat(part, 5, axis=0) for part in sets), words=behind)
    assert repeated.p == pytest.approx(one_each.p) and repeated.exact and repeated.permutations == 12_870
    assert repeated.p_published < one_each.p / 2


@pytest.mark.parametrize("sides", ["one", "two"])
def test_unequal_numbers_of_words_are_dealt_out_in_their_numbers(sides: str) -> None:
    generator = np.random.default_rng(4)
    x, y, a, b = (generator.normal(size=(n, 5)) for n in (12, 12, 4, 4))
    words = [[f"{at // 6}" for at in range(12)], [f"{at // 2}" for at in range(12)], list("abcd"), list("abcd")]
    found = run(x, y, a, b, words=words, sides=sides)  # 2 words against 6

    def unit(rows: np.ndarray) -> np.ndarray:
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    s = unit(np.concatenate([x, y])) @ (unit(a).mean(axis=0) - unit(b).mean(axis=0))
    means = np.array([*s[:12].reshape(2, 6).mean(axis=1), *s[12:].reshape(6, 2).mean(axis=1)])
    differences = []
    for part in itertools.combinations(range(8), 2):
        rest = [at for at in range(8) if at not in part]
        differences.append(means[list(part)].mean() - means[rest].mean())
    seen = np.array(differences) if sides == "one" else np.abs(differences)
    assert found.permutations == 28 and found.p == pytest.approx(float(np.mean(seen >= seen[0] - 1e-12)))


def test_corrections() -> None:
    p = [0.01, 0.02, 0.03, 0.04, 0.9]
    assert holm(p) == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.9])
    assert benjamini_hochberg(p) == pytest.approx([0.05, 0.05, 0.05, 0.05, 0.9])
    generator = np.random.default_rng(0)
    many = generator.uniform(size=40) ** 3
    assert benjamini_hochberg(list(many)) == pytest.approx(list(false_discovery_control(many)))
    with_gap = benjamini_hochberg([0.01, math.nan, 0.04])
    assert with_gap[0] == pytest.approx(0.02) and math.isnan(with_gap[1]) and with_gap[2] == pytest.approx(0.04)
    assert benjamini_hochberg([]) == []


def test_average_effect() -> None:
    effects = dict(zip(AVERAGED, (1.0, -1.0, 0.5, 0.5, -0.5, 1.0), strict=True)) | {"C1": 9.0}
    assert average_effect(effects).signed == pytest.approx(0.25)
    assert average_effect(effects).absolute == pytest.approx(0.75)
    missing = average_effect({"C6": 1.0, "C6b": math.nan})
    assert math.isnan(missing.signed) and missing.note == "undefined: no effect for C6b, C7, C7b, C8, C8b"


def test_a_set_holds_no_text_twice() -> None:
    with pytest.raises(InputError, match="rose"):
        TextSet("Flowers", ("rose", "rose"), ("rose", "rose"))


def test_our_tests_have_the_published_sizes() -> None:
    assert {test.name: tuple(map(len, test.sets)) for test in seat_tests()} == SIZES
    for test in seat_tests("word"):
        assert {len(part) for part in test.sets} == {25 if test.name in ("C1", "C2") else 8}
        assert all(part.texts == part.words for part in test.sets)


def test_sentences_are_built_from_their_word() -> None:
    (flowers,) = seat_tests(names=["C1"])
    assert flowers.x.texts[:2] == ("This is an aster.", "That is an aster.")
    assert {"An honor is a thing.", "Families are things.", "They are happy.", "This is peace."} <= set(flowers.a.texts)
    assert {"That may pollute.", "It is filth."} <= set(flowers.b.texts)
    assert dict(zip(flowers.x.texts, flowers.x.words, strict=True))["Poppies are things."] == "poppy"
    (terms,) = seat_tests(names=["C6b"])
    assert {"Women are people.", "Here she is.", "It is her.", "Hers is there."} <= set(terms.y.texts)
    assert "A cousin is a thing." in terms.b.texts
    for test in seat_tests():
        for part, word_part in zip(test.sets, seat_tests("word", [test.name])[0].sets, strict=True):
            assert set(part.words) == set(word_part.words)  # thinning loses no word
            assert all(text[0].isupper() and text.endswith(".") and "{" not in text for text in part.texts)


def test_choice_of_tests() -> None:
    assert [test.name for test in seat_tests("word", ["C8", "C1"])] == ["C8", "C1"]
    with pytest.raises(InputError, match="C3"):
        seat_tests(names=["C3"])
    with pytest.raises(InputError, match="token"):
        seat_tests("token")


def test_our_sentences_beside_the_released_ones(shared_data: Path) -> None:
    for test in seat_tests("word"):
        released = read_test(shared_data / "seat" / f"weat{test.name[1:]}.json")
        assert [set(part.texts) for part in test.sets] == [set(part.texts) for part in released.sets]
    for test in seat_tests():
        released = read_test(shared_data / "seat" / f"sent-weat{test.name[1:]}.json")
        assert tuple(map(len, released.sets)) == SIZES[test.name]
        # Where nothing was thinned, the sentences are the same; C2 writes "knifes" where we write "knives".
        unchanged = {"C1": (0, 1, 2, 3), "C6": (0, 1, 2, 3), "C6b": (0, 1, 2, 3)}.get(test.name, (2, 3))
        for i in unchanged:
            assert set(test.sets[i].texts) == set(released.sets[i].texts)


def user_file(folder: Path, **changes: object) -> Path:
    content: dict[str, object] = {
        "targ1": {"category": "Cats", "examples": ["cat", "lynx", "cat"]},
        "targ2": {"category": "Dogs", "examples": ["dog", "wolf"]},
        "attr1": {"category": "Calm", "examples": ["calm", "still"]},
        "attr2": {"examples": ["loud", "wild"]},
    }
    content = {key: value for key, value in {**content, **changes}.items() if value is not None}
    path = folder / "pets.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_a_user_file(tmp_path: Path) -> None:
    test = read_test(user_file(tmp_path))
    assert (test.name, test.level, test.x.title, test.b.title) == ("pets", "word", "Cats", "attr2")
    assert test.x.texts == ("cat", "lynx")
    sentences = user_file(tmp_path, attr1={"category": "Calm", "examples": ["It is calm.", "It is still."]})
    assert read_test(sentences).level == "sentence"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"targ2": None, "attr1": None}, "targ2, attr1"),
        ({"targ2": {"examples": ["dog", "wolf", "fox"]}}, "targ1.*targ2"),
        ({"attr1": {"examples": []}}, "attr1.*examples"),
        ({"attr1": ["calm"]}, "attr1.*examples"),
        ({"attr1": {"examples": ["calm", 3]}}, "attr1.*3"),
        ({"attr1": {"examples": ["calm", " "]}}, 'attr1: " "'),
    ],
)
def test_broken_user_files(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        read_test(user_file(tmp_path, **changes))
    assert "\n" not in str(raised.value)


def test_jsonl_files_are_one_test_or_one_a_line(tmp_path: Path) -> None:
    def part(*words: str) -> dict[str, object]:
        return {"category": words[0], "examples": list(words)}

    sets = {role: part(f"{role} one", f"{role} two") for role in ("targ1", "targ2", "attr1", "attr2")}
    file = tmp_path / "weat.jsonl"
    file.write_text(json.dumps(sets, indent=2), encoding="utf-8")  # as sent-bias has them
    assert [test.name for test in choose_tests([file])] == ["weat"]
    file.write_text(f"{json.dumps(sets)}\n{json.dumps(sets)}\n", encoding="utf-8")
    assert [(test.name, test.x.texts[0]) for test in choose_tests([file])] == [
        ("weat-1", "targ1 one"),
        ("weat-2", "targ1 one"),
    ]
    file.write_text(f'{json.dumps(sets)}\n{{"targ1": 3}}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"line 2.*targ2"):
        choose_tests([file])


def test_unreadable_user_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none.json"):
        read_test(tmp_path / "none.json")
    (tmp_path / "half.json").write_text('{"targ1": ')
    with pytest.raises(InputError, match="half.json"):
        read_test(tmp_path / "half.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(InputError, match="expected an object"):
        read_test(tmp_path / "list.json")


def stereotyped(tests, seed: int = 0) -> dict[str, np.ndarray]:
    """Vectors in which the first targets and attributes of C7 and C8 share a direction."""
    generator = np.random.default_rng(seed)
    vectors = {text: generator.normal(size=20) for text in texts_of(tests)}
    for test in tests:
        if test.name in ("C7", "C8"):
            for text in (*test.x.texts, *test.a.texts):
                vectors[text] = vectors[text] + 4 * np.eye(20)[0]
    return vectors


def test_all_tests_together() -> None:
    tests = seat_tests("word")
    vectors = stereotyped(tests)
    results = seat_from_vectors(tests, vectors, SeatSettings(permutations=20_000)).tests
    assert [result.name for result in results] == list(SIZES)
    assert [result.exact for result in results] == [False] * 2 + [True] * 6
    assert [result.p_holm for result in results] == holm([result.p for result in results])
    assert all(result.p <= result.p_bh <= result.p_holm for result in results)
    by_name = {result.name: result for result in results}
    assert by_name["C7"].p < 0.001 and by_name["C7"].effect.value > 1.5
    assert by_name["C6"].p > 0.05  # control: nothing was planted there
    with pytest.raises(InputError, match="aster"):
        seat_from_vectors(tests, {})


def test_what_a_test_finds_does_not_depend_on_the_others() -> None:
    every = seat_tests()
    vectors = stereotyped(every)

    def found(tests, seed: int = 0) -> dict[str, tuple[float, ...]]:
        result = seat_from_vectors(tests, vectors, SeatSettings(seed=seed, permutations=1_000, resamples=200))
        return {test.name: (test.effect.value, test.p, test.effect.low, test.effect.high) for test in result.tests}

    together = found(every)
    assert found(every[::-1]) == together
    for test in every:
        assert found([test]) == {test.name: together[test.name]}
    other = found(every, seed=1)
    assert all(other[name][2:] != together[name][2:] for name in together)
    # The same texts under another name are drawn for anew.
    renamed = found([replace(test, name=f"own {test.name}") for test in every])
    assert all(renamed[f"own {name}"][2:] != together[name][2:] for name in together)


def test_vectors_decide_not_the_path() -> None:
    tests = seat_tests("word", ["C8"])
    vectors = stereotyped(tests)
    found = seat_from_vectors(tests, vectors, SeatSettings(resamples=0))["C8"]
    arrays = [np.array([vectors[text] for text in part.texts]) for part in tests[0].sets]
    d, p = slow(*arrays)
    assert found.effect.value == pytest.approx(d) and found.p == pytest.approx(p)


class Known:
    """An encoder over some words: the vectors of ``stereotyped``; it knows all words but roses."""

    identity = "known"

    def __init__(self, tests) -> None:
        self.vectors = stereotyped(tests)

    def encode(self, texts):
        return np.array([self.vectors[text] for text in texts])

    def unknown(self, words):
        return [word for word in words if word == "rose"]


def test_one_call_gives_a_typed_result() -> None:
    tests = seat_tests("word")
    settings = SeatSettings(level="word", permutations=1_000, resamples=200)
    result = seat(Known(tests), settings=settings)
    from_vectors = seat_from_vectors(tests, {t: v.astype(np.float32) for t, v in stereotyped(tests).items()}, settings)
    assert [test.effect.value for test in result.tests] == [test.effect.value for test in from_vectors.tests]
    assert result["C1"].missing_vectors == ("rose",) and "(rose)" in result["C1"].effect.note
    assert result["C7"].missing_vectors == () and result["C7"].effect.note == ""
    effects = [result[name].effect.value for name in AVERAGED]
    assert result.mean.signed == pytest.approx(np.mean(effects))
    assert result.mean.absolute == pytest.approx(np.mean(np.abs(effects)))
    assert repr(result).startswith("SeatResult(8 tests, mean effect +") and "\n" not in repr(result)
    content = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert content["identity"] == "known" and content["settings"]["permutations"] == 1_000
    assert AssociationResult.from_dict(content["tests"][0]).to_dict() == result.tests[0].to_dict()
    some = seat(Known(tests), ["C8", tests[0]], settings)
    assert [test.name for test in some.tests] == ["C8", "C1"] and some.mean.note and some.to_dict()["mean"] is None


def test_tests_are_chosen_once_each(tmp_path: Path) -> None:
    pets = user_file(tmp_path)
    assert [test.name for test in choose_tests(["C8", pets, "C8"], "word")] == ["C8", "pets"]
    with pytest.raises(InputError, match="pets"):
        choose_tests([pets, read_test(pets)])
    for wrong in ([], "C6"):
        with pytest.raises(InputError, match="list"):
            choose_tests(wrong)


def test_the_report_fits_and_names_what_is_missing() -> None:
    published = ("+1.629", "+1.523", "+1.254")
    for level in ("sentence", "word"):
        tests = seat_tests(level)
        result = seat_from_vectors(tests, stereotyped(tests), SeatSettings(permutations=2_000, resamples=100))
        text = rendered(result)
        assert max(map(len, text.splitlines())) <= 80
        # The published effects are those of sentences.
        assert all((value in text) == (level == "sentence") for value in published)
        assert "95% interval" in text and f"{result.mean.signed:+.3f}" in text
    undefined = run([ONE], [FIFTH])
    text = rendered(SeatResult((undefined,)))
    assert "n/a" in text and "every set needs at least 2" in text and "published" not in text
    assert rendered(SeatResult(()))


def rendered(result: SeatResult) -> str:
    stream = io.StringIO()
    print_block(associations(result), Console(file=stream, width=80))
    return stream.getvalue()
