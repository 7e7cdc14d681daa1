from __future__ import annotations

import copy
import hashlib
import json
import lzma
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
onnx = pytest.importorskip("onnx")

from conftest import make_checkpoint, skip_without  # noqa: E402
from evenli.audit.models import ModelOptions, ModelRequest  # noqa: E402
from evenli.audit.models.onnx import OnnxModel  # noqa: E402
from evenli.core.errors import InputError, LabelError, ModelError, RunError  # noqa: E402
from evenli.training import export  # noqa: E402
from evenli.training.export import export_onnx, quantise  # noqa: E402

skip_without("onnxscript")

ORDER = ["neutral", "contradiction", "entailment"]


@pytest.fixture(scope="module", autouse=True)
def _traced_once() -> Iterator[None]:
    """One model is traced once: that takes seconds, and most exports here are of the same one."""
    graphs: dict[str, Any] = {}
    trace = export._trace

    def cached(model: Any) -> Any:
        weights = (parameter.detach().numpy().tobytes() for parameter in model.parameters())
        key = hashlib.sha256(b"".join([type(model).__name__.encode(), *weights])).hexdigest()
        if key not in graphs:
            graphs[key] = trace(model)
        return copy.deepcopy(graphs[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "_trace", cached)
        yield


@pytest.fixture(scope="module")
def pairs(shared_data: Path) -> list[tuple[str, str]]:
    """Real dev pairs of SNLI."""
    with lzma.open(shared_data / "snli" / "snli_1.0_dev.jsonl.xz", "rt", encoding="utf-8") as stream:
        rows = [json.loads(next(stream)) for _ in range(300)]
    return [(row["premise"], row["hypothesis"]) for row in rows]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier whose labels are in another order than ours, with weights of the size training gives them."""
    folder = make_checkpoint(tmp_path_factory.mktemp("source"), labels=ORDER, hidden=64)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2:
                parameter *= 2.0 if name.startswith("classifier") else 0.2
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def exported(source: Path, pairs, tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("exported")
    return {int8: export_onnx(source, folder / str(int8), int8, check=pairs) for int8 in (False, True)}


def test_fp32_gives_the_same_logits_on_real_pairs(exported, pairs) -> None:
    report = exported[False]
    assert report.pairs == len(pairs)
    assert report.max_difference < 1e-4
    assert report.agreement == pytest.approx(1.0)


def test_int8_storage_is_small_and_close(exported) -> None:
    plain, small = exported[False], exported[True]
    assert small.bytes < 0.45 * plain.bytes  # a tiny model is mostly biases and graph; a real one is a quarter
    assert small.max_difference < 0.3
    assert small.agreement > 0.97


def test_labels_travel_by_name(exported, source: Path, pairs) -> None:
    model = OnnxModel(str(exported[False].path.parent), ModelRequest("x", options=ModelOptions(threads=1)))
    assert model.info.labels == tuple(ORDER)
    assert onnx.load(exported[True].path).metadata_props[0].value == "neutral,contradiction,entailment"
    config = json.loads((exported[True].path.parent / "config.json").read_text())
    assert config["id2label"] == {"0": "neutral", "1": "contradiction", "2": "entailment"}


def test_graph_is_compact_and_takes_any_shape(exported) -> None:
    model = onnx.load(exported[False].path)
    assert [entry.name for entry in model.graph.input] == ["input_ids", "attention_mask", "token_type_ids"]
    for entry in (*model.graph.input, *model.graph.output):
        batch = entry.type.tensor_type.shape.dim[0]
        assert batch.dim_param == "batch"
    assert [entry.name for entry in model.graph.output] == ["logits"]
    assert model.opset_import[0].version >= 17
    operators = {node.op_type for node in model.graph.node}
    assert {"LayerNormalization", "Gelu", "Softmax"} <= operators
    assert not operators & {"Dropout", "Identity", "If", "GatherND"}
    assert len(model.graph.node) <= 20 + 32 * 2
    assert not any(node.metadata_props or node.doc_string for node in model.graph.node)


def test_int8_matrices_are_expanded_to_fp32_before_use(exported) -> None:
    graph = onnx.load(exported[True].path).graph
    made = {node.output[0]: node for node in graph.node if node.op_type == "DequantizeLinear"}
    kinds = {tensor.name: tensor for tensor in graph.initializer}
    large = [t for t in graph.initializer if t.data_type == onnx.TensorProto.FLOAT and np.prod(t.dims) >= 4096]
    assert [tensor.name for tensor in large if len(tensor.dims) == 2] == []
    assert len(made) >= 2 * 6  # both layers: four projections of attention, two of the feed-forward net
    for node in made.values():
        values, scale = kinds[node.input[0]], kinds[node.input[1]]
        assert (values.data_type, scale.data_type) == (onnx.TensorProto.INT8, onnx.TensorProto.FLOAT)
        axis = next(attribute.i for attribute in node.attribute if attribute.name == "axis")
        assert list(scale.dims) == [values.dims[axis]]
    assert not any("Integer" in node.op_type or "QLinear" in node.op_type for node in graph.node)


def test_padding_does_not_change_the_answer(exported) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(exported[False].path), providers=["CPUExecutionProvider"])
    ids = np.array([[2, 8, 9, 3, 10, 3]])
    plain = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    padded = {name: np.pad(array, ((0, 0), (0, 5))) for name, array in plain.items()}
    np.testing.assert_allclose(session.run(None, plain)[0], session.run(None, padded)[0], atol=1e-5)


def test_a_model_without_segments_takes_two_inputs(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "bert")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=130,
        type_vocab_size=1,
        pad_token_id=0,
        id2label={0: "entailment", 1: "neutral", 2: "contradiction"},
    )
    transformers.RobertaForSequenceClassification(config).save_pretrained(tmp_path / "roberta")
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    tokenizer.save_pretrained(tmp_path / "roberta")
    pair = [("a man waits in the rain .", "a person walks ."), ("two people", "a dog sleeps near the house")]
    report = export_onnx(tmp_path / "roberta", tmp_path / "out.onnx", check=pair)
    assert report.path == tmp_path / "out.onnx"
    assert [entry.name for entry in onnx.load(report.path).graph.input] == ["input_ids", "attention_mask"]
    assert report.max_difference < 1e-5
    # Of 130 positions RoBERTa never gives away those up to the padding id, here one.
    model = OnnxModel(str(report.path), ModelRequest("test", options=ModelOptions(max_length=300)))
    prepared = model.prepare(["the nurse walks " * 100], ["a dog"])
    assert prepared.lengths.max() == model.info.max_length == 129
    assert np.isfinite(model.logits(prepared.items)).all()


@pytest.mark.parametrize("axis", [0, 1])
def test_quantise_picks_the_axis_that_loses_less(axis: int) -> None:
    generator = np.random.default_rng(axis)
    spread = np.where(np.arange(80) % 2, 1.0, 8.0)
    matrix = (generator.normal(size=(80, 80)) * (spread[:, None] if axis == 0 else spread)).astype(np.float32)
    found, values, scales = quantise(matrix)
    assert found == axis
    assert np.abs(values).max() <= 127
    expanded = values * (scales[:, None] if axis == 0 else scales)
    step = scales[:, None] if axis == 0 else scales
    assert (np.abs(expanded - matrix) <= 0.5001 * step).all()


def test_quantise_survives_zeros() -> None:
    matrix = np.random.default_rng(0).normal(size=(80, 80)).astype(np.float32)
    matrix[3], matrix[:, 3] = 0.0, 0.0
    _, values, scales = quantise(matrix)
    assert (values[3] == 0).all()
    assert np.isfinite(scales).all()


def test_what_cannot_be_exported(tmp_path: Path, source: Path) -> None:
    with pytest.raises(ModelError, match="config.json"):
        export_onnx(tmp_path / "nothing", tmp_path / "out")
    two = make_checkpoint(tmp_path / "two", labels=["no", "yes"])
    with pytest.raises(LabelError, match="2 label"):
        export_onnx(two, tmp_path / "out")
    headless = tmp_path / "headless"
    transformers.AutoTokenizer.from_pretrained(source).save_pretrained(headless)
    transformers.BertModel.from_pretrained(source).save_pretrained(headless)
    with pytest.raises(ModelError, match="classifier"):
        export_onnx(headless, tmp_path / "out")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(RunError, match="-o"):
        export_onnx(source, tmp_path / "out.onnx")


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_checkpoint_is_never_written_over(tmp_path: Path, source: Path) -> None:
    copy = shutil.copytree(source, tmp_path / "copy")
    other = make_checkpoint(tmp_path / "other")
    (tmp_path / "link").symlink_to(copy)
    before = contents(copy), contents(other)
    for out in (copy, copy / "model.onnx", copy / "x.onnx", tmp_path / "link"):
        with pytest.raises(InputError, match="checkpoint"):
            export_onnx(copy, out)
    with pytest.raises(RunError, match="model.safetensors"):
        export_onnx(copy, other)
    assert (contents(copy), contents(other)) == before


def test_an_export_replaces_an_export_but_nothing_else(tmp_path: Path, source: Path, exported, monkeypatch) -> None:
    first = exported[False]
    shutil.copytree(first.path.parent, tmp_path / "out")
    turned = make_checkpoint(tmp_path / "turned", labels=["entailment", "neutral", "contradiction"], layers=1)
    assert export_onnx(source, tmp_path / "out", int8=True).bytes < first.bytes
    export_onnx(turned, tmp_path / "out")
    labels = json.loads((tmp_path / "out" / "config.json").read_text())["id2label"]
    assert list(labels.values()) == ["entailment", "neutral", "contradiction"]

    # A full disk leaves graph, tokenizer and labels of one model.
    before = contents(tmp_path / "out")
    write = Path.write_bytes

    def full(file: Path, content: bytes) -> int:
        if file.name.startswith(".config."):
            write(file, content[:5])
            raise OSError(28, "No space left on device")
        return write(file, content)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(RunError, match="space"):
            export_onnx(source, tmp_path / "out")
    assert contents(tmp_path / "out") == before

    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "config.json").write_text('{"model_type": "bert", "hidden_size": 8}')
    with pytest.raises(RunError, match="config.json"):
        export_onnx(source, tmp_path / "theirs")
    shutil.copy(first.path, tmp_path / "out" / "second.onnx")
    with pytest.raises(RunError, match="tokenizer.json|config.json"):
        export_onnx(source, tmp_path / "out")  # second.onnx needs the files that are there
