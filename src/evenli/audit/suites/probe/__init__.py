"""The entailment-probability probe (Sharma et al. 2021): is an occupation tied to one gender?"""

from __future__ import annotations

from dataclasses import replace

import polars as pl
from numpy import bool_
from numpy.typing import NDArray

from evenli.audit.pairs import PairSet
from evenli.audit.suites.base import Items, Request, Suite
from evenli.audit.suites.coal.texts import method
from evenli.audit.suites.probe.build import build_probe, label_by_labour, read_probe
from evenli.audit.suites.probe.languages import LANGUAGES, build_probe_in
from evenli.audit.suites.probe.measures import ProbeResult, leans_dominant, sections, statement, summarise
from evenli.core.errors import InputError
from evenli.stats.sample import Sample


def _load(request: Request) -> PairSet:
    other = request.lang in LANGUAGES
    # Everything but the language is checked as for the English probe.
    (replace(request, lang="en") if other else request).check_english("probe")
    if other and request.dominance is not None:
        raise InputError(
            f"the labour shares are those of the US, the language is '{request.lang}'; leave dominance out"
        )
    if request.data is not None:
        pairs = replace(read_probe(request.data), lang=request.lang)
    else:
        pairs = build_probe_in(request.lang) if other else build_probe().pairs
    return pairs if request.dominance is None else label_by_labour(pairs, request.dominance)


def _biased(sample: Sample) -> tuple[NDArray[bool_], pl.DataFrame]:
    # An item is a premise with both its hypotheses.
    return leans_dominant(sample), sample.paired.first.frame


SUITE = Suite(
    name="probe",
    title="the entailment probe",
    reference="Sharma et al. 2021",
    headline="probe_lean",
    built_in="built-in probe",
    load=_load,
    result=ProbeResult,
    summarise=summarise,
    slices=lambda frame: [str(name) for name in frame["stereotype"].sort().unique(maintain_order=True) if name],
    statement=statement,
    sections=sections,
    slice_title="{}-dominated",
    takes_dominance=True,
    items=Items("premises", "Dominant gender more likely", _biased, ("probe_lean", "probe_dp", "probe_b")),
    indented=frozenset({"probe_ties"}),
    stressed=frozenset({"probe_lean", "probe_s", "probe_dp", "probe_b"}),
    figures="evenli.audit.suites.probe.chart:probe_figures",
    report="evenli.audit.suites.probe.chart:write_probe_chart",
    method=method,
    alone=False,
)
