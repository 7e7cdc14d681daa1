"""Samples with the label shares or probabilities that a paper prints, so that our measures can be applied to them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from evenli.labels import ENTAILMENT, LABELS
from evenli.pairs import PAIR_COLUMNS
from evenli.predictions import Predictions
from evenli.stats.sample import Sample

SUBSETS = ("PS", "AS", "NS")


def sample_of_shares(row: Mapping[str, str | float], sizes: Sequence[int]) -> Sample:
    """A sample with given label shares: one row per subset and label, weighted by its share of the set.

    Args:
        row: ``ps_e``, ``ps_c`` … ``ns_n``; other columns are ignored.
        sizes: Pairs in PS, AS and NS.
    """
    rows, weights = [], []
    for subset, size in zip(SUBSETS, sizes, strict=True):
        printed = [float(row[f"{subset.lower()}_{label[0]}"]) for label in LABELS]
        # Printed shares sum to 1 only up to rounding.
        for index, share in enumerate(printed):
            rows.append((subset, *(float(i == index) for i in range(3))))
            weights.append(share / sum(printed) * size)
    return _weighted("coal", pl.DataFrame(rows, schema=["subset", *LABELS], orient="row"), weights)


def sample_of_split(shares: Mapping[str, float], male: float, female: float) -> Sample:
    """A sample with given dP and B per half: in each, one premise follows the dominant gender and one does not.

    Args:
        shares: ``dP_male``, ``dP_female``, ``B_male``, ``B_female`` from 0 to 1.
        male: Weight of the occupations men dominate.
        female: Weight of the occupations women dominate.
    """
    rows, weights = [], []
    for dominant, size in (("male", male), ("female", female)):
        gap, share = shares[f"dP_{dominant}"], shares[f"B_{dominant}"]
        for sign, weight in ((1, share), (-1, 1 - share)):
            for group in ("female", "male"):
                probability = 0.5 + (1 if group == dominant else -1) * sign * gap / 2
                # With the other two logits at 0 and neutral left out, the margin is the log odds.
                margin = math.log(probability / (1 - probability))
                rows.append((f"{dominant}{sign}-{group}", dominant, dominant, group, margin))
                weights.append(size * weight)
    columns = ["id", "occupation", "stereotype", "group", ENTAILMENT]
    return _weighted("probe", pl.DataFrame(rows, schema=columns, orient="row"), weights)


def _weighted(suite: str, frame: pl.DataFrame, weights: Sequence[float]) -> Sample:
    """The rows as predictions of a suite; texts that are not given are null, logits zero."""
    texts = [pl.lit(None, pl.String).alias(name) for name in PAIR_COLUMNS if name not in frame.columns]
    logits = [pl.lit(0.0).alias(label) for label in LABELS if label not in frame.columns]
    table = Predictions(frame.with_columns(pl.lit(suite).alias("suite"), *texts, *logits))
    return Sample(table, np.array(weights, dtype=np.float32))
