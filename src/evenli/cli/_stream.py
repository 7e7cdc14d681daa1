"""Escape control characters in all output: no text from a file or a model can move the cursor."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from evenli.core.format import TURNING

# Colours are ours; every other control character, line ends and tabs aside, is spelled as in JSON.
_CONTROL = re.compile(rf"\x1b\[[0-9;]*m|[\x00-\x08\x0b-\x1f\x7f-\x9f{TURNING}]")


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
        with self._reader():
            self._stream.write(_CONTROL.sub(self._spell, text))
        return len(text)

    def flush(self) -> None:
        """Hand over what is buffered."""
        with self._reader():
            self._stream.flush()

    @contextlib.contextmanager
    def _reader(self) -> Iterator[None]:
        """Whoever reads may have enough of it, as ``head`` does: the command goes on, and what a gate found stands."""
        try:
            yield
        except BrokenPipeError:
            drop_output(self._stream)

    def _spell(self, match: re.Match[str]) -> str:
        text = match.group()
        return text if len(text) > 1 and self._coloured else f"\\u{ord(text[0]):04x}{text[1:]}"

    def __getattr__(self, name: str) -> Any:
        """Everything else is the stream's own."""
        return getattr(self._stream, name)


def drop_output(stream: TextIO | None = None) -> None:
    """Let what is still buffered go nowhere, or the interpreter fails on it once more when it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), (stream or sys.stdout).fileno())


def guard() -> None:
    """Escape control characters in what this process writes to stdout and stderr."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, SafeStream):
            setattr(sys, name, SafeStream(stream))
