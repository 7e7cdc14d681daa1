"""JSON files that are there whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evenli._whole import write_whole
from evenli.errors import RunError


def write_json(file: Path, content: Any) -> None:
    """Write a whole file or none; the folder is made."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        write_whole(file, lambda unfinished: unfinished.write_text(text, encoding="utf-8"))
    except OSError as error:
        raise RunError(f"cannot write {file}: {error.strerror or error}") from error
