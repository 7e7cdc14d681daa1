"""Temporary files: whose they are, which of them a killed process left, and copies to load a model from."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from evenli.core.errors import EvenliError, system_failure
from evenli.core.parse import check_regular


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


@contextlib.contextmanager
def private_copy(files: Iterable[Path], root: Path) -> Iterator[Path]:
    """A folder with copies of files at their places under ``root``, for as long as something is loaded from it.

    Nobody else writes there, so what is hashed there is what is loaded, and a library may keep a file mapped: it stays
    mapped when the folder is gone. Messages name the originals.
    """
    with tempfile.TemporaryDirectory(prefix="evenli-", ignore_cleanup_errors=True) as place:
        with system_failure(f"cannot copy {root} to {tempfile.gettempdir()}: ", "; TMPDIR names another folder"):
            for file in files:
                check_regular(file)
                copy = Path(place, file.absolute().relative_to(root.absolute()))
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)
        try:
            yield Path(place)
        except EvenliError as error:
            error.args = (str(error).replace(place, str(root)),)
            raise


def _is_running(number: int) -> bool:
    try:
        os.kill(number, 0)  # asks only
    except OSError as error:  # any other: it is another user's
        return not isinstance(error, ProcessLookupError)
    return True
