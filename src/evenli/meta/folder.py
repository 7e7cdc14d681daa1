"""The folder of a meta-evaluation. Plain files, so that the stage that trains needs nothing but numpy and torch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from evenli.errors import RunError
from evenli.io import hash_text, read_rows
from evenli.store import hold

SCHEMA = 1
AXES = ("bias", "noise")
"""What a sweep varies: the share of biased words among wrong ones, or the share of wrong words without bias."""

_HEADER, _TRAINING, _MODELS = "meta.json", "training.json", "models.jsonl"
_TRAIN, _DEV, _EVALUATION = "train.jsonl", "dev.jsonl", "evaluation.jsonl"


@dataclass(frozen=True)
class Cell:
    """One model of a sweep.

    Attributes:
        seed: Its seed.
        axis: ``bias`` or ``noise``.
        level: Where it stands on that axis, 0 to 1.
    """

    seed: int
    axis: str
    level: float

    @property
    def name(self) -> str:
        """Stem of its files.

        >>> Cell(0, "bias", 0.3).name
        'seed-0_bias-0.3'
        """
        return f"seed-{self.seed}_{self.axis}-{self.level:g}"


class MetaFolder:
    """Reads and writes one meta-evaluation.

    Args:
        path: The folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def exists(self) -> bool:
        """Whether the folder has been prepared."""
        return (self.path / _HEADER).is_file()

    @property
    def header(self) -> dict[str, Any]:
        """What was prepared: language, levels, settings, hashes."""
        try:
            header = dict(json.loads((self.path / _HEADER).read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise RunError(f"{self.path} holds no meta-evaluation: no {_HEADER} in it") from None
        except (OSError, ValueError, TypeError) as error:
            raise RunError(f"{self.path / _HEADER} cannot be read ({error})") from error
        if "design" not in header:
            raise RunError(f"{self.path / _HEADER} is not of a meta-evaluation; choose another folder")
        if header.get("schema", 0) > SCHEMA:
            raise RunError(f"{self.path} was made by a newer version of evenli (schema {header['schema']})")
        return header

    def check_free(self) -> None:
        """Refuse a folder with files of others, which a preparation would replace."""
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path} is not a folder; choose another -o")
        if not self.path.is_dir() or self.exists or _partial(self.path / _HEADER).exists():
            return
        theirs = sorted(entry.name for entry in self.path.iterdir() if entry.name != ".lock")
        if theirs:
            more = ", …" if len(theirs) > 1 else ""
            raise RunError(f"{self.path} is not empty and not a meta-evaluation ({theirs[0]}{more}); choose another -o")

    def create(
        self,
        header: Mapping[str, Any],
        *,
        train: Sequence[Mapping[str, str]],
        dev: Sequence[Mapping[str, str]],
        evaluation: Sequence[Mapping[str, str | None]],
        labels: Mapping[str, tuple[NDArray[np.int64], NDArray[np.int64]]],
    ) -> None:
        """Write a prepared meta-evaluation; the header comes last, so that half a folder is none.

        Args:
            header: Settings; hashes are added.
            train: Training pairs.
            dev: Held-out pairs made like them.
            evaluation: Pairs the measures are computed on.
            labels: Labels of train and dev by ``axis-level``.
        """
        try:
            self.check_free()
            (self.path / "labels").mkdir(parents=True, exist_ok=True)
            # By this beginning of a header a preparation that is killed knows its files as its own.
            _partial(self.path / _HEADER).touch()
            digest = {}
            for name, rows in ((_TRAIN, train), (_DEV, dev), (_EVALUATION, evaluation)):
                text = "".join(json.dumps(dict(row), ensure_ascii=False) + "\n" for row in rows)
                (self.path / name).write_text(text, encoding="utf-8")
                digest[name] = hash_text(text)
            for name, (of_train, of_dev) in labels.items():
                np.save(self.path / "labels" / f"{name}.npy", np.concatenate([of_train, of_dev]).astype(np.int8))
            whole = {"schema": SCHEMA, **header, "sha256": digest}
            _replace(self.path / _HEADER, json.dumps(whole, indent=2, ensure_ascii=False) + "\n")
        except OSError as error:
            raise RunError(f"cannot write to {self.path}: {error.strerror or error}") from error

    def train_pairs(self) -> list[dict[str, Any]]:
        """Training pairs."""
        return read_rows(self.path / _TRAIN)

    def dev_pairs(self) -> list[dict[str, Any]]:
        """Held-out pairs."""
        return read_rows(self.path / _DEV)

    def evaluation_pairs(self) -> list[dict[str, Any]]:
        """Pairs the measures are computed on."""
        return read_rows(self.path / _EVALUATION)

    def labels(self, axis: str, level: float) -> NDArray[np.int64]:
        """Labels of the training pairs, then of the held-out pairs."""
        return np.asarray(np.load(self.path / "labels" / f"{axis}-{level:g}.npy", allow_pickle=False), dtype=np.int64)

    def cells(self, seeds: Sequence[int]) -> list[Cell]:
        """All models of the sweep, seed by seed."""
        levels = self.header["levels"]
        return [Cell(seed, axis, level) for seed in seeds for axis in AXES for level in levels.get(axis, [])]

    def store(self, cell: Cell, logits: NDArray[np.float32], facts: Mapping[str, Any]) -> None:
        """Keep the answers of a model and what is known about it."""
        file = self._logits_file(cell)
        try:
            file.parent.mkdir(exist_ok=True)
            line = {"seed": cell.seed, "axis": cell.axis, "level": cell.level, **facts}
            with (self.path / _MODELS).open("ab+") as stream:
                # A process that was killed may have left half a line, which must not swallow this one.
                whole = not stream.seek(0, os.SEEK_END) or _last_byte(stream) == b"\n"
                stream.write((b"" if whole else b"\n") + json.dumps(line).encode() + b"\n")
            partial = file.with_suffix(".partial.npy")
            np.save(partial, logits.astype(np.float32))
            os.replace(partial, file)  # noqa: PTH105 - also over existing files on Windows
        except OSError as error:
            raise RunError(f"cannot write {file}: {error.strerror or error}; the models before it are kept") from error

    def logits(self, cell: Cell) -> NDArray[np.float32]:
        """Stored logits of a model [pairs, 3]."""
        try:
            return np.asarray(np.load(self._logits_file(cell), allow_pickle=False))
        except (OSError, ValueError) as error:
            raise RunError(f"{self._logits_file(cell)} cannot be read ({error}); delete it and train again") from error

    def models(self) -> dict[Cell, dict[str, Any]]:
        """What is known about every trained model whose logits are stored; a later line counts more.

        A line that cannot be read is left out: its model counts as missing.
        """
        found = {}
        for line in self._lines():
            facts = _facts(line)
            if facts is None:
                continue
            cell = Cell(facts.pop("seed"), facts.pop("axis"), facts.pop("level"))
            if self._logits_file(cell).is_file():
                found[cell] = facts
        return found

    def unreadable(self) -> int:
        """How many lines about models cannot be read, written when a process was killed or a disk full."""
        return sum(_facts(line) is None for line in self._lines())

    def seeds(self) -> list[int]:
        """Seeds with a model at every level."""
        known = self.models()
        seeds = {cell.seed for cell in known}
        return sorted(seed for seed in seeds if all(cell in known for cell in self.cells([seed])))

    def check_given(self, design: Mapping[str, Any], recipe: Mapping[str, Any]) -> None:
        """Refuse settings that are not those of the folder; what is not given is not checked.

        Args:
            design: Given settings of the preparation.
            recipe: Given settings of the training; nothing to differ from before the first model.
        """
        before = {**self.header["design"], **self.training().get("recipe", recipe)}
        changed = [
            f"{name} was {before.get(name)}, now {value}"
            for name, value in {**design, **recipe}.items()
            if before.get(name) != value
        ]
        if changed:
            raise RunError(f"{self.path} holds another sweep ({'; '.join(changed)}); leave it out, or choose -o")

    def check_base(self, name: str, fingerprint: str, recipe: Mapping[str, Any]) -> None:
        """Remember the base and the recipe; refuse to mix models of different ones in one sweep."""
        file = self.path / _TRAINING
        now = json.loads(json.dumps({"name": name, "base": fingerprint, "recipe": dict(recipe)}))
        before = self.training()
        if not before:
            _replace(file, json.dumps(now, indent=2) + "\n")
            return
        changed = [
            f"{key} was {before['recipe'].get(key)}, now {value}"
            for key, value in now["recipe"].items()
            if before["recipe"].get(key) != value
        ]
        what = [f"recipe ({'; '.join(changed)})"] if changed else []
        if before["base"] != now["base"]:
            same = " of the same name" if before["name"] == name else f" ({before['name']}, now {name})"
            what.insert(0, f"base model{same}")
        if what:
            raise RunError(
                f"{self.path} holds a sweep with another {' and another '.join(what)}; "
                "choose another -o or delete the folder"
            )

    def training(self) -> dict[str, Any]:
        """Base and recipe of the trained models; empty before the first."""
        file = self.path / _TRAINING
        if not file.is_file():
            return {}
        try:
            facts = dict(json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            facts = {}
        if not {"name", "base", "recipe"} <= set(facts):
            raise RunError(f"{file} is not of a meta-evaluation; choose another folder or delete it")
        return facts

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder, so that a second process is refused."""
        self.path.mkdir(parents=True, exist_ok=True)
        with hold(self.path, f"another process works in {self.path}; wait for it or choose another -o"):
            yield

    def write_results(self, results: Mapping[str, Any]) -> Path:
        """``results.json``, whole or not at all."""
        file = self.path / "results.json"
        _replace(file, json.dumps(results, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
        return file

    def _lines(self) -> list[str]:
        file = self.path / _MODELS
        return file.read_text(encoding="utf-8", errors="replace").splitlines() if file.is_file() else []

    def _logits_file(self, cell: Cell) -> Path:
        return self.path / "logits" / f"{cell.name}.npy"


def _facts(line: str) -> dict[str, Any] | None:
    """A line about a model, or None where it is not whole."""
    try:
        facts = json.loads(line)
    except ValueError:
        return None
    return facts if isinstance(facts, dict) and {"seed", "axis", "level"} <= set(facts) else None


def _last_byte(stream: BinaryIO) -> bytes:
    stream.seek(-1, os.SEEK_END)
    return stream.read(1)


def _partial(file: Path) -> Path:
    return file.with_name(f".{file.name}.partial")


def _replace(file: Path, text: str) -> None:
    partial = _partial(file)
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, file)  # noqa: PTH105 - also over existing files on Windows
    except OSError as error:
        raise RunError(f"cannot write {file}: {error.strerror or error}") from error
