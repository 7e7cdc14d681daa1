"""The output directory of a training run: one process at a time, checkpoints, and a record once it is finished."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from evenli.binary import read_tensors
from evenli.errors import InputError, RunError
from evenli.io import read_json
from evenli.parse import parse_json_object
from evenli.store import RunDir
from evenli.training.progress import METRICS

CHECKPOINT = "checkpoint.safetensors"
_OWNED = (METRICS, "tensorboard", CHECKPOINT, f"{CHECKPOINT}.partial")
"""What an unfinished run may have left; the last is what older evenli called its temporary file."""
_BROKEN = (OSError, InputError, ValueError, KeyError, TypeError, AttributeError, RuntimeError)

T = TypeVar("T")


class TrainingDir(RunDir):
    """The directory of one run, of an NLI model or of an encoder.

    While the run lasts there is a checkpoint, afterwards a manifest. Either says that the directory is ours. Without
    them only the files of a run that was killed before its first checkpoint are accepted: a directory with a model
    that was trained elsewhere is never written to. A run continues only if its whole ``identity``, everything the
    result depends on, is the same.
    """

    def __init__(self, path: str | Path, *, kind: str, identity: Mapping[str, Any]) -> None:
        super().__init__(path, kind=kind, manifest="training.json", owned=_OWNED, option="-o")
        self.identity = dict(identity)
        self.checkpoint = self.path / CHECKPOINT

    def is_ours(self) -> bool:
        """Whether there is a record or a checkpoint; whether it can be used is seen when it is read."""
        return self.exists() or self.checkpoint.is_file()

    def finished(self, parse: Callable[[dict[str, Any]], T]) -> T | None:
        """What ``parse`` makes of the record of this run, None if the run is not finished."""
        if not self.exists():
            return None
        with self._reading(self.manifest_file):
            record = read_json(self.manifest_file)
            if "schema" in record:  # older records have none
                self.read_manifest()
            self._check_identity(record["identity"])
            return parse(record)

    def resume(self, load: Callable[[dict[str, Any], dict[str, Any]], T]) -> T | None:
        """What ``load`` makes of tensors and facts of this run's checkpoint, None if there is none."""
        if not self.checkpoint.is_file():
            return None
        with self._reading(self.checkpoint):
            tensors, about = read_tensors(self.checkpoint)
            facts = parse_json_object(about["evenli"], self.checkpoint.name)
            self._check_identity(facts["identity"])
            return load(tensors, facts)

    def save_checkpoint(self, tensors: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """Replace the checkpoint atomically; ``facts`` are plain values: where the run is, results so far."""
        from safetensors.torch import save_file

        # Temporary files of killed processes are as large as a checkpoint.
        self.clear([f"{CHECKPOINT}.partial"])
        about = {"evenli": json.dumps({"identity": self.identity, **facts})}
        self.write(CHECKPOINT, lambda file: save_file(dict(tensors), file, metadata=about))

    def finish(self, write: Callable[[Path], object], record: Mapping[str, Any]) -> None:
        """Move in the files that ``write`` puts into the directory it is given, then write the record.

        The checkpoint is deleted last: whenever the process is killed, the same command can complete the run.
        """
        staging = self.path / ".result.partial.d"
        with self.writing():
            try:
                shutil.rmtree(staging, ignore_errors=True)
                staging.mkdir()
                write(staging)
                for file in sorted(staging.iterdir()):
                    file.replace(self.path / file.name)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
        self.write_manifest({"identity": self.identity, **record})
        self.clear([f"{CHECKPOINT}*"])

    @contextmanager
    def _reading(self, file: Path) -> Iterator[None]:
        try:
            yield
        except _BROKEN as error:
            what = f"{file} is damaged or not of a {self.kind} ({' '.join(str(error).split())[:200]})"
            raise RunError(f"{what}; choose another {self.option} or delete it") from error

    def _check_identity(self, before: Mapping[str, Any]) -> None:
        """Refuse to continue another run, and say what is different."""
        changed = [
            f"{name} was {_short(before.get(name, 'not recorded'))}, now {_short(value)}"
            for name, value in self.identity.items()
            if before.get(name, ...) != value
        ]
        if changed:
            what = f"{self.path} holds another run ({'; '.join(changed)})"
            raise RunError(f"{what}; choose another {self.option} or delete the directory")


def _short(value: Any) -> Any:
    """A hash by its first digits, anything else as it is."""
    return f"{value[:12]}…" if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) else value
