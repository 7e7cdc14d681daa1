"""The twelve SentEval tasks of Dolci et al. 2023, read from the files of the field.

Two layouts are understood: one flat folder (``MR.pos.txt``, ``stsb-en-train.csv`` …) and the folders that SentEval's
own download makes (``MR/rt-polarity.pos``, ``STS/STSBenchmark/sts-train.csv`` …). A file may be plain, ``.xz`` or
``.gz``.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenli.errors import InputError, ResourceError
from evenli.io import hash_text

TASKS = ("MR", "CR", "SUBJ", "MPQA", "TREC", "SST2", "SST5", "STSB", "SICKR", "SICKE", "STS14", "MRPC")
"""All tasks, in the order of the published tables."""

Rows = NDArray[np.int64]
_PACKED = ("", ".xz", ".gz")
_BROKEN = (OSError, EOFError, lzma.LZMAError, zlib.error)
_QUESTIONS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
_JUDGEMENTS = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")
_SUBSETS = ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news")
_BINARY = {
    "MR": ("rt-polarity.neg", "rt-polarity.pos"),
    "CR": ("custrev.neg", "custrev.pos"),
    "SUBJ": ("subj.subjective", "subj.objective"),
    "MPQA": ("mpqa.neg", "mpqa.pos"),
}


@dataclass(frozen=True, eq=False)
class Task:
    """One task: sentences or pairs of them, and what is to be predicted.

    Attributes:
        name: One of TASKS.
        texts: Sentences; the first of each pair in a pair task.
        others: The second of each pair; empty in a task on single sentences.
        splits: Rows of ``train``, ``dev`` and ``test``, as far as given; ``all`` where the task is cross-validated.
        labels: A class for every row, numbered from 0; None in a task on scores.
        scores: A human score for every row; None in a task on classes.
        subsets: Rows of the parts that are scored apart (STS14).
    """

    name: str
    texts: tuple[str, ...]
    others: tuple[str, ...] = ()
    splits: dict[str, Rows] = field(default_factory=dict)
    labels: Rows | None = None
    scores: NDArray[np.float64] | None = None
    subsets: dict[str, Rows] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def classes(self) -> int:
        """How many classes there are; 0 in a task on scores."""
        return 0 if self.labels is None else int(self.labels.max()) + 1

    @cached_property
    def sha256(self) -> str:
        """Hash of everything in it: the same in both layouts and every packing."""
        answers = [None if values is None else values.tolist() for values in (self.labels, self.scores)]
        parts = [{part: rows.tolist() for part, rows in one.items()} for one in (self.splits, self.subsets)]
        return hash_text(json.dumps([self.name, self.texts, self.others, answers, parts]))


def read_task(name: str, folder: str | Path) -> Task:
    """Read one task from a folder in either layout.

    Args:
        name: One of TASKS.
        folder: The flat folder, SentEval's ``downstream`` folder or the folder that holds it.

    Raises:
        ResourceError: A file is not there.
        InputError: A file is broken; both name task and file.
    """
    if name not in TASKS:
        raise InputError(f"'{name}' is no SentEval task; choose {', '.join(TASKS)}")
    folder = folder_of(folder)
    try:
        return _READERS[name](_Source(name, folder))
    except InputError as error:
        raise type(error)(f"{name}: {error}") from error
    except OSError as error:
        raise InputError(f"{name}: cannot read in {folder}: {error.strerror or error}") from error


def folder_of(data: str | Path) -> Path:
    """The folder with the task files; a ResourceError if there is none."""
    if not Path(data).is_dir():
        raise ResourceError(f"{data} is no folder; give the one with the SentEval files")
    return Path(data)


class _Source:
    """Finds and reads the files of one task."""

    def __init__(self, task: str, folder: Path) -> None:
        self.task, self.folder = task, folder
        self._roots = (folder, folder / "downstream")

    def find(self, *names: str) -> Path:
        """The first of the names that is there; a missing one is named with its task."""
        for root in self._roots:
            for name in names:
                for packed in _PACKED:
                    if (path := root / (name + packed)).is_file():
                        return path
        wanted = " or ".join(names)
        raise ResourceError(f"no {wanted} (plain, .xz or .gz) in {self.folder}; get the file or skip it")

    def has(self, name: str) -> bool:
        """True if the file is there in any packing."""
        return any((root / (name + packed)).is_file() for root in self._roots for packed in _PACKED)


def _text_of(path: Path) -> str:
    try:
        if path.suffix == ".xz":
            content = lzma.decompress(path.read_bytes())
        elif path.suffix == ".gz":
            content = gzip.decompress(path.read_bytes())
        else:
            content = path.read_bytes()
    except _BROKEN as error:
        raise InputError(f"cannot read {path}: {error}; get the file again") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:  # TREC and others were published in latin-1
        return content.decode("latin-1")


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Lines with where they stand; only a line feed ends a line, for sentences hold other separators."""
    lines = _text_of(path).split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if not any(line.strip() for line in lines):
        raise InputError(f"{path} holds no text; get the file again")
    for number, line in enumerate(lines, 1):
        yield line.rstrip("\r"), f"{path.name}, line {number}"


def _fields(path: Path, count: int, header: bool) -> Iterator[tuple[list[str], str]]:
    """Tab-separated fields; quotation marks are text there."""
    found = False
    for row, (line, where) in enumerate(_lines(path)):
        if not line.strip() or (header and row == 0):
            continue
        fields = line.split("\t")
        if len(fields) < count:
            raise InputError(f"{where}: {len(fields)} fields between tabs; expected {count}")
        found = True
        yield fields, where
    if not found:
        raise InputError(f"{path} holds no rows; get the file again")


def _csv(path: Path) -> Iterator[tuple[list[str], str]]:
    """Three fields between commas: sentence, sentence, score."""
    content = _text_of(path)
    if not content.strip():
        raise InputError(f"{path} holds no text; get the file again")
    reader = csv.reader(io.StringIO(content, newline=""))
    try:
        for fields in reader:
            where = f"{path.name}, line {reader.line_num}"
            if len(fields) != 3:
                raise InputError(f"{where}: {len(fields)} fields; expected sentence, sentence, score")
            yield fields, where
    except csv.Error as error:
        raise InputError(f"{path.name}, line {reader.line_num}: {error}; get the file again") from error


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{where}: '{text}' is no score; expected a number")
    return value


def _class(text: str, names: Sequence[str], where: str) -> int:
    if text not in names:
        raise InputError(f"{where}: unknown class '{text}'; expected {', '.join(names)}")
    return names.index(text)


def _sentence(text: str) -> str:
    """The text; a full stop for an empty one, as the published sizes count empty lines and encoders need a word."""
    return text.strip() or "."


class _Rows:
    """Gathers the rows of a task, split by split."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.others: list[str] = []
        self.values: list[float] = []
        self.splits: dict[str, list[int]] = {}

    def add(self, split: str, value: float, text: str, other: str | None = None) -> None:
        self.splits.setdefault(split, []).append(len(self.texts))
        self.texts.append(_sentence(text))
        self.values.append(value)
        if other is not None:
            self.others.append(_sentence(other))

    def task(self, name: str, *, scored: bool = False, subsets: bool = False) -> Task:
        parts = {part: np.array(rows, dtype=np.int64) for part, rows in self.splits.items()}
        everything = {"test": np.arange(len(self.texts), dtype=np.int64)}
        learned = self.splits.get("train", self.splits.get("all", ()))
        if not scored and len({self.values[row] for row in learned}) < 2:
            raise InputError("all rows to learn from are of one class; get the files again")
        return Task(
            name,
            tuple(self.texts),
            tuple(self.others),
            everything if subsets else parts,
            None if scored else np.array(self.values, dtype=np.int64),
            np.array(self.values, dtype=np.float64) if scored else None,
            parts if subsets else {},
        )


def _binary(source: _Source) -> Task:
    rows = _Rows()
    for label, name in enumerate(_BINARY[source.task]):
        flat = f"{source.task}.{name.rpartition('.')[2]}.txt"
        for line, _ in _lines(source.find(flat, f"{source.task}/{name}")):
            rows.add("all", label, line)
    return rows.task(source.task)


def _trec(source: _Source) -> Task:
    rows = _Rows()
    for split, name in (("train", "train_5500"), ("test", "TREC_10")):
        for line, where in _lines(source.find(f"TREC.{split}.txt", f"TREC/{name}.label")):
            kind, _, question = line.partition(" ")
            coarse, colon, _ = kind.partition(":")
            if not colon or not question.strip():
                raise InputError(f"{where}: '{line[:40]}' is no question with its class; expected 'NUM:dist How far …'")
            rows.add(split, _class(coarse, _QUESTIONS, where), question)
    return rows.task(source.task)


def _sst(source: _Source) -> Task:
    kind, classes = ("binary", "01") if source.task == "SST2" else ("fine", "01234")
    rows = _Rows()
    for split in ("train", "dev", "test"):
        for line, where in _lines(source.find(f"SST.{kind}.{split}.txt", f"SST/{kind}/sentiment-{split}")):
            text, tab, label = line.rpartition("\t")
            if not tab:  # the other way round: label, space, sentence
                label, _, text = line.partition(" ")
            if not text.strip():
                raise InputError(f"{where}: '{line[:40]}' is no sentence with its label; expected '1 a good film'")
            rows.add(split, _class(label.strip(), tuple(classes), where), text)
    return rows.task(source.task)


def _stsb(source: _Source) -> Task:
    rows = _Rows()
    for split in ("train", "dev", "test"):
        path = source.find(f"stsb-en-{split}.csv", f"STS/STSBenchmark/sts-{split}.csv")
        if path.name.startswith("stsb-en-"):
            for fields, where in _csv(path):
                rows.add(split, _number(fields[2], where), fields[0], fields[1])
        else:
            for fields, where in _fields(path, 7, header=False):
                rows.add(split, _number(fields[4], where), fields[5], fields[6])
    return rows.task(source.task, scored=True)


def _sick(source: _Source) -> Task:
    scored = source.task == "SICKR"
    rows = _Rows()
    for split, part in (("train", "train"), ("dev", "trial"), ("test", "test_annotated")):
        for fields, where in _fields(source.find(f"SICK_{part}.txt", f"SICK/SICK_{part}.txt"), 5, header=True):
            value = _number(fields[3], where) if scored else _class(fields[4].strip(), _JUDGEMENTS, where)
            rows.add(split, value, fields[1], fields[2])
    return rows.task(source.task, scored=scored)


def _sts14(source: _Source) -> Task:
    rows = _Rows()
    if source.has("STS14.tsv"):
        for fields, where in _fields(source.find("STS14.tsv"), 4, header=True):
            rows.add(fields[0].removesuffix(".test"), _number(fields[1], where), fields[2], fields[3])
        return rows.task(source.task, scored=True, subsets=True)
    for subset in _SUBSETS:
        pairs = list(_fields(source.find(f"STS/STS14-en-test/STS.input.{subset}.txt", "STS14.tsv"), 2, header=False))
        path = source.find(f"STS/STS14-en-test/STS.gs.{subset}.txt")
        scores = list(_lines(path))
        if len(pairs) != len(scores):
            raise InputError(f"{path.name}: {len(scores)} scores for {len(pairs)} pairs; expected as many")
        for (fields, _), (score, where) in zip(pairs, scores, strict=True):
            if score.strip():  # pairs nobody scored are no part of the test
                rows.add(subset, _number(score, where), fields[0], fields[1])
    return rows.task(source.task, scored=True, subsets=True)


def _mrpc(source: _Source) -> Task:
    # The flat folder keeps 500 pairs of the published training part apart as val.
    names = {"train": ["msr-para-train.tsv"], "test": ["msr-para-test.tsv"]}
    if source.has("msr-para-val.tsv"):
        names["train"].append("msr-para-val.tsv")
    rows = _Rows()
    for split, files in names.items():
        for name in files:
            path = source.find(name, f"MRPC/msr_paraphrase_{split}.txt")
            for fields, where in _fields(path, 5, header=True):
                rows.add(split, _class(fields[0].strip(), ("0", "1"), where), fields[3], fields[4])
    return rows.task(source.task)


_READERS: dict[str, Callable[[_Source], Task]] = {
    "MR": _binary,
    "CR": _binary,
    "SUBJ": _binary,
    "MPQA": _binary,
    "TREC": _trec,
    "SST2": _sst,
    "SST5": _sst,
    "STSB": _stsb,
    "SICKR": _sick,
    "SICKE": _sick,
    "STS14": _sts14,
    "MRPC": _mrpc,
}
