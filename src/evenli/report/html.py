"""The HTML report on audits: the first screen of each run, then every suite that was asked.

What keeps strangers' names and sentences from becoming markup stands in ``evenli.page``.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from itertools import count
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl
from markupsafe import Markup

from evenli import page
from evenli._version import __version__
from evenli.errors import InputError
from evenli.evaluate.audit import Audit, load_run
from evenli.format import capitalised, number, percent
from evenli.io import write_atomic
from evenli.labels import CONTRADICTION, ENTAILMENT, LABELS
from evenli.page import LIMIT
from evenli.report.charts import Figure, figures, inline_svg, suite_figures, write_charts
from evenli.report.comparison import VERDICTS, compared, comparison, further, lang_of, rankings, run_names, stability
from evenli.report.hero import panels
from evenli.report.summary import summarise
from evenli.report.terminal import explained_slices, measure_tables, prompting_sections
from evenli.suites.about import about_axis
from evenli.suites.base import get_suite
from evenli.suites.coal import SUITE as COAL
from evenli.suites.coal.breakdown import AGREEING, agreement, by_direction, by_template, judged, worst
from evenli.suites.coal.results import CoalResult, detectable_difference
from evenli.types import DataCard

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
    text = ""
    # Each level leaves out more, until the file is small enough.
    for sentences, occupations in _LEVELS:
        text = page.fill(
            "report",
            title,
            "evenli.report",
            _sentences(views, occupations, sentences),
            runs=views,
            listed=occupations,
            rankings=rankings(views) if len(views) > 1 else [],
            unranked=[view.name for view in views if view.coal is None],
            comparison=comparison,
            compared=compared,
            further=further,
            stable=stability(views) if len(views) > 1 else [],
            formulas=list(formulas.values()),
            agreeing=AGREEING,
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
        self.svg = {figure.name: Markup(inline_svg(figure)) for figure in self.figures}
        self.tables = measure_tables(self.suite, self.result)


class RunView:
    """Everything the template shows about one run; what is about NLI-CoAL is there only where it was asked."""

    def __init__(self, audit: Audit, name: str) -> None:
        self.audit, self.name, self.result = audit, name, audit.result
        self.coal = cast(CoalResult, audit.coal) if COAL.name in audit.result.suites else None
        cards = [card for suite in audit.result.suites if (card := audit.result.data_of(suite))]
        self.data = audit.result.data_of(COAL.name) or (cards[0] if cards else DataCard("unknown data", COAL.name))
        self.suites = [SuiteView(suite, audit) for suite in audit.result.suites]
        self.main = next((view for view in self.suites if view.suite is COAL), None)
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
        if self.coal is not None:
            self._describe(self.coal)

    def _describe(self, coal: CoalResult) -> None:
        """What is computed from the table of NLI-CoAL."""
        self.headline, self.order = _headline(coal), _order(coal)
        self.rows = judged(self.audit.sample(COAL.name))
        self.worst, self.agreement = worst(self.rows).to_dicts(), agreement(self.rows)
        templates = by_template(self.rows)
        # A template that is seen only twice is extreme by chance alone.
        self.templates_seen = int(np.median(templates["n"].to_numpy())) // 2
        often = templates.filter(pl.col("n") >= self.templates_seen)
        self.extreme_templates = [
            ("Most biased templates", often.head(5).to_dicts()),
            ("Least biased templates", often.tail(5).reverse().to_dicts()),
        ]
        quantiles = np.quantile(templates["score"].to_numpy(), [0, 0.25, 0.5, 0.75, 1])
        least, lower, median, upper, most = (percent(float(one)) for one in quantiles)
        self.template_words = (
            f"Here they range from {least} to {most}, with a median of {median}; the middle half lies between {lower} "
            f"and {upper}."
        )
        directions = by_direction(self.rows).sort(pl.col("stereotype") != "neutral", "stereotype", "group")
        self.direction_words = [
            f"{row['stereotype'] or 'unknown'} occupations, hypothesis names {row['group'] or 'no group'}: entailment "
            f"{percent(row[ENTAILMENT], 1)}, contradiction {percent(row[CONTRADICTION], 1)} of {row['n']:,} pairs"
            for row in directions.to_dicts()
        ]

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """The charts by name."""
        return figures(self.audit, self.rows) if self.coal is not None else {}

    @cached_property
    def svg(self) -> dict[str, Markup]:
        """The charts as markup."""
        return {name: Markup(inline_svg(figure)) for name, figure in self.figures.items()}


def _headline(coal: CoalResult) -> str:
    """NLI-CoAL in a sentence; empty where it is undefined."""
    if any(math.isnan(one) for one in (coal.value, coal.low, coal.high)):
        return ""
    smallest = coal.minimum_detectable_difference
    remark = "" if math.isnan(smallest) else f" {detectable_difference(smallest)}"
    return (
        f"NLI-CoAL is {number(coal.value)} on a scale from 0 (even) to 1; the {percent(coal.main.level)} interval "
        f"reaches from {number(coal.low)} to {number(coal.high)}.{remark}"
    )


def _order(coal: CoalResult) -> str:
    order = coal.order_condition
    if order.holds is None:
        return "The order condition is undefined: PS or AS has no pairs."
    state = "fails" if not order.holds else "holds beyond doubt" if order.beyond_doubt else "holds within uncertainty"
    return f"The order condition (entailment likelier in PS than in AS, contradiction the reverse) {state}."


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
        if view.coal is None:
            runs.append({"lang": view.lang, "rows": []})
            continue
        rows = view.coal.occupations[:listed][:with_sentences]
        grouped: dict[tuple[str, str], list[list[int]]] = {
            (row.occupation or "", row.stereotype or ""): [] for row in rows
        }
        for occupation, stereotype, *sentences, subset, group, p1, p2, p3 in view.rows.select(columns).iter_rows():
            if (occupation, stereotype) in grouped:
                numbers = [*(texts[text] for text in sentences), names[subset or ""], names[group or ""]]
                grouped[occupation, stereotype].append([*numbers, *(round(1000 * p) for p in (p1, p2, p3))])
        runs.append({"lang": view.lang, "rows": list(grouped.values())})
    return {"labels": list(LABELS), "texts": list(texts), "names": list(names), "runs": runs}
