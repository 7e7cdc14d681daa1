"""What a training run wrote down about itself, read again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evenli.errors import RunError


@contextmanager
def one_line(file: Path, what: str) -> Iterator[None]:
    """Refuse a record that is broken or of something else than ``what``."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise RunError(f"{file} is not of {what}; choose another folder or delete it") from error


def check_same(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse to continue another run, and say what differs."""
    changed = [
        f"{name} was {_short(before.get(name, 'not recorded'))}, now {_short(value)}"
        for name, value in now.items()
        if name not in before or before[name] != value
    ]
    if changed:
        raise RunError(f"{folder} holds another run ({'; '.join(changed)}); choose another -o or delete the folder")


def _short(value: Any) -> Any:
    """A hash by its beginning, anything else as it is."""
    return f"{value[:12]}…" if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) else value
