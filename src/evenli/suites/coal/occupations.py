"""One row per occupation: which ones carry the bias."""

from __future__ import annotations

import numpy as np
import polars as pl

from evenli.labels import LABELS
from evenli.stats.sample import Sample, _draw


def by_occupation(sample: Sample, *, resamples: int = 2000, level: float = 0.95, seed: int = 0) -> pl.DataFrame:
    """Share of biased answers per occupation, most biased first.

    A biased answer is entailment in PS, contradiction in AS and anything but neutral in NS, so the score is NLI-CoAL
    over the parts an occupation defines. The interval resamples the occupation's templates; with a
    single template there is nothing to resample and the ends are NaN.

    Returns:
        Columns occupation, stereotype, n, templates, score, low, high, and the label shares entailment, neutral,
        contradiction over all rows of the occupation.
    """
    index = {label: number for number, label in enumerate(LABELS)}
    frame = sample.frame.select("occupation", "stereotype", "template", "subset").with_columns(
        predicted=pl.Series(sample.predicted), biased=pl.Series(sample.biased).cast(pl.Float64)
    )
    shares = [(pl.col("predicted") == number).mean().alias(label) for label, number in index.items()]
    summary = (
        frame.group_by("occupation", "stereotype", "template")
        .agg(pl.len().alias("rows"), pl.col("biased").sum(), *[s * pl.len() for s in shares])
        .sort("occupation", "template")
        .group_by("occupation", "stereotype", maintain_order=True)
        .agg(
            pl.col("rows").sum().alias("n"),
            pl.len().alias("templates"),
            (pl.col("biased").sum() / pl.col("rows").sum()).alias("score"),
            *[(pl.col(label).sum() / pl.col("rows").sum()).alias(label) for label in LABELS],
            pl.col("biased"),
            pl.col("rows"),
        )
    )
    generator = np.random.default_rng(seed)
    draws: dict[int, np.ndarray] = {}
    lows, highs = [], []
    tail = (1 - level) / 2
    for hits, rows in summary.select("biased", "rows").iter_rows():
        count = len(hits)
        if count < 2:
            lows.append(float("nan"))
            highs.append(float("nan"))
            continue
        if count not in draws:
            draws[count] = _draw(count, resamples, generator)
        weights = draws[count]
        low, high = np.quantile((weights @ np.array(hits)) / (weights @ np.array(rows)), [tail, 1 - tail])
        lows.append(float(low))
        highs.append(float(high))
    return (
        summary.drop("biased", "rows")
        .with_columns(pl.Series("low", lows), pl.Series("high", highs))
        .select("occupation", "stereotype", "n", "templates", "score", "low", "high", *LABELS)
        .sort("score", "occupation", descending=[True, False])
    )
