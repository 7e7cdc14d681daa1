"""Any number of groups, and words that are stereotyped with one, several or none of them."""

from __future__ import annotations

from evenli.audit.suites.base import Items, Suite
from evenli.audit.suites.coal.texts import groups_card, method
from evenli.audit.suites.groups import measures
from evenli.audit.suites.groups.build import check, load
from evenli.audit.suites.groups.results import GroupsResult, fields, sections, summarise
from evenli.audit.suites.groups.verdict import NAMES, judge, summary

SUITE = Suite(
    name="groups",
    title="n groups",
    reference="after Anantaprayoon et al. 2024",
    headline="coal_n",
    load=load,
    check=check,
    result=GroupsResult,
    summarise=summarise,
    judge=judge,
    causes=NAMES,
    summary=summary,
    sections=sections,
    fields=fields,
    items=Items("items", "Biased answers", lambda sample: (sample.biased, sample.frame), ("coal_n",)),
    own=frozenset(measures.OWN),
    indented=frozenset({"coal_n_pro", "coal_n_anti", "coal_n_non"}),
    stressed=frozenset({"coal_n", *measures.CAUSES}),
    has_lists=True,
    card_name="NLI-CoAL, n groups",
    listed=(*measures.CAUSES, "coal_n", "distance"),
    card=groups_card,
    method=method,
)
