"""What a report shows beyond results.json, computed from the table: pure functions, rows out."""

from __future__ import annotations

import numpy as np
import polars as pl
from scipy.stats import rankdata

from evenli.audit.suites.coal.causes import items
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.stats.proportion import wilson
from evenli.stats.sample import Sample

AGREEING = ("NLI-CoAL part", "FN score (bias)", "1 − Net Neutral", "1 − Threshold 0.7", "biased probability")
"""What is compared over occupations; every one is larger for a more biased occupation."""


def judged(sample: Sample) -> pl.DataFrame:
    """The rows with probabilities, the model's answer, and how biased that is.

    Adds ``p_entailment`` …, ``answer``, ``biased`` (entailment in PS, contradiction in AS, anything but neutral in NS),
    ``wanted`` (the biased answer; in NS the likelier of the two), ``p_biased`` (the probability of ``wanted``) and
    ``states_group`` (the occupation is a word such as *businessman*).
    """
    probabilities = {f"p_{label}": sample.probabilities[:, i] for i, label in enumerate(LABELS)}
    answers = pl.Series("answer", list(LABELS)).gather(sample.predicted)
    entailed, contradicted = pl.col(f"p_{ENTAILMENT}"), pl.col(f"p_{CONTRADICTION}")
    subset = pl.col("subset")
    # In NS both answers are biased, so the likelier one is meant.
    is_entailment = (subset == "PS") | ((subset != "AS") & (entailed >= contradicted))
    frame = sample.frame.with_columns(
        pl.col("occupation", "stereotype", "template", "group").fill_null(""),
        *(pl.Series(name, values) for name, values in probabilities.items()),
        answers,
        pl.Series("biased", sample.biased),
        states_group=pl.col("occupation").is_in(items(sample).defining),
    )
    return frame.with_columns(
        wanted=pl.when(is_entailment).then(pl.lit(ENTAILMENT)).otherwise(pl.lit(CONTRADICTION)),
        p_biased=pl.when(is_entailment).then(entailed).otherwise(contradicted),
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
    """Rows whose biased answer is most probable; where the word itself states a group, an answer is no error."""
    return rows.filter(~pl.col("states_group")).sort("p_biased", "id", descending=[True, False]).head(count)


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


def by_occupation(sample: Sample, level: float = 0.95) -> pl.DataFrame:
    """Share of biased answers and of each label per occupation, most biased first.

    The score is NLI-CoAL over the parts an occupation defines. Its interval is Wilson's, about other templates: the two
    rows of a template are not independent, and how many rows one of them is worth is estimated from all occupations
    together, because ten templates alone cannot tell. With a single template there is no interval and the ends are NaN.
    """
    # Templates first: the rows of one template are a cluster, and their spread gives the interval.
    total = pl.col("rows").sum()
    summary = (
        sample.frame.select("occupation", "stereotype", "template")
        .with_columns(predicted=pl.Series(sample.predicted), biased=pl.Series(sample.biased).cast(pl.Float64))
        .group_by("occupation", "stereotype", "template")
        .agg(
            pl.len().alias("rows"),
            pl.col("biased").sum(),
            *((pl.col("predicted") == i).sum().alias(label) for i, label in enumerate(LABELS)),
        )
        .sort("occupation", "template")
        .group_by("occupation", "stereotype", maintain_order=True)
        .agg(
            total.alias("n"),
            pl.len().alias("templates"),
            (pl.col("biased").sum() / total).alias("score"),
            *(pl.col(label).sum() / total for label in LABELS),
            ((pl.col("biased") - pl.col("rows") * pl.col("biased").sum() / total) ** 2).sum().alias("squares"),
        )
    )
    effect = _design_effect(summary.filter(pl.col("templates") > 1))
    ends = [
        wilson(share, n / effect, level) if templates > 1 else (np.nan, np.nan)
        for share, n, templates in summary.select("score", "n", "templates").iter_rows()
    ]
    low, high = zip(*ends, strict=True)
    return (
        summary.with_columns(low=pl.Series(low, dtype=pl.Float64), high=pl.Series(high, dtype=pl.Float64))
        .select("occupation", "stereotype", "n", "templates", "score", "low", "high", *LABELS)
        .sort("score", "occupation", descending=[True, False])
    )


def _design_effect(summary: pl.DataFrame) -> float:
    """How many rows carry as much as one independent row (the design effect), pooled over occupations."""
    score, n, templates, squares = summary.select("score", "n", "templates", "squares").to_numpy().T
    if not n.size:
        return 1.0
    most = float((n / templates).mean())  # all rows of a template give the same answer
    independent = float((score * (1 - score) / n).sum())
    if independent == 0:
        return most
    ratio = float((templates / (templates - 1) * squares / n**2).sum()) / independent
    # The spread of independent rows is itself estimated around estimated shares.
    return float(np.clip(ratio / (1 + ratio / n.mean()), 1 / most, most))
