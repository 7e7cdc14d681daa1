"""Pair files of any origin: JSON Lines, CSV, TSV and Parquet, in the column styles of the field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenli._whole import write_whole
from evenli.errors import InputError, PairError
from evenli.io import find_columns, iter_rows, parse_json_lines, read_rows
from evenli.labels import LABELS, canonical_label
from evenli.pairs import PAIR_COLUMNS, PairSet

__all__ = ["parse_json_lines", "read_pairs", "read_rows", "write_pairs"]


def read_pairs(path: str | Path, lang: str, *, suite: str = "coal", name: str | None = None) -> PairSet:
    """Read a pair file of the user's own.

    Columns may carry our names or those of SNLI and NLI-CoAL (``sentence1``, ``gold_label``, ``occ_word`` …).
    """
    rows = list(iter_rows(path))
    if not rows:
        raise InputError(f"{path} holds no pairs")
    columns = find_columns(rows[0][1], path)
    return PairSet.from_rows(
        (_normal(row, columns, f"{Path(path).name}, line {line}", number) for number, (line, row) in enumerate(rows)),
        name=name or Path(path).name,
        suite=suite,
        lang=lang,
        source=f"file {Path(path).name}",
    )


def write_pairs(pairs: PairSet, path: str | Path) -> None:
    """Write a pair set as JSON Lines, CSV or Parquet, by the file's ending."""
    path = Path(path)
    if path.suffix not in {".parquet", ".csv", ".jsonl", ".json"}:
        raise InputError(f"{path}: unknown kind of file; use .jsonl, .csv or .parquet")

    def write(file: Path) -> None:
        if path.suffix == ".parquet":
            pairs.frame.write_parquet(file, compression="zstd")
        elif path.suffix == ".csv":
            pairs.frame.write_csv(file)
        else:
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in pairs.frame.iter_rows(named=True))
            file.write_text("".join(lines), encoding="utf-8")

    try:
        write_whole(path, write)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


def _normal(row: Mapping[str, Any], columns: Mapping[str, str], where: str, number: int) -> dict[str, str | None]:
    values: dict[str, str | None] = dict.fromkeys(PAIR_COLUMNS)
    for ours, theirs in columns.items():
        value = row.get(theirs)
        values[ours] = None if value is None or value == "" else str(value)
    if values["id"] is None:
        values["id"] = str(number)
    for needed in ("premise", "hypothesis"):
        if not values[needed]:
            raise PairError(f"{where}: the {needed} is empty")
    if values["gold"] == "-":  # SNLI's mark for pairs without a majority
        values["gold"] = None
    if values["gold"] is not None:
        label = canonical_label(values["gold"])
        if label is None:
            raise PairError(f"{where}: unknown label '{values['gold']}'; expected {', '.join(LABELS)}")
        values["gold"] = label
    if values["stereotype"] is not None:
        values["stereotype"] = values["stereotype"].removesuffix("-stereo")
    return values
