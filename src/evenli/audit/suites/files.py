"""Pairs of any origin: files and tables, in the column styles of the field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from evenli.audit.pairs import PAIR_COLUMNS, PairSet
from evenli.core.binary import table_rows, write_csv
from evenli.core.errors import InputError, PairError
from evenli.core.io import find_columns, iter_rows, write_atomic
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL, canonical_label

HUB_ORDER = (ENTAILMENT, NEUTRAL, CONTRADICTION)
"""What 0, 1 and 2 mean in SNLI, MultiNLI and XNLI on the hub; -1 is a pair without a majority."""


def read_pairs(
    data: Any, lang: str, *, suite: str = "coal", gold_labels: Sequence[str] | None = None, extra: bool = False
) -> PairSet:
    """Read pairs of the user's own.

    Args:
        data: Path of a file (JSON Lines, CSV, TSV, Parquet), or a polars or pandas data frame, a table of ``datasets``,
            any iterable of dictionaries. Columns may carry our names or those of SNLI and NLI-CoAL (``sentence1``,
            ``gold_label``, ``occ_word`` …).
        lang: Language of the pairs.
        suite: What they are for.
        gold_labels: What the numbers 0, 1, 2 mean as gold labels; default the order of the hub, which a note states.
        extra: Keep further columns of a file, as text.
    """
    names = [canonical_label(name) or "" for name in gold_labels or HUB_ORDER]
    if sorted(names) != sorted(LABELS):
        raise InputError(f"gold labels {','.join(gold_labels or ())}: give {', '.join(LABELS)} in the order of 0, 1, 2")
    numbers = {"-1": "", **{str(number): name for number, name in enumerate(names)}}
    used: set[str] = set()  # numbers that stood for a label
    if isinstance(data, str | Path):
        path = Path(data)
        origin, name, source = str(path), path.name, f"file {path.name}"
        placed: Iterator[tuple[str, Mapping[str, Any]]] = ((f"{name}, line {n}", row) for n, row in iter_rows(path))
    else:
        origin, name, source, extra = "table", "table", f"table of {type(data).__module__}", False
        placed = _placed_rows(data)
    first = next(placed, None)
    if first is None:
        raise InputError(f"{origin} holds no pairs")
    # The first row shows the columns, then it goes back to the front: the rows are a stream.
    columns = find_columns(first[1], origin)
    # A column of the user's own that is called like one of ours is marked.
    own = [name for name in first[1] if extra and name not in columns.values()]
    additional = {f"given_{name}" if str(name) in _OURS else str(name): name for name in own}

    def label_of(given: str | None, where: str) -> str | None:
        if given is None or given == "-":  # SNLI's mark for pairs without a majority
            return None
        if (label := canonical_label(given)) is not None:
            return label
        label = numbers.get(given.removesuffix(".0"))
        if label is None:
            raise PairError(f"{where}: unknown label '{given}'; expected {', '.join(LABELS)}")
        used.add(given)
        return label or None

    def normalised() -> Iterator[dict[str, str | None]]:
        for number, (where, row) in enumerate(chain([first], placed)):
            values = {ours: _text(row.get(theirs)) for ours, theirs in {**additional, **columns}.items()}
            for needed in ("premise", "hypothesis"):
                if not values[needed]:
                    raise PairError(f"{where}: the {needed} is empty")
            gold, kind = label_of(values.get("gold"), where), values.get("stereotype")
            kind = kind and kind.removesuffix("-stereo")
            yield {**values, "id": values.get("id") or str(number), "gold": gold, "stereotype": kind}

    pairs = PairSet.from_rows(normalised(), list(additional), name=name, suite=suite, lang=lang, source=source)
    if not used:
        return pairs
    listed = ", ".join(f"{number} as {name}" for number, name in enumerate(names))
    advice = "" if gold_labels is not None else "; say another order (--gold-labels)"
    return replace(pairs, notes=(f"gold labels are numbers: {listed}{advice}",))


def _placed_rows(table: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, row in enumerate(table_rows(table), 1):
        if not isinstance(row, Mapping):
            raise PairError(f"table, row {number}: expected a dictionary, not {type(row).__name__}")
        yield f"table, row {number}", row


def write_pairs(pairs: PairSet, path: str | Path) -> None:
    """Write a pair set as JSON Lines, CSV or Parquet, by the file's ending."""
    path = Path(path)
    if path.suffix == ".parquet":
        write_atomic(path, lambda file: pairs.frame.write_parquet(file, compression="zstd"))
    elif path.suffix == ".csv":
        write_atomic(path, lambda file: write_csv(pairs.frame, file))
    elif path.suffix in {".jsonl", ".json"}:
        write_atomic(path, json_lines(pairs.frame))
    else:
        raise InputError(f"{path}: unknown kind of file; use .jsonl, .csv or .parquet")


def json_lines(frame: pl.DataFrame) -> str:
    """A table as JSON Lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in frame.iter_rows(named=True))


def refuse_rows(pairs: PairSet, rules: Mapping[str, pl.Expr], where: str) -> None:
    """Refuse pairs that break a rule: what to say, with the names of columns in it, and which rows break it."""
    for problem, broken in rules.items():
        rows = pairs.frame.filter(broken)
        if rows.height:
            row = rows.row(0, named=True)
            raise InputError(f"{where}, pair '{row['id']}': {problem.format(**row)}")


_OURS = {"suite", *PAIR_COLUMNS, *LABELS, "abstained", "mass"}


def _text(value: Any) -> str | None:
    """A cell as text; None for an empty one, and for the NaN and NA of pandas, which are not equal to themselves."""
    with suppress(TypeError):  # pandas.NA has no truth value
        if value is not None and value != "" and bool(value == value):
            return str(value)
    return None
