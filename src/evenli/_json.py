"""JSON files that are there whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evenli.errors import RunError


def write_json(file: Path, content: Any) -> None:
    """Write a whole file or none; the folder is made."""
    unfinished = file.with_name(f"{file.name}.partial")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(
            json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
        )
        unfinished.replace(file)
    except OSError as error:
        raise RunError(f"cannot write {file}: {error.strerror or error}") from error
