"""Values with intervals: one function adds uncertainty to any measure, from outside."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from evenli.errors import InputError
from evenli.stats.measure import Measure
from evenli.stats.proportion import wilson as wilson
from evenli.stats.sample import Sample, Values, weight_chunks

POWER_FACTOR = 1.959964 + 0.841621
"""z of a two-sided 5 % test plus z of 80 % power."""
UNDEFINED = 0.01
"""Largest share of undefined resamples that may be left out of an interval; beyond it there is none."""


@dataclass(frozen=True)
class Estimate:
    """A value, its interval and what it rests on; an undefined value or interval is NaN with a note."""

    value: float
    low: float
    high: float
    se: float
    level: float
    n: int
    clusters: dict[str, int]
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; NaN becomes null."""
        numbers = {key: _finite(getattr(self, key)) for key in ("value", "low", "high", "se")}
        return {**numbers, "level": self.level, "n": self.n, "clusters": self.clusters, "note": self.note}


def intervals(
    sample: Sample,
    measures: Sequence[Measure],
    *,
    stereotypes: Sequence[str | None] = (None,),
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
    method: str = "cluster",
) -> dict[tuple[str, str | None], Estimate]:
    """Estimate every measure on every slice, all from the same resamples.

    Args:
        sample: Unweighted sample of one suite.
        measures: What to estimate.
        stereotypes: Slices; None is everything.
        resamples: Bootstrap resamples.
        level: Coverage of the percentile interval.
        seed: Seed of the bootstrap.
        method: ``cluster`` (two-way over occupations and templates) or ``row`` (naive, for comparison).
    """
    if method not in {"cluster", "row"}:
        raise InputError(f"no bootstrap '{method}'; choose cluster or row")
    if resamples < 100:
        raise InputError(f"{resamples} resamples are too few for an interval; use at least 100")
    frame, nan = sample.frame, float("nan")
    parts = {name: frame if name is None else frame.filter(frame["stereotype"] == name) for name in stereotypes}
    reasons = {name: nothing_to_resample(part, method) for name, part in parts.items()}
    values = {(entry.name, name): float(entry(sample, name)) for name in parts for entry in measures}
    wanted = [
        (entry, name)
        for name in parts
        for entry in measures
        if not (reasons[name] or math.isnan(values[entry.name, name]))
    ]
    drawn: dict[tuple[str, str | None], list[Values]] = {(entry.name, name): [] for entry, name in wanted}
    chunks = weight_chunks(frame, resamples, np.random.default_rng(seed), method) if wanted else iter(())
    for resampled in map(sample.weighted, chunks):
        for entry, name in wanted:
            drawn[entry.name, name].append(entry(resampled, name))
        del resampled  # its weights need not wait for the next chunk
    read = {
        (entry.name, name): part.filter(pl.col("subset").is_in(entry.subsets)) if entry.subsets else part
        for name, part in parts.items()
        for entry in measures
    }
    found = {}
    for (measure, name), value in values.items():
        low, high, se = nan, nan, nan
        if math.isnan(value):
            note = "undefined: this slice has no rows that the formula needs"
        elif reasons[name]:
            note = reasons[name]
        else:
            usable, note = defined(np.concatenate(drawn[measure, name]))
            if usable.size:
                low, high = (float(end) for end in np.quantile(usable, [(1 - level) / 2, (1 + level) / 2]))
                se = float(usable.std(ddof=1))
        rows = read[measure, name]
        clusters = {label: rows[column].n_unique() for label, column in _CLUSTERS}
        found[measure, name] = Estimate(value, low, high, se, level, rows.height, clusters, note)
    return found


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
        return drawn[
            :0
        ], f"no interval: undefined in {share:.1%} of the resamples, at most {UNDEFINED:.0%} may be left out"
    return drawn[~missing], f"{share:.2%} of the resamples are undefined and left out" if share else ""


def minimum_detectable_difference(estimate: Estimate) -> float:
    """Smallest true difference to another audit of the same kind that a 5 % test finds with 80 % power.

    ``(z_0.975 + z_0.8) * sqrt(2) * se``, for two independent runs; a paired comparison detects less.
    """
    return float(POWER_FACTOR * np.sqrt(2) * estimate.se)


_CLUSTERS = (("occupations", "occupation"), ("templates", "template"))


def _finite(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 6)
