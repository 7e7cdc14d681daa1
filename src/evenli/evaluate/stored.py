"""A finished run, read back from its folder, and scored again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from evenli.errors import RunError
from evenli.evaluate.assess import OwnMeasure, Scoring, assess, keep_own
from evenli.evaluate.audit import Audit
from evenli.evaluate.run_dir import SCHEMA, RunFolder, read_header
from evenli.predictions import Predictions
from evenli.registry import SUITES
from evenli.store import read_manifest
from evenli.suites.base import get_suite
from evenli.types import AuditResult


def load_run(path: str | Path, *, needs: str | None = None) -> Audit:
    """Read a run folder; an incomplete one is refused with what is missing and what to do.

    Args:
        path: The run folder.
        needs: Suite that the run must hold; None for any.
    """
    folder = Path(path)
    predictions = _predictions(folder)
    held = [name for name in SUITES if any(card["suite"] == name for card in predictions.header.get("data", []))]
    if not held:
        names = ", ".join(str(card.get("suite")) for card in predictions.header.get("data", []))
        raise RunError(
            f"{folder} is not an audit: it holds predictions on {names or 'nothing'}; make one with 'evenli audit'"
        )
    if needs is not None and needs not in held:
        wanted = ",".join(name for name in SUITES if name in {needs, *held})
        raise RunError(
            f"the run in {folder} holds suite {', '.join(held)} only, and this needs {get_suite(needs).title}; audit "
            f"the model with '--suite {wanted}'"
        )
    return Audit(_read_results(folder, held), predictions, folder)


def measure_run(path: str | Path, scoring: Scoring | None = None, measures: Sequence[OwnMeasure] = ()) -> Audit:
    """Score a stored run again, without the model, and replace its results.json.

    Measures of your own that were computed before stay, with a note, where they are not given again.

    Args:
        path: The run folder.
        scoring: How intervals are made.
        measures: Measures of your own.
    """
    folder = RunFolder(path)
    if not (folder.path / "run.json").is_file():
        raise RunError(f"{path} is not a run folder: no run.json in it")
    with folder.locked():
        predictions = _predictions(folder.path)
        result = assess(predictions, scoring, measures)
        with suppress(OSError, ValueError, RunError):  # missing or damaged: this call makes it anew
            result = keep_own(result, AuditResult.from_dict(json.loads(folder.results_file.read_text("utf-8"))))
        folder.write_results(result.to_dict())
    return Audit(result, predictions, folder.path)


def _predictions(folder: Path) -> Predictions:
    """The table of a complete run, with run.json as its header."""
    if not folder.is_dir():
        raise RunError(f"there is no run folder {folder}; make one with 'evenli audit MODEL -o {folder}'")
    if not (folder / "run.json").is_file():
        raise RunError(f"{folder} is not a run folder: run.json is missing; give the folder that 'evenli audit' wrote")
    header = read_header(folder / "run.json")
    if header.get("status") != "complete":
        raise RunError(f"the run in {folder} is not complete; run its audit command again to finish it")
    table = folder / "predictions.parquet"
    if not table.is_file():
        raise RunError(f"{table} is missing although the run is complete; delete {folder} and audit the model again")
    return Predictions.read(table, header)


def _read_results(folder: Path, suites: Sequence[str]) -> AuditResult:
    file = folder / "results.json"
    advice = f"make it anew with 'evenli measure {folder}'"
    if not file.is_file():
        raise RunError(f"{file} is missing; {advice}")
    try:
        result = AuditResult.from_dict(read_manifest(file, kind="prediction run", schema=SCHEMA))
    except RunError as error:
        raise RunError(f"{file} cannot be read ({error}); {advice}") from error
    missing = [name for name in suites if name not in result.suites]
    if missing:
        raise RunError(f"{file} lacks {', '.join(missing)}; {advice}")
    return result
