"""Checkpoints on disk: what is refused before anything is loaded, errors in one line, and how long an input may be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evenli.errors import EvenliError, InputError, ModelError
from evenli.io import read_json

PICKLE_FILES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
SAFE_FILES = ("model.safetensors", "model.safetensors.index.json")
CONVERT = "convert it to safetensors"
OR_ALLOW = f"{CONVERT}, or pass --allow-pickle if you trust it"
"""Advice of commands that have the option."""
MATTERS = {".safetensors", ".json", ".txt", ".model", ".codes", ".vocab", ".bpe", ".tiktoken"}
"""Endings of the files that a checkpoint's outputs depend on: weights, configuration and vocabularies."""
_RECORDS = {"training.json", "checkpoint.safetensors", "run.json", "results.json"}
"""What evenli writes into a directory about a run; the model in it answers the same without them."""
_FROM_PADDING = (
    "altclip_text_model camembert data2vec-text esm ibert layoutlmv3 lilt longformer luke markuplm mpnet roberta "
    "roberta-prelayernorm xlm-roberta xlm-roberta-xl xmod"
)
"""Model types that count positions from their padding id, as RoBERTa does."""


def check_folder(folder: Path, *, allow_pickle: bool = False, advice: str = CONVERT) -> None:
    """Refuse a directory that is no checkpoint, wants to run code or keeps its weights in a pickle."""
    config = folder / "config.json"
    if not config.is_file():
        raise ModelError(f"{folder} is not a checkpoint: no config.json in it")
    if "auto_map" in read_fields(config):
        raise ModelError(
            f"{folder} asks to run code of its own (auto_map in config.json); evenli runs no remote code. "
            "Load it yourself and pass it as py:module:function"
        )
    safe, pickled = (any((folder / name).is_file() for name in names) for names in (SAFE_FILES, PICKLE_FILES))
    if not safe and not pickled:
        raise ModelError(f"{folder} holds no weights (model.safetensors)")
    if not safe and not allow_pickle:
        raise ModelError(
            f"{folder} holds a pickle checkpoint (pytorch_model.bin), which can run code when loaded; {advice}"
        )


def read_fields(file: Path) -> dict[str, Any]:
    """Fields of a JSON file of a checkpoint; none where there is no such file."""
    try:
        return read_json(file) if file.is_file() else {}
    except InputError as error:
        raise ModelError(str(error)) from error


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
    present = {"cpu": True, "mps": torch.backends.mps.is_available(), "cuda": torch.cuda.is_available()}
    available = [name for name, here in present.items() if here]
    if wanted is None:
        return available[-1]
    if wanted.partition(":")[0] not in available:
        raise ModelError(f"device '{wanted}' is not available here; available: {', '.join(available)}")
    return wanted


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
    limits = [at_most, position_limit(config), tokenizer_limit]
    return int(min(limit for limit in limits if isinstance(limit, int | float) and limit > 0))


def checkpoint_files(folder: Path, *, nested: bool = False) -> list[Path]:
    """What the outputs of a checkpoint depend on; code in it is never run, so it does not count.

    A pickle counts where it is what would be loaded: in a directory without ``model*.safetensors``.

    Args:
        folder: The checkpoint.
        nested: Also files in subdirectories, where a sentence-transformer keeps its parts.
    """
    there = [file for file in (folder.rglob("*") if nested else folder.iterdir()) if file.is_file()]
    safe = any(file.name.startswith("model") and file.suffix == ".safetensors" for file in there)
    endings = MATTERS if safe else MATTERS | {".bin"}
    return sorted(file for file in there if file.suffix in endings and file.name not in _RECORDS)
