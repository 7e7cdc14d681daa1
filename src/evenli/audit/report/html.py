"""Audits as HTML: the report with the first screen of each run and every suite, and that screen in a notebook.

What keeps strangers' names and sentences from becoming markup stands in ``evenli.core.page``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from evenli._version import __version__
from evenli.audit.audit import Audit, load_run
from evenli.audit.report.comparison import VERDICTS, compared, comparison, further, rankings, run_names, stability
from evenli.audit.report.terminal import explained_slices, marks, measure_tables, prompting_blocks, summarise
from evenli.audit.results import DataCard
from evenli.audit.suites.about import about_axis
from evenli.audit.suites.base import FOUND_NOTHING, get_suite
from evenli.core import page
from evenli.core.blocks import PAGE, TERMINAL, Block, Figure
from evenli.core.drawing import KIND_FILLS, inline, inline_svg, load_altair, panels, save_chart
from evenli.core.errors import InputError
from evenli.core.format import capitalised, interval, number
from evenli.core.io import write_atomic
from evenli.core.labels import LABELS
from evenli.core.page import LIMIT
from evenli.core.registry import SUITES

_LEVELS = ((None, None), (100, None), (30, None), (0, None), (0, 100), (0, 30))
"""What is left out, in this order, where a report would be larger: occupations with sentences, occupations listed."""
_OWN = "readings"
"""Name of the chart of the first screen."""
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
    for index, audit in enumerate(audits if charts is not None else (), 1):
        # One run fills the folder itself; several get a folder each, numbered because names may be equal.
        folder = Path(charts or "") / (f"{index}-{audit.path.name}" if len(audits) > 1 else "")
        images += write_charts(audit, folder)
    return WrittenReport(Path(path), len(text), tuple(images))


def write_reports(audit: Audit, folder: str | Path) -> list[Path]:
    """Write ``report.html`` and the charts that are kept beside it, with ``audit --report``; returns the files."""
    return [report(audit, Path(folder) / "report.html").path, *write_charts(audit, folder, only_kept=True)]


def all_figures(audit: Audit, suite: str | None = None) -> list[Figure]:
    """Every chart of a run, or of one suite of it."""
    suites = audit.result.suites if suite is None else (suite,)
    figures = [figure for name in suites for block in page_blocks(name, audit) for figure in block.figures]
    # Two lists of jobs have the same charts: a name is of the first suite, which gives the verdict.
    return list({figure.name: figure for figure in reversed(figures)}.values())[::-1]


def page_blocks(suite: str, audit: Audit) -> list[Block]:
    """What a report shows of a suite."""
    return get_suite(suite).blocks(audit.result.suites[suite], audit.sample(suite), PAGE)


def write_charts(audit: Audit, folder: str | Path, suite: str | None = None, *, only_kept: bool = False) -> list[Path]:
    """Write every chart of a run, or of one suite of it, as SVG and PNG; returns the files."""
    figures = [figure for figure in all_figures(audit, suite) if figure.kept or not only_kept]
    return [file for figure in figures for file in save_chart(figure.chart, figure.name, folder)]


def render(audits: Sequence[Audit]) -> str:
    """The page as text, below LIMIT bytes; long lists are cut, and say so, before it grows beyond."""
    if not audits:
        raise InputError("a report needs at least one run")
    views = [RunView(audit, name) for audit, name in zip(audits, run_names(audits), strict=True)]
    # A page of one axis holds no word of another.
    subject = "Gender bias" if {about_axis(audit.header).axis for audit in audits} <= {"gender", "gender3"} else "Bias"
    title = f"{subject} audit of {views[0].name if len(audits) == 1 else f'{len(audits)} models'}"
    # Each text once; in the words of two genders where any run is about them.
    about = next((view.about for view in views if view.about.of_gender), views[0].about)
    texts = [shown.suite.texts(about) for view in views for shown in view.suites]
    methods = list({(said.method, said.references): said for said in texts}.values())
    formulas = {m.title: m for view in views for shown in view.suites for m in shown.result.measures.values()}
    unranked = [view.name for view in views if view.ranked is None]
    text = ""
    # Each level leaves out more, until the file is small enough.
    for sentences, occupations in _LEVELS:
        text = page.fill(
            "report",
            title,
            "evenli.audit.report",
            _sentences(views, occupations, sentences),
            runs=views,
            listed=occupations,
            rankings=rankings(views) if len(views) > 1 else [],
            unranked=unranked,
            rankable=" or ".join(suite.title for suite in map(get_suite, SUITES if unranked else ()) if suite.ranked),
            comparison=comparison,
            compared=compared,
            others=further,
            stable=stability([(view.name, view.audit) for view in views]) if len(views) > 1 else [],
            formulas=list(formulas.values()),
            methods=methods,
            references=list(dict.fromkeys(reference for method in methods for reference in method.references)),
        )
        if len(text.encode("utf-8", "replace")) < LIMIT:
            return text
    size = f"{len(text) / 1e6:.1f} MB, the limit is {LIMIT / 1e6:.0f} MB"
    raise InputError(f"a report on these {len(audits)} run(s) would have {size}; report fewer at a time")


class SuiteView:
    """One suite of a run: its measures and what it says beside them."""

    def __init__(self, name: str, audit: Audit, *, first: bool) -> None:
        result = audit.result
        self.suite, self.result, self.card = get_suite(name), result.suites[name], result.data_of(name)
        self.title = capitalised(self.suite.title)
        self.id = re.sub(r"[^A-Za-z0-9-]", "-", name)
        slices = (part for measure in self.result.measures.values() for part in measure.by_stereotype)
        self.slices = list(dict.fromkeys(slices))
        self.slice_note = explained_slices([self.suite.slice_title.format(name) for name in self.slices])
        blocks = page_blocks(name, audit)
        if not first and any(block.link for block in blocks):
            # The sections of a page are of one suite; of another it shows what a terminal does.
            blocks = self.suite.blocks(self.result, audit.sample(name), TERMINAL)
        # A chart is drawn once, however often the page is filled.
        self.blocks = [
            replace(block, figures=[figure._replace(chart=inline_svg(figure)) for figure in block.figures])
            for block in blocks
        ]
        self.figures = [figure for block in self.blocks for figure in block.figures]
        self.tables, self.marks = measure_tables(self.suite, self.result), marks(self.suite)

    @property
    def sections(self) -> list[list[Block]]:
        """Sections of the page: blocks that have a link, each with those that belong to it."""
        sections: list[list[Block]] = []
        for block in self.blocks:
            if block.link:
                sections.append([block])
            elif sections:
                sections[-1].append(block)
        return sections


class RunView:
    """Everything the template shows about one run; the sections of ``main`` are of one of its suites."""

    def __init__(self, audit: Audit, name: str) -> None:
        self.audit, self.name, self.result = audit, name, audit.result
        cards = [card for suite in audit.result.suites if (card := audit.result.data_of(suite))]
        self.data = cards[0] if cards else DataCard("unknown data", next(iter(audit.result.suites)))
        self.suites: list[SuiteView] = []
        for suite in audit.result.suites:
            self.suites.append(SuiteView(suite, audit, first=not any(view.sections for view in self.suites)))
        self.ranked = next((view.suite for view in self.suites if view.suite.ranked), None)
        self.main = next((view for view in self.suites if view.sections), None)
        self.others = [view for view in self.suites if view is not self.main]
        self.date = str(audit.header.get("created", ""))[:10] or "unknown"
        self.version = str(audit.header.get("evenli") or __version__)  # a live run has no header yet
        self.settings = _flat(audit.header)
        # It stands in an attribute.
        lang = audit.result.lang or ""
        self.lang = lang if re.fullmatch(r"[A-Za-z]{2,3}", lang) else ""
        self.about = about_axis(audit.header)
        # What words are called: a page of one axis holds no word of another.
        self.things = "occupations" if self.about.of_gender else f"{self.about.thing}s"
        self.prompting = prompting_blocks(audit.result)
        self.said = f"{audit.verdict.sentence} {VERDICTS[audit.verdict.code][1]}"
        self.summary = summarise(audit)
        self.panels = panels(self.summary)
        self.sections = self.main.sections if self.main else self._general()

    def _general(self) -> list[list[Block]]:
        """Question and limits, where no suite brings sections of its own."""
        about = self.about
        told = (f"{about.title}.", about.construct, about.harm, about.population)
        is_told = bool(about.title) and not about.of_gender
        question = Block("What was measured", [" ".join(told)] * is_told, link="Question", anchor="what")
        limits = [
            f"It is about this checkpoint, these {self.things}, these sentences and these groups.",
            *about.assumptions,
            f"{FOUND_NOTHING} It does not predict harm in an application.",
        ]
        listed = Block("What this does not show", limits, bullets=True, link="Limits", anchor="limits")
        return [[question], [listed]] if about.assumptions and not about.of_gender else [[question]]

    @property
    def links(self) -> list[tuple[str, str]]:
        """Anchors of a report on this run alone."""
        early = [(first.id, first.link) for first, *_ in self.sections if not first.detail]
        late = [(first.id, first.link) for first, *_ in self.sections if first.detail]
        return [("verdict", "Verdict"), *early, ("competence", "Competence"), *late, ("settings", "Settings")]


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
    for view in views:
        behind = next((block.behind for view in view.suites for block in view.blocks if block.behind), None)
        keys, answers = behind or ([], None)
        grouped: dict[tuple[str, str], list[list[int]]] = {key: [] for key in keys[:listed][:with_sentences]}
        for first, second, *sentences, subset, group, p1, p2, p3 in answers.iter_rows() if answers is not None else ():
            if (first, second) in grouped:
                numbers = [*(texts[text] for text in sentences), names[subset or ""], names[group or ""]]
                grouped[first, second].append([*numbers, *(round(1000 * p) for p in (p1, p2, p3))])
        runs.append({"lang": view.lang, "rows": list(grouped.values())})
    return {"labels": list(LABELS), "texts": list(texts), "names": list(names), "runs": runs}


def show(audit: Audit) -> str:
    """The first screen for a notebook, and the headline of each suite."""
    summary = summarise(audit)
    rows = [
        (get_suite(name).title, suite.main.title, number(suite.value), interval(suite.low, suite.high))
        for name, suite in audit.result.suites.items()
    ]
    template = page.environment("evenli.audit.report").get_template("notebook.html.j2")
    return str(template.render(audit=audit, summary=summary, panels=panels(summary), rows=rows))


def plot(audit: Audit, name: str | None = None) -> Any:
    """A chart by name; without one, who the model sees, or the first there is."""
    own = summarise(audit)
    charts = {figure.name: figure.chart for figure in all_figures(audit)}
    names = ([_OWN] if own.bars else []) + list(charts)
    if not names:
        raise InputError("these suites draw no chart; audit.to_frame() has their numbers")
    wanted = name or names[0]
    if wanted not in names:
        raise InputError(f"no chart '{wanted}'; choose {', '.join(names)}")
    if wanted != _OWN:
        return charts[wanted]
    # Who the model sees: a row per kind of jobs, a bar per reading with its interval.
    alt = load_altair("a chart")
    values = [
        {"jobs": bar.name, "read as": share.label, "share": share.value, "low": share.low, "high": share.high}
        for bar in own.bars
        for share in bar.shares
    ]
    order = [share.label for share in own.bars[0].shares]
    colours = alt.Scale(domain=order, range=[KIND_FILLS[share.kind] for share in own.bars[0].shares])
    base = inline(values).encode(y=alt.Y("read as:N", sort=order, axis=alt.Axis(title=None)))
    scale = alt.Scale(domain=[0, 1])
    across = alt.X("share:Q", scale=scale, axis=alt.Axis(format=".0%", title="share of the sentences"))
    bars = base.mark_bar().encode(x=across, color=alt.Color("read as:N", scale=colours, legend=None))
    lines = base.mark_rule().encode(x=alt.X("low:Q", scale=scale), x2="high:Q")
    rows = alt.Row("jobs:N", sort=[bar.name for bar in own.bars], header=alt.Header(title=None, labelOrient="top"))
    return alt.layer(bars, lines).properties(width=320, title=own.question).facet(row=rows)
