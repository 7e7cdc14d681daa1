"""Checkpoints on disk: what is refused before anything is loaded, and errors in one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evenli.errors import EvenliError, ModelError
from evenli.io import read_text

PICKLE_FILES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
SAFE_FILES = ("model.safetensors", "model.safetensors.index.json")
CONVERT = "convert it to safetensors"
OR_ALLOW = f"{CONVERT}, or pass --allow-pickle if you trust it"
"""Advice of commands that have the option."""


def check_folder(folder: Path, *, allow_pickle: bool = False, advice: str = CONVERT) -> None:
    """Refuse a directory that is no checkpoint, wants to run code or keeps its weights in a pickle.

    Args:
        folder: The checkpoint.
        allow_pickle: Accept a pickle.
        advice: What to do about one.
    """
    config = folder / "config.json"
    if not config.is_file():
        raise ModelError(f"{folder} is not a checkpoint: no config.json in it")
    if "auto_map" in read_fields(config):
        raise ModelError(
            f"{folder} asks to run code of its own (auto_map in config.json); evenli runs no remote code. "
            "Load it yourself and pass it as py:module:function"
        )
    if any((folder / name).is_file() for name in SAFE_FILES):
        return
    if any((folder / name).is_file() for name in PICKLE_FILES):
        if allow_pickle:
            return
        raise ModelError(
            f"{folder} holds a pickle checkpoint (pytorch_model.bin), which can run code when loaded; {advice}"
        )
    raise ModelError(f"{folder} holds no weights (model.safetensors)")


def read_fields(file: Path) -> dict[str, Any]:
    """Fields of a JSON file of a checkpoint; none where there is no such file."""
    if not file.is_file():
        return {}
    try:
        fields = json.loads(read_text(file))
    except ValueError as error:
        raise ModelError(f"{file} is not valid JSON: {error}") from error
    return fields if isinstance(fields, dict) else {}


@contextmanager
def one_line(name: str) -> Iterator[None]:
    """Turn the loader's many errors about a checkpoint on this machine into one line."""
    try:
        yield
    except EvenliError:
        raise
    except Exception as error:  # whatever a broken file makes the loader do
        text = " ".join(str(error).split()) or type(error).__name__
        if "trust_remote_code" in text or "custom code" in text:
            raise ModelError(f"{name} asks to run code of its own; evenli runs no remote code") from error
        raise ModelError(f"cannot load the checkpoint {name}: {text[:300]}") from error


def pick_device(torch: Any, wanted: str | None) -> str:
    """The device asked for, or the fastest there is."""
    available = ["cpu"]
    if torch.backends.mps.is_available():
        available.append("mps")
    if torch.cuda.is_available():
        available.append("cuda")
    if wanted is None:
        return available[-1]
    if wanted.partition(":")[0] not in available:
        raise ModelError(f"device '{wanted}' is not available here; available: {', '.join(available)}")
    return wanted
