"""Sentence-transformers models by their spec: what is read, what is refused, and which one it was."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import make_checkpoint, skip_without
from evenli.core.errors import EvenliError, InputError, ModelError
from evenli.encoders.base import load_encoder

torch = pytest.importorskip("torch")
skip_without("sentence_transformers")
TEXTS = ["the nurse walks in the rain", "a dog"]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BERT with mean pooling and a dense layer, saved by the library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # another name since 6, but the one of all versions
        from sentence_transformers import SentenceTransformer, models

    folder = tmp_path_factory.mktemp("st")
    torch.manual_seed(0)
    bert = models.Transformer(str(make_checkpoint(folder / "bert")))
    modules = [bert, models.Pooling(32), models.Dense(32, 8)]
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(folder / "model"))
    return folder / "model"


@pytest.fixture
def model(saved: Path, tmp_path: Path) -> Path:
    """A copy to break."""
    return shutil.copytree(saved, tmp_path / "model")


def pickled(folder: Path) -> Path:
    """Turn safetensors into the pickle that older versions wrote."""
    from safetensors.torch import load_file

    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder / "pytorch_model.bin"


def changed(file: Path, change: Callable[[Any], None]) -> None:
    fields = json.loads(file.read_text())
    change(fields)
    file.write_text(json.dumps(fields))


def identity(folder: Path) -> str:
    return load_encoder(f"st:{folder}", device="cpu").identity


def test_a_folder_gives_what_the_library_gives(model: Path) -> None:
    from sentence_transformers import SentenceTransformer

    expected = SentenceTransformer(str(model), device="cpu").encode(TEXTS)
    made = load_encoder(f"st:{model}", device="cpu").encode(TEXTS)
    assert made.shape == (2, 8) and np.abs(made[0] - made[1]).max() > 1e-3
    np.testing.assert_allclose(made, expected, atol=1e-6)


def test_identity_follows_what_the_output_depends_on(model: Path, tmp_path: Path) -> None:
    first = identity(model)
    assert identity(shutil.copytree(model, tmp_path / "copy")) == first
    (model / "README.md").write_text("other words")
    assert identity(model) == first
    seen = {first}
    changed(model / "1_Pooling" / "config.json", lambda fields: fields.update(pooling_mode="cls"))
    seen.add(identity(model))
    (dense,) = model.glob("*_Dense/model.safetensors")
    from safetensors.torch import load_file, save_file

    save_file({name: tensor + 1 for name, tensor in load_file(dense).items()}, dense)
    seen.add(identity(model))
    assert len(seen) == 3


@pytest.mark.parametrize("part", ["", "2_Dense"])
def test_pickled_weights_are_refused(model: Path, part: str) -> None:
    file = pickled(model / part)
    with pytest.raises(ModelError, match="pickle") as caught:
        load_encoder(f"st:{model}", device="cpu")
    assert str(file) in str(caught.value) and "\n" not in str(caught.value)
    assert "allow-pickle" not in str(caught.value)


def test_other_pickles_are_refused_but_for_those_nobody_reads(model: Path) -> None:
    (model / "training_args.bin").write_bytes(b"beside model.safetensors")
    (model / "openvino").mkdir()
    (model / "openvino" / "openvino_model.bin").write_bytes(b"")
    load_encoder(f"st:{model}", device="cpu")
    for name in ("weights.pt", "weights.pkl", "weights.pth", "pytorch_model.bin"):
        (model / "1_Pooling" / name).write_bytes(b"")
        with pytest.raises(ModelError, match=f"{name} is a pickle"):
            load_encoder(f"st:{model}", device="cpu")
        (model / "1_Pooling" / name).unlink()


@pytest.mark.parametrize("kind", ["evil.Pooling", "os.system", "sentence_transformers_evil.Pooling", 3])
def test_code_of_the_folder_is_not_run(model: Path, tmp_path: Path, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (model / "evil.py").write_text(f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n")
    changed(model / "modules.json", lambda modules: modules[1].update(type=kind))
    loaded = "sentence_transformers.SentenceTransformer"
    monkeypatch.setattr(loaded, lambda *_, **__: pytest.fail("loaded before it was checked"))
    monkeypatch.syspath_prepend(model)
    with pytest.raises(ModelError, match="code"):
        load_encoder(f"st:{model}", device="cpu")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("2_Dense/config.json", {"activation_function": "evil.Layer"}),
        ("1_Pooling/router_config.json", {"types": {"a": "evil.Layer"}}),
        ("1_Pooling/wordembedding_config.json", {"tokenizer_class": "evil.Tokenizer"}),
    ],
)
def test_code_named_by_a_module_is_not_run(model: Path, name: str, fields: dict[str, Any]) -> None:
    file = model / name
    file.write_text(json.dumps((json.loads(file.read_text()) if file.is_file() else {}) | fields))
    with pytest.raises(ModelError, match="evil"):
        load_encoder(f"st:{model}", device="cpu")


def test_modules_outside_of_the_folder_are_refused(model: Path) -> None:
    shutil.move(model / "2_Dense", model.parent / "dense")
    changed(model / "modules.json", lambda modules: modules[2].update(path="../dense"))
    with pytest.raises(ModelError, match=r"\.\./dense"):
        load_encoder(f"st:{model}", device="cpu")
    changed(model / "modules.json", lambda modules: modules[2].update(path="den\0se"))
    with pytest.raises(ModelError, match="not inside"):
        load_encoder(f"st:{model}", device="cpu")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:100])


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda folder: cut(folder / "model.safetensors"), "checkpoint"),
        (lambda folder: (folder / "model.safetensors").unlink(), "checkpoint.*safetensors"),
        (lambda folder: cut(folder / "2_Dense" / "model.safetensors"), "checkpoint"),
        (lambda folder: (folder / "2_Dense" / "config.json").unlink(), "checkpoint"),
        (lambda folder: cut(folder / "modules.json"), r"modules\.json"),
        (lambda folder: (folder / "modules.json").write_text("[3]"), r"modules\.json"),
        (lambda folder: (folder / "adapter_config.json").write_text("{}"), "adapter"),
        (lambda folder: [file.unlink() for file in folder.glob("*.json")], r"modules\.json.*config\.json"),
    ],
)
def test_broken_folders_are_one_line(model: Path, break_it: Callable[[Path], object], message: str) -> None:
    break_it(model)
    with pytest.raises(ModelError, match=message) as caught:
        load_encoder(f"st:{model}", device="cpu")
    assert "\n" not in str(caught.value)


def test_an_unknown_name_on_the_command_line(run_cli) -> None:
    done = run_cli("seat", "st:no/such")
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert "no/such" in line


@pytest.mark.parametrize("name", ["nosuch", "no/such@main", "./nosuch", "no/such/folder", "no such"])
def test_unknown_names_are_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match=name) as caught:
        load_encoder(f"st:{name}", device="cpu")
    assert "\n" not in str(caught.value)


def test_a_device_that_is_not_there_is_one_line(model: Path) -> None:
    with pytest.raises(ModelError, match="tpu"):
        load_encoder(f"st:{model}", device="tpu")


@pytest.fixture
def hub(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of a hub that is switched off; returns the folder of one commit."""
    there = tmp_path / "cache" / "models--sentence-transformers--tiny"
    shutil.copytree(model, there / "snapshots" / COMMIT)
    (there / "refs").mkdir()
    (there / "refs" / "main").write_text(COMMIT)
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return there / "snapshots" / COMMIT


def test_a_name_is_known_by_its_commit(hub: Path, model: Path) -> None:
    short = load_encoder("st:tiny", device="cpu")
    np.testing.assert_allclose(short.encode(TEXTS), load_encoder(f"st:{model}", device="cpu").encode(TEXTS), atol=1e-6)
    same = [load_encoder(f"st:{name}", device="cpu") for name in ("sentence-transformers/tiny", f"tiny@{COMMIT}")]
    assert {encoder.identity for encoder in same} == {short.identity}  # type: ignore[attr-defined]
    later = hub.rename(hub.with_name(COMMIT[::-1]))
    (hub.parents[1] / "refs" / "main").write_text(later.name)
    assert load_encoder("st:tiny", device="cpu").identity != short.identity  # type: ignore[attr-defined]
    with pytest.raises(ModelError, match=f"tiny@{COMMIT}"):
        load_encoder(f"st:tiny@{COMMIT}", device="cpu")


def test_a_cache_without_files_nobody_asks_for_will_do(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class IncompleteError(FileNotFoundError):
        snapshot_path = str(hub)

    def refuse(*_: Any, **__: Any) -> None:
        raise IncompleteError("some files are missing")

    expected = load_encoder("st:tiny", device="cpu").encode(TEXTS)
    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    np.testing.assert_array_equal(load_encoder("st:tiny", device="cpu").encode(TEXTS), expected)


def test_a_name_is_checked_as_a_folder_is(hub: Path) -> None:
    pickled(hub / "2_Dense")
    with pytest.raises(ModelError, match="pickle"):
        load_encoder("st:tiny", device="cpu")


@pytest.fixture
def plain(model: Path) -> Path:
    """The model with max pooling and scaling to length 1 in the place of its dense layer."""
    changed(model / "1_Pooling" / "config.json", lambda fields: fields.update(pooling_mode="max"))
    changed(model / "modules.json", lambda modules: modules[2].update(type=_NORMALISE, path="2_Normalize"))
    (model / "2_Normalize").mkdir()
    return model


_NORMALISE = "sentence_transformers.models.Normalize"
LONG = [*TEXTS, "the nurse walks in the rain and a dog walks " * 4]


def by_library(folder: Path) -> Any:
    from sentence_transformers import SentenceTransformer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return SentenceTransformer(str(folder), device="cpu").encode(LONG)


def test_a_list_that_is_no_list_of_modules_is_left_alone(model: Path) -> None:
    # all-MiniLM-L6-v2 keeps its training data so
    (model / "data_config.json").write_text(json.dumps([{"name": "pairs.jsonl.gz", "lines": 3, "weight": 1}]))
    assert load_encoder(f"st:{model}", device="cpu").encode(TEXTS).shape == (2, 8)


@pytest.mark.parametrize("form", ["{}", "hf:{}"])
def test_a_folder_without_the_library_gives_what_the_library_gives(plain: Path, form: str) -> None:
    expected = by_library(plain)
    encoder = load_encoder(form.format(plain), device="cpu")
    assert np.linalg.norm(expected, axis=1) == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(encoder.encode(LONG), expected, atol=1e-5)
    assert not encoder.note


def test_the_old_switches_the_prompt_and_the_longest_text_are_read(plain: Path) -> None:
    bare = by_library(plain)
    (plain / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": 32, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
    )
    (plain / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 6, "do_lower_case": True}))
    prompts = {"prompts": {"query": "a dog walks "}, "default_prompt_name": "query"}
    changed(plain / "config_sentence_transformers.json", lambda fields: fields.update(prompts))
    expected = by_library(plain)
    assert np.abs(expected - bare).max() > 1e-2
    np.testing.assert_allclose(load_encoder(str(plain), device="cpu").encode(LONG), expected, atol=1e-5)


def test_another_pooling_than_the_configured_one_is_said(plain: Path) -> None:
    configured = load_encoder(str(plain), device="cpu")
    asked = load_encoder(str(plain), pooling="mean", device="cpu")
    assert "max" in asked.note and "mean" in asked.note
    assert np.abs(asked.encode(TEXTS) - configured.encode(TEXTS)).max() > 1e-3
    assert asked.identity != configured.identity
    assert load_encoder(str(plain), pooling="max", device="cpu").identity == configured.identity
    with pytest.raises(InputError, match="max pooling.*mean"):
        load_encoder(f"st:{plain}", pooling="mean", device="cpu")
    by_st = load_encoder(f"st:{plain}", pooling="max", device="cpu")
    np.testing.assert_allclose(by_st.encode(TEXTS), configured.encode(TEXTS), atol=1e-5)


def test_half_a_model_is_not_taken_for_the_whole(model: Path) -> None:
    with pytest.raises(ModelError, match="Dense"):
        load_encoder(str(model), device="cpu")
    half = load_encoder(str(model), pooling="mean", device="cpu")
    assert half.encode(TEXTS).shape == (2, 32) and "Dense" in half.note


@pytest.mark.parametrize("form", ["st:{}", "hf:{}", "{}"])
@pytest.mark.parametrize("part", ["config_sentence_transformers.json", "1_Pooling/config.json", "more.txt"])
def test_a_pipe_in_a_folder_does_not_block(plain: Path, form: str, part: str) -> None:
    (plain / part).unlink(missing_ok=True)
    os.mkfifo(plain / part)
    with pytest.raises(EvenliError, match="a pipe"):
        load_encoder(form.format(plain))


@pytest.mark.parametrize("form", ["hf:{}", "{}"])
def test_a_pooling_without_its_file_is_not_guessed(plain: Path, form: str) -> None:
    (plain / "1_Pooling" / "config.json").unlink()
    with pytest.raises(EvenliError, match=r"1_Pooling.config\.json"):
        load_encoder(form.format(plain))
