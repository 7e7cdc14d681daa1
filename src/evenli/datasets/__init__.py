"""Pair sets: what a model is asked. Builders, the official loader, the validator and cards."""

from evenli.datasets.checks import control_pairs, gold_pairs
from evenli.datasets.coal import SLOT, build_coal
from evenli.datasets.dev import DevLists, dev_pairs, iter_dev, load_dev_lists, write_dev
from evenli.datasets.files import read_pairs, read_rows, write_pairs
from evenli.datasets.load import SUITES, check_suites, data_by_suite, dev_sample, load_coal, load_suite
from evenli.datasets.official import read_release, recover_lists, to_official_jsonl
from evenli.datasets.pairs import PAIR_COLUMNS, PairSet
from evenli.datasets.probe import ProbeBuild, build_probe, probe_hypotheses, probe_occupations, read_probe
from evenli.datasets.validate import Finding, looks_like, validate

__all__ = [
    "PAIR_COLUMNS",
    "SLOT",
    "SUITES",
    "DevLists",
    "Finding",
    "PairSet",
    "ProbeBuild",
    "build_coal",
    "build_probe",
    "check_suites",
    "control_pairs",
    "data_by_suite",
    "dev_pairs",
    "dev_sample",
    "gold_pairs",
    "iter_dev",
    "load_coal",
    "load_dev_lists",
    "load_suite",
    "looks_like",
    "probe_hypotheses",
    "probe_occupations",
    "read_pairs",
    "read_probe",
    "read_release",
    "read_rows",
    "recover_lists",
    "to_official_jsonl",
    "validate",
    "write_dev",
    "write_pairs",
]
