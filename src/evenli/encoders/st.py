"""``st:NAME`` or ``st:FOLDER``: sentence-transformers, safetensors only, no code but the library's own."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

from evenli._extras import need
from evenli.encoders.base import EncoderRequest
from evenli.encoders.callables import CallableEncoder
from evenli.encoders.hf import quiet_transformers
from evenli.errors import ModelError
from evenli.io import MATTERS, checkpoint_files
from evenli.models.loading import one_line, pick_device
from evenli.models.positions import longest_input

_LIBRARY = "sentence_transformers."
_PICKLES = {".bin", ".ckpt", ".pickle", ".pkl", ".pt", ".pth"}


def load(target: str, request: EncoderRequest) -> CallableEncoder:
    """Load a sentence-transformers model.

    A folder is read as it is, without asking the hub. A name is fetched from the hub, or its local cache, and then read
    as a folder; a name without owner is looked for under ``sentence-transformers`` first.

    Args:
        target: Folder, or ``name[@revision]`` on the hub.
        request: Its device is used.
    """
    library = need("sentence_transformers", extra="bench", purpose="sentence-transformers encoders")
    torch = need("torch", extra="hf", purpose="a transformer encoder")
    quiet_transformers()
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    place = pick_device(torch, request.device)
    local = Path(target).is_dir()
    name, _, revision = (target, "", "") if local else target.partition("@")
    with one_line(name, local=local, revision=revision):
        name, folder = (name, Path(name)) if local else _fetch(name, revision)
    check_sentence_transformer(folder)
    with one_line(name, local=True):
        model = library.SentenceTransformer(
            str(folder),
            device=place,
            trust_remote_code=False,
            local_files_only=True,
            model_kwargs={"use_safetensors": True},
        ).float()  # as hf: does; half precision is slow on a CPU
        _shorten(model)
    # A model on the hub is identified by its commit, a folder by its files.
    spec, files = ("st", checkpoint_files(folder, nested=True)) if local else (f"st:{name}@{folder.name}", [])
    return CallableEncoder(lambda texts: model.encode(texts, show_progress_bar=False), spec, files)


def check_sentence_transformer(folder: Path) -> None:
    """Refuse a folder that is no model, keeps weights in a pickle or names code that is not the library's.

    The library itself trusted local folders in versions before 6.
    """
    if not any((folder / name).is_file() for name in ("modules.json", "config.json")):
        raise ModelError(f"{folder} is no sentence-transformers model: neither modules.json nor config.json in it")
    for file in sorted(folder.rglob("*")):
        if file.suffix in _PICKLES and not _is_ignored(file):
            raise ModelError(
                f"{file} is a pickle, which can run code when loaded; convert the model to safetensors "
                "(save_pretrained of sentence-transformers writes them)"
            )
        if file.name == "adapter_config.json":
            raise ModelError(f"{folder} is an adapter of another model; merge the two and save them as one")
        if file.name.endswith(("config.json", "modules.json")) and file.is_file():
            _check_fields(folder, file)


def _is_ignored(file: Path) -> bool:
    """Whether torch's loaders ignore a pickle: safetensors of the same weights exist, or it is of another backend."""
    return file.with_name("model.safetensors").is_file() or file.stem.startswith("openvino")


def _check_fields(folder: Path, file: Path) -> None:
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
        modules = [(module["type"], module["path"]) for module in fields] if isinstance(fields, list) else []
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{file} is broken ({type(error).__name__}: {error})") from error
    fields = fields if isinstance(fields, dict) else {}
    for _, path in modules:
        if not (folder / str(path)).resolve().is_relative_to(folder.resolve()):
            raise ModelError(f"{file} names a module at '{path}', which is not inside {folder}")
    nested = fields.get("types")
    kinds = [*(kind for kind, _ in modules), *(nested.values() if isinstance(nested, dict) else ())]
    layers = [fields.get(key) for key in ("tokenizer_class", "activation_function")]
    foreign = [one for one in kinds if not _known(one, _LIBRARY)]
    foreign += [one for one in layers if "." in str(one) and not _known(one, _LIBRARY, "torch.nn.")]
    if foreign:
        raise ModelError(
            f"{file} asks to run code of its own ({foreign[0]}); evenli runs no such code. "
            "Load it yourself and pass it as py:module:function"
        )


def _known(name: Any, *packages: str) -> bool:
    return isinstance(name, str) and name.startswith(packages)


def _fetch(name: str, revision: str) -> tuple[str, Path]:
    """The name with its owner, and the folder of its files, which is called after the commit."""
    hub = need("huggingface_hub", extra="hf", purpose="models of the hub")
    *others, last = [name] if "/" in name else [f"sentence-transformers/{name}", name]
    for one in others:
        try:
            return one, _snapshot(hub, one, revision)
        except OSError:  # perhaps a plain model, without owner
            pass
    return last, _snapshot(hub, last, revision)


def _snapshot(hub: Any, name: str, revision: str) -> Path:
    cache = os.environ.get("SENTENCE_TRANSFORMERS_HOME")
    try:
        # No pickles, no code and no other forms of the weights.
        wanted = [f"*{suffix}" for suffix in sorted(MATTERS)]
        return Path(hub.snapshot_download(name, revision=revision or None, cache_dir=cache, allow_patterns=wanted))
    except OSError as error:
        # Without a network, the cache may lack files that no loader asks for.
        cached = getattr(error, "snapshot_path", None)
        if cached is None:
            raise
        return Path(cached)


def _shorten(model: Any) -> None:
    """Lower the input limit: the library counts positions of RoBERTa-like models that no token can have."""
    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    limit = getattr(model, "max_seq_length", None)
    if config is not None and isinstance(limit, int):
        model.max_seq_length = longest_input(config, limit)
