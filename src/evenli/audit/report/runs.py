"""The runs below a folder; what has not changed since it was read is not read again."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from evenli.audit.predictions import RunFolder, read_header
from evenli.audit.suites.base import get_suite
from evenli.core.errors import EvenliError, InputError

_DEEP = 6
"""How far below the folder runs are looked for."""
_COARSE = 2_000_000_000
"""Nanoseconds within which the clock of a file system may not tell two changes apart."""
_FRESH = 1.0
"""Seconds for which the list of folders is taken as it was."""


@dataclass(frozen=True)
class RunEntry:
    """A run in the list; ``problem`` says why it cannot be shown."""

    id: str
    path: Path
    name: str
    model: str = ""
    lang: str = ""
    data: str = ""
    verdict: str = ""
    score: str = ""
    scored: str = ""  # what the score is of
    created: str = ""
    spec: str = ""
    problem: str = ""
    pairs: str = ""  # hash of the pairs, which runs that can be compared share

    @property
    def text(self) -> str:
        """What a filter looks at."""
        shown = (self.name, self.model, self.verdict, self.problem, self.score, self.lang, self.data, self.created)
        return " ".join(shown).lower()


class Runs:
    """Every run below a folder; a damaged one is listed with what is wrong.

    Links to folders are looked at and not followed further: one to ``/proc`` has no end.
    """

    def __init__(self, folder: str | Path) -> None:
        self._root = Path(folder)
        if not self._root.is_dir():
            raise InputError(f"there is no folder {self._root}; give the one that holds your runs")
        self._entries: list[RunEntry] = []
        self._folders: dict[str, str] = {}  # by address
        self._kept: dict[tuple[object, str], tuple[Any, Any]] = {}
        self._looked = -_FRESH

    def entries(self) -> list[RunEntry]:
        """All of them, newest first."""
        if time.monotonic() - self._looked >= _FRESH:
            # A folder changes with every file that takes its name in it; ``get`` also looks at the files.
            entries = {folder: self._keep(self.read, folder, state) for folder, state in self._below(str(self._root))}
            self._folders = {entry.id: folder for folder, entry in entries.items()}
            self._entries = sorted(entries.values(), key=lambda entry: (entry.created, entry.name), reverse=True)
            self._looked = time.monotonic()
        return self._entries

    def get(self, identity: str) -> RunEntry:
        """A run by its address, in a time that other runs do not change; only one of the list can be named."""
        if identity not in self._folders:
            self.entries()
        folder = self._folders.get(identity, "")
        if not folder or not Path(folder, "run.json").is_file():
            raise InputError("there is no such run here (any more)")
        entry = self.read(folder)
        if entry.problem:
            raise InputError(f"{entry.name}: {entry.problem}")
        return entry

    def read(self, folder: str) -> RunEntry:
        """The run in a folder, as its files are now."""
        state = (_state(f"{folder}/run.json"), _state(f"{folder}/results.json"))
        entry: RunEntry = self._keep(self._entry, folder, *state)
        return entry

    def _entry(self, folder: str) -> RunEntry:
        return _entry(self._root, Path(folder))

    def _below(self, folder: str, depth: int = 1) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Folders of runs, and their states."""
        state = _state(folder)
        has_run, folders, links = self._keep(_inside, folder, state)
        if has_run:
            yield folder, state
        yield from ((link, _state(link)) for link in links if Path(link, "run.json").is_file())
        if depth < _DEEP:
            for inner in folders:
                yield from self._below(inner, depth + 1)

    def _keep(self, read: Callable[[str], Any], folder: str, *state: tuple[int, ...]) -> Any:
        """What ``read`` makes of a folder, as long as the state is the same."""
        before, value = self._kept.get((read, folder), (None, None))
        if before != state:
            settled = all(time.time_ns() - changed > _COARSE for changed, *_ in state)
            value = read(folder)
            self._kept[read, folder] = (state if settled else None, value)
        return value


def _state(file: str) -> tuple[int, int, int]:
    """What differs when a file does; zeros where there is none."""
    try:
        found = os.stat(file)  # noqa: PTH116 - a thousand of them in a page's time
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino


def _inside(folder: str) -> tuple[bool, list[str], list[str]]:
    """Whether a folder has a run, paths of folders in it, and of links."""
    try:
        with os.scandir(folder) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except OSError:
        return False, [], []
    folders = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    return (
        any(entry.name == "run.json" for entry in entries),
        folders,
        [entry.path for entry in entries if entry.is_symlink()],
    )


def find_runs(folder: str | Path) -> list[RunEntry]:
    """Every run below a folder, newest first; a damaged one is listed with what is wrong."""
    return Runs(folder).entries()


def _entry(root: Path, folder: Path) -> RunEntry:
    raw = os.fsencode(folder.relative_to(root).as_posix() if folder != root else root.resolve().name)
    name = raw.decode("utf-8", "backslashreplace")
    # The address of a run: short, of harmless letters, and the same after a restart.
    identity = f"{re.sub(r'[^a-zA-Z0-9]+', '-', name).strip('-')[:40]}-{sha256(raw).hexdigest()[:8]}"
    unread = RunEntry(identity, folder, name)
    try:
        header = read_header(folder / "run.json")
        entry = replace(unread, created=str(header.get("created", ""))[:16].replace("T", " "))
        if header.get("status") != "complete":
            return replace(entry, problem="not complete: run its command again")
        if not (folder / "results.json").is_file():
            return replace(entry, problem="predictions only, no audit")
        result = RunFolder(folder).read_results(header)
    except EvenliError as error:
        return replace(unread, problem=str(error))
    cards = [card for card in (result.data_of(suite) for suite in result.suites) if card is not None]
    ranked = next((suite for suite in map(get_suite, result.suites) if suite.ranked), None)
    # The verdict in a few words; the report has its sentence.
    causes = ", ".join(f"{cause.label} ({cause.size})" for cause in result.verdict.causes)
    return replace(
        entry,
        model=result.model.title,
        lang=str(result.lang),
        data="; ".join(card.name for card in cards),
        verdict=causes or result.verdict.sentence.split(". ")[0].split(":")[0].rstrip("."),
        score=result.suites[ranked.name].main.shown if ranked else "",
        scored=ranked.title if ranked else "",
        spec=str(header["model"].get("spec", "")),
        pairs=" ".join(card.sha256 for card in cards),
    )
