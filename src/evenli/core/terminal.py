"""What commands print: lines on stdout, remarks and progress on stderr.

Control characters are escaped in all output: no text from a file or a model can move the cursor.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from evenli.core.format import TURNING, drawn_on, printable

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Progress:
    """What a progress bar needs: distinct pairs done and in total, and what is going on."""

    done: int
    total: int
    stage: str


_KEPT: list[TextIO] = []


@contextlib.contextmanager
def kept_stdout() -> Iterator[None]:
    """Keep stdout for what a command answers: what a user's own code or a library prints meanwhile goes to stderr."""
    _KEPT.append(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _KEPT.pop()


def stdout() -> TextIO:
    """Where a command answers."""
    return _KEPT[-1] if _KEPT else sys.stdout


def show(text: str) -> None:
    """Text on stdout, at once."""
    print(text, end="", file=stdout(), flush=True)


def say(line: str) -> None:
    """One line on stdout, whatever stands in it."""
    show(f"{printable(line)}\n")


def warn(message: str) -> None:
    """One remark on stderr."""
    print(f"evenli: {printable(' '.join(message.split()))}", file=sys.stderr)


def console() -> Console:
    """The terminal; wide enough for tables where the output is a file or a pipe."""
    from rich.console import Console

    return Console(file=stdout(), width=None if stdout().isatty() else 140)


def print_json(content: Any) -> None:
    """Strict JSON on stdout."""
    show(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def answer(as_json: bool, content: Any, *lines: str) -> None:
    """What a command has to say: JSON if that is asked for, or else lines for people."""
    if as_json:
        print_json(content)
        return
    for line in lines:
        say(line)


_PAUSE = 10.0  # seconds between two lines of progress in a log


class ProgressLog:
    """Progress where nobody watches: one line on stderr every ten seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._started = clock, clock()
        self._last = self._started

    def __call__(self, progress: Progress | int) -> None:
        """Say where the work is, if ten seconds have passed since the last line."""
        now = self._clock()
        if now - self._last < _PAUSE:
            return
        self._last, seconds = now, now - self._started
        if isinstance(progress, int):
            warn(f"scoring: {progress:,} rows after {seconds:.0f} s")
            return
        share = progress.done / progress.total if progress.total else 0
        left = f", about {seconds / share - seconds:.0f} s left" if share else ""
        warn(f"{progress.stage}: {progress.done:,} of {progress.total:,} ({share:.0%}) after {seconds:.0f} s{left}")


def is_watched(as_json: bool) -> bool:
    """Whether progress is shown: always on a terminal; in a file or a pipe not beside JSON, for whoever reads both."""
    return not as_json or sys.stderr.isatty()


@contextlib.contextmanager
def heartbeat(as_json: bool, first: str = "") -> Iterator[Callable[[str], None]]:
    """Say every ten seconds on stderr what a command is at, where its work cannot be counted.

    The block announces what it does next; an empty text keeps quiet, for work that speaks itself.
    """
    shown = is_watched(as_json)
    current, ended, started = [first], threading.Event(), time.monotonic()

    def beat() -> None:
        while not ended.wait(_PAUSE):
            if current[0]:
                warn(f"{current[0]}, {time.monotonic() - started:.0f} s so far")

    def announce(text: str) -> None:
        current[0] = text

    # A daemon: a command that is interrupted must not wait for the next beat.
    thread = threading.Thread(target=beat, daemon=True)
    if shown:
        thread.start()
    try:
        yield announce
    finally:
        ended.set()
        if shown:
            thread.join()


@contextlib.contextmanager
def progress_bar(as_json: bool) -> Iterator[Callable[[Progress | int], None]]:
    """A bar with rate and time left on stderr, or a line now and then where stderr is a file or a pipe.

    A number is rows of an unknown total.
    """
    if not is_watched(as_json):
        yield lambda progress: None
        return
    if not sys.stderr.isatty():
        yield ProgressLog()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    text, rate = TextColumn("{task.description}"), TextColumn("{task.fields[rate]}")
    columns = (text, BarColumn(), MofNCompleteColumn(), rate, TimeElapsedColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(file=drawn_on(sys.stderr)), transient=True) as bar:
        task = bar.add_task("loading", total=None, rate="")

        def update(progress: Progress | int) -> None:
            speed = bar.tasks[0].speed
            rate = f"{speed:,.0f} pairs/s" if speed else ""
            if isinstance(progress, int):
                bar.update(task, description="scoring", completed=progress, rate=rate)
            else:
                bar.update(task, description=progress.stage, completed=progress.done, total=progress.total, rate=rate)

        yield update


# Colours are ours; every other control character, line ends and tabs aside, is spelled as in JSON.
_CONTROL = re.compile(rf"\x1b\[[0-9;]*m|[\x00-\x08\x0b-\x1f\x7f-\x9f{TURNING}]")


class SafeStream:
    """A text stream that spells control characters out; one that is ``optional`` may be full or gone."""

    def __init__(self, stream: TextIO, *, optional: bool = False) -> None:
        self.unguarded = stream  # the stream behind the door, for ``format.drawn_on``
        self._spared: type[OSError] = OSError if optional else BrokenPipeError
        with contextlib.suppress(AttributeError, ValueError):  # not every stream can: a test's buffer, for example
            stream.reconfigure(errors="backslashreplace")  # type: ignore[attr-defined]
        self._coloured = stream.isatty()

    def write(self, text: str) -> int:
        """Write text that is safe to show."""
        with self._reader():
            self.unguarded.write(_CONTROL.sub(self._spell, text))
        return len(text)

    def flush(self) -> None:
        """Hand over what is buffered."""
        with self._reader():
            self.unguarded.flush()

    @contextlib.contextmanager
    def _reader(self) -> Iterator[None]:
        """Whoever reads may have enough of it, as ``head`` does: the command goes on, and what a gate found stands."""
        try:
            yield
        except self._spared:
            drop_output(self.unguarded)

    def _spell(self, match: re.Match[str]) -> str:
        text = match.group()
        return text if len(text) > 1 and self._coloured else f"\\u{ord(text[0]):04x}{text[1:]}"

    def __getattr__(self, name: str) -> Any:
        """Everything else is the stream's own."""
        return getattr(self.unguarded, name)


def drop_output(stream: TextIO | None = None) -> None:
    """Let what is still buffered go nowhere, or the interpreter fails on it once more when it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), (stream or sys.stdout).fileno())


def guard() -> None:
    """Escape control characters in what this process writes to stdout and stderr."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, SafeStream):
            setattr(sys, name, SafeStream(stream, optional=name == "stderr"))
