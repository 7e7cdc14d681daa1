"""The BiLSTM encoder: batches change nothing, the arg-max adds up, and training follows its recipe."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

torch = pytest.importorskip("torch")

from evenli.core.errors import InputError, ModelError, RunError, RunLockedError  # noqa: E402
from evenli.core.store import LOCK  # noqa: E402
from evenli.encoders.base import (  # noqa: E402
    EmbeddingCache,
    load_encoder,
    parts_of,
    resolved_spec,
)
from evenli.encoders.bilstm import (  # noqa: E402
    BiLSTMMax,
    load_trained,
)
from evenli.encoders.direction import direction_from_sentences  # noqa: E402
from evenli.encoders.gendered import gendered_set  # noqa: E402
from evenli.encoders.hard_debias import save_vectors  # noqa: E402
from evenli.encoders.mitigation import MitigationSettings, mitigate_encoder  # noqa: E402
from evenli.encoders.vectors import WordVectors, load_vectors  # noqa: E402
from evenli.training.bilstm import EncoderSettings, train_encoder  # noqa: E402
from evenli.training.bilstm_epoch import EncoderTrainer, features, make_head  # noqa: E402
from evenli.training.data import read_examples  # noqa: E402
from evenli.training.fast.bilstm import GraphedTrainer, run_both  # noqa: E402
from evenli.training.recipe import (  # noqa: E402
    EncoderRecipe,
    learning_rate,
)
from evenli.words.lists import split_words  # noqa: E402
from studies.retraining.accuracy import nli_accuracy  # noqa: E402

TEXTS = [
    "A person on a horse jumps over a broken down airplane.",
    "A woman waits.",
    "",
    "zzz qqq",
    "Two dogs run in the park near the old house while a man and a woman watch them from the street.",
    "woman",
    "She likes the new pink dress",
]
HIDDEN = 16


@pytest.fixture(scope="module")
def vectors() -> WordVectors:
    words = sorted({word for text in TEXTS for word in split_words(text)} - {"zzz", "qqq"})
    return WordVectors.of(words, np.random.default_rng(0).standard_normal((len(words), 9)))


@pytest.fixture(scope="module")
def encoder(vectors: WordVectors) -> BiLSTMMax:
    return BiLSTMMax(vectors, hidden=HIDDEN, seed=3, device="cpu")


def encoded(encoder: BiLSTMMax, texts: Sequence[str], batch_size: int) -> np.ndarray:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoder, "batch_size", batch_size)
        return encoder.encode(texts)


def by_hand(encoder: BiLSTMMax, words: Sequence[str]) -> np.ndarray:
    """Outputs [t, 2h] from the equations of an LSTM, one sentence, in double precision."""
    inputs = encoder.vocabulary.matrix()[[0, *encoder.vocabulary.ids(words), 1]].astype(np.float64)
    sides = []
    for suffix, order in (("", slice(None)), ("_reverse", slice(None, None, -1))):
        w_ih, w_hh, b_ih, b_hh = (
            encoder.weights[f"{name}_l0{suffix}"].numpy().astype(np.float64)
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        h = c = np.zeros(encoder.hidden)
        made = []
        for x in inputs[order]:
            gate_in, forget, cell, gate_out = np.split(w_ih @ x + b_ih + w_hh @ h + b_hh, 4)
            gate_in, forget, gate_out = (1 / (1 + np.exp(-gate)) for gate in (gate_in, forget, gate_out))
            c = forget * c + gate_in * np.tanh(cell)
            h = gate_out * np.tanh(c)
            made.append(h)
        sides.append(np.array(made)[order])
    return np.concatenate(sides, axis=1)


def test_encodings_are_those_of_the_equations(encoder: BiLSTMMax) -> None:
    made = encoded(encoder, TEXTS, 3)
    assert made.shape == (len(TEXTS), 2 * HIDDEN) and made.dtype == np.float32
    for text, row in zip(TEXTS, made, strict=True):
        words = [word for word in split_words(text) if word not in {"zzz", "qqq"}]
        np.testing.assert_allclose(row, by_hand(encoder, words).max(axis=0), atol=1e-6)


def test_batches_change_nothing(encoder: BiLSTMMax) -> None:
    singly = np.concatenate([encoder.encode([text]) for text in TEXTS])
    for size in (1, 2, 7, 64):
        np.testing.assert_allclose(encoded(encoder, TEXTS, size), singly, atol=1e-6)
    np.testing.assert_allclose(encoder.encode(TEXTS[::-1])[::-1], singly, atol=1e-6)
    assert encoder.encode([]).shape == (0, 2 * HIDDEN)


def test_words_without_a_vector_are_dropped(encoder: BiLSTMMax) -> None:
    np.testing.assert_array_equal(encoder.encode(["zzz qqq"]), encoder.encode([""]))
    np.testing.assert_array_equal(encoder.encode(["A zzz woman qqq waits."]), encoder.encode(["A woman waits."]))
    found = encoder.argmax([["A", "zzz", "Woman"], ["zzz"]])
    # Woman is known in lower case only, and is named as it stands in the text.
    assert [list(text.tokens) for text in found] == [["<s>", "A", "Woman", "</s>"], ["<s>", "</s>"]]


def test_v1_padding_lets_zeros_win(vectors: WordVectors, encoder: BiLSTMMax) -> None:
    v1 = BiLSTMMax(vectors, hidden=HIDDEN, seed=3, device="cpu", v1_padding=True)
    np.testing.assert_allclose(encoded(v1, TEXTS, 1), encoder.encode(TEXTS), atol=1e-6)
    masked, padded = encoder.encode(TEXTS), v1.encode(TEXTS)
    longest = max(range(len(TEXTS)), key=lambda at: len(TEXTS[at]))
    others = [at for at in range(len(TEXTS)) if at != longest]
    np.testing.assert_allclose(padded[longest], masked[longest], atol=1e-6)
    np.testing.assert_allclose(padded[others], np.maximum(masked[others], 0), atol=1e-6)
    assert (masked[others] < 0).any()  # the control: there is something for a zero to win
    assert v1.identity != encoder.identity


def test_argmax_counts_all_tokens(encoder: BiLSTMMax) -> None:
    lists = [split_words(text) for text in TEXTS]
    found = encoder.argmax(lists)
    for words, counted in zip(lists, found, strict=True):
        known = [word for word in words if word not in {"zzz", "qqq"}]
        winners = by_hand(encoder, known).argmax(axis=0)
        assert list(counted.counts) == np.bincount(winners, minlength=len(known) + 2).tolist()
        assert sum(counted.counts) == counted.dimension == 2 * HIDDEN
        assert list(counted.tokens) == ["<s>", *known, "</s>"]
    assert found == [encoder.argmax([words])[0] for words in lists]


def test_ties_go_to_the_first(vectors: WordVectors, encoder: BiLSTMMax) -> None:
    flat = {name: torch.zeros_like(tensor) for name, tensor in encoder.weights.items()}
    still = BiLSTMMax(vectors, hidden=HIDDEN, weights=flat, device="cpu")
    assert list(still.argmax([["woman", "waits"], ["A"]])[0].counts) == [2 * HIDDEN, 0, 0, 0]


def test_markers_take_the_vectors_of_the_file(vectors: WordVectors, encoder: BiLSTMMax) -> None:
    again = BiLSTMMax(vectors, hidden=4, seed=9, device="cpu")
    np.testing.assert_array_equal(encoder.vocabulary.markers, again.vocabulary.markers)
    assert not np.array_equal(*again.vocabulary.markers)
    own = WordVectors.of(["a", "</s>", "<s>"], np.eye(3))
    listed = BiLSTMMax(own, hidden=4, device="cpu")
    np.testing.assert_array_equal(listed.vocabulary.markers, np.eye(3)[[2, 1]])
    listed.encode([["<s>", "a"]])
    assert listed.vocabulary.words == ["<s>", "</s>", "a"]


def test_only_words_in_use_are_kept(vectors: WordVectors) -> None:
    fresh = BiLSTMMax(vectors, hidden=4, device="cpu")
    first = fresh.encode(["woman"])
    assert fresh.vocabulary.words == ["<s>", "</s>", "woman"]
    fresh.encode(["A dress"])
    assert fresh.vocabulary.words == ["<s>", "</s>", "woman", "A", "dress"]
    np.testing.assert_array_equal(fresh.vocabulary.matrix()[2:], vectors.matrix[vectors.rows(["woman", "A", "dress"])])
    np.testing.assert_array_equal(fresh.encode(["woman"]), first)


def test_a_saved_encoder_gives_the_same(encoder: BiLSTMMax, vectors: WordVectors, tmp_path: Path) -> None:
    before = encoder.encode(TEXTS)
    encoder.save(tmp_path / "a")
    loaded = BiLSTMMax.load(tmp_path / "a", device="cpu")
    np.testing.assert_array_equal(loaded.encode(TEXTS), before)
    loaded.save(tmp_path / "b")
    assert BiLSTMMax.load(tmp_path / "b", device="cpu").identity == loaded.identity
    # With the vectors at hand the encoder is the very same, and knows words that it has not stored.
    small = BiLSTMMax(vectors, hidden=4, device="cpu")
    small.encode(["woman"])
    small.save(tmp_path / "c")
    assert BiLSTMMax.load(tmp_path / "c", device="cpu").vocabulary.known(["woman", "dress"]) == ["woman"]
    whole = BiLSTMMax.load(tmp_path / "c", vectors=vectors, device="cpu")
    assert whole.identity == small.identity
    np.testing.assert_array_equal(whole.encode(["pink dress"]), small.encode(["pink dress"]))
    assert {file.name for file in (tmp_path / "c").iterdir()} == {
        "config.json",
        "model.safetensors",
        "vectors.safetensors",
        "words.txt",
    }
    other = WordVectors.of(vectors.words, vectors.matrix + 1, "other")
    with pytest.raises(InputError, match="other"):
        BiLSTMMax.load(tmp_path / "c", vectors=other)


def test_broken_folders_are_refused_in_one_line(encoder: BiLSTMMax, tmp_path: Path) -> None:
    def refused(folder: Path) -> str:
        with pytest.raises(ModelError) as caught:
            BiLSTMMax.load(folder)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "config.json" in refused(tmp_path / "nowhere")

    def damaged(name: str, content: bytes | None) -> str:
        folder = tmp_path / f"{name}-{content is None}"
        encoder.save(folder)
        if content is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(content)
        return refused(folder)

    assert "weights" in damaged("model.safetensors", None)
    assert "encoder" in damaged("model.safetensors", b"rubbish")
    assert "encoder" in damaged("vectors.safetensors", None)
    assert re.search(r"says \d+ words of 9 numbers, words.txt has 3", damaged("words.txt", b"<s>\n</s>\na"))
    assert "BiLSTM" in damaged("config.json", b'{"model_type": "bert"}')
    encoder.save(tmp_path / "wide")
    config = json.loads((tmp_path / "wide" / "config.json").read_text())
    (tmp_path / "wide" / "config.json").write_text(json.dumps({**config, "hidden": 8}))
    assert "bias_hh_l0" in refused(tmp_path / "wide")
    (tmp_path / "wide" / "config.json").write_text(json.dumps({**config, "hidden": "many"}))
    assert "is not complete" in refused(tmp_path / "wide")


def test_bad_settings_are_refused(vectors: WordVectors) -> None:
    with pytest.raises(InputError, match="float16"):
        BiLSTMMax(vectors, hidden=4, device="cpu", dtype="float16")
    with pytest.raises(InputError, match="int8"):
        BiLSTMMax(vectors, hidden=4, device="cpu", dtype="int8")
    with pytest.raises(InputError, match="1 or more"):
        BiLSTMMax(vectors, hidden=0)
    with pytest.raises(InputError, match="lr"):
        EncoderRecipe(lr=0)


def test_importance_of_a_bias_score(encoder: BiLSTMMax, vectors: WordVectors) -> None:
    axis = np.eye(9)[:1].repeat(3, axis=0)
    bias, importance = (pytest.importorskip(f"evenli.corpus.{name}") for name in ("bias", "importance"))
    scorer = bias.BiasScorer(vectors, direction_from_sentences(axis, -axis), weights=importance.MaxPooled(encoder))
    scored = scorer.score("She likes the zzz new pink dress")
    (pooled,) = encoder.argmax([["She", "likes", "the", "new", "pink", "dress"]])
    assert [word.count for word in scored.words] == [*pooled.counts[1:4], None, *pooled.counts[4:-1]]
    assert scored.markers == pytest.approx((pooled.counts[0] + pooled.counts[-1]) / (2 * HIDDEN))
    cosine = {word: vectors.unit(vectors.rows([word]))[0, 0] for word in ("likes", "the", "new", "pink", "dress")}
    parts = [cosine[word] * count for word, count in zip(pooled.tokens[2:-1], pooled.counts[2:-1], strict=True)]
    assert scored.absolute == pytest.approx(sum(map(abs, parts)) / (2 * HIDDEN))
    many = scorer.score_many(["She likes the zzz new pink dress", "A woman waits.", ""])
    np.testing.assert_allclose(many[0], [scored.female, scored.male, scored.absolute])
    assert encoder.identity in scorer.weights.identity


# Training


def test_learning_rate_follows_the_rule() -> None:
    recipe = EncoderRecipe()
    assert learning_rate(recipe, []) == 0.1
    assert learning_rate(recipe, [0.5]) == pytest.approx(0.1 * 0.99)
    assert learning_rate(recipe, [0.5, 0.6]) == pytest.approx(0.1 * 0.99**2)
    # An epoch as good as the best is no improvement; one below an earlier best is none either.
    assert learning_rate(recipe, [0.5, 0.5]) == pytest.approx(0.1 * 0.99 / 5 * 0.99)
    assert learning_rate(recipe, [0.6, 0.4, 0.5]) == pytest.approx(0.1 * 0.99**3 / 25)
    # 0.1 / 5^5 is above 1e-5, 0.1 / 5^6 below.
    assert learning_rate(recipe, [0.6] + [0.1] * 5) == pytest.approx(0.1 * 0.99**6 / 5**5)
    assert learning_rate(recipe, [0.6] + [0.1] * 6) is None


def test_pair_features_and_a_linear_classifier() -> None:
    u, v = torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0, 0.5]])
    assert features(u, v).tolist() == [[1.0, -2.0, 3.0, 0.5, 2.0, 2.5, 3.0, -1.0]]
    head = make_head(2, 4, seed=0)
    a, b, zero = torch.randn(3, 8), torch.randn(3, 8), torch.zeros(3, 8)
    torch.testing.assert_close(head(a + b), head(a) + head(b) - head(zero))


def synthetic(count: int, seed: int) -> SimpleNamespace:
    """Pairs of which the label follows from words: same noun, other noun, negation."""
    random = np.random.default_rng(seed)
    nouns = [f"noun{at}" for at in range(12)]
    premises, hypotheses, labels = [], [], []
    for _ in range(count):
        label = int(random.integers(3))
        first, second = random.choice(nouns, 2, replace=False)
        extra = " ".join(random.choice(nouns, int(random.integers(0, 4))))
        premises.append(f"a {first} waits {extra}".strip())
        hypotheses.append([f"a {first} waits", f"maybe {second}", f"no {first} waits"][label])
        labels.append(label)
    return SimpleNamespace(premises=premises, hypotheses=hypotheses, labels=np.array(labels))


@pytest.fixture(scope="module")
def toy() -> dict[str, Any]:
    words = ["a", "no", "maybe", "waits", *(f"noun{at}" for at in range(12))]
    matrix = np.random.default_rng(1).standard_normal((len(words), 8))
    return {"vectors": WordVectors.of(words, matrix, "toy"), "train": synthetic(300, 0), "dev": synthetic(90, 1)}


QUIET = EncoderSettings(device="cpu", shown=False)
SMALL = EncoderRecipe(hidden=HIDDEN, classifier=8, epochs=3, batch_size=16, window=4)


def run(toy: dict[str, Any], out: Path, **changes: Any) -> Any:
    given = {**toy, "recipe": SMALL, "seed": 5, "device": "cpu", "shown": False, **changes}
    settings = EncoderSettings(device=given.pop("device"), shown=given.pop("shown"))
    pairs = given.pop("vectors"), given.pop("train"), given.pop("dev")
    return train_encoder(*pairs, out, **given, settings=settings)


def stored(folder: Path) -> dict[str, bytes]:
    names = ("model.safetensors", "classifier.safetensors", "vectors.safetensors", "words.txt", "config.json")
    return {name: (folder / name).read_bytes() for name in names}


def test_a_step_is_clipped_sgd_on_the_mean_loss(toy: dict[str, Any]) -> None:
    for clip in (5.0, 0.05):
        recipe = EncoderRecipe(hidden=4, classifier=3, batch_size=16, clip=clip)
        trainer = EncoderTrainer(toy["vectors"], toy["train"], recipe, seed=0, device="cpu")
        before = trainer.state()
        rows = trainer.plan(0)[:1]
        batch = next(trainer._batches(trainer.data, rows))
        parameters = trainer._parameters
        loss = torch.nn.functional.cross_entropy(trainer._logits(batch), batch.labels)
        gradients = torch.autograd.grad(loss, parameters)
        norm = float(torch.sqrt(sum((gradient**2).sum() for gradient in gradients)))
        assert 0.05 < norm < 5.0
        scale = min(1.0, clip / norm)
        summed, _ = trainer.step(batch, 0.1)
        assert float(summed) == pytest.approx(16 * float(loss.detach()), rel=1e-5)
        for (name, after), gradient in zip(trainer.state().items(), gradients, strict=True):
            torch.testing.assert_close(after, before[name] - 0.1 * scale * gradient, msg=name)


def test_training_encodes_as_the_encoder_does(toy: dict[str, Any]) -> None:
    trainer = EncoderTrainer(toy["vectors"], toy["train"], SMALL, seed=0, device="cpu")
    rows = trainer.plan(0)[0]
    with torch.no_grad():
        logits = trainer._logits(next(trainer._batches(trainer.data, [rows])))
    state = trainer.state()
    weights = {name.removeprefix("lstm."): tensor for name, tensor in state.items() if name.startswith("lstm.")}
    encoder = BiLSTMMax(toy["vectors"], hidden=HIDDEN, weights=weights, device="cpu")
    sides = ([getattr(toy["train"], side)[row] for row in rows] for side in ("premises", "hypotheses"))
    u, v = (torch.from_numpy(np.concatenate([encoder.encode([text]) for text in side])) for side in sides)
    with torch.no_grad():
        torch.testing.assert_close(logits, trainer._head(features(u, v)), atol=1e-6, rtol=0)


def test_every_pair_is_seen_once_an_epoch(toy: dict[str, Any]) -> None:
    trainer = EncoderTrainer(toy["vectors"], toy["train"], SMALL, seed=0, device="cpu")
    first, second = trainer.plan(0), trainer.plan(1)
    assert len(first) == trainer.steps_per_epoch == 19
    assert trainer.data.longest is trainer.data.longest
    assert sorted(np.concatenate(first)) == sorted(np.concatenate(second)) == list(range(300))
    assert not np.array_equal(np.concatenate(first), np.concatenate(second))
    assert all(np.array_equal(expected, batch) for expected, batch in zip(first, trainer.plan(0), strict=True))
    uniform = EncoderTrainer(toy["vectors"], toy["train"], EncoderRecipe(hidden=4, window=1), seed=0, device="cpu")
    longest = uniform.data.longest

    def steps(plan: list[Any]) -> float:
        return float(np.mean([longest[rows].max() for rows in plan]))

    assert steps(first) < steps(uniform.plan(0))


def test_an_interrupted_run_ends_the_same(toy: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(toy, tmp_path / "whole")
    assert [epoch.epoch for epoch in whole.history] == [1, 2, 3] and whole.pairs == 300 and whole.words == 18

    real, seen = EncoderTrainer.step, []

    def falters(self: EncoderTrainer, *arguments: Any) -> Any:
        seen.append(1)
        if len(seen) == 25:  # within the second epoch of 19 steps
            raise KeyboardInterrupt
        return real(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(EncoderTrainer, "step", falters)
        run(toy, tmp_path / "halved")
    assert not (tmp_path / "halved" / "config.json").exists()
    with pytest.raises(RunError, match="seed"):
        run(toy, tmp_path / "halved", seed=6)
    resumed = run(toy, tmp_path / "halved")
    assert stored(tmp_path / "halved") == stored(tmp_path / "whole")
    assert [(epoch.loss, epoch.dev, epoch.lr) for epoch in resumed.history] == [
        (epoch.loss, epoch.dev, epoch.lr) for epoch in whole.history
    ]
    assert not (tmp_path / "halved" / "checkpoint.safetensors").exists()

    with monkeypatch.context() as patch:
        patch.setattr(EncoderTrainer, "step", None)  # a finished run trains nothing
        assert run(toy, tmp_path / "whole") == whole
    with pytest.raises(RunError, match="run"):
        run(toy, tmp_path / "whole", dev=synthetic(80, 2))
    assert stored(tmp_path / "whole") != stored(run(toy, tmp_path / "other", seed=6).folder)


def test_the_best_epoch_is_kept(toy: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    accuracies = iter([0.5, 0.7, 0.6, 0.6, 0.65, 0.1])
    states = []

    def told(self: EncoderTrainer, data: Any) -> float:
        states.append(self.state())
        return next(accuracies)

    monkeypatch.setattr(EncoderTrainer, "accuracy", told)
    recipe = EncoderRecipe(hidden=HIDDEN, classifier=8, epochs=6, batch_size=64, min_lr=1e-3)
    outcome = run(toy, tmp_path, recipe=recipe)
    # 0.1 -> /5 -> /5 -> /5 is 0.0008: below the limit after the fifth epoch.
    assert (outcome.best, outcome.dev, outcome.stopped, len(outcome.history)) == (2, 0.7, True, 5)
    kept = BiLSTMMax.load(tmp_path, device="cpu").weights
    assert all(torch.equal(tensor, states[1][f"lstm.{name}"]) for name, tensor in kept.items())
    assert not torch.equal(kept["weight_hh_l0"], states[4]["lstm.weight_hh_l0"])


def test_a_loss_that_is_no_number_stops(toy: dict[str, Any], tmp_path: Path) -> None:
    large = WordVectors.of(toy["vectors"].words, toy["vectors"].matrix)
    recipe = EncoderRecipe(hidden=4, classifier=4, epochs=1, batch_size=16, lr=1e30)
    with pytest.raises(ModelError, match="epoch 1.*loss"):
        run(toy, tmp_path, vectors=large, recipe=recipe)
    assert not (tmp_path / "config.json").exists()


def test_bad_pairs_and_a_folder_in_use_are_refused(toy: dict[str, Any], tmp_path: Path) -> None:
    empty = SimpleNamespace(premises=[], hypotheses=[], labels=[])
    with pytest.raises(InputError, match="dev"):
        run(toy, tmp_path, dev=empty)
    with pytest.raises(InputError, match="train"):
        run(toy, tmp_path, train=SimpleNamespace(premises=["a"], hypotheses=["a"], labels=[0, 1]))
    with pytest.raises(InputError, match=r"\[0, 3\]"):
        run(toy, tmp_path, train=SimpleNamespace(premises=["a", "a"], hypotheses=["a", "a"], labels=[0, 3]))
    with pytest.raises(InputError, match="seed.*-1"):
        run(toy, tmp_path, seed=-1)
    with FileLock(tmp_path / LOCK), pytest.raises(RunLockedError, match="another process"):
        run(toy, tmp_path)


def test_training_beats_chance_on_made_up_pairs(toy: dict[str, Any], tmp_path: Path) -> None:
    test = synthetic(300, 7)
    recipe = EncoderRecipe(hidden=HIDDEN, classifier=16, epochs=2, batch_size=16)
    outcome = run(toy, tmp_path, train=synthetic(2000, 3), recipe=recipe)
    assert outcome.history[1].loss < outcome.history[0].loss
    assert outcome.dev > 0.9
    assert nli_accuracy(tmp_path, test, device="cpu") > 0.9
    same = nli_accuracy(tmp_path, toy["dev"], device="cpu")
    assert same == pytest.approx(outcome.dev)
    # A test set has words that training did not have; with their vectors they count.
    known = toy["vectors"]
    alike = [known.matrix[known.words.index(word)] for word in ("no", "a")]
    wider = WordVectors.of([*known.words, "nay", "an"], np.vstack([known.matrix, *alike]), "wider")
    run(toy, tmp_path / "wider", train=synthetic(2000, 3), recipe=recipe, vectors=wider)
    others = [re.sub(r"^no ", "nay ", re.sub(r"^a ", "an ", text)) for text in test.hypotheses]
    renamed = SimpleNamespace(premises=test.premises, hypotheses=others, labels=test.labels)
    assert nli_accuracy(tmp_path / "wider", renamed, vectors=wider, device="cpu") == pytest.approx(
        nli_accuracy(tmp_path / "wider", test, vectors=wider, device="cpu")
    )
    assert nli_accuracy(tmp_path / "wider", renamed, device="cpu") < nli_accuracy(
        tmp_path / "wider", renamed, vectors=wider, device="cpu"
    )
    (tmp_path / "classifier.safetensors").unlink()
    with pytest.raises(ModelError, match="classifier.safetensors"):
        nli_accuracy(tmp_path, test)


def test_the_recurrence_is_that_of_torch() -> None:
    time, rows, width, hidden = 7, 5, 6, 4
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        lstm = torch.nn.LSTM(width, hidden, bidirectional=True).double()
        inputs = torch.randn(time, rows, width, dtype=torch.double)
        towards = torch.randn(time, rows, 2 * hidden, dtype=torch.double)
    expected = lstm(inputs)[0]
    (expected * towards).sum().backward()
    named = dict(lstm.named_parameters())

    def both(name: str) -> Any:
        return torch.stack([named[f"{name}_l0"], named[f"{name}_l0_reverse"]])

    leaves = [both("weight_ih"), both("weight_hh"), both("bias_ih") + both("bias_hh")]
    leaves = [leaf.detach().requires_grad_() for leaf in leaves]
    found = run_both(torch.stack([inputs, inputs.flip(0)]), *leaves)
    found = torch.cat([found[:, 0], found[:, 1].flip(0)], dim=-1)
    torch.testing.assert_close(found, expected)
    (found * towards).sum().backward()
    for leaf, name in zip(leaves, ("weight_ih", "weight_hh", "bias_hh"), strict=True):
        for way, suffix in enumerate(("", "_reverse")):
            torch.testing.assert_close(leaf.grad[way], named[f"{name}_l0{suffix}"].grad, msg=name + suffix)


@pytest.mark.parametrize("v1_padding", [False, True])
def test_padded_steps_are_those_of_packed_ones(toy: dict[str, Any], v1_padding: bool) -> None:
    recipe = EncoderRecipe(**{**asdict(SMALL), "v1_padding": v1_padding})
    packed, padded = (
        kind(toy["vectors"], toy["train"], recipe, seed=0, device="cpu") for kind in (EncoderTrainer, GraphedTrainer)
    )
    assert packed.accuracy(packed.data) == padded.accuracy(padded.data)
    start = packed.state()
    results = [trainer.run_epoch(0, 0.1) for trainer in (packed, padded)]
    assert results[0] == pytest.approx(results[1], rel=1e-5)
    ends = [trainer.state() for trainer in (packed, padded)]
    for name, tensor in ends[0].items():
        torch.testing.assert_close(ends[1][name], tensor, atol=1e-5, rtol=1e-4, msg=name)
        assert not torch.equal(tensor, start[name])
    padded.load_state(start)
    assert padded.accuracy(padded.data) == EncoderTrainer(
        toy["vectors"], toy["train"], recipe, seed=0, device="cpu"
    ).accuracy(packed.data)


def test_wins_are_the_counts_without_markers(encoder: BiLSTMMax) -> None:
    sentences = [[*split_words(text), "unheardofword"] for text in TEXTS] + [[]]
    counts, sizes = encoder.argmax_counts(sentences)
    assert sizes.tolist() == [len(words) for words in sentences]
    for words, found, pooled in zip(
        sentences, np.split(counts, np.cumsum(sizes)[:-1]), encoder.argmax(sentences), strict=True
    ):
        known = encoder.vocabulary.known(words)
        assert found[[at for at, word in enumerate(words) if word in known]].tolist() == pooled.counts[1:-1]
        assert found.sum() == encoder.dimension - pooled.counts[0] - pooled.counts[-1]


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "limit"), [("float32", 1e-5), ("tf32", 5e-3), ("float16", 5e-3)])
def test_cuda_gives_what_the_cpu_gives(
    toy: dict[str, Any], vectors: WordVectors, encoder: BiLSTMMax, tmp_path: Path, dtype: str, limit: float
) -> None:
    fast = BiLSTMMax(vectors, hidden=HIDDEN, seed=3, device="cuda", dtype=dtype)
    np.testing.assert_allclose(fast.encode(TEXTS), encoder.encode(TEXTS), atol=limit)
    assert (fast.identity == encoder.identity) == (dtype != "float16")
    assert all(sum(counted.counts) == 2 * HIDDEN for counted in fast.argmax([split_words(text) for text in TEXTS]))
    trained = "bfloat16" if dtype == "float16" else dtype
    recipe = EncoderRecipe(hidden=HIDDEN, classifier=16, epochs=2, batch_size=16, dtype=trained)
    assert run(toy, tmp_path, train=synthetic(2000, 3), recipe=recipe, device="cuda").dev > 0.9


@pytest.mark.gpu
def test_recorded_steps_move_the_fp32_weights(toy: dict[str, Any]) -> None:
    exact = EncoderTrainer(toy["vectors"], toy["train"], SMALL, seed=0, device="cpu")
    reduced = GraphedTrainer(toy["vectors"], toy["train"], SMALL, seed=0, device="cuda")
    start = exact.state()
    for trainer in (exact, reduced):
        trainer.run_epoch(0, 0.1)
        trainer.run_epoch(1, 0.1)
    ends = [trainer.state() for trainer in (exact, reduced)]
    for part in ("lstm.", "head."):
        moves = [torch.cat([(end[name] - start[name]).flatten() for name in start if part in name]) for end in ends]
        # Steps are far smaller than what bfloat16 resolves in a weight: they add up in fp32 only.
        off, way = (moves[1] - moves[0]).norm(), moves[0].norm()
        assert off < 0.1 * way, f"{part} {off / way}"
    assert reduced.accuracy(reduced.data) == pytest.approx(exact.accuracy(exact.data), abs=0.05)


def test_training_beats_chance_on_snli(shared_data: Path, tmp_path: Path) -> None:
    read = read_examples([shared_data / "snli" / "snli_1.0_test.jsonl.xz"])
    random = np.random.default_rng(0)
    chosen = random.permutation(len(read))[:9600]

    def some(rows: Any) -> SimpleNamespace:
        return SimpleNamespace(
            premises=[read.premises[row] for row in rows],
            hypotheses=[read.hypotheses[row] for row in rows],
            labels=read.labels[rows],
        )

    train, dev = some(chosen[:8000]), some(chosen[8000:])
    words = sorted({word for text in (*train.premises, *train.hypotheses) for word in split_words(text)})
    vectors = WordVectors.of(words, random.standard_normal((len(words), 32)))
    recipe = EncoderRecipe(hidden=32, classifier=32, epochs=2, batch_size=16)
    outcome = train_encoder(vectors, train, dev, tmp_path, recipe=recipe, settings=QUIET)
    chance = np.bincount(dev.labels).max() / len(dev.labels)
    assert outcome.dev > chance + 4 * np.sqrt(chance * (1 - chance) / len(dev.labels))


def test_progress_names_the_epochs(toy: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(toy, tmp_path, shown=True)
    lines = capsys.readouterr().err.splitlines()
    assert any(re.search(r"epoch 1/3  step 19/57  loss \d", line) for line in lines)
    assert any(re.search(r"epoch 3/3  lr 0\.\d+  loss [\d.]+  train 0\.\d+  dev 0\.\d+  \d", line) for line in lines)


def test_a_trained_encoder_finds_its_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["man", "woman", "sleeps", "aster"]
    file = tmp_path / "vectors.npz"
    save_vectors(WordVectors.of(words, np.random.default_rng(0).normal(size=(4, 5))), file)
    made = BiLSTMMax(load_vectors(file), hidden=3, device="cpu")
    made.encode(["a man sleeps"])
    made.save(tmp_path / "encoder")
    target = str(tmp_path / "encoder")
    whole = made.encode(["an aster"])
    stored = BiLSTMMax.load(target, device="cpu")
    assert not np.allclose(stored.encode(["an aster"]), whole), "a word it did not meet is left out"
    found = load_trained(target, device="cpu")
    np.testing.assert_allclose(found.encode(["an aster"]), whole, atol=1e-6)
    assert not found.note
    moved = file.rename(tmp_path / "moved.npz")
    lost = load_trained(target, device="cpu")
    np.testing.assert_allclose(lost.encode(["an aster"]), stored.encode(["an aster"]), atol=1e-6)
    assert f"give them as infersent:{target},FILE" in lost.note
    for again in (
        load_trained(f"{target},{moved}", device="cpu"),
        load_trained(target, device="cpu", at_hand=load_vectors(moved)),
    ):
        np.testing.assert_allclose(again.encode(["an aster"]), whole, atol=1e-6)
    save_vectors(WordVectors.of(words, np.ones((4, 5))), file)
    assert load_trained(target, device="cpu").note, "other numbers under the old name are not taken"
    with pytest.raises(InputError, match="vectors"):
        load_trained(f"{target},{file}", device="cpu")
    monkeypatch.chdir(tmp_path)
    assert resolved_spec("infersent:encoder,moved.npz") == f"infersent:{target},{moved}"


def test_a_folder_may_have_commas_in_its_name(vectors: WordVectors, tmp_path: Path) -> None:
    save_vectors(vectors, tmp_path / "v.npz")
    folder = tmp_path / "seed 1, hidden 4"
    made = BiLSTMMax(load_vectors(tmp_path / "v.npz"), hidden=HIDDEN, seed=3, device="cpu")
    expected = made.encode(TEXTS)
    made.save(folder)
    for target, parts in (
        (f"{folder}", [str(folder)]),
        (f"{folder},{tmp_path / 'v.npz'}", [str(folder), str(tmp_path / "v.npz")]),
    ):
        assert parts_of(f"infersent:{target}") == parts
        assert resolved_spec(f"infersent:{target}") == f"infersent:{target}"
        np.testing.assert_allclose(load_encoder(f"infersent:{target}", device="cpu").encode(TEXTS), expected, atol=1e-6)
    assert parts_of("infersent:encoder,") == parts_of("infersent:encoder") == ["encoder"]
    with pytest.raises(ModelError, match="absent"):
        load_trained(f"{tmp_path / 'absent'},v.npz")


def test_training_replaces_nothing_of_others(toy: dict[str, Any], vectors: WordVectors, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("mine", encoding="utf-8")
    with pytest.raises(RunError, match="data.csv"):
        run(toy, tmp_path)
    model = tmp_path / "model"
    model.mkdir()
    for name in ("config.json", "model.safetensors"):
        (model / name).write_text("{}", encoding="utf-8")
    with pytest.raises(RunError, match="config.json"):
        run(toy, model)
    assert (model / "config.json").read_text(encoding="utf-8") == "{}"
    (tmp_path / "mine").mkdir()
    # What a process leaves that is killed inside its first checkpoint.
    for name in (".checkpoint.partial.safetensors", ".tmpnL3TCN"):
        (tmp_path / "mine" / name).write_text("", encoding="utf-8")
    run(toy, tmp_path / "mine")
    assert not list((tmp_path / "mine").glob(".tmp*"))
    with pytest.raises(RunError, match="epochs"):
        run(toy, tmp_path / "mine", recipe=EncoderRecipe(**{**asdict(SMALL), "epochs": 4}))


def test_v1_padding_does_not_reach_what_is_kept(vectors: WordVectors, tmp_path: Path) -> None:
    v1 = BiLSTMMax(vectors, hidden=HIDDEN, seed=3, device="cpu", v1_padding=True)
    assert np.abs(v1.encode(TEXTS)[1] - v1.encode(TEXTS[1:2])[0]).max() > 1e-3  # the control
    with pytest.raises(InputError, match="batch"):
        EmbeddingCache(v1)
    v1.save(tmp_path)
    loaded = load_trained(str(tmp_path), device="cpu")
    np.testing.assert_allclose(EmbeddingCache(loaded).encode(TEXTS)[1], v1.encode(TEXTS[1:2])[0], atol=1e-6)


def test_a_mitigated_encoder_keeps_the_vectors_of_its_base(tmp_path: Path) -> None:
    sentences = gendered_set()
    texts = [text for part in ("fit", "probe", "test") for text in sentences.rows(part)[0]] + list(sentences.neutral)
    words = sorted({word.lower() for text in texts for word in split_words(text)})
    save_vectors(WordVectors.of(words, np.random.default_rng(0).normal(size=(len(words), 8))), tmp_path / "v.npz")
    made = BiLSTMMax(load_vectors(tmp_path / "v.npz"), hidden=4, device="cpu")
    made.save(tmp_path / "encoder")
    moved = (tmp_path / "v.npz").rename(tmp_path / "moved.npz")
    spec = f"infersent:{tmp_path / 'encoder'},{moved}"
    mitigate_encoder(spec, tmp_path / "fairer", MitigationSettings("leace"), device="cpu")
    fairer = load_encoder(f"mitigated:{tmp_path / 'fairer'}", device="cpu")
    base = load_encoder(spec, device="cpu")
    assert np.abs(fairer.encode(texts[:4]) - base.encode(texts[:4])).max() > 1e-3
    made.encode(texts)
    made.save(tmp_path / "without")
    about = mitigate_encoder(f"infersent:{tmp_path / 'without'}", tmp_path / "told", MitigationSettings("leace"))
    assert "are not at hand" in about.note
    assert load_encoder(f"mitigated:{tmp_path / 'told'}").note == about.note  # type: ignore[attr-defined]
    moved.unlink()
    with pytest.raises(ModelError, match="moved.npz"):
        load_encoder(f"mitigated:{tmp_path / 'fairer'}", device="cpu")
