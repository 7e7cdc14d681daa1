"""NLI data for training: read, cleaned and counted, tokenised once into flat arrays, and cut into batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.audit.models import base as models
from evenli.core.errors import InputError, PairError
from evenli.core.io import find_columns, hash_files, iter_rows
from evenli.core.labels import LABELS, canonical_label
from evenli.training.recipe import STYLES as STYLES

_ROLES = ("premise", "hypothesis", "gold", "id")
_NO_GOLD = {"", "-"}
_NUMBERED = {"-1": "", **{str(number): label for number, label in enumerate(LABELS)}}

LENGTHS = (16, 24, 32, 40, 48, 64, 96, 128)
"""Padded lengths. Few, because each is compiled and captured once; multiples of 8, which attention kernels need."""
NOBODY = -1  # fills up the last batch of an epoch; such a row weighs nothing


@dataclass(frozen=True)
class Examples:
    """Labelled pairs; ``labels`` are indices into LABELS.

    ``unlabelled`` counts rows dropped because annotators found no majority, ``empty`` those without a sentence.
    """

    premises: list[str]
    hypotheses: list[str]
    labels: NDArray[np.int64]
    ids: list[str]
    sources: tuple[str, ...]
    sha256: str
    unlabelled: int = 0
    empty: int = 0

    def __len__(self) -> int:
        return len(self.premises)

    @property
    def counts(self) -> dict[str, int]:
        """Pairs per label."""
        return dict(zip(LABELS, np.bincount(self.labels, minlength=len(LABELS)).tolist(), strict=True))


@dataclass(frozen=True)
class FlatTokens(models.Tokens):
    """Tokenised pairs with their labels, indices into LABELS; ``truncated`` counts those longer than the limit."""

    labels: NDArray[np.int64]
    names: list[str]
    truncated: int


@dataclass(frozen=True)
class Repeats:
    """Pairs that stand in the data more than once: with the same label each time, or with labels that contradict."""

    same: int  # rows beyond the first of their pair, where all its labels agree
    contradicting: int  # rows of pairs that have more than one label
    example: str = ""  # ids and labels of the first contradiction

    def remark(self) -> str:
        """What is odd, in one line; empty where nothing is repeated."""
        remarks = [f"{self.same:,} rows repeat another pair with its label"] if self.same else []
        if self.contradicting:
            remarks.append(
                f"{self.contradicting:,} rows have a pair that is labelled in more than one way ({self.example})"
            )
        return "; ".join(remarks)


@dataclass(frozen=True)
class TrainingData:
    """What all seeds of a run share; ``shared`` counts dev pairs that are also training pairs."""

    train: Examples
    tokens: FlatTokens
    dev: Examples | None = None
    dev_tokens: FlatTokens | None = None
    shared: int = 0
    repeats: Repeats = Repeats(0, 0)


def read_examples(paths: Sequence[str | Path], style: str | None = None) -> Examples:
    """Read and join training files: ``.jsonl``, ``.csv``, ``.tsv`` or ``.parquet``; ``.xz`` may follow.

    ``style`` is a name in STYLES; None looks at the columns of each file.
    """
    if style is not None and style not in STYLES:
        raise InputError(f"no column style '{style}'; choose {', '.join(STYLES)}")
    files = [Path(path) for path in paths]
    rows = [row for file in files for row in _rows(file, style)]
    complete = [row for row in rows if row[0] and row[1]]
    gold = [row for row in complete if row[2]]
    if not gold:
        shown = ", ".join(file.name for file in files)
        raise InputError(f"{shown}: no labelled pair in {len(rows)} row(s)")
    premises, hypotheses, labels, ids = map(list, zip(*gold, strict=True))
    return Examples(
        premises,
        hypotheses,
        np.array([LABELS.index(label) for label in labels], dtype=np.int64),
        ids,
        sources=tuple(file.name for file in files),
        sha256=hash_files(files),
        unlabelled=len(complete) - len(gold),
        empty=len(rows) - len(complete),
    )


def find_repeats(examples: Examples) -> Repeats:
    """Count repeated pairs. They are trained on as they stand: what annotators disagree about is data."""
    # Positions of pairs that come again only: a list per pair of a million would take 100 MB.
    first: dict[tuple[str, str], int] = {}
    groups: dict[tuple[str, str], list[int]] = {}
    for row, pair in enumerate(zip(examples.premises, examples.hypotheses, strict=True)):
        if (before := first.setdefault(pair, row)) != row:
            groups.setdefault(pair, [before]).append(row)
    same, contradicting, example = 0, 0, ""
    labels = examples.labels.tolist()
    for rows in groups.values():
        others = [row for row in rows if labels[row] != labels[rows[0]]]
        if others:
            contradicting += len(rows)
            shown = (f"{examples.ids[row]} is {LABELS[labels[row]]}" for row in (rows[0], others[0]))
            example = example or ", ".join(shown)
        else:
            same += len(rows) - 1
    return Repeats(same, contradicting, example)


def tokenise(examples: Examples, tokenizer: Any, max_length: int) -> FlatTokens:
    """Tokenise every pair once; the longer sentence of a pair over the limit is cut, and such pairs are counted."""
    tokens, truncated = models.tokenise(tokenizer, examples.premises, examples.hypotheses, max_length)
    flat = tokens.ids, tokens.types, tokens.starts, tokens.lengths
    return FlatTokens(*flat, examples.labels, examples.ids, truncated)


def _rows(file: Path, style: str | None) -> Iterator[tuple[str, str, str, str]]:
    """Premise, hypothesis, canonical label or nothing, and id of every row."""
    columns: dict[str, str] = {}
    unknown: dict[str, list[int]] = defaultdict(list)
    for line, row in iter_rows(file):
        columns = columns or _columns(row, file, style)
        values = (row.get(columns.get(role, "")) for role in _ROLES)
        premise, hypothesis, gold, id_ = ("" if value is None else str(value).strip() for value in values)
        label = _NUMBERED.get(gold) if style == "hf" else "" if gold in _NO_GOLD else canonical_label(gold)
        if label is None:
            unknown[gold].append(line)
            label = ""
        yield premise, hypothesis, label, id_ or f"{file.name}:{line}"
    if unknown:
        worst = sorted(unknown.items(), key=lambda item: -len(item[1]))[:3]
        shown = ", ".join(f"'{gold}' (line {lines[0]}, {len(lines)} in all)" for gold, lines in worst)
        numbers = all(gold.lstrip("-").isdigit() for gold in unknown)
        advice = f"; if 0, 1, 2 mean {', '.join(LABELS)}, say so (--style hf)" if numbers else ""
        raise PairError(f"{file.name}: unknown label {shown}; expected {', '.join(LABELS)} or '-'{advice}")


def _columns(first: dict[str, Any], file: Path, style: str | None) -> dict[str, str]:
    given = ", ".join(map(str, first))
    columns = dict(zip(_ROLES, STYLES[style], strict=True)) if style else find_columns(first, file)
    missing = [columns[role] for role in _ROLES[:3] if role in columns and columns[role] not in first]
    if missing:
        raise PairError(f"{file.name} is not in the style '{style}': no column {', '.join(missing)} among {given}")
    if "gold" not in columns:
        raise PairError(f"{file.name}: no column with a gold label among {given}")
    return columns


# ---- batches: one size, pairs of like length, in an order that the seed fixes


@dataclass(frozen=True)
class EpochPlan:
    """One epoch: ``rows[step]`` are the pairs of a batch and ``lengths[step]`` what they are padded to."""

    rows: NDArray[np.int64]
    lengths: list[int]

    def __len__(self) -> int:
        return len(self.lengths)


def padded_lengths(max_length: int, positions: int | None = None) -> tuple[int, ...]:
    """The padded lengths in use for pairs of up to ``max_length`` tokens, for a model of so many ``positions``.

    >>> padded_lengths(50), padded_lengths(180), padded_lengths(100, positions=100)
    ((16, 24, 32, 40, 48, 56), (16, 24, 32, 40, 48, 64, 96, 128, 184), (16, 24, 32, 40, 48, 64, 96, 100))
    """
    longest = -(-max_length // 8) * 8
    if positions is not None:
        longest = min(longest, positions)
    return (*(length for length in LENGTHS if length < longest), longest)


def plan_epoch(
    lengths: NDArray[Any], batch_size: int, padded: Sequence[int], *, seed: int, epoch: int, chunk: int = 100
) -> EpochPlan:
    """Shuffle all pairs, sort by length inside chunks of so many batches, cut into batches, shuffle the batches."""
    # Which pairs meet in a batch stays random: a chunk is a random sample, and pairs of the same padded length keep
    # their shuffled order in it.
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(lengths))
    bucket = np.searchsorted(padded, lengths)
    span = chunk * batch_size
    order = np.concatenate(
        [part[np.argsort(bucket[part], kind="stable")] for part in np.split(order, range(span, len(order), span))]
    )
    steps = -(-len(order) // batch_size)
    rows = np.full((steps, batch_size), NOBODY, dtype=np.int64)
    rows.reshape(-1)[: len(order)] = order
    rows = rows[generator.permutation(steps)]
    widest = np.where(rows == NOBODY, 0, bucket[rows]).max(axis=1)
    return EpochPlan(rows, [int(padded[index]) for index in widest])
