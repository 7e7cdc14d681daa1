"""Counterfactual augmentation: add gender-swapped copies of training pairs.

Two choices of what to copy. ``select="all"`` copies every pair with a word that can be swapped.
``select="occupation"`` follows Sharma et al. 2021: pairs whose premise names one of 38 occupations,
one per premise, if one of the two sentences has a gender word. That adds less than 0.1 % to SNLI.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal, get_args

from evenli.errors import InputError
from evenli.io import COLUMNS, find_columns, is_plain_text, iter_text, read_rows, write_atomic
from evenli.mitigate.swap import Mode, Swapper
from evenli.parse import csv_line
from evenli.resources import read_table

Select = Literal["all", "occupation"]
SUFFIX = "-swapped"
# What the notebook looks for; a missing comma there lost "him" and "guy" (but not "guys").
_SHARMA_GENDER = "she he her his girl boy man men woman women male female guys lady ladies"
_SHARMA_TOKENS = frozenset(form for word in _SHARMA_GENDER.split() for form in (word, f"{word}s"))


@dataclass(frozen=True)
class Augmented:
    """A training set with swapped copies behind the original rows, and how it came about."""

    rows: tuple[dict[str, Any], ...]  # the original rows, then the added ones
    # Every step: rows given, matched (occupation), considered (all, or one per premise), without_gender (no word to
    # swap), swapped, duplicates dropped, added, rows at the end.
    counts: Mapping[str, int]


def swap_augment(
    rows: Sequence[Mapping[str, Any]],
    *,
    columns: tuple[str, str] = ("premise", "hypothesis"),
    select: Select = "all",
    occupations: Iterable[str] | None = None,
    mode: Mode = "default",
    names: bool = True,
    drop_duplicates: bool = True,
    shuffle_seed: int | None = None,
) -> Augmented:
    """Append gender-swapped copies of pairs; label and all other columns are kept, ids get ``-swapped``.

    With ``drop_duplicates`` rows whose two sentences occur before are dropped, of the given rows, too.

    With ``select="occupation"`` and ``mode="released"`` the steps are those of Sharma et al.: an occupation is a token
    of the lower-cased premise; of the rows with the same premise the first stays; one of the two sentences must hold a
    gender token of their list (which lacks *him* and *guy*). In the other modes punctuation does not hide a word.

    ``columns`` names premise and hypothesis; ``occupations`` are by default the 38 of the paper; ``mode`` and ``names``
    are those of ``Swapper``. With a ``shuffle_seed`` the rows are looked at in a shuffled order, with 12 in that of
    Sharma et al.; those returned keep theirs.
    """
    if select not in get_args(Select):
        raise InputError(f"select '{select}' is unknown; choose {' or '.join(get_args(Select))}")
    if occupations is not None and select == "all":
        raise InputError("occupations are only used with select='occupation'; leave them out or choose that")
    _check_texts(rows, columns)
    swapper = Swapper(mode, names)
    order = list(range(len(rows)))
    if shuffle_seed is not None:
        Random(shuffle_seed).shuffle(order)
    counts = {"rows_given": len(rows)}
    if select == "occupation":
        mentions = _mentions(occupations, released=mode == "released")
        order = [index for index in order if mentions(rows[index][columns[0]])]
        counts["matched"] = len(order)
        # The last entry of a key stays, so that reversed it is the first row of each premise.
        order = list({rows[index][columns[0]]: index for index in reversed(order)}.values())
    gendered = _has_sharma_token if (select, mode) == ("occupation", "released") else swapper.gendered
    # Sorted, so that copies follow the order of the file even if the choice was made in a shuffled one.
    chosen = sorted(index for index in order if any(gendered(rows[index][column]) for column in columns))
    counts |= {"considered": len(order), "without_gender": len(order) - len(chosen), "swapped": len(chosen)}
    result = [dict(row) for row in rows]
    result += [mark_copy(rows[index], {name: swapper(rows[index][name]) for name in columns}) for index in chosen]
    kept = _first_of_each(result, columns) if drop_duplicates else list(range(len(result)))
    added = sum(index >= len(rows) for index in kept)
    counts |= {"duplicates": len(result) - len(kept), "added": added, "rows": len(kept)}
    return Augmented(tuple(result[index] for index in kept), counts)


def _check_texts(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    for number, row in enumerate(rows, 1):
        for column in columns:
            if not isinstance(row.get(column), str):
                raise InputError(f"row {number} has no text in column '{column}'; it has {', '.join(map(str, row))}")


def _first_of_each(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[int]:
    """Of the rows with the same sentences the first, with its place."""
    first: dict[tuple[str, ...], int] = {}
    for index, row in enumerate(rows):
        first.setdefault(tuple(row[column] for column in columns), index)
    return list(first.values())


def mark_copy(row: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """The row with its swapped texts, and ids that say so."""
    ids = {name: f"{row[name]}{SUFFIX}" for name in COLUMNS["id"] if row.get(name) is not None}
    return {**row, **texts, **ids}


@dataclass(frozen=True)
class SwapSettings:
    """How a training file is augmented."""

    select: Select = "all"  # pairs to copy: all with a word to swap, or occupation
    mode: Mode = "default"  # how to swap, see Swapper
    names: bool = True  # whether first names are swapped too
    only_swapped: bool = False  # write the swapped copies alone

    def __post_init__(self) -> None:
        for name, value, known in (("selection", self.select, Select), ("swap mode", self.mode, Mode)):
            if value not in get_args(known):
                raise InputError(f"no {name} '{value}'; choose {', '.join(get_args(known))}")


def swap_corpus(
    corpus: str | Path, out: str | Path, settings: SwapSettings | None = None, *, overwrite: bool = False
) -> dict[str, int]:
    """Add gender-swapped copies to a training file; returns the counts of ``Augmented`` and ``written``.

    The corpus holds English pairs (.jsonl, .csv, .tsv, .parquet), written as .jsonl, .csv or .parquet, or is a text
    with one sentence a line (.txt).
    """
    corpus, out, settings = Path(corpus), Path(out), settings or SwapSettings()
    if out.exists() and not overwrite:
        raise InputError(f"{out} exists; pass --overwrite to replace it, or name another file")
    if not is_plain_text(corpus):
        return _swap_pairs(corpus, out, settings)
    if settings.select == "occupation":
        raise InputError(f"--select occupation needs premises and hypotheses; {corpus} is plain text")
    if out.suffix.lower() != ".txt":
        raise InputError(f"{corpus} is plain text, so the result is too; end -o in .txt, not {out.suffix or out}")
    return _swap_lines(corpus, out, settings)


def _swap_pairs(corpus: Path, out: Path, settings: SwapSettings) -> dict[str, int]:
    if out.suffix not in {".jsonl", ".csv", ".parquet"}:
        raise InputError(f"{out}: unknown kind of file; use .jsonl, .csv or .parquet")
    rows = read_rows(corpus)
    if not rows:
        raise InputError(f"{corpus} holds no pairs")
    roles = find_columns(rows[0], corpus)
    ragged = next((number for number, row in enumerate(rows, 1) if None in row), None)
    if ragged is not None:
        raise InputError(f"{corpus}, row {ragged} has more cells than the header has names; repair it first")
    columns = roles["premise"], roles["hypothesis"]
    result = swap_augment(rows, columns=columns, select=settings.select, mode=settings.mode, names=settings.names)
    written = result.rows[len(result.rows) - result.counts["added"] :] if settings.only_swapped else result.rows
    if not written:
        raise InputError(f"{corpus} has no pair to swap, so there is nothing to write; leave out --only-swapped")
    write_atomic(out, lambda file: _write_rows(written, file))
    return {**result.counts, "written": len(written)}


def _swap_lines(corpus: Path, out: Path, settings: SwapSettings) -> dict[str, int]:
    swapper = Swapper(settings.mode, settings.names)
    given = [line for _, line in iter_text(corpus)]
    if not given:
        raise InputError(f"{corpus} holds no text")
    gendered = [line for line in given if swapper.gendered(line)]
    known = set(given)
    copies = [line for line in dict.fromkeys(map(swapper, gendered)) if line not in known]
    written = copies if settings.only_swapped else [*given, *copies]
    write_atomic(out, "".join(f"{line}\n" for line in written))
    size, swapped, added = len(given), len(gendered), len(copies)
    counts = {"rows_given": size, "considered": size, "without_gender": size - swapped, "swapped": swapped}
    return {**counts, "duplicates": swapped - added, "added": added, "rows": size + added, "written": len(written)}


def _write_rows(rows: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Write rows with all their columns, in the format that the file's ending names."""
    if file.suffix == ".parquet":
        import polars as pl

        pl.DataFrame(rows, infer_schema_length=None).write_parquet(file, compression="zstd")
    elif file.suffix == ".csv":
        names = list(dict.fromkeys(name for row in rows for name in row))
        with file.open("w", encoding="utf-8", newline="") as sink:
            sink.write(csv_line(names))
            sink.writelines(csv_line([_cell(row.get(name)) for name in names]) for row in rows)
    else:
        with file.open("w", encoding="utf-8") as sink:
            sink.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _cell(value: Any) -> Any:
    # SNLI's JSON has lists of labels; a cell holds them as JSON.
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def _has_sharma_token(text: str) -> bool:
    return not _SHARMA_TOKENS.isdisjoint(text.lower().split(" "))


def _mentions(occupations: Iterable[str] | None, *, released: bool) -> Callable[[str], bool]:
    """A test whether a sentence names one of the occupations, in the singular or the plural."""
    if occupations is None:
        occupations = [row["occupation"] for row in read_table("probe_occupations.csv", ("occupation",))]
    singular = [word.lower() for word in occupations]
    # Plurals as in the notebook, where only secretary has one of its own; ours also knows other words on -y.
    plural = [f"{w[:-1]}ies" for w in singular if w.endswith("y") and (w == "secretary" or not released)]
    forms = {*singular, *(f"{word}s" for word in singular), *plural}
    if released:
        return lambda text: not forms.isdisjoint(text.lower().split(" "))
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(forms)))})\b")
    return lambda text: pattern.search(text.lower()) is not None
