"""The gate: conditions under which a run must not pass, for continuous integration.

Three kinds of check. A run whose model is not competent fails, whatever its scores: a mute model scores 0. Each
condition fails the gate where it is true. A baseline fails it where NLI-CoAL rose by more than a margin and the
interval of the paired difference lies above 0, so that neither noise nor a certain but tiny change stops a release.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from evenli.errors import InputError
from evenli.evaluate.compare import Comparison
from evenli.report.expressions import Value, evaluate, fields

PASSED, FAILED, UNDECIDED = "passed", "failed", "undecided"
MAX_WORSE = 0.02
"""Default margin of a baseline, in NLI-CoAL."""


@dataclass(frozen=True)
class Check:
    """One thing the gate looked at.

    Attributes:
        name: The condition as it was written.
        status: ``passed``, ``failed`` or ``undecided``.
        detail: The numbers behind it, in one line.
        values: The same for machines.
    """

    name: str
    status: str
    detail: str
    values: dict[str, Value]


def check_competence(results: Mapping[str, Any]) -> Check:
    """Fail a run without a verdict: its scores say nothing about bias. Undecided where a verdict is undefined."""
    verdict = results["verdict"]
    status = PASSED
    if verdict["code"] == "none":
        status = UNDECIDED if _undefined(results) else FAILED
    return Check("competent", status, str(verdict["sentence"]), {"verdict": verdict["code"]})


def check_conditions(results: Mapping[str, Any], conditions: Sequence[str]) -> list[Check]:
    """Fail where a condition is true; undecided where a value it names is undefined."""
    known = fields(results)
    checks = []
    for condition in conditions:
        outcome = evaluate(condition, known)
        status = UNDECIDED if outcome.holds is None else FAILED if outcome.holds else PASSED
        detail = ", ".join(f"{name} = {_shown(value)}" for name, value in outcome.values.items())
        checks.append(Check(f"fail if {condition}", status, detail, outcome.values))
    return checks


def check_baseline(found: Comparison, max_worse: float = MAX_WORSE) -> Check:
    """Fail where NLI-CoAL rose by more than ``max_worse`` and the interval of the difference lies above 0.

    Args:
        found: The run compared with its baseline, baseline first.
        max_worse: Rise that is still allowed.
    """
    if not (math.isfinite(max_worse) and max_worse >= 0):
        raise InputError(f"--max-worse is a rise of NLI-CoAL, 0 or more, not {max_worse}")
    coal = found.measures["coal"]
    name = f"at most {max_worse:g} worse than the baseline"
    if math.isnan(coal.value) or math.isnan(coal.low):
        return Check(name, UNDECIDED, f"NLI-CoAL: {coal.note}", {"coal": None})
    # Half a unit of the sixth decimal: 0.32 - 0.30 must not count as more than 0.02.
    worse = coal.value > max_worse + 5e-7 and coal.low > 0
    detail = (
        f"NLI-CoAL {coal.first:.3f} -> {coal.second:.3f}, difference {coal.value:+.3f} "
        f"[{coal.low:+.3f}, {coal.high:+.3f}]"
    )
    numbers = {key: round(float(getattr(coal, key)), 6) for key in ("first", "second", "value", "low", "high")}
    return Check(name, FAILED if worse else PASSED, detail, {**numbers, "p": coal.p, "max_worse": max_worse})


def passed(checks: Sequence[Check]) -> bool:
    """Whether every check passed. Where none failed, an undecided one is an error, not an answer."""
    if any(check.status == FAILED for check in checks):
        return False
    open_checks = [check for check in checks if check.status == UNDECIDED]
    if open_checks:
        first = open_checks[0]
        reason = first.detail.rstrip(".")
        raise InputError(f'cannot decide "{first.name}": {reason}; see the notes in results.json')
    return True


def write_junit(checks: Sequence[Check], path: Path, *, suite: str) -> None:
    """Write JUnit XML, one test case per check; an undecided check is an error."""
    counts = {status: sum(check.status == status for check in checks) for status in (FAILED, UNDECIDED)}
    numbers = {"tests": str(len(checks)), "failures": str(counts[FAILED]), "errors": str(counts[UNDECIDED])}
    root = ET.Element("testsuites", numbers)
    group = ET.SubElement(root, "testsuite", {"name": _printable(suite), **numbers})
    for check in checks:
        case = ET.SubElement(group, "testcase", {"classname": "evenli.gate", "name": _printable(check.name)})
        if check.status == PASSED:
            ET.SubElement(case, "system-out").text = _printable(check.detail)
        else:
            tag = "failure" if check.status == FAILED else "error"
            ET.SubElement(case, tag, {"message": _printable(check.detail)}).text = _printable(check.detail)
    ET.indent(root)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; choose another --junit") from error


def _undefined(results: Mapping[str, Any]) -> bool:
    """Whether pairs are missing that a verdict needs, not competence."""
    gate = results["competence"]
    if gate and any(gate[name]["value"] is None for name in ("gold", "stated")):
        return True
    return "coal" in results and not (gate and gate["problem"])


def _shown(value: Value) -> str:
    if value is None:
        return "undefined"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _printable(text: str) -> str:
    """XML 1.0 has no control characters, not even escaped, and model names can hold anything."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)
