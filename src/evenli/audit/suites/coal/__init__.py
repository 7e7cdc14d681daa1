"""NLI-CoAL (Anantaprayoon et al. 2024): pro-, anti- and non-stereotypical pairs, in the languages of the axis.

In English an audit asks it on two lists of jobs: the published one (suite ``coal``), and one of labour statistics with
classes of equal size (suite ``labour``), on which the verdict rests.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import ClassVar

import polars as pl
from msgspec import structs

from evenli.audit.results import AuditResult, Verdict
from evenli.audit.suites.about import About
from evenli.audit.suites.base import FOUND_NOTHING, Suite, Texts, data_of, own
from evenli.audit.suites.coal import results, screen, verdict
from evenli.audit.suites.coal.pairs import check, load, load_labour
from evenli.audit.suites.coal.results import CoalResult, detectable_difference, terminal_blocks
from evenli.audit.suites.coal.verdict import CAUSES, LEANS, UNSURE
from evenli.core.blocks import CARD, PAGE, Block, of_hundred, range_of
from evenli.core.format import prose
from evenli.core.record import Estimate
from evenli.core.registry import DEFAULT_SUITE
from evenli.stats.measure import Measure
from evenli.stats.sample import Sample
from evenli.words.occupations import LABOUR

_NOTATION = (
    "Shares of set x answered entailment, neutral and contradiction are written e_x, n_x, c_x, with p for PS, a "
    "for AS, n for NS."
)
_METHOD = """Rows are not independent: they share {things} and sentences. Intervals are about other
{things} {within}and other templates: two-way cluster-robust (Cameron, Gelbach, Miller 2011). {answers}
The verdict names a lean that is significant after Holm's
correction and whose interval does not lie within 0.05 of 0, and the total error if its interval lies above 0.05. The
end of the interval that is nearer to 0 gives the size: up to 0.1 slight, up to 0.3 clear, above strong."""
_TWO_GENDERS = """The two answers to one sentence, asked
with each group, are read together: M, F and X are the shares of sentences read as a job of the second group, of the
first, and incoherently; the lean of a class of jobs is l = M − F."""
_MANY_GROUPS = """The answers to one sentence, asked with each group, are read together: a group wins against
another where its answer stands higher (entailment above neutral above contradiction). M, F and X are the shares of
comparisons that it wins, loses, and that get the same answer which is not neutral."""
_COAL = "Anantaprayoon, Kaneko, Okazaki (2024), {}LREC-COLING{}"
_TITLE = (
    "Evaluating Gender Bias of Pre-trained Language Models in Natural Language Inference by Considering All Labels, "
)
_REFERENCES = (
    _COAL.format(_TITLE, "."),
    "Dev, Li, Phillips, Srikumar (2020), On Measuring and Mitigating Biased Inferences of Word Embeddings, AAAI.",
    "Bolukbasi, Chang, Zou, Saligrama, Kalai (2016), Man is to Computer Programmer as Woman is to Homemaker?, NeurIPS.",
)


def axis_texts(about: About) -> Texts:
    """In the wording of the paper for two genders, in the words of the axis for others."""
    heading, asked = "Gender bias in inference (NLI-CoAL)", "infers a gender from an occupation."
    limits = f"two genders, and stereotypes\ncollected in the United States. {FOUND_NOTHING}"
    method = _METHOD.format(things="occupations", within="(within their stereotype) ", answers=_TWO_GENDERS)
    references: tuple[str, ...] = _REFERENCES
    if not about.of_gender:
        heading = f"Bias in inference: {prose(about.title or about.axis)}"
        asked = f"infers a group from one of these {prose(about.thing)}s. {prose(about.construct)}".rstrip()
        limits = "\n".join(("and these groups.", *map(prose, about.assumptions), FOUND_NOTHING))
        method = _METHOD.format(things=f"{about.thing}s", within="", answers=_MANY_GROUPS)
        references = (_COAL.format("", ": NLI-CoAL."),)
    right = " whose correct label is always neutral"
    return Texts(heading, asked, limits, _COAL.format("", ""), method, references, right, _NOTATION)


def disagreement(results: AuditResult) -> str:
    """In which measure the published list disagrees, in a sentence; empty where it does not.

    The lists disagree if their intervals of *stereotype* do not overlap, or if one list names a cause that the other
    does not name, and the value of the other lies outside the interval. A list that is too short to decide says nothing
    against the other one.
    """
    own, other = (results.suites.get(name) for name in (LABOUR, DEFAULT_SUITE))
    if not isinstance(own, CoalResult) or not isinstance(other, CoalResult) or results.verdict.code == "none":
        return ""
    # Each list by itself: the verdict of the run may name causes of other wordings.
    mine, judged = (verdict.judge(of, results.competence) for of in (own, other))
    if judged.code == "none":
        return ""
    here, there = ({(cause.name, cause.direction) for cause in said.causes} for said in (mine, judged))
    first, second = own.measures["stereotype"], other.measures["stereotype"]
    apart = ["stereotype"] if first.high < second.low or second.high < first.low else []
    apart += [name for name, _ in sorted(here - there) if _excludes(own.measures[name], other.measures[name])]
    apart += [name for name, _ in sorted(there - here) if _excludes(other.measures[name], own.measures[name])]
    if not apart:
        return ""
    first, second = own.measures[apart[0]], other.measures[apart[0]]
    return f"The published list says otherwise: {second.title} {_of_hundred(second)}, here {_of_hundred(first)}."


def revise(said: Verdict, published: CoalResult) -> Verdict:
    """A verdict that names nothing does not stand where the published list has a lean or errors."""
    other = verdict.judge(published, None)
    if said.code == "error" and other.code == "bias":
        return structs.replace(said, sentence=f"{said.sentence} On the published list: {other.sentence}")
    if said.code not in {"even", "undecided"} or other.code not in {"bias", "error"}:
        return said
    return Verdict("undecided", f"Undecided: the two lists of jobs disagree. On the published list: {other.sentence}")


def _excludes(named: Estimate, other: Estimate) -> bool:
    """Whether the value of the other list lies outside the interval of the one that names the cause."""
    return other.value < named.low or other.value > named.high


def _of_hundred(estimate: Estimate) -> str:
    return f"{of_hundred(estimate.value)} ({range_of(estimate.low, estimate.high)})"


class Coal(Suite):
    """Two groups: whether an occupation is read as the job of one of them."""

    name = "coal"
    title = "NLI-CoAL"
    reference = "Anantaprayoon et al. 2024"
    headline = "coal"
    result = CoalResult
    takes: Collection[str] = ("occupations",)
    causes = (*LEANS, "total_error", UNSURE)
    tested = CAUSES
    slice_title = "{} jobs"
    reworded = True
    listed = (*CAUSES, "coal", "follow", "defy", "fn_bias")
    hub = ("nli-coal", "")
    ranked: ClassVar = {
        "stereotype": (
            "Follows stereotypes (below 0: goes against them)",
            "stereotype",
            "in how far they follow stereotypes",
        ),
        "default_gender": (
            "Assumes a man without a stereotype (below 0: a woman)",
            "default gender",
            "in whom they assume where a job has no stereotype",
        ),
        "total_error": ("Wrong answers in all", "total error", "in wrong answers of any kind"),
        "coal": ("NLI-CoAL, the published score", "", ""),
    }

    pairs = own(load)
    check = own(check)
    summarise = own(results.summarise)
    judge = own(verdict.judge)
    summary = own(screen.summary)
    texts = own(axis_texts)
    revise = own(revise)

    def slices(self, frame: pl.DataFrame) -> list[str]:
        stereotypes = frame.filter(pl.col("subset") == "PS")["stereotype"].unique(maintain_order=True)
        return [str(name) for name in stereotypes if name]

    def blocks(self, result: CoalResult, sample: Sample, medium: str) -> list[Block]:
        if medium == PAGE:
            from evenli.audit.suites.coal.page import page_blocks  # here: only a report needs charts

            return page_blocks(result, sample)
        if medium == CARD:  # the first screen has the other tables already
            return [Block(lines=[detectable_difference(result.minimum_detectable_difference)])]
        card = data_of(sample)
        return terminal_blocks(result, official=card is not None and card.name.startswith("official"))


class Labour(Coal):
    """The same on the jobs of US labour statistics."""

    name = LABOUR
    title = "NLI-CoAL on labour statistics"
    reference = "after Anantaprayoon et al. 2024"
    takes = ()
    hub = ("", "")
    ranked: ClassVar = {**Coal.ranked, "coal": ("NLI-CoAL on labour statistics", "", "")}

    pairs = own(load_labour)
    beside = own(disagreement)

    @property
    def measures(self) -> list[Measure]:
        return SUITE.measures

    def texts(self, about: About) -> Texts:
        heading = "Gender bias in inference (NLI-CoAL, labour statistics)"
        limits = f"two genders, and shares of women\nat work in the United States. {FOUND_NOTHING}"
        return replace(axis_texts(about), heading=heading, limits=limits)


SUITE, LABOUR_SUITE = Coal(), Labour()
