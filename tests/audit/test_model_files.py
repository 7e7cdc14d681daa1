"""What is loaded is what was hashed, and stays so whatever becomes of the files during a run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import evenli
from conftest import make_checkpoint, tiny_tokenizer
from evenli.audit.audit import AuditSettings
from evenli.audit.models import ModelOptions, load_model
from evenli.core.errors import ModelError, RunError
from evenli.core.labels import LABELS
from evenli.core.temporary import private_copy

pytest.importorskip("torch")
PREMISES, HYPOTHESES = ["the nurse waits in the rain.", "a doctor walks."], ["the woman waits.", "the man walks."]
OPTIONS = ModelOptions(device="cpu", labels=LABELS)


def make_onnx(folder: Path) -> Path:
    """A classifier that adds up rows of a table, which stands in a file beside it."""
    onnx = pytest.importorskip("onnx")
    tokenizer = tiny_tokenizer()
    table = np.random.default_rng(0).normal(size=(tokenizer.get_vocab_size(), 3)).astype(np.float32)
    nodes = [
        onnx.helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        onnx.helper.make_node("ReduceSum", ["rows", "axis"], ["logits"], keepdims=0),
    ]
    weights = [onnx.numpy_helper.from_array(table, "table"), onnx.numpy_helper.from_array(np.array([1]), "axis")]
    ids = onnx.helper.make_tensor_value_info("input_ids", onnx.TensorProto.INT64, ["batch", "length"])
    logits = onnx.helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["batch", 3])
    graph = onnx.helper.make_graph(nodes, "tiny", [ids], [logits], weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    folder.mkdir()
    beside = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 100}
    onnx.save_model(model, str(folder / "model.onnx"), **beside)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


BACKENDS = {"hf": (make_checkpoint, "model.safetensors"), "onnx": (make_onnx, "weights.bin")}


def answers(model: evenli.NLIModel) -> np.ndarray:
    return model.logits(model.prepare(PREMISES, HYPOTHESES).items)


@pytest.mark.parametrize("backend", BACKENDS)
def test_weights_that_are_overwritten_change_no_answer(backend: str, tmp_path: Path) -> None:
    make, name = BACKENDS[backend]
    folder = make(tmp_path / "model")
    model = load_model(f"{backend}:{folder}", options=OPTIONS)
    expected = answers(model)
    with (folder / name).open("rb+") as file:  # in place: what is mapped changes, too
        content = file.read()
        file.seek(len(content) // 8)  # behind the names of the tensors
        file.write(b"\x3f" * (len(content) - len(content) // 8))
    np.testing.assert_array_equal(answers(model), expected)
    other = load_model(f"{backend}:{folder}", options=OPTIONS)
    assert other.info.fingerprint != model.info.fingerprint
    assert np.abs(answers(other) - expected).max() > 0.01


@pytest.mark.parametrize("backend", BACKENDS)
def test_weights_that_are_cut_stop_no_process(backend: str, tmp_path: Path) -> None:
    make, name = BACKENDS[backend]
    folder = make(tmp_path / "model")
    expected = answers(load_model(f"{backend}:{folder}", options=OPTIONS))
    code = f"""
import os, pickle, sys
from evenli.audit.audit import AuditSettings
from evenli.audit.models import ModelOptions, load_model
model = load_model("{backend}:{folder}", options=ModelOptions(device="cpu", labels={LABELS}))
os.truncate({str(folder / name)!r}, 0)
logits = model.logits(model.prepare({PREMISES}, {HYPOTHESES}).items)
sys.stdout.buffer.write(logits.tobytes())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    np.testing.assert_allclose(np.frombuffer(done.stdout, np.float32).reshape(2, 3), expected, atol=1e-5)


def test_a_run_whose_weights_change_is_of_the_first_and_is_not_continued_by_the_second(
    checkpoint: Path, tmp_path: Path
) -> None:
    folder, out = shutil.copytree(checkpoint, tmp_path / "model"), tmp_path / "run"
    undisturbed = evenli.audit(str(folder), limit=60)

    def overwrite(progress: object) -> None:
        if (out / "shards").is_dir():  # some batches are stored
            shutil.copyfile(other / "model.safetensors", folder / "model.safetensors")

    other = make_checkpoint(tmp_path / "other", labels=["neutral", "entailment", "contradiction"])
    scaled(other / "model.safetensors")
    settings = AuditSettings(limit=60, on_progress=overwrite)
    disturbed = evenli.audit(str(folder), out=out, settings=settings)
    assert (folder / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    np.testing.assert_array_equal(disturbed.predictions.logits, undisturbed.predictions.logits)
    assert disturbed.result.model.fingerprint == undisturbed.result.model.fingerprint
    with pytest.raises(RunError, match="another run"):
        evenli.audit(str(folder), out=out, limit=60)


def scaled(file: Path) -> None:
    """Other weights of the same shapes."""
    safetensors = pytest.importorskip("safetensors.torch")
    tensors = {name: tensor * 1.5 for name, tensor in safetensors.load_file(file).items()}
    safetensors.save_file(tensors, file, metadata={"format": "pt"})


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_an_edited_snapshot_is_another_model(
    name: str, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = tmp_path / "cache" / "models--owner--tiny"
    snapshot = hub / "snapshots" / ("0" * 40)
    shutil.copytree(checkpoint, snapshot)
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text(snapshot.name)
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path / "cache"))
    before = load_model("hf:owner/tiny").info
    assert before.revision == snapshot.name
    assert before.fingerprint == load_model(str(checkpoint)).info.fingerprint  # a copy of it is the same model
    if name == "model.safetensors":
        scaled(snapshot / name)
    else:
        (snapshot / name).write_text((snapshot / name).read_text().replace('"nurse"', '"nurze"'))
    after = load_model("hf:owner/tiny").info
    assert after.revision == before.revision and after.fingerprint != before.fingerprint


def test_nothing_is_left_of_a_copy_and_errors_name_originals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, scratch = tmp_path / "source", tmp_path / "scratch"
    (source / "deep").mkdir(parents=True)
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    (source / "deep" / "weights").write_bytes(b"1")
    with pytest.raises(ModelError) as caught, private_copy([source / "deep" / "weights"], source) as copy:
        assert (copy / "deep" / "weights").read_bytes() == b"1" and copy.parent == scratch
        assert not copy.stat().st_mode & 0o077  # nobody else's
        raise ModelError(f"{copy}/deep/weights is broken")
    assert str(caught.value) == f"{source}/deep/weights is broken"
    (source / "deep").rename(source / "gone")
    with pytest.raises(RunError, match="source.*TMPDIR"), private_copy([source / "deep" / "weights"], source):
        pass
    assert list(scratch.iterdir()) == []
