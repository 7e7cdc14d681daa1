"""Pair files of any origin: JSON Lines, CSV, TSV and Parquet, in the column styles of the field."""

from __future__ import annotations

import csv
import io
import json
import lzma
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from evenli.datasets.pairs import PAIR_COLUMNS, PairSet
from evenli.errors import InputError, PairError
from evenli.labels import LABELS, canonical_label

_STYLES = {
    "premise": ("premise", "sentence1", "sentence_A", "text_a"),
    "hypothesis": ("hypothesis", "sentence2", "sentence_B", "text_b"),
    "gold": ("gold", "gold_label", "label"),
    "id": ("id", "pairID"),
    "occupation": ("occupation", "occ_word"),
    "stereotype": ("stereotype", "occ_type"),
    "subset": ("subset",),
    "template": ("template",),
    "group": ("group",),
}


def parse_json_lines(text: str, origin: str, required: Sequence[str]) -> list[dict[str, Any]]:
    """Parse JSON Lines; a broken line or a missing field is named with its number."""
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise PairError(f"{origin}, line {number}: not valid JSON ({error.msg} at column {error.colno})") from error
        if not isinstance(row, dict):
            raise PairError(f"{origin}, line {number}: expected an object, found {type(row).__name__}")
        missing = [name for name in required if name not in row]
        if missing:
            raise PairError(f"{origin}, line {number}: missing field(s) {', '.join(missing)}")
        rows.append(row)
    return rows


def read_rows(path: str | Path) -> list[dict[str, Any]]:
    """Read any supported file into dictionaries; ``.xz`` is unpacked on the way."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = suffixes[-2] if suffixes[-1:] == [".xz"] and len(suffixes) > 1 else "".join(suffixes[-1:])
    try:
        if kind == ".parquet":
            return pl.read_parquet(path).to_dicts()
        data = path.read_bytes()
        data = lzma.decompress(data) if suffixes[-1:] == [".xz"] else data
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start})") from error
    except (OSError, lzma.LZMAError, pl.exceptions.PolarsError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    if kind in {".json", ".jsonl"}:
        return parse_json_lines(text, path.name, ())
    if kind in {".csv", ".tsv", ".txt"}:
        stream = io.StringIO(text, newline="")
        if kind == ".csv":
            return list(csv.DictReader(stream))
        return list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    raise InputError(f"{path}: unknown kind of file; use .jsonl, .csv, .tsv or .parquet (.xz may follow)")


def read_pairs(path: str | Path, lang: str, *, suite: str = "coal", name: str | None = None) -> PairSet:
    """Read a pair file of the user's own.

    Columns may carry our names or those of SNLI and NLI-CoAL (``sentence1``, ``gold_label``, ``occ_word`` …).
    """
    rows = read_rows(path)
    if not rows:
        raise InputError(f"{path} holds no pairs")
    columns = _columns(rows[0], path)
    return PairSet.from_rows(
        (_normal(row, columns, f"{Path(path).name}, line {number}", number) for number, row in enumerate(rows, 1)),
        name=name or Path(path).name,
        suite=suite,
        lang=lang,
        source=f"file {Path(path).name}",
    )


def write_pairs(pairs: PairSet, path: str | Path) -> None:
    """Write a pair set as JSON Lines, CSV or Parquet, by the file's ending."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".parquet":
            pairs.frame.write_parquet(path, compression="zstd")
        elif path.suffix == ".csv":
            pairs.frame.write_csv(path)
        elif path.suffix in {".jsonl", ".json"}:
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in pairs.frame.iter_rows(named=True))
            path.write_text("".join(lines), encoding="utf-8")
        else:
            raise InputError(f"{path}: unknown kind of file; use .jsonl, .csv or .parquet")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


def _columns(first: Mapping[str, Any], path: str | Path) -> dict[str, str]:
    columns = {ours: next((name for name in names if name in first), "") for ours, names in _STYLES.items()}
    missing = [ours for ours in ("premise", "hypothesis") if not columns[ours]]
    if missing:
        raise PairError(
            f"{path}: no column for {' and '.join(missing)} among {', '.join(map(str, first))}; "
            f"accepted are {', '.join(_STYLES['premise'] + _STYLES['hypothesis'])}"
        )
    return {ours: theirs for ours, theirs in columns.items() if theirs}


def _normal(row: Mapping[str, Any], columns: Mapping[str, str], where: str, number: int) -> dict[str, str | None]:
    values: dict[str, str | None] = dict.fromkeys(PAIR_COLUMNS)
    for ours, theirs in columns.items():
        value = row.get(theirs)
        values[ours] = None if value is None or value == "" else str(value)
    if values["id"] is None:
        values["id"] = str(number - 1)
    for needed in ("premise", "hypothesis"):
        if not values[needed]:
            raise PairError(f"{where}: the {needed} is empty")
    if values["gold"] is not None:
        label = canonical_label(values["gold"])
        if label is None:
            raise PairError(f"{where}: unknown label '{values['gold']}'; expected {', '.join(LABELS)}")
        values["gold"] = label
    if values["stereotype"] is not None:
        values["stereotype"] = values["stereotype"].removesuffix("-stereo")
    return values
