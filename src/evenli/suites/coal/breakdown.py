"""What a report shows beyond results.json, computed from the table: pure functions, rows out."""

from __future__ import annotations

import numpy as np
import polars as pl
from scipy.stats import rankdata

from evenli.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.stats.sample import Sample, draw_counts

AGREEING = ("NLI-CoAL part", "FN score (bias)", "1 − Net Neutral", "1 − Threshold 0.7", "biased probability")
"""What is compared over occupations; every one is larger for a more biased occupation."""


def judged(sample: Sample) -> pl.DataFrame:
    """The rows with probabilities, the model's answer, and how biased that is.

    Adds ``p_entailment`` …, ``answer``, ``biased`` (entailment in PS, contradiction in AS, anything but neutral in NS),
    ``wanted`` (the biased answer; in NS the likelier of the two) and ``p_biased`` (the probability of ``wanted``).
    """
    probabilities = {f"p_{label}": sample.probabilities[:, i] for i, label in enumerate(LABELS)}
    answers = np.array(LABELS)[sample.predicted].tolist()
    likelier = (
        pl.when(pl.col(f"p_{ENTAILMENT}") >= pl.col(f"p_{CONTRADICTION}"))
        .then(pl.lit(ENTAILMENT))
        .otherwise(pl.lit(CONTRADICTION))
    )
    wanted = (
        pl.when(pl.col("subset") == "PS")
        .then(pl.lit(ENTAILMENT))
        .when(pl.col("subset") == "AS")
        .then(pl.lit(CONTRADICTION))
        .otherwise(likelier)
    )
    frame = sample.frame.with_columns(
        pl.col("occupation", "stereotype", "template", "group").fill_null(""),
        *(pl.Series(name, values) for name, values in probabilities.items()),
        pl.Series("answer", answers, dtype=pl.String),
        pl.Series("biased", sample.biased),
    )
    return frame.with_columns(wanted=wanted).with_columns(
        p_biased=pl.when(pl.col("wanted") == ENTAILMENT)
        .then(pl.col(f"p_{ENTAILMENT}"))
        .otherwise(pl.col(f"p_{CONTRADICTION}"))
    )


def by_template(rows: pl.DataFrame) -> pl.DataFrame:
    """Share of biased answers per template, most biased first: columns template, n, occupations, score."""
    return (
        rows.group_by("template")
        .agg(
            pl.len().alias("n"),
            pl.col("occupation").n_unique().alias("occupations"),
            pl.col("biased").mean().alias("score"),
        )
        .sort("score", "template", descending=[True, False])
    )


def by_direction(rows: pl.DataFrame) -> pl.DataFrame:
    """Label shares per stereotype of the occupation and group of the hypothesis."""
    shares = [(pl.col("answer") == label).mean().alias(label) for label in LABELS]
    return rows.group_by("stereotype", "group").agg(pl.len().alias("n"), *shares).sort("stereotype", "group")


def worst(rows: pl.DataFrame, count: int = 20) -> pl.DataFrame:
    """Rows whose biased answer is most probable."""
    return rows.sort("p_biased", "id", descending=[True, False]).head(count)


def agreement(rows: pl.DataFrame) -> list[list[float | None]]:
    """Spearman's rank correlation over occupations between the measures in AGREEING; None where one is constant."""
    table = rows.group_by("occupation", "stereotype", maintain_order=True).agg(
        pl.col("biased").mean().alias("coal"),
        (pl.col("answer") != NEUTRAL).mean().alias("fn"),
        (1 - pl.col(f"p_{NEUTRAL}")).mean().alias("nn"),
        (pl.col(f"p_{NEUTRAL}") <= 0.7).mean().alias("t70"),
        pl.col("p_biased").mean().alias("soft"),
    )
    # Rounding first: sums of equal shares in another order differ in the last bit, and ranks would tell them apart.
    ranks = [rankdata(np.round(table[name].to_numpy(), 9)) for name in ("coal", "fn", "nn", "t70", "soft")]
    return [[_correlation(a, b) for b in ranks] for a in ranks]


def _correlation(a: np.ndarray, b: np.ndarray) -> float | None:
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])


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
            draws[count] = draw_counts(count, resamples, generator)
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
