"""One door to every NLI-CoAL pair set: built-in, official release or a file of the user's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl

from evenli.datasets.coal import AS, NS, PS, build_coal
from evenli.datasets.files import read_pairs
from evenli.datasets.official import read_release, slot_template
from evenli.datasets.pairs import PairSet
from evenli.datasets.validate import looks_like
from evenli.errors import InputError
from evenli.labels import NEUTRAL
from evenli.resources import Axis, load_axis
from evenli.resources.axes import NO_STEREOTYPE

_PAIR_FILES = {".jsonl", ".json", ".csv", ".tsv", ".parquet"}


def load_coal(
    lang: str = "en",
    data: str | Path | None = None,
    *,
    split: str = "full",
    tokenised: bool = False,
    axis: Axis | str = "gender",
) -> PairSet:
    """Load PS, AS and NS pairs.

    Args:
        lang: Language.
        data: None for the built-in set; a release folder or archive; or a pair file.
        split: ``full`` or ``down``, for releases.
        tokenised: The pre-segmented Japanese files of a release.
        axis: Social axis.
    """
    axis = load_axis(axis) if isinstance(axis, str) else axis
    axis.language(lang)
    if data is None:
        return build_coal(lang, axis=axis)
    path = Path(data)
    if path.is_file() and path.suffix in _PAIR_FILES:
        pairs = _complete(read_pairs(path, lang), axis)
    else:
        pairs = read_release(path, lang, split=split, tokenised=tokenised, axis=axis)
    foreign = pairs.frame["premise"].map_elements(lambda text: not looks_like(text, lang), return_dtype=pl.Boolean)
    if foreign.sum():
        example = pairs.frame["premise"].filter(foreign)[0]
        raise InputError(
            f"{foreign.sum()} of {len(pairs)} premises in {path} do not look like language '{lang}', "
            f"first: '{example}'; set --lang or split the file by language"
        )
    return pairs


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
