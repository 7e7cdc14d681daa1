"""ONNX encoders on graphs small enough to compute by hand."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import WORDS, tiny_tokenizer
from evenli.audit.models import ModelOptions, load_model
from evenli.audit.models.onnx import data_files
from evenli.core.errors import InputError, ModelError
from evenli.core.labels import LABELS
from evenli.encoders.onnx import OnnxEncoder

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
CLS, SEP, THE, NURSE = (WORDS.index(word) for word in ("[CLS]", "[SEP]", "the", "nurse"))
TEXTS = ["the nurse walks", "the", "the nurse walks in the rain near a small house", "", "a dog eats"]
ALL = ("input_ids", "attention_mask", "token_type_ids")


def table() -> np.ndarray:
    """Row i is (i, i mod 7, -i)."""
    ids = np.arange(tiny_tokenizer().get_vocab_size())
    return np.stack([ids, ids % 7, -ids], axis=1).astype(np.float32)


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., Path]:
    """Write a graph that looks up ``table``, with some nodes behind it, and the tokenizer."""

    def make(
        nodes: tuple[Any, ...] = (),
        output: tuple[str, int] = ("last_hidden_state", 3),
        *,
        inputs: tuple[str, ...] = ALL,
        kind: int = onnx.TensorProto.INT64,
        weights: np.ndarray | None = None,
        name: str = "model",
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        sides = ["batch", "length", 3][-output[1] :] if output[1] == 3 else ["batch", *[3] * (output[1] - 1)]
        first = output[0] if not nodes else "hidden"
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node("Gather", ["table", "input_ids"], [first]), *nodes],
            "tiny",
            [onnx.helper.make_tensor_value_info(name, kind, ["batch", "length"]) for name in inputs],
            [onnx.helper.make_tensor_value_info(output[0], onnx.TensorProto.FLOAT, sides)],
            [
                onnx.numpy_helper.from_array(table() if weights is None else weights, "table"),
                onnx.numpy_helper.from_array(np.array([1], dtype=np.int64), "one"),
            ],
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
        onnx.save(model, folder / "model.onnx")
        tiny_tokenizer().save(str(folder / "tokenizer.json"))
        return folder

    return make


def node(kind: str, inputs: list[str], outputs: list[str], **more: Any) -> Any:
    return onnx.helper.make_node(kind, inputs, outputs, **more)


def mixing() -> tuple[Any, ...]:
    """Every token's output depends on all tokens, padded ones too."""
    return (
        node("ReduceMean", ["hidden", "one"], ["mean"], keepdims=1),
        node("Add", ["hidden", "mean"], ["last_hidden_state"]),
    )


def encode_singly(encoder: OnnxEncoder, texts: list[str]) -> np.ndarray:
    return np.concatenate([encoder.encode([text]) for text in texts])


def test_pooling_by_hand(build: Callable[..., Path]) -> None:
    folder = build()
    rows = table()[[CLS, THE, NURSE, SEP]]
    for pooling, expected in (("mean", rows.mean(axis=0)), ("cls", rows[0]), ("max", rows.max(axis=0))):
        made = OnnxEncoder(folder, pooling).encode(["the nurse"])
        assert made.dtype == np.float32
        np.testing.assert_allclose(made, [expected], rtol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_order_is_kept_and_padding_left_out(build: Callable[..., Path], pooling: str, batch_size: int) -> None:
    encoder = OnnxEncoder(build(), pooling, batch_size=batch_size)
    made = encoder.encode(TEXTS)
    np.testing.assert_allclose(made, encode_singly(encoder, TEXTS), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(encoder.encode(TEXTS[::-1]), made[::-1], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(encoder.encode(TEXTS), made)
    if pooling != "cls":
        assert len(np.unique(made, axis=0)) == len(TEXTS)


def test_own_sentence_embedding_wins(build: Callable[..., Path]) -> None:
    nodes = (node("ReduceMax", ["hidden", "one"], ["sentence_embedding"], keepdims=0),)
    folder = build(nodes, ("sentence_embedding", 2), inputs=("input_ids",))
    made = OnnxEncoder(folder).encode(["the nurse"])
    np.testing.assert_array_equal(made, [table()[[CLS, THE, NURSE, SEP]].max(axis=0)])
    with pytest.raises(InputError, match="sentence_embedding.*cls"):
        OnnxEncoder(folder, "cls")


def test_any_output_of_three_dimensions_and_other_integers_will_do(build: Callable[..., Path]) -> None:
    folder = build(output=("features", 3), inputs=("input_ids", "attention_mask"), kind=onnx.TensorProto.INT32)
    np.testing.assert_allclose(OnnxEncoder(folder).encode(["the"]), [table()[[CLS, THE, SEP]].mean(axis=0)], rtol=1e-6)


def test_a_classifier_may_take_other_integers_too(build: Callable[..., Path]) -> None:
    nodes = (node("ReduceMax", ["hidden", "one"], ["logits"], keepdims=0),)
    folder = build(nodes, ("logits", 2), inputs=("input_ids",), kind=onnx.TensorProto.INT32)
    model = load_model(f"onnx:{folder}", options=ModelOptions(labels=LABELS))
    logits = model.logits(model.prepare(["the nurse"], ["the"]).items)
    np.testing.assert_array_equal(logits, [table()[[CLS, THE, NURSE, SEP]].max(axis=0)])


def test_without_a_mask_only_equal_lengths_share_a_batch(build: Callable[..., Path]) -> None:
    masked = OnnxEncoder(build(mixing(), name="masked"))
    assert np.abs(masked.encode(TEXTS) - encode_singly(masked, TEXTS)).max() > 0.1  # the control: this graph does mix
    bare = OnnxEncoder(build(mixing(), inputs=("input_ids",), name="bare"))
    np.testing.assert_allclose(bare.encode(TEXTS), encode_singly(bare, TEXTS), rtol=1e-5, atol=1e-6)


def test_activations_quantized_by_batch_are_run_alone(build: Callable[..., Path]) -> None:
    nodes = (
        node("DynamicQuantizeLinear", ["hidden"], ["small", "scale", "zero"]),
        node("DequantizeLinear", ["small", "scale", "zero"], ["last_hidden_state"]),
    )
    encoder = OnnxEncoder(build(nodes))
    expected = encode_singly(encoder, TEXTS)
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, rtol=1e-5, atol=1e-6)
    encoder._batch = 64
    assert np.abs(encoder.encode(TEXTS) - expected).max() > 1e-3  # the control: together they differ


def test_where_the_files_may_lie(build: Callable[..., Path]) -> None:
    folder = build()
    expected = OnnxEncoder(folder).encode(TEXTS)
    np.testing.assert_array_equal(OnnxEncoder(folder / "model.onnx").encode(TEXTS), expected)
    (folder / "onnx").mkdir()
    shutil.move(folder / "model.onnx", folder / "onnx" / "model.onnx")
    np.testing.assert_array_equal(OnnxEncoder(folder).encode(TEXTS), expected)
    np.testing.assert_array_equal(OnnxEncoder(str(folder / "onnx" / "model.onnx")).encode(TEXTS), expected)


def test_long_texts_are_cut_at_the_positions_of_the_model(build: Callable[..., Path]) -> None:
    folder = build()
    long = " ".join(["the"] * 600)
    (at_512,) = OnnxEncoder(folder).encode([long])
    assert at_512[0] == pytest.approx((CLS + SEP + 510 * THE) / 512)
    (folder / "config.json").write_text('{"max_position_embeddings": 4}')
    (at_4,) = OnnxEncoder(folder).encode([long])
    assert at_4[0] == pytest.approx((CLS + SEP + 2 * THE) / 4)
    # RoBERTa gives no token a position up to that of its padding.
    (folder / "config.json").write_text('{"model_type": "roberta", "pad_token_id": 1, "max_position_embeddings": 7}')
    (at_5,) = OnnxEncoder(folder).encode([long])
    assert at_5[0] == pytest.approx((CLS + SEP + 3 * THE) / 5)
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 3}')
    (at_3,) = OnnxEncoder(folder).encode([long])
    assert at_3[0] == pytest.approx((CLS + SEP + THE) / 3)


def test_no_texts(build: Callable[..., Path]) -> None:
    assert OnnxEncoder(build()).encode([]).shape == (0, 3)


def test_identity_follows_what_the_output_depends_on(build: Callable[..., Path]) -> None:
    folder = build()
    identity = OnnxEncoder(folder).identity
    assert OnnxEncoder(shutil.copytree(folder, folder.parent / "copy")).identity == identity
    assert OnnxEncoder(folder, batch_size=1).identity == identity
    others = {OnnxEncoder(folder, "max").identity, OnnxEncoder(build(weights=table() + 1, name="other")).identity}
    (folder / "config.json").write_text('{"max_position_embeddings": 4}')
    others.add(OnnxEncoder(folder).identity)
    assert len(others) == 3 and identity not in others


def outside(folder: Path, location: str, *, hidden: bool = False) -> Path:
    """Move the weights to a file that lies at ``location``; with ``hidden``, those of a constant."""
    file = folder / "model.onnx"
    model = onnx.load(file)
    tensor = model.graph.initializer[0]
    if hidden:
        constant = onnx.helper.make_node("Constant", [], ["table"], value=tensor)
        model.graph.node.insert(0, constant)
        del model.graph.initializer[0]
        tensor = model.graph.node[0].attribute[0].t
    content = tensor.raw_data
    onnx.external_data_helper.set_external_data(tensor, location)
    tensor.ClearField("raw_data")
    file.write_bytes(model.SerializeToString())
    target = folder / location
    target.parent.mkdir(exist_ok=True, parents=True)
    target.write_bytes(content)
    return target


def test_weights_beside_the_model_are_read_and_count(
    build: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build()
    expected = OnnxEncoder(folder).encode(TEXTS)
    weights = outside(folder, "model.onnx_data")
    monkeypatch.setitem(sys.modules, "onnx", None)  # as in a base install
    encoder = OnnxEncoder(folder)
    assert data_files(folder / "model.onnx") == [weights]
    np.testing.assert_array_equal(encoder.encode(TEXTS), expected)
    weights.write_bytes((table() + 1).tobytes())
    assert OnnxEncoder(folder).identity != encoder.identity
    weights.unlink()
    with pytest.raises(ModelError, match="model.onnx_data"):
        OnnxEncoder(folder)


@pytest.mark.parametrize("location", ["../stolen.bin", "data/../../stolen.bin", "ABSOLUTE", "..\\stolen.bin"])
@pytest.mark.parametrize("hidden", [False, True])
def test_weights_outside_of_the_folder_are_refused(
    build: Callable[..., Path], tmp_path: Path, location: str, hidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build()
    (folder / "data").mkdir()
    outside(folder, str(tmp_path / "stolen.bin") if location == "ABSOLUTE" else location, hidden=hidden)
    monkeypatch.setitem(sys.modules, "onnx", None)  # as in a base install
    monkeypatch.setattr("evenli.audit.models.onnx.open_session", lambda *_: pytest.fail("opened before it was checked"))
    with pytest.raises(ModelError, match="stolen.bin") as caught:
        OnnxEncoder(folder)
    assert "\n" not in str(caught.value)


def test_weights_behind_links_count_in_the_cache_of_the_hub_and_are_refused_elsewhere(
    build: Callable[..., Path], tmp_path: Path
) -> None:
    folder = build()
    weights = outside(folder, "model.onnx_data")
    expected = OnnxEncoder(folder)
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    for name, file in (("1", folder / "model.onnx"), ("2", weights)):
        file.rename(blobs / name)
        file.symlink_to(blobs / name)
    assert OnnxEncoder(folder).identity == expected.identity
    (folder / "model.onnx").unlink()
    shutil.copy(blobs / "1", folder / "model.onnx")
    with pytest.raises(ModelError, match="outside its folder"):
        OnnxEncoder(folder)


def test_external_data_is_found_wherever_onnx_allows_tensors(tmp_path: Path) -> None:
    helper, file = onnx.helper, tmp_path / "model.onnx"

    def tensor(name: str) -> onnx.TensorProto:
        made = onnx.numpy_helper.from_array(np.zeros(3, dtype=np.float32), name)
        onnx.external_data_helper.set_external_data(made, name, length=12)
        made.ClearField("raw_data")
        (tmp_path / name).write_bytes(bytes(12))
        return made

    def sparse(*names: str) -> onnx.SparseTensorProto:
        values, indices = map(tensor, names)
        return onnx.SparseTensorProto(values=values, indices=indices, dims=[3])

    node = helper.make_node("X", [], ["y"], t=tensor("attribute"), ts=[tensor("attributes")])
    node.attribute.append(onnx.AttributeProto(name="s", sparse_tensor=sparse("values", "indices"), type=11))
    node.attribute.append(onnx.AttributeProto(name="ss", sparse_tensors=[sparse("values2", "indices2")], type=12))
    below = helper.make_graph([node], "below", [], [], [tensor("below")])
    above = helper.make_node("If", [], ["y"], then_branch=below)
    several = helper.make_node("X", [], ["y"], graphs=[helper.make_graph([], "g", [], [], [tensor("several")])])
    graph = helper.make_graph([above, several], "g", [], [], [tensor("initial")])
    graph.sparse_initializer.append(sparse("values3", "indices3"))
    model = helper.make_model(graph)
    default = helper.make_attribute("d", tensor("default"))
    inner = helper.make_node("Constant", [], ["c"], value=tensor("function"))
    model.functions.append(onnx.FunctionProto(name="f", node=[inner], attribute_proto=[default]))
    trained = helper.make_graph([], "t", [], [], [tensor("trained")])
    started = helper.make_graph([], "i", [], [], [tensor("started")])
    model.training_info.append(onnx.TrainingInfoProto(algorithm=trained, initialization=started))
    file.write_bytes(model.SerializeToString())
    assert {found.name for found in data_files(file)} == {one.name for one in tmp_path.iterdir()} - {file.name}
    for cut in range(1, 200, 7):
        file.write_bytes(model.SerializeToString()[:-cut])
        with contextlib.suppress(ModelError):
            data_files(file)


def test_files_that_are_missing_or_no_models(build: Callable[..., Path], tmp_path: Path) -> None:
    folder = build()
    content = (folder / "model.onnx").read_bytes()
    with pytest.raises(ModelError, match="absent"):
        OnnxEncoder(tmp_path / "absent")
    with pytest.raises(ModelError, match="model.onnx"):
        OnnxEncoder(tmp_path)
    for broken in (b"", b"nothing of the kind", content[: len(content) // 2], b"\xff" * 40):
        (folder / "model.onnx").write_bytes(broken)
        with pytest.raises(ModelError, match="ONNX") as caught:
            OnnxEncoder(folder)
        assert "\n" not in str(caught.value)
    (folder / "model.onnx").write_bytes(content)
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelError, match="config.json"):
        OnnxEncoder(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match="tokenizer.json"):
        OnnxEncoder(folder)


def test_graphs_that_are_no_encoders(build: Callable[..., Path]) -> None:
    logits = (node("ReduceMean", ["hidden", "one"], ["logits"], keepdims=0),)
    with pytest.raises(ModelError, match="logits"):
        OnnxEncoder(build(logits, ("logits", 2), name="classifier"))
    with pytest.raises(ModelError, match="sentence_embedding.*3"):
        OnnxEncoder(build(output=("sentence_embedding", 3), name="deep"))
    with pytest.raises(ModelError, match="past"):
        OnnxEncoder(build(inputs=("input_ids", "past"), name="past"))
    graph = onnx.helper.make_graph(
        [node("Identity", ["pixels"], ["last_hidden_state"])],
        "image",
        [onnx.helper.make_tensor_value_info("pixels", onnx.TensorProto.FLOAT, ["a", "b", 3])],
        [onnx.helper.make_tensor_value_info("last_hidden_state", onnx.TensorProto.FLOAT, ["a", "b", 3])],
    )
    folder = build(name="image")
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9),
        folder / "model.onnx",
    )
    with pytest.raises(ModelError, match="pixels"):
        OnnxEncoder(folder)


def test_settings_are_checked(build: Callable[..., Path]) -> None:
    with pytest.raises(InputError, match="cls"):
        OnnxEncoder(build(), "median")
    with pytest.raises(InputError, match="batch"):
        OnnxEncoder(build(), batch_size=0)
