"""Does the answer survive another wording? NLI-CoAL asked in many ways that mean the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.audit.pairs import PairSet
from evenli.audit.suites.base import Suite, own
from evenli.audit.suites.coal import axis_texts
from evenli.audit.suites.robust import build, results
from evenli.audit.suites.robust.curve import on_shared
from evenli.audit.suites.robust.results import RobustResult
from evenli.audit.suites.robust.stability import PURPOSE
from evenli.core.blocks import PAGE, Block
from evenli.core.errors import MissingExtraError
from evenli.core.extras import check_extra
from evenli.stats.sample import Sample


class Robust(Suite):
    """Whether a cause keeps its sign, and how far its level moves."""

    name = "robust"
    title = "NLI-CoAL in other words"
    reference = "evenli, after Seshadri et al. 2022"
    headline = "stereotype_mean"
    built_in = "wordings"
    result = RobustResult
    takes = ("full",)
    items = "pairs"
    self_sufficient = False

    pairs = own(build.load)
    summarise = own(results.summarise)
    statement = own(results.statement)
    shared = own(on_shared)
    contrast = own(results.contrast)
    texts = own(axis_texts)

    def announce(self, pairs: PairSet) -> Sequence[str]:
        try:
            check_extra("wording", PURPOSE, "statsmodels")
        except MissingExtraError as error:
            # Said before minutes of work, not after.
            return f"{error}; everything else is computed without it", *pairs.notes[:1]
        return pairs.notes[:1]

    def blocks(self, result: RobustResult, sample: Sample, medium: str) -> list[Block]:
        shown = results.blocks(result)
        if medium != PAGE:
            return shown
        from evenli.audit.suites.robust.chart import figure  # here: only a report needs charts

        return [replace(block, figures=[figure(result)]) if block.measures else block for block in shown]

    def biased(self, sample: Sample) -> tuple[NDArray[np.bool_], pl.DataFrame]:
        asked = ~sample.frame["occupation"].is_null()
        return sample.biased[asked.to_numpy()], sample.frame.filter(asked)


SUITE = Robust()
