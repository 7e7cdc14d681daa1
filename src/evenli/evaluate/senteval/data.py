"""The twelve SentEval tasks of Dolci et al. 2023, read from the files of the field.

Two layouts are understood: one flat directory (``MR.pos.txt``, ``stsb-en-train.csv`` …) and that of SentEval's own
download (``MR/rt-polarity.pos``, ``STS/STSBenchmark/sts-train.csv`` …). A file may be plain, ``.xz`` or ``.gz``.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import StringIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenli.errors import InputError, ResourceError
from evenli.io import csv_reader, hash_text, read_text, split_lines

TASKS = ("MR", "CR", "SUBJ", "MPQA", "TREC", "SST2", "SST5", "STSB", "SICKR", "SICKE", "STS14", "MRPC")
"""All tasks, in the order of the published tables."""

Rows = NDArray[np.int64]
_PACKED = ("", ".xz", ".gz")
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
    """Read one task from a directory in either layout.

    Args:
        name: One of TASKS.
        folder: The flat directory, SentEval's ``downstream`` directory or the one that holds it.

    Raises:
        ResourceError: A file is not there.
        InputError: A file is broken; both name task and file.
    """
    if name not in TASKS:
        raise InputError(f"'{name}' is not a SentEval task; choose {', '.join(TASKS)}")
    try:
        return _READERS[name](_Builder(name, task_folder(folder)))
    except InputError as error:
        raise type(error)(f"{name}: {error}") from error


def task_folder(data: str | Path) -> Path:
    """The directory with the task files; a ResourceError if there is none."""
    if not Path(data).is_dir():
        raise ResourceError(f"{data} is not a directory; give the one with the SentEval files")
    return Path(data)


class _Builder:
    """Finds and reads the files of one task and gathers its rows, split by split."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self._folder = name, folder
        self._texts: list[str] = []
        self._others: list[str] = []
        self._values: list[float] = []
        self._splits: dict[str, list[int]] = {}

    def find(self, *names: str) -> Path | None:
        """The first of the names that is there, in any packing and either layout."""
        roots = (self._folder, self._folder / "downstream")
        paths = (root / (name + packed) for root in roots for name in names for packed in _PACKED)
        return next((path for path in paths if path.is_file()), None)

    def need(self, *names: str) -> Path:
        """The same, where a missing file is an error."""
        path = self.find(*names)
        if path is None:
            wanted = " or ".join(names)
            raise ResourceError(f"no {wanted} (plain, .xz or .gz) in {self._folder}; get the file or skip it")
        return path

    def add(self, split: str, value: float, text: str, other: str | None = None) -> None:
        """Add a row; an empty text becomes a full stop: published sizes count it, and encoders need a word."""
        self._splits.setdefault(split, []).append(len(self._texts))
        self._texts.append(text.strip() or ".")
        self._values.append(value)
        if other is not None:
            self._others.append(other.strip() or ".")

    def task(self, *, scored: bool = False, subsets: bool = False) -> Task:
        """What was gathered; with ``subsets`` the splits are parts of one test set."""
        parts = {part: np.array(rows, dtype=np.int64) for part, rows in self._splits.items()}
        training = self._splits.get("train", self._splits.get("all", ()))
        if not scored and len({self._values[row] for row in training}) < 2:
            raise InputError("all rows to learn from are of one class; get the files again")
        return Task(
            self.name,
            tuple(self._texts),
            tuple(self._others),
            {"test": np.arange(len(self._texts), dtype=np.int64)} if subsets else parts,
            None if scored else np.array(self._values, dtype=np.int64),
            np.array(self._values, dtype=np.float64) if scored else None,
            parts if subsets else {},
        )


def _text(path: Path) -> str:
    text = read_text(path, fallback="latin-1")  # TREC and others were published in latin-1
    if not text.strip():
        raise InputError(f"{path} holds no text; get the file again")
    return text


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Lines with where they stand."""
    for number, line in enumerate(split_lines(_text(path)), 1):
        yield line, f"{path.name}, line {number}"


def _fields(path: Path, count: int, *, header: bool) -> Iterator[tuple[list[str], str]]:
    """Tab-separated fields; quotation marks are text there."""
    rows = [(line, where) for at, (line, where) in enumerate(_lines(path)) if line.strip() and not (header and at == 0)]
    if not rows:
        raise InputError(f"{path} holds no rows; get the file again")
    for line, where in rows:
        fields = line.split("\t")
        if len(fields) < count:
            raise InputError(f"{where}: {len(fields)} fields between tabs; expected {count}")
        yield fields, where


def _csv(path: Path) -> Iterator[tuple[list[str], str]]:
    """Three fields between commas: sentence, sentence, score."""
    reader = csv_reader(StringIO(_text(path), newline=""), commas=True)
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
        raise InputError(f"{where}: '{text}' is not a score; expected a number")
    return value


def _class(text: str, names: Sequence[str], where: str) -> int:
    if text not in names:
        raise InputError(f"{where}: unknown class '{text}'; expected {', '.join(names)}")
    return names.index(text)


def _binary(rows: _Builder) -> Task:
    for label, name in enumerate(_BINARY[rows.name]):
        flat = f"{rows.name}.{name.rpartition('.')[2]}.txt"
        for line, _ in _lines(rows.need(flat, f"{rows.name}/{name}")):
            rows.add("all", label, line)
    return rows.task()


def _trec(rows: _Builder) -> Task:
    for split, name in (("train", "train_5500"), ("test", "TREC_10")):
        for line, where in _lines(rows.need(f"TREC.{split}.txt", f"TREC/{name}.label")):
            kind, _, question = line.partition(" ")
            coarse, colon, _ = kind.partition(":")
            if not colon or not question.strip():
                raise InputError(f"{where}: '{line[:40]}' is not a class and a question, such as 'NUM:dist How far …'")
            rows.add(split, _class(coarse, _QUESTIONS, where), question)
    return rows.task()


def _sst(rows: _Builder) -> Task:
    kind, classes = ("binary", "01") if rows.name == "SST2" else ("fine", "01234")
    for split in ("train", "dev", "test"):
        for line, where in _lines(rows.need(f"SST.{kind}.{split}.txt", f"SST/{kind}/sentiment-{split}")):
            text, tab, label = line.rpartition("\t")
            if not tab:  # the other layout: label, space, sentence
                label, _, text = line.partition(" ")
            if not text.strip():
                raise InputError(f"{where}: '{line[:40]}' is not a label and a sentence, such as '1 a good film'")
            rows.add(split, _class(label.strip(), tuple(classes), where), text)
    return rows.task()


def _stsb(rows: _Builder) -> Task:
    for split in ("train", "dev", "test"):
        path = rows.need(f"stsb-en-{split}.csv", f"STS/STSBenchmark/sts-{split}.csv")
        if path.name.startswith("stsb-en-"):
            for fields, where in _csv(path):
                rows.add(split, _number(fields[2], where), fields[0], fields[1])
        else:
            for fields, where in _fields(path, 7, header=False):
                rows.add(split, _number(fields[4], where), fields[5], fields[6])
    return rows.task(scored=True)


def _sick(rows: _Builder) -> Task:
    scored = rows.name == "SICKR"
    for split, part in (("train", "train"), ("dev", "trial"), ("test", "test_annotated")):
        for fields, where in _fields(rows.need(f"SICK_{part}.txt", f"SICK/SICK_{part}.txt"), 5, header=True):
            value = _number(fields[3], where) if scored else _class(fields[4].strip(), _JUDGEMENTS, where)
            rows.add(split, value, fields[1], fields[2])
    return rows.task(scored=scored)


def _sts14(rows: _Builder) -> Task:
    flat = rows.find("STS14.tsv")
    if flat is not None:
        for fields, where in _fields(flat, 4, header=True):
            rows.add(fields[0].removesuffix(".test"), _number(fields[1], where), fields[2], fields[3])
        return rows.task(scored=True, subsets=True)
    for subset in _SUBSETS:
        pairs = list(_fields(rows.need(f"STS/STS14-en-test/STS.input.{subset}.txt", "STS14.tsv"), 2, header=False))
        path = rows.need(f"STS/STS14-en-test/STS.gs.{subset}.txt")
        scores = list(_lines(path))
        if len(pairs) != len(scores):
            raise InputError(f"{path.name}: {len(scores)} scores for {len(pairs)} pairs; expected as many")
        for (fields, _), (score, where) in zip(pairs, scores, strict=True):
            if score.strip():  # pairs nobody scored are no part of the test
                rows.add(subset, _number(score, where), fields[0], fields[1])
    return rows.task(scored=True, subsets=True)


def _mrpc(rows: _Builder) -> Task:
    for split in ("train", "test"):
        paths = [rows.need(f"msr-para-{split}.tsv", f"MRPC/msr_paraphrase_{split}.txt")]
        if split == "train" and (held_out := rows.find("msr-para-val.tsv")):
            paths.append(held_out)  # the flat layout keeps 500 pairs of the published training part apart
        for path in paths:
            for fields, where in _fields(path, 5, header=True):
                rows.add(split, _class(fields[0].strip(), ("0", "1"), where), fields[3], fields[4])
    return rows.task()


_READERS: dict[str, Callable[[_Builder], Task]] = {
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(("SST2", "SST5"), _sst),
    **dict.fromkeys(("SICKR", "SICKE"), _sick),
    "TREC": _trec,
    "STSB": _stsb,
    "STS14": _sts14,
    "MRPC": _mrpc,
}
