"""Any number of groups, and words that are stereotyped with one, several or none of them."""

from __future__ import annotations

from evenli.audit.pairs import PairSet
from evenli.audit.results import Competence, Verdict
from evenli.audit.suites.about import About
from evenli.audit.suites.base import Request, Suite, Texts
from evenli.audit.suites.coal import axis_texts
from evenli.audit.suites.groups.build import check, load
from evenli.audit.suites.groups.measures import CAUSES
from evenli.audit.suites.groups.results import GroupsResult, blocks, summarise
from evenli.audit.suites.groups.verdict import NAMES, judge, summary
from evenli.core.blocks import Block, Summary
from evenli.core.estimate import MeasureResult
from evenli.stats.sample import Sample


class Groups(Suite):
    """Any number of groups: which one is inferred from a word, and which one is ruled out."""

    name = "groups"
    title = "n groups"
    reference = "after Anantaprayoon et al. 2024"
    headline = "coal_n"
    result = GroupsResult
    takes = ("occupations",)
    causes = NAMES
    listed = (*CAUSES, "coal_n", "distance")
    hub = ("", "NLI-CoAL, n groups")

    def pairs(self, request: Request) -> PairSet:
        return load(request)

    def check(self, pairs: PairSet, request: Request) -> PairSet:
        return check(pairs, request)

    def summarise(self, sample: Sample, measured: dict[str, MeasureResult]) -> GroupsResult:
        return summarise(sample, measured)

    def judge(self, result: GroupsResult, competence: Competence | None) -> Verdict:
        return judge(result, competence)

    def summary(self, result: GroupsResult, verdict: Verdict, sample: Sample) -> Summary:
        return summary(result, verdict, sample)

    def blocks(self, result: GroupsResult, sample: Sample, medium: str) -> list[Block]:
        return blocks(result)

    def texts(self, about: About) -> Texts:
        return axis_texts(about)


SUITE = Groups()
