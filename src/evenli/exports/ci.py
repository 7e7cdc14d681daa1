"""What continuous integration shows: a page of a job, findings beside code, a comment on a pull request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evenli.audit.audit import Audit
from evenli.audit.compare import compare_runs, concluded
from evenli.audit.report.card import command, limits, to_markdown
from evenli.audit.report.export import markdown, pipe_table, tables
from evenli.audit.report.terminal import summarise
from evenli.audit.suites.base import get_suite
from evenli.core.errors import InputError
from evenli.core.format import p_bound, printable, prose, signed, with_interval
from evenli.core.io import hash_text, json_text
from evenli.stats.measure import get_measure

MARK = "<!-- evenli -->"
"""Begins a comment, so that a bot finds the one that it wrote before."""
LARGEST = 60_000
"""Characters of a comment; GitHub takes 65,536."""
_SEVERITY = {"slight": "minor", "clear": "major", "strong": "critical"}


def github(runs: Sequence[Audit]) -> dict[str, str]:
    """Markdown for ``GITHUB_STEP_SUMMARY``: the first screen of every run, and its measures behind a fold."""
    return {"summary.md": "\n".join(map(_page, runs))}


def _page(audit: Audit) -> str:
    folded = ""
    for suite in audit.result.suites:
        table = tables(audit.result, suite)["measures"]
        shown = markdown(table.filter(table["slice"] == "all").select("measure", "value", "low", "high", "n"))
        folded += f"\n<details><summary>{get_suite(suite).title}: every measure</summary>\n\n{shown}\n</details>\n"
    weak = "".join(f"\n{line}" for line in audit.result.evidence.lines)
    about = "What it does not show: " + " ".join(limits(audit).split())
    return (
        f"## {prose(audit.name)}\n\n{to_markdown(summarise(audit))}{weak}\n{folded}\n{about}\n\n    {command(audit)}\n"
    )


def gitlab(runs: Sequence[Audit]) -> dict[str, str]:
    """A Code Quality report: an issue for every cause of a verdict, and for a model that is not competent.

    The fingerprint is of what was found and not of its size: GitLab tells what is new and what is resolved by it.
    """
    issues = []
    for audit in runs:
        file, here = ((audit.path or Path()) / "results.json").resolve(), Path.cwd()
        path = file.relative_to(here) if file.is_relative_to(here) else file
        place = {"path": path.as_posix(), "lines": {"begin": 1}}

        def issue(name: str, said: str, severity: str, place: Any = place, lang: Any = audit.result.lang) -> Any:
            key = hash_text("|".join((name, str(lang), place["path"])))
            content = {"description": printable(said), "check_name": f"evenli-{name}", "fingerprint": key}
            return {**content, "severity": severity, "location": place}

        for cause in audit.verdict.causes:
            numbers = with_interval(cause.estimate.value, cause.estimate.low, cause.estimate.high, sign=True)
            said = f"{audit.name}: {cause.label} ({cause.name} {numbers})"
            issues.append(issue(cause.name.replace("_", "-"), said, _SEVERITY[cause.size]))
        competence = audit.result.competence
        if competence and competence.problem:
            issues.append(issue("competence", f"{audit.name}: {audit.verdict.sentence}", "blocker"))
        weak = audit.result.evidence.lines
        issues += [issue("evidence", f"{audit.name}: {' '.join(weak)}", "info")] if weak else []
    return {"gl-code-quality-report.json": json_text(issues)}


def comment(runs: Sequence[Audit]) -> dict[str, str]:
    """Markdown for a pull request: what the newest of two runs changed, pair by pair."""
    if len(runs) != 2:
        raise InputError(f"comment describes two runs, the newest first, not {len(runs)}")
    after, before = runs
    compared = compare_runs(before, after)
    parts = [MARK, f"### {prose(after.name)}", "", f"**{prose(after.verdict.sentence)}**", ""]
    parts += [f"Before ({prose(before.name)}): {prose(before.verdict.sentence)}", ""]
    for suite, (found,) in compared.suites.items():
        names = dict.fromkeys([*get_suite(suite).tested, *concluded(suite, before)])
        rows = []
        for name in names:
            change = found.measures[name]
            ends = (prose(get_measure(name).title.strip()), signed(change.first), signed(change.second))
            rows.append((*ends, prose(change.shown), p_bound(change.p_holm), "**yes**" if change.significant else "no"))
        columns = (prose(get_suite(suite).title), ">before", ">after", ">difference", ">p", "beyond chance")
        parts += [pipe_table(columns, rows), prose(found.conclusion), ""]
    weak = after.result.evidence.lines
    parts += [*weak, f"{found.n:,} pairs compared one by one; p corrected for several questions (Holm).", ""]
    text = "\n".join(parts)
    return {"comment.md": text if len(text) <= LARGEST else f"{text[:LARGEST].rpartition(chr(10))[0]}\n…\n"}
