"""Escape control characters in all output: no text from a file or a model can move the cursor."""

from __future__ import annotations

import contextlib
import re
import sys
from typing import Any, TextIO

# Colours are ours; every other control character, line ends and tabs aside, is spelled as in JSON.
_CONTROL = re.compile(r"\x1b\[[0-9;]*m|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class SafeStream:
    """A text stream that spells control characters out."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        with contextlib.suppress(AttributeError, ValueError):  # not every stream can: a test's buffer, for example
            stream.reconfigure(errors="backslashreplace")  # type: ignore[attr-defined]
        self._coloured = stream.isatty()

    @property
    def unguarded(self) -> TextIO:
        """The stream behind the door, for ``format.drawn_on``."""
        return self._stream

    def write(self, text: str) -> int:
        """Write text that is safe to show."""
        self._stream.write(_CONTROL.sub(self._spell, text))
        return len(text)

    def _spell(self, found: re.Match[str]) -> str:
        text = found.group()
        return text if len(text) > 1 and self._coloured else f"\\u{ord(text[0]):04x}{text[1:]}"

    def __getattr__(self, name: str) -> Any:
        """Everything else is the stream's own."""
        return getattr(self._stream, name)


def guard() -> None:
    """Escape control characters in what this process writes to stdout and stderr."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, SafeStream):
            setattr(sys, name, SafeStream(stream))
