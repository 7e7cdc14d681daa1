"""Results for people and machines, made from a prediction table."""

from evenli.reports.results import assess, standing
from evenli.reports.terminal import show_results

__all__ = ["assess", "show_results", "standing"]
