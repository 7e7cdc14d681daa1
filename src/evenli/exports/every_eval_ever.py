"""Every Eval Ever, schema 0.3.0: a record of an audit, and beside it a line of JSON for every sentence pair."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

import numpy as np
from msgspec import structs
from scipy.special import softmax

from evenli.audit.audit import Audit
from evenli.audit.report.card import SOURCE
from evenli.audit.results import DataCard
from evenli.core.io import json_text
from evenli.core.labels import LABELS
from evenli.core.record import Estimate, MeasureResult
from evenli.exports.files import single

VERSION = "0.3.0"
_HOW = "two-way cluster-robust over words and templates"


def record(runs: Sequence[Audit]) -> dict[str, str]:
    """The aggregate and the instance-level file, under the names that the collection of the project demands."""
    audit = single(runs, "every-eval-ever")
    info = audit.result.model
    made = str(audit.header.get("created", ""))
    developer, _, name = info.name.rpartition("/")
    developer, name = (re.sub(r"[^\w.-]+", "-", part).strip("-.") or "unknown" for part in (developer, name))
    model = {
        "name": info.title,
        "id": f"{developer}/{name}",
        "developer": developer,
        "additional_details": {
            "deployment_type": "unknown" if info.backend == "chat" else "self_deployed",
            "model_availability": "unknown",
            **{key: str(value) for key, value in info.to_dict().items() if value and key != "labels"},
        },
    }
    # Of the run and not of now: the same run makes the same record.
    moment = f"{datetime.fromisoformat(made).timestamp():.0f}" if made else "0"
    number = str(audit.header.get("manifest_sha256") or audit.header["plan"])
    results = [*_competence(audit), *_measured(audit)]
    about: dict[str, Any] = {"schema_version": VERSION, "evaluation_id": f"evenli/{model['id']}/{number[:16]}"}
    held = {result["evaluation_result_id"] for result in results}
    lines = "".join(
        f"{json.dumps(row, ensure_ascii=False)}\n" for row in _instances(audit, about, str(model["id"]), held)
    )
    unique = UUID(bytes=sha256(f"{number}{lines}".encode()).digest()[:16], version=4)
    path = f"data/evenli/{developer}/{name}/{unique}"
    verdict = {"verdict": audit.verdict.code, "sentence": audit.verdict.sentence}
    content = {
        **about,
        **({"evaluation_timestamp": made} if made else {}),
        "retrieved_timestamp": moment,
        "source_metadata": {
            "source_name": "evenli",
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
            "additional_details": verdict,
        },
        "eval_library": {
            "name": "evenli",
            "version": str(audit.header.get("evenli", "unknown")),
            "additional_details": {"url": SOURCE},
        },
        "model_info": model,
        "evaluation_results": results,
        "detailed_evaluation_results": {
            "format": "jsonl",
            "file_path": f"{path}_samples.jsonl",
            "hash_algorithm": "sha256",
            "checksum": sha256(lines.encode()).hexdigest(),
            "total_rows": lines.count("\n"),
        },
    }
    return {f"{path}.json": json_text(content), f"{path}_samples.jsonl": lines}


def _competence(audit: Audit) -> Iterator[dict[str, Any]]:
    if found := audit.result.competence:
        for name, estimate in (("gold", found.gold), ("control", found.stated)):
            if math.isfinite(estimate.value):
                metric = {"metric_id": "accuracy", "metric_name": "Accuracy", "lower_is_better": False}
                metric |= {"metric_kind": "accuracy", "metric_unit": "proportion", "score_type": "continuous"}
                card = DataCard(f"evenli {name} pairs", "check", audit.result.lang or "?")
                yield _result(f"check.{name}", card, {**metric, "min_score": 0, "max_score": 1}, estimate, {})


def _measured(audit: Audit) -> Iterator[dict[str, Any]]:
    """Every defined measure; those of a suite that says nothing about bias are left out."""
    for suite, result in audit.result.suites.items():
        card = audit.result.data_of(suite) or DataCard("unknown data", suite)
        for name, measure in () if result.problem else result.measures.items():
            if math.isfinite(measure.value):
                metric, estimate = _scored(name, measure)
                details = {"value": f"{measure.value:.6g}", "ideal": f"{measure.ideal:g}", "formula": measure.formula}
                yield _result(f"{suite}.{name}", card, metric, estimate, {**details, "reads": measure.direction})


def _scored(name: str, measure: MeasureResult) -> tuple[dict[str, Any], Estimate]:
    """What is scored: a measure whose best value lies within its range by its distance from that value.

    A record can say that lower or higher is better, and nothing else.
    """
    estimate = Estimate(*(getattr(measure, key) for key in Estimate.__struct_fields__))
    low, high = (sign * math.inf if end is None else end for sign, end in zip((-1, 1), measure.range, strict=True))
    ideal, title, distance = measure.ideal, measure.title.strip(), ""
    if low < ideal < high:
        near, far = sorted((abs(measure.low - ideal), abs(measure.high - ideal)))
        near = 0.0 if measure.low < ideal < measure.high else near
        estimate = structs.replace(estimate, value=abs(measure.value - ideal), low=near, high=far)
        low, high, ideal, distance = 0.0, max(ideal - low, high - ideal), 0.0, ".distance"
        title += f", distance from {measure.ideal:g}"
    metric = {"metric_id": f"evenli.{name}{distance}", "metric_name": title, "lower_is_better": ideal <= low}
    bounds = {"min_score": low, "max_score": high}
    spelled = {
        key: end if math.isfinite(end) else "Infinity" if end > 0 else "-Infinity" for key, end in bounds.items()
    }
    return {**metric, "score_type": "continuous", **spelled}, estimate


def _result(name: str, card: DataCard, metric: dict[str, Any], found: Estimate, details: dict[str, str]) -> Any:
    uncertainty: dict[str, Any] = {"num_samples": found.n}
    if math.isfinite(found.se):
        uncertainty["standard_error"] = {"value": found.se, "method": _HOW}
    if math.isfinite(found.low) and math.isfinite(found.high):
        interval = {"lower": found.low, "upper": found.high, "confidence_level": found.level}
        uncertainty["confidence_interval"] = {**interval, "method": "Wilson" if name.startswith("check.") else _HOW}
    data: dict[str, Any] = {"dataset_name": card.name, "source_type": "url", "url": [SOURCE]}
    told = {"language": card.lang, "sha256": card.sha256, "pairs": f"{card.rows or found.n}"}
    data["additional_details"] = {key: value for key, value in told.items() if value}
    return {
        "evaluation_result_id": name,
        "evaluation_name": f"evenli.{name.partition('.')[0]}",
        "source_data": data,
        "metric_config": metric,
        "score_details": {"score": found.value, "uncertainty": uncertainty, "details": details},
    }


def _instances(audit: Audit, about: dict[str, Any], model: str, held: set[str]) -> Iterator[dict[str, Any]]:
    """A row for every pair; it points at the result of its suite's main measure, where there is one."""
    table = audit.predictions
    shares = softmax(np.asarray(table.logits, dtype=np.float64), axis=1).round(6)
    main = {suite: result.headline or next(iter(result.measures)) for suite, result in audit.result.suites.items()}
    for row, answer, share in zip(table.frame.iter_rows(named=True), table.answers, shares.tolist(), strict=True):
        suite, gold = row["suite"], row["gold"]
        raw = f"Premise: {row['premise']}\nHypothesis: {row['hypothesis']}"
        asked = {"raw": raw, "reference": [gold] if gold else []}
        packed = json.dumps(asked, sort_keys=True, separators=(",", ":")).encode()
        result = f"{suite}.{main.get(suite) or row['subset']}"
        told = {name: row[name] for name in ("subset", "occupation", "stereotype", "template", "group") if row[name]}
        told |= {f"probability.{label}": f"{value:g}" for label, value in zip(LABELS, share, strict=True)}
        found = {"turn_idx": 0, "source": "output.raw", "extracted_value": answer, "is_terminal": True}
        yield {
            **about,
            "model_id": model,
            "evaluation_name": f"evenli.{suite}",
            **({"evaluation_result_id": result} if result in held else {}),
            "sample_id": f"{suite}/{row['id']}",
            "sample_hash": sha256(packed).hexdigest(),
            "interaction_type": "single_turn",
            "input": {**asked, "choices": list(LABELS)},
            "output": {"raw": [answer]},
            "answer_attribution": [{**found, "extraction_method": "most probable label"}],
            "evaluation": {"score": float(answer == gold), "is_correct": answer == gold},
            "metadata": told,
        }
