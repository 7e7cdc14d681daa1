"""All runs of a folder as pages: a list, a report of each, comparisons of two; shown live or written as files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any

from markupsafe import Markup

from evenli.audit.audit import load_run
from evenli.audit.compare import compare_runs
from evenli.audit.predictions import SCHEMA, RunFolder, read_header
from evenli.audit.report.html import render
from evenli.audit.report.terminal import difference_cells
from evenli.audit.results import AuditResult
from evenli.audit.suites.base import get_suite
from evenli.core import page
from evenli.core.blocks import Block
from evenli.core.errors import EvenliError, InputError
from evenli.core.format import p_bound
from evenli.core.page import write_page
from evenli.core.registry import DEFAULT_SUITE
from evenli.core.store import RunDir, read_manifest
from evenli.stats.measure import get_measure

_TEMPLATES = Path(__file__).parent / "templates"
_DEEP = 6
"""How far below the folder runs are looked for."""
_MOST_COMPARED = 6
"""Runs of which every two are compared in an export."""
_UNSHOWN = "cannot be shown; evenli verify says why"


@dataclass(frozen=True)
class RunEntry:
    """A run in the list; ``problem`` says why it cannot be shown."""

    id: str
    path: Path
    name: str
    model: str = ""
    lang: str = ""
    data: str = ""
    verdict: str = ""
    score: str = ""
    scored: str = ""  # what the score is of
    created: str = ""
    spec: str = ""
    problem: str = ""
    pairs: str = ""  # hash of the pairs, which runs that can be compared share


def find_runs(folder: str | Path) -> list[RunEntry]:
    """Every run below a folder, newest first; a damaged one is listed with what is wrong."""
    root = Path(folder)
    if not root.is_dir():
        raise InputError(f"there is no folder {root}; give the one that holds your runs")
    files = (file for depth in range(_DEEP) for file in root.glob("*/" * depth + "run.json"))
    entries = [_entry(root, file.parent) for file in sorted(files)]
    return sorted(entries, key=lambda entry: (entry.created, entry.name), reverse=True)


def _entry(root: Path, folder: Path) -> RunEntry:
    name = folder.relative_to(root).as_posix() if folder != root else root.resolve().name
    # The address of a run: short, of harmless letters, and the same after a restart.
    identity = f"{re.sub(r'[^a-zA-Z0-9]+', '-', name).strip('-')[:40]}-{sha256(name.encode()).hexdigest()[:8]}"
    try:
        header = read_header(folder / "run.json")
        created = str(header.get("created", ""))[:16].replace("T", " ")
        if header.get("status") != "complete":
            return RunEntry(identity, folder, name, created=created, problem="not complete: run its command again")
        if not (folder / "results.json").is_file():
            return RunEntry(identity, folder, name, created=created, problem="predictions only, no audit")
        RunFolder(folder).verify("results.json")
        stored = read_manifest(folder / "results.json", kind="prediction run", schema=SCHEMA, hashed=False)
        result = AuditResult.from_dict(stored)
    except EvenliError as error:
        return RunEntry(identity, folder, name, problem=str(error))
    cards = [card for card in (result.data_of(suite) for suite in result.suites) if card is not None]
    ranked = next((suite for suite in map(get_suite, result.suites) if suite.ranked), None)
    # The verdict in a few words; the report has its sentence.
    causes = ", ".join(f"{cause.label} ({cause.size})" for cause in result.verdict.causes)
    return RunEntry(
        identity,
        folder,
        name,
        model=result.model.title,
        lang=str(result.lang),
        data="; ".join(card.name for card in cards),
        verdict=causes or result.verdict.sentence.split(". ")[0].split(":")[0].rstrip("."),
        score=result.suites[ranked.name].main.shown if ranked else "",
        scored=ranked.title if ranked else "",
        created=created,
        spec=str(header["model"].get("spec", "")),
        pairs=" ".join(card.sha256 for card in cards),
    )


def list_page(
    entries: Sequence[RunEntry],
    links: Mapping[str, str],
    comparisons: Sequence[tuple[str, str]] = (),
    *,
    live: bool = False,
) -> str:
    """The list of runs."""
    lead = f"{len(entries)} run{'s' * (len(entries) != 1)}, newest first. A run opens its report."
    # Runs of other suites have no score; where none has one, the column is of what an audit asks by default.
    scored = list(dict.fromkeys(entry.scored for entry in entries if entry.scored))
    scored = scored or [get_suite(DEFAULT_SUITE).title]
    shown = {"runs": entries, "scored": scored, "links": links, "comparisons": comparisons, "live": live}
    return _page("list", "evenli runs", lead, **shown)


def report_page(entry: RunEntry) -> str:
    """The report of a run."""
    return render([load_run(entry.path)])


def compare_page(first: RunEntry, second: RunEntry, back: str) -> str:
    """Two runs, item by item."""
    parts = []
    for suite, (comparison,) in compare_runs(first.path, second.path).suites.items():
        rows = [
            (get_measure(name).title.strip(), *difference_cells(change), p_bound(change.p))
            for name, change in comparison.measures.items()
        ]
        parts.append(Block(get_suite(suite).title, [comparison.conclusion], rows=rows))
    return _page("compare", "Comparison", f"first: {first.name}; second: {second.name}", parts=parts, back=back)


def ask_page(
    entry: RunEntry,
    back: str,
    longest: int,
    texts: tuple[str, str] = ("The nurse waits at the bus stop.", "The woman waits at the bus stop."),
    answers: Sequence[tuple[str, str]] = (),
    note: str = "",
) -> str:
    """The page on which people try a sentence of their own."""
    form = {"longest": longest, "premise": texts[0], "hypothesis": texts[1], "answers": answers, "note": note}
    return _page("ask", "Try a sentence", f"{entry.model} ({entry.name})", back=back, **form)


def problem_page(message: str, back: str) -> str:
    """What went wrong."""
    return _page("problem", "That did not work", "", message=message, back=back)


@dataclass(frozen=True)
class Exported:
    """The files of an export, the list first, and what could not be shown, with the reason."""

    files: tuple[Path, ...]
    problems: Mapping[str, str]


def export(folder: str | Path, out: str | Path) -> Exported:
    """Write list, reports and comparisons as files for a web host; sentences cannot be tried there.

    A run that cannot be shown stands in the list, and the others are written.
    """
    entries, target = find_runs(folder), Path(out)
    site = RunDir(target, kind="site", manifest="index.html", owned=("run-*.html", "compare-*.html"))
    site.check()
    problems = {entry.name: entry.problem for entry in entries if entry.problem}
    written: list[Path] = []

    def attempt(name: str, file: str, make: Callable[..., str], *given: Any) -> bool:
        """Write a page, or note why there is none: damage of one run must not stop the others."""
        try:
            text = make(*given)
        except EvenliError as error:
            problems[name] = str(error)
            return False
        written.append(write_page(text, target / file))
        return True

    links = {entry.id: f"run-{entry.id}.html" for entry in entries}
    finished = [entry for entry in entries if not entry.problem]
    shown = [entry for entry in finished if attempt(entry.name, links[entry.id], report_page, entry)]
    if not shown:
        reasons = "".join(f"; {name}: {problem}" for name, problem in list(problems.items())[:1])
        raise InputError(f"there is no finished audit in {folder}{reasons}")
    comparisons = []
    for first, second in combinations(shown[:_MOST_COMPARED], 2):
        file, names = f"compare-{first.id}-{second.id}.html", f"{second.name} and {first.name}"
        # Only answers to the same pairs can be compared.
        if first.pairs == second.pairs and attempt(names, file, compare_page, second, first, "index.html"):
            comparisons.append((file, names))
    # What is wrong with a run names places on this machine; the page only says that something is.
    listed = [replace(entry, problem=_UNSHOWN) if entry.name in problems else entry for entry in entries]
    index = write_page(list_page(listed, links, comparisons), target / "index.html")
    return Exported((index, *written), problems)


@cache
def _style_and_script() -> tuple[str, str]:
    css, js = ((_TEMPLATES / name).read_text(encoding="utf-8") for name in ("gallery.css", "gallery.js"))
    return css, js


def policy() -> str:
    """The Content-Security-Policy of our pages: one style sheet, one script, forms to ourselves."""
    return page.policy(*_style_and_script()).replace("form-action 'none'", "form-action 'self'")


def _page(kind: str, title: str, lead: str, **values: Any) -> str:
    css, js = map(Markup, _style_and_script())
    known = {"css": css, "js": js, "csp": policy(), "kind": kind, "title": title, "lead": lead}
    return str(page.environment("evenli.audit.report").get_template("gallery.html.j2").render(**known, **values))
