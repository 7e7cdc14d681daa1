"""The HTML report: one file that needs nothing else and trusts nothing it shows.

Model names, occupations and sentences come from strangers. Jinja2 escapes them in markup, ``_json`` in the data block,
the script inserts them as text, and a Content-Security-Policy that knows the hashes of the one style sheet and the one
script keeps the browser from running anything else.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from evenli._version import __version__
from evenli.errors import InputError
from evenli.labels import CONTRADICTION, ENTAILMENT, LABELS
from evenli.report.charts import figures, inline_svg
from evenli.report.runs import Run
from evenli.stats.ranking import Ranking, rank
from evenli.suites.coal.breakdown import AGREEING, agreement, by_direction, by_template, judged, worst

LIMIT = 3_000_000
"""Bytes; a report must open on a phone and travel by mail."""
_LEVELS: tuple[tuple[int | None, int | None], ...] = (
    (None, None),
    (100, None),
    (30, None),
    (0, None),
    (0, 100),
    (0, 30),
)
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
_VERDICTS = {
    "bias": ("Bias dominates error", "More than two of three errors on stereotyped occupations follow the stereotype."),
    "error": ("Plain error dominates", "Errors do not mainly follow the stereotype: the score reflects mistakes."),
    "undecided": ("Undecided", "The interval allows both bias and plain error."),
    "even": ("Even at this resolution", "Hardly any answer on a stereotyped occupation is wrong."),
    "none": ("No verdict", "A model that does not do the task, or was not asked enough, says nothing about gender."),
}


def write_report(runs: Sequence[Run], path: str | Path) -> Path:
    """Write one HTML file about one or several runs.

    Args:
        runs: Finished runs; with several, a comparison comes first.
        path: The file to write; it is replaced in one step.

    Returns:
        The file.
    """
    path = Path(path)
    page = render(runs).encode("utf-8", "replace")
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(page)
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; choose another --out") from error
    return path


def render(runs: Sequence[Run]) -> str:
    """The page as text, below LIMIT bytes; long lists are cut, and say so, before it grows beyond."""
    if not runs:
        raise InputError("a report needs at least one run")
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    source = files("evenli.report") / "templates"
    css, js = ((source / name).read_text("utf-8") for name in ("report.css", "report.js"))
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=False)
    environment.filters.update(shown=_shown, two=lambda value: _shown(value, 2))
    template = environment.from_string((source / "report.html.j2").read_text("utf-8"))
    names = _names(runs)
    views = [_view(run, name) for run, name in zip(runs, names, strict=True)]
    page = ""
    for sentences, occupations in _LEVELS:
        cut = [_cut(view, occupations) for view in views]
        page = template.render(
            title=f"Gender bias audit of {names[0]}" if len(runs) == 1 else f"Gender bias audit of {len(runs)} models",
            runs=cut,
            rankings=_rankings(runs, names) if len(runs) > 1 else [],
            contents=_CONTENTS,
            agreeing=AGREEING,
            version=__version__,
            css=Markup(css),
            js=Markup(js),
            csp=_policy(css, js),
            data=Markup(_json(_sentences(cut, sentences))),
        ).strip()
        if len(page.encode("utf-8", "replace")) < LIMIT:
            return page
    raise InputError(
        f"a report on these {len(runs)} run(s) would have {len(page) / 1e6:.1f} MB, the limit is {LIMIT / 1e6:.0f} MB; "
        "report fewer at a time"
    )


def _view(run: Run, name: str) -> dict[str, Any]:
    """Everything the template shows about one run."""
    from markupsafe import Markup

    rows = judged(run.sample)
    shown = figures(run, rows)
    coal, data = run.results["coal"], run.data
    templates = by_template(rows)
    least = int(np.median(templates["n"].to_numpy())) // 2  # a template seen twice is extreme by chance alone
    often = templates.filter(pl.col("n") >= least)
    code = run.results["verdict"].get("code")
    code = code if code in _VERDICTS else "none"
    scoring = run.results.get("scoring") or {}
    return {
        "name": name,
        "date": run.date,
        "version": str(run.header.get("evenli", "?")),
        "lang": run.lang if re.fullmatch(r"[A-Za-z]{2,3}", run.lang) else "",
        "data_name": str(data.get("name", "unknown data")),
        "official": str(data.get("name", "")).startswith("official"),
        "notes": [str(note) for note in data.get("notes") or []],
        "pairs": f"{rows.height:,}",
        "occupation_count": data.get("occupations"),
        "template_count": data.get("templates"),
        "results": {"competence": None, **run.results},
        "code": code,
        "verdict_meaning": _VERDICTS[code][1],
        "headline": _headline(coal),
        "order": _order(coal["order_condition"]),
        "level": _percent(scoring.get("level", 0.95)),
        "bootstrap": str(scoring.get("bootstrap", "cluster")),
        "stereotypes": _stereotypes(coal["measures"]),
        "occupations": coal["occupations"],
        "occupation_total": len(coal["occupations"]),
        "occupation_stereotypes": sorted({str(row["stereotype"]) for row in coal["occupations"] if row["stereotype"]}),
        "templates_most": often.head(5).to_dicts(),
        "templates_least": often.tail(5).reverse().to_dicts(),
        "templates_seen": least,
        "template_words": _spread(templates),
        "direction_words": _direction(rows),
        "worst": worst(rows).to_dicts(),
        "agreement": agreement(rows),
        "settings": list(_flat(run.header)),
        "figures": shown,
        "svg": {key: Markup(inline_svg(figure)) for key, figure in shown.items()},
        "rows": rows,
    }


def _cut(view: dict[str, Any], occupations: int | None) -> dict[str, Any]:
    listed = view["occupations"][:occupations]
    return {**view, "occupations": listed, "hidden_occupations": len(view["occupations"]) - len(listed)}


def _sentences(views: Sequence[dict[str, Any]], occupations: int | None) -> dict[str, Any]:
    """Sentences behind the occupation tables: each text once, rows as numbers, probabilities in thousandths."""
    texts: dict[str, int] = {}
    names: dict[str, int] = {}
    out = []
    for view in views:
        grouped: dict[tuple[str, str], list[list[int]]] = defaultdict(list)
        wanted = view["occupations"][:occupations]
        keys = {(row["occupation"] or "", row["stereotype"] or "") for row in wanted}
        columns = ("occupation", "stereotype", "premise", "hypothesis", "subset", "group", *(f"p_{x}" for x in LABELS))
        for occupation, stereotype, premise, hypothesis, subset, group, *chances in (
            view["rows"].select(columns).iter_rows()
        ):
            if (occupation, stereotype) in keys:
                grouped[occupation, stereotype].append(
                    [
                        *(texts.setdefault(text, len(texts)) for text in (premise, hypothesis)),
                        *(names.setdefault(name or "", len(names)) for name in (subset, group)),
                        *(round(1000 * chance) for chance in chances),
                    ]
                )
        out.append(
            {"lang": view["lang"], "rows": [grouped[r["occupation"] or "", r["stereotype"] or ""] for r in wanted]}
        )
    return {"labels": list(LABELS), "texts": list(texts), "names": list(names), "runs": out}


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


def _names(runs: Sequence[Run]) -> list[str]:
    """Model names; runs of one model are told apart by language, and where that is the same by number."""
    names = [run.model for run in runs]
    names = [f"{name} ({run.lang})" if names.count(name) > 1 else name for name, run in zip(names, runs, strict=True)]
    return [f"{name} #{names[:i].count(name) + 1}" if names.count(name) > 1 else name for i, name in enumerate(names)]


def _rankings(runs: Sequence[Run], names: Sequence[str]) -> list[dict[str, Any]]:
    """One ranking per pair set: scores on different pairs are not comparable."""
    sets: dict[str, list[int]] = defaultdict(list)
    for index, run in enumerate(runs):
        sets[str(run.data.get("sha256", ""))].append(index)
    return [_ranking([(i, names[i], runs[i]) for i in members]) for members in sets.values()]


def _ranking(members: Sequence[tuple[int, str, Run]]) -> dict[str, Any]:
    rows = []
    for index, name, run in members:
        found = run.results["coal"]["measures"]
        estimate = found.get("coal", {})
        gold = (run.results.get("competence") or {}).get("gold") or {}
        code = run.results["verdict"].get("code")
        rows.append(
            {
                "index": index,
                "name": name,
                **{key: estimate.get(key) for key in ("value", "low", "high")},
                "follow": found.get("follow", {}).get("value"),
                "defy": found.get("defy", {}).get("value"),
                "gold": gold.get("value"),
                "verdict": _VERDICTS.get(code, _VERDICTS["none"])[0],
                "ranked": code != "none" and all(_number(estimate.get(key)) for key in ("value", "low", "high")),
            }
        )
    ranked = [row for row in rows if row["ranked"]]
    places: list[Ranking] = rank([(row["value"], row["low"], row["high"]) for row in ranked])
    for row, place in zip(ranked, places, strict=True):
        row.update(group=place.group, ranks=place.shown)
    for row in rows:
        row.setdefault("group", None)
        row.setdefault("ranks", "")
    rows.sort(key=lambda row: (not row["ranked"], row["value"] if _number(row["value"]) else 0, row["index"]))
    data = members[0][2].data
    return {"data": f"{data.get('name', 'unknown data')} ({data.get('lang', '?')})", "rows": rows}


def _headline(coal: dict[str, Any]) -> str:
    entry = coal["measures"].get("coal", {})
    if not all(_number(entry.get(key)) for key in ("value", "low", "high")):
        return ""
    smallest = coal.get("minimum_detectable_difference")
    told_apart = f" Another audit must differ by {smallest:.3f} to be told apart." if _number(smallest) else ""
    return (
        f"NLI-CoAL is {entry['value']:.3f} on a scale from 0 (even) to 1; the {_percent(entry.get('level', 0.95))} "
        f"interval reaches from {entry['low']:.3f} to {entry['high']:.3f}.{told_apart}"
    )


def _order(order: dict[str, Any]) -> str:
    if order.get("holds") is None:
        return "The order condition cannot be told: PS or AS has no pairs."
    if not order["holds"]:
        return "The order condition (entailment likelier in PS than in AS, contradiction the reverse) fails."
    doubt = "beyond doubt" if order.get("beyond_doubt") else "within uncertainty"
    return f"The order condition (entailment likelier in PS than in AS, contradiction the reverse) holds {doubt}."


def _stereotypes(measures: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(name for entry in measures.values() for name in entry.get("by_stereotype") or {}))


def _spread(templates: pl.DataFrame) -> str:
    scores = templates["score"].to_numpy()
    least, lower, median, upper, most = np.quantile(scores, [0, 0.25, 0.5, 0.75, 1])
    return (
        f"Here they range from {least:.0%} to {most:.0%}, with a median of {median:.0%}; the middle half lies between "
        f"{lower:.0%} and {upper:.0%}."
    )


def _direction(rows: pl.DataFrame) -> list[str]:
    """Where the non-neutral answers go, one line per stereotype and group."""
    return [
        f"{row['stereotype'] or 'unknown'} occupations, hypothesis names {row['group'] or 'no group'}: entailment "
        f"{row[ENTAILMENT]:.1%}, contradiction {row[CONTRADICTION]:.1%} of {row['n']:,} pairs"
        for row in by_direction(rows).sort(pl.col("stereotype") != "neutral", "stereotype", "group").to_dicts()
    ]


def _flat(value: Any, prefix: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict) and value:
        return [pair for key, item in value.items() for pair in _flat(item, f"{prefix}.{key}" if prefix else str(key))]
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return [pair for number, item in enumerate(value) for pair in _flat(item, f"{prefix}[{number}]")]
    if isinstance(value, list):
        return [(prefix, ", ".join(map(str, value)) or "–")]
    return [(prefix, "–" if value in (None, "", {}) else str(value))]


def _shown(value: Any, digits: int = 3) -> str:
    if value is None:
        return "n/a"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)


def _percent(level: Any) -> str:
    return f"{level:.0%}" if _number(level) else str(level)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
