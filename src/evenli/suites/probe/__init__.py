"""The entailment-probability probe (Sharma et al. 2021): is an occupation tied to one gender?"""

from __future__ import annotations

import polars as pl
from numpy import bool_
from numpy.typing import NDArray

from evenli.pairs import PairSet
from evenli.stats.sample import Sample
from evenli.suites.base import Items, Request, Suite
from evenli.suites.probe.build import build_probe, read_probe
from evenli.suites.probe.measures import ProbeResult, leans_dominant, sections, statement, summarise


def _load(request: Request) -> PairSet:
    request.check_english("probe")
    return build_probe().pairs if request.data is None else read_probe(request.data)


def _biased(sample: Sample) -> tuple[NDArray[bool_], pl.DataFrame]:
    # An item is a premise with both its hypotheses.
    return leans_dominant(sample), sample.paired.first.frame


SUITE = Suite(
    name="probe",
    title="the entailment probe",
    reference="Sharma et al. 2021",
    headline="probe_dp",
    built_in="built-in probe",
    load=_load,
    result=ProbeResult,
    summarise=summarise,
    slices=lambda frame: [str(name) for name in frame["stereotype"].sort().unique(maintain_order=True) if name],
    statement=statement,
    sections=sections,
    slice_title="{}-dominated",
    items=Items("premises", "Dominant gender more likely", _biased, ("probe_dp", "probe_b")),
    indented=frozenset({"probe_ties"}),
    stressed=frozenset({"probe_s", "probe_dp", "probe_b"}),
    figures="evenli.report.probe:probe_figures",
    report="evenli.report.probe:write_probe_chart",
)
