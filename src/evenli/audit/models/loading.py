"""Checkpoints: found in a directory or on the hub, checked before anything is loaded, read without remote code.

Everything else loads from the directory that ``find_checkpoint`` returns, so nothing but this module can reach the hub,
and it does so only when the user asked for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evenli.audit.models.base import ModelOptions, OutOfMemory
from evenli.audit.models.growth import growth
from evenli.core.binary import decoding, tensor_names
from evenli.core.errors import InputError, ModelError, message_of, translated
from evenli.core.extras import need
from evenli.core.io import hash_files, read_json
from evenli.core.parse import check_regular
from evenli.core.temporary import private_copy

PICKLE_FILES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_LAYERS = 10_000
"""Layers of the largest network that is built; published ones have a few hundred."""
SAFE_FILES = ("model.safetensors", "model.safetensors.index.json")
MATTERS = {".safetensors", ".json", ".txt", ".model", ".spm", ".codes", ".vocab", ".bpe", ".tiktoken", ".jinja"}
"""Endings of the files that a checkpoint's outputs depend on: weights, configuration, vocabularies, chat templates."""
_RECORDS = {"training.json", "checkpoint.safetensors", "run.json", "results.json"}
"""What evenli writes into a directory about a run; the model in it answers the same without them."""
_WEIGHTS = "model*.safetensors*"
_FROM_PADDING = (
    "altclip_text_model camembert data2vec-text esm ibert layoutlmv3 lilt longformer luke markuplm mpnet roberta "
    "roberta-prelayernorm xlm-roberta xlm-roberta-xl xmod"
)
"""Model types that count positions from their padding id, as RoBERTa does."""


def check_folder(folder: Path, *, allow_pickle: bool | None = None) -> None:
    """Refuse a directory that is no checkpoint, wants to run code or keeps its weights in a pickle.

    ``allow_pickle`` is None for commands that have no such option.
    """
    config = folder / "config.json"
    if not config.is_file():
        raise ModelError(f"{folder} is not a checkpoint: no config.json in it")
    for entry in folder.iterdir():  # the libraries open what they find, and would wait for a pipe
        if entry.exists() and not entry.is_dir():
            check_regular(entry)
    fields = read_fields(config)
    _check_layers(fields, config)
    if "auto_map" in fields:
        raise ModelError(
            f"{folder} asks to run code of its own (auto_map in config.json); evenli runs no remote code. "
            "Load it yourself and pass it as py:module:function"
        )
    safe, pickled = (any((folder / name).is_file() for name in names) for names in (SAFE_FILES, PICKLE_FILES))
    if not safe and not pickled:
        raise ModelError(f"{folder} holds no weights (model.safetensors)")
    if not safe and not allow_pickle:
        choice = "" if allow_pickle is None else ", or allow it (--allow-pickle) if you trust it"
        raise ModelError(
            f"{folder} holds a pickle checkpoint (pytorch_model.bin), which can run code when loaded; convert it to "
            f"safetensors{choice}"
        )
    _check_shards(folder / SAFE_FILES[1])


def _check_shards(index: Path) -> None:
    """Refuse an index whose shards lie elsewhere, which no hash would cover, or hold other tensors than it says."""
    listed = read_fields(index).get("weight_map", {})
    if not isinstance(listed, dict) or not all(isinstance(name, str) for name in listed.values()):
        raise ModelError(f"{index} is broken: weight_map names a file for each tensor")
    for name in dict.fromkeys(listed.values()):
        file = index.parent / name
        if Path(name).name != name or file.suffix != ".safetensors":
            raise ModelError(f"{index} names {name}; shards are .safetensors files beside it")
        if not file.is_file():
            raise ModelError(f"{index} names {name}, which is not there; fetch the whole checkpoint")
        for tensor in tensor_names(file):
            if listed.get(tensor, name) != name:
                raise ModelError(f"{tensor} is in {name}, and {index} says it is in {listed[tensor]}; fetch it again")


def _check_layers(fields: dict[str, Any], file: Path) -> None:
    """Refuse a network that nobody can have trained: the libraries would build layer after layer."""
    for name, value in fields.items():
        if isinstance(value, dict):
            _check_layers(value, file)
        elif "layer" in name and isinstance(value, int | float) and value > _LAYERS:
            raise ModelError(f"{file} asks for {name} = {value:g}; more than {_LAYERS:,} are not built")


def read_fields(file: Path) -> dict[str, Any]:
    """Fields of a JSON file of a checkpoint; none where there is no such file."""
    with translated("", into=ModelError, kinds=(InputError,)):
        return read_json(file) if file.is_file() else {}


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on this machine."""

    name: str  # as the user wrote it, without the revision
    folder: Path
    revision: str = ""  # commit of a hub model, empty for a directory
    gguf: str = ""  # name of its one file, where it is in that format
    fingerprint: str = ""  # of a copy: changes when the answers may

    @contextmanager
    def copied(self) -> Iterator[Checkpoint]:
        """A copy to load from, with the hash of its files: those that the outputs depend on, and no others."""
        files = [self.folder / self.gguf] if self.gguf else checkpoint_files(self.folder)
        with private_copy(files, self.folder) as folder:
            sha256 = hash_files(folder / file.relative_to(self.folder) for file in files)
            yield replace(self, folder=folder, fingerprint=sha256)


def find_checkpoint(target: str, *, online: bool = False, allow_pickle: bool | None = None) -> Checkpoint:
    """A checkpoint by directory or ``id[@revision]``; the hub is asked only if ``online`` is true."""
    checkpoint = Checkpoint(target, Path(target))
    if not checkpoint.folder.is_dir():
        name, _, revision = target.partition("@")
        folder = snapshot(name, revision, online=online, allow_pickle=bool(allow_pickle))
        checkpoint = Checkpoint(name, folder, folder.name)
    check_folder(checkpoint.folder, allow_pickle=allow_pickle)
    return checkpoint


def snapshot(name: str, revision: str, *, online: bool, nested: bool = False, allow_pickle: bool = False) -> Path:
    """The directory of a snapshot in the local cache, named after its commit; downloaded if ``online`` is true.

    Without ``revision`` the newest. ``nested`` takes files in subdirectories too, where a sentence-transformer keeps
    its parts.
    """
    hub = need("huggingface_hub", extra="hf", purpose="models of the hub")
    # No code, and no other forms of the weights than the one that is loaded.
    endings = MATTERS | ({".bin"} if allow_pickle else set())
    wanted = [f"*{ending}" for ending in sorted(endings - (set() if nested else {".safetensors"}))] + [_WEIGHTS]
    at = f"@{revision}" if revision else ""
    places: dict[str, Any] = {"cache_dir": os.environ.get("SENTENCE_TRANSFORMERS_HOME"), "revision": revision or None}
    try:
        return Path(hub.snapshot_download(name, allow_patterns=wanted, local_files_only=not online, **places))
    except Exception as error:  # unknown id, no network, a cache that lacks files: each has a class of its own
        cached = getattr(error, "snapshot_path", None)
        if cached is not None:  # the cache lacks files that no loader asks for
            return Path(cached)
        local = f"a local checkpoint is given as a path such as ./{name.rpartition('/')[2]}"
        if not online:
            raise ModelError(
                f"{name}{at} is not in the local cache of the hub; download it (--online), or {local}"
            ) from error
        raise ModelError(f"cannot get {name}{at} from the hub ({message_of(error)}); {local}") from error


def load_part(part: Any, checkpoint: Checkpoint, **arguments: Any) -> Any:
    """``part.from_pretrained`` on a directory: no remote code, and no question to the hub."""
    if checkpoint.gguf:
        arguments["gguf_file"] = checkpoint.gguf
    return part.from_pretrained(checkpoint.folder, trust_remote_code=False, local_files_only=True, **arguments)


def load_network(part: Any, checkpoint: Checkpoint, *, safe: bool | None = True, **arguments: Any) -> Any:
    """A network in float32, and what its loader says about the tensors; ``safe`` as None also takes a pickle."""
    # Tensors of another shape are named by check_tensors; the library would only point to its log.
    about = {"output_loading_info": True, "ignore_mismatched_sizes": True}
    return load_part(part, checkpoint, dtype="float32", use_safetensors=safe, **about, **arguments)


def check_tensors(loading: dict[str, Any], name: str, optional: tuple[str, ...] = ()) -> None:
    """Refuse a checkpoint whose tensors are not those of the model: the library would fill the gaps with noise.

    ``loading`` is the ``output_loading_info`` of transformers; names that begin as in ``optional`` may be missing.
    """
    missing = sorted(key for key in loading.get("missing_keys", ()) if not str(key).startswith(optional or ("\0",)))
    mismatched = loading.get("mismatched_keys", ())
    shapes = sorted(str(entry[0] if isinstance(entry, tuple | list) else entry) for entry in mismatched)
    unexpected = sorted(map(str, loading.get("unexpected_keys", ())))
    for what, keys in (("lacks", missing), ("has another shape for", shapes), ("has the unexpected", unexpected)):
        if keys:
            more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
            raise ModelError(
                f"{name} {what} tensor(s) {', '.join(keys[:3])}{more}; its weights do not belong to its config.json"
            )


def quiet_transformers(purpose: str) -> Any:
    """The transformers library, without its log and progress bars."""
    transformers = need("transformers", extra="hf", purpose=purpose)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


@contextmanager
def one_line(name: str) -> Iterator[None]:
    """Turn the loader's many errors about a checkpoint on this machine into one line."""

    def reason(error: BaseException) -> str:
        if "trust_remote_code" in str(error) or "custom code" in str(error):
            raise ModelError(f"{name} asks to run code of its own; evenli runs no remote code") from error
        return message_of(error)

    with translated(f"cannot load the checkpoint {name}: ", into=ModelError, reason=reason):
        yield


def try_tokenizer(tokenizer: Any, name: str, *texts: str) -> None:
    """Validate a tokenizer: one that is damaged fails, or panics, at its first text."""
    growth(tokenizer)
    with decoding(f"the tokenizer of {name}"):
        tokenizer(*texts)


def pick_device(torch: Any, wanted: str | None) -> str:
    """The device asked for, or the fastest there is."""
    present = {"cpu": True, "mps": torch.backends.mps.is_available(), "cuda": torch.cuda.is_available()}
    available = [name for name, here in present.items() if here]
    if wanted is None:
        return available[-1]
    if wanted.partition(":")[0] not in available:
        raise ModelError(f"device '{wanted}' is not available here; available: {', '.join(available)}")
    return wanted


def pick_arithmetic(torch: Any, options: ModelOptions) -> tuple[str, str]:
    """Device and dtype of a network."""
    device = pick_device(torch, options.device)
    return device, options.dtype or ("bfloat16" if device.startswith("cuda") else "float32")


@contextmanager
def inference(torch: Any, device: str, name: str) -> Iterator[None]:
    """A forward pass of the model of this name; raises OutOfMemory if its batch does not fit."""

    def reason(error: BaseException) -> str:
        # The CPU allocator raises a plain RuntimeError.
        memory = isinstance(error, torch.OutOfMemoryError | MemoryError)
        if not memory and "out of memory" not in str(error) and "can't allocate memory" not in str(error):
            return message_of(error)
        if device.startswith("cuda"):
            torch.cuda.empty_cache()
        raise OutOfMemory(f"{name} ran out of memory on a batch") from error

    kinds = (RuntimeError, MemoryError)
    with translated(f"{name} failed on a batch: ", into=ModelError, kinds=kinds, reason=reason), torch.inference_mode():
        yield


def first_position(config: Any) -> int:
    """Row of the position embeddings that belongs to the first token; RoBERTa counts from its padding id."""
    if getattr(config, "model_type", None) not in _FROM_PADDING.split():
        return 0
    padding = getattr(config, "pad_token_id", None)
    # MPNet has 1 in its code. Stored configurations may leave out what is the default, which is 1 for most.
    return 2 if config.model_type == "mpnet" or not isinstance(padding, int) else padding + 1


def position_limit(config: Any) -> int | None:
    """Longest input a model has position embeddings for, if it has a limit."""
    positions = getattr(config, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions <= first_position(config):  # -1 where there is no limit
        return None
    return positions - first_position(config)


def longest_input(config: Any, at_most: int, *, tokenizer_limit: Any = None) -> int:
    """Tokens of the longest input: what is asked for, or less where the model or its tokenizer takes less."""
    # A tokenizer without a limit says 1e30, which the minimum leaves out.
    limits = [at_most, position_limit(config), tokenizer_limit]
    return int(min(limit for limit in limits if isinstance(limit, int | float) and limit > 0))


def checkpoint_files(folder: Path, *, nested: bool = False) -> list[Path]:
    """What the outputs of a checkpoint depend on; code in it is never run, so it does not count.

    A pickle counts where it is what would be loaded: in a directory without ``model*.safetensors``. With ``nested``
    files in subdirectories count too, where a sentence-transformer keeps its parts.
    """
    there = [file for file in (folder.rglob("*") if nested else folder.iterdir()) if file.is_file()]
    safe = any(file.name.startswith("model") and file.suffix == ".safetensors" for file in there)
    endings = MATTERS if safe else MATTERS | {".bin"}
    return sorted(file for file in there if file.suffix in endings and file.name not in _RECORDS)
