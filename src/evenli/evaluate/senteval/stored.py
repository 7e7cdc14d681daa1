"""A result file that is written after every task, so that a stopped run continues where it was."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from evenli.errors import InputError, RunError
from evenli.evaluate.senteval.data import TASKS, read_task, task_folder
from evenli.evaluate.senteval.results import FORMAT, SentEvalResult, TaskResult
from evenli.io import write_json

_ADVICE = "give another file, or --overwrite to begin anew"


class UnsavedResultError(RunError):
    """The result could not be written; ``result`` holds it."""

    def __init__(self, message: str, result: SentEvalResult) -> None:
        super().__init__(message)
        self.result = result


class ResultFile:
    """The file of one encoder and one choice of settings.

    Args:
        path: The file; that it can be written is checked here, and its directory is made.
        overwrite: Begin anew, whatever the file holds.
    """

    def __init__(self, path: str | Path, *, overwrite: bool = False) -> None:
        self.path, self._overwrite = Path(path), overwrite
        self._result = SentEvalResult({})
        self._check_writable()

    def open(self, name: str, settings: Mapping[str, Any], data: str | Path) -> dict[str, TaskResult]:
        """Tasks that are in the file already; a file of another encoder, other settings or other data is refused.

        Args:
            name: What the result calls the encoder.
            settings: What ``SentEvalSettings.describe`` gives.
            data: Directory with the task files.
        """
        self._result = SentEvalResult({}, settings=dict(settings), encoder=name)
        if self._overwrite or not self.path.exists():
            return {}
        # Scores of other settings or data in one file would be averaged without notice.
        stored = self._read()
        for setting, now in settings.items():
            if (then := stored.settings.get(setting)) != now:
                what = "another encoder" if setting == "encoder" else f"{setting} {then}, not {now}"
                raise InputError(f"{self.path} holds a result with {what}; {_ADVICE}")
        folder = task_folder(data)
        for task, result in stored.tasks.items():
            try:
                same = read_task(task, folder).sha256 == result.data
            except InputError as error:
                raise InputError(f"{self.path} holds {task}, which cannot be compared: {error}; {_ADVICE}") from error
            if not same:
                raise InputError(f"{self.path} holds {task} on other data than {folder} has; {_ADVICE}")
        self._result = replace(self._result, tasks=dict(stored.tasks))
        return dict(stored.tasks)

    def add(self, task: TaskResult) -> None:
        """Write one more task."""
        tasks = {**self._result.tasks, task.name: task}
        self._result = replace(self._result, tasks={name: tasks[name] for name in TASKS if name in tasks})
        write_json(self.path, self._result.to_dict())

    def finish(self, result: SentEvalResult) -> None:
        """Write a whole result."""
        try:
            write_json(self.path, result.to_dict())
        except RunError as error:
            raise UnsavedResultError(str(error), result) from error

    def _read(self) -> SentEvalResult:
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            if content["format"] == FORMAT:
                return SentEvalResult.from_dict(content)
        except OSError as error:
            raise RunError(f"cannot read {self.path}: {error.strerror or error}") from error
        except (ValueError, KeyError, TypeError, RunError):
            pass
        raise InputError(f"{self.path} holds no SentEval result to continue; {_ADVICE}")

    def _check_writable(self) -> None:
        if self.path.exists() and not self.path.is_file():
            what = "a folder" if self.path.is_dir() else "not a file"
            raise RunError(f"cannot write {self.path}: it is {what}; give a file name")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path.parent, prefix=self.path.name):
                pass
        except OSError as error:
            raise RunError(f"cannot write {self.path}: {error.strerror or error}") from error
