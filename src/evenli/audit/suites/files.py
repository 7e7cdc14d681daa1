"""Pairs of any origin: files and tables, in the column styles of the field."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from evenli.audit.pairs import PAIR_COLUMNS, PairSet
from evenli.core.binary import write_csv
from evenli.core.errors import InputError, PairError
from evenli.core.io import find_columns, iter_rows, write_atomic
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL, canonical_label

HUB_ORDER = (ENTAILMENT, NEUTRAL, CONTRADICTION)
"""What 0, 1 and 2 mean in SNLI, MultiNLI and XNLI on the hub; -1 is a pair without a majority."""


def read_pairs(
    data: Any,
    lang: str,
    *,
    suite: str = "coal",
    gold_labels: Sequence[str] | None = None,
    extra: bool = False,
) -> PairSet:
    """Read pairs of the user's own.

    Args:
        data: Path of a file (JSON Lines, CSV, TSV, Parquet), or a table as ``pairs_from_table`` takes it. Columns may
            carry our names or those of SNLI and NLI-CoAL (``sentence1``, ``gold_label``, ``occ_word`` …).
        lang: Language of the pairs.
        suite: What they are for.
        gold_labels: What the numbers 0, 1, 2 mean as gold labels; default the order of the hub, which a note states.
        extra: Keep further columns of a file, as text.
    """
    if not isinstance(data, str | Path):
        return pairs_from_table(data, lang, suite=suite)
    path = Path(data)
    rows = ((f"{path.name}, line {line}", row) for line, row in iter_rows(path))
    about = {"name": path.name, "suite": suite, "lang": lang, "source": f"file {path.name}"}
    return _pair_set(rows, str(path), gold_labels, extra=extra, **about)


def pairs_from_table(table: Any, lang: str, suite: str = "coal", *, name: str = "table") -> PairSet:
    """Pairs from a polars or pandas data frame, a table of ``datasets``, or any iterable of dictionaries."""

    def rows() -> Iterator[tuple[str, Mapping[str, Any]]]:
        for number, row in enumerate(_table_rows(table), 1):
            if not isinstance(row, Mapping):
                raise PairError(f"{name}, row {number}: expected a dictionary, not {type(row).__name__}")
            yield f"{name}, row {number}", row

    source = f"table of {type(table).__module__}"
    return _pair_set(rows(), name, name=name, suite=suite, lang=lang, source=source)


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


def _table_rows(table: Any) -> Iterable[Any]:
    """Rows of a table as dictionaries; libraries are recognised by their methods, so that none must be installed."""
    if hasattr(table, "collect") and hasattr(table, "collect_schema"):  # polars.LazyFrame
        table = table.collect()
    if hasattr(table, "to_batches"):  # pyarrow
        table = pl.from_arrow(table)
    if hasattr(table, "to_dicts"):  # polars
        return table.iter_rows(named=True)  # type: ignore[no-any-return]
    if hasattr(table, "iloc"):  # pandas
        return table.to_dict("records")  # type: ignore[no-any-return]
    # datasets stores labels as numbers and their names beside them; -1 is a pair without a majority.
    features = getattr(table, "features", None) or {}
    named = {column: feature.names for column, feature in features.items() if hasattr(feature, "names")}

    def by_name(row: Mapping[str, Any]) -> dict[str, Any]:
        labels = {
            column: names[row[column]] if row[column] is not None and row[column] >= 0 else None
            for column, names in named.items()
        }
        return {**row, **labels}

    try:
        return (by_name(row) for row in table) if named else iter(table)
    except TypeError as error:
        raise InputError(f"a {type(table).__name__} is no table of pairs; give a path or a data frame") from error


def _pair_set(
    rows: Iterable[tuple[str, Mapping[str, Any]]],
    origin: str,
    gold_labels: Sequence[str] | None = None,
    *,
    extra: bool = False,
    **fields: Any,
) -> PairSet:
    """Bring rows, each with the place it stands at, into our columns."""
    names = [canonical_label(name) or "" for name in gold_labels or HUB_ORDER]
    if sorted(names) != sorted(LABELS):
        raise InputError(f"gold labels {','.join(gold_labels or ())}: give {', '.join(LABELS)} in the order of 0, 1, 2")
    numbers = {"-1": "", **{str(number): name for number, name in enumerate(names)}}
    used: set[str] = set()  # numbers that stood for a label
    placed = iter(rows)
    first = next(placed, None)
    if first is None:
        raise InputError(f"{origin} holds no pairs")
    # The first row shows the columns, then it goes back to the front: the rows are a stream.
    columns = find_columns(first[1], origin)
    # A column of the user's own that is called like one of ours is marked.
    additional = {
        name: f"given_{name}" if str(name) in _OURS else str(name)
        for name in first[1]
        if extra and name not in columns.values()
    }

    def normalised() -> Iterator[dict[str, str | None]]:
        for number, (where, row) in enumerate(chain([first], placed)):
            kept = {ours: None if _is_missing(row.get(name)) else str(row[name]) for name, ours in additional.items()}
            yield {**kept, "id": str(number), **_normalise(row, columns, where, numbers, used)}

    pairs = PairSet.from_rows(normalised(), extra=list(dict.fromkeys(additional.values())), **fields)
    if not used:
        return pairs
    listed = ", ".join(f"{number} as {name}" for number, name in enumerate(names))
    advice = "" if gold_labels is not None else "; say another order (--gold-labels)"
    return replace(pairs, notes=(f"gold labels are numbers: {listed}{advice}",))


_OURS = {"suite", *PAIR_COLUMNS, *LABELS, "abstained", "mass"}


def _normalise(
    row: Mapping[str, Any], columns: Mapping[str, str], where: str, numbers: Mapping[str, str], used: set[str]
) -> dict[str, str | None]:
    values: dict[str, str | None] = {
        ours: str(row[theirs]) for ours, theirs in columns.items() if not _is_missing(row.get(theirs))
    }
    for needed in ("premise", "hypothesis"):
        if not values.get(needed):
            raise PairError(f"{where}: the {needed} is empty")
    given = values.get("gold")
    if given == "-":  # SNLI's mark for pairs without a majority
        values["gold"] = None
    elif given is not None:
        label = canonical_label(given)
        if label is None:
            label = numbers.get(given.removesuffix(".0"))
            if label is None:
                raise PairError(f"{where}: unknown label '{given}'; expected {', '.join(LABELS)}")
            used.add(given)
        values["gold"] = label or None
    if stereotype := values.get("stereotype"):
        values["stereotype"] = stereotype.removesuffix("-stereo")
    return values


def _is_missing(value: Any) -> bool:
    """None, an empty cell, and the NaN and NA of pandas, which are not equal to themselves."""
    if value is None or value == "":
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA has no truth value
        return True
