"""The pairs of NLI-CoAL: built-in, an official release, or a file or table of the user's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from evenli.errors import InputError
from evenli.io import file_kind
from evenli.labels import NEUTRAL
from evenli.pairs import PairSet
from evenli.resources import Axis
from evenli.resources.axes import NO_STEREOTYPE
from evenli.suites.base import Request
from evenli.suites.coal.build import AS, NS, PS, build_coal
from evenli.suites.coal.official import read_release, slot_template
from evenli.suites.files import read_pairs
from evenli.suites.validate import looks_like

_PAIR_FILES = {".jsonl", ".json", ".csv", ".tsv", ".parquet"}


def load_coal(lang: str = "en", data: Any = None, **options: Any) -> PairSet:
    """Load PS, AS and NS pairs.

    Args:
        lang: Language.
        data: None for the built-in set; a release folder or archive; or a pair file.
        options: ``split`` and ``tokenised`` for releases, ``axis``.
    """
    return load(Request(lang, data, **options))


def load(request: Request) -> PairSet:
    """The pairs that a request asks for; pairs of another language are refused."""
    lang, axis = request.lang, request.axis_loaded
    axis.language(lang)
    if request.data is None:
        _refuse_release_options(request, "the built-in pairs have")
        return build_coal(lang, axis=axis)
    is_path = isinstance(request.data, str | Path)
    origin = Path(request.data) if is_path else "the table"
    if not is_path or (Path(request.data).is_file() and file_kind(Path(request.data)) in _PAIR_FILES):
        _refuse_release_options(request, f"{origin} is a pair file and has")
        pairs = _complete(read_pairs(request.data, lang), axis)
    else:
        pairs = read_release(request.data, lang, split=request.split, tokenised=request.tokenised, axis=axis)
    foreign = pairs.frame["premise"].map_elements(lambda text: not looks_like(text, lang), return_dtype=pl.Boolean)
    if foreign.sum():
        example = pairs.frame["premise"].filter(foreign)[0]
        raise InputError(
            f"{foreign.sum()} of {len(pairs)} premises in {origin} do not look like language '{lang}', "
            f"first: '{example}'; set --lang or split the file by language"
        )
    return pairs


def _refuse_release_options(request: Request, what: str) -> None:
    """Refuse options that would change nothing but the name of the run."""
    if request.split != "full":
        raise InputError(f"split '{request.split}' is for official releases; {what} no splits; leave it out")
    if request.tokenised:
        raise InputError(f"tokenised files are of official releases; {what} none; leave the option out")


def _complete(pairs: PairSet, axis: Axis) -> PairSet:
    """Fill in group, template and subset where a file leaves them out, or say what cannot be known."""
    words = axis.language(pairs.lang).group_words
    types = {occupation.word: occupation.stereotype for occupation in axis.occupations(pairs.lang)}
    rows = []
    for row in pairs.frame.iter_rows(named=True):
        where = f"{pairs.name}, pair '{row['id']}'"
        occupation = row["occupation"]
        if not occupation:
            raise InputError(f"{where}: no occupation; NLI-CoAL needs the column occupation (or occ_word)")
        row["stereotype"] = row["stereotype"] or types.get(occupation)
        if row["stereotype"] not in {NO_STEREOTYPE, *axis.group_names}:
            raise InputError(
                f"{where}: stereotype '{row['stereotype']}' is not neutral or one of {', '.join(axis.group_names)}"
            )
        if row["group"] and row["group"] not in words:
            raise InputError(f"{where}: group '{row['group']}' is not one of {', '.join(words)}")
        if row["gold"] not in {None, NEUTRAL}:
            raise InputError(f"{where}: gold label '{row['gold']}'; in NLI-CoAL all are neutral")
        for group, word in words.items():
            template = slot_template(row["premise"], row["hypothesis"], occupation, word)
            if template and row["group"] in {None, group}:
                row["group"], row["template"] = group, row["template"] or template
        if not row["group"] or not row["template"]:
            raise InputError(
                f"{where}: premise and hypothesis must differ only in '{occupation}' and one of "
                f"{', '.join(words.values())}"
            )
        row["gold"] = row["gold"] or NEUTRAL
        if not row["subset"]:
            stereotype = row["stereotype"]
            row["subset"] = NS if stereotype == NO_STEREOTYPE else PS if stereotype == row["group"] else AS
        elif row["subset"] not in {PS, AS, NS}:
            raise InputError(f"{where}: subset '{row['subset']}' is not one of PS, AS, NS")
        rows.append(row)
    complete = PairSet.from_rows(rows, name=pairs.name, suite=pairs.suite, lang=pairs.lang, source=pairs.source)
    return replace(complete, notes=pairs.notes)
