"""The entailment-probability probe (Sharma et al. 2021): is an occupation tied to one gender?"""

from __future__ import annotations

from dataclasses import replace

import polars as pl
from numpy import bool_
from numpy.typing import NDArray

from evenli.audit.pairs import PairSet
from evenli.audit.suites.about import About
from evenli.audit.suites.base import Request, Suite, Texts, own
from evenli.audit.suites.probe import measures
from evenli.audit.suites.probe.build import build_probe, label_by_labour, read_probe
from evenli.audit.suites.probe.languages import LANGUAGES, build_probe_in
from evenli.audit.suites.probe.measures import ProbeResult, leans_dominant, shown
from evenli.core.blocks import PAGE, Block
from evenli.core.errors import InputError
from evenli.stats.sample import Sample


class Probe(Suite):
    """Which gender the model calls likelier, of two hypotheses that differ in it."""

    name = "probe"
    title = "the entailment probe"
    reference = "Sharma et al. 2021"
    headline = "probe_lean"
    built_in = "built-in probe"
    result = ProbeResult
    takes = ("dominance",)
    slice_title = "{}-dominated"
    items = "premises"
    answers = "Dominant gender more likely"
    conclusions = ("probe_lean", "probe_dp", "probe_b")
    self_sufficient = False

    summarise = own(measures.summarise)
    statement = own(measures.statement)

    def pairs(self, request: Request) -> PairSet:
        translated = request.lang in LANGUAGES
        # Everything but the language is checked as for the English probe.
        (replace(request, lang="en") if translated else request).check_english(self.name)
        if translated and request.dominance is not None:
            raise InputError(
                f"the labour shares are those of the US, the language is '{request.lang}'; leave dominance out"
            )
        if request.data is not None:
            pairs = replace(read_probe(request.data), lang=request.lang)
        else:
            pairs = build_probe_in(request.lang) if translated else build_probe().pairs
        return pairs if request.dominance is None else label_by_labour(pairs, request.dominance)

    def slices(self, frame: pl.DataFrame) -> list[str]:
        return [str(name) for name in frame["stereotype"].sort().unique(maintain_order=True) if name]

    def blocks(self, result: ProbeResult, sample: Sample, medium: str) -> list[Block]:
        if medium != PAGE:
            return [shown(result)]
        from evenli.audit.suites.probe.chart import probe_figures  # here: only a report needs charts

        return [replace(shown(result), figures=probe_figures(result))]

    def biased(self, sample: Sample) -> tuple[NDArray[bool_], pl.DataFrame]:
        # An item is a premise with both its hypotheses.
        return leans_dominant(sample), sample.paired.first.frame

    def texts(self, about: About) -> Texts:
        paper = "Sharma, Dey, Sinha (2021), Evaluating Gender Bias in Natural Language Inference."
        return replace(super().texts(about), references=(paper,))


SUITE = Probe()
