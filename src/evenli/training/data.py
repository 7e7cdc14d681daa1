"""NLI data for training: read, cleaned and counted, then tokenised once into flat arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.errors import InputError, PairError
from evenli.io import find_columns, hash_files, iter_rows
from evenli.labels import LABELS, canonical_label

STYLES = {
    "snli": ("sentence1", "sentence2", "gold_label", "pairID"),
    "mnli": ("sentence1", "sentence2", "gold_label", "pairID"),
    "ocnli": ("sentence1", "sentence2", "label", "id"),
    "jnli": ("sentence1", "sentence2", "label", "sentence_pair_id"),
    "jsick": ("sentence_A_Ja", "sentence_B_Ja", "entailment_label_Ja", "pair_ID"),
    "jsick-en": ("sentence_A_En", "sentence_B_En", "entailment_label_En", "pair_ID"),
    "sick": ("sentence_A", "sentence_B", "entailment_label", "pair_ID"),
    "hf": ("premise", "hypothesis", "label", "id"),
}
"""Column styles by name: premise, hypothesis, gold label, id. ``hf`` numbers its labels in LABELS order."""

_ROLES = ("premise", "hypothesis", "gold", "id")
_NO_GOLD = {"", "-"}
_NUMBERED = {"-1": "", **{str(number): label for number, label in enumerate(LABELS)}}
_CHUNK = 20_000


@dataclass(frozen=True)
class Examples:
    """Labelled pairs and what was left out of them.

    Attributes:
        premises: First sentences.
        hypotheses: Second sentences.
        labels: Index into LABELS.
        ids: The file's own id of a pair, else ``file:line``.
        sources: File names.
        sha256: Hash over names and contents of the files.
        unlabelled: Rows dropped because annotators found no majority (``-`` or empty).
        empty: Rows dropped because a sentence was empty.
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
        """Number of pairs."""
        return len(self.premises)

    @property
    def counts(self) -> dict[str, int]:
        """Pairs per label."""
        return {label: int((self.labels == index).sum()) for index, label in enumerate(LABELS)}


@dataclass(frozen=True)
class FlatTokens:
    """Tokenised pairs end to end: pair ``i`` is ``ids[starts[i] : starts[i] + lengths[i]]``.

    ``types`` are segment ids, ``labels`` indices into LABELS, ``pad`` is the token id that fills up a batch.
    ``truncated`` counts pairs that were longer than the limit.
    """

    ids: NDArray[np.int32]
    types: NDArray[np.uint8]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    labels: NDArray[np.int64]
    names: list[str]
    pad: int
    truncated: int

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.lengths)


@dataclass(frozen=True)
class TrainingData:
    """What all seeds of a run share; ``shared`` counts dev pairs that are also training pairs."""

    train: Examples
    tokens: FlatTokens
    dev: Examples | None = None
    dev_tokens: FlatTokens | None = None
    shared: int = 0


def read_examples(paths: Sequence[str | Path], style: str | None = None) -> Examples:
    """Read and join training files.

    Args:
        paths: ``.jsonl``, ``.csv``, ``.tsv`` or ``.parquet``; ``.xz`` may follow.
        style: A name in STYLES; None looks at the columns of each file.
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
    return Examples(
        premises=[row[0] for row in gold],
        hypotheses=[row[1] for row in gold],
        labels=np.array([LABELS.index(row[2]) for row in gold], dtype=np.int64),
        ids=[row[3] for row in gold],
        sources=tuple(file.name for file in files),
        sha256=hash_files(files),
        unlabelled=len(complete) - len(gold),
        empty=len(rows) - len(complete),
    )


def split_files(data: Path, dev: Path | None = None) -> tuple[Path, Path]:
    """Training and dev file: two files, or those of a directory that ``evenli mitigate`` wrote."""
    if not data.exists():
        raise InputError(f"--data: no file or directory {data}")
    if data.is_dir():
        if dev is not None:
            raise InputError(f"--dev is for a training file; {data} is a directory and has its own dev.jsonl")
        return data / "train.jsonl", data / "dev.jsonl"
    if dev is None:
        raise InputError("--dev: which pairs choose the epoch? Give a file, or a directory with its own dev.jsonl")
    return data, dev


def check_classes(examples: Examples) -> None:
    """Refuse data of one label only."""
    present = [label for label, count in examples.counts.items() if count]
    if len(present) < 2:
        raise InputError(
            f"{', '.join(examples.sources)}: all {len(examples)} pairs are labelled {present[0]}; "
            f"training needs at least two of {', '.join(LABELS)}"
        )


def overlap(train: Examples, dev: Examples) -> int:
    """How many dev pairs are also training pairs, word for word."""
    seen = set(zip(train.premises, train.hypotheses, strict=True))
    return sum(pair in seen for pair in zip(dev.premises, dev.hypotheses, strict=True))


def tokenise(examples: Examples, tokenizer: Any, max_length: int) -> FlatTokens:
    """Tokenise every pair once; the longer sentence of a pair over the limit is cut, and such pairs are counted."""
    ids: list[NDArray[np.int32]] = []
    types: list[NDArray[np.uint8]] = []
    truncated = 0
    for at in range(0, len(examples), _CHUNK):
        pairs = examples.premises[at : at + _CHUNK], examples.hypotheses[at : at + _CHUNK]
        batch = tokenizer(*pairs, return_attention_mask=False, return_token_type_ids=True, verbose=False)
        long = [row for row, one in enumerate(batch["input_ids"]) if len(one) > max_length]
        if long:
            cut = tokenizer(
                *([column[row] for row in long] for column in pairs),
                truncation=True,
                max_length=max_length,
                return_attention_mask=False,
                return_token_type_ids=True,
            )
            for field in ("input_ids", "token_type_ids"):
                for row, one in zip(long, cut[field], strict=True):
                    batch[field][row] = one
        truncated += len(long)
        ids += [np.array(one, dtype=np.int32) for one in batch["input_ids"]]
        types += [np.array(one, dtype=np.uint8) for one in batch["token_type_ids"]]
    lengths = np.array([len(one) for one in ids], dtype=np.int64)
    return FlatTokens(
        ids=np.concatenate(ids),
        types=np.concatenate(types),
        starts=np.concatenate([[0], lengths.cumsum()[:-1]]),
        lengths=lengths,
        labels=examples.labels,
        names=examples.ids,
        pad=tokenizer.pad_token_id or 0,
        truncated=truncated,
    )


def _rows(file: Path, style: str | None) -> Iterator[tuple[str, str, str, str]]:
    """Premise, hypothesis, canonical label or nothing, and id of every row."""
    columns: dict[str, str] = {}
    unknown: Counter[str] = Counter()
    lines: dict[str, int] = {}
    for line, row in iter_rows(file):
        columns = columns or _columns(row, file, style)
        premise, hypothesis, gold, id_ = (_text(row.get(columns.get(role, ""))) for role in _ROLES)
        label = _NUMBERED.get(gold) if style == "hf" else "" if gold in _NO_GOLD else canonical_label(gold)
        if label is None:
            unknown[gold] += 1
            lines.setdefault(gold, line)
            label = ""
        yield premise, hypothesis, label, id_ or f"{file.name}:{line}"
    if unknown:
        shown = ", ".join(f"'{gold}' (line {lines[gold]}, {count} in all)" for gold, count in unknown.most_common(3))
        numbers = all(gold.lstrip("-").isdigit() for gold in unknown)
        advice = f"; if 0, 1, 2 mean {', '.join(LABELS)}, say --style hf" if numbers else ""
        raise PairError(f"{file.name}: unknown label {shown}; expected {', '.join(LABELS)} or '-'{advice}")


def _columns(first: dict[str, Any], file: Path, style: str | None) -> dict[str, str]:
    if style is None:
        columns = find_columns(first, file)
    else:
        columns = dict(zip(_ROLES, STYLES[style], strict=True))
        missing = [columns[role] for role in _ROLES[:3] if columns[role] not in first]
        if missing:
            raise PairError(
                f"{file.name} is not in the style '{style}': no column {', '.join(missing)} "
                f"among {', '.join(map(str, first))}"
            )
    if "gold" not in columns:
        raise PairError(f"{file.name}: no column with a gold label among {', '.join(map(str, first))}")
    return columns


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()
