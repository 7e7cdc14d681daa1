"""The folder of a mitigated encoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evenli.encoders.base import MITIGATED
from evenli.errors import InputError

FORMAT = "evenli mitigated-encoder 1"


def check_free(out: Path, ours: Sequence[str], *, overwrite: bool) -> None:
    """Refuse a place that holds anything but a mitigated encoder, or one that is not to be replaced.

    Args:
        out: Folder to write.
        ours: Files beside ``mitigated.json`` that such a folder may hold; names may go on, as those of partial files.
        overwrite: Whether a mitigated encoder may be replaced.
    """
    if not out.exists():
        return
    if not out.is_dir():
        raise InputError(f"{out} is a file; name a folder to write")
    others = sorted(file.name for file in out.iterdir() if not file.name.startswith((".", MITIGATED, *ours)))
    if others:
        raise InputError(f"{out} holds other files ({', '.join(others[:3])}); name a new folder")
    if (out / MITIGATED).is_file() and not overwrite:
        raise InputError(f"{out} holds a mitigated encoder; pass --overwrite to replace it or name a new folder")
