"""A finished run, read back from its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenli._headers import UNREADABLE, read_versioned, refuse_newer
from evenli.errors import RunError
from evenli.evaluate.run_dir import SCHEMA, read_header
from evenli.predictions import Predictions
from evenli.suites.load import SUITES

SUITE_NAMES = {"coal": "NLI-CoAL", "probe": "the entailment probe", "dev": "the templates of Dev et al."}


@dataclass(frozen=True)
class StoredRun:
    """An audit on disk.

    Attributes:
        path: The run folder.
        header: run.json.
        results: results.json.
        predictions: predictions.parquet.
    """

    path: Path
    header: dict[str, Any]
    results: dict[str, Any]
    predictions: Predictions

    @property
    def model(self) -> str:
        """Display name of the model, with the revision where it has one."""
        return model_name(self.header)

    @property
    def data(self) -> dict[str, Any]:
        """Card of the audited NLI-CoAL pairs."""
        return audited_data(self.header)

    @property
    def suites(self) -> list[str]:
        """The suites it was audited with."""
        return audited_suites(self.header)


def load_run(path: str | Path, *, needs: str | None = "coal") -> StoredRun:
    """Read a run folder; an incomplete one is refused with what is missing and what to do.

    Args:
        path: The run folder.
        needs: Suite that the run must hold; None for any.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise RunError(f"there is no run folder {folder}; make one with 'evenli audit MODEL -o {folder}'")
    if not (folder / "run.json").is_file():
        raise RunError(f"{folder} is not a run folder: run.json is missing; give the folder that 'evenli audit' wrote")
    header = read_header(folder / "run.json")
    if header.get("status") != "complete":
        raise RunError(
            f"the run in {folder} is not complete: predictions.parquet and results.json are missing; run its audit "
            "command again to finish it"
        )
    suites = audited_suites(header)
    if not suites:
        held = ", ".join(str(entry.get("suite")) for entry in header.get("data", []))
        raise RunError(
            f"{folder} is not an audit: it holds predictions on {held or 'nothing'}; make one with 'evenli audit'"
        )
    if needs is not None and needs not in suites:
        raise RunError(
            f"the run in {folder} holds suite {', '.join(suites)} only, and this needs {SUITE_NAMES[needs]}; audit the "
            f"model with '--suite {','.join(sorted([needs, *suites], key=SUITES.index))}'"
        )
    table = folder / "predictions.parquet"
    if not table.is_file():
        raise RunError(f"{table} is missing although the run is complete; delete {folder} and audit the model again")
    if not (folder / "results.json").is_file():
        raise RunError(f"{folder / 'results.json'} is missing; make it with 'evenli measure {folder}'")
    return StoredRun(folder, header, _read_results(folder, suites), Predictions.read(table, header))


def model_name(header: dict[str, Any]) -> str:
    """Display name of the model in run.json or results.json, with the revision where it has one."""
    model = header.get("model", {})
    revision = f"@{model['revision'][:12]}" if model.get("revision") else ""
    return f"{model.get('name', '?')}{revision}"


def audited_data(header: dict[str, Any], suite: str = "coal") -> dict[str, Any]:
    """Card of an audited pair set in run.json or results.json; empty where there is none or no header."""
    return next((dict(entry) for entry in header.get("data", []) if entry.get("suite") == suite), {})


def audited_suites(header: dict[str, Any]) -> list[str]:
    """The suites of an audit that run.json or results.json names, in the order of SUITES."""
    return [suite for suite in SUITES if audited_data(header, suite)]


def _read_results(folder: Path, suites: list[str]) -> dict[str, Any]:
    file = folder / "results.json"
    try:
        results = read_versioned(file)
    except UNREADABLE as error:
        raise RunError(f"{file} cannot be read ({error}); make it anew with 'evenli measure {folder}'") from error
    advice = f"Upgrade evenli, or score it again with 'evenli measure {folder}'"
    refuse_newer(results, SCHEMA, made=file, advice=advice)
    missing = [key for key in ("verdict", "competence", *suites) if key not in results]
    if missing:
        raise RunError(f"{file} lacks {', '.join(missing)}; make it anew with 'evenli measure {folder}'")
    return results
