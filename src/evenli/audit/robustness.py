"""Does an answer survive another wording? What is known of that for a model or for a run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from evenli.audit.audit import Audit, AuditSettings, Model, audit, default_folder, load_run
from evenli.audit.predict import read_header
from evenli.audit.suites.base import Request, get_suite
from evenli.core.errors import EvenliError, InputError, RunError
from evenli.core.format import number
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS
from evenli.core.registry import DEFAULT_SUITE

ROBUST = "robust"
"""The suite that asks in other words."""
_MOST = 200
"""Folders beside a run that are looked into."""


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
        settings: Everything else.

    Returns:
        An audit with the suite ``robust``: every wording, and in how many of them each cause keeps its sign.
    """
    run = load_run(target) if isinstance(target, str | Path) and is_run(target) else target
    if not isinstance(run, Audit):
        run = str(run) if isinstance(run, Path) else run
        return audit(run, lang, data, suites=(ROBUST,), out=out, settings=settings)
    if ROBUST not in run.result.suites:
        spec = shlex.quote(run.result.model.spec or run.result.model.name)
        raise RunError(
            f"the run in {run.path} asked one wording; ask others with 'evenli robustness {spec} --lang "
            f"{run.result.lang}'"
        )
    return run


def robustness_to_folder(
    target: str | None = None,
    lang: str = "en",
    data: str | None = None,
    *,
    out: str | Path | None = None,
    settings: AuditSettings | None = None,
) -> Audit:
    """The wordings of a run folder, or those of a model that are kept in one; ``evenli robustness``.

    The folder has by default a name that the same call finds again. The rest is as for ``robustness``.
    """
    settings = settings or AuditSettings()
    if is_run(target):
        if settings.full or data or out:
            raise InputError(f"{target} is a finished run; full, data and out (--full, --data, --out) need a model")
        return robustness(target, lang, settings=settings)
    request = Request(lang, axis=settings.axis, full=settings.full)
    folder = out or default_folder(target, {ROBUST: data} if data else {}, request, (ROBUST,))
    return robustness(target, lang, data, out=folder, settings=settings)


def is_run(target: object) -> bool:
    """Whether this names a run folder rather than a model."""
    return isinstance(target, str | Path) and (Path(target) / "run.json").is_file()


def robust_run(run: Audit) -> Audit | None:
    """A run that asked this model in other words: the run itself, or one beside it; None if there is none."""
    if ROBUST in run.result.suites:
        return run
    fingerprint = run.result.model.fingerprint
    if run.folder is None or not fingerprint:
        return None
    with suppress(OSError):
        for folder in sorted(run.folder.absolute().parent.iterdir())[:_MOST]:
            if folder == run.folder.absolute() or not is_run(folder):
                continue
            # Another run may be damaged, unfinished or of a later version: it is not what the user asked about.
            with suppress(EvenliError, ValueError, KeyError, TypeError, AttributeError):
                header = read_header(folder / "run.json")
                asked = {(card["suite"], card["lang"]) for card in header["data"]}
                if header["model"]["fingerprint"] == fingerprint and (ROBUST, run.result.lang) in asked:
                    return load_run(folder, needs=ROBUST)
    return None


def known_wordings(run: Audit) -> str:
    """What is known of other wordings, in one line: from the run itself, or from a run of the same model beside it."""
    robust = robust_run(run)
    if robust is None:
        return ""
    where = "" if robust is run else f" ({robust.path})"
    return f"{robust.result.suites[ROBUST].line}{where}"


def wording_line(run: Audit) -> str:
    """What is known of other wordings; where nothing is, that one was asked, and what its sentences tell.

    Empty for runs without NLI-CoAL, and for those that hold other wordings: their own tables say so.
    """
    if ROBUST in run.result.suites:
        return ""
    if (known := known_wordings(run)) or DEFAULT_SUITE not in run.result.suites:
        return known
    ahead, behind, count = _by_template(run)
    return (
        f"Wordings: one was asked. In its sentences errors follow stereotypes in {ahead} of {count} templates and defy "
        f"them in {behind}; 'evenli robustness' asks in other words."
    )


def wording_hint(run: Audit) -> str:
    """That one wording was asked, where others could be."""
    return " One wording asked: evenli robustness." if DEFAULT_SUITE in run.result.suites else ""


def _by_template(run: Audit) -> tuple[int, int, int]:
    """In how many templates errors follow stereotypes more often than they defy them, less often, and of how many."""
    sample = run.sample(DEFAULT_SUITE)
    answer = pl.Series(LABELS).gather(sample.predicted)
    pro = pl.when(pl.col("subset") == "PS").then(1).when(pl.col("subset") == "AS").then(-1)
    said = pl.when(answer == ENTAILMENT).then(1).when(answer == CONTRADICTION).then(-1).otherwise(0)
    by = sample.frame.with_columns(way=pro * said).drop_nulls("way").group_by("template").agg(pl.col("way").sum())
    return int((by["way"] > 0).sum()), int((by["way"] < 0).sum()), by.height


def stability(runs: Sequence[tuple[str, Audit]]) -> list[list[str]]:
    """Whether the causes survive other wordings, a row per named run; empty where no model was asked in other words.

    Other wordings may be asked in the run itself, in another one of these, or in one that lies beside it.
    """
    robust = {_model(run): run for _, run in runs if ROBUST in run.result.suites}
    rows, known = [], False
    for name, run in runs:
        if DEFAULT_SUITE not in run.result.suites:
            continue  # a run of wordings alone: its model has a row where it was audited, too
        asked = robust.get(_model(run)) or robust_run(run)
        known = known or asked is not None
        rows.append([name, *(["not asked"] * len(_causes()) if asked is None else _across(asked))])
    return rows if known else []


def _model(run: Audit) -> tuple[str, str]:
    # A model without a fingerprint is only ever itself.
    return run.result.model.fingerprint or f"run {id(run)}", str(run.result.lang)


def _causes() -> Sequence[str]:
    causes: Sequence[str] = get_suite(DEFAULT_SUITE).tested
    return causes


def _across(audit: Audit) -> list[str]:
    result: Any = audit.result.suites[ROBUST]
    said = []
    for name in _causes():
        one = result.cause(name)
        ends = f"{number(one.lowest, 2)} to {number(one.highest, 2)}"
        said.append(f"{one.verdict}: {one.holds} of {one.wordings} wordings, {ends}" if one.wordings else one.verdict)
    return said
