"""The trust boundary: no network unless asked, no code because a file says so, no weights made up."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import make_checkpoint
from evenli.encoders import load_encoder
from evenli.errors import ModelError
from evenli.mitigate.encoder import MitigationSettings, mitigate_encoder
from evenli.models import load_model

EVIL = """
import pathlib
pathlib.Path("ran").write_text("code of a stranger")
def encode(texts):
    return [[len(text), 1.0, 2.0] for text in texts]
"""
HASHED = """
import hashlib
import numpy as np
def encode(texts):
    return np.array([[b / 255 for b in hashlib.sha256(text.encode()).digest()[:8]] for text in texts])
"""


def drop_tensor(folder: Path, name: str, *, shape: bool = False) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    file = folder / "model.safetensors"
    tensors = safetensors.load_file(file)
    found = next(key for key in tensors if name in key)
    if shape:
        tensors[found] = tensors[found][:-1].clone()
    else:
        del tensors[found]
    safetensors.save_file(tensors, file, metadata={"format": "pt"})


@pytest.mark.parametrize("part", ["layer.0.attention.self.query.weight", "classifier.weight", "classifier.bias"])
def test_missing_tensors_are_refused_by_name(tmp_path: Path, part: str) -> None:
    folder = make_checkpoint(tmp_path / "model")
    load_model(str(folder))  # whole, it loads
    drop_tensor(folder, part)
    with pytest.raises(ModelError, match=part.replace(".", r"\.")):
        load_model(str(folder))
    if "classifier" not in part:
        with pytest.raises(ModelError, match=part.replace(".", r"\.")):
            load_encoder(f"hf:{folder}")


def test_tensors_of_another_shape_or_model_are_refused(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    torch = pytest.importorskip("torch")
    folder = make_checkpoint(tmp_path / "model")
    drop_tensor(folder, "classifier.bias", shape=True)
    with pytest.raises(ModelError, match="classifier"):
        load_model(str(folder))
    other = make_checkpoint(tmp_path / "other")
    tensors = safetensors.load_file(other / "model.safetensors") | {"surprise.weight": torch.ones(2)}
    safetensors.save_file(tensors, other / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="surprise"):
        load_model(str(other))


def test_a_stored_spec_imports_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hashed_words.py").write_text(HASHED, encoding="utf-8")
    (tmp_path / "evil_words.py").write_text(EVIL, encoding="utf-8")
    out = tmp_path / "leace"
    mitigate_encoder("py:hashed_words:encode", out, MitigationSettings("leace"))
    about = json.loads((out / "mitigated.json").read_text(encoding="utf-8"))
    about["base"]["spec"] = "py:evil_words:encode"
    (out / "mitigated.json").write_text(json.dumps(about), encoding="utf-8")
    with pytest.raises(ModelError, match="evil_words"):
        load_encoder(str(out))
    assert not (tmp_path / "ran").exists() and "evil_words" not in sys.modules
    # The user may name the code; it must still be the encoder that was mitigated.
    assert load_encoder(f"mitigated:{out},py:hashed_words:encode").encode(["she"]).shape == (1, 8)


@pytest.mark.parametrize("spec", ["someone/some-model", "hf:someone/some-model@main"])
def test_a_hub_id_is_not_looked_up_unless_asked(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    asked: list[object] = []
    monkeypatch.setattr("socket.getaddrinfo", lambda *host, **_: asked.append(host))
    with pytest.raises(ModelError, match="--online"):
        load_model(spec)
    with pytest.raises(ModelError, match="--online"):
        load_encoder(f"hf:{spec.removeprefix('hf:')}")
    assert asked == []


def _has_namespaces() -> bool:
    unshare = shutil.which("unshare")
    return bool(unshare) and subprocess.run([unshare, "-rn", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not _has_namespaces(), reason="network namespaces are not available")
@pytest.mark.parametrize(
    "arguments",
    [("audit", "--lang", "en", "--resamples", "100", "--json"), ("audit", "someone/some-model"), ("doctor",)],
    ids=lambda words: " ".join(words[:2]),
)
def test_no_name_is_resolved(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """A real process that records every look-up, in a network namespace without routes."""
    code = (
        "import json, socket, sys\n"
        "asked = []\n"
        "def look_up(host, *rest, **more):\n"
        "    asked.append(str(host)); raise socket.gaierror('no network')\n"
        "socket.getaddrinfo = socket.gethostbyname = look_up\n"
        "sys.argv = ['evenli', *sys.argv[1:]]\n"
        "from evenli.cli import main\n"
        "try:\n    main()\n"
        "finally:\n    open('asked.json', 'w').write(json.dumps(asked))\n"
    )
    command = ["unshare", "-rn", sys.executable, "-c", code, *arguments]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=300)
    assert json.loads((tmp_path / "asked.json").read_text()) == []
