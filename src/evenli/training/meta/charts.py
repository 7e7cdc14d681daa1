"""A meta-evaluation for people, on the terminal and as a page: which measures follow bias, which follow plain error."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evenli.core.blocks import Block, Fact
from evenli.core.console import table, titled
from evenli.core.drawing import WIDTH, drawn, inline, load_altair, save_chart
from evenli.core.errors import InputError
from evenli.core.format import interval, number, p_value, percent, printable, signed
from evenli.core.page import render
from evenli.stats.measure import measures
from evenli.training.meta.sweep import NO_CORRELATION, OTHERS, OWN, SweepResult, pearson_p

MAIN = ("coal", "fn_bias", "nn", "follow", "order_entailment", "stereotype")
"""Measures drawn: more than six lines are hard to distinguish. The table and the results have all of them."""
CAUSE_MEASURES = {"stereotype": "stereotype", "default_gender": "default"}
"""Measures that should follow one cause and no other. No measure does so for error in no direction."""
MATRIX = (*CAUSE_MEASURES, "total_error", "contradictory", "coal", "fn_bias", "probe_s", "probe_dp", "probe_b")
"""Measures of the response matrix as it is shown; ``response.csv`` and the results have all of them."""
PUBLISHED_POINTS = 11  # bias rates behind every published correlation
LEARNT = 0.9  # held-out accuracy below which a bias-controlled model has not learnt what it was taught
LIMITS = "The rates are those of bias that was trained in on purpose; bias that a model has picked up may differ."
_RANKED = 5
# Distinct for colour-blind readers; dashes distinguish the lines without colour.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#4d4d4d")
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2], [4, 4], [1, 3])
_STROKE = {"symbolType": "stroke", "symbolSize": 900, "symbolStrokeWidth": 2, "symbolOpacity": 1}


def print_meta(results: SweepResult, console: Console) -> None:
    """Print how every measure moves with the rates, beside what was published."""
    seeds = f"{'seed' if len(results.seeds) == 1 else 'seeds'} {', '.join(map(str, results.seeds))}"
    kinds = {"mix": "mixtures of causes"}
    axes = " and ".join(f"{len(own)} {kinds.get(axis, f'{axis} rates')}" for axis, own in results.levels.items() if own)
    console.print(f"[bold]{escape(results.base)}[/bold] ({escape(results.lang)}), trained to {axes}, {seeds}")
    if results.responses:
        _print_responses(results, console)
    if "bias" in results.levels:
        _print_bias(results, console)
    console.print(LIMITS, style="dim")


def _print_responses(results: SweepResult, console: Console) -> None:
    """The response matrix, on the levels that were taught and on those that were learnt."""
    share = results.learnt_share
    registered = {measure.name for suite in ("coal", "probe") for measure in measures(suite)}
    shown = [
        response for response in results.responses if response.measure in MATRIX or response.measure not in registered
    ]
    # A model learns less than it is taught; the slopes on what it learnt show the measure alone.
    for kind, title in (("taught", "taught"), ("learnt", "learnt, on held-out sentences")):
        heads = ["measure", *(f">{cause}" for cause in shown[0].taught), ">fit"]
        rows = []
        for response in shown:
            slopes, fit = (response.taught, number(response.fit, 2)) if kind == "taught" else (response.learnt, "")
            cells = [
                signed(slope.value, 2) + ("" if math.isnan(slope.high) else f" ±{number(slope.high - slope.value, 2)}")
                for slope in slopes.values()
            ]
            rows.append([response.title, *cells, fit])
        main = [at for at, response in enumerate(shown) if response.measure in CAUSE_MEASURES]
        heading = f"Change of the score per unit of each cause {title}"
        titled(heading, table(heads, rows, main, tight=True), console)
    console.print(
        f"The models learnt {percent(share['mean'])} of what they were taught (lowest {percent(share['lowest'])}). "
        "±: 95% interval over seeds, from three on; fit: share of the variance that straight lines explain.",
        style="dim",
    )
    own, mixed = {response.measure: response for response in shown}, []
    for name, cause in CAUSE_MEASURES.items():
        if name in own and not own[name].measures_only(cause):
            shares = (f"{other} {signed(slope.value, 2)}" for other, slope in own[name].taught.items())
            mixed.append(f"{own[name].title} ({', '.join(shares)})")
    rule = f"own slope at least {OWN:g}, others at most {OTHERS:g} in size"
    both = " and ".join(own[name].title for name in CAUSE_MEASURES if name in own)
    causes = f"not separated: {'; '.join(mixed)} ({rule})." if mixed else f"{both} are separated: {rule}."
    console.print(f"[bold]Causes[/bold]  {escape(causes)}")
    console.print(
        "Total error rises with every cause by definition: it says how often a model errs, not why.", style="dim"
    )
    for response in shown:
        if response.reason:
            console.print(escape(f"{response.title}: {response.reason}."))


def _print_bias(results: SweepResult, console: Console) -> None:
    """How every measure moves with the rates of the two axes of the paper's kind."""
    lowest = results.held_out_accuracy.get("lowest", 1)
    if lowest < LEARNT:
        console.print(
            f"A model answers only {percent(lowest)} of held-out pairs as it was taught: it did not learn its bias, so "
            "the scores below say little. Start from a model fine-tuned on NLI, or train longer (--epochs, --lr).",
            style="yellow",
        )
    titled("How the scores follow the bias rate (mean over seeds)", _associations(results), console)
    # Measures with the same reason share a line; reasons begin with what is missing: "no corr.: the score is ...".
    reasons: dict[str, list[str]] = {}
    for entry in results.measures:
        reasons.setdefault(entry.axis["bias"].pearson.note, []).append(entry.title)
    for reason in filter(None, reasons):
        what, _, why = reason.partition(": ")
        console.print(escape(f"{what} for {', '.join(reasons[reason])}: {why}."))
    spread = "over seeds: 95% bootstrap interval" if len(results.seeds) >= 3 else "an interval needs three seeds"
    slope, by = "", "sensitivity to bias"
    if "noise" in results.levels:
        slope = "; noise slope: change from noise rate 0 to 1 over the measure's range"
        by += " minus disturbance by noise"
    console.print(
        f"{spread}; p: permutation of the rates; separation: score at the highest minus score at the lowest bias rate, "
        f"at equal error rate{slope}.",
        style="dim",
    )
    published = [row for row in results.published if row["lang"] == results.lang]
    if published:
        console.print("\nPublished correlations beside ours", style="italic")
        _print_published(published, results, console)
    titles = {entry.name: entry.title for entry in results.measures}
    ranked = [rank for rank in results.ranking if not rank.reason]
    order = f"({by}): no measure follows the bias rate."
    if ranked:
        shown = ", ".join(f"{titles[rank.measure]} {number(rank.net_sensitivity, 2)}" for rank in ranked[:_RANKED])
        more = f", and {len(ranked) - _RANKED} more" if len(ranked) > _RANKED else ""
        order = f"({by}, share of the measure's range): {shown}{more}."
    console.print(f"\n[bold]Ranking[/bold]  {escape(order)}")


def meta_chart(results: SweepResult) -> Any:
    """Scores against rates: a line for the mean over seeds, a band for their range, a panel per axis."""
    alt = load_altair("the chart of a meta-evaluation")
    values: list[dict[str, Any]] = []
    for entry in (entry for entry in results.measures if entry.name in MAIN):
        for axis, curve in entry.axis.items():
            for rate, scores in zip(results.levels[axis], curve.scores.T.tolist(), strict=True):
                # An empty point, which breaks the line, where a seed has no score.
                point = dict.fromkeys(("score", "low", "high"))
                if not any(map(math.isnan, scores)):
                    point = {"score": sum(scores) / len(scores), "low": min(scores), "high": max(scores)}
                values.append({"measure": entry.title, "axis": axis, "rate": rate, **point})
    ends = [value[key] for value in values for key in ("low", "high") if value[key] is not None]
    if not ends:
        raise InputError("nothing to draw: no measure of this meta-evaluation has a score")
    names = list(dict.fromkeys(value["measure"] for value in values))
    legend = alt.Legend(orient="bottom", columns=2, labelLimit=WIDTH // 2, **_STROKE)
    colours, dashes = (alt.Scale(domain=names, range=list(of[: len(names)])) for of in (_COLOURS, _DASHES))
    colour = alt.Color("measure:N", scale=colours, legend=legend)
    # One scale for both panels: a flat line must look flat beside a steep one.
    scale = alt.Scale(domain=[min(0.0, *ends), max(1.0, *ends)], nice=True)
    x = alt.X("rate:Q", scale=alt.Scale(domain=[0, 1]))
    y = alt.Y("score:Q", scale=scale, axis=alt.Axis(title="score", tickCount=6))
    dash = alt.StrokeDash("measure:N", scale=dashes, legend=legend)
    panels = []
    for axis in (axis for axis in results.levels if axis != "mix"):
        base = inline([value for value in values if value["axis"] == axis])
        rates = x.axis(title=f"{axis} rate", format=".0%", values=[0, 0.25, 0.5, 0.75, 1], grid=False)
        # The band needs no legend of its own: it has the colour of its line.
        band = base.mark_area(opacity=0.18).encode(x=rates, y=alt.Y("low:Q", scale=scale), y2="high:Q", color=colour)
        line = base.mark_line(strokeWidth=2).encode(x=rates, y=y, color=colour, strokeDash=dash)
        panels.append(alt.layer(band, line).properties(width=WIDTH, height=220))
    return alt.vconcat(*panels)


def write_meta_charts(results: SweepResult, folder: str | Path) -> list[Path]:
    """Write the chart of the rates as ``meta`` and that of the mixtures as ``response``, ``.svg`` and ``.png`` each."""
    files = save_chart(meta_chart(results), "meta", folder) if "bias" in results.levels else []
    return files + (save_chart(response_chart(results), "response", folder) if results.responses else [])


def written_files(results: SweepResult) -> list[str]:
    """What a sweep leaves in its directory for people."""
    charts = [*(["meta.svg"] if "bias" in results.levels else []), *(["response.svg"] if results.responses else [])]
    return ["results.json", "report.html", *(["response.csv"] if results.responses else []), *charts]


def response_chart(results: SweepResult) -> Any:
    """The response matrix as a map: a row per measure, a column per cause."""
    alt = load_altair("the chart of a response matrix")
    # Two decimals, and no minus before a zero.
    rows = [
        {**row, "slope": round(row["slope"], 2) + 0.0}
        for response in results.responses
        if response.measure in MATRIX
        for row in response.rows()
        if row["levels"] == "taught" and not math.isnan(row["slope"])
    ]
    if not rows:
        raise InputError("nothing to draw: no measure of this meta-evaluation has a slope")
    base = inline(rows).encode(
        x=alt.X("cause:N", sort=None, axis=alt.Axis(title=None, orient="top", labelAngle=0)),
        y=alt.Y("title:N", sort=None, axis=alt.Axis(title=None, labelLimit=260)),
    )
    # Through white in plain mixtures: other ways between colours give white a hue, and a slope of 0 would be yellow.
    colours = ["#d55e00", "#ffffff", "#0072b2"]
    scale = alt.Scale(domain=[-1, 0, 1], range=colours, clamp=True, interpolate="rgb")
    cells = base.mark_rect(stroke="#cccccc").encode(color=alt.Color("slope:Q", scale=scale, legend=None))
    dark = alt.condition("abs(datum.slope) > 0.6", alt.value("white"), alt.value("black"))
    text = base.mark_text().encode(text=alt.Text("slope:Q", format="+.2f"), color=dark)
    return alt.layer(cells, text).properties(width=300, height=26 * len({row["measure"] for row in rows}))


def _associations(results: SweepResult) -> Table:
    rows = []
    for entry in results.measures:
        bias, noise = entry.axis["bias"], entry.axis.get("noise")
        # Heads are broken by hand: all columns must fit a terminal of 80.
        cells = {
            "measure": entry.title,
            ">Pearson": _correlation(bias.pearson.value),
            ">over seeds": interval(bias.pearson.low, bias.pearson.high),
            ">p": p_value(bias.pearson.p, 4),
            ">Spear-\nman": number(bias.spearman.value),
            ">Ken-\ndall": number(bias.kendall.value),
            ">sepa-\nration": signed(bias.separation["mean"]),
            ">noise\nslope": signed(noise.slope if noise else None),
        }
        if len(results.seeds) < 3:
            del cells[">over seeds"]
        if "noise" not in results.levels:
            del cells[">noise\nslope"]
        rows.append(cells)
    main = [at for at, entry in enumerate(results.measures) if entry.name == "coal"]
    return table(list(rows[0]), [list(row.values()) for row in rows], main, tight=True)


def _print_published(rows: list[dict[str, str]], results: SweepResult, console: Console) -> None:
    about, lines, notes = ("source", "model", "statistic"), [], list[str]()
    for row in rows:
        cells = [row[key] for key in about]
        for title, prefix, name in (("NLI-CoAL", "coal", "coal"), ("FN", "fn", "fn_bias")):
            r, marked = row[f"{prefix}_corr"], row[f"{prefix}_sig"] == "yes"
            ours = getattr(results[name].axis["bias"], row["statistic"]).value
            cells += [r + ("*" if marked else " "), _correlation(ours)]
            if marked and not notes:
                notes.append("* marked significant by the authors.")
            # Only Pearson's r has a closed-form p, and the paper prints nothing but r.
            if marked and row["statistic"] == "pearson" and (p := pearson_p(float(r), PUBLISHED_POINTS)) >= 0.05:
                test = f"a two-sided test of {PUBLISHED_POINTS} points: p = {number(p)}"
                notes.append(f"The mark on {title} {r} ({row['source']}) cannot come from {test}.")
        lines.append(cells)
    console.print(table([*about, ">NLI-CoAL", ">ours", ">FN", ">ours"], lines))
    for note in notes:
        console.print(escape(note))


def _correlation(value: float) -> str:
    return NO_CORRELATION if math.isnan(value) else number(value)


# ---- the page


def meta_page(results: SweepResult) -> str:
    """A sweep: does each measure follow the bias that was trained in, or plain error?"""
    ranked, responses = [rank for rank in results.ranking if not rank.reason], results.responses
    titles = {entry.name: entry.title for entry in results.measures}
    lead = "No measure follows the trained-in bias."
    if ranked:
        lead = f"Of {len(titles)} measures, {titles[ranked[0].measure]} follows the trained-in bias best."
    elif responses:
        separate = sum(any(map(response.measures_only, response.taught)) for response in responses)
        mixed = sum(len(response.moved_by()) > 1 for response in responses)
        lead = f"{separate} of {len(responses)} measures follow one cause of bias alone; {mixed} mix several causes."
    blocks = [_curves(results, titles)] if "bias" in results.levels else []
    blocks += [_causes(results)] if responses else []
    learnt = []
    if "lowest" in results.held_out_accuracy:
        lowest = percent(results.held_out_accuracy["lowest"])
        learnt = [f"The model that learnt least answers {lowest} of new sentences as taught."]
    blocks.append(Block("Limits", lines=[*learnt, LIMITS]))
    facts = []
    for cause in responses[0].taught if responses else ():
        only = [response.title.strip() for response in responses if response.measures_only(cause)]
        names = f", such as “{only[0]}”" if only else ""
        facts.append(Fact(f"Follow “{cause}” alone", str(len(only)), f"of {len(responses)}", f"measures{names}"))
    return render(f"Which measures follow bias? {printable(results.base)} ({results.lang})", lead, blocks, facts)


def _curves(results: SweepResult, titles: dict[str, str]) -> Block:
    title = "Score against rate: mean and range over seeds"
    return Block(
        "Response curves",
        lines=[
            "Models were trained to known rates of bias, and of plain error.",
            "A good measure rises with the first only.",
        ],
        figures=drawn(title, "Lines, a measure each", meta_chart, results),
        columns=("measure", ">sensitivity to bias", ">disturbance by error", ">net", ">Pearson"),
        rows=[
            [titles[rank.measure], rank.sensitivity, rank.disturbance, rank.net_sensitivity, rank.pearson]
            for rank in results.ranking
        ],
        caption="Measures, best first; shares of the range of each measure",
        notes=[f"{titles[rank.measure]}: {rank.reason}." for rank in results.ranking if rank.reason],
    )


def _causes(results: SweepResult) -> Block:
    return Block(
        "Response to each cause",
        lines=[
            "Models were trained to follow stereotypes, to assume a man, or to err without a direction, each to a "
            "known degree. A number says how far a measure moves when that cause goes from nothing to everything.",
            "A measure of one cause has 1 in its column and 0 in the others.",
        ],
        figures=drawn("Change of the score per unit of each cause", "A map of slopes", response_chart, results),
        columns=("measure", *(f">{cause}" for cause in results.responses[0].taught), ">fit"),
        rows=[
            [response.title.strip(), *(signed(slope.value) for slope in response.taught.values()), response.fit]
            for response in results.responses
        ],
        caption="Slopes on the levels that were taught; fit is the share of the variance that they explain",
        filtered=True,
    )
