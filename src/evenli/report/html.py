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
from collections import defaultdict
from collections.abc import Sequence
from importlib.resources import files
from itertools import count
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple

from evenli._version import __version__
from evenli.errors import InputError
from evenli.evaluate.audit import Audit, load_run
from evenli.format import number
from evenli.io import write_atomic
from evenli.labels import LABELS
from evenli.report.charts import write_charts
from evenli.report.views import RunView, rankings, run_names
from evenli.suites.base import get_suite
from evenli.suites.coal.breakdown import AGREEING

LIMIT = 3_000_000
"""Bytes; a report must open on a phone and travel by mail."""
_LEVELS = ((None, None), (100, None), (30, None), (0, None), (0, 100), (0, 30))
"""What is left out, in this order, where a report would be larger: occupations with sentences, occupations listed."""
_CONTENTS = (
    ("what", "What was measured"),
    ("verdict", "Verdict"),
    ("limits", "What this does not show"),
    ("labels", "Answers per set"),
    ("measures", "All measures"),
    ("occupations", "Occupations"),
    ("templates", "Templates"),
    ("direction", "Direction of errors"),
    ("worst", "Worst items"),
    ("competence", "Competence"),
    ("agreement", "Agreement"),
    ("settings", "Settings"),
)

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
    return [file for writer in filter(None, writers) for file in resolve_name(writer)(audit, folder)]


def render(audits: Sequence[Audit]) -> str:
    """The page as text, below LIMIT bytes; long lists are cut, and say so, before it grows beyond."""
    if not audits:
        raise InputError("a report needs at least one run")
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    source = files("evenli.report") / "templates"
    css, js = ((source / name).read_text("utf-8") for name in ("report.css", "report.js"))
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=False)
    environment.filters.update(shown=_shown, two=lambda value: _shown(value, 2))
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
            contents=_CONTENTS,
            agreeing=AGREEING,
            version=__version__,
            css=Markup(css),
            js=Markup(js),
            csp=_policy(css, js),
            data=Markup(_json(_sentences(views, occupations, sentences))),
        ).strip()
        if len(page.encode("utf-8", "replace")) < LIMIT:
            return page
    raise InputError(
        f"a report on these {len(audits)} run(s) would have {len(page) / 1e6:.1f} MB, the limit is "
        f"{LIMIT / 1e6:.0f} MB; report fewer at a time"
    )


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
    style, script = (
        "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'" for text in (css, js)
    )
    rest = "img-src data:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; style-src {style}; script-src {script}; {rest}"


def _shown(value: Any, digits: int = 3) -> str:
    return number(value, digits) if value is None or isinstance(value, float) else str(value)
