"""How a language model was asked and how it took it: abstentions, agreement over orders and wordings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenli.format import interval, number, percent
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
        title = get_suite(suite).title
        heading = f"Abstentions, and how steady the answers are: {title[:1].upper() + title[1:]}"
        columns = ("measure", ">value", ">interval", ">ideal", "definition")
        sections.append(Section(heading, columns, rows))
    return sections


def prompting_lines(result: AuditResult, header: Mapping[str, Any]) -> list[str]:
    """The same in a line for each suite, for the first screen."""
    asked = header.get("prompting")
    how = f"asked in {_views(asked)}; " if isinstance(asked, Mapping) else ""
    return [f"Language model: {how}{_line(measures)}." for measures in result.prompting.values()]


def _views(asked: Mapping[str, Any]) -> str:
    prompts, orders = (asked.get(name) for name in ("prompts", "orders"))
    counts = [len(one) if isinstance(one, Sequence) else 0 for one in (prompts, orders)]
    return f"{counts[0]} wording(s) × {counts[1]} option orders"


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
