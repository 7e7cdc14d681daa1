"""Pair sets: what a model is asked. Builders, the official loader, the validator and cards."""

from evenli.datasets.checks import control_pairs, gold_pairs
from evenli.datasets.coal import SLOT, build_coal
from evenli.datasets.dev import DevLists, dev_pairs, iter_dev, load_dev_lists, write_dev
from evenli.datasets.files import read_pairs, read_rows, write_pairs
from evenli.datasets.load import load_coal
from evenli.datasets.official import read_release, recover_lists, to_official_jsonl
from evenli.datasets.pairs import PAIR_COLUMNS, PairSet
from evenli.datasets.validate import Finding, looks_like, validate

__all__ = [
    "PAIR_COLUMNS",
    "SLOT",
    "DevLists",
    "Finding",
    "PairSet",
    "build_coal",
    "control_pairs",
    "dev_pairs",
    "gold_pairs",
    "iter_dev",
    "load_coal",
    "load_dev_lists",
    "looks_like",
    "read_pairs",
    "read_release",
    "read_rows",
    "recover_lists",
    "to_official_jsonl",
    "validate",
    "write_dev",
    "write_pairs",
]
