"""The directory of a meta-evaluation: plain files, so that the stage that trains needs only numpy and torch."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evenli.core.binary import read_array
from evenli.core.errors import InputError, RunError, translated
from evenli.core.io import hash_text, iter_lines, read_json, read_rows, read_text, to_plain
from evenli.core.parse import csv_line, parse_json_object
from evenli.core.record import Record, RecordError
from evenli.core.store import RunDir
from evenli.training.meta.mixture import Levels
from evenli.training.progress import changes
from evenli.training.recipe import Design

if TYPE_CHECKING:
    from evenli.training.meta.sweep import SweepResult

AXES = ("bias", "noise", "mix")
"""What a sweep varies: the share of biased words among wrong ones, the share of wrong words without bias, or a mixture
of the three causes."""
SPLITS = ("train", "dev", "evaluation")
"""Training pairs, held-out pairs built like them, and the pairs that the measures are computed on."""

_TRAINING, _MODELS = "training.json", "models.jsonl"


@dataclass(frozen=True)
class SweepCell:
    """One model of a sweep: seed, axis, and level on it, 0 to 1; on the axis ``mix`` the levels of the three causes."""

    seed: int
    axis: str
    level: float | Levels

    @property
    def name(self) -> str:
        """Stem of its files: ``seed-0_bias-0.3``."""
        return f"seed-{self.seed}_{level_name(self.axis, self.level)}"

    @property
    def file(self) -> str:
        """Where its logits are."""
        return f"logits/{self.name}.npy"


class Training(Record, frozen=True):
    """What the models of a sweep were trained from, by name and by its files, and how."""

    digits: ClassVar[int | None] = None

    name: str
    base: str
    recipe: dict[str, Any]


def level_name(axis: str, level: float | Levels) -> str:
    """Stem of the files about one level: ``bias-0.3``, ``mix-0.5_0_0.2``."""
    values = level if isinstance(level, tuple) else (level,)
    return f"{axis}-{'_'.join(f'{value:g}' for value in values)}"


class MetaFolder:
    """Reads and writes one meta-evaluation."""

    def __init__(self, path: str | Path) -> None:
        # No names are owned without a manifest: train.jsonl may be anyone's.
        self._dir = RunDir(path, kind="meta-evaluation", manifest="meta.json", option="directory (-o)")
        self.path, self.locked = self._dir.path, self._dir.locked

    # ---- preparation

    def read_header(self) -> dict[str, Any] | None:
        """Language, levels, settings and hashes; None before the preparation has ended."""
        stored = self._dir.read_manifest() or {}
        return stored if "design" in stored else None  # a killed preparation leaves a manifest without a design

    @property
    def header(self) -> dict[str, Any]:
        """The header of a prepared directory."""
        header = self.read_header()
        if header is None:
            raise RunError(f"{self.path} holds no meta-evaluation; prepare one with evenli meta -o {self.path}")
        return header

    @property
    def design(self) -> Design:
        """What was prepared."""
        return Design(**self.header["design"])

    def check_design(self, design: Design) -> None:
        """Refuse a design other than the one that was prepared."""
        if changed := changes(asdict(self.design), asdict(design)):
            raise RunError(f"{self.path} was prepared with other settings ({changed}); choose another directory (-o)")

    def create(
        self,
        header: Mapping[str, Any],
        pairs: Mapping[str, Sequence[Mapping[str, str | None]]],
        labels: Mapping[str, NDArray[np.int64]],
    ) -> None:
        """Write a prepared meta-evaluation; the full header comes last, so that a killed preparation is repeated."""
        with self.locked():
            self._dir.write_manifest({})  # from here on the files are known as ours
            digests = {}
            for split in SPLITS:
                text = "".join(json.dumps(dict(row), ensure_ascii=False) + "\n" for row in pairs[split])
                digests[f"{split}.jsonl"] = hash_text(text)
                self._dir.write(f"{split}.jsonl", text)
            for name, values in labels.items():
                self._save(f"labels/{name}.npy", values.astype(np.int8))
            self._dir.write_manifest({**header, "sha256": digests})

    def pairs(self, split: str) -> list[dict[str, str]]:
        """Pairs of one of ``SPLITS``."""
        file = self.path / f"{split}.jsonl"
        if self.header.get("sha256", {}).get(file.name) not in {None, hash_text(read_text(file))}:
            raise RunError(
                f"{file} is not the file that meta.json describes: it was damaged or edited; prepare it anew"
            )
        return read_rows(file)

    def labels(self, axis: str, level: float | Levels) -> NDArray[np.int64]:
        """Labels of the training pairs, then of the held-out pairs."""
        return self._load(f"labels/{level_name(axis, level)}.npy").astype(np.int64)

    # ---- models

    def cells(self, seeds: Sequence[int]) -> list[SweepCell]:
        """All models of the sweep, seed by seed."""
        levels = {axis: [_level(level) for level in self.header["levels"].get(axis, [])] for axis in AXES}
        return [SweepCell(seed, axis, level) for seed in seeds for axis, given in levels.items() for level in given]

    def store(self, cell: SweepCell, logits: NDArray[np.float32], facts: Mapping[str, float | Levels]) -> None:
        """Keep the logits of a model and what is known about it."""
        line = json.dumps({**asdict(cell), **facts}).encode()
        with self._dir.writing(), (self.path / _MODELS).open("ab+") as stream:
            # A killed process may have left half a line, which must not swallow this one.
            if stream.seek(0, os.SEEK_END):
                stream.seek(-1, os.SEEK_END)
                line = line if stream.read(1) == b"\n" else b"\n" + line
            stream.write(line + b"\n")
        self._save(cell.file, logits.astype(np.float32))

    def logits(self, cell: SweepCell) -> NDArray[np.float32]:
        """Stored logits of a model [pairs, 3]."""
        logits = self._load(cell.file)
        if logits.dtype.kind != "f":
            raise RunError(f"{self.path / cell.file} holds no real numbers; delete it and run the stage again")
        return logits

    def models(self) -> dict[SweepCell, dict[str, Any]]:
        """What is known about every model whose logits are stored; the last line about a model counts."""
        # A line that cannot be read is left out: its model counts as missing and is trained again.
        lines = [facts for facts in self._lines() if facts]
        models = {SweepCell(facts.pop("seed"), facts.pop("axis"), _level(facts.pop("level"))): facts for facts in lines}
        return {cell: facts for cell, facts in models.items() if (self.path / cell.file).is_file()}

    def damaged_lines(self) -> int:
        """How many lines about models cannot be read: a process was killed or a disk was full."""
        return sum(not facts for facts in self._lines())

    def seeds(self) -> list[int]:
        """Seeds with a model at every level."""
        known = self.models()
        return sorted(seed for seed in {cell.seed for cell in known} if known.keys() >= set(self.cells([seed])))

    def _lines(self) -> list[dict[str, Any]]:
        """The lines about models; an empty one for each that is damaged."""
        kinds = {"seed": int, "axis": str, "level": int | float | list, "dev_accuracy": int | float}
        file, lines = self.path / _MODELS, []
        for _, line in iter_lines(file) if file.is_file() else ():
            facts = {}
            with suppress(InputError):
                facts = parse_json_object(line, _MODELS)
            lines.append(facts if all(isinstance(facts.get(name), kind) for name, kind in kinds.items()) else {})
        return lines

    # ---- training

    def training(self) -> Training | None:
        """Base and recipe of the trained models; None before the first."""
        file = self.path / _TRAINING
        if not file.is_file():
            return None
        try:
            return Training.from_dict(read_json(file))
        except (InputError, RecordError) as error:
            raise RunError(f"{file} is not of a meta-evaluation; choose another directory or delete it") from error

    def check_recipe(self, recipe: Mapping[str, Any]) -> None:
        """Refuse settings of the training that are not those of the models that are stored."""
        before = self.training()
        if before and (changed := changes(before.recipe, recipe)):
            raise RunError(f"{self.path} has another recipe ({changed}); leave it out or choose another directory (-o)")

    def check_base(self, name: str, fingerprint: str, recipe: Mapping[str, Any]) -> None:
        """Remember the base and the recipe; refuse to mix models of different ones in one sweep."""
        before = self.training()
        if before is None:
            self._dir.write_json(_TRAINING, Training(name, fingerprint, dict(recipe)).to_dict())
            return
        differs = [changes(before.recipe, recipe)]
        # A base that was moved is still the same base: only its files count.
        if before.base != fingerprint:
            differs.insert(0, f"base model was {before.name} ({before.base[:8]}), now {name} ({fingerprint[:8]})")
        if any(differs):
            raise RunError(
                f"{self.path} holds a sweep with another base or recipe ({'; '.join(filter(None, differs))}); "
                "choose another directory (-o) or delete the directory"
            )

    # ---- files

    def write_results(self, results: SweepResult) -> None:
        """Write ``results.json``, and ``response.csv`` if there are mixtures."""
        self._dir.write_json("results.json", results.to_dict())
        rows = to_plain([row for response in results.responses for row in response.rows()])
        if rows:
            self._dir.write("response.csv", "".join(map(csv_line, [rows[0], *(row.values() for row in rows)])))

    def _save(self, name: str, array: NDArray[Any]) -> None:
        self._dir.write(name, lambda file: np.save(file, array))

    def _load(self, name: str) -> NDArray[Any]:
        with translated("", "; delete it and run the stage again", into=RunError, kinds=(InputError,)):
            return read_array(self.path / name)


def _level(stored: float | list[float]) -> float | Levels:
    """A level as JSON has it."""
    return tuple(stored) if isinstance(stored, list) else stored
