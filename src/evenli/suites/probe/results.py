"""What the probe adds to its measures: a curve over occupations, the labour market, and how it is shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import polars as pl

from evenli.format import number, p_bound, signed
from evenli.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.resources import read_table
from evenli.stats.intervals import Estimates, Scoring
from evenli.stats.sample import Sample
from evenli.suites.base import Section
from evenli.suites.probe.measures import labour_comparison, occupation_curve
from evenli.types import DataCard, Number, Numbers, Record, SuiteResult

_DIGITS = 6
_FEWEST_RANKS = 3
"""Occupations with a percentage of women that a rank correlation needs."""
_LISTED = 5


class ProbeOccupation(Record, frozen=True):
    """Gap dP, share B, ties and signed gap of one occupation, with the percentage of women who work in it."""

    occupation: str
    stereotype: str
    n: int
    dp: Number
    b: Number
    ties: Number
    signed: Number
    women_percent: Number


class Ranks(Record, frozen=True):
    """Rank correlation of two columns over occupations; ``reason`` says why it is undefined."""

    spearman: Number
    p: Number
    kendall: Number
    reason: str = ""


class Labour(Record, frozen=True):
    """The probe set against the labour market."""

    n: int
    size: Ranks
    direction: Ranks
    missing: list[str]


class ProbeResult(SuiteResult, frozen=True, kw_only=True):
    """Results of the probe.

    Attributes:
        rows: Pairs asked, two per premise.
        premises: Premises.
        proportions: Share of each label.
        occupations: One row each, largest gap first.
        labour: Comparison with labour statistics; None where too few occupations have any.
    """

    rows: int
    premises: int
    proportions: Numbers
    occupations: list[ProbeOccupation]
    labour: Labour | None


def summarise(sample: Sample, estimates: Estimates, scoring: Scoring, card: DataCard | None) -> Mapping[str, Any]:
    """The fields of ``ProbeResult`` beside the measures."""
    # Rounded as it is stored: differences in the last digits are noise of the sums and must not decide ranks.
    curve = occupation_curve(sample).with_columns(pl.col(pl.Float64).round(_DIGITS))
    curve = curve.sort("dp", "occupation", descending=[True, False])
    women = {row["occupation"].lower(): float(row["women_percent"]) for row in read_table("cps_2019.csv")}
    named = curve.iter_rows(named=True)
    rows = [ProbeOccupation(**row, women_percent=women.get(row["occupation"].lower(), math.nan)) for row in named]
    is_comparable = sum(not math.isnan(row.women_percent) for row in rows) >= _FEWEST_RANKS
    labour = Labour.from_dict({**asdict(labour_comparison(curve, women))}) if is_comparable else None
    return {
        "rows": sample.frame.height,
        "premises": sample.paired.first.frame.height,
        "proportions": {label: float(sample.rate(label)) for label in LABELS},
        "occupations": rows,
        "labour": labour,
    }


def statement(result: SuiteResult) -> str:
    """One sentence where a run has no verdict."""
    gap, direction = (result.measures[name].shown for name in ("probe_dp", "probe_b"))
    return (
        f"On the probe the two genders differ by dP {gap}, and the gender that dominates the occupation is the more "
        f"entailed one for B {direction} of the premises."
    )


def sections(result: ProbeResult, card: DataCard | None) -> list[Section]:
    """Heading, slices by dominant gender, largest gaps, the labour market."""
    shares = ", ".join(
        f"{label} {number(result.proportions[label], 2)}" for label in (ENTAILMENT, CONTRADICTION, NEUTRAL)
    )
    heading = f"Entailment probe ({result.premises:,} premises, both genders asked of each, {shares})"
    lines = []
    for group in result.measures["probe_dp"].by_stereotype:
        values = ", ".join(
            f"{result.measures[name].title.partition(',')[0]} {result.measures[name].by_stereotype[group].shown}"
            for name in ("probe_s", "probe_dp", "probe_b")
        )
        lines.append(f"{group}-dominated occupations: {values}")
    lines.append("S, dP and B leave neutral out, and are 100 times as large in the paper.")
    gaps = ", ".join(_gap(row) for row in result.occupations[:_LISTED])
    lines.append(f"Largest gaps dP (and the likelier gender): {gaps}")
    labour = result.labour
    if labour is None:
        lines.append("Labour market: too few occupations have a known share of women.")
    else:
        missing = f"; without {', '.join(labour.missing)}" if labour.missing else ""
        lines.append(
            f"Labour market (CPS 2019, {labour.n} occupations{missing}): gap against imbalance {_ranks(labour.size)}; "
            f"P_f - P_m against the share of women {_ranks(labour.direction)}"
        )
    return [Section(heading, lines=lines)]


def _gap(row: ProbeOccupation) -> str:
    group = "" if not row.signed else " (female)" if row.signed > 0 else " (male)"
    return f"{row.occupation} {number(row.dp, 2)}{group}"


def _ranks(ranks: Ranks) -> str:
    if ranks.reason:
        return f"undefined ({ranks.reason})"
    return f"Spearman {signed(ranks.spearman, 2)} (p {p_bound(ranks.p)}), Kendall {signed(ranks.kendall, 2)}"
