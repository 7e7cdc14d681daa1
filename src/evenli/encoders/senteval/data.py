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
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenli.core.errors import InputError, ResourceError
from evenli.core.io import hash_text, read_text, split_lines
from evenli.core.parse import csv_reader
from evenli.encoders.settings import EVERY
from evenli.encoders.settings import TASKS as TASKS

Rows = NDArray[np.int64]
Row = tuple[str, str, str, tuple[str, ...]]  # split, where it stands, value, sentence or sentences
_SUBSETS = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
"""Tasks without training, which are scored by subset."""
_SCORED = ("STSB", "SICKR", *_SUBSETS)
_CLASSES = {
    "TREC": ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"),
    "SST5": ("0", "1", "2", "3", "4"),
    "SICKE": ("CONTRADICTION", "NEUTRAL", "ENTAILMENT"),
}
"""Classes of the tasks that have others than 0 and 1."""
_BINARY = {
    "MR": ("rt-polarity.neg", "rt-polarity.pos"),
    "CR": ("custrev.neg", "custrev.pos"),
    "SUBJ": ("subj.subjective", "subj.objective"),
    "MPQA": ("mpqa.neg", "mpqa.pos"),
}


@dataclass(frozen=True, eq=False)
class Task:
    """One task: sentences or pairs of them, and what is to be predicted: a class or a human score."""

    name: str
    texts: tuple[str, ...]
    others: tuple[str, ...]  # the second of each pair; empty in a task on single sentences
    splits: dict[str, Rows]  # train, dev and test, as far as given; all where the task is cross-validated
    labels: Rows | None = None  # numbered from 0
    scores: NDArray[np.float64] | None = None
    subsets: dict[str, Rows] = field(default_factory=dict)  # the parts that are scored apart (STS14)
    unscored: int = 0  # pairs of the files that nobody gave a score, and that are no part of the task

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def sha256(self) -> str:
        """Hash of everything in it: the same in both layouts and every packing."""
        answers = [None if values is None else values.tolist() for values in (self.labels, self.scores)]
        parts = [{part: rows.tolist() for part, rows in named.items()} for named in (self.splits, self.subsets)]
        return hash_text(json.dumps([self.name, self.texts, self.others, answers, parts]))


def read_task(name: str, folder: str | Path) -> Task:
    """Read one task from a directory in either layout.

    ``folder`` is the flat directory, SentEval's ``downstream`` directory or the one that holds it. A missing file is a
    ResourceError, a broken one an InputError; both name task and file.
    """
    if name not in EVERY:
        raise InputError(f"'{name}' is not a SentEval task; choose {', '.join(EVERY)}")
    try:
        return _task(name, list(_READERS[name](name, task_folder(folder))))
    except InputError as error:
        raise type(error)(f"{name}: {error}") from error


def task_folder(data: str | Path) -> Path:
    """The directory with the task files; a ResourceError if there is none."""
    if not Path(data).is_dir():
        raise ResourceError(f"{data} is not a directory; give the one with the SentEval files")
    return Path(data)


def _task(name: str, given: Sequence[Row]) -> Task:
    # Of the tasks without training some pairs were never scored; elsewhere a missing value is a broken file.
    rows = [row for row in given if row[2].strip()] if name in _SUBSETS else given
    if not rows:
        raise InputError("no pair has a score; get the files again")
    splits = np.array([row[0] for row in rows])
    parts = {split: np.flatnonzero(splits == split) for split in dict.fromkeys(splits.tolist())}
    # An empty text becomes a full stop: published sizes count it, and encoders need a word.
    texts, *others = (
        tuple(text.strip() or "." for text in side) for side in zip(*(row[3] for row in rows), strict=True)
    )
    second = others[0] if others else ()
    if name not in _SCORED:
        classes = _CLASSES.get(name, ("0", "1"))
        labels = np.array([_class(value.strip(), classes, where) for _, where, value, _ in rows])
        if len(set(labels[parts.get("train", parts.get("all", []))])) < 2:
            raise InputError("all rows to learn from are of one class; get the files again")
        return Task(name, texts, second, parts, labels)
    scores = np.array([_number(value, where) for _, where, value, _ in rows])
    if name not in _SUBSETS:
        return Task(name, texts, second, parts, scores=scores)
    whole, unscored = {"test": np.arange(len(texts))}, len(given) - len(rows)  # its splits are parts of one test set
    return Task(name, texts, second, whole, scores=scores, subsets=parts, unscored=unscored)


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


def _find(folder: Path, *names: str) -> Path | None:
    """The first of the names that is there, in any packing and either layout."""
    roots = (folder, folder / "downstream")
    paths = (root / (name + packed) for root in roots for name in names for packed in ("", ".xz", ".gz"))
    return next((path for path in paths if path.is_file()), None)


def _need(folder: Path, *names: str) -> Path:
    if path := _find(folder, *names):
        return path
    raise ResourceError(f"no {' or '.join(names)} (plain, .xz or .gz) in {folder}; get the file or skip it")


def _text(path: Path) -> str:
    text = read_text(path, fallback="latin-1")  # TREC and others were published in latin-1
    if not text.strip():
        raise InputError(f"{path} holds no text; get the file again")
    return text


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Lines with where they stand."""
    for number, line in enumerate(split_lines(_text(path)), 1):
        yield line, f"{path.name}, line {number}"


def _fields(path: Path, count: int, *, header: bool = True) -> Iterator[tuple[list[str], str]]:
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


def _binary(task: str, folder: Path) -> Iterator[Row]:
    for label, name in enumerate(_BINARY[task]):
        for line, where in _lines(_need(folder, f"{task}.{name.rpartition('.')[2]}.txt", f"{task}/{name}")):
            yield "all", where, str(label), (line,)


def _trec(task: str, folder: Path) -> Iterator[Row]:
    for split, name in (("train", "train_5500"), ("test", "TREC_10")):
        for line, where in _lines(_need(folder, f"TREC.{split}.txt", f"TREC/{name}.label")):
            kind, _, question = line.partition(" ")
            coarse, colon, _ = kind.partition(":")
            if not colon or not question.strip():
                raise InputError(f"{where}: '{line[:40]}' is not a class and a question, such as 'NUM:dist How far …'")
            yield split, where, coarse, (question,)


def _sst(task: str, folder: Path) -> Iterator[Row]:
    kind = "binary" if task == "SST2" else "fine"
    for split in ("train", "dev", "test"):
        for line, where in _lines(_need(folder, f"SST.{kind}.{split}.txt", f"SST/{kind}/sentiment-{split}")):
            text, tab, label = line.rpartition("\t")
            if not tab:  # the other layout: label, space, sentence
                label, _, text = line.partition(" ")
            if not text.strip():
                raise InputError(f"{where}: '{line[:40]}' is not a label and a sentence, such as '1 a good film'")
            yield split, where, label, (text,)


def _stsb(task: str, folder: Path) -> Iterator[Row]:
    for split in ("train", "dev", "test"):
        path = _need(folder, f"stsb-en-{split}.csv", f"STS/STSBenchmark/sts-{split}.csv")
        flat = path.name.startswith("stsb-en-")
        for fields, where in _csv(path) if flat else _fields(path, 7, header=False):
            score, *sentences = (fields[2], fields[0], fields[1]) if flat else fields[4:7]
            yield split, where, score, tuple(sentences)


def _sick(task: str, folder: Path) -> Iterator[Row]:
    value = 3 if task == "SICKR" else 4
    for split, part in (("train", "train"), ("dev", "trial"), ("test", "test_annotated")):
        for fields, where in _fields(_need(folder, f"SICK_{part}.txt", f"SICK/SICK_{part}.txt"), 5):
            yield split, where, fields[value], (fields[1], fields[2])


def _sts(task: str, folder: Path) -> Iterator[Row]:
    """Pairs with the mean score that people gave them; it is empty where nobody did."""
    if flat := _find(folder, f"{task}.tsv"):
        for fields, where in _fields(flat, 4):
            subset = fields[0].removesuffix(".test")
            # Of some years the file holds the training part too, which SentEval does not score.
            if not subset.endswith(".train"):
                yield subset, where, fields[1], (fields[2], fields[3])
        return
    inside = f"STS/{task}-en-test"
    for subset in _SUBSETS[task]:
        pairs = list(_fields(_need(folder, f"{inside}/STS.input.{subset}.txt", f"{task}.tsv"), 2, header=False))
        path = _need(folder, f"{inside}/STS.gs.{subset}.txt")
        scores = list(_lines(path))
        if len(pairs) != len(scores):
            raise InputError(f"{path.name}: {len(scores)} scores for {len(pairs)} pairs; expected as many")
        for (fields, _), (score, where) in zip(pairs, scores, strict=True):
            yield subset, where, score, (fields[0], fields[1])


def _mrpc(task: str, folder: Path) -> Iterator[Row]:
    for split in ("train", "test"):
        paths = [_need(folder, f"msr-para-{split}.tsv", f"MRPC/msr_paraphrase_{split}.txt")]
        # The flat layout keeps 500 pairs of the published training part apart.
        if split == "train" and (held_out := _find(folder, "msr-para-val.tsv")):
            paths.append(held_out)
        for fields, where in chain.from_iterable(_fields(path, 5) for path in paths):
            yield split, where, fields[0], (fields[3], fields[4])


_READERS: dict[str, Callable[[str, Path], Iterator[Row]]] = {
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(("SST2", "SST5"), _sst),
    **dict.fromkeys(("SICKR", "SICKE"), _sick),
    "TREC": _trec,
    "STSB": _stsb,
    **dict.fromkeys(_SUBSETS, _sts),
    "MRPC": _mrpc,
}
