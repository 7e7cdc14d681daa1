"""A meta-evaluation for people: which measures follow bias, which follow plain error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evenli._extras import need
from evenli.errors import InputError
from evenli.report.charts import WIDTH, save_chart
from evenli.report.format import UNDEFINED, interval, number, p_value, signed
from evenli.stats.sweep import NO_CORRELATION, STATISTICS, pearson_p

MAIN = ("coal", "fn_bias", "nn", "follow", "order_entailment", "dominance")
"""Measures drawn: more than six lines are hard to distinguish. The table and the results have all of them."""
PUBLISHED_POINTS = 11
"""Bias rates behind every published correlation."""
_SIGNIFICANT = 0.05
_RANKED = 5
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#4d4d4d")
"""Distinct for colour-blind readers; dashes distinguish the lines without colour."""
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2], [4, 4], [1, 3])
_STROKE = {"symbolType": "stroke", "symbolSize": 900, "symbolStrokeWidth": 2, "symbolOpacity": 1}
_PANELS = {"bias": "bias rate", "noise": "noise rate"}

LEARNT = 0.9
"""Held-out accuracy below which a bias-controlled model has not learnt what it was taught."""


def print_meta(results: dict[str, Any], console: Console) -> None:
    """Print how every measure moves with the rates, beside what was published."""
    levels, seeds = results["levels"], results["seeds"]
    axes = " and ".join(f"{len(rates)} {axis} rates" for axis, rates in levels.items() if rates)
    many = "seed" if len(seeds) == 1 else "seeds"
    console.print(
        f"[bold]{escape(str(results['base']))}[/bold] ({escape(str(results['lang']))}), trained to {axes}, "
        f"{many} {', '.join(map(str, seeds))}"
    )
    lowest = results.get("held_out_accuracy", {}).get("lowest")
    if lowest is not None and lowest < LEARNT:
        console.print(
            f"A model answers only {lowest:.0%} of held-out pairs as it was taught: it did not learn its bias, so the "
            "scores below say little. Start from a model fine-tuned on NLI, or train longer (--epochs, --lr).",
            style="yellow",
        )
    console.print()
    console.print("How the scores follow the bias rate (mean over seeds)", style="italic")
    console.print(_associations(results))
    for note in _notes(results):
        console.print(escape(note))
    console.print(_legend(results), style="dim")
    published = [row for row in results.get("published", []) if row["lang"] == results["lang"]]
    if published:
        console.print()
        console.print("Published correlations beside ours", style="italic")
        console.print(_published(published, results))
        for note in _doubts(published):
            console.print(escape(note))
    if results.get("ranking"):
        console.print()
        console.print(f"[bold]Ranking[/bold]  {escape(_ranking(results))}")
    console.print(
        "The rates are those of bias that was trained in on purpose; bias that a model has picked up may differ.",
        style="dim",
    )


def meta_chart(results: dict[str, Any]) -> Any:
    """Scores against rates: a line for the mean over seeds, a band for their range, a panel per axis."""
    need("vl_convert", extra="report", purpose="the chart of a meta-evaluation")
    alt = need("altair", extra="report", purpose="the chart of a meta-evaluation")
    values = list(_points(results))
    ends = [value[key] for value in values for key in ("low", "high") if value[key] is not None]
    if not ends:
        raise InputError("nothing to draw: no measure of this meta-evaluation has a score")
    names = list(dict.fromkeys(value["measure"] for value in values))
    legend = alt.Legend(orient="bottom", columns=2, labelLimit=WIDTH // 2, **_STROKE)
    colours = alt.Scale(domain=names, range=list(_COLOURS[: len(names)]))
    dashes = alt.Scale(domain=names, range=[list(dash) for dash in _DASHES[: len(names)]])
    colour = alt.Color("measure:N", scale=colours, legend=legend)
    # One scale for both panels: a flat line must look flat beside a steep one.
    scale = alt.Scale(domain=[min(0.0, *ends), max(1.0, *ends)], nice=True)
    panels = []
    for axis, title in _PANELS.items():
        drawn = [value for value in values if value["axis"] == axis]
        if not drawn:
            continue
        base = alt.Chart(alt.InlineData(values=drawn))
        rates = alt.Axis(title=title, format=".0%", values=[0, 0.25, 0.5, 0.75, 1], grid=False)
        x = alt.X("rate:Q", scale=alt.Scale(domain=[0, 1]), axis=rates)
        y = alt.Y("score:Q", scale=scale, axis=alt.Axis(title="score", tickCount=6))
        band = base.mark_area(opacity=0.18).encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q", color=colour)
        dash = alt.StrokeDash("measure:N", scale=dashes, legend=legend)
        line = base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash)
        panels.append(alt.layer(band, line).properties(width=WIDTH, height=220))
    return alt.vconcat(*panels)


def write_meta_charts(results: dict[str, Any], folder: str | Path) -> list[Path]:
    """Write the chart as ``meta.svg`` and ``meta.png``; returns the files."""
    return save_chart(meta_chart(results), "meta", folder)


def _associations(results: dict[str, Any]) -> Table:
    noisy, spread = _is_noisy(results), _has_spread(results)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("measure")
    heads = ("Pearson", *(["over seeds"] if spread else []), "p", "Spear-\nman", "Ken-\ndall", "sepa-\nration")
    for head in (*heads, *(["noise\nslope"] if noisy else [])):
        table.add_column(head, justify="right", no_wrap=True, vertical="top")
    for entry in results["measures"]:
        bias = entry["axis"]["bias"]
        pearson, spearman, kendall = (bias[name] for name in STATISTICS)
        table.add_row(
            escape(entry["title"]),
            _correlation(pearson["value"]),
            *([escape(interval(pearson["low"], pearson["high"]))] if spread else []),
            p_value(pearson["p"], 4),
            number(spearman["value"]),
            number(kendall["value"]),
            signed(bias["separation"]["value"]),
            *([signed(entry["axis"].get("noise", {}).get("slope"))] if noisy else []),
            style="bold" if entry["name"] == "coal" else None,
        )
    return table


def _notes(results: dict[str, Any]) -> Iterator[str]:
    """Why a measure has no correlation or no interval; measures with the same reason share a line."""
    reasons: dict[str, list[str]] = {}
    for entry in results["measures"]:
        reason = entry["axis"]["bias"]["pearson"]["reason"]
        if reason:
            reasons.setdefault(reason, []).append(entry["title"].strip())
    for reason, titles in reasons.items():
        what, _, why = reason.partition(": ")
        yield f"{what} for {', '.join(titles)}: {why}."


def _legend(results: dict[str, Any]) -> str:
    spread = "over seeds: 95% bootstrap interval" if _has_spread(results) else "an interval needs three seeds"
    noise = "; noise slope: change from noise rate 0 to 1 over the measure's range" if _is_noisy(results) else ""
    return (
        f"{spread}; p: permutation of the rates; separation: score at the highest minus score at the lowest bias rate, "
        f"at equal error rate{noise}."
    )


def _published(rows: list[dict[str, Any]], results: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False)
    for head in ("source", "model", "statistic"):
        table.add_column(head)
    for head in ("NLI-CoAL", "ours", "FN", "ours"):
        table.add_column(head, justify="right", no_wrap=True)
    entries = {entry["name"]: entry["axis"]["bias"] for entry in results["measures"]}
    for row in rows:
        cells = []
        for name, prefix in (("coal", "coal"), ("fn_bias", "fn")):
            mark = "*" if row.get(f"{prefix}_sig") == "yes" else " "
            ours = _correlation(entries[name][row["statistic"]]["value"]) if name in entries else UNDEFINED
            cells += [f"{row[f'{prefix}_corr']}{mark}", ours]
        table.add_row(*(escape(str(row[key])) for key in ("source", "model", "statistic")), *map(escape, cells))
    return table


def _doubts(rows: list[dict[str, Any]]) -> Iterator[str]:
    if any(row.get(f"{prefix}_sig") == "yes" for row in rows for prefix in ("coal", "fn")):
        yield "* marked significant by the authors."
    for row in rows:
        for title, prefix in (("NLI-CoAL", "coal"), ("FN", "fn")):
            if row["statistic"] != "pearson" or row.get(f"{prefix}_sig") != "yes":
                continue
            p = pearson_p(float(row[f"{prefix}_corr"]), PUBLISHED_POINTS)
            if p >= _SIGNIFICANT:
                yield (
                    f"The mark on {title} {row[f'{prefix}_corr']} ({row['source']}) cannot come from a two-sided test "
                    f"of {PUBLISHED_POINTS} points: p = {p:.3f}."
                )


def _ranking(results: dict[str, Any]) -> str:
    titles = {entry["name"]: entry["title"].strip() for entry in results["measures"]}
    ranked = [row for row in results["ranking"] if not row["reason"]]
    by = "sensitivity to bias minus disturbance by noise" if _is_noisy(results) else "sensitivity to bias"
    if not ranked:
        return f"({by}): no measure follows the bias rate."
    best = [(titles.get(row["measure"], row["measure"]), row["net_sensitivity"]) for row in ranked[:_RANKED]]
    shown = ", ".join(f"{title} {value:.2f}" for title, value in best)
    more = f", and {len(ranked) - _RANKED} more" if len(ranked) > _RANKED else ""
    return f"({by}, share of the measure's range): {shown}{more}."


def _points(results: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One point per drawn measure, axis and rate; an empty one, which breaks the line, where a seed has no score."""
    entries = [entry for entry in results["measures"] if entry["name"] in MAIN] or results["measures"]
    entries = entries[: len(MAIN)]
    for entry in entries:
        for axis, curve in entry["axis"].items():
            for rate, scores in zip(results["levels"][axis], zip(*curve["scores"], strict=True), strict=True):
                point = dict.fromkeys(("score", "low", "high"))
                if None not in scores:
                    point = {"score": sum(scores) / len(scores), "low": min(scores), "high": max(scores)}
                yield {"measure": entry["title"].strip(), "axis": axis, "rate": rate, **point}


def _correlation(value: float | None) -> str:
    return NO_CORRELATION if value is None else number(value)


def _is_noisy(results: dict[str, Any]) -> bool:
    return bool(results["levels"].get("noise"))


def _has_spread(results: dict[str, Any]) -> bool:
    return len(results["seeds"]) >= 3
