"""The one table on disk, and the directory of the run that makes it.

Files of a run directory:
    run.json               what was asked of whom; status running or complete
    shards/NNNNNN-HASH.parquet  one finished batch each, removed at the end
    predictions.parquet, results.json, and what ``audit --report`` adds
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli._version import __version__
from evenli.audit.pairs import PAIR_COLUMNS
from evenli.audit.results import AuditResult, Timings
from evenli.core.binary import decoding, read_parquet
from evenli.core.errors import InputError, RunError, translated
from evenli.core.io import hash_files, json_text
from evenli.core.labels import LABELS
from evenli.core.parse import check_regular
from evenli.core.record import Estimate, Record
from evenli.core.store import ANEW, RunDir, hash_content, read_manifest
from evenli.core.temporary import is_temporary
from evenli.stats.proportion import share_of
from evenli.stats.sample import LogitTable, Sample

COLUMNS = ("suite", *PAIR_COLUMNS, *LABELS)
"""Columns of predictions.parquet: the pair, then its logits under the label names; columns of the user's own follow."""
ABSTAINED, MASS = "abstained", "mass"
"""Further columns of language models: whether the row is no answer, and what the labels had of the probability."""
MINIMUM_MASS = 0.5
"""Labels that have less of the probability are no answer: the model would rather say something else."""


class Predictions(LogitTable):
    """Rows with logits, plus the header of the run that made them: the one table on disk."""

    def suite(self, name: str) -> Predictions:
        """Rows of one suite."""
        chosen = (self.frame["suite"] == name).fill_null(False)
        start, count = chosen.arg_max() or 0, int(chosen.sum())
        # Suites stand one after the other, and then nothing is copied.
        together = chosen.slice(start, count).all()
        return Predictions(self.frame.slice(start, count) if together else self.frame.filter(chosen), self.header)

    def sample(self, suite: str, *, published: bool = False) -> Sample:
        """The answered rows of a suite, as its measures read them; one for everything that is made of these rows."""
        if (suite, published) not in self._samples:
            self._samples[suite, published] = Sample(self.suite(suite).answered(), published=published)
        return self._samples[suite, published]

    @cached_property
    def _samples(self) -> dict[tuple[str, bool], Sample]:
        return {}

    @property
    def answers(self) -> list[str]:
        """The most probable label of each row; empty where the model abstained."""
        labels = (LABELS[i] for i in self.logits.argmax(axis=1))
        return ["" if out else label for label, out in zip(labels, self.abstained.tolist(), strict=True)]

    @property
    def is_prompted(self) -> bool:
        """Whether a language model gave the answers: it can abstain."""
        return {ABSTAINED, MASS} <= set(self.frame.columns)

    @property
    def of_prompts(self) -> list[str]:
        """Columns that a language model adds, as the header says."""
        asked = self.header.get("prompting")
        named = asked.get("columns") if isinstance(asked, dict) else None
        return [name for name in self.frame.columns if isinstance(named, list) and name in {*named} - {*COLUMNS}]

    @property
    def abstained(self) -> NDArray[np.bool_]:
        """Rows without an answer; only language models have any."""
        if ABSTAINED not in self.frame.columns:
            return np.zeros(self.frame.height, dtype=bool)
        return (self.frame[ABSTAINED] > 0.5).to_numpy()

    def answered(self, silent: NDArray[np.bool_] | None = None) -> Predictions:
        """The rows with an answer, in whole pairs where the ids of two rows differ in their group only.

        ``silent`` are the rows to leave out; by default those that the model abstained on.
        """
        silent = self.abstained if silent is None else silent
        if not silent.any():
            return self
        # One half of a pair alone would compare groups on different questions.
        paired = pl.col("id").str.ends_with(pl.concat_str(pl.lit("-"), pl.col("group"))).fill_null(False)
        key = pl.when(paired).then(pl.col("id").str.replace("-[^-]*$", "")).otherwise(pl.col("id"))
        keys = self.frame.select(pl.struct("suite", key.alias("key"))).to_series()
        return Predictions(self.frame.filter(~keys.is_in(keys.filter(pl.Series(silent)).implode())), self.header)

    @classmethod
    def read(cls, path: str | Path, header: dict[str, Any] | None = None, content: bytes | None = None) -> Predictions:
        """Read a stored table; a missing, damaged or foreign one is refused, and so is one that its header belies.

        ``content`` are the bytes of the file where they are at hand.
        """
        if content is None and not Path(path).exists():
            raise RunError(f"{path} is missing; run the command that made it again")
        with translated("", f"; {ANEW}", into=RunError, kinds=(InputError,)):
            frame = read_parquet(Path(path), content=content)
        header = header or {}
        if missing := [name for name in COLUMNS if name not in frame.columns]:
            raise RunError(f"{path} is not a prediction table: missing column(s) {', '.join(missing)}")
        if problem := _damage(frame, header.get("data", [])):
            raise RunError(f"{path} is damaged: {problem}; {ANEW}")
        # Read as numbers whatever they are stored as: they are not part of the layout that was checked.
        further = cls(frame, header).of_prompts
        numbers = [pl.col(name).cast(pl.Float32, strict=False).fill_null(0) for name in further]
        return cls(frame.with_columns(numbers).select(*COLUMNS, pl.exclude(COLUMNS)), header)


def _damage(frame: pl.DataFrame, data: list[dict[str, Any]]) -> str:
    """What is wrong with the rows, or nothing; ``data`` are the cards of the pair sets that were asked."""
    finite = pl.all_horizontal(pl.col(LABELS).cast(pl.Float64, strict=False).is_finite().fill_null(False))
    if bad := frame.height - int(frame.select(finite.sum()).item()):
        return f"the logits of {bad} row(s) are not finite numbers"
    if repeated := frame.height - frame.select(pl.struct("suite", "id").n_unique()).item():
        return f"{repeated} row(s) stand there twice"
    counts = [entry["rows"] for entry in data if isinstance(entry.get("rows"), int)]
    if counts and len(counts) == len(data) and sum(counts) != frame.height:
        return f"it has {frame.height} rows, and {sum(counts)} were asked"
    return ""


class PredictionSummary(Record, frozen=True):
    """How often each label was predicted, and how often that was right; 95 % intervals take pairs as independent.

    Attributes:
        pairs: How many were asked.
        predicted: Answers by label.
        gold: Pairs with a gold label.
        accuracy: Of these, the share that was answered right.
        timings: How long asking took; None where the table does not say.
        abstained: Pairs without an answer, of a language model.
    """

    optional: ClassVar[tuple[str, ...]] = ("abstained",)
    computed: ClassVar[Mapping[str, str]] = {"shares": "shares"}

    pairs: int
    predicted: dict[str, int]
    gold: int
    accuracy: Estimate
    timings: Timings | None = None
    abstained: int | None = None

    @property
    def shares(self) -> dict[str, Estimate]:
        """Share of every label."""
        return {name: share_of(count, self.pairs) for name, count in self.predicted.items()}

    def lines(self) -> list[str]:
        """The same for people."""
        shown = [f"{name} {self.predicted[name]} ({share.shown})" for name, share in self.shares.items()]
        if self.abstained is not None:
            shown.append(f"abstained {self.abstained}")
        lines = [f"{self.pairs} pairs: {', '.join(shown)}"]
        if self.gold:
            lines.append(f"accuracy {self.accuracy.shown} on {self.gold} pairs with a gold label")
        return [*lines, "95% intervals, for pairs that are independent of each other"]


def summarise(predictions: Predictions) -> PredictionSummary:
    """Count the answers of a table, and those that are right where there is a gold label."""
    answers, gold, timings = predictions.answers, predictions.frame["gold"], predictions.header.get("timings")
    right = [answer == label for answer, label in zip(answers, gold.to_list(), strict=True) if label]
    return PredictionSummary(
        pairs=len(answers),
        predicted={label: answers.count(label) for label in LABELS},
        gold=len(right),
        accuracy=share_of(sum(right), len(right)),
        timings=Timings.from_dict(timings) if timings else None,
        abstained=answers.count("") if ABSTAINED in predictions.frame.columns else None,
    )


SCHEMA = 3
"""Version of run.json and results.json; raised when a key changes its meaning."""

_KIND = "prediction run"
_CHARTS = ("probe.svg", "probe.png", "wordings.svg", "wordings.png")
_FILES = ("report.html", *_CHARTS, "results.json", "predictions.parquet")
"""What a run consists of beside run.json and the shards; all of it goes when the run is replaced."""
_SHARD = re.compile(r"\d{6}-[0-9a-f]{16}\.parquet")
"""Number of a shard, and hash of its run and content."""


class RunFolder(RunDir):
    """A directory that holds one prediction run."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path, kind=_KIND, manifest="run.json", owned=(*_FILES, "shards"), schema=SCHEMA)
        self.predictions_file = self.path / "predictions.parquet"
        self.results_file = self.path / "results.json"
        self._shards = self.path / "shards"
        self._again = f"score it again with 'evenli measure {self.path}'"

    def foreign_files(self) -> list[str]:
        """Names in the directory that we did not write; names that anyone might use count only beside a run.json."""
        foreign = super().foreign_files()
        if not self.exists():
            foreign += [name for name in _FILES if (self.path / name).exists()]
        if self._shards.is_dir() and not all(_is_shard(file) for file in self._shards.iterdir()):
            foreign.append("shards")
        return foreign

    def header(self) -> dict[str, Any] | None:
        """The stored header, None for a new directory."""
        self.check()
        return read_header(self.manifest_file) if self.exists() else None

    def write_results(self, results: dict[str, Any], header: Mapping[str, Any]) -> None:
        """Replace results.json, and run.json by the header of the table that they were computed from.

        Hashes are of what is written: another process may replace a file, or the whole run, at any time.
        """
        name, text = self.results_file.name, json_text({"schema": SCHEMA, "evenli": __version__, **results})
        self.write(name, text)
        files = {**header.get("files", {}), name: hash_content(name, text.encode())}
        self.write_manifest({**header, "files": files})

    def content(self, name: str, header: Mapping[str, Any]) -> bytes:
        """The bytes of a file that ``header`` describes; any other file is refused, one without a hash there as well.

        What is hashed is what is read: another process may replace a file at any time.
        """
        file, expected = self.path / name, header["files"].get(name)
        # Hashed block by block first: a file that is not ours may have any size.
        if file.is_file() and hash_files([file]) == expected:
            content = file.read_bytes()
            if hash_content(name, content) == expected:
                return content
        again = self._again if file == self.results_file else ANEW
        raise RunError(f"{file} is not the file that run.json describes: it was damaged or edited; {again}")

    def read_predictions(self, header: dict[str, Any]) -> Predictions:
        """The table that ``header`` describes."""
        return Predictions.read(self.predictions_file, header, self.content(self.predictions_file.name, header))

    def read_results(self, header: Mapping[str, Any]) -> AuditResult:
        """The results that ``header`` describes."""
        file = self.results_file
        content = self.content(file.name, header)
        with translated(f"{file} cannot be read (", f"); {self._again}", into=RunError, kinds=(RunError,)):
            stored = read_manifest(file, kind=_KIND, schema=SCHEMA, hashed=False, content=content)
            return AuditResult.from_dict(stored)

    def write_shard(
        self,
        number: int,
        rows: NDArray[np.int64],
        scores: NDArray[np.float32],
        columns: Sequence[str] = LABELS,
        plan: str = "",
    ) -> None:
        """Store one finished batch atomically; ``plan`` says of which run."""
        frame = pl.DataFrame({"row": rows, **{name: scores[:, i] for i, name in enumerate(columns)}})
        buffer = BytesIO()
        frame.write_parquet(buffer, compression="uncompressed", statistics=False)
        # The hash in the name finds a damaged shard, and one of another run. Not synced: a power cut costs at most the
        # last batches, and a sync per batch would cost more than scoring it.
        content = buffer.getvalue()
        self.write(f"shards/{number:06d}-{hash_content(plan, content)[:16]}.parquet", content, sync=False)

    def shard_files(self) -> list[Path]:
        """Finished shards in order; a file of another name among them is refused."""
        files = sorted(file for file in self._shards.glob("*.parquet") if not is_temporary(file))
        for file in files:
            if not _SHARD.fullmatch(file.name):
                raise RunError(f"unexpected file {file} among the shards; remove it and run the same command again")
        return files

    def read_shards(self, scores: NDArray[np.float32], columns: Sequence[str] = LABELS, plan: str = "") -> list[str]:
        """Fill in the numbers of all finished rows; returns the names of damaged shards, which are deleted.

        A shard of another ``plan`` counts as damaged: it has the answers of another model, or to other pairs.
        """
        damaged = []
        for file in self.shard_files():
            try:
                check_regular(file)
                content = file.read_bytes()
                if not file.stem.endswith(hash_content(plan, content)[:16]):
                    raise OSError("the hash differs")
                frame = read_parquet(file, content=content)
                scores[frame["row"].to_numpy()] = frame.select(columns).to_numpy()
            except (OSError, InputError, IndexError, pl.exceptions.PolarsError):
                damaged.append(file.name)
                shutil.rmtree(file) if file.is_dir() else file.unlink()
        return damaged

    def finish(self, table: pl.DataFrame, header: dict[str, Any]) -> dict[str, Any]:
        """Write the table, mark the run complete, delete the shards; a kill in between loses nothing.

        Returns the header of the complete run.
        """
        buffer, name = BytesIO(), self.predictions_file.name
        table.write_parquet(buffer, compression="zstd")
        content = buffer.getvalue()
        self.write(name, content)
        complete = {**header, "status": "complete", "files": {name: hash_content(name, content)}}
        self.write_manifest(complete)
        shutil.rmtree(self._shards, ignore_errors=True)
        return complete


def read_header(file: Path) -> dict[str, Any]:
    """Read run.json; refuse a damaged one or one of another version."""
    header = read_manifest(file, kind=_KIND, schema=SCHEMA)
    if header.get("status") == "running":
        return header
    model, data = header.get("model"), header.get("data")
    usable = {
        "status": header.get("status") == "complete",
        "model": isinstance(model, dict) and "name" in model,
        "data": isinstance(data, list) and all(isinstance(entry, dict) for entry in data),
        "files": isinstance(header.get("files"), dict),
    }
    if missing := [key for key, ok in usable.items() if not ok]:
        raise RunError(f"{file} lacks a usable {' and '.join(missing)}; {ANEW}")
    return header


def _is_shard(file: Path) -> bool:
    """Whether we wrote it; the name alone could be a part of anyone's data set."""
    if is_temporary(file):
        return True
    try:
        named = file.is_file() and _SHARD.fullmatch(file.name)
        with decoding(file):
            return bool(named) and {"row", *LABELS} <= pl.scan_parquet(file, glob=False).collect_schema().keys()
    except (OSError, InputError):
        return False
