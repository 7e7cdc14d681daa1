"""The HTML report on audits: the first screen of each run, then every suite that was asked.

What keeps strangers' names and sentences from becoming markup stands in ``evenli.page``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple

from markupsafe import Markup

from evenli._version import __version__
from evenli.audit.audit import Audit, load_run
from evenli.audit.report.charts import suite_figures, write_charts
from evenli.audit.report.comparison import VERDICTS, compared, comparison, further, lang_of, rankings, run_names
from evenli.audit.report.hero import panels
from evenli.audit.report.summary import summarise
from evenli.audit.report.terminal import explained_slices, measure_tables, prompting_sections
from evenli.audit.results import DataCard
from evenli.audit.robustness import stability
from evenli.audit.suites.about import About, about_axis
from evenli.audit.suites.base import Suite, get_suite
from evenli.audit.suites.texts import Method, Page
from evenli.core import page
from evenli.core.drawing import inline_svg
from evenli.core.errors import InputError
from evenli.core.format import capitalised
from evenli.core.io import write_atomic
from evenli.core.labels import LABELS
from evenli.core.page import LIMIT
from evenli.core.registry import SUITES

_LEVELS = ((None, None), (100, None), (30, None), (0, None), (0, 100), (0, 30))
"""What is left out, in this order, where a report would be larger: occupations with sentences, occupations listed."""
Runs = Audit | str | Path | Sequence[Audit | str | Path]


class WrittenReport(NamedTuple):
    """The HTML file, its bytes, and the charts as SVG and PNG files where these were asked for."""

    path: Path
    size: int
    charts: tuple[Path, ...] = ()


def report(runs: Runs, path: str | Path = "report.html", charts: str | Path | None = None) -> WrittenReport:
    """Write one HTML file about one or several runs.

    Args:
        runs: Audits or run folders; with several, a comparison comes first.
        path: The file to write, atomically.
        charts: Folder for the charts as SVG and PNG files, too.

    Returns:
        Where the page and the charts are. The page is one file that needs no network.
    """
    given = [runs] if isinstance(runs, Audit | str | Path) else list(runs)
    audits = [run if isinstance(run, Audit) else load_run(run) for run in given]
    text = render(audits).encode("utf-8", "replace")
    write_atomic(path, text)
    images: list[Path] = []
    for index, audit in enumerate(audits, 1):
        if charts is not None:
            # One run fills the folder itself; several get a folder each, numbered because names may be equal.
            folder = Path(charts) if len(audits) == 1 else Path(charts) / f"{index}-{audit.path.name}"
            images += write_charts(audit, folder)
    return WrittenReport(Path(path), len(text), tuple(images))


def write_reports(audit: Audit, folder: str | Path) -> list[Path]:
    """Write ``report.html`` and what every suite of a run adds to its folder with ``audit --report``; the files."""
    writers = [get_suite(name).report for name in audit.result.suites]
    added = [file for writer in filter(None, writers) for file in resolve_name(writer)(audit, Path(folder))]
    return [report(audit, Path(folder) / "report.html").path, *added]


def render(audits: Sequence[Audit]) -> str:
    """The page as text, below LIMIT bytes; long lists are cut, and say so, before it grows beyond."""
    if not audits:
        raise InputError("a report needs at least one run")
    views = [RunView(audit, name) for audit, name in zip(audits, run_names(audits), strict=True)]
    # A page of one axis holds no word of another.
    subject = "Gender bias" if {about_axis(audit.header).axis for audit in audits} <= {"gender", "gender3"} else "Bias"
    title = f"{subject} audit of {views[0].name if len(audits) == 1 else f'{len(audits)} models'}"
    formulas = {m.title: m for view in views for one in view.suites for m in one.result.measures.values()}
    methods = _methods(views)
    text = ""
    # Each level leaves out more, until the file is small enough.
    for sentences, occupations in _LEVELS:
        text = page.fill(
            "report",
            title,
            "evenli.audit.report",
            _sentences(views, occupations, sentences),
            further={view.page.package for view in views if view.page},
            runs=views,
            listed=occupations,
            rankings=rankings(views) if len(views) > 1 else [],
            unranked=[view.name for view in views if view.ranked is None],
            rankable=" or ".join(suite.title for suite in map(get_suite, SUITES) if suite.ranking),
            comparison=comparison,
            compared=compared,
            others=further,
            stable=stability([(view.name, view.audit) for view in views]) if len(views) > 1 else [],
            formulas=list(formulas.values()),
            methods=methods,
            references=list(dict.fromkeys(one for method in methods for one in method.references)),
        )
        if len(text.encode("utf-8", "replace")) < LIMIT:
            return text
    size = f"{len(text) / 1e6:.1f} MB, the limit is {LIMIT / 1e6:.0f} MB"
    raise InputError(f"a report on these {len(audits)} run(s) would have {size}; report fewer at a time")


class SuiteView:
    """One suite of a run: its measures and what it says beside them."""

    def __init__(self, name: str, audit: Audit) -> None:
        result = audit.result
        self.suite, self.result, self.card = get_suite(name), result.suites[name], result.data_of(name)
        self.title = capitalised(self.suite.title)
        self.id = re.sub(r"[^A-Za-z0-9-]", "-", name)
        self.slices = list(dict.fromkeys(part for one in self.result.measures.values() for part in one.by_stereotype))
        self.slice_note = explained_slices([self.suite.slice_title.format(name) for name in self.slices])
        self.sections = self.suite.sections(self.result, self.card)
        self.figures = suite_figures(name, audit)
        self.by_name = {figure.name: figure for figure in self.figures}
        self.svg = {figure.name: Markup(inline_svg(figure)) for figure in self.figures}
        self.tables = measure_tables(self.suite, self.result)


class RunView:
    """Everything the template shows about one run; ``page`` is what one of its suites shows beyond all others."""

    def __init__(self, audit: Audit, name: str) -> None:
        self.audit, self.name, self.result = audit, name, audit.result
        cards = [card for suite in audit.result.suites if (card := audit.result.data_of(suite))]
        self.data = cards[0] if cards else DataCard("unknown data", next(iter(audit.result.suites)))
        self.suites = [SuiteView(suite, audit) for suite in audit.result.suites]
        self.ranked = next((view.suite for view in self.suites if view.suite.ranking), None)
        self.main = next((view for view in self.suites if view.suite.page), None)
        self.page: Page | None = resolve_name(self.main.suite.page)(audit) if self.main else None
        self.others = [view for view in self.suites if view is not self.main]
        self.date = str(audit.header.get("created", ""))[:10] or "unknown"
        self.version = str(audit.header.get("evenli") or __version__)  # a live run has no header yet
        self.settings = _flat(audit.header)
        # It stands in an attribute.
        self.lang = lang_of(audit) if re.fullmatch(r"[A-Za-z]{2,3}", lang_of(audit)) else ""
        self.about = about_axis(audit.header)
        # What words are called: a page of one axis holds no word of another.
        self.things = "occupations" if self.about.of_gender else f"{self.about.thing}s"
        self.prompting = prompting_sections(audit.result)
        self.meaning = VERDICTS[audit.verdict.code][1]
        self.summary = summarise(audit)
        self.panels = panels(self.summary)

    @property
    def links(self) -> list[tuple[str, str]]:
        """Anchors of a report on this run alone."""
        if self.page:
            return list(self.page.links)
        limits = [("limits", "Limits")] if self.about.assumptions and not self.about.of_gender else []
        ends = [("competence", "Competence"), ("settings", "Settings")]
        return [("verdict", "Verdict"), ("what", "Question"), *limits, *ends]


def _methods(views: Sequence[RunView]) -> list[Method]:
    """How the suites of a page measure, each text once; in the words of two genders where any run is about them."""
    about = next((view.about for view in views if view.about.of_gender), views[0].about)
    methods = [_method(one.suite, about) for view in views for one in view.suites]
    return [method for at, method in enumerate(methods) if method not in methods[:at]]


def _method(suite: Suite, about: About) -> Method:
    if suite.method:
        return suite.method(about)
    things = "occupations" if about.of_gender else f"{about.thing}s"
    text = (
        f"{capitalised(suite.title)}: rows are not independent, they share {things} and sentences. Intervals are about "
        f"other {things} and other templates: two-way cluster-robust (Cameron, Gelbach, Miller 2011)."
    )
    return Method(text, (f"{suite.reference}: {suite.title}.",))


def _flat(value: Any, prefix: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict) and value:
        return [pair for key, item in value.items() for pair in _flat(item, f"{prefix}.{key}" if prefix else str(key))]
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return [pair for index, item in enumerate(value) for pair in _flat(item, f"{prefix}[{index}]")]
    if isinstance(value, list):
        return [(prefix, ", ".join(map(str, value)) or "–")]
    return [(prefix, "–" if value in (None, "", {}) else str(value))]


def _sentences(views: Sequence[RunView], listed: int | None, with_sentences: int | None) -> dict[str, object]:
    """Sentences behind the occupation tables: each text once, rows as numbers, probabilities in thousandths."""
    texts, names = defaultdict[str, int](count().__next__), defaultdict[str, int](count().__next__)
    runs: list[dict[str, object]] = []
    columns = ("occupation", "stereotype", "premise", "hypothesis", "subset", "group", *(f"p_{x}" for x in LABELS))
    for view in views:
        if view.page is None:
            runs.append({"lang": view.lang, "rows": []})
            continue
        rows = view.page.occupations[:listed][:with_sentences]
        grouped: dict[tuple[str, str], list[list[int]]] = {
            (row.occupation or "", row.stereotype or ""): [] for row in rows
        }
        for occupation, stereotype, *sentences, subset, group, p1, p2, p3 in view.page.rows.select(columns).iter_rows():
            if (occupation, stereotype) in grouped:
                numbers = [*(texts[text] for text in sentences), names[subset or ""], names[group or ""]]
                grouped[occupation, stereotype].append([*numbers, *(round(1000 * p) for p in (p1, p2, p3))])
        runs.append({"lang": view.lang, "rows": list(grouped.values())})
    return {"labels": list(LABELS), "texts": list(texts), "names": list(names), "runs": runs}
