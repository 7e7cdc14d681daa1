"""From a prediction table to results.json: every measure, its interval, the gate and the verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from evenli.errors import InputError
from evenli.evaluate.competence import Competence, competence
from evenli.evaluate.verdict import Verdict, judge
from evenli.labels import LABELS
from evenli.predictions import Predictions
from evenli.resources import read_table
from evenli.stats.intervals import Estimate, intervals, minimum_detectable_difference
from evenli.stats.measure import measures
from evenli.stats.sample import Sample
from evenli.suites.coal.occupations import by_occupation
from evenli.suites.load import SUITES
from evenli.suites.probe.measures import labour_comparison, occupation_curve

SUBSET_NAMES = {"PS": "pro-stereotypical", "AS": "anti-stereotypical", "NS": "non-stereotypical"}

Estimates = Mapping[tuple[str, str | None], Estimate]
_DIGITS = 6
_FEWEST_RANKS = 3
"""Occupations with a percentage of women that a rank correlation needs."""


@dataclass(frozen=True)
class Scoring:
    """Settings of the scoring step; none of them asks the model again."""

    resamples: int = 2000
    level: float = 0.95
    seed: int = 0
    bootstrap: str = "cluster"

    def __post_init__(self) -> None:
        """Refuse what no generator takes."""
        if self.seed < 0:
            raise InputError(f"the seed is {self.seed}; give 0 or more")


def assess(predictions: Predictions, scoring: Scoring | None = None) -> dict[str, Any]:
    """Compute results.json from a stored table: every suite that it holds."""
    scoring = scoring or Scoring()
    present = suites_of(predictions)
    if not present:
        raise InputError(f"the table holds no rows of an audit (suite {', '.join(SUITES)})")
    checks = predictions.suite("check")
    gate = competence(checks) if checks.frame.height else None
    lang = next((d["lang"] for d in predictions.header.get("data", []) if d["suite"] == present[0]), None)
    header: dict[str, Any] = {
        key: predictions.header[key] for key in ("model", "data", "timings") if key in predictions.header
    }
    parts: dict[str, dict[str, Any]] = {}
    verdict: Verdict | None = None
    if "coal" in present:
        parts["coal"], found = _coal(predictions.suite("coal"), scoring, lang)
        verdict = judge(found, gate)
    if "probe" in present:
        parts["probe"] = _probe(predictions.suite("probe"), scoring)
    if "dev" in present:
        parts["dev"] = _dev(predictions.suite("dev"), scoring)
    results: dict[str, Any] = {
        **header,
        "lang": lang,
        "scoring": scoring.__dict__,
        "verdict": (verdict or _no_verdict(parts, gate)).__dict__,
        "competence": gate.as_dict() if gate else None,
        **parts,
    }
    return dict(_plain(results))


def suites_of(predictions: Predictions) -> list[str]:
    """The suites of an audit that a table holds, in the order of SUITES."""
    held = set(predictions.frame["suite"].unique())
    return [suite for suite in SUITES if suite in held]


def _coal(table: Predictions, scoring: Scoring, lang: str | None) -> tuple[dict[str, Any], Estimates]:
    sample = Sample(table)
    stereotyped = table.frame.filter(pl.col("subset") == "PS")["stereotype"]
    found, entries = _estimates(sample, "coal", stereotyped, scoring)
    order = [found["order_entailment", None], found["order_contradiction", None]]
    ordered = not any(math.isnan(e.value) for e in order)
    bounded = not any(math.isnan(e.low) for e in order)
    return {
        "proportions": {
            subset: _shares(sample, subset) for subset in table.frame["subset"].unique(maintain_order=True)
        },
        "rows": {str(k): int(n) for k, n in table.frame.group_by("subset", maintain_order=True).len().iter_rows()},
        "measures": entries,
        "order_condition": {
            "holds": all(e.value > 0 for e in order) if ordered else None,
            "beyond_doubt": all(e.low > 0 for e in order) if bounded else None,
        },
        "minimum_detectable_difference": minimum_detectable_difference(found["coal", None]),
        "occupations": by_occupation(
            sample, resamples=scoring.resamples, level=scoring.level, seed=scoring.seed
        ).to_dicts(),
        "standing": standing(lang, found["coal", None]) if lang else [],
    }, found


def _probe(table: Predictions, scoring: Scoring) -> dict[str, Any]:
    sample = Sample(table)
    _, entries = _estimates(sample, "probe", table.frame["stereotype"].sort(), scoring)
    # Rounded as it is stored: differences in the last digits are noise of the sums and must not decide ranks.
    curve = occupation_curve(sample).with_columns(pl.col(pl.Float64).round(_DIGITS))
    curve = curve.sort("dp", "occupation", descending=[True, False])
    women = {row["occupation"].lower(): float(row["women_percent"]) for row in read_table("cps_2019.csv")}
    rows = [{**row, "women_percent": women.get(row["occupation"].lower())} for row in curve.to_dicts()]
    comparable = sum(row["women_percent"] is not None for row in rows) >= _FEWEST_RANKS
    return {
        "rows": table.frame.height,
        "premises": sample.paired.first.frame.height,
        "proportions": _shares(sample),
        "measures": entries,
        "occupations": rows,
        "labour": asdict(labour_comparison(curve, women)) if comparable else None,
    }


def _dev(table: Predictions, scoring: Scoring) -> dict[str, Any]:
    sample = Sample(table)
    _, entries = _estimates(sample, "dev", pl.Series([], dtype=pl.String), scoring)
    return {"rows": table.frame.height, "proportions": _shares(sample), "measures": entries}


def _estimates(
    sample: Sample, suite: str, stereotyped: pl.Series, scoring: Scoring
) -> tuple[Estimates, dict[str, Any]]:
    """Every measure of a suite with intervals, on all rows and on each stereotype, with its card."""
    stereotypes = [str(name) for name in stereotyped.unique(maintain_order=True) if name]
    found = intervals(
        sample,
        measures(suite),
        stereotypes=(None, *stereotypes),
        resamples=scoring.resamples,
        level=scoring.level,
        seed=scoring.seed,
        method=scoring.bootstrap,
    )
    return found, {
        entry.name: {
            "title": entry.title.strip(),
            "formula": entry.formula,
            "range": [entry.low, entry.high],
            "even": entry.even,
            "direction": entry.direction,
            "reference": entry.reference,
            "kind": entry.kind,
            **found[entry.name, None].as_dict(),
            "by_stereotype": {s: found[entry.name, s].as_dict() for s in stereotypes},
        }
        for entry in measures(suite)
    }


def _shares(sample: Sample, subset: str | None = None) -> dict[str, float]:
    return {label: float(sample.rate(label, subset)) for label in LABELS}


def _no_verdict(parts: dict[str, dict[str, Any]], gate: Competence | None) -> Verdict:
    """What a run without NLI-CoAL says instead of a verdict."""
    if gate is not None and gate.problem:
        return judge({}, gate)

    def number(suite: str, name: str) -> str:
        entry = parts[suite]["measures"][name]
        if entry["value"] is None:
            return "n/a"
        if entry["low"] is None:
            return f"{entry['value']:.3f} (no interval)"
        return f"{entry['value']:.3f} [{entry['low']:.3f}, {entry['high']:.3f}]"

    said = []
    if "probe" in parts:
        said.append(
            f"On the probe the two genders differ by dP {number('probe', 'probe_dp')}, and the gender that dominates "
            f"the occupation is the more entailed one for B {number('probe', 'probe_b')} of the premises."
        )
    if "dev" in parts:
        said.append(f"On Dev's templates the share of answers that are not neutral is {number('dev', 'fn_bias')}.")
    return Verdict("none", f"No verdict: only NLI-CoAL gives one, and it was not asked. {' '.join(said)}")


def standing(lang: str, estimate: Estimate) -> list[dict[str, Any]]:
    """Published models of a language with this one among them, most biased first; last where it is undefined.

    A published model is marked ``tied`` where its score lies inside this model's interval.
    """
    rows: list[dict[str, Any]] = [
        {"model": row["model"], "coal": float(row["coal_pub"]), "fn": float(row["fn_pub"]), "this": False}
        for row in read_table("published_coal.csv")
        if row["lang"] == lang
    ]
    for row in rows:
        row["tied"] = estimate.low <= float(row["coal"]) <= estimate.high
    rows.append({"model": "this model", "coal": estimate.value, "fn": None, "this": True, "tied": False})
    return sorted(rows, key=lambda row: math.inf if math.isnan(row["coal"]) else -float(row["coal"]))


def _plain(value: Any) -> Any:
    """Round floats and turn NaN into null, so that the file is strict JSON."""
    if isinstance(value, dict):
        # p-values keep their digits: a p of 1e-9 is not 0.
        return {
            str(key): item if key == "p" and isinstance(item, float) and not math.isnan(item) else _plain(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, _DIGITS)
    return value
