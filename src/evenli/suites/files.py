"""Pairs of any origin: files and tables, in the column styles of the field."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from evenli.binary import write_csv
from evenli.errors import InputError, PairError
from evenli.io import find_columns, iter_rows, write_atomic
from evenli.labels import LABELS, canonical_label
from evenli.pairs import PAIR_COLUMNS, PairSet


def read_pairs(data: Any, lang: str, *, suite: str = "coal", name: str | None = None) -> PairSet:
    """Read pairs of the user's own.

    Args:
        data: Path of a file (JSON Lines, CSV, TSV, Parquet), or a table as ``pairs_from_table`` takes it. Columns may
            carry our names or those of SNLI and NLI-CoAL (``sentence1``, ``gold_label``, ``occ_word`` …).
        lang: Language of the pairs.
        suite: What they are for.
        name: Name of the set; default the file name.
    """
    if not isinstance(data, str | Path):
        return pairs_from_table(data, lang, suite=suite, name=name or "table")
    path = Path(data)
    rows = ((f"{path.name}, line {line}", row) for line, row in iter_rows(path))
    return _pair_set(rows, str(path), name=name or path.name, suite=suite, lang=lang, source=f"file {path.name}")


def pairs_from_table(table: Any, lang: str, suite: str = "coal", *, name: str = "table") -> PairSet:
    """Pairs from a polars or pandas data frame, a table of ``datasets``, or any iterable of dictionaries."""
    rows = ((f"{name}, row {number}", row) for number, row in enumerate(_table_rows(table), 1))
    return _pair_set(rows, name, name=name, suite=suite, lang=lang, source=f"table of {type(table).__module__}")


def write_pairs(pairs: PairSet, path: str | Path) -> None:
    """Write a pair set as JSON Lines, CSV or Parquet, by the file's ending."""
    path = Path(path)
    if path.suffix == ".parquet":
        write_atomic(path, lambda file: pairs.frame.write_parquet(file, compression="zstd"))
    elif path.suffix == ".csv":
        write_atomic(path, lambda file: write_csv(pairs.frame, file))
    elif path.suffix in {".jsonl", ".json"}:
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in pairs.frame.iter_rows(named=True))
        write_atomic(path, "".join(lines))
    else:
        raise InputError(f"{path}: unknown kind of file; use .jsonl, .csv or .parquet")


def _table_rows(table: Any) -> Iterable[Any]:
    """Rows of a table as dictionaries; libraries are recognised by their methods, so that none must be installed."""
    if hasattr(table, "collect") and hasattr(table, "collect_schema"):  # polars.LazyFrame
        table = table.collect()
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


def _pair_set(rows: Iterable[tuple[str, Any]], origin: str, **fields: str) -> PairSet:
    """Bring rows, each with the place it stands at, into our columns."""
    checked = map(_check_row, rows)
    first = next(checked, None)
    if first is None:
        raise InputError(f"{origin} holds no pairs")
    columns = find_columns(first[1], origin)
    listed = enumerate(chain([first], checked))
    return PairSet.from_rows((_normalise(row, columns, where, number) for number, (where, row) in listed), **fields)


def _check_row(placed: tuple[str, Any]) -> tuple[str, Mapping[str, Any]]:
    where, row = placed
    if not isinstance(row, Mapping):
        raise PairError(f"{where}: expected a dictionary, not {type(row).__name__}")
    return where, row


def _normalise(row: Mapping[str, Any], columns: Mapping[str, str], where: str, number: int) -> dict[str, str | None]:
    values: dict[str, str | None] = dict.fromkeys(PAIR_COLUMNS)
    values["id"] = str(number)
    values |= {ours: str(row[theirs]) for ours, theirs in columns.items() if not _is_missing(row.get(theirs))}
    for needed in ("premise", "hypothesis"):
        if not values[needed]:
            raise PairError(f"{where}: the {needed} is empty")
    if values["gold"] == "-":  # SNLI's mark for pairs without a majority
        values["gold"] = None
    if values["gold"] is not None:
        given, values["gold"] = values["gold"], canonical_label(values["gold"])
        if values["gold"] is None:
            raise PairError(f"{where}: unknown label '{given}'; expected {', '.join(LABELS)}")
    if values["stereotype"] is not None:
        values["stereotype"] = values["stereotype"].removesuffix("-stereo")
    return values


def _is_missing(value: Any) -> bool:
    """None, an empty cell, and the NaN and NA of pandas, which are not equal to themselves."""
    if value is None or value == "":
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA has no truth value
        return True
