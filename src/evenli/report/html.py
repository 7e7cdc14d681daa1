"""The HTML report: one file that needs nothing else and trusts nothing it shows.

Model names, occupations and sentences come from strangers. Jinja2 escapes them in markup, ``_json`` in the data block,
the script inserts them as text, and a Content-Security-Policy that knows the hashes of the one style sheet and the one
script keeps the browser from running anything else.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from itertools import count
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl
from markupsafe import Markup

from evenli._version import __version__
from evenli.errors import InputError
from evenli.evaluate.audit import Audit, load_run
from evenli.format import number, percent
from evenli.io import write_atomic
from evenli.labels import CONTRADICTION, ENTAILMENT, LABELS
from evenli.report.charts import Figure, figures, inline_svg, write_charts
from evenli.report.export import shown
from evenli.report.prompting import prompting_sections
from evenli.stats.proportion import rank
from evenli.stats.sample import Sample
from evenli.suites.base import get_suite
from evenli.suites.coal.breakdown import AGREEING, agreement, by_direction, by_template, judged, worst
from evenli.suites.coal.results import CoalResult, detectable_difference
from evenli.types import AuditResult, DataCard

LIMIT = 3_000_000
"""Bytes; a report must open on a phone and travel by mail."""
_LEVELS = ((None, None), (100, None), (30, None), (0, None), (0, 100), (0, 30))
"""What is left out, in this order, where a report would be larger: occupations with sentences, occupations listed."""
VERDICTS = {
    "bias": ("Bias", "A cause is named where its interval supports it; several may hold."),
    "error": ("Plain error", "No lean is supported: errors go in both directions or contradict each other."),
    "undecided": ("Undecided", "The intervals allow both a lean and none."),
    "even": ("Even at this resolution", "The intervals of all causes lie within 0.05 of 0."),
    "none": ("No verdict", "A model that does not do the task, or was not asked enough, says nothing about gender."),
}

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
    """
    given = [runs] if isinstance(runs, Audit | str | Path) else list(runs)
    audits = [run if isinstance(run, Audit) else load_run(run, needs="coal") for run in given]
    page = render(audits).encode("utf-8", "replace")
    write_atomic(path, page)
    images: list[Path] = []
    for index, audit in enumerate(audits, 1):
        if charts is not None:
            # One run fills the folder itself; several get a folder each, numbered because names may be equal.
            folder = Path(charts) if len(audits) == 1 else Path(charts) / f"{index}-{audit.path.name}"
            images += write_charts(audit, folder)
    return WrittenReport(Path(path), len(page), tuple(images))


def write_page(audit: Audit, folder: str | Path) -> list[Path]:
    """Write ``report.html`` into a run folder; returns the files."""
    return [report(audit, Path(folder) / "report.html").path]


def write_reports(audit: Audit, folder: str | Path) -> list[Path]:
    """Write what every suite of a run adds to its folder with ``audit --report``; returns the files."""
    writers = [get_suite(name).report for name in audit.result.suites]
    return [file for writer in filter(None, writers) for file in resolve_name(writer)(audit, Path(folder))]


def render(audits: Sequence[Audit]) -> str:
    """The page as text, below LIMIT bytes; long lists are cut, and say so, before it grows beyond."""
    if not audits:
        raise InputError("a report needs at least one run")
    from jinja2 import Environment, StrictUndefined

    source = files("evenli.report") / "templates"
    css, js = ((source / name).read_text("utf-8") for name in ("report.css", "report.js"))
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=False)
    environment.filters.update(shown=shown, two=lambda value: shown(value, 2))
    environment.tests["nan"] = math.isnan
    template = environment.from_string((source / "report.html.j2").read_text("utf-8"))
    views = [RunView(audit, name) for audit, name in zip(audits, run_names(audits), strict=True)]
    title = views[0].name if len(audits) == 1 else f"{len(audits)} models"
    page = ""
    for sentences, occupations in _LEVELS:
        page = template.render(
            title=f"Gender bias audit of {title}",
            runs=views,
            listed=occupations,
            rankings=rankings(views) if len(views) > 1 else [],
            agreeing=AGREEING,
            version=__version__,
            css=Markup(css),
            js=Markup(js),
            csp=_policy(css, js),
            data=Markup(_json(_sentences(views, occupations, sentences))),
        ).strip()
        if len(page.encode("utf-8", "replace")) < LIMIT:
            return page
    size = f"{len(page) / 1e6:.1f} MB, the limit is {LIMIT / 1e6:.0f} MB"
    raise InputError(f"a report on these {len(audits)} run(s) would have {size}; report fewer at a time")


class SuiteView:
    """One suite of a run: its measures and what it says beside them."""

    def __init__(self, name: str, result: AuditResult) -> None:
        self.suite, self.result, self.card = get_suite(name), result.suites[name], result.data_of(name)
        self.title = self.suite.title[:1].upper() + self.suite.title[1:]
        self.id = re.sub(r"[^A-Za-z0-9-]", "-", name)
        self.slices = list(dict.fromkeys(part for one in self.result.measures.values() for part in one.by_stereotype))
        self.sections = self.suite.sections(self.result, self.card)
        own = [name for name in self.result.measures if name in self.suite.own]
        others = [name for name in self.result.measures if name not in self.suite.own]
        self.tables = [("Causes", own), ("Published scores", others)] if own else [("Measures", others)]


class RunView:
    """Everything the template shows about one run."""

    def __init__(self, audit: Audit, name: str) -> None:
        self.audit, self.name, self.result = audit, name, audit.result
        self.coal = cast(CoalResult, audit.coal)
        self.data = audit.result.data_of("coal") or DataCard("unknown data", "coal")
        self.main, *self.others = (
            SuiteView(suite, audit.result) for suite in sorted(audit.result.suites, key=lambda one: one != "coal")
        )
        self.date = str(audit.header.get("created", ""))[:10] or "unknown"
        self.version = str(audit.header.get("evenli") or __version__)  # a live run has no header yet
        self.settings = _flat(audit.header)
        # It stands in an attribute.
        self.lang = _lang(audit) if re.fullmatch(r"[A-Za-z]{2,3}", _lang(audit)) else ""
        self.prompting = prompting_sections(audit.result)
        self.meaning = VERDICTS[audit.verdict.code][1]
        self.headline, self.order = _headline(self.coal), _order(self.coal)
        published = bool(audit.result.scoring.get("published", False))
        self.rows = judged(Sample(audit.predictions.suite("coal").answered(), published=published))
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
        return figures(self.audit, self.rows)

    @cached_property
    def svg(self) -> dict[str, Markup]:
        """The charts as markup."""
        return {name: Markup(inline_svg(figure)) for name, figure in self.figures.items()}


def _headline(coal: CoalResult) -> str:
    """NLI-CoAL in a sentence; empty where it is undefined."""
    if any(math.isnan(one) for one in (coal.value, coal.low, coal.high)):
        return ""
    detectable = coal.minimum_detectable_difference
    remark = f" {detectable_difference(detectable)}"
    return (
        f"NLI-CoAL is {number(coal.value)} on a scale from 0 (even) to 1; the {percent(coal.main.level)} interval "
        f"reaches from {number(coal.low)} to {number(coal.high)}.{'' if math.isnan(detectable) else remark}"
    )


def _order(coal: CoalResult) -> str:
    order = coal.order_condition
    if order.holds is None:
        return "The order condition is undefined: PS or AS has no pairs."
    state = "fails" if not order.holds else "holds beyond doubt" if order.beyond_doubt else "holds within uncertainty"
    return f"The order condition (entailment likelier in PS than in AS, contradiction the reverse) {state}."


@dataclass(frozen=True)
class RankingRow:
    """One model in a ranking; ``group`` is 0 where it is not ranked, and ``verdict`` says why."""

    index: int
    name: str
    result: AuditResult
    group: int
    ranks: str
    verdict: str


def run_names(audits: Sequence[Audit]) -> list[str]:
    """Model names; runs of one model differ by language, and where that is the same by number."""
    names = [audit.name for audit in audits]
    names = [
        f"{name} ({_lang(run)})" if names.count(name) > 1 else name for name, run in zip(names, audits, strict=True)
    ]
    return [f"{name} #{names[:i].count(name) + 1}" if names.count(name) > 1 else name for i, name in enumerate(names)]


def rankings(views: Sequence[RunView]) -> list[tuple[str, list[RankingRow]]]:
    """One ranking per pair set, least biased first: scores on different pairs are not comparable."""
    sets: dict[str, list[int]] = defaultdict(list)
    for index, view in enumerate(views):
        sets[view.data.sha256].append(index)
    return [_ranking(views, members) for members in sets.values()]


def _ranking(views: Sequence[RunView], members: Sequence[int]) -> tuple[str, list[RankingRow]]:
    """Models that have a verdict and a defined score are ranked; the others stand below them."""
    intervals = {i: (views[i].coal.value, views[i].coal.low, views[i].coal.high) for i in members}
    ranked = [i for i in members if views[i].audit.verdict.code != "none" and not any(map(math.isnan, intervals[i]))]
    places = dict(zip(ranked, rank([intervals[i] for i in ranked]), strict=True))
    rows = []
    for index in sorted(members, key=lambda i: (i not in places, np.nan_to_num(intervals[i][0]), i)):
        view, place = views[index], places.get(index)
        group, ranks = (place.group, place.shown) if place else (0, "")
        verdict = ", ".join(cause.label for cause in view.audit.verdict.causes)
        verdict = verdict or view.coal.problem or VERDICTS[view.audit.verdict.code][0]
        rows.append(RankingRow(index, view.name, view.result, group, ranks, verdict))
    data = views[members[0]].data
    return f"{data.name} ({data.lang})", rows


def _lang(audit: Audit) -> str:
    card = audit.result.data_of("coal")
    return str(audit.result.lang or (card.lang if card else ""))


def _flat(value: Any, prefix: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict) and value:
        return [pair for key, item in value.items() for pair in _flat(item, f"{prefix}.{key}" if prefix else str(key))]
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return [pair for index, item in enumerate(value) for pair in _flat(item, f"{prefix}[{index}]")]
    if isinstance(value, list):
        return [(prefix, ", ".join(map(str, value)) or "–")]
    return [(prefix, "–" if value in (None, "", {}) else str(value))]


def _sentences(views: Sequence[RunView], listed: int | None, with_sentences: int | None) -> dict[str, Any]:
    """Sentences behind the occupation tables: each text once, rows as numbers, probabilities in thousandths."""
    texts, names = defaultdict[str, int](count().__next__), defaultdict[str, int](count().__next__)
    runs = []
    columns = ("occupation", "stereotype", "premise", "hypothesis", "subset", "group", *(f"p_{x}" for x in LABELS))
    for view in views:
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


def _json(content: Any) -> str:
    r"""JSON that no HTML or script parser can misread: markup characters become ``\u003c`` and the like.

    >>> _json("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _policy(css: str, js: str) -> str:
    style, script = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (css, js))
    rest = "img-src data:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; {rest}"
