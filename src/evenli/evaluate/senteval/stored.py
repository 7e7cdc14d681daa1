"""A result file that is written after every task, so that a stopped run continues where it was."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenli.errors import InputError, RunError
from evenli.evaluate.senteval.data import TASKS, folder_of, read_task
from evenli.evaluate.senteval.results import SentEvalResult, TaskResult
from evenli.io import write_json

FORMAT = "evenli senteval 1"
_INSTEAD = "give another file, or --overwrite to begin anew"


class ResultFile:
    """The file of one encoder and one choice of settings.

    Args:
        path: The file; that it can be written is checked here, and its folder is made.
        overwrite: Begin anew, whatever the file holds.
    """

    def __init__(self, path: str | Path, *, overwrite: bool = False) -> None:
        self.path, self._overwrite = Path(path), overwrite
        self._spec, self._settings = "", dict[str, Any]()
        self._tasks: dict[str, TaskResult] = {}
        _check_writable(self.path)

    def open(self, spec: str, settings: Mapping[str, Any], data: str | Path) -> dict[str, TaskResult]:
        """Tasks that are in the file already; a file of another encoder, other settings or other data is refused.

        Args:
            spec: The encoder as it was named.
            settings: What ``settings_of`` gives.
            data: Folder with the task files.
        """
        self._spec, self._settings = spec, dict(settings)
        if self._overwrite or not self.path.exists():
            return {}
        found = self._read()
        for name, now in settings.items():
            if (then := found.settings.get(name)) != now:
                how = "another encoder" if name == "encoder" else f"{name} {then}, not {now}"
                raise InputError(f"{self.path} holds a result with {how}; {_INSTEAD}")
        folder = folder_of(data)
        for name, task in found.tasks.items():
            try:
                same = read_task(name, folder).sha256 == task.data
            except InputError as error:
                raise InputError(f"{self.path} holds {name}, which cannot be compared: {error}; {_INSTEAD}") from error
            if not same:
                raise InputError(f"{self.path} holds {name} on other data than {folder} has; {_INSTEAD}")
        self._tasks = dict(found.tasks)
        return dict(found.tasks)

    def add(self, task: TaskResult) -> None:
        """Write one more task."""
        self._tasks[task.name] = task
        ordered = {name: self._tasks[name] for name in TASKS if name in self._tasks}
        self.write(SentEvalResult(ordered, settings=self._settings))

    def write(self, result: SentEvalResult) -> None:
        """Write a whole result."""
        write_json(self.path, as_told(result, self._spec))

    def _read(self) -> SentEvalResult:
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            if content["format"] == FORMAT:
                return SentEvalResult.from_dict(content)
        except OSError as error:
            raise RunError(f"cannot read {self.path}: {error.strerror or error}") from error
        except (ValueError, KeyError, TypeError, InputError):
            pass
        raise InputError(f"{self.path} is there and holds no SentEval result to continue; {_INSTEAD}")


def as_told(result: SentEvalResult, spec: str) -> dict[str, Any]:
    """A result as it is written and printed."""
    return {"format": FORMAT, **result.as_dict(), "encoder": spec}


def _check_writable(path: Path) -> None:
    if path.exists() and not path.is_file():
        raise RunError(f"cannot write {path}: it is {'a folder' if path.is_dir() else 'no file'}; give a file name")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent, prefix=path.name):
            pass
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}") from error
