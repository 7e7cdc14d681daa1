"""CycloneDX 1.6: an audited model with its metrics and the groups at risk; the software that is installed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from importlib import metadata
from typing import Any
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

from evenli.audit.audit import Audit
from evenli.audit.report.card import SOURCE, limits
from evenli.audit.results import DataCard, ModelInfo
from evenli.audit.suites.about import about_axis
from evenli.core.format import capitalised
from evenli.core.io import hash_text, json_text
from evenli.core.labels import LABELS
from evenli.core.record import Estimate
from evenli.exports.files import single

_MITIGATION = (
    "None is part of this audit: it measures a model and does not change it. A gate can refuse a release "
    "(evenli gate); evenli mitigate changes training data and sentence encoders."
)


def ml_bom(runs: Sequence[Audit]) -> dict[str, str]:
    """An ML-BOM of one audit: the model with its model card, and the pair sets that it was asked."""
    audit = single(runs, "cyclonedx")
    sets = {f"data-{number}": card for number, card in enumerate(audit.result.data, 1)}
    components = [_model(audit, list(sets)), *(_data(ref, card) for ref, card in sets.items())]
    about: dict[str, Any] = {"timestamp": audit.header["created"]} if "created" in audit.header else {}
    tool = {"type": "application", "name": "evenli", "version": str(audit.header.get("evenli", "?"))}
    return {"model.cdx.json": json_text(document({**about, "tools": {"components": [tool]}}, components))}


def document(about: dict[str, Any], components: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A bill of materials. Its number is made from its content, so the same content has the same number."""
    content = {"version": 1, "metadata": about, "components": components, **more}
    number = uuid5(NAMESPACE_URL, f"{SOURCE}#{hash_text(json.dumps(content, sort_keys=True))}")
    head = {"$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX"}
    return {**head, "specVersion": "1.6", "serialNumber": f"urn:uuid:{number}", **content}


def installed() -> list[dict[str, Any]]:
    """Every installed distribution as a component, by name."""
    found: dict[str, dict[str, Any]] = {}
    for distribution in metadata.distributions():  # where a name is there twice, Python imports the first
        if distribution.metadata["Name"]:
            component = library(distribution)
            found.setdefault(component["name"], component)
    return [found[name] for name in sorted(found)]


def library(distribution: metadata.Distribution) -> dict[str, Any]:
    """An installed distribution as a component."""
    about = distribution.metadata
    name = re.sub(r"[-_.]+", "-", about["Name"]).lower()  # as the package index spells it
    purl = f"pkg:pypi/{name}@{quote(distribution.version, safe='.')}"
    component: dict[str, Any] = {"type": "library", "bom-ref": purl, "name": name, "version": distribution.version}
    if "Summary" in about:
        component["description"] = about["Summary"]
    if "License-Expression" in about:
        component["licenses"] = [{"expression": about["License-Expression"]}]
    elif named := [text.rpartition(" :: ")[2] for text in about.get_all("Classifier", []) if "License ::" in text]:
        component["licenses"] = [{"license": {"name": text}} for text in named]
    return {**component, "purl": purl}


def _model(audit: Audit, sets: Sequence[str]) -> dict[str, Any]:
    info, result = audit.result.model, audit.result
    component: dict[str, Any] = {"type": "machine-learning-model", "bom-ref": "model", "name": info.name}
    if info.revision:
        component["version"] = info.revision
    if address := _purl(info):
        component["purl"] = address
    parameters = {
        "task": "natural language inference",
        "datasets": [{"ref": name} for name in sets],
        "inputs": [{"format": "two texts: premise and hypothesis"}],
        "outputs": [{"format": ", ".join(LABELS)}],
    }
    about = about_axis(audit.header)
    problems = {found.problem: capitalised(found.problem) for found in result.suites.values() if found.problem}
    told = [" ".join(capitalised(limits(audit)).split()), *about.assumptions, *problems.values()]
    told += [note for card in result.data for note in card.notes]
    said = [cause.label for cause in result.verdict.causes]
    harms = " ".join(filter(None, (about.harm, f"In this audit: {'; '.join(said) or result.verdict.sentence}")))
    groups = sorted(set(audit.predictions.frame["group"].drop_nulls()))
    assessed = [{"groupAtRisk": name, "harms": harms, "mitigationStrategy": _MITIGATION} for name in groups]
    facts = {"verdict": result.verdict.code, "verdict.sentence": result.verdict.sentence}
    facts |= {"level": f"{result.scoring.level:g}", "backend": info.backend, "fingerprint": info.fingerprint}
    facts |= {"run": str(audit.header.get("manifest_sha256", ""))}
    component["modelCard"] = {
        "modelParameters": parameters,
        "quantitativeAnalysis": {"performanceMetrics": _metrics(audit)},
        "considerations": {"technicalLimitations": list(dict.fromkeys(told)), "fairnessAssessments": assessed},
        "properties": _properties(facts),
    }
    return component


def _purl(info: ModelInfo) -> str:
    """The package address of a model on the hub; empty for any other, whose files only its owner has."""
    name = info.spec.partition("@")[0]
    is_known = info.backend == "hf" and info.revision and re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name)
    return f"pkg:huggingface/{name}@{info.revision.lower()}" if is_known else ""


def _metrics(audit: Audit) -> list[dict[str, Any]]:
    """Every defined number with its interval; those of a suite that says nothing about bias are left out."""
    estimates: list[tuple[str, str, Estimate]] = []
    if competence := audit.result.competence:
        estimates += [("accuracy", "gold pairs", competence.gold), ("accuracy", "group stated", competence.stated)]
    for suite, result in audit.result.suites.items():
        for name, measure in () if result.problem else result.measures.items():
            estimates.append((name, suite, measure))
            estimates += [(name, f"{suite}, stereotype {part}", found) for part, found in measure.by_stereotype.items()]
    listed = []
    for name, part, estimate in estimates:
        ends = {"lowerBound": estimate.low, "upperBound": estimate.high}
        if math.isfinite(estimate.value):
            metric: dict[str, Any] = {"type": name, "value": f"{estimate.value:.6g}", "slice": part}
            if all(map(math.isfinite, ends.values())):
                metric["confidenceInterval"] = {end: f"{value:.6g}" for end, value in ends.items()}
            listed.append(metric)
    return listed


def _data(ref: str, card: DataCard) -> dict[str, Any]:
    facts = {"suite": card.suite, "language": card.lang, "pairs": f"{card.rows}", "sha256": card.sha256}
    told = {"type": "dataset", "name": card.name, "contents": {"properties": _properties(facts)}}
    return {"type": "data", "bom-ref": ref, "name": card.name, "description": card.source, "data": [told]}


def _properties(facts: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": f"evenli:{name}", "value": value} for name, value in facts.items() if value]
