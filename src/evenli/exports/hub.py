"""``.eval_results`` of the Hugging Face Hub: a YAML file in the repository of a model, beside its card."""

from __future__ import annotations

from collections.abc import Sequence

from evenli.audit.audit import Audit
from evenli.audit.report.card import eval_results as carded
from evenli.core.errors import InputError
from evenli.core.format import yaml_text
from evenli.exports.files import single


def eval_results(runs: Sequence[Audit]) -> dict[str, str]:
    """The measures that a model card lists, as the hub reads them from ``.eval_results/*.yaml``."""
    audit = single(runs, "eval-results")
    entries = []
    for result in carded(audit):
        asked = result.metric_args or {}
        ends = "" if asked["low"] is None else f"{asked['level']:.0%} interval {asked['low']:g} to {asked['high']:g}; "
        notes = f"{result.metric_name}; {ends}n {asked['n']}; pairs sha256:{result.dataset_revision}"
        dataset, date = f"evenli/{result.dataset_type.removeprefix('evenli-')}", audit.header.get("created")
        entries.append(
            f"- dataset:\n    id: {yaml_text(dataset)}\n"
            f"    task_id: {yaml_text(f'{result.dataset_config}-{result.metric_type}')}\n"
            f"  value: {result.metric_value}\n"
            + (f"  date: {yaml_text(date)}\n" if date else "")
            + f"  source:\n    url: {yaml_text(result.source_url)}\n    name: {yaml_text(result.source_name)}\n"
            f"  notes: {yaml_text(notes)}\n"
        )
    if not entries:
        raise InputError(f"nothing to list: {audit.verdict.sentence}")
    return {"evenli.yaml": "".join(entries)}
