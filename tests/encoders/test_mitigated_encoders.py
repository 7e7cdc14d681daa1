"""Mitigated encoders: what they are fitted on, the folder they are kept in, and what they leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from evenli.cli import app
from evenli.core.errors import InputError, ModelError, RunError
from evenli.core.store import with_hash
from evenli.encoders.base import CallableEncoder, load_encoder, resolved_spec
from evenli.encoders.direction import gender_direction
from evenli.encoders.eraser import Erased
from evenli.encoders.gendered import FEMALE, MALE, gendered_set, probe_text, read_gendered, sentences_to_fit
from evenli.encoders.hard_debias import (
    HardDebiasSettings,
    hard_debias,
    hard_debias_file,
    normalised,
    save_vectors,
    word_leakage,
)
from evenli.encoders.leace import fit_leace, fit_leace_pairs
from evenli.encoders.leakage import HeldOut, Labelled, Residual, known_sentences, residual_leakage
from evenli.encoders.mitigation import MitigatedEncoder, MitigationSettings, mitigate_encoder, read_mitigated
from evenli.encoders.seat import seat_tests, texts_of
from evenli.encoders.vectors import VectorMean, WordVectors, load_vectors
from evenli.words import read_table
from evenli.words.lists import name_kinds, split_words

pytest.importorskip("sklearn")
pytestmark = pytest.mark.usefixtures("two_draws")
D = 24


def gendered_vectors(seed: int = 0, strength: float = 3.0) -> WordVectors:
    """Random vectors for every word of the built-in set; gender words lie on either side of the first axis."""
    sentences = gendered_set()
    generator = np.random.default_rng(seed)
    side: dict[str, int] = {}
    words: dict[str, None] = {}
    for part in ("fit", "probe", "test"):
        for pair in getattr(sentences, part):
            side |= {pair.words[0]: 1, pair.words[1]: -1}
            words |= dict.fromkeys(split_words(pair.female) + split_words(pair.male))
    for text in (*sentences.neutral, *texts_of(seat_tests())):
        words |= dict.fromkeys(split_words(text))
    words |= dict.fromkeys(word for row in sentences.occupations for word in row.split())
    for text in probe_text().texts:
        words |= dict.fromkeys(split_words(text))
    words |= dict.fromkeys(("woman", "man", "she", "he"))
    matrix = generator.normal(size=(len(words), D))
    matrix[:, 0] += [strength * side.get(word, 0) for word in words]
    return WordVectors.of(words, matrix)


@pytest.fixture(scope="module")
def vector_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    vectors = gendered_vectors()
    path = tmp_path_factory.mktemp("vectors") / "toy.txt"
    rows = (f"{w} {' '.join(f'{x:.4f}' for x in row)}" for w, row in zip(vectors.words, vectors.matrix, strict=True))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(vector_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("mitigated") / "leace"
    mitigate_encoder(f"vectors:{vector_file}", out, MitigationSettings("leace"))
    return out


def copy_of(folder: Path, to: Path) -> Path:
    to.mkdir()
    for file in folder.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    return to


def changed(folder: Path, to: Path, **base: str) -> Path:
    made = copy_of(folder, to)
    about = json.loads((made / "mitigated.json").read_text(encoding="utf-8"))
    about["base"] |= base
    (made / "mitigated.json").write_text(json.dumps(with_hash(about)), encoding="utf-8")
    return made


# What erasers are fitted on.


def test_parts_share_no_word_and_no_sentence_and_none_is_of_seat() -> None:
    sentences = gendered_set()
    words = {p: {w.lower() for pair in getattr(sentences, p) for w in pair.words} for p in ("fit", "probe", "test")}
    texts = {p: set(sentences.rows(p)[0]) for p in words}
    for part, other in (("fit", "probe"), ("fit", "test"), ("probe", "test")):
        assert not words[part] & words[other]
        assert not texts[part] & texts[other]
    tests = texts_of(seat_tests())
    assert not set().union(*texts.values()) & set(tests)
    names = {part.words[i] for t in seat_tests() for part in t.sets if "names" in part.title for i in range(len(part))}
    assert len(names) == 16 and not {name.lower() for name in names} & set().union(*words.values())
    assert {"she", "woman", "mother", "girl", "hers"} <= words["fit"]
    # One sentence a word in the test: its rows are the unit of the interval.
    assert len({pair.words for pair in sentences.test}) == len(sentences.test) > 150
    assert len(sentences.fit) > 1000


def test_versions_differ_in_their_word_only() -> None:
    sentences = gendered_set()
    for part in ("fit", "probe", "test"):
        for pair in getattr(sentences, part):
            female, male = (split_words(text.lower()) for text in (pair.female, pair.male))
            apart = {(f, m) for f, m in zip(female, male, strict=True) if f != m}
            assert apart == {(pair.words[0].lower(), pair.words[1].lower())}
    texts, classes = sentences.rows("test")
    assert texts[0] == sentences.test[0].female and texts[-1] == sentences.test[-1].male
    assert classes[0] == FEMALE and classes[-1] == MALE and classes.mean() == pytest.approx(0.5)


def test_corpus_gives_pairs_by_swapping(tmp_path: Path) -> None:
    lines = [f"A woman carries box {i}." for i in range(40)] + [f"He counts to {i}." for i in range(40)]
    lines += ["Nobody is here.", "A man and a woman wait.", "The bride laughs.", "A woman carries box 0."]
    lines += ["Yes, ma’am, she is.", "Yes, ma’am, he and she are."]
    file = tmp_path / "corpus.txt"
    file.write_text("\n".join(lines), encoding="utf-8")
    found = read_gendered(file)
    assert found.fit[0].female == "A woman carries box 0." and found.fit[0].male == "A man carries box 0."
    assert found.fit[40].female == "She counts to 0." and found.fit[40].male == "He counts to 0."
    assert len(found.fit) == 80
    assert found.skipped == {
        "without a gender word": 1,
        "both genders": 2,
        "a word of no listed gender": 1,
        "a held-out word": 1,
    }
    assert found.test == gendered_set().test
    assert len(read_gendered(file, limit=10).fit) == 10
    table = tmp_path / "corpus.jsonl"
    table.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines), encoding="utf-8")
    assert read_gendered(table).fit == found.fit
    assert sentences_to_fit(str(file)).fit == found.fit and sentences_to_fit("built-in") == gendered_set()
    both = sentences_to_fit(f"built-in+{file}")
    assert both.fit == (*found.fit, *gendered_set().fit) and both.source == f"built-in and {file}"
    assert both.test == gendered_set().test, "what is tested stays"


def test_a_corpus_of_first_names(tmp_path: Path) -> None:
    names = {word for pair in gendered_set().fit for word in pair.words if word.istitle()} - name_kinds().keys()
    pairs = [(row["female"], row["male"]) for row in read_table("swap_names.csv", ("male", "female"))]
    female, male = zip(*[pair for pair in pairs if names.issuperset(pair)][:40], strict=True)
    file = tmp_path / "names.txt"
    lines = [f"Yesterday we saw {name} with a green hat." for name in (*female, *male)]
    lines.append(f"Yesterday we saw {female[0]} with a green hat and {male[1]} without.")
    file.write_text("\n".join(lines), encoding="utf-8")
    found = read_gendered(file)
    assert found.skipped["both genders"] == 1 and sum(found.skipped.values()) == 1
    assert [pair.words for pair in found.fit] == [*zip(female, male, strict=True), *zip(male, female, strict=True)]
    assert [pair.female for pair in found.fit] == lines[:40] * 2
    assert [pair.male for pair in found.fit] == lines[40:80] * 2


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("small.txt", "A woman waits.\n", "1 sentences"),
        ("other.csv", "a,b\n1,2\n", "a, b"),
        ("absent.txt", None, "absent.txt"),
    ],
)
def test_unusable_corpora_are_refused(tmp_path: Path, name: str, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_gendered(tmp_path / name)


def test_words_without_a_vector_are_left_out() -> None:
    full = gendered_vectors()
    kept = [w for w in full.words if w != "man"]
    sentences = gendered_set()
    known = sentences.known_to(WordVectors.of(kept, full.matrix[[full.index[w] for w in kept]]))
    without = [pair for pair in sentences.fit if "man" not in pair.words]
    assert list(known.fit) == without and len(without) < len(sentences.fit)
    assert known.skipped["a word without a vector"] == len(sentences.fit) - len(without)
    with pytest.raises(InputError, match="sentences"):
        sentences.known_to(WordVectors.of(["a", "b"], [[1.0], [2.0]]))


# What is left.


def test_leakage_falls_where_the_concept_was(folder: Path) -> None:
    stored = read_mitigated(folder)
    assert isinstance(stored, MitigatedEncoder) and stored.to_dict().keys() <= stored.json_schema()["properties"].keys()
    before, after = stored.leakage.before, stored.leakage.after
    assert before.linear.value > 0.8 and before.mlp.value > 0.75  # the control
    assert after.linear.low < 0.5 < after.linear.high
    assert after.linear.value < before.linear.low
    assert before.majority == pytest.approx(0.5)
    assert before.linear.n == 2 * len(gendered_set().test) == stored.leakage.test_sentences


def test_lean_has_two_equal_sides_and_follows_the_axis() -> None:
    generator = np.random.default_rng(0)
    classes = np.repeat([FEMALE, MALE], 50)
    probe = generator.normal(size=(100, 4))
    probe[:, 0] += np.where(classes == FEMALE, 5, -5)
    neutral = np.column_stack([np.linspace(2, 4, 41), np.full((41, 3), 7.0)])
    lean = HeldOut(Labelled(probe, classes, probe, classes), neutral).lean()
    assert (lean > 0).sum() == (lean < 0).sum() == 20
    assert lean[-1] > 0 > lean[0]


def test_an_encoder_without_gender_leaks_nothing() -> None:
    vectors = gendered_vectors(strength=0.0)
    encoder = CallableEncoder(lambda texts: [vectors.matrix[vectors.rows(split_words(t))].mean(axis=0) for t in texts])
    held = HeldOut.of(encoder, gendered_set())
    found = residual_leakage(held, held.lean())
    assert found.linear.low < 0.5 < found.linear.high
    assert found.mlp.low < 0.5 < found.mlp.high


def test_clusters_and_neighbours_by_hand() -> None:
    generator = np.random.default_rng(1)
    classes = np.repeat([FEMALE, MALE], 50)
    rows = generator.normal(size=(100, 3))
    side = np.repeat([1.0, -1.0], 40)
    apart = np.column_stack([5 * side, generator.normal(scale=0.1, size=(80, 2))])
    found = residual_leakage(HeldOut(Labelled(rows, classes, rows, classes), apart), side)
    assert found.clustering.value == pytest.approx(1.0) and found.clustering.n == 40
    assert found.correlation.value == pytest.approx(1.0) and found.correlation.n == 80
    mixed = residual_leakage(HeldOut(Labelled(rows, classes, rows, classes), generator.normal(size=(80, 3))), side)
    assert mixed.clustering.value < 0.8 and mixed.correlation.low < 0 < mixed.correlation.high
    assert isinstance(mixed, Residual) and mixed.to_dict()["clustering"]["n"] == 40
    with pytest.raises(InputError, match="side"):
        residual_leakage(HeldOut(Labelled(rows, classes, rows, classes), np.ones((80, 3))), np.zeros(80))


def test_words_tell_after_hard_debiasing_what_they_told_before() -> None:
    generator = np.random.default_rng(0)
    words = [f"w{i}" for i in range(600)] + ["woman", "man", "she", "he", "girl", "boy", "nurse", "doctor", "teacher"]
    lean = np.repeat([1.0, -1.0, 0.0], [300, 300, 9])
    matrix = generator.normal(size=(len(words), D))
    matrix[:, 0] += 2 * lean
    matrix[:, 1] += 4 * lean  # the company that a projection of one direction leaves
    matrix[600:606] = generator.normal(scale=0.05, size=(6, D)) + np.outer([1, -1] * 3, np.eye(D)[0])
    vectors = WordVectors.of(words, matrix)
    direction = gender_direction(vectors, [("woman", "man"), ("she", "he"), ("girl", "boy")])
    before, after = word_leakage(vectors, hard_debias(vectors, direction, equalize=[("woman", "man")]), direction)
    assert before.linear.value > 0.95 and after.linear.value > 0.9
    assert after.clustering.value > 0.9
    same = word_leakage(vectors, normalised(vectors), direction)
    assert same[0].clustering.value == same[1].clustering.value
    with pytest.raises(InputError, match="words"):
        word_leakage(vectors, gendered_vectors(), direction)
    with pytest.raises(InputError, match="neutral"):
        few = WordVectors.of(words[600:], matrix[600:])
        word_leakage(few, few, direction)


# The folder.


def test_folder_is_an_encoder_by_either_spec(folder: Path, vector_file: Path) -> None:
    base = load_encoder(f"vectors:{vector_file}")
    texts = ["The woman is here.", "The man is here."]
    loaded, other = load_encoder(f"mitigated:{folder}"), load_encoder(str(folder))
    np.testing.assert_array_equal(loaded.encode(texts), other.encode(texts))
    assert np.abs(loaded.encode(texts) - base.encode(texts)).max() > 0.1
    assert isinstance(loaded, Erased) and loaded.identity == other.identity != base.identity
    sentences = known_sentences(loaded, gendered_set())  # finds the vectors behind the eraser
    female, male = np.split(base.encode(sentences.rows("fit")[0]), 2)
    by_hand = fit_leace_pairs(female, male, [pair.concept for pair in sentences.fit])
    np.testing.assert_allclose(loaded.encode(texts), by_hand(base.encode(texts)), atol=1e-6)
    assert sorted(file.name for file in folder.iterdir()) == ["eraser.npz", "mitigated.json"]


def test_relative_base_works_from_elsewhere(vector_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(vector_file.parent)
    assert resolved_spec("vectors:toy.txt") == f"vectors:{vector_file.resolve()}"
    assert resolved_spec("hf:some/model") == "hf:some/model"
    mitigate_encoder("vectors:toy.txt", tmp_path / "m", MitigationSettings("sent-debias"))
    monkeypatch.chdir(tmp_path)
    assert load_encoder("m").encode(["she"]).shape == (1, D)
    # A mitigated encoder can be mitigated again.
    mitigate_encoder("m", tmp_path / "twice", MitigationSettings("sent-debias", options={"components": 2}))
    monkeypatch.chdir(tmp_path.parent)
    assert read_mitigated(tmp_path / "twice").base.spec == f"mitigated:{tmp_path.resolve() / 'm'}"
    assert load_encoder(f"mitigated:{tmp_path / 'twice'}").eraser.rank == 2  # type: ignore[attr-defined]


def test_inlp_keeps_its_history_and_seed(vector_file: Path, tmp_path: Path) -> None:
    spec = f"vectors:{vector_file}"
    about = [
        mitigate_encoder(spec, tmp_path / str(i), MitigationSettings("inlp", seed=7, options={"iterations": 3}))
        for i in range(2)
    ]
    first, second = about
    assert first.eraser.identity == second.eraser.identity
    assert first.leakage.to_dict() == second.leakage.to_dict()
    assert 1 <= first.eraser.rank <= 3 == first.settings["iterations"]
    assert first.eraser.history[0] > 0.8
    assert first.settings["seed"] == 7 and "components" not in first.settings


def test_broken_folders_are_named(folder: Path, vector_file: Path, tmp_path: Path) -> None:
    half = copy_of(folder, tmp_path / "half")
    (half / "mitigated.json").unlink()
    with pytest.raises(ModelError, match="mitigated.json"):
        load_encoder(f"mitigated:{half}")
    gone = copy_of(folder, tmp_path / "no_eraser")
    (gone / "eraser.npz").unlink()
    with pytest.raises(ModelError, match="eraser.npz"):
        load_encoder(str(gone))
    cut = copy_of(folder, tmp_path / "cut")
    (cut / "eraser.npz").write_bytes((folder / "eraser.npz").read_bytes()[:200])
    with pytest.raises(ModelError, match="mitigated.json"):
        load_encoder(str(cut))
    other = copy_of(folder, tmp_path / "other")
    fit_leace(np.random.default_rng(0).normal(size=(50, D)), np.repeat([0, 1], 25)).save(other / "eraser.npz")
    with pytest.raises(ModelError, match="mitigated.json"):
        load_encoder(str(other))
    with pytest.raises(ModelError, match="changed"):
        load_encoder(str(changed(folder, tmp_path / "changed", identity="mean:other")))
    with pytest.raises(ModelError, match="toy.txt"):
        load_encoder(str(changed(folder, tmp_path / "missing", spec="vectors:/nowhere/toy.txt")))
    small = tmp_path / "small.txt"
    small.write_text("she 1.0 2.0\nhe 2.0 1.0\n", encoding="utf-8")
    identity = load_encoder(f"vectors:{small}").identity  # type: ignore[attr-defined]
    with pytest.raises(ModelError, match=f"{D} numbers"):
        load_encoder(str(changed(folder, tmp_path / "narrow", spec=f"vectors:{small}", identity=identity)))
    broken = copy_of(folder, tmp_path / "broken")
    (broken / "mitigated.json").write_text("{", encoding="utf-8")
    with pytest.raises(ModelError, match="broken"):
        load_encoder(str(broken))


def test_only_free_folders_are_written(folder: Path, vector_file: Path, tmp_path: Path) -> None:
    spec, settings = f"vectors:{vector_file}", MitigationSettings("leace")
    with pytest.raises(RunError, match="--overwrite"):
        mitigate_encoder(spec, folder, settings)
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(RunError, match="config.json"):
        mitigate_encoder(spec, tmp_path, settings, overwrite=True)
    with pytest.raises(RunError, match="file"):
        mitigate_encoder(spec, vector_file, settings)
    with pytest.raises(InputError, match="magic"):
        MitigationSettings("magic")
    for options in ({"iterations": 0}, {"iterations": 1.5}, {"components": 1}):
        with pytest.raises(InputError, match=next(iter(options))):
            MitigationSettings("inlp", options=options)


def test_identity_changes_with_code_pooling_and_weights(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def identity(spec: str, **more: Any) -> str:
        return str(load_encoder(spec, device="cpu", **more).identity)  # type: ignore[attr-defined]

    assert identity(f"hf:{checkpoint}") == identity(str(checkpoint)) != identity(str(checkpoint), pooling="cls")
    other = copy_of(checkpoint, tmp_path / "other")
    assert identity(str(other)) == identity(str(checkpoint))  # the content, not the place
    weights = bytearray((other / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (other / "model.safetensors").write_bytes(weights)
    assert identity(str(other)) != identity(str(checkpoint))
    monkeypatch.chdir(tmp_path)
    code = tmp_path / "coded_encoder.py"
    code.write_text("def encode(texts):\n    return [[1.0] for _ in texts]\n", encoding="utf-8")
    first = identity("py:coded_encoder:encode")
    assert first == identity("py:coded_encoder:encode")
    code.write_text("def encode(texts):\n    return [[2.0] for _ in texts]\n", encoding="utf-8")
    assert identity("py:coded_encoder:encode") != first


# The command line.


def run(*arguments: object) -> str:
    words = [str(argument) for argument in arguments]
    group = [] if words[0] == "seat" else ["mitigate"]
    done = CliRunner().invoke(app, [*group, *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return str(done.stdout)


def test_commands_write_folders_that_seat_takes(vector_file: Path, tmp_path: Path) -> None:
    spec = f"vectors:{vector_file}"
    told = run("sent-debias", spec, "-o", tmp_path / "s", "--components", 2)
    assert f"2 of {D} dimensions removed; use it as mitigated:" in told
    for row in ("linear probe", "MLP probe", "clusters", "neighbour bias"):
        assert row in told
    about = json.loads(run("inlp", spec, "-o", tmp_path / "i", "--iterations", 2, "--json"))
    assert about["settings"] == {"iterations": 2, "seed": 0} and about["eraser"]["rank"] <= 2
    lines = [f"A woman carries box {i}." for i in range(30)] + [f"He counts box {i}." for i in range(30)]
    (tmp_path / "corpus.txt").write_text("\n".join(lines), encoding="utf-8")
    about = json.loads(run("leace", spec, "-o", tmp_path / "l", "--fit", tmp_path / "corpus.txt", "--json"))
    assert about["fit"]["pairs"] == 60 and about["fit"]["source"].endswith("corpus.txt")
    results = json.loads(run("seat", f"mitigated:{tmp_path / 's'}", "--tests", "C6b", "--json"))
    assert np.isfinite(results["tests"][0]["effect"]["value"])


def test_hard_says_what_is_left_or_why_not(vector_file: Path, tmp_path: Path) -> None:
    assert "linear probe" in run("hard-debias", vector_file, "-o", tmp_path / "hd.npz")
    again = ["hard-debias", f"vectors:{vector_file}", "-o", tmp_path / "hd.npz", "--control", "--json"]
    with pytest.raises(RunError, match="--overwrite"):
        run(*again)
    told = json.loads(run(*again, "--overwrite"))
    assert told["leakage"]["before"]["clustering"] == told["leakage"]["after"]["clustering"]
    few = tmp_path / "few.txt"
    words = ("woman", "man", "girl", "boy", "she", "he", "mother", "father", "nurse")
    few.write_text("".join(f"{w} {i}.0 {9 - i}.5 1.{i}\n" for i, w in enumerate(words)), encoding="utf-8")
    assert "not measured" in run("hard-debias", few, "-o", tmp_path / "few.npz")
    assert (tmp_path / "few.npz").is_file()


def test_hard_makes_a_folder_that_is_an_encoder(vector_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "fairer"
    assert f"use it as mitigated:{out}" in run("hard-debias", vector_file, "-o", out)
    base, fairer = load_encoder(str(vector_file)), load_encoder(f"mitigated:{out}")
    texts = ["She is a nurse.", "He is a doctor."]
    assert np.abs(base.encode(texts) - fairer.encode(texts)).max() > 1e-3
    expected = VectorMean(hard_debias(load_vectors(vector_file), gender_direction(load_vectors(vector_file), "ten")))
    np.testing.assert_allclose(fairer.encode(texts), expected.encode(texts), atol=1e-6)
    (found,) = json.loads(run("seat", f"mitigated:{out}", "--tests", "C6b", "--json"))["tests"]
    assert np.isfinite(found["effect"]["value"])
    with pytest.raises(RunError, match="--overwrite"):
        run("hard-debias", vector_file, "-o", out)
    run("hard-debias", vector_file, "-o", out, "--overwrite")
    (out / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(RunError, match="notes.txt"):
        run("hard-debias", vector_file, "-o", out, "--overwrite")
    save_vectors(load_vectors(vector_file), out / "vectors.npz")
    with pytest.raises(ModelError, match="mitigated.json"):
        load_encoder(f"mitigated:{out}")


def test_vectors_that_are_those_of_the_base_are_refused(vector_file: Path, tmp_path: Path) -> None:
    unit = save_vectors(normalised(load_vectors(vector_file)), tmp_path / "unit.npz")
    with pytest.raises(ModelError, match="mitigated"):
        hard_debias_file(unit, tmp_path / "same", HardDebiasSettings(control=True))


def test_what_is_erased_already_is_not_erased_again(vector_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("concept_erasure")
    run("leace", f"vectors:{vector_file}", "-o", tmp_path / "once")
    with pytest.raises(InputError, match="linear"):
        run("leace", f"mitigated:{tmp_path / 'once'}", "-o", tmp_path / "twice")


def test_probe_text_of_ours_and_of_a_file(tmp_path: Path) -> None:
    ours = probe_text()
    assert ours.source == "built-in" and len(ours.texts) > 200 and ours.classes.mean() == 0.5
    assert not set(ours.train) & set(ours.test)
    fitted = set(gendered_set().rows("fit")[0])
    assert not fitted & set(ours.texts)  # nothing was fitted on it
    file = tmp_path / "text.txt"
    lines = [f"The {'woman' if at % 3 else 'man'} bought {at} apples." for at in range(200)]
    file.write_text("\n".join([*lines, "It rained.", "He met her."]), encoding="utf-8")
    theirs = probe_text(file)
    assert len(theirs.texts) == 200 and abs(len(theirs.train) - len(theirs.test)) <= 1
    assert dict(theirs.train).items() <= {line: FEMALE if "woman" in line else MALE for line in lines}.items()
    file.write_text("\n".join(lines[:90]), encoding="utf-8")
    with pytest.raises(InputError, match="50 of each"):
        probe_text(file)


def test_the_fit_is_broad_and_part_of_a_file_is_held_back(tmp_path: Path) -> None:
    concepts = {pair.concept for pair in gendered_set().fit}
    assert {"first names", "he/she", "her/his", "men/women", "boys/girls", "herself/himself"} <= concepts
    held = {word for part in ("probe", "test") for pair in getattr(gendered_set(), part) for word in pair.words}
    assert not held & {
        word for part in ("fit", "domain") for pair in getattr(gendered_set(), part) for word in pair.words
    }
    file = tmp_path / "corpus.txt"
    file.write_text("\n".join(f"The woman bought {at} apples." for at in range(1_000)), encoding="utf-8")
    own = read_gendered(file)
    assert (len(own.fit), len(own.domain)) == (900, 100) and not set(own.fit) & set(own.domain)
