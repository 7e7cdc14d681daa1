"""JSON files that say which evenli made them, and under which schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenli._version import __version__
from evenli.errors import RunError

UNREADABLE = (OSError, ValueError, KeyError, TypeError)
"""What a broken header raises; what can be done about it depends on the file, so the reader says it."""


def read_versioned(file: Path) -> dict[str, Any]:
    """Read an object whose ``schema`` is a number; anything else raises one of ``UNREADABLE``."""
    header = json.loads(file.read_text(encoding="utf-8"))
    int(header["schema"])
    return dict(header)


def refuse_newer(header: Mapping[str, Any], schema: int, *, made: Path, advice: str) -> None:
    """Refuse what a newer evenli made.

    Args:
        header: What ``read_versioned`` found.
        schema: The newest schema that this evenli knows.
        made: The file, or the folder it stands for.
        advice: What to do.
    """
    found = int(header["schema"])
    if found > schema:
        raise RunError(
            f"{made} was made by evenli {header.get('evenli', '?')} (schema {found}); this is evenli {__version__} "
            f"(schema {schema}). {advice}"
        )
