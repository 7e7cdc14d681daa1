"""How a language model was asked and how it took it: abstentions, agreement over orders and wordings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenli.format import capitalised, interval, number, percent
from evenli.predictions import ABSTAINED
from evenli.suites.base import Section, get_suite
from evenli.suites.summary import range_of
from evenli.types import AuditResult, MeasureResult


def prompting_sections(result: AuditResult) -> list[Section]:
    """A table for each suite; none where the model is no language model."""
    sections = []
    for suite, measures in result.prompting.items():
        rows = [
            (one.title, number(one.value), interval(one.low, one.high), f"{one.ideal:.2g}", one.formula)
            for one in measures.values()
        ]
        heading = f"Abstentions, and how steady the answers are: {capitalised(get_suite(suite).title)}"
        sections.append(Section(heading, ("measure", ">value", ">interval", ">ideal", "definition"), rows))
    return sections


def prompting_lines(result: AuditResult, header: Mapping[str, Any]) -> list[str]:
    """The same in a line for each suite, for the first screen."""
    asked, how = header.get("prompting"), ""
    if isinstance(asked, Mapping):
        views = (asked.get(name) for name in ("prompts", "orders"))
        wordings, orders = (len(one) if isinstance(one, Sequence) else 0 for one in views)
        how = f"asked in {wordings} wording(s) × {orders} option orders; "
    return [f"Language model: {how}{_line(measures)}." for measures in result.prompting.values()]


def _line(measures: Mapping[str, MeasureResult]) -> str:
    shown = {name: f"{percent(one.value)} ({range_of(one.low, one.high)})" for name, one in measures.items()}
    parts = [f"no answer to {shown[ABSTAINED]} of the pairs"]
    gap = measures.get("abstention_gap")
    if gap is not None and (gap.low > 0 or gap.high < 0):
        parts.append(f"{gap.direction if gap.value > 0 else 'less so there'} ({number(gap.value, 2)})")
    names = {
        "order_agreement": "the same answer in all orders {}",
        "prompt_agreement": "in all wordings {}",
        "first_option": "the first option chosen {}",
    }
    return ", ".join(parts + [text.format(shown[name]) for name, text in names.items() if name in shown])
