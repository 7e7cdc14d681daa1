"""From a prediction table to results.json: every measure, its interval, the gate and the verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import polars as pl

from evenli.errors import InputError
from evenli.labels import LABELS
from evenli.measures import (
    Estimate,
    Sample,
    by_occupation,
    competence,
    intervals,
    judge,
    measures,
    minimum_detectable_difference,
)
from evenli.predictions import Predictions
from evenli.resources import read_table

SUBSET_NAMES = {"PS": "pro-stereotypical", "AS": "anti-stereotypical", "NS": "non-stereotypical"}


@dataclass(frozen=True)
class Scoring:
    """Settings of the scoring step; none of them asks the model again."""

    resamples: int = 2000
    level: float = 0.95
    seed: int = 0
    bootstrap: str = "cluster"


def assess(predictions: Predictions, scoring: Scoring | None = None) -> dict[str, Any]:
    """Compute results.json from a stored table."""
    scoring = scoring or Scoring()
    table = predictions.suite("coal")
    if table.frame.height == 0:
        raise InputError("the table holds no NLI-CoAL rows (suite coal)")
    checks = predictions.suite("check")
    gate = competence(checks) if checks.frame.height else None
    sample = Sample(table)
    stereotypes = _stereotypes(table.frame)
    found = intervals(
        sample,
        measures("coal"),
        stereotypes=(None, *stereotypes),
        resamples=scoring.resamples,
        level=scoring.level,
        seed=scoring.seed,
        method=scoring.bootstrap,
    )
    verdict = judge(found, gate)
    lang = next((d["lang"] for d in predictions.header.get("data", []) if d["suite"] == "coal"), None)
    header: dict[str, Any] = {
        key: predictions.header[key] for key in ("model", "data", "timings") if key in predictions.header
    }
    order = [found["order_entailment", None], found["order_contradiction", None]]
    results: dict[str, Any] = {
        **header,
        "lang": lang,
        "scoring": scoring.__dict__,
        "verdict": verdict.__dict__,
        "competence": gate.as_dict() if gate else None,
        "coal": {
            "proportions": {
                subset: {label: float(sample.rate(label, subset)) for label in LABELS}
                for subset in table.frame["subset"].unique(maintain_order=True)
            },
            "rows": {str(k): int(n) for k, n in table.frame.group_by("subset", maintain_order=True).len().iter_rows()},
            "measures": {
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
                for entry in measures("coal")
            },
            "order_condition": {
                "holds": all(e.value > 0 for e in order),
                "beyond_doubt": all(e.low > 0 for e in order),
            },
            "minimum_detectable_difference": minimum_detectable_difference(found["coal", None]),
            "occupations": by_occupation(
                sample, resamples=scoring.resamples, level=scoring.level, seed=scoring.seed
            ).to_dicts(),
            "standing": standing(lang, found["coal", None]) if lang else [],
        },
    }
    return dict(_plain(results))


def standing(lang: str, estimate: Estimate) -> list[dict[str, Any]]:
    """Published models of a language with this one among them, most biased first.

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
    return sorted(rows, key=lambda row: -float(row["coal"] or 0))


def _stereotypes(frame: pl.DataFrame) -> list[str]:
    found = frame.filter(pl.col("subset") == "PS")["stereotype"].unique(maintain_order=True)
    return [str(name) for name in found if name]


def _plain(value: Any) -> Any:
    """Round floats and turn NaN into null, so that the file is strict JSON."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 6)
    return value
