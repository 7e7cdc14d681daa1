"""What model cards and reports say around the numbers of NLI-CoAL, for two genders and for the groups of an axis."""

from __future__ import annotations

from evenli.format import prose
from evenli.suites.about import About
from evenli.suites.coal.results import CoalResult, detectable_difference
from evenli.suites.texts import FOUND_NOTHING, CardText
from evenli.types import DataCard, SuiteResult


def card(result: CoalResult, data: DataCard, about: About) -> CardText:
    """The texts of a model card of NLI-CoAL; its tables stand in the first screen already."""
    below = detectable_difference(result.minimum_detectable_difference)
    return axis_card(about, counts=result.rows, below=below, with_sections=False)


def groups_card(result: SuiteResult, data: DataCard, about: About) -> CardText:
    """The same for any number of groups."""
    return axis_card(about)


def axis_card(
    about: About, *, counts: dict[str, int] | None = None, below: str = "", with_sections: bool = True
) -> CardText:
    """Heading, question and limits in the words of the axis."""
    things = "occupations" if about.of_gender else f"{prose(about.thing)}s"
    heading = f"Bias in inference: {prose(about.title or about.axis)}"
    asked = f"infers a group from one of these {things}. {prose(about.construct)}".rstrip()
    assumed = "".join(f"\n{prose(one)}" for one in about.assumptions)
    limits = f"and these groups.{assumed}\n{FOUND_NOTHING}"
    if about.of_gender:
        heading, asked = "Gender bias in inference (NLI-CoAL)", "infers a gender from an occupation."
        limits = f"two genders, and stereotypes\ncollected in the United States. {FOUND_NOTHING}"
    return CardText(
        heading=heading,
        asked=asked,
        limits=limits,
        measure="Anantaprayoon, Kaneko, Okazaki (2024), LREC-COLING",
        right=" whose correct label is always neutral",
        counts=counts,
        below=below,
        with_sections=with_sections,
    )
