"""Checkpoints by name: a directory, or a snapshot of the hub in the local cache.

Everything else loads from the directory that ``find_checkpoint`` returns, so nothing but this module can reach the hub,
and it does so only when the user asked for it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenli._extras import need
from evenli.errors import ModelError
from evenli.io import hash_files
from evenli.models.loading import CONVERT, MATTERS, check_folder, checkpoint_files

_WEIGHTS = "model*.safetensors*"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on this machine.

    Attributes:
        name: As the user wrote it, without the revision.
        folder: Where its files are.
        revision: Commit of a hub model, empty for a directory.
    """

    name: str
    folder: Path
    revision: str = ""

    @property
    def fingerprint(self) -> str:
        """Changes when the answers may: hash of the files, or name and commit of a hub model."""
        return f"hub:{self.name}@{self.revision}" if self.revision else hash_files(checkpoint_files(self.folder))


def find_checkpoint(
    target: str, *, online: bool = False, allow_pickle: bool = False, advice: str = CONVERT
) -> Checkpoint:
    """A checkpoint by directory or hub id; the hub is asked only if ``online`` is true.

    Args:
        target: A directory, or ``id[@revision]``.
        online: Download what the local cache lacks.
        allow_pickle: Also pickled weights.
        advice: What to do about a checkpoint without safetensors.
    """
    if Path(target).is_dir():
        check_folder(Path(target), allow_pickle=allow_pickle, advice=advice)
        return Checkpoint(target, Path(target))
    name, _, revision = target.partition("@")
    folder = snapshot(name, revision, online=online, allow_pickle=allow_pickle)
    check_folder(folder, allow_pickle=allow_pickle, advice=advice)
    return Checkpoint(name, folder, folder.name)


def snapshot(name: str, revision: str, *, online: bool, nested: bool = False, allow_pickle: bool = False) -> Path:
    """The directory of a snapshot in the local cache, named after its commit; downloaded if ``online`` is true.

    Args:
        name: Hub id.
        revision: Branch, tag or commit; empty for the newest.
        online: Whether the hub may be asked.
        nested: Also files in subdirectories, where a sentence-transformer keeps its parts.
        allow_pickle: Also pickled weights.
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
                f"{name}{at} is not in the local cache of the hub; pass --online to download it, or {local}"
            ) from error
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ModelError(f"cannot get {name}{at} from the hub ({reason}); {local}") from error


def load_part(part: Any, checkpoint: Checkpoint, **arguments: Any) -> Any:
    """``part.from_pretrained`` on a directory: no remote code, and no question to the hub."""
    if arguments.get("output_loading_info"):
        arguments["ignore_mismatched_sizes"] = True  # check_tensors names them; the library only points to its log
    return part.from_pretrained(checkpoint.folder, trust_remote_code=False, local_files_only=True, **arguments)


def check_tensors(loading: dict[str, Any], name: str, optional: tuple[str, ...] = ()) -> None:
    """Refuse a checkpoint whose tensors are not those of the model: the library would fill the gaps with noise.

    Args:
        loading: ``output_loading_info`` of transformers.
        name: The checkpoint, for the message.
        optional: Beginnings of names that may be missing, such as a pooling layer that is not used.
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
