"""The probe from a file: the released sheets, sheets of the user's own, and pairs that evenli wrote."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from evenli.audit.pairs import PairSet
from evenli.audit.suites.files import read_pairs
from evenli.audit.suites.probe import words
from evenli.core.errors import InputError, PairError
from evenli.core.io import file_kind, iter_rows, read_text
from evenli.core.labels import NEUTRAL
from evenli.core.parse import csv_reader, unescape_cell
from evenli.words import load_axis
from evenli.words.english import cluster_key, forms
from evenli.words.templates import SLOT, any_of

_SHEET = ("sentence1", "occupation", "gender")
_SHEET_GROUPS = {"F": "female", "M": "male"}


def read_probe(path: str | Path) -> PairSet:
    """Read a probe set: a released sheet, a sheet of the user's own, or a file written by ``write_pairs``.

    A sheet is tab- or comma-separated with the columns sentence1, occupation, gender (F or M, the gender that
    dominates the occupation), hypothesis_f and hypothesis_m. The header may stand on any line: the released ones
    have it after 1,450 rows. The tags of the sheet are kept (the released ones call ``tailor`` male). Without the
    hypothesis columns, as in the released out-of-distribution sheet, templates are drawn with seed 0.
    """
    path = Path(path)
    if file_kind(path) in {".tsv", ".csv", ".txt"}:
        reader = csv_reader(io.StringIO(read_text(path), newline=""), commas=file_kind(path) == ".csv")
        try:
            filled = (row for row in reader if any(cell.strip() for cell in row))
            cells = [(reader.line_num, list(map(unescape_cell, row))) for row in filled]
        except csv.Error as error:
            raise PairError(f"{path.name}, line {reader.line_num}: {error}") from error
        header = next((row for _, row in cells if set(_SHEET) <= set(row)), None)
        if header is not None:
            return _from_sheet(path, header, [(line, row) for line, row in cells if row != header])
        if not cells or "premise" not in cells[0][1]:
            raise InputError(f"{path}: no line holds the column names {', '.join(_SHEET)} of a probe sheet")
    return _from_pairs(path)


def _from_sheet(path: Path, header: Sequence[str], cells: Sequence[tuple[int, list[str]]]) -> PairSet:
    given = [name for name in ("hypothesis_f", "hypothesis_m") if name in header]
    if len(given) == 1:
        raise InputError(f"{path}: the sheet has {given[0]} only; hypotheses for both genders are needed")
    templates = words.probe_hypotheses()
    picks = np.random.default_rng(0).integers(len(templates), size=len(cells)).tolist()
    rows: list[dict[str, str]] = []
    absent = 0
    for number, ((line, values), pick) in enumerate(zip(cells, picks, strict=True)):
        where = f"{path.name}, line {line}"
        if len(values) != len(header):
            raise PairError(f"{where}: {len(values)} cells, the header has {len(header)}")
        row = {name: value.strip() for name, value in zip(header, values, strict=True)}
        premise, occupation = row["sentence1"], row["occupation"]
        if row["gender"] not in _SHEET_GROUPS:
            raise PairError(f"{where}: gender '{row['gender']}' is not F or M")
        for column in (*_SHEET, *given):
            if not row[column]:
                raise PairError(f"{where}: {column} is empty")
        if given:
            hypotheses = dict(zip(_SHEET_GROUPS.values(), (row[name] for name in given), strict=True))
            if len(set(hypotheses.values())) == 1:
                raise PairError(f"{where}: hypothesis_f and hypothesis_m are the same")
        else:
            hypotheses = words.fill_hypotheses(templates[pick], premise, occupation)
        template = any_of(forms(occupation)).sub(SLOT, premise)
        absent += template == premise
        dominant, key = _SHEET_GROUPS[row["gender"]], cluster_key(template)
        same = {"premise": premise, "occupation": occupation, "stereotype": dominant, "template": key}
        rows += words.probe_rows(number, hypotheses, **same)
    if not rows:
        raise InputError(f"{path} has a header and no rows")
    words.check_balance((row["stereotype"] for row in rows), str(path))
    notes = [f"{absent} premises do not hold their occupation"] if absent else []
    notes += [] if given else ["the sheet has no hypotheses; templates were drawn with seed 0"]
    source = f"sheet {path.name}"
    return PairSet.from_rows(rows, name=path.name, suite="probe", lang="en", source=source, notes=tuple(notes))


def _from_pairs(path: Path) -> PairSet:
    pairs = read_pairs(path, "en", suite="probe")
    lines = [line for line, _ in iter_rows(path)]
    groups = load_axis().group_names
    rows: list[dict[str, str]] = []
    premises: dict[str, dict[str, tuple[str, str, str]]] = {}
    for line, row in zip(lines, pairs.frame.iter_rows(named=True), strict=True):
        where = f"{path.name}, line {line}"
        for column in ("group", "stereotype"):
            if row[column] not in groups:
                raise PairError(f"{where}: {column} '{row[column]}' is not one of {', '.join(groups)}")
        if not row["occupation"]:
            raise PairError(f"{where}: no occupation")
        if row["gold"] not in {None, NEUTRAL}:
            raise PairError(f"{where}: gold label '{row['gold']}'; every pair of the probe is neutral")
        number, _, group = row["id"].rpartition("-")
        if not number or group != row["group"]:
            raise PairError(f"{where}: id '{row['id']}' is not <number>-{row['group']}")
        premises.setdefault(number, {})[group] = (row["premise"], row["occupation"], row["stereotype"])
        template = row["template"] or cluster_key(any_of(forms(row["occupation"])).sub(SLOT, row["premise"]))
        rows.append({**row, "subset": "probe", "gold": NEUTRAL, "template": template})
    # A premise is compared across the genders, so the rest of its pairs must be the same.
    for number, by_group in premises.items():
        missing = ", ".join(group for group in groups if group not in by_group)
        if missing:
            raise InputError(f"{path}: premise '{number}' has no pair for {missing}; both genders are needed")
        if len(set(by_group.values())) > 1:
            raise InputError(f"{path}: the pairs of '{number}' differ in premise, occupation or stereotype")
    words.check_balance((row["stereotype"] for row in rows), str(path))
    return PairSet.from_rows(rows, name=pairs.name, suite="probe", lang="en", source=pairs.source)
