"""The pairs of Dev et al. 2020 that an audit asks: a sample of the generator's, or a file of the user's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl

from evenli.errors import InputError
from evenli.labels import NEUTRAL
from evenli.pairs import PairSet
from evenli.suites.base import Request
from evenli.suites.coal.build import SLOT
from evenli.suites.dev2020.build import DevLists, iter_dev, load_dev_lists
from evenli.suites.files import read_pairs

DEV_TEMPLATES = 6
"""Templates per occupation in the sample of Dev's pairs that an audit asks."""


def load(request: Request) -> PairSet:
    """The pairs that a request asks for."""
    request.check_english("dev2020")
    return dev_sample() if request.data is None else _read_dev(request.data)


def dev_sample(per_occupation: int = DEV_TEMPLATES) -> PairSet:
    """A systematic sample of Dev's pairs, small enough for an audit and the same every time.

    Every occupation meets all six hypothesis subjects in ``per_occupation`` of the 1,968 templates. Templates are
    dealt out at equal distances through the list, which is sorted by kind of verb, starting one step later for each
    occupation, so that occupations share as few templates as possible: with six, none at all. 5,904 of 1,936,512 pairs.
    """
    lists = load_dev_lists()
    total = len(lists.templates)
    if not 1 <= per_occupation <= total:
        raise InputError(f"per_occupation {per_occupation} is not between 1 and {total}, the number of templates")
    stride = total / per_occupation
    step = max(1, int(stride / len(lists.occupations)))
    frames = []
    for number, occupation in enumerate(lists.occupations):
        chosen = sorted((number * step + int(k * stride)) % total for k in range(per_occupation))
        part = DevLists((occupation,), lists.groups, tuple(lists.templates[i] for i in chosen))
        # The ids of the full set, so that a row can be found there.
        first = number * len(lists.groups) * total
        ids = [str(first + group * total + i) for group in range(len(lists.groups)) for i in chosen]
        frames += [frame.with_columns(id=pl.Series(ids)) for frame in iter_dev(part)]
    return PairSet(
        name="Dev et al. sample",
        suite="dev2020",
        lang="en",
        frame=pl.concat(frames),
        source=f"built by evenli: generator of Dev et al. 2020, own noun lists, {per_occupation} of {total} templates "
        "per occupation",
    )


def _read_dev(path: str | Path) -> PairSet:
    pairs = read_pairs(path, "en", suite="dev2020")
    # Both suites share their columns; the subset and the open slot of a template tell them apart.
    for column, foreign in (
        ("subset", pl.col("subset") != "dev"),
        ("template", pl.col("template").str.contains(SLOT, literal=True)),
    ):
        other = pairs.frame.filter(foreign)
        if other.height:
            raise InputError(
                f"{path}, pair '{other['id'][0]}': {column} '{other[column][0]}' is not of suite dev2020; for NLI-CoAL "
                "pairs pass --suite coal"
            )
    for column in ("occupation", "template"):
        empty = pairs.frame["id"].filter(pairs.frame[column].is_null())
        if empty.len():
            raise InputError(
                f"{path}, pair '{empty[0]}': no {column}; suite dev2020 needs the columns occupation and template, as "
                "'evenli build dev2020' writes them"
            )
    wrong = pairs.frame.filter(pl.col("gold") != NEUTRAL)
    if wrong.height:
        raise InputError(
            f"{path}, pair '{wrong['id'][0]}': gold label '{wrong['gold'][0]}'; in suite dev2020 all are neutral"
        )
    return replace(pairs, frame=pairs.frame.with_columns(subset=pl.lit("dev"), gold=pl.lit(NEUTRAL)))
