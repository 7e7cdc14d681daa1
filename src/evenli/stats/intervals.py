"""Values with intervals: one function adds uncertainty to any measure, from outside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from evenli.errors import InputError
from evenli.stats.measure import Measure
from evenli.stats.proportion import wilson as wilson
from evenli.stats.sample import Sample, Values, weight_chunks
from evenli.types import Estimate as Estimate

POWER_FACTOR = 1.959964 + 0.841621
"""z of a two-sided 5 % test plus z of 80 % power."""
UNDEFINED = 0.01
"""Largest share of undefined resamples that may be left out of an interval; beyond it there is none."""
CLUSTERS = (("occupations", "occupation"), ("templates", "template"))
"""What is counted under which name in an estimate."""
Estimates = Mapping[tuple[str, str | None], Estimate]
"""Estimates by measure and stereotype; None is all occupations."""


@dataclass(frozen=True)
class Scoring:
    """Settings of the scoring step; none of them asks the model again."""

    resamples: int = 2000  # bootstrap resamples
    level: float = 0.95  # coverage of the intervals
    seed: int = 0  # of the bootstrap
    bootstrap: str = "cluster"  # cluster (two-way over occupations and templates) or row (naive, for comparison)
    published: bool = False  # keep words that state a group in our own measures too, as published ones do

    def __post_init__(self) -> None:
        """Refuse settings that give no interval."""
        if self.seed < 0:
            raise InputError(f"the seed is {self.seed}; give 0 or more")
        if self.bootstrap not in {"cluster", "row"}:
            raise InputError(f"no bootstrap '{self.bootstrap}'; choose cluster or row")
        if self.resamples < 100:
            raise InputError(f"{self.resamples} resamples are too few for an interval; use at least 100")


def estimate_measures(
    sample: Sample,
    measures: Sequence[Measure],
    stereotypes: Sequence[str | None] = (None,),
    scoring: Scoring | None = None,
) -> dict[tuple[str, str | None], Estimate]:
    """Estimate every measure on every slice (None is everything), all from the same resamples of one suite."""
    scoring = scoring or Scoring()
    frame = sample.frame
    slices = {name: frame if name is None else frame.filter(frame["stereotype"] == name) for name in stereotypes}
    reasons = {name: nothing_to_resample(part, scoring.bootstrap) for name, part in slices.items()}
    values = {(entry.name, name): float(entry(sample, name)) for name in slices for entry in measures}
    usable = [(entry, name) for name in slices for entry in measures if not reasons[name]]
    wanted = [(entry, name) for entry, name in usable if not math.isnan(values[entry.name, name])]
    resampled = _resample(sample, wanted, scoring)
    estimates = {}
    for name, part in slices.items():
        for entry in measures:
            # n counts the rows that the formula reads, not all rows of the suite.
            rows = part.filter(pl.col("subset").is_in(entry.subsets)) if entry.subsets else part
            clusters = {label: rows[column].n_unique() for label, column in CLUSTERS}
            key = entry.name, name
            low, high, se, note = _interval(values[key], resampled.get(key), reasons[name], scoring.level)
            estimates[key] = Estimate(values[key], low, high, se, scoring.level, rows.height, clusters, note)
    return estimates


def _resample(
    sample: Sample, wanted: Sequence[tuple[Measure, str | None]], scoring: Scoring
) -> dict[tuple[str, str | None], Values]:
    """Values of every measure and slice over all resamples, computed in chunks of resamples."""
    parts: dict[tuple[str, str | None], list[Values]] = {(entry.name, name): [] for entry, name in wanted}
    generator = np.random.default_rng(scoring.seed)
    chunks = weight_chunks(sample.frame, scoring.resamples, generator, scoring.bootstrap) if wanted else iter(())
    for weighted in map(sample.weighted, chunks):
        for entry, name in wanted:
            parts[entry.name, name].append(entry(weighted, name))
        del weighted  # its weights need not wait for the next chunk
    return {key: np.concatenate(values) for key, values in parts.items()}


def _interval(value: float, resampled: Values | None, reason: str, level: float) -> tuple[float, float, float, str]:
    """Ends, standard error and note."""
    nan = math.nan
    if math.isnan(value):
        return nan, nan, nan, "undefined: this slice has no rows that the formula needs"
    if resampled is None:
        return nan, nan, nan, reason
    usable, note = defined(resampled)
    if not usable.size:
        return nan, nan, nan, note
    low, high = (float(end) for end in np.quantile(usable, [(1 - level) / 2, (1 + level) / 2]))
    return low, high, float(usable.std(ddof=1)), note


def nothing_to_resample(part: pl.DataFrame, method: str = "cluster") -> str:
    """Why every resample of these rows would be the same; empty if they differ.

    Occupations are drawn within their stereotype, rows within their subset: one alone is drawn every time.
    """
    if method == "row":
        most = part.group_by("subset").len()["len"].max()
        return "" if part.height == 0 or most != 1 else "no interval: one row per set leaves nothing to resample"
    within = part.group_by("stereotype").agg(pl.col("occupation").n_unique())["occupation"]
    if part["template"].n_unique() != 1 or within.max() != 1:
        return ""
    alone = "one occupation" if within.len() == 1 else "one occupation per stereotype"
    return f"no interval: {alone} and one template leave nothing to resample"


def defined(drawn: Values) -> tuple[Values, str]:
    """The resamples with a value, and a note on the others; none where more than 1 % have no value."""
    missing = np.isnan(drawn)
    share = float(missing.mean())
    if share > UNDEFINED:
        limit = f"at most {UNDEFINED:.0%} may be left out"
        return drawn[:0], f"no interval: undefined in {share:.1%} of the resamples, {limit}"
    return drawn[~missing], f"{share:.2%} of the resamples are undefined and left out" if share else ""


def minimum_detectable_difference(estimate: Estimate) -> float:
    """Smallest true difference to another audit of the same kind that a 5 % test finds with 80 % power.

    ``(z_0.975 + z_0.8) * sqrt(2) * se``, for two independent runs; a paired comparison detects less.
    """
    return float(POWER_FACTOR * np.sqrt(2) * estimate.se)
