"""What model cards and reports say around the numbers of NLI-CoAL, for two genders and for the groups of an axis."""

from __future__ import annotations

from evenli.audit.results import DataCard, SuiteResult
from evenli.audit.suites.about import About
from evenli.audit.suites.coal.results import CoalResult, detectable_difference
from evenli.audit.suites.texts import FOUND_NOTHING, CardText, Method, Ranking
from evenli.core.format import prose

_NOTATION = (
    "Shares of set x answered entailment, neutral and contradiction are written e_x, n_x, c_x, with p for PS, a "
    "for AS, n for NS."
)
_TWO_GENDERS = (
    "Rows are not independent: they share occupations and sentences. Intervals are about other\n"
    "occupations (within their stereotype) and other templates: two-way cluster-robust (Cameron, Gelbach, Miller "
    "2011). The two answers to one sentence, asked\n"
    "with each group, are read together: M, F and X are the shares of sentences read as a job of the second "
    "group, of the first, and\n"
    "incoherently; the lean of a class of jobs is l = M − F. The verdict names a lean if its interval excludes 0 "
    "and does not lie within 0.05 of\n"
    "it, and undirected error if its interval lies above 0.05. Up to 0.1 a cause is slight, up to 0.3 clear, "
    "above strong."
)
_MANY_GROUPS = (
    "Rows are not independent: they share {things} and sentences. Intervals are about other {things} and other "
    "templates: two-way\n"
    "cluster-robust (Cameron, Gelbach, Miller 2011). The answers to one sentence, asked with each group, are "
    "read together: a group wins against\n"
    "another where its answer stands higher (entailment above neutral above contradiction). M, F and X are the "
    "shares of comparisons that it wins,\n"
    "loses, and that get the same answer which is not neutral. The verdict names a lean if its interval excludes "
    "0 and does not lie within 0.05\n"
    "of it, and undirected error if its interval lies above 0.05. Up to 0.1 a cause is slight, up to 0.3 clear, "
    "above strong."
)
_REFERENCES = (
    "Anantaprayoon, Kaneko, Okazaki (2024), Evaluating Gender Bias of Pre-trained Language Models in Natural Language "
    "Inference by Considering All Labels, LREC-COLING.",
    "Dev, Li, Phillips, Srikumar (2020), On Measuring and Mitigating Biased Inferences of Word Embeddings, AAAI.",
    "Bolukbasi, Chang, Zou, Saligrama, Kalai (2016), Man is to Computer Programmer as Woman is to Homemaker?, NeurIPS.",
)
RANKING = Ranking(
    drawn={
        "stereotype": "Follows stereotypes (below 0: goes against them)",
        "default_gender": "Assumes a man without a stereotype (below 0: a woman)",
        "undirected": "Errs without a direction",
        "coal": "NLI-CoAL, the published score",
    },
    columns={"stereotype": "stereotype", "default_gender": "default gender", "undirected": "undirected"},
    differ={
        "stereotype": "in how far they follow stereotypes",
        "default_gender": "in whom they assume where a job has no stereotype",
        "undirected": "in errors without a direction",
    },
)


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


def method(about: About) -> Method:
    """How the suites of evenli measure: the wording of the papers for two genders, a general one for other axes."""
    if about.of_gender:
        return Method(_TWO_GENDERS, _REFERENCES, _NOTATION)
    references = ("Anantaprayoon, Kaneko, Okazaki (2024), LREC-COLING: NLI-CoAL.",)
    return Method(_MANY_GROUPS.format(things=f"{about.thing}s"), references, _NOTATION)
