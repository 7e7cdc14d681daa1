"""Backends: labels by name, exact padding, refusals that say what to do."""

from __future__ import annotations

import functools
import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import evenli
from conftest import make_checkpoint, tiny_tokenizer
from evenli.audit.models import CallableModel, ModelOptions, OutOfMemory, fake_model, load_model, loading
from evenli.audit.models.base import Tokens, tokenise
from evenli.audit.suites.coal.pairs import build_coal
from evenli.core.errors import InputError, LabelError, MissingExtraError, ModelError, RunError
from evenli.core.labels import LABELS, label_columns
from evenli.core.record import Scoring

PREMISES = ["the nurse waits in the rain.", "a doctor walks.", "two people sleeps near the red house on the street."]
HYPOTHESES = ["the woman waits.", "the man walks in the park with a dog.", "no"]


def plain_logits(folder: Path, premises: list[str], hypotheses: list[str]) -> np.ndarray:
    """The reference: one pair at a time, no padding, straight from transformers."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        rows = [
            model(**tokenizer(p, h, return_tensors="pt")).logits[0] for p, h in zip(premises, hypotheses, strict=True)
        ]
    return torch.stack(rows).numpy()


def test_label_columns() -> None:
    assert label_columns(["CONTRADICTION", "ENTAILMENT", "NEUTRAL"], origin="x") == (1, 2, 0)
    with pytest.raises(LabelError, match="2 label"):
        label_columns(["entailment", "not_entailment"], origin="x")
    with pytest.raises(LabelError, match="LABEL_0"):
        label_columns(["LABEL_0", "LABEL_1", "LABEL_2"], origin="x")
    with pytest.raises(LabelError, match="neutral, 7"):
        label_columns(["entailment", "neutral", 7], origin="x")  # type: ignore[list-item]
    with pytest.raises(LabelError, match="entail, neutral"):
        label_columns(["entailment", "entail", "neutral"], origin="x")


def test_padding_is_masked_exactly() -> None:
    tokens = Tokens.from_lists([[1, 2, 3], [4]], [[0, 0, 1], [0]], pad_id=9)
    ids, types, mask = tokens.batch()
    assert ids.tolist() == [[1, 2, 3], [4, 9, 9]]
    assert types.tolist() == [[0, 0, 1], [0, 0, 0]]
    assert mask is not None and mask.tolist() == [[1, 1, 1], [1, 0, 0]]
    batch = tokens[np.array([1, 1])].batch()
    assert batch[0].tolist() == [[4], [4]] and batch[2] is None


def test_blocks_of_pairs_give_the_same_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model("evenli:en", options=ModelOptions(max_length=16))
    premises = [f"the nurse waves {'again and ' * (number % 4)}again." for number in range(9)]
    hypotheses = [f"the woman waves {number}." for number in range(9)]
    whole = model.prepare(premises, hypotheses)
    monkeypatch.setattr("evenli.audit.models.growth._AT_ONCE", 60)
    blocks = model.prepare(premises, hypotheses)
    assert 0 < blocks.truncated == whole.truncated < 9 and blocks.lengths.max() == 16
    for expected, other in zip(whole.take(np.arange(9)).batch(), blocks.take(np.arange(9)).batch(), strict=True):
        np.testing.assert_array_equal(expected, other)
    np.testing.assert_array_equal(blocks.take(np.array([8, 0])).batch()[0][1], whole.take(np.array([0])).batch()[0][0])


def test_hf_matches_transformers_with_and_without_padding(checkpoint: Path) -> None:
    model = load_model(str(checkpoint), options=ModelOptions(device="cpu"))
    prepared = model.prepare(PREMISES, HYPOTHESES)
    expected = plain_logits(checkpoint, PREMISES, HYPOTHESES)
    together = model.logits(prepared.items)
    singly = np.concatenate([model.logits(prepared.items[i : i + 1]) for i in range(len(prepared.items))])
    np.testing.assert_allclose(together, expected, atol=1e-4)
    np.testing.assert_allclose(singly, expected, atol=1e-4)
    assert np.abs(expected[0] - expected[1]).max() > 0.01  # the model does tell the pairs apart


def test_speedups_change_no_answer_and_know_their_limits() -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from evenli.audit.models.hf import pack_linear_layers, shorten_last_layer

    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "num_labels": 3,
        "initializer_range": 0.2,
    }
    ids = torch.randint(5, 90, (4, 20), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[2, 11:] = 0
    distil = transformers.DistilBertConfig(vocab_size=100, dim=32, n_layers=2, n_heads=4, hidden_dim=64, num_labels=3)
    shortened = {"bert": True, "roberta": True, "electra": True, "distilbert": False}
    for config in (
        transformers.BertConfig(vocab_size=100, **sizes),
        transformers.RobertaConfig(vocab_size=100, pad_token_id=1, **sizes),
        transformers.ElectraConfig(vocab_size=100, embedding_size=32, **sizes),
        distil,
    ):
        torch.manual_seed(0)
        model = transformers.AutoModelForSequenceClassification.from_config(config).eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.endswith("bias"):  # fresh ones are zero and would hide a forgotten one
                    parameter.normal_(std=0.3)
        with torch.inference_mode():
            before = [model(input_ids=ids, attention_mask=m).logits for m in (None, mask)]
            assert shorten_last_layer(model, torch) is shortened[config.model_type]
            assert pack_linear_layers(model, torch) is torch.backends.mkldnn.is_available()
            after = [model(input_ids=ids, attention_mask=m).logits for m in (None, mask)]
        for expected, other in zip(before, after, strict=True):
            np.testing.assert_allclose(other, expected, atol=1e-5)


def test_a_speedup_that_changes_answers_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from evenli.audit.models import hf as speedups

    config = transformers.BertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, num_labels=3
    )
    model = transformers.AutoModelForSequenceClassification.from_config(config).eval()
    linear, last = model.classifier, model.bert.encoder.layer[-1]
    monkeypatch.setattr(speedups, "_packed_linear", lambda layer, torch: torch.nn.Linear(layer.in_features, 3))
    monkeypatch.setattr(speedups, "_first_token_layer", lambda layer, torch: torch.nn.Identity())
    assert not speedups.pack_linear_layers(model, torch)
    assert not speedups.shorten_last_layer(model, torch)
    assert model.classifier is linear
    assert model.bert.encoder.layer[-1] is last


def test_hf_labels_are_resolved_by_name(tmp_path: Path, checkpoint: Path) -> None:
    turned = make_checkpoint(tmp_path / "turned", labels=["CONTRADICTION", "ENTAILMENT", "NEUTRAL"])
    raw = plain_logits(turned, PREMISES, HYPOTHESES)
    model = load_model(str(turned))
    got = model.logits(model.prepare(PREMISES, HYPOTHESES).items)
    np.testing.assert_allclose(got, raw[:, [1, 2, 0]], atol=1e-4)
    assert model.info.labels == ("CONTRADICTION", "ENTAILMENT", "NEUTRAL")
    assert model.info.fingerprint != load_model(str(checkpoint)).info.fingerprint


def test_everything_that_shapes_outputs_is_in_the_fingerprint(checkpoint: Path, tmp_path: Path) -> None:
    import shutil

    from evenli.audit.models.loading import checkpoint_files
    from evenli.core.io import hash_files

    TransformerArgmax = pytest.importorskip("evenli.corpus.transformer").TransformerArgmax  # noqa: N806

    folder = shutil.copytree(checkpoint, tmp_path / "copy")
    marks = {load_model(str(folder)).info.fingerprint}
    pooled = {TransformerArgmax(folder, device="cpu").identity}
    names = ("vocab.json", "merges.txt", "sentencepiece.bpe.model", "added_tokens.json", "special_tokens_map.json")
    for name in names:
        (folder / name).write_text("{}")
        marks.add(hash_files(checkpoint_files(folder)))
    assert len(marks) == 1 + len(names)
    (folder / "added_tokens.json").write_text('{"x": 5}')
    (folder / "merges.txt").write_text("#version")
    assert load_model(str(folder)).info.fingerprint not in marks
    assert TransformerArgmax(folder, device="cpu").identity not in pooled
    kept = checkpoint_files(folder)
    for name in ("README.md", "results.json", "training.json", "pytorch_model.bin", "modeling.py"):
        (folder / name).write_text("{}")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "config.json").write_text("{}")
    assert checkpoint_files(folder) == kept
    assert set(checkpoint_files(folder, nested=True)) - set(kept) == {folder / "onnx" / "config.json"}
    (folder / "model.safetensors").unlink()
    assert folder / "pytorch_model.bin" in checkpoint_files(folder)


@pytest.mark.parametrize(
    ("device", "dtype", "bucket", "released"), [("cuda:0", "bfloat16", 8, 1), ("cpu:0", "float32", 1, 0)]
)
def test_a_numbered_device_is_treated_like_its_kind(
    device: str, dtype: str, bucket: int, released: int, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    calls = []
    monkeypatch.setattr("evenli.audit.models.loading.pick_device", lambda *_: device)
    monkeypatch.setattr(torch.nn.Module, "to", lambda self, *where: self)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append(device))
    model = load_model(str(checkpoint), options=ModelOptions(device=device))
    assert (model.info.device, model.info.dtype, model.bucket) == (device, dtype, bucket)
    with pytest.raises(OutOfMemory), loading.inference(torch, device, model.info.name):
        raise MemoryError
    assert len(calls) == released


def test_unnamed_and_two_label_heads_are_refused(tmp_path: Path) -> None:
    unnamed = make_checkpoint(tmp_path / "unnamed", labels=["LABEL_0", "LABEL_1", "LABEL_2"])
    with pytest.raises(LabelError, match="--labels"):
        load_model(str(unnamed))
    named = load_model(str(unnamed), options=ModelOptions(labels=("neutral", "contradiction", "entailment")))
    raw = plain_logits(unnamed, PREMISES, HYPOTHESES)
    np.testing.assert_allclose(named.logits(named.prepare(PREMISES, HYPOTHESES).items), raw[:, [2, 0, 1]], atol=1e-4)
    two = make_checkpoint(tmp_path / "two", labels=["entailment", "not_entailment"])
    with pytest.raises(LabelError, match="neutral"):
        load_model(str(two))
    with pytest.raises(LabelError, match="--labels"):
        load_model(str(two), options=ModelOptions(labels=LABELS))


def test_truncation_is_counted(checkpoint: Path) -> None:
    model = load_model(str(checkpoint), options=ModelOptions(max_length=12))
    prepared = model.prepare([*PREMISES, "the dog " * 40], [*HYPOTHESES, "a dog"])
    assert prepared.lengths.max() == 12
    assert prepared.truncated == 4


@pytest.mark.parametrize("limit", [-1, 0, 3])
def test_a_limit_without_room_for_text_is_refused(limit: int) -> None:
    with pytest.raises(ModelError, match=f"{limit} tokens"):
        tokenise(tiny_tokenizer(), ["the nurse waits"], ["a woman"], limit)
    tokens, truncated = tokenise(tiny_tokenizer(), ["the nurse waits"], ["a woman"], 4)
    assert tokens.lengths.tolist() == [4] and truncated == 1
    with pytest.raises(InputError, match="max_length is 0"):
        evenli.audit("evenli:en", limit=20, max_length=0)


def test_unsafe_checkpoints_are_refused(tmp_path: Path, checkpoint: Path) -> None:
    torch = pytest.importorskip("torch")
    pickled = make_checkpoint(tmp_path / "pickled")
    from safetensors.torch import load_file

    weights = load_file(pickled / "model.safetensors")
    torch.save(weights, pickled / "pytorch_model.bin")
    (pickled / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="--allow-pickle"):
        load_model(str(pickled))
    allowed = load_model(str(pickled), options=ModelOptions(allow_pickle=True))
    reference = load_model(str(make_checkpoint(tmp_path / "safe")))
    items = reference.prepare(PREMISES, HYPOTHESES).items
    np.testing.assert_allclose(allowed.logits(items), reference.logits(items), atol=1e-5)

    remote = make_checkpoint(tmp_path / "remote")
    config = json.loads((remote / "config.json").read_text())
    config["auto_map"] = {"AutoModelForSequenceClassification": "evil.Model"}
    (remote / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="remote"):
        load_model(str(remote))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("hf:no-such-org/no-such-model@abc123", "no-such-org/no-such-model@abc123"),
        ("./no/such/folder", "no/such/folder"),
        ("onnx:./none.onnx", r"none\.onnx"),
        ("py:nothing", "py:module:function"),
        ("py:no_such_module:f", "no_such_module:f"),
        ("py:json:decoder", "callable"),
        ("fake:angry", "angry"),
        ("fake:oracle:2", r"0\.\.1"),
        ("fake:oracle:x", "number"),
        ("evenli:klingon", "klingon"),
        ("hf:", "model"),
    ],
)
def test_bad_specs(spec: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match=message):
        load_model(spec, options=ModelOptions())


def test_broken_folders(tmp_path: Path, checkpoint: Path) -> None:
    with pytest.raises(ModelError, match="config.json"):
        load_model(f"hf:{tmp_path}")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelError, match="JSON"):
        load_model(f"hf:{tmp_path}")
    (tmp_path / "config.json").write_text((checkpoint / "config.json").read_text())
    with pytest.raises(ModelError, match="weights"):
        load_model(f"hf:{tmp_path}")
    (tmp_path / "model.onnx").write_bytes(b"nonsense")
    with pytest.raises(ModelError, match="tokenizer.json"):
        load_model(f"onnx:{tmp_path}")
    (tmp_path / "tokenizer.json").write_text((checkpoint / "tokenizer.json").read_text())
    with pytest.raises(ModelError, match="onnx"):
        load_model(f"onnx:{tmp_path}")
    with pytest.raises(InputError, match="float64"):
        load_model(str(checkpoint), options=ModelOptions(device="cuda", dtype="float64"))


def test_missing_extra_names_the_extra(monkeypatch: pytest.MonkeyPatch, checkpoint: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"evenli\[hf\]"):
        load_model(str(checkpoint))


def test_callables_in_every_form() -> None:
    expected = [0, 2, 1]
    forms = {
        "probabilities": lambda p, h: [[0.8, 0.1, 0.1], [0.1, 0.1, 0.8], [0.2, 0.7, 0.1]],
        "logits": lambda p, h: np.array([[3, -1, 0], [-4, -3, 2], [0, 5, 1]]),
        "names": lambda p, h: ["entailment", "CONTRADICTION", "neutral"],
        "dictionaries": lambda p, h: [
            {"entailment": 2.0, "neutral": 0.0, "contradiction": 1.0},
            {"contradiction": 2.0, "neutral": 0.0, "entailment": 1.0},
            {"neutral": 2.0, "entailment": 0.0, "contradiction": 1.0},
        ],
    }
    for name, function in forms.items():
        model = CallableModel(function)
        logits = model.logits(model.prepare(PREMISES, HYPOTHESES).items)
        assert logits.dtype == np.float32 and logits.argmax(axis=1).tolist() == expected, name
    turned = CallableModel(forms["logits"], labels=("contradiction", "neutral", "entailment"))
    assert turned.logits(turned.prepare(PREMISES, HYPOTHESES).items).argmax(axis=1).tolist() == [2, 0, 1]
    probabilities = CallableModel(forms["probabilities"])
    exp = np.exp(probabilities.logits(probabilities.prepare(PREMISES, HYPOTHESES).items))
    np.testing.assert_allclose(exp[0], [0.8, 0.1, 0.1], rtol=1e-5)


@pytest.mark.parametrize(
    "answer",
    [
        [1, 2, 3],
        [[1, 2]] * 3,
        ["yes", "no", "no"],
        ["neutral"],
        [{"neutral": 1, "entailment": 0}] * 3,
        object(),
        [{}] * 3,
        [{"entailment": "a", "neutral": 0, "contradiction": 1}] * 3,
        [{"entailment": [1], "neutral": [0], "contradiction": [1]}] * 3,
        ["neutral", [1, 2, 3], "neutral"],
        ["neutral", 5, "neutral"],
        [[1, 2, 3], "neutral", [1, 2, 3]],
        ["neutral", {"neutral": 1.0}, "neutral"],
        np.eye(3) + 1j,
        [[1j, 0, 0]] * 3,
        np.ma.array(np.eye(3), mask=np.eye(3)),
        np.zeros((3, 3), dtype="M8[s]"),
        [["1", "2", "3"]] * 3,
    ],
)
def test_bad_callables(answer: object) -> None:
    model = CallableModel(lambda p, h: answer, name="mine")
    with pytest.raises(ModelError, match="mine"):
        model.logits(model.prepare(PREMISES, HYPOTHESES).items)


def test_fakes_read_the_sentence() -> None:
    pairs = build_coal("zh").frame
    model = fake_model("biased", lang="zh")
    for subset, label in (("PS", "entailment"), ("AS", "contradiction")):
        rows = pairs.filter(pairs["subset"] == subset)
        logits = model.logits(model.prepare(rows["premise"].to_list(), rows["hypothesis"].to_list()).items)
        assert {LABELS[i] for i in logits.argmax(axis=1)} == {label}


class Frame:
    """A data frame as other libraries have it: an array with named columns."""

    def __init__(self, columns: list[object]) -> None:
        self.columns = columns

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return np.diag([3.0, 2.0, 1.0])


def test_columns_of_a_data_frame_go_by_name() -> None:
    import polars as pl

    def logits(answer: object) -> list[list[float]]:
        return asked(CallableModel(lambda p, h: answer)).tolist()

    swapped = np.diag([3.0, 2.0, 1.0])[:, [2, 1, 0]].tolist()
    names = ["contradiction", "neutral", "entailment"]
    assert logits(Frame(names)) == logits(pl.DataFrame(np.diag([3.0, 2.0, 1.0]), schema=names)) == swapped
    for unnamed in (Frame([0, 1, 2]), pl.DataFrame(np.diag([3.0, 2.0, 1.0])), np.diag([3.0, 2.0, 1.0])):
        assert logits(unnamed) == np.diag([3.0, 2.0, 1.0]).tolist()
    for columns in (["x", "y", "z"], ["neutral", "neutral", "entailment"], [2, 1, 0]):
        with pytest.raises(ModelError, match="columns of its data frame"):
            logits(Frame(columns))


def test_rows_may_come_one_by_one() -> None:
    rows = np.diag([3.0, 2.0, 1.0])
    assert asked(CallableModel(lambda p, h: (row for row in rows))).tolist() == rows.tolist()
    assert asked(CallableModel(lambda p, h: iter(["neutral"] * 3))).argmax(axis=1).tolist() == [1, 1, 1]
    with pytest.raises(ModelError, match="shape"):  # also where there is no end
        asked(CallableModel(lambda p, h: itertools.repeat([1.0, 2.0, 3.0])))
    with pytest.raises(ModelError, match="raised ZeroDivisionError"):
        asked(CallableModel(lambda p, h: ([1 / 0, 0, 0] for _ in p)))


def asked(model: CallableModel) -> np.ndarray:
    return model.logits(model.prepare(PREMISES, HYPOTHESES).items)


def top_level(premises: list[str], hypotheses: list[str]) -> list[str]:
    return ["neutral"] * len(premises)


def another(premises: list[str], hypotheses: list[str]) -> list[str]:
    return ["entailment"] * len(premises)


@functools.wraps(top_level)
def wrapped(premises: list[str], hypotheses: list[str]) -> list[str]:
    return another(premises, hypotheses)


class Wrap:
    """A model with a state that its file does not show."""

    def __init__(self, kind: str) -> None:
        self.inner = fake_model(kind)

    def __call__(self, premises: list[str], hypotheses: list[str]) -> np.ndarray:
        return self.inner.logits(self.inner.prepare(premises, hypotheses).items)

    def answer(self, premises: list[str], hypotheses: list[str]) -> np.ndarray:
        return self(premises, hypotheses)


def test_a_callable_is_known_by_its_fingerprint_only() -> None:
    # Its code does not tell which weights a function reads, so not even that of a module is known.
    wrap = Wrap("even")
    for unknown in (top_level, wrap, wrap.answer, functools.partial(top_level), lambda p, h: None, wrapped):
        first, second = CallableModel(unknown), CallableModel(unknown)
        assert first.info.fingerprint != second.info.fingerprint
        assert "never reused" in first.note and "fingerprint" in first.note
    wrap.fingerprint = "weights-1"  # type: ignore[attr-defined]
    for told in (wrap, wrap.answer):
        assert CallableModel(told).info.fingerprint == "weights-1" and not CallableModel(told).note
    del wrap.fingerprint  # type: ignore[attr-defined]
    wrap.identity = "weights-2"  # type: ignore[attr-defined]
    assert CallableModel(wrap).info.fingerprint == "weights-2"
    assert CallableModel(wrap, fingerprint="mine").info.fingerprint == "mine"


def test_two_instances_of_a_class_never_share_predictions(tmp_path: Path) -> None:
    scoring = Scoring()
    evenli.audit(Wrap("biased"), out=tmp_path, scoring=scoring)
    with pytest.raises(RunError, match="fingerprint"):
        evenli.audit(Wrap("even"), out=tmp_path, scoring=scoring)
    remarks: list[str] = []
    even = evenli.audit(Wrap("even"), out=tmp_path, scoring=scoring, overwrite=True, on_warning=remarks.append)
    assert even.to_dict()["coal"]["measures"]["coal"]["value"] == pytest.approx(0.0)
    assert any("never reused" in remark for remark in remarks)


def batches(*answers: object, **more: object) -> list[np.ndarray]:
    """The logits of a callable that answers three pairs at a time with these."""
    left = list(answers)
    model = CallableModel(lambda p, h: left.pop(0), name="mine", fingerprint="x", **more)  # type: ignore[arg-type]
    return [asked(model) for _ in answers]


SURE = [[0.8, 0.1, 0.1], [0.1, 0.1, 0.8], [0.2, 0.7, 0.1]]
SHORT = [[0.8, 0.1, 0.099], [0.1, 0.1, 0.8], [0.2, 0.7, 0.1]]  # one row adds up to 0.999
LOGITS = [[3.0, -1.0, 0.0], [-4.0, -3.0, 2.0], [0.0, 5.0, 1.0]]


def test_probabilities_are_recognised_once_for_all_batches() -> None:
    first, second = batches(SURE, SHORT)
    np.testing.assert_allclose(np.exp(first), SURE, rtol=1e-5)
    np.testing.assert_allclose(np.exp(second[0]), np.array(SHORT[0]) / 0.999, rtol=1e-5)
    np.testing.assert_allclose(np.exp(batches(SHORT)[0]).sum(axis=1), 1, rtol=1e-5)
    # Logits that add up to one by chance in a later batch stay logits.
    np.testing.assert_allclose(batches(LOGITS, SURE)[1], SURE, rtol=1e-6)
    # A row that is not finite is none of its business: the prediction loop names the pair.
    assert np.isnan(batches(SURE, [[np.nan, 0, 1], *SURE[1:]])[1][0]).any()


def test_answers_that_contradict_earlier_ones_are_refused() -> None:
    with pytest.raises(ModelError, match="3.0, -1.0"):
        batches(SURE, LOGITS)
    with pytest.raises(ModelError, match="0.05"):
        batches([[0.8, 0.1, 0.05], *SURE[1:]])
    rows = iter((LOGITS * 4, SURE * 4))
    model = CallableModel(lambda p, h: next(rows), name="mine", fingerprint="x")
    items = model.prepare(PREMISES * 4, HYPOTHESES * 4).items
    model.logits(items)
    with pytest.raises(ModelError, match="logits"):
        model.logits(items)


def test_outputs_can_be_declared() -> None:
    np.testing.assert_allclose(batches(SURE, outputs="logits")[0], SURE, rtol=1e-6)
    with pytest.raises(ModelError, match="probabilities"):
        batches(LOGITS, outputs="probabilities")
    with pytest.raises(ModelError, match="odds"):
        batches(LOGITS, outputs="odds")
    wrap = Wrap("even")
    wrap.outputs, wrap.fingerprint = "logits", "weights"  # type: ignore[attr-defined]
    # The same answers read another way are other predictions.
    assert CallableModel(wrap).info.fingerprint == "weights:logits"


def test_unknown_labels_are_shown_as_the_model_gave_them() -> None:
    with pytest.raises(ModelError, match="maybe"):
        batches(["neutral", "maybe", "neutral"])
    with pytest.raises(ModelError, match="LABEL_0"):
        batches([{"neutral": 1.0}, {"LABEL_0": 1.0}, {"neutral": 1.0}])


def test_what_a_callable_raises_is_one_line() -> None:
    def fails(premises: list[str], hypotheses: list[str]) -> object:
        raise TypeError("no\nsuch thing")

    def leaves(premises: list[str], hypotheses: list[str]) -> object:
        sys.exit(3)

    for function, message in (
        (fails, "TypeError: no such thing"),
        (leaves, "SystemExit: 3"),
    ):
        with pytest.raises(ModelError) as caught:
            asked(CallableModel(function, name="mine"))
        assert message in str(caught.value) and "\n" not in str(caught.value) and caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("def f(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit", "SystemExit"),
        ("g = 1", "AttributeError"),
        ("import no_such_thing", "no_such_thing"),
    ],
)
def test_what_an_import_raises_is_one_line(
    content: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = abs(hash(content))
    (tmp_path / f"broken_{number}.py").write_text(content + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ModelError) as caught:
        load_model(f"py:broken_{number}:f")
    assert f"broken_{number}:f" in str(caught.value) and message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_a_callable_prints_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = (
        "print('imported')\ndef f(premises, hypotheses):\n    print('asked')\n    return ['neutral'] * len(premises)\n"
    )
    (tmp_path / "talks_much.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    model = load_model("py:talks_much:f")
    assert model.logits(model.prepare(PREMISES, HYPOTHESES).items).argmax(axis=1).tolist() == [1, 1, 1]
    out, err = capsys.readouterr()
    assert out == "imported\nasked\n" and err == ""  # the command line keeps stdout for its answer
