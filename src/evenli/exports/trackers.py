"""Audits in experiment trackers: MLflow, Weights & Biases."""

from __future__ import annotations

import os
import re
from contextlib import suppress

from evenli.audit.audit import Audit
from evenli.audit.gate.expressions import fields
from evenli.core.errors import MissingExtraError
from evenli.core.extras import check_extra, need
from evenli.core.io import json_text


def log_mlflow(audit: Audit) -> None:
    """Log an audit to the active MLflow run: every number with its interval, what was asked, results.json, the report.

    The report needs the extra ``report``; without it the rest is logged.
    """
    mlflow = need("mlflow", extra="tracking", purpose="logging to MLflow")
    mlflow.log_metrics(metrics(audit))
    mlflow.log_params({f"evenli.{name}": value for name, value in _asked(audit).items()})
    mlflow.log_dict(audit.to_dict(), "evenli/results.json")
    with suppress(MissingExtraError):
        check_extra("report", "the report")
        from evenli.audit.report.html import render

        mlflow.log_text(render([audit]), "evenli/report.html")


def log_wandb(audit: Audit) -> None:
    """Log the same to Weights & Biases: numbers as the summary of the run, what was asked as its configuration.

    Without an active run, one is started and finished here. It is offline unless ``WANDB_MODE`` says otherwise: it lies
    in ``./wandb`` and ``wandb sync`` uploads it.
    """
    wandb = need("wandb", extra="tracking", purpose="logging to Weights & Biases")
    # A run of the user's own stays open.
    active = wandb.run
    run = active or wandb.init(project="evenli", name=audit.name, mode=os.environ.get("WANDB_MODE", "offline"))
    run.config.update({f"evenli.{name}": value for name, value in _asked(audit).items()}, allow_val_change=True)
    run.summary.update({f"evenli/{name}": value for name, value in metrics(audit).items()})
    artifact = wandb.Artifact("evenli-results", type="evenli")
    with artifact.new_file("results.json", encoding="utf-8") as stream:
        stream.write(json_text(audit.to_dict()))
    run.log_artifact(artifact)
    if active is None:
        run.finish()


def metrics(audit: Audit) -> dict[str, float]:
    """Every number that a gate can name, once, under names that trackers accept; ends of intervals as NAME_low."""
    result, values = audit.result, dict[str, float]()
    known = fields(result)
    for name, value in known.items():
        suite, _, short = name.partition(".")
        repeated = suite in result.suites and short in known and known[short] == value  # SUITE.NAME repeats NAME
        if isinstance(value, int | float) and not isinstance(value, bool) and not repeated:
            values[re.sub(r"\.(?=(low|high)$)|[^\w. /-]", "_", name)] = float(value)
    return values


def _asked(audit: Audit) -> dict[str, str]:
    """What was asked, and the verdict in a word."""
    result = audit.result
    facts: dict[str, object] = {"model": result.model.spec, "revision": result.model.revision, "lang": result.lang}
    if card := result.data_of(next(iter(result.suites))):
        facts |= {"data": card.name, "data_sha256": card.sha256}
    facts["verdict"] = result.verdict.code
    return {name: str(value) for name, value in facts.items() if value}
