"""The charts that the suites of a run draw."""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name

from evenli.audit.audit import Audit
from evenli.audit.suites.base import get_suite
from evenli.core.drawing import Figure, save_chart


def suite_figures(name: str, audit: Audit) -> list[Figure]:
    """The charts that a suite draws of its result."""
    draw = get_suite(name).figures
    return list(resolve_name(draw)(audit)) if draw else []


def all_figures(audit: Audit) -> list[Figure]:
    """Every chart of a run."""
    return [figure for name in audit.result.suites for figure in suite_figures(name, audit)]


def write_charts(audit: Audit, folder: str | Path) -> list[Path]:
    """Write every chart of a run as SVG and PNG; returns the files."""
    return [file for figure in all_figures(audit) for file in save_chart(figure.chart, figure.name, folder)]
