"""An audit in a notebook: the first screen as HTML, and its charts by name."""

from __future__ import annotations

from typing import Any

from evenli.audit.audit import Audit
from evenli.audit.report.html import all_figures
from evenli.audit.report.terminal import summarise
from evenli.audit.suites.base import get_suite
from evenli.core import page
from evenli.core.drawing import inline, load_altair
from evenli.core.errors import InputError
from evenli.core.format import interval, number
from evenli.core.svg import FILLS, panels

_OWN = "readings"
"""Name of the chart of the first screen."""
_STYLE = """
.evenli { font-family: system-ui, sans-serif; line-height: 1.4; max-width: 72rem; color: inherit; }
.evenli p { margin: .2rem 0; }
.evenli .verdict { font-size: 1.25rem; font-weight: 650; border-left: .35rem solid #0b57d0; padding-left: .8rem; }
.evenli .panels, .evenli .cards { display: grid; gap: .5rem 1.5rem; }
.evenli .panels, .evenli .cards { grid-template-columns: repeat(auto-fit, minmax(14rem, 1fr)); }
.evenli .panel-name, .evenli .card-name { font-weight: 600; }
.evenli .card-value { font-size: 1.4rem; font-weight: 700; }
.evenli .card-value span, .evenli .note, .evenli .card-meaning { font-size: .9rem; font-weight: 400; opacity: .8; }
.evenli .answers { list-style: none; padding: 0; margin: .2rem 0; display: flex; flex-wrap: wrap; gap: 0 1.2rem; }
.evenli .answers .own { font-weight: 700; }
.evenli svg { width: 100%; max-width: 24rem; height: auto; }
.evenli svg text { fill: currentColor; }
.evenli svg line { stroke: currentColor; }
"""
_GREY = ' style="color:#767676" title="no verdict: these numbers say nothing about bias"'


def show(audit: Audit) -> str:
    """The first screen for a notebook, with its own style, which touches nothing else."""
    from markupsafe import escape

    summary = summarise(audit)
    ui = page.environment().get_template("macros.html.j2").module
    first = ui.first_screen(summary, audit.verdict.code, panels(summary))
    title = escape(f"{audit.name} ({audit.result.lang})")
    grey = _GREY if summary.problem else ""
    # The first screen is about one suite; the table has the headline of each.
    rows = (
        (get_suite(name).title, suite.main.title, number(suite.value), interval(suite.low, suite.high))
        for name, suite in audit.result.suites.items()
    )
    cells = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    table = f"<table><tr><th>suite</th><th>score</th><th>value</th><th>interval</th></tr>{cells}</table>"
    return f'<div class="evenli"{grey}><style>{_STYLE}</style><p><b>{title}</b></p>{first}{table}</div>'


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
    colours = alt.Scale(domain=order, range=[FILLS[share.kind] for share in own.bars[0].shares])
    base = inline(values).encode(y=alt.Y("read as:N", sort=order, axis=alt.Axis(title=None)))
    scale = alt.Scale(domain=[0, 1])
    across = alt.X("share:Q", scale=scale, axis=alt.Axis(format=".0%", title="share of the sentences"))
    bars = base.mark_bar().encode(x=across, color=alt.Color("read as:N", scale=colours, legend=None))
    lines = base.mark_rule().encode(x=alt.X("low:Q", scale=scale), x2="high:Q")
    rows = alt.Row("jobs:N", sort=[bar.name for bar in own.bars], header=alt.Header(title=None, labelOrient="top"))
    return alt.layer(bars, lines).properties(width=320, title=own.question).facet(row=rows)
