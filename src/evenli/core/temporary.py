"""Names of temporary files: whose they are, and which of them a killed process left."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import threading
from pathlib import Path


def process_mark() -> str:
    """What the name of a temporary file says about its writer: the number of the process, its machine, its thread."""
    numbering = ""
    with contextlib.suppress(OSError):  # containers of one host number their processes apart; Linux says which
        numbering = str(Path("/proc/self/ns/pid").readlink())
    machine = hashlib.sha256(f"{platform.node()} {numbering}".encode()).hexdigest()[:8]
    return f"{os.getpid()}-{machine}-{threading.get_ident():x}"


def is_temporary(path: Path) -> bool:
    """Whether a file is what a killed ``io.atomic`` left, or what one is writing.

    >>> is_temporary(Path("runs/.results.partial.json"))
    True
    """
    return path.name.startswith(".") and Path(path.stem).suffix == ".partial"


def leftovers(folder: Path, start: str, end: str) -> list[Path]:
    """Entries named start, mark, end whose process is gone; those of other machines may be in use and are left out."""
    if os.name != "posix":  # elsewhere a process cannot be asked without disturbing it
        return []
    machine = process_mark().split("-")[1]
    named = re.compile(f"{re.escape(start)}([0-9]{{1,9}})-{machine}-[0-9a-f]+{re.escape(end)}")
    found = ((entry, named.fullmatch(entry.name)) for entry in folder.iterdir())
    return [entry for entry, match in found if match and not _is_running(int(match[1]))]


def _is_running(number: int) -> bool:
    try:
        os.kill(number, 0)  # asks only
    except OSError as error:  # any other: it is another user's
        return not isinstance(error, ProcessLookupError)
    return True
