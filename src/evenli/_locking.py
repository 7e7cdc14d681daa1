"""One process at a time in a folder."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from evenli.errors import RunLockedError


def hold(folder: Path, message: str) -> AbstractContextManager[Any]:
    """Take an existing folder at once; the context that is returned gives it back, and so does a killed process.

    Args:
        folder: The folder; its ``.lock`` is what is held.
        message: Said in the ``RunLockedError`` if another process holds it.
    """
    from filelock import FileLock, Timeout

    try:
        return FileLock(folder / ".lock", timeout=0).acquire()
    except Timeout:
        raise RunLockedError(message) from None
