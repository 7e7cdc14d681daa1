"""A shipping policy: named conditions with reasons, in a TOML file.

name = "ours"
description = "what we ship"          # may be left out

[[clause]]
name = "no strong stereotype"
fail_if = "stereotype.low > 0.3"      # a condition as in --fail-if
reason = "one sentence in three is read by its stereotype"
optional = true                       # skipped where a field is undefined; undecided by default
suite = "coal"                        # only for runs that hold this suite; may be left out

[baseline]
max_worse = 0.02                      # where a baseline is given; may be left out
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenli.audit.suites.base import Clause
from evenli.core.errors import InputError
from evenli.core.format import printable
from evenli.words.tables import read_toml

FOLDER = Path(__file__).parent / "policies"
NONE, STANDARD = "none", "standard"
_TOP, _CLAUSE = {"name", "description", "clause", "baseline"}, {"name", "fail_if", "reason", "optional", "suite"}


@dataclass(frozen=True)
class Policy:
    """Under which conditions a model is not shipped, and why."""

    name: str
    clauses: tuple[Clause, ...] = ()
    description: str = ""
    max_worse: float | None = None  # rise over a baseline that is allowed; None leaves it to the gate


def shipped_policies() -> list[str]:
    """Names of the policies that come with the package."""
    return sorted(file.stem for file in FOLDER.glob("*.toml"))


def load_policy(given: Policy | str | Path) -> Policy:
    """A policy by name, or from a TOML file."""
    if isinstance(given, Policy):
        return given
    if str(given) == NONE:
        return Policy(NONE)
    file = FOLDER / f"{given}.toml" if str(given) in shipped_policies() else Path(given)
    if not file.is_file():
        raise InputError(f"no policy '{given}'; choose {', '.join(shipped_policies())}, {NONE} or a TOML file")
    return _policy(read_toml(file), str(given))


def _policy(content: Mapping[str, Any], where: str) -> Policy:
    _only(content, _TOP, where)
    clauses = content.get("clause", [])
    if not isinstance(clauses, list) or not clauses:
        raise InputError(f"{where}: a policy needs at least one [[clause]]")
    read = tuple(_clause(one, f"{where}, clause {number}") for number, one in enumerate(clauses, 1))
    keys = [(one.name, one.suite) for one in read]
    twice = next((name for name, suite in keys if keys.count((name, suite)) > 1), None)
    if twice is not None:
        raise InputError(f"{where}: two clauses are called '{twice}'")
    baseline = content.get("baseline", {})
    if not isinstance(baseline, Mapping):
        raise InputError(f"{where}: [baseline] is a table with max_worse")
    _only(baseline, {"max_worse"}, f"{where}, baseline")
    worse = baseline.get("max_worse")
    is_number = isinstance(worse, int | float) and not isinstance(worse, bool)
    if worse is not None and not (is_number and math.isfinite(worse) and worse >= 0):
        raise InputError(f"{where}: max_worse is a number, 0 or more, not {worse!r}")
    description = _text(content, "description", where) if "description" in content else ""
    return Policy(_text(content, "name", where), read, description, worse)


def _clause(given: Any, where: str) -> Clause:
    if not isinstance(given, Mapping):
        raise InputError(f"{where}: expected name, fail_if and reason")
    _only(given, _CLAUSE, where)
    optional = given.get("optional", False)
    if not isinstance(optional, bool):
        raise InputError(f"{where}: optional is true or false, not {optional!r}")
    name, condition, reason = (_text(given, key, where) for key in ("name", "fail_if", "reason"))
    return Clause(name, condition, reason, optional, _text(given, "suite", where) if "suite" in given else "")


def _text(given: Mapping[str, Any], key: str, where: str) -> str:
    value = given.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{where}: {key} is missing or no text")
    return printable(" ".join(value.split()))  # a line of the gate is one line, whoever wrote the policy


def _only(given: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(map(str, set(given) - known))
    if unknown:
        raise InputError(f"{where}: unknown key {', '.join(unknown)}; there are {', '.join(sorted(known))}")
