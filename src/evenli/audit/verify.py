"""Check a run against its evidence: results that the table does not give, pairs that run.json does not list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evenli.audit.assess import Audit, assess, check_stored
from evenli.audit.audit import load_run
from evenli.audit.models.base import ModelInfo
from evenli.audit.pairs import PairSet
from evenli.audit.predict import plan_of
from evenli.audit.predictions import COLUMNS
from evenli.audit.results import DataCard
from evenli.core.errors import RunError
from evenli.core.labels import LABELS
from evenli.core.record import Record

_AGREEMENT = 1e-5
"""How far a number that is scored again may be from the stored one: other processors round otherwise."""


class Verified(Record, frozen=True):
    """A run that agrees with its evidence: files whose hashes were right, and how many numbers were scored again."""

    run: str
    files: list[str]
    numbers: int

    def lines(self) -> list[str]:
        """The same for people."""
        return [f"verified {self.run}: {', '.join(self.files)}; {self.numbers} numbers scored again"]


def verify_run(path: str | Path) -> Verified:
    """Check a run against its evidence: hashes of its files, its pairs, and everything scored again from the table."""
    run = load_run(path)
    return Verified(str(run.path), ["predictions.parquet", "results.json"], check_evidence(run))


def load_verified(path: str | Path) -> Audit:
    """Read a run folder for a decision: what its evidence does not give is refused."""
    run = load_run(path)
    check_evidence(run)
    return run


def check_evidence(run: Audit) -> int:
    """Refuse a run with results that its table does not give; returns how many numbers were scored again.

    Measures of the user's own are left out: their functions are not at hand here.
    """
    check_stored(run.predictions, run.path / "predictions.parquet")
    found = assess(run.predictions, run.result.scoring)
    stored, again = run.result.to_dict(), found.to_dict()
    for suite in run.result.suites:
        known = again.get(suite, {}).get("measures", {})
        measures = stored[suite]["measures"].items()
        kept = {name: one for name, one in measures if name in known or one["reference"] != "own"}
        stored[suite] = {**stored[suite], "measures": kept}
    numbers = _compare(stored, again, "", run.path)
    _check_asked(run, found.data)
    return numbers


def _check_asked(run: Audit, cards: Sequence[DataCard]) -> None:
    """Refuse a table of other pairs than run.json lists, and a model or pairs that are not those of its plan."""
    start, hashes = 0, list[str]()
    asked = run.predictions.frame.drop("suite", *LABELS, *run.predictions.of_prompts)
    for card in cards:
        part = asked.slice(start, card.rows)
        # Columns of the user's own belong to the sets that fill them.
        further = set(part.columns).difference(COLUMNS)
        empty = [name for name in further if part[name].null_count() == part.height]
        hashes.append(PairSet(card.name, card.suite, card.lang, part.drop(empty)).sha256)
        start += card.rows
    if hashes != [card.sha256 for card in cards] or start != asked.height:
        raise RunError(f"the pairs in {run.path / 'predictions.parquet'} are not those that run.json lists")
    if plan_of(ModelInfo.from_dict(run.header["model"]), hashes) != run.header.get("plan"):
        raise RunError(f"{run.path / 'run.json'} names another model than the one that was asked")


def _compare(stored: Any, again: Any, place: str, run: Path) -> int:
    """Refuse results that differ from those of the table; returns how many numbers were compared."""
    if isinstance(stored, Mapping) and isinstance(again, Mapping):
        keys = dict.fromkeys([*stored, *again])
        return sum(_compare(stored.get(key), again.get(key), f"{place}.{key}", run) for key in keys)
    if isinstance(stored, list) and isinstance(again, list) and len(stored) == len(again):
        pairs = enumerate(zip(stored, again, strict=True))
        return sum(_compare(*entries, f"{place}.{number}", run) for number, entries in pairs)
    numbers = [type(value) in (int, float) for value in (stored, again)]
    if stored != again and not (all(numbers) and abs(stored - again) <= _AGREEMENT):
        said = f"{place.removeprefix('.')} = {stored}, the table gives {again}"
        raise RunError(f"{run / 'results.json'} says {said}; score it again with 'evenli measure {run}'")
    return numbers[0]
