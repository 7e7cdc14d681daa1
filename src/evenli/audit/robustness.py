"""Does an answer survive another wording? A model is asked in many, or a run is read that did so."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from evenli.audit.audit import Audit, Model, audit, load_run
from evenli.audit.settings import AuditSettings
from evenli.core.errors import InputError, RunError

ROBUST = "robust"
"""The suite that asks in other words."""


def robustness(
    target: Audit | Path | Model = None,
    lang: str = "en",
    data: Any = None,
    *,
    out: str | Path | None = None,
    settings: AuditSettings | None = None,
) -> Audit:
    """Audit a model in many wordings; of a run that has them, read what it says.

    Args:
        target: A run folder or an audit, or a model as ``audit`` takes it.
        lang: Language of the audit.
        data: None, a CSV file of further wordings, a text file of templates, or an official release.
        out: Run folder; None keeps everything in memory.
        settings: Everything else. A finished run takes none of data, out and ``full``.

    Returns:
        An audit with the suite ``robust``: every wording, and in how many of them each cause keeps its sign.
    """
    settings = settings or AuditSettings()
    run = load_run(target) if isinstance(target, str | Path) and is_run(target) else target
    if not isinstance(run, Audit):
        run = str(run) if isinstance(run, Path) else run
        return audit(run, lang, data, suites=(ROBUST,), out=out, settings=settings)
    if settings.full or data is not None or out is not None:
        raise InputError(f"{run.path} is a finished run; full, data and out (--full, --data, --out) need a model")
    if ROBUST not in run.result.suites:
        spec = shlex.quote(run.result.model.spec or run.result.model.name)
        raise RunError(
            f"the run in {run.path} asked one wording; ask others with 'evenli robustness {spec} --lang "
            f"{run.result.lang}'"
        )
    return run


def is_run(target: object) -> bool:
    """Whether this names a run folder rather than a model."""
    return isinstance(target, str | Path) and (Path(target) / "run.json").is_file()
