"""Any number of groups, and words that are stereotyped with one, several or none of them."""

from __future__ import annotations

from evenli.audit.suites.base import Suite, own
from evenli.audit.suites.coal import axis_texts
from evenli.audit.suites.groups import build, results, verdict
from evenli.audit.suites.groups.measures import CAUSES
from evenli.audit.suites.groups.results import GroupsResult
from evenli.core.blocks import Block
from evenli.stats.sample import Sample


class Groups(Suite):
    """Any number of groups: which one is inferred from a word, and which one is ruled out."""

    name = "groups"
    title = "n groups"
    reference = "after Anantaprayoon et al. 2024"
    headline = "coal_n"
    result = GroupsResult
    takes = ("occupations",)
    causes = verdict.NAMES
    listed = (*CAUSES, "coal_n", "distance")
    hub = ("", "NLI-CoAL, n groups")

    pairs = own(build.load)
    check = own(build.check)
    summarise = own(results.summarise)
    judge = own(verdict.judge)
    summary = own(verdict.summary)
    texts = own(axis_texts)

    def blocks(self, result: GroupsResult, sample: Sample, medium: str) -> list[Block]:
        return results.blocks(result)


SUITE = Groups()
