"""One file that holds all a run needs to continue; it is either whole or not there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from evenli.errors import RunError

FILE = "checkpoint.safetensors"


def save_checkpoint(folder: Path, tensors: dict[str, Any], facts: dict[str, Any]) -> None:
    """Replace the folder's checkpoint; the old one stays if anything goes wrong.

    Args:
        folder: Output folder of the run.
        tensors: Weights, moments and random state.
        facts: Plain values: step, identity of the run, results so far.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    partial = folder / f"{FILE}.partial"
    try:
        save_file(tensors, partial, metadata={"evenli": json.dumps(facts)})
        with partial.open("rb+") as stream:
            os.fsync(stream.fileno())
        partial.replace(folder / FILE)
    except (OSError, SafetensorError) as error:
        partial.unlink(missing_ok=True)
        kept = "the last checkpoint is kept" if (folder / FILE).is_file() else "there is none yet"
        raise RunError(
            f"cannot write a checkpoint to {folder} ({_reason(error)}); {kept}. "
            "Make room and give the same command again"
        ) from error


def load_checkpoint(folder: Path) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Tensors and facts of the folder's checkpoint, or None."""
    from safetensors import SafetensorError, safe_open

    path = folder / FILE
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as stored:
            facts = json.loads(stored.metadata()["evenli"])
            return {name: stored.get_tensor(name) for name in stored.keys()}, facts  # noqa: SIM118 - not a dict
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"cannot read {path} ({_reason(error)}); delete it to start over") from error


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return " ".join(str(text).split())[:200]
