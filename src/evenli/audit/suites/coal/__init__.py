"""NLI-CoAL (Anantaprayoon et al. 2024): pro-, anti- and non-stereotypical pairs, in the languages of the axis."""

from __future__ import annotations

import polars as pl

from evenli.audit.suites.base import Items, Suite
from evenli.audit.suites.coal import causes as causes
from evenli.audit.suites.coal import measures as measures
from evenli.audit.suites.coal.load import check, load
from evenli.audit.suites.coal.results import CoalResult, fields, sections, summarise
from evenli.audit.suites.coal.texts import RANKING, card, method
from evenli.audit.suites.coal.verdict import CAUSES, ELSEWHERE, judge, summary

SUITE = Suite(
    name="coal",
    title="NLI-CoAL",
    reference="Anantaprayoon et al. 2024",
    headline="coal",
    load=load,
    check=check,
    result=CoalResult,
    summarise=summarise,
    slices=lambda frame: [
        str(name) for name in frame.filter(pl.col("subset") == "PS")["stereotype"].unique(maintain_order=True) if name
    ],
    judge=judge,
    causes=(*CAUSES, ELSEWHERE),
    summary=summary,
    sections=sections,
    fields=fields,
    slice_title="{} jobs",
    items=Items("items", "Biased answers", lambda sample: (sample.biased, sample.frame), ("coal",), CAUSES),
    own=frozenset(causes.NAMES),
    indented=frozenset({"coal_pro", "coal_anti", "coal_non"}),
    stressed=frozenset({"coal", *CAUSES}),
    has_lists=True,
    card_type="nli-coal",
    listed=(*CAUSES, "coal", "follow", "defy", "fn_bias"),
    card=card,
    method=method,
    ranking=RANKING,
    page="evenli.audit.suites.coal.page:CoalPage",
    figures="evenli.audit.suites.coal.charts:figures",
)
