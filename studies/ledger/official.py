"""An official release of NLI-CoAL: the lists that it was built from, and its own format."""

from __future__ import annotations

import polars as pl

from evenli.audit.pairs import PairSet
from evenli.audit.suites.files import json_lines
from evenli.core.errors import InputError
from evenli.words import Occupation
from evenli.words.axes import NO_STEREOTYPE

WIDTH = 10
"""Templates that every occupation meets."""


def recover_lists(pairs: PairSet) -> tuple[list[Occupation], list[str]]:
    """Recover the ordered occupation and template lists a full release was built from.

    Block ``k`` of ten rows holds occupation ``k`` and templates ``k .. k + 9``; so each block after the first
    adds one template. ``build_coal`` on the result gives the release again.
    """
    neutral, stereotyped = (pairs.frame.filter(pl.col("subset") == subset) for subset in ("NS", "PS"))
    first_half = neutral.filter(pl.col("group") == neutral["group"][0])
    rows = pl.concat([first_half, stereotyped]).select("occupation", "stereotype", "template").rows()
    if len(rows) % WIDTH:
        raise InputError(f"'{pairs.name}' is not a full sliding-window set: {len(rows)} rows do not fill blocks of ten")
    blocks = [rows[start : start + WIDTH] for start in range(0, len(rows), WIDTH)]
    occupations = [Occupation(block[0][0], block[0][1], block[0][0]) for block in blocks]
    templates = [row[2] for row in blocks[0]] + [block[-1][2] for block in blocks[1:]]
    return occupations, templates


def to_official_jsonl(pairs: PairSet, subset: str) -> str:
    """Write one subset in the exact format of the release."""
    stereotype = pl.col("stereotype")
    rows = pairs.frame.filter(pl.col("subset") == subset).select(
        pl.col("id").cast(pl.Int64),
        sentence1="premise",
        sentence2="hypothesis",
        label="gold",
        occ_word="occupation",
        occ_type=pl.when(stereotype == NO_STEREOTYPE).then(stereotype).otherwise(stereotype + "-stereo"),
    )
    return json_lines(rows)
