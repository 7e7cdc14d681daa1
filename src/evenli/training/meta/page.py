"""The page about a sweep: which measures follow the bias that was trained in."""

from __future__ import annotations

from evenli.core.blocks import Block, Fact
from evenli.core.drawing import drawn
from evenli.core.format import percent, printable, signed
from evenli.core.page import render
from evenli.training.meta.charts import LIMITS, meta_chart, response_chart
from evenli.training.meta.sweep import SweepResult


def meta_page(results: SweepResult) -> str:
    """A sweep: does each measure follow the bias that was trained in, or plain error?"""
    ranked = [rank for rank in results.ranking if not rank.reason]
    titles = {entry.name: entry.title for entry in results.measures}
    lead = "No measure follows the trained-in bias."
    if ranked:
        lead = f"Of {len(titles)} measures, {titles[ranked[0].measure]} follows the trained-in bias best."
    elif results.responses:
        separate = sum(
            any(response.measures_only(cause) for cause in response.taught) for response in results.responses
        )
        mixed = sum(len(response.moved_by()) > 1 for response in results.responses)
        total = len(results.responses)
        lead = f"{separate} of {total} measures follow one cause of bias alone; {mixed} mix several causes."
    blocks = [_curves(results, titles)] if "bias" in results.levels else []
    blocks += [_causes(results)] if results.responses else []
    learnt = []
    if "lowest" in results.held_out_accuracy:
        lowest = percent(results.held_out_accuracy["lowest"])
        learnt = [f"The model that learnt least answers {lowest} of new sentences as taught."]
    blocks.append(Block("Limits", lines=[*learnt, LIMITS]))
    facts = []
    for cause in results.responses[0].taught if results.responses else ():
        only = [response.title.strip() for response in results.responses if response.measures_only(cause)]
        names = f", such as “{only[0]}”" if only else ""
        facts.append(
            Fact(f"Follow “{cause}” alone", str(len(only)), f"of {len(results.responses)}", f"measures{names}")
        )
    return render(f"Which measures follow bias? {printable(results.base)} ({results.lang})", lead, blocks, facts)


def _curves(results: SweepResult, titles: dict[str, str]) -> Block:
    title = "Score against rate: mean and range over seeds"
    return Block(
        "Response curves",
        lines=[
            "Models were trained to known rates of bias, and of plain error.",
            "A good measure rises with the first only.",
        ],
        figures=drawn(title, "Lines, a measure each", meta_chart, results),
        columns=("measure", ">sensitivity to bias", ">disturbance by error", ">net", ">Pearson"),
        rows=[
            [titles[rank.measure], rank.sensitivity, rank.disturbance, rank.net_sensitivity, rank.pearson]
            for rank in results.ranking
        ],
        caption="Measures, best first; shares of the range of each measure",
        notes=[f"{titles[rank.measure]}: {rank.reason}." for rank in results.ranking if rank.reason],
    )


def _causes(results: SweepResult) -> Block:
    return Block(
        "Response to each cause",
        lines=[
            "Models were trained to follow stereotypes, to assume a man, or to err without a direction, each to a "
            "known degree. A number says how far a measure moves when that cause goes from nothing to everything.",
            "A measure of one cause has 1 in its column and 0 in the others.",
        ],
        figures=drawn("Change of the score per unit of each cause", "A map of slopes", response_chart, results),
        columns=("measure", *(f">{cause}" for cause in results.responses[0].taught), ">fit"),
        rows=[
            [response.title.strip(), *(signed(slope.value) for slope in response.taught.values()), response.fit]
            for response in results.responses
        ],
        caption="Slopes on the levels that were taught; fit is the share of the variance that they explain",
        filtered=True,
    )
