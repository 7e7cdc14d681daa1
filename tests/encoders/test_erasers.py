"""Erasers keep their promise, and the controls show that there was something to erase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from evenli.core.errors import InputError, ModelError, RunError
from evenli.core.record import Estimate
from evenli.encoders.direction import bias_of, gender_direction
from evenli.encoders.eraser import Erased, Eraser, load_eraser, projection
from evenli.encoders.gendered import FEMALE, MALE
from evenli.encoders.hard_debias import gender_specific_words, hard_debias, normalised, save_vectors
from evenli.encoders.inlp import fit_inlp
from evenli.encoders.leace import fit_leace, fit_leace_pairs
from evenli.encoders.leakage import (
    HeldOut,
    Labelled,
    _correlation,
    _neighbour_bias,
    _over_seeds,
    _part,
    leakage,
    neighbour_clustering,
)
from evenli.encoders.sent_debias import fit_sentence_debias
from evenli.encoders.vectors import WordVectors, load_vectors
from evenli.stats.intervals import wilson

D = 12


def concept(classes: int = 2, n: int = 1200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Correlated embeddings whose mean depends on the class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    mix = rng.normal(size=(D, D))
    shift = 1.5 * rng.normal(size=(classes, D))
    return rng.normal(size=(n, D)) @ mix + shift[y] @ mix / 2 + 3, y


def class_means(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.stack([x[y == label].mean(axis=0) for label in np.unique(y)])


def mean_projection(x: np.ndarray, y: np.ndarray) -> Eraser:
    """The simple way to equal class means, which changes more than LEACE."""
    means = class_means(x, y)
    return projection(means - means.mean(axis=0))


def change(eraser, x: np.ndarray) -> float:
    return float(((eraser(x) - x) ** 2).sum(axis=1).mean())


def fitted(name: str, x: np.ndarray, y: np.ndarray):
    return {
        "mean": lambda: mean_projection(x, y),
        "leace": lambda: fit_leace(x, y),
        "inlp": lambda: fit_inlp(x, y, 6, np.random.default_rng(1)),
    }[name]()


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("fit", [mean_projection, fit_leace])
def test_class_means_are_equal_and_uncorrelated_with_the_class(fit, classes: int) -> None:
    x, y = concept(classes)
    before, after = class_means(x, y), class_means(fit(x, y)(x), y)
    assert np.ptp(before, axis=0).max() > 0.5
    assert np.ptp(after, axis=0).max() < 1e-10
    erased = fit(x, y)(x)
    onehot = np.eye(classes)[y]
    cross = (erased - erased.mean(axis=0)).T @ (onehot - onehot.mean(axis=0)) / len(x)
    assert np.abs(cross).max() < 1e-10
    assert fit(x, y).rank == classes - 1


@pytest.mark.parametrize("name", ["mean", "leace", "inlp"])
def test_idempotent_and_of_lower_rank(name: str) -> None:
    x, y = concept()
    eraser = fitted(name, x, y)
    once = eraser(x)
    np.testing.assert_allclose(eraser(once), once, atol=1e-9)
    assert np.linalg.matrix_rank(once - once.mean(axis=0), tol=1e-6) == D - eraser.rank


def test_leace_keeps_the_mean_and_moves_least() -> None:
    x, y = concept()
    leace = fit_leace(x, y, shrinkage=False)
    np.testing.assert_allclose(leace(x).mean(axis=0), x.mean(axis=0), atol=1e-10)
    least = change(leace, x)
    assert 0 < least < change(mean_projection(x, y), x)
    assert least < change(fit_inlp(x, y, 6, np.random.default_rng(1)), x)
    # Every oblique projection along the difference of means erases linearly, too: none may be cheaper.
    rng = np.random.default_rng(2)
    difference = np.diff(class_means(x, y), axis=0).T
    for step in (0.01, 0.1, 1.0):
        for _ in range(20):
            read = leace.read + step * np.abs(leace.read).mean() * rng.normal(size=leace.read.shape)
            other = Eraser(read=read, write=difference / (read @ difference), centre=x.mean(axis=0))
            assert np.ptp(class_means(other(x), y), axis=0).max() < 1e-9
            assert change(other, x) >= least


def test_leace_of_word_pairs_holds_where_the_words_are_mixed_otherwise() -> None:
    generator = np.random.default_rng(0)
    d, kinds = 40, 4
    steps = generator.normal(size=(kinds, d))  # what tells the two words of a pair apart

    def sentences(shares: Sequence[float], n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        which = generator.choice(kinds, size=n, p=shares)
        base = generator.normal(size=(n, d))
        return base + steps[which], base - steps[which], which

    female, male, which = sentences((0.7, 0.1, 0.1, 0.1), 600)
    by_pairs = fit_leace_pairs(female, male, [f"pair {at}" for at in which])
    pooled = fit_leace(np.concatenate([female, male]), np.repeat([0, 1], 600))
    assert (by_pairs.rank, pooled.rank) == (kinds, 1)
    female, male, _ = sentences((0.1, 0.1, 0.1, 0.7), 600)  # other text
    x, y = np.concatenate([female, male]), np.repeat([0, 1], 600)
    order = generator.permutation(1200)
    train, test = order[:600], order[600:]

    def left(rows: np.ndarray) -> float:
        return leakage(rows[train], y[train], rows[test], y[test], np.random.default_rng(0)).linear.value

    assert left(x) > 0.95 and left(pooled(x)) > 0.7 and left(by_pairs(x)) < 0.6
    assert fit_leace_pairs(female, male, ["one"] * 600).rank == 1
    with pytest.raises(InputError, match="concept"):
        fit_leace_pairs(female, male, ["one"])


def test_leace_moves_least_in_other_norms() -> None:
    x, y = concept()
    scale = np.random.default_rng(3).normal(size=(D, D))
    leace, mean = fit_leace(x, y, shrinkage=False), mean_projection(x, y)
    assert ((((leace(x) - x) @ scale) ** 2).sum()) < (((mean(x) - x) @ scale) ** 2).sum()
    # Least in every norm means that the map turns with the space.
    turned = fit_leace(x @ scale, y, shrinkage=False)
    np.testing.assert_allclose(turned(x @ scale), leace(x) @ scale, atol=1e-6)


def test_leace_with_fewer_rows_than_dimensions_and_constant_columns() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 10)
    x = np.hstack([rng.normal(size=(20, 30)) + y[:, None], np.full((20, 2), 5.0)])
    erased = fit_leace(x, y)(x)
    assert np.ptp(class_means(erased, y), axis=0).max() < 1e-9
    np.testing.assert_allclose(erased[:, -2:], 5.0)


def test_labels_may_be_names() -> None:
    x, y = concept()
    named = np.where(y == 1, "woman", "man")
    np.testing.assert_allclose(fit_leace(x, named).read, fit_leace(x, y).read, atol=1e-9)


@pytest.mark.parametrize("name", ["mean", "leace", "inlp"])
def test_linear_probe_learns_before_and_falls_to_chance(name: str) -> None:
    x, y = concept(n=1500)
    train, test = slice(0, 1000), slice(1000, None)
    eraser = fitted(name, x[train], y[train])
    before = leakage(x[train], y[train], x[test], y[test], np.random.default_rng(0))
    after = leakage(eraser(x[train]), y[train], eraser(x[test]), y[test], np.random.default_rng(0))
    assert before.linear.low > 0.8 and before.mlp.low > 0.8
    assert after.linear.value < 0.6 and abs(after.linear.value - 0.5) < 0.08
    assert before.linear.n == 500 and before.majority == np.mean(y[test] == np.bincount(y[train]).argmax())


def test_mlp_still_finds_what_no_linear_probe_can() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=1500)
    x = rng.normal(size=(1500, 4))
    x[:, 0] *= 1 + 4 * y  # the classes share a mean along this axis and differ in spread
    x[:, 1] += 3 * y
    eraser = fit_leace(x[:1000], y[:1000])
    found = leakage(eraser(x[:1000]), y[:1000], eraser(x[1000:]), y[1000:], np.random.default_rng(0))
    assert found.linear.value < 0.6
    assert found.mlp.low > 0.7


def test_an_interrupt_ends_the_neural_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """scikit-learn goes on with the half-trained probe, whose accuracy would be reported."""
    network = pytest.importorskip("sklearn.neural_network")

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(network.MLPClassifier, "_backprop", interrupt)
    generator = np.random.default_rng(0)
    rows, classes = generator.normal(size=(40, 3)), np.arange(40) % 2
    with pytest.raises(KeyboardInterrupt):
        leakage(rows, classes, rows, classes, generator)


def test_rows_of_the_fit_must_be_apart_from_those_of_the_probe() -> None:
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 450)
    x = rng.normal(size=(900, 100)) + y[:, None]
    other, train, test = slice(0, 300), slice(300, 600), slice(600, None)

    def linear(fit: slice) -> Estimate:
        eraser = fit_leace(x[fit], y[fit])
        return leakage(eraser(x[train]), y[train], eraser(x[test]), y[test], np.random.default_rng(0)).linear

    assert linear(train).value == pytest.approx(0.5, abs=0.1)  # nothing linear is left on the rows of the fit
    assert linear(slice(300, None)).high < 0.5  # test rows seen: below chance
    assert linear(other).low > 0.5  # apart: what three rows a dimension leave behind


def test_wilson_interval_by_hand() -> None:
    x = np.repeat([[0.0], [1.0]], 20, axis=0)
    y = np.repeat([0, 1], 20)
    found = leakage(x, y, x[[0, 1, 20, 21]], [0, 0, 1, 0], np.random.default_rng(0)).linear
    # 3 of 4 right: centre (0.75 + z^2/8) / (1 + z^2/4) = 0.6276 with half-width 0.3270
    assert (found.value, found.n) == (0.75, 4)
    assert found.low == pytest.approx(0.3006, abs=1e-4) and found.high == pytest.approx(0.9544, abs=1e-4)


def test_inlp_records_its_rounds_and_stops_at_chance() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 600)
    x = rng.normal(size=(1200, D))
    x[:, 0] += 4 * y  # one direction has it all, so few rounds should do
    eraser = fit_inlp(x, y, 11, np.random.default_rng(1))
    assert eraser.history[0] > 0.95
    assert eraser.history[-1] <= 0.5 < min(eraser.history[:-1])
    assert len(eraser.history) == eraser.rank + 1 <= 5
    first = fit_inlp(x, y, 1, np.random.default_rng(1))
    assert first.rank == 1 and first.history == eraser.history[:2]
    assert abs(first.read[0, 0]) > 0.99 and first.history[1] < 0.6
    inside = first.read @ eraser.read.T @ eraser.read
    np.testing.assert_allclose(inside, first.read, atol=1e-9)


def test_inlp_removes_one_direction_less_than_classes_a_round() -> None:
    x, y = concept(4)
    assert fit_inlp(x, y, 2, np.random.default_rng(0)).rank == 6


def test_sentence_debias_finds_the_planted_direction() -> None:
    rng = np.random.default_rng(0)
    g = np.eye(D)[0]
    male = rng.normal(size=(50, D))
    female = male + 2 * g + 0.1 * rng.normal(size=(50, D))
    eraser = fit_sentence_debias(female, male)
    assert abs(eraser.read[0] @ g) > 0.999  # centred differences would be noise: the shared part is g
    assert np.abs(eraser(female) @ eraser.read.T).max() < 1e-12
    rows = np.vstack([(female - male) / 2, (male - female) / 2])
    _, axes = np.linalg.eigh(np.cov(rows.T))
    assert abs(eraser.read[0] @ axes[:, -1]) == pytest.approx(1)
    three = fit_sentence_debias(female, male, components=3)
    assert three.rank == 3 and np.trace(np.cov(three(male).T)) < np.trace(np.cov(eraser(male).T))


def test_projection_by_hand() -> None:
    eraser = projection([[2.0, 0, 0], [4.0, 0, 0], [0, 3.0, 0]])
    assert eraser.rank == 2 and eraser.dimension == 3
    np.testing.assert_allclose(eraser([[5.0, 6.0, 7.0]]), [[0, 0, 7]], atol=1e-12)
    assert eraser(np.ones((2, 3), dtype=np.float32)).dtype == np.float32


def test_erasers_are_frozen() -> None:
    x, y = concept()
    for eraser in (mean_projection(x, y), fit_leace(x, y)):
        with pytest.raises(FrozenInstanceError):
            eraser.method = "other"
        with pytest.raises(ValueError, match="read-only"):
            eraser.read[0] = 0


@pytest.mark.parametrize("name", ["mean", "leace", "inlp"])
def test_saved_and_loaded_is_the_same_eraser(name: str, tmp_path: Path) -> None:
    x, y = concept()
    eraser = fitted(name, x, y)
    again = load_eraser(eraser.save(tmp_path / "e.npz"))
    np.testing.assert_allclose(again(x), eraser(x), atol=1e-12)
    assert type(again) is type(eraser)
    assert (again.method, again.history, again.identity) == (eraser.method, eraser.history, eraser.identity)
    assert eraser.identity != fitted(name, x + 0.1 * y[:, None] * x, y).identity


def test_broken_eraser_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none.npz"):
        load_eraser(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("not an archive")
    with pytest.raises(InputError, match="text.npz"):
        load_eraser(tmp_path / "text.npz")
    about = {"layout": 2, "method": "m", "history": np.zeros(0)}
    np.savez(tmp_path / "layout.npz", read=np.eye(2), **{**about, "layout": 9})
    with pytest.raises(InputError, match="layout 9"):
        load_eraser(tmp_path / "layout.npz")
    np.savez(tmp_path / "arrays.npz", read=np.eye(2), **about)
    with pytest.raises(InputError, match="arrays.npz"):
        load_eraser(tmp_path / "arrays.npz")
    with pytest.raises(InputError, match="pickled.npz"):
        np.savez(tmp_path / "pickled.npz", read=np.array({"a": 1}, dtype=object))
        load_eraser(tmp_path / "pickled.npz")
    with pytest.raises(InputError, match=r"\.npz"):
        projection(np.eye(2)[:1]).save(tmp_path / "e.pkl")
    with pytest.raises(RunError, match="e.npz"):
        projection(np.eye(2)[:1]).save(tmp_path / "text.npz" / "e.npz")


@pytest.mark.parametrize("fit", [fit_leace, lambda x, y: fit_inlp(x, y, 2, np.random.default_rng(0))])
def test_bad_training_rows(fit) -> None:
    x, y = concept(n=40)
    with pytest.raises(InputError, match="class 1"):
        fit(x, np.ones(40, dtype=int))
    with pytest.raises(InputError, match="finite"):
        fit(np.where(np.arange(40)[:, None] == 3, np.nan, x), y)
    with pytest.raises(InputError, match=r"\(39,\)"):
        fit(x, y[1:])
    with pytest.raises(InputError, match="class 7"):
        fit(x, np.where(np.arange(40) == 0, 7, 0))
    with pytest.raises(InputError, match="classes"):
        fit(x, np.where(np.arange(40) == 0, np.nan, y))
    with pytest.raises(InputError, match="linear"):
        fit(np.tile([[1.0, 2.0, 0.5], [3.0, 1.0, 2.5]], (20, 1)), np.repeat([0, 1], 20))


def test_bad_input_names_both_numbers() -> None:
    x, y = concept()
    for eraser in (mean_projection(x, y), fit_leace(x, y)):
        with pytest.raises(InputError, match=r"\(5, 7\)"):
            eraser(np.ones((5, 7)))
        with pytest.raises(InputError, match="finite"):
            eraser(np.full((5, 12), np.inf))
    with pytest.raises(InputError, match="12 rounds"):
        fit_inlp(x, y, 12, np.random.default_rng(0))
    with pytest.raises(InputError, match=r"\(4, 2\)"):
        fit_sentence_debias(np.ones((3, 2)), np.ones((4, 2)))
    with pytest.raises(InputError, match="component"):
        fit_sentence_debias([[1.0, 0], [2.0, 1]], [[0, 0], [1.0, 1]], components=2)
    with pytest.raises(InputError, match="differ"):
        fit_sentence_debias(np.ones((3, 2)), np.ones((3, 2)))
    with pytest.raises(InputError, match="zero"):
        projection(np.zeros((1, 3)))
    with pytest.raises(InputError, match="identity"):
        Eraser(read=np.eye(2)[:1], write=np.full((2, 1), 0.5), centre=np.zeros(2))


class Letters:
    """Counts of the letters a to l: an encoder of 12 numbers."""

    identity = "letters"

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([[text.lower().count(letter) for letter in "abcdefghijkl"] for text in texts], dtype=np.float32)


def test_erased_encoder_is_an_encoder(tmp_path: Path) -> None:
    no_e = projection(np.eye(D)[4])
    encoder = Erased(Letters(), no_e)
    np.testing.assert_allclose(encoder.encode(["eel"])[0], np.eye(D)[11], atol=1e-6)
    assert encoder.dimension == D and encoder.encode(["eel"]).dtype == np.float32
    loaded = Erased(Letters(), load_eraser(no_e.save(tmp_path / "e.npz")))
    assert loaded.identity == encoder.identity != Erased(Letters(), projection(np.eye(D)[0])).identity
    both = Erased(encoder, projection(np.eye(D)[11]))  # an erased encoder can be erased again
    assert not both.encode(["eel"]).any()


def test_an_eraser_without_effect_is_an_error(tmp_path: Path) -> None:
    idle = projection(np.eye(D)[1])  # none of the texts has a b
    texts = ("she", "he")
    with pytest.raises(ModelError, match="eraser.*nothing"):
        Erased(Letters(), idle, texts)
    with pytest.raises(ModelError, match="nothing"):
        Erased(Letters(), load_eraser(idle.save(tmp_path / "e.npz")), check=texts)
    assert Erased(Letters(), idle, ("bee",)).encode(["b"]).max() == 0
    with pytest.raises(InputError, match=r"\(4, 12\)"):
        Erased(Letters(), projection(np.eye(7)[0]))


@pytest.fixture(scope="module")
def words() -> WordVectors:
    rng = np.random.default_rng(0)
    names = ["she", "he", "She", "He", "SHE", "woman", "man", "queen", "king", "convent", "monastery"]
    lean = [1, -1, 1, -1, 1, 1, -1, 1, -1, 0.4, -0.4]
    others = [f"w{i}" for i in range(300)]
    matrix = rng.normal(size=(len(names) + 300, 20))
    matrix[: len(names), 0] += 6 * np.array(lean)
    matrix[len(names) :, 0] += 3 * rng.normal(size=300)
    matrix[-1] = 0
    return WordVectors.of([*names, *others], matrix)


SPECIFIC = frozenset({"she", "he", "She", "He", "SHE", "woman", "man", "queen", "king"})
EQUALIZE = [("she", "he"), ("woman", "man"), ("convent", "monastery")]


def test_hard_debias(words: WordVectors) -> None:
    g = gender_direction(words, [("she", "he"), ("woman", "man"), ("queen", "king")])
    made = hard_debias(words, g, specific=SPECIFIC, equalize=EQUALIZE)
    equalised = {"convent", "monastery"}
    neutral = [w for w in words.words[:-1] if w not in SPECIFIC | equalised]
    rows = made.rows(neutral)
    assert np.abs(bias_of(words, rows, g)).max() > 0.3  # control: there was something to remove
    assert np.abs(bias_of(made, rows, g)).max() < 1e-6
    np.testing.assert_allclose(np.linalg.norm(made.matrix[:-1], axis=1), 1, atol=1e-6)
    assert not made.matrix[-1].any()

    for female, male in [("she", "he"), ("She", "He"), ("woman", "man"), ("convent", "monastery")]:
        a, b = made.matrix[made.find(female)].astype(float), made.matrix[made.find(male)].astype(float)
        np.testing.assert_allclose(made.matrix[rows] @ a, made.matrix[rows] @ b, atol=1e-6)
        assert a @ g.vector == pytest.approx(-(b @ g.vector), abs=1e-6)
        assert a @ g.vector > 0.1
        rest = (a - b) - ((a - b) @ g.vector) * g.vector
        assert np.abs(rest).max() < 1e-6
    # Specific words outside the pairs keep their direction: "queen" and, without a partner, "SHE".
    np.testing.assert_allclose(made.matrix[made.find("queen")], words.unit([words.find("queen")])[0], atol=1e-6)
    np.testing.assert_allclose(made.matrix[made.find("SHE")], words.unit([words.find("SHE")])[0], atol=1e-6)
    assert made.notes[-1] == "302 words neutralised, 4 pairs equalised, unit length"


def test_hard_debias_by_hand() -> None:
    toy = WordVectors.of(["she", "he", "nurse"], [[3, 4, 0], [-4, 3, 0], [0, 3, 0.0]])
    direction = gender_direction(
        WordVectors.of(["a", "b", "c", "d"], [[1, 1, 0], [-1, 1, 0], [1, 0, 1], [-1, 0, 1]]), [("a", "b"), ("c", "d")]
    )
    np.testing.assert_allclose(direction.vector, [1, 0, 0], atol=1e-12)
    made = hard_debias(toy, direction, specific={"she", "he"}, equalize=[("she", "he")])
    # midpoint of (.6, .8, 0) and (-.8, .6, 0) is (-.1, .7, 0): y = (0, .7, 0), z = sqrt(.51)
    z = np.sqrt(0.51)
    np.testing.assert_allclose(made.matrix, [[z, 0.7, 0], [-z, 0.7, 0], [0, 1, 0]], atol=1e-6)
    turned = hard_debias(toy, direction, specific={"she", "he"}, equalize=[("he", "she")])
    np.testing.assert_allclose(turned.matrix, made.matrix, atol=1e-6)


def test_hard_debias_twice_changes_nothing_more(words: WordVectors) -> None:
    g = gender_direction(words, EQUALIZE[:2])
    once = hard_debias(words, g, specific=SPECIFIC | {"convent", "monastery"}, equalize=EQUALIZE)
    twice = hard_debias(once, g, specific=SPECIFIC | {"convent", "monastery"}, equalize=EQUALIZE)
    np.testing.assert_allclose(twice.matrix, once.matrix, atol=1e-6)


def test_control_changes_nothing_but_the_length(words: WordVectors) -> None:
    g = gender_direction(words, EQUALIZE[:2])
    control = normalised(words)
    np.testing.assert_allclose(np.linalg.norm(control.matrix[:-1], axis=1), 1, atol=1e-6)
    every = np.arange(len(words) - 1)
    np.testing.assert_allclose(bias_of(control, every, g), bias_of(words, every, g), atol=1e-6)
    np.testing.assert_allclose(
        control.unit(every) @ control.unit(every).T, words.unit(every) @ words.unit(every).T, atol=1e-6
    )
    assert not control.matrix[-1].any()


def test_debiased_vectors_can_be_saved(words: WordVectors, tmp_path: Path) -> None:
    made = WordVectors.of([*words.words, "größe", "女"], np.vstack([normalised(words).matrix, np.ones((2, 20))]))
    again = load_vectors(save_vectors(made, tmp_path / "v.npz"))
    assert again.words == made.words and again.identity == made.identity
    with pytest.raises(InputError, match=r"\.npz"):
        save_vectors(made, tmp_path / "v.txt")


def test_saved_vectors_are_small_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A word as long as the file, one that is no valid text, one that ends in a zero byte.
    names = ["x" * 5_000, "half \ud83d", "end\x00", "女", *(f"w{i}" for i in range(2_000))]
    made = WordVectors.of(names, np.arange(2 * len(names)).reshape(-1, 2))
    path = save_vectors(made, tmp_path / "v.npz")
    again = load_vectors(path)
    assert again.words == made.words and again.identity == made.identity
    assert load_vectors(path).words == made.words  # from the copy
    assert path.stat().st_size < made.matrix.nbytes + 20_000
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["v.npz"]
    for word in ("two\nlines", ""):
        with pytest.raises(InputError, match="line break"):
            save_vectors(WordVectors.of(["a", word], np.eye(2)), tmp_path / "v.npz")

    def full(out: Path, **_: object) -> None:
        out.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    stored = path.read_bytes()
    with pytest.raises(RunError, match="v.npz.*space"):
        save_vectors(made, path)
    assert path.read_bytes() == stored
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["v.npz"]
    monkeypatch.undo()
    assert load_vectors(save_vectors(made, tmp_path / "new" / "v.npz")).identity == made.identity
    with pytest.raises(RunError, match="v.npz"):
        save_vectors(made, path / "v.npz")


def test_hard_debias_bad_input(words: WordVectors) -> None:
    small = WordVectors.of(["a", "b", "c", "d"], [[1, 1, 0], [-1, 1, 0], [1, 0, 1], [-1, 0, 1]])
    g = gender_direction(small, [("a", "b"), ("c", "d")])
    with pytest.raises(InputError, match="direction"):
        hard_debias(words, g)
    with pytest.raises(InputError, match="she"):
        hard_debias(small, g, specific="she")


def test_gender_specific_words() -> None:
    found = gender_specific_words()
    assert len(found) == 1441
    assert {"he", "She", "spokesman", "queen"} <= found
    assert not {"nurse", "doctor", "receptionist"} & found


def test_lipstick_on_constructed_data() -> None:
    """Two groups that differ in other axes too: removing the direction hides the bias and keeps the company."""
    rng = np.random.default_rng(0)
    side = np.repeat([1.0, -1.0], 300)
    x = rng.normal(size=(600, 10)) * 0.3
    x[:, 0] += side * rng.uniform(0.5, 2, 600)
    x[:, 1] += 1.5 * side
    bias = x[:, 0] / np.linalg.norm(x, axis=1)
    hidden = projection(np.eye(10)[0])(x)
    assert np.abs(hidden[:, 0]).max() < 1e-12
    found = neighbour_clustering(hidden, bias, 50, generator=np.random.default_rng(0), most=200)
    assert found.accuracy.value > 0.99 and found.correlation.low > 0.9
    assert found.accuracy.n == found.correlation.n == 400
    # Erasing the second axis as well leaves noise.
    clean = projection(np.eye(10)[:2])(x)
    gone = neighbour_clustering(clean, bias, 50, generator=np.random.default_rng(0), most=200)
    assert gone.accuracy.value < 0.6 and abs(gone.correlation.value) < 0.2
    flipped = neighbour_clustering(hidden, -bias, 50, generator=np.random.default_rng(0), most=200)
    assert flipped.accuracy.value == pytest.approx(found.accuracy.value)
    assert flipped.correlation.value == pytest.approx(found.correlation.value)


def test_clusters_are_found_from_several_starts_and_the_interval_says_so() -> None:
    generator = np.random.default_rng(3)
    x = generator.normal(size=(120, 6))  # no clusters: two-means ends anywhere
    bias = generator.normal(size=120)
    seen = [
        neighbour_clustering(x, bias, 10, generator=np.random.default_rng(seed), most=40).accuracy for seed in range(4)
    ]
    assert np.ptp([accuracy.value for accuracy in seen]) < 0.06  # one start alone: up to 0.15 apart
    for accuracy in seen:
        assert accuracy.low < accuracy.value < accuracy.high and accuracy.n == 80
        fixed = wilson(accuracy.value, 80, 0.95)
        assert accuracy.high - accuracy.low > fixed[1] - fixed[0]


def test_neighbours_by_hand() -> None:
    x = [[1, 0], [1, 0.1], [1, 0.2], [-1, 0], [-1, 0.1], [-1, 0.2]]
    bias = [0.9, 0.5, -0.1, -0.9, -0.5, -0.2]
    found = neighbour_clustering(x, bias, 2, generator=np.random.default_rng(0), most=2, asked=[0, 1, 2, 3])
    # neighbours of 0: 1, 2 -> 1/2; of 1: 0, 2 -> 1/2; of 2: 0, 1 -> 1; of 3: 4, 5 -> 0
    assert found.accuracy.value == 1.0
    assert found.correlation.value == pytest.approx(np.corrcoef([0.9, 0.5, -0.1, -0.9], [0.5, 0.5, 1, 0])[0, 1])
    alike = neighbour_clustering(x, bias, 5, generator=np.random.default_rng(0), most=2, asked=[0, 1])
    assert np.isnan(alike.correlation.value) and "no correlation" in alike.correlation.note


def test_what_seeds_differ_by_widens_the_interval_on_both_sides() -> None:
    found = _over_seeds([0.7, 0.8, 0.9], 50, "note")
    low, high = binomtest(40, 50).proportion_ci(0.95, method="wilson")
    spread = 1.959964 * 0.1
    assert (found.value, found.n, found.level) == (pytest.approx(0.8), 50, 0.95)
    assert found.low == pytest.approx(0.8 - np.hypot(0.8 - low, spread), abs=1e-6)
    assert found.high == pytest.approx(min(1, 0.8 + np.hypot(high - 0.8, spread)), abs=1e-6)
    assert found.se == pytest.approx((found.high - found.low) / 2 / 1.959964, abs=1e-6)
    ends = [_over_seeds([0.0, 0.2], 50, ""), _over_seeds([0.8, 1.0], 50, "")]
    assert ends[0].low == 0 and ends[1].high == 1 and ends[0].high < 1 and ends[1].low > 0
    assert (_over_seeds([0.8], 50, "").low, _over_seeds([0.8], 50, "").high) == pytest.approx((low, high))


def test_correlation_has_the_interval_of_fisher() -> None:
    x = np.array([1.0, 2, 3, 4, 5, 6, 7])
    y = np.array([1.0, 3, 2, 5, 4, 7, 6])
    r = np.corrcoef(x, y)[0, 1]
    found, reach = _correlation(x, y), 1.959964 / 2  # sqrt(7 - 3)
    assert found.value == pytest.approx(r) and found.n == 7
    assert (found.low, found.high) == pytest.approx((np.tanh(np.arctanh(r) - reach), np.tanh(np.arctanh(r) + reach)))
    assert found.se == pytest.approx((found.high - found.low) / 3.92)
    back = _correlation(x, -y)
    assert (back.value, back.low, back.high) == pytest.approx((-found.value, -found.high, -found.low))
    line = _correlation(x, 2 * x)
    assert line.value == pytest.approx(1) and 0.99 < line.low < line.high <= 1
    three = _correlation(x[:3], y[:3])
    assert three.value == pytest.approx(0.5) and np.isnan([three.low, three.high, three.se]).all()
    four = _correlation(x[:4], y[:4])
    assert -1 < four.low < four.value < four.high < 1
    for undefined in (_correlation(x[:2], y[:2]), _correlation(x, 0 * y), _correlation(0 * x, y)):
        assert np.isnan([undefined.value, undefined.low]).all() and "no correlation" in undefined.note


def test_neighbours_are_counted_as_one_by_one() -> None:
    rows = np.random.default_rng(3).normal(size=(1100, 4))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    positive, which = rows[:, 0] > 0, np.arange(5, 1095)  # more than are looked at together
    found = _neighbour_bias(rows, which, positive, 3)
    for at in (0, 511, 512, 1023, 1024, 1089):
        closest = np.argsort(-(rows @ rows[which[at]]), kind="stable")
        assert found[at] == pytest.approx(positive[closest[closest != which[at]][:3]].mean())


def test_length_and_zero_rows_do_not_matter_for_neighbours() -> None:
    rows = np.random.default_rng(5).normal(size=(40, 3))
    rows[7] = 0
    bias = rows[:, 0] + 0.01
    lengths = [1.0, *(np.random.default_rng(6).uniform(low, high, (40, 1)) for low, high in ((0.1, 9), (0.001, 0.1)))]
    before, *others = (
        neighbour_clustering(rows * length, bias, 4, generator=np.random.default_rng(0), most=10) for length in lengths
    )
    for after in others:
        assert before.correlation.value == pytest.approx(after.correlation.value)
        assert before.accuracy.value == pytest.approx(after.accuracy.value) and before.accuracy.n == 20
    # The limits themselves are allowed: one word of each side, all rows but one as neighbours, rows 0 and 39.
    assert (
        neighbour_clustering(*(rows, bias, 39), generator=np.random.default_rng(0), most=1, asked=[0, 39]).accuracy.n
        == 2
    )
    assert neighbour_clustering(rows, bias, 1, generator=np.random.default_rng(0), most=1, asked=[]).correlation.n == 0


def test_ten_rows_of_each_class_are_enough() -> None:
    x = np.random.default_rng(0).normal(size=(40, 2))
    y = np.repeat([0, 1, 1, 1], 10)
    found = leakage(x, y, x[:8], y[:8], np.random.default_rng(0))
    assert found.majority == 0 and found.linear.n == 8  # most training rows are of the other class
    with pytest.raises(InputError, match="9, 30"):
        leakage(x[1:], y[1:], x, y, np.random.default_rng(0))


def test_rounding_in_a_constant_column_is_no_feature() -> None:
    generator = np.random.default_rng(1)
    y = generator.integers(2, size=400)
    # The next float after 7 for one class: scaled up, it would name the class.
    rounding = np.where(y == 1, np.nextafter(7.0, 8.0), 7.0)[:, None]
    x = np.hstack([generator.normal(size=(400, 3)), rounding])
    x[0, 0] = 0.0  # small numbers elsewhere say nothing about rounding
    found = leakage(x[:300], y[:300], x[300:], y[300:], np.random.default_rng(0))
    assert found.linear.value < 0.7 and found.mlp.value < 0.7
    x[:, 3] = y  # the control: a step of 1 is seen
    assert leakage(x[:300], y[:300], x[300:], y[300:], np.random.default_rng(0)).linear.value > 0.95


def test_leakage_bad_input() -> None:
    x, y = concept(n=60)
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="11"):
        leakage(x, y, x[:, 1:], y, rng)
    with pytest.raises(InputError, match="60"):
        leakage(x, np.zeros(60, dtype=int), x, y, rng)
    with pytest.raises(InputError, match="finite"):
        leakage(x * np.nan, y, x, y, rng)
    with pytest.raises(InputError, match="60.*60"):
        leakage(x, y[1:], x, y, rng)
    bias = np.linspace(-1, 1, 60)
    with pytest.raises(InputError, match="59"):
        neighbour_clustering(x, bias, 60, generator=rng, most=5)
    with pytest.raises(InputError, match="31"):
        neighbour_clustering(x, bias, 5, generator=rng, most=31)
    with pytest.raises(InputError, match="bias"):
        neighbour_clustering(x, bias[1:], 5, generator=rng, most=5)
    with pytest.raises(InputError, match="59"):
        neighbour_clustering(x, bias, 5, generator=rng, most=5, asked=[-1])
    with pytest.raises(InputError, match="59"):
        neighbour_clustering(x, bias, 5, generator=rng, most=5, asked=[60])


def test_five_hundred_words_of_each_side_are_clustered_by_default() -> None:
    rng = np.random.default_rng(0)
    bias = np.repeat([-1.0, 1.0], 500) * rng.uniform(0.1, 1, size=1000)
    x = np.column_stack([bias, rng.normal(size=1000)])
    assert neighbour_clustering(x, bias, 5, generator=rng).accuracy.n == 1000
    with pytest.raises(InputError, match="500 words"):
        neighbour_clustering(x[1:], bias[1:], 5, generator=rng)


def test_a_bias_that_is_finite_in_part_is_refused() -> None:
    rng = np.random.default_rng(0)
    x, bias = rng.normal(size=(30, 3)), rng.normal(size=30)
    for missing in (np.nan, np.inf):
        with pytest.raises(InputError, match="finite"):
            neighbour_clustering(x, np.where(np.arange(30) == 7, missing, bias), 5, generator=rng, most=5)


def test_a_probe_learns_from_four_fifths_rounded_up() -> None:
    rng = np.random.default_rng(0)
    for count, part in ((10, 8), (11, 9), (14, 12), (15, 12), (100, 80)):
        drawn = _part(np.arange(count) + 7, rng)
        assert len(set(drawn.tolist())) == len(drawn) == part
        assert drawn.min() >= 7 and drawn.max() < count + 7


def test_lean_by_hand() -> None:
    """The cosine with the difference of the two means, less the median, at any length of the rows."""
    words = np.array([[0.3, 0.1], [0.1, 0.1], [-0.1, 0.1], [-0.3, 0.1]])
    labelled = Labelled(words, np.array([FEMALE, FEMALE, MALE, MALE]), words, np.array([FEMALE, FEMALE, MALE, MALE]))
    neutral = np.array([[0.2, 0.0], [-0.2, 0.0], [0.0, 0.1], [0.03, 0.04], [-0.03, -0.14]])  # their mean is 0
    found = HeldOut(labelled, neutral).lean()
    cosines = np.array([1, -1, 0, 0.6, -0.03 / np.hypot(0.03, 0.14)])
    assert found == pytest.approx(cosines - np.median(cosines))


def test_too_few_words_of_a_side_are_counted_by_side() -> None:
    bias = np.array([-0.5] * 8 + [0.0] * 3 + [0.5] * 2)
    with pytest.raises(InputError, match="2 lean to one and 8 to the other"):
        neighbour_clustering(np.eye(13), bias, 2, generator=np.random.default_rng(0), most=3)
