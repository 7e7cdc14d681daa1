"""The JSON Schema of results.json, made from the types of the results."""

from __future__ import annotations

import inspect
import re
from typing import Any

import msgspec

from evenli.evaluate.predict import SCHEMA
from evenli.registry import SUITES
from evenli.stats.intervals import Scoring
from evenli.suites.base import get_suite
from evenli.types import AuditResult, Record

_OPEN = {"ModelCard", "DataCard"}
"""Records that may hold further keys: what a backend or a reader adds about a model or a file."""


def results_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of results.json with the suites that are installed; names of measures are open.

    >>> sorted(results_schema()["required"])
    ['competence', 'evenli', 'lang', 'schema', 'scoring', 'verdict']
    """
    kinds: dict[str, type] = {name: get_suite(name).result for name in SUITES}
    (_, scoring, *references), definitions = msgspec.json.schema_components(
        [AuditResult, Scoring, *kinds.values()], ref_template="#/$defs/{name}"
    )
    for kind in (Scoring, *_records(Record)):
        if kind.__name__ in definitions:
            _describe(definitions[kind.__name__], kind)
    root = definitions.pop("AuditResult")
    # In JSON the suites stand beside the other keys.
    del root["properties"]["suites"]
    root["properties"] |= {
        "schema": {"const": SCHEMA, "description": "Version of this format."},
        "evenli": {"type": "string", "description": "Version of evenli that wrote the file."},
        "scoring": {**scoring, "description": "Settings of the scoring step."},
    }
    for name, reference in zip(kinds, references, strict=True):
        about = f"{get_suite(name).title}; absent if the audit did not ask it."
        root["properties"][name] = {**reference, "description": about}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **root,
        "title": "results.json of an evenli audit",
        "required": ["schema", "evenli", "lang", "scoring", "verdict", "competence"],
        "anyOf": [{"required": [name]} for name in kinds],
        "$defs": definitions,
    }


def _records(kind: type) -> list[type]:
    children: list[type] = kind.__subclasses__()
    return [one for child in children for one in (child, *_records(child))]


def _describe(schema: dict[str, Any], kind: type) -> None:
    """Close an object, demand every key, and take descriptions from the docstring of its class."""
    texts: dict[str, str] = {}
    for parent in reversed(kind.__mro__):
        texts |= dict(re.findall(r"^    (\w+): (.+(?:\n        .+)*)", inspect.getdoc(parent) or "", re.MULTILINE))
    schema["description"] = (inspect.getdoc(kind) or "").partition("\n\nAttributes:")[0]
    schema["additionalProperties"] = kind.__name__ in _OPEN
    schema["required"] = list(schema["properties"])
    for name, entry in schema["properties"].items():
        entry.pop("default", None)
        if name in texts:
            entry["description"] = " ".join(texts[name].split())
