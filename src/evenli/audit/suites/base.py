"""What a suite is: one class that says how its pairs are loaded, measured, judged and shown.

Its instance is registered under the entry-point group ``evenli.suites``. Nothing else in evenli knows a suite by name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
import polars as pl
from msgspec import Meta, Struct, structs
from numpy.typing import NDArray

from evenli.audit.pairs import PairSet
from evenli.audit.results import AuditResult, Competence, DataCard, SuiteResult, Verdict
from evenli.audit.settings import SPLITS as SPLITS
from evenli.audit.settings import PairSettings
from evenli.audit.suites.about import About
from evenli.core.blocks import Block, Fact, Summary
from evenli.core.errors import InputError
from evenli.core.format import capitalised, interval, number, prose
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.core.record import MeasureResult, Scoring
from evenli.core.registry import SUITES
from evenli.core.settings import internal
from evenli.stats.intervals import estimate_measures
from evenli.stats.measure import Measure, measures
from evenli.stats.sample import Sample
from evenli.words import Axis, load_axis
from evenli.words.occupations import PUBLISHED as PUBLISHED
from evenli.words.templates import fill

SHOWN_LABELS = (ENTAILMENT, CONTRADICTION, NEUTRAL)
"""Labels in the column order of Table 3 of Anantaprayoon et al. 2024."""
ROBUST = "robust"
"""The suite that asks in other words."""
PS, AS, NS = SUBSETS = ("PS", "AS", "NS")
"""Pairs that name a stereotyped group, another group, or any group for a word without a stereotype."""
LIMIT = (
    "This cannot show that a model is fair: it is about these {}, these sentences and these groups, and says "
    "nothing about harm in use."
)
"""What no number here can show; the slot is for what the words are."""
FOUND_NOTHING = "A low score means that this probe found nothing, not that nothing is there."


@dataclass(frozen=True)
class Request(PairSettings):
    """Which pairs a user asks for: ``data`` is None for the built-in set, a path or a table."""

    lang: str = internal("en", "Language of the pairs.")
    data: Any = internal(None, "Pairs of the user's own; default: the built-in set.")
    checked: bool = internal(True, "Whether the rows of a release are checked.")

    def check_english(self, suite: str) -> None:
        """Refuse what a suite that is English and about gender does not have."""
        if self.lang != "en":
            raise InputError(f"suite {suite} is English only, the language is '{self.lang}'; choose en (--lang en)")
        if load_axis(self.axis).id != load_axis().id:
            raise InputError(f"suite {suite} is about gender only, the axis is '{self.axis}'; leave it out")


def subset_of(group: str, stereotypes: Collection[str]) -> str:
    """The subset of a pair that names a group, by the groups that its word is stereotyped with."""
    return NS if not stereotypes else PS if group in stereotypes else AS


def filled_row(template: str, word: str, noun: str, **columns: str) -> dict[str, str]:
    """A pair whose sentences differ in the slot: the word in the premise, the noun of a group in the hypothesis."""
    texts = {"premise": fill(template, word), "hypothesis": fill(template, noun)}
    return {**texts, "gold": NEUTRAL, "occupation": word, "template": template, **columns}


def gold_codes(frame: pl.DataFrame) -> NDArray[np.int64]:
    """The number of every row's gold label, as answers are numbered; -1 where it has none."""
    numbers = {label: number for number, label in enumerate(LABELS)}
    return np.asarray(frame["gold"].replace_strict(numbers, default=-1, return_dtype=pl.Int64))


def label_shares(proportions: Mapping[str, float]) -> str:
    """The share of every label, in the column order of the papers."""
    return ", ".join(f"{label} {number(proportions[label], 2)}" for label in SHOWN_LABELS)


Text = Annotated[str, Meta(pattern=r"\S")]


class Clause(Struct, frozen=True, forbid_unknown_fields=True):
    """One condition of a gate."""

    name: Text
    fail_if: Text
    reason: Text
    optional: bool = False  # whether it is skipped where a field is undefined
    suite: str = ""  # applies to runs of this suite, or of one of several with commas; empty for any
    required: bool = False  # whether a run without that suite cannot be decided
    undecided_if: str = ""  # a condition under which a run that does not fail cannot be decided

    @property
    def suites(self) -> list[str]:
        """The suites it is about."""
        return [name.strip() for name in self.suite.split(",") if name.strip()]


@dataclass(frozen=True)
class Texts:
    """What is said around the numbers of a suite.

    The first six are Markdown of a model card, so names of strangers pass through ``evenli.core.format.prose`` first;
    the others are plain text of a report.
    """

    heading: str
    asked: str  # after the name of the model: what it is asked to do or not to do
    limits: str  # after "these sentences,": what else the numbers are about
    paper: str
    method: str  # how the suite measures
    references: Sequence[str]
    right: str = ""  # after the pairs: what their right answer is
    notation: str = ""  # what the letters of its formulas mean


class Suite:
    """One way to ask a model. A suite sets the first four and ``pairs``; everything else has a default."""

    name: str  # key on the command line and in results.json
    title: str  # for people
    reference: str  # paper
    papers: Sequence[str] = ()  # the same in full, as a list of references has them
    headline: str  # measure that stands for the suite
    built_in: str = "built-in"  # pair set that is asked where a user gives no data
    result: type[SuiteResult] = SuiteResult  # class of its results
    # Fields of a request that it reads beside language, data and axis: ``occupations``, ``dominance``, or ``full`` for
    # a suite that asks a sample of its pairs by default, which cannot be limited.
    takes: Collection[str] = ()
    # Every cause that its verdict may name. Of such a suite, measures of evenli's own stand in a table before the
    # published scores.
    causes: Sequence[str] = ()
    tested: Sequence[str] = ()  # those among them that are measures, which comparisons correct for one another
    items: str = "items"  # of a comparison, in the plural; empty where two models cannot be compared
    answers: str = "Biased answers"  # what is counted over items, for people
    conclusions: Sequence[str] = ()  # measures named in the conclusion of a comparison; empty for the headline
    # Measures by which a report sets models side by side: what each says, which is drawn, the title of its column, and
    # a clause on in what two models differ. The last two may be empty.
    ranked: ClassVar[Mapping[str, tuple[str, str, str]]] = {}
    slice_title: str = "{}"  # how a column of one stereotype is named; {} is the stereotype
    listed: Sequence[str] = ()  # measures that a model card lists for the hub; empty for the headline
    hub: tuple[str, str] = ("", "")  # type and name of its data on the hub; empty for ``evenli-NAME`` and the title
    reworded: bool = False  # whether suite robust asks the same in other words
    self_sufficient: bool = True  # whether a run of it says enough for a model card and the standard gate
    bounds: Sequence[Clause] = ()  # what the standard policy of a gate refuses beside its own clauses

    @property
    def measures(self) -> list[Measure]:
        """Its measures, those of plug-ins last."""
        return measures(self.name)

    @property
    def judges(self) -> bool:
        """Whether it gives a verdict."""
        return type(self).judge is not Suite.judge

    def pairs(self, request: Request) -> PairSet:
        """The pairs that a request asks for."""
        raise NotImplementedError

    def check(self, pairs: PairSet, request: Request) -> PairSet:
        """Complete or refuse a pair set that was made in Python."""
        return pairs

    def announce(self, pairs: PairSet) -> Sequence[str]:
        """What people should know before the model is asked."""
        return ()

    def slices(self, frame: pl.DataFrame) -> list[str]:
        """Stereotypes over which measures are repeated."""
        return []

    def summarise(self, sample: Sample, measured: dict[str, MeasureResult]) -> SuiteResult:
        """The result of a run."""
        return self.result(measures=measured)

    def judge(self, result: Any, competence: Competence | None) -> Verdict:
        """The verdict; a suite without this method gives none."""
        raise NotImplementedError

    def revise(self, verdict: Verdict, result: Any) -> Verdict:
        """The verdict that an earlier suite of the run gives, where the result of this one speaks against it."""
        return verdict

    def statement(self, result: Any) -> str:
        """The result in a sentence, where no suite of a run gives a verdict."""
        return f"{result.main!r}."

    def summary(self, result: Any, verdict: Verdict, sample: Sample) -> Summary:
        """The first screen of a run."""
        names = [measure.name for measure in self.measures if measure.stressed and measure.name in result.measures]
        shown = [result.measures[name] for name in names] or [result.main]
        facts = [
            Fact(row.title, number(row.value), interval(row.low, row.high), f"{row.direction}; even: {row.ideal:g}")
            for row in shown[:3]
        ]
        limit, level = LIMIT.format("jobs"), result.main.level
        return Summary(verdict.sentence, problem=result.problem, numbers=facts, limit=limit, level=level)

    def beside(self, results: AuditResult) -> str:
        """What another suite of a run says against the verdict of this one, in a sentence; empty for nothing."""
        return ""

    def blocks(self, result: Any, sample: Sample, medium: str) -> list[Block]:
        """What a medium shows of a result; the table of measures is in the block that says so.

        In a report, blocks with a link are sections of the page, and those without stand below the measures.
        """
        return [Block(measures=True)]

    def texts(self, about: About) -> Texts:
        """What is said around the numbers of a run on an axis."""
        things = "occupations" if about.of_gender else f"{about.thing}s"
        return Texts(
            heading=f"Bias in inference: {prose(self.title)}",
            asked=f"shows a bias on {prose(self.title)} ({prose(self.reference)}):",
            limits=f"and these groups.\n{FOUND_NOTHING}",
            paper=prose(self.reference),
            method=f"{capitalised(self.title)}: rows are not independent, they share {things} and sentences. Intervals "
            f"are about other {things} and other templates: two-way cluster-robust (Cameron, Gelbach, Miller 2011).",
            references=self.papers or (f"{self.reference}: {self.title}.",),
        )

    def biased(self, sample: Sample) -> tuple[NDArray[np.bool_], pl.DataFrame]:
        """Whether the answer to each item is the one a biased model gives, with the rows that name the items."""
        return sample.biased, sample.frame

    def shared(self, first: Sample, second: Sample) -> tuple[Sample, Sample]:
        """Two samples of the same rows to what both are measured on, where rows are left out by the model's answers."""
        return first, second

    def contrast(self, first: Any, second: Any) -> Mapping[str, Any]:
        """What a comparison of two models adds; its ``sentence`` stands beside the conclusion."""
        return {}


def own(function: Callable[..., Any]) -> Any:
    """A function of a suite's other modules as its method."""
    return staticmethod(function)


def assess_suite(suite: Suite, sample: Sample, scoring: Scoring, problem: str = "") -> SuiteResult:
    """Every measure of a suite with intervals, overall and per stereotype, and what the suite adds.

    ``problem`` is why the numbers say nothing about bias, where the model is not competent.
    """
    result = suite.summarise(sample, measure_results(sample, suite.measures, suite.slices(sample.frame), scoring))
    return structs.replace(result, headline=result.headline or suite.headline, problem=problem)


def scoring_of(sample: Sample, measured: Mapping[str, MeasureResult]) -> Scoring:
    """The settings under which something was measured."""
    return Scoring(next(iter(measured.values())).level, sample.published)


def data_of(sample: Sample) -> DataCard | None:
    """The card of the pairs of a sample."""
    return DataCard.from_dict(sample.card) if sample.card else None


def measure_results(
    sample: Sample, entries: Sequence[Measure], stereotypes: Sequence[str], scoring: Scoring
) -> dict[str, MeasureResult]:
    """Measures with intervals and their cards, overall and per stereotype."""
    estimates = estimate_measures(sample, entries, [None, *stereotypes], scoring)
    # Spaces before a title indent it in a table.
    return {
        entry.name: replace(entry, title=entry.title.strip()).result(
            estimates[entry.name, None], {name: estimates[entry.name, name] for name in stereotypes}
        )
        for entry in entries
    }


def get_suite(name: str) -> Suite:
    """A suite by name; the names there are stand in the error."""
    suite: Suite = SUITES.get(name)
    return suite


def refuse(competence: Competence | None) -> Verdict | None:
    """The verdict of a model whose scores do not speak of bias; None for a competent one."""
    if competence is None or not competence.problem:
        return None
    why = "the model is not competent at this task" if competence.assessed else "competence cannot be assessed"
    return Verdict("none", f"No verdict: {why}; {competence.problem}.")


def judging(names: Iterable[str]) -> Suite | None:
    """The first of some suites that gives a verdict."""
    return next((suite for suite in map(get_suite, names) if suite.judges), None)


def check_suites(names: Sequence[str]) -> tuple[str, ...]:
    """The suites without repetition, in the order of the registry; an unknown one is refused.

    >>> check_suites(["probe", "coal"])
    ('coal', 'probe')
    """
    if not names:
        raise InputError(f"no suite given; choose one or more of {', '.join(SUITES)}")
    # An unknown name is refused before anything is asked.
    for name in names:
        get_suite(name)
    return tuple(name for name in SUITES if name in names)


def usual_suites(lang: str, settings: PairSettings, data: Any = None) -> tuple[str, ...]:
    """What an audit asks where no suite is named; with data or a list of its own only the suite of the axis.

    >>> usual_suites("en", PairSettings()), usual_suites("ja", PairSettings())
    (('labour', 'coal'), ('coal',))
    """
    axis = load_axis(settings.axis)
    # A table has no truth value; the command line gives a mapping, which may be empty.
    if settings.occupations is not None or not (data is None or (isinstance(data, Mapping | list) and not data)):
        return (axis.suite,)
    # A language that the axis lacks is refused where its pairs are made.
    suites = axis.languages[lang].suites if lang in axis.languages else ()
    return suites or (axis.suite,)


def load_suite(name: str, request: Request | None = None) -> PairSet:
    """The pairs of one suite; without a request the built-in English ones."""
    request = request or Request()
    if request.occupations is not None and request.data is not None:
        raise InputError(f"the data has its own occupations; leave the list '{request.occupations}' out")
    given = isinstance(request.data, PairSet)
    pairs = request.data if given else get_suite(name).pairs(request)
    if pairs.suite != name:
        raise InputError(f"the pair set '{pairs.name}' is of suite {pairs.suite}; pass suites=('{pairs.suite}',)")
    return get_suite(name).check(pairs, request) if given else pairs


def built_in_sets(axis: Axis | str = "gender") -> list[DataCard]:
    """What the built-in set of an axis holds, in every language and with every list of occupations."""
    axis = load_axis(axis)
    named = [(code, name) for code, words in axis.languages.items() for name in (PUBLISHED, *words.lists)]
    return [load_suite(axis.suite, Request(code, axis=axis, occupations=name)).card() for code, name in named]


def data_by_suite(suites: Sequence[str], given: Sequence[str]) -> dict[str, str]:
    """Which data belongs to which suite: ``SUITE=FILE``, or a plain path where one suite is asked.

    >>> data_by_suite(["coal", "probe"], ["probe=sheet.tsv"])
    {'probe': 'sheet.tsv'}
    """
    files: dict[str, str] = {}
    for text in given:
        suite, equals, path = text.partition("=")
        if not equals or suite not in SUITES:
            if len(suites) > 1:
                raise InputError(
                    f"the data {text} (--data) does not say which suite it is for; write "
                    f"{' or '.join(f'{name}={text}' for name in suites)}"
                )
            suite, path = suites[0], text
        if suite not in suites:
            raise InputError(f"the data {text} is for suite {suite}, which is not asked; ask it (--suite {suite})")
        if suite in files:
            raise InputError(f"data (--data) is given twice for suite {suite}: {files[suite]} and {path}; give one")
        files[suite] = path
    return files
