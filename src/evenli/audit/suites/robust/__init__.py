"""Does the answer survive another wording? NLI-CoAL asked in many ways that mean the same."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.audit.suites.base import Items, Suite
from evenli.audit.suites.coal.texts import method
from evenli.audit.suites.robust.build import load
from evenli.audit.suites.robust.curve import on_shared
from evenli.audit.suites.robust.results import RobustResult, contrast, fields, sections, statement, summarise
from evenli.stats.sample import Sample


def _biased(sample: Sample) -> tuple[NDArray[np.bool_], pl.DataFrame]:
    asked = ~sample.frame["occupation"].is_null()
    return sample.biased[asked.to_numpy()], sample.frame.filter(asked)


SUITE = Suite(
    name="robust",
    title="NLI-CoAL in other words",
    reference="evenli, after Seshadri et al. 2022",
    headline="stereotype_mean",
    built_in="wordings",
    load=load,
    result=RobustResult,
    summarise=summarise,
    statement=statement,
    sections=sections,
    fields=fields,
    items=Items("pairs", "Biased answers", _biased, ("stereotype_mean",), shared=on_shared),
    stressed=frozenset({"stereotype_mean"}),
    samples=True,
    announce=lambda pairs: pairs.notes[0],
    contrast=contrast,
    figures="evenli.audit.suites.robust.chart:figures",
    report="evenli.audit.suites.robust.chart:write",
    method=method,
    alone=False,
)
