"""Measures: a table of predictions in, numbers out. No files, no printing, no model."""

from evenli.measures import coal, dev  # noqa: F401 - the order of import is the order in which measures are listed
from evenli.measures.checks import Competence, check_label_order, competence
from evenli.measures.estimate import Estimate, intervals, minimum_detectable_difference
from evenli.measures.occupations import by_occupation
from evenli.measures.probe import LabourComparison, labour_comparison, occupation_curve
from evenli.measures.registry import Measure, get_measure, measures
from evenli.measures.sample import Sample, cluster_weights, row_weights
from evenli.measures.verdict import Verdict, judge

__all__ = [
    "Competence",
    "Estimate",
    "LabourComparison",
    "Measure",
    "Sample",
    "Verdict",
    "by_occupation",
    "check_label_order",
    "cluster_weights",
    "competence",
    "get_measure",
    "intervals",
    "judge",
    "labour_comparison",
    "measures",
    "minimum_detectable_difference",
    "occupation_curve",
    "row_weights",
]
