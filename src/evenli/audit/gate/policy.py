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

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, structs

from evenli.audit.suites.base import Clause
from evenli.core.errors import InputError
from evenli.core.format import printable
from evenli.words.tables import read_toml

FOLDER = Path(__file__).parent / "policies"
NONE, STANDARD = "none", "standard"


class Baseline(Struct, frozen=True, forbid_unknown_fields=True):
    """What is allowed where a baseline is given; None leaves it to the gate."""

    max_worse: Annotated[float, Meta(ge=0, le=1e9)] | None = None


class Policy(Struct, frozen=True, forbid_unknown_fields=True, rename={"clauses": "clause"}):
    """Under which conditions a model is not shipped, and why."""

    name: Annotated[str, Meta(pattern=r"\S")]
    clauses: Sequence[Clause] = ()
    description: str = ""
    baseline: Baseline = Baseline()


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
    try:
        policy = msgspec.convert(read_toml(file), Policy)
    except msgspec.ValidationError as error:
        raise InputError(f"{given}: {error}") from error
    keys = [(clause.name, clause.suite) for clause in policy.clauses]
    if not keys:
        raise InputError(f"{given}: a policy needs at least one [[clause]]")
    if twice := next((name for name, suite in keys if keys.count((name, suite)) > 1), None):
        raise InputError(f"{given}: two clauses are called '{twice}'")
    return structs.replace(
        policy, **_texts(policy), clauses=[structs.replace(clause, **_texts(clause)) for clause in policy.clauses]
    )


def _texts(given: Policy | Clause) -> dict[str, str]:
    """Texts in one line each: a line of the gate is one line, whoever wrote the policy."""
    texts = {name: text for name, text in structs.asdict(given).items() if isinstance(text, str)}
    return {name: printable(" ".join(text.split())) for name, text in texts.items()}
