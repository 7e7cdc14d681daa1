"""What a suite is: one module that says how its pairs are loaded, measured and shown.

A suite is a value, ``SUITE``, that its package registers under the entry-point group ``evenli.suites``. Nothing else in
evenli knows a suite by name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import polars as pl
from msgspec import structs
from numpy.typing import NDArray

from evenli.audit.pairs import PairSet
from evenli.audit.results import AuditResult, Competence, DataCard, SuiteResult, Verdict
from evenli.audit.settings import PUBLISHED as PUBLISHED
from evenli.audit.settings import SPLITS as SPLITS
from evenli.audit.settings import PairSettings
from evenli.audit.suites.about import About
from evenli.audit.suites.summary import Summary
from evenli.audit.suites.texts import CardText, Clause, Method, Ranking
from evenli.core.errors import InputError
from evenli.core.estimate import MeasureResult, Scoring
from evenli.core.format import number
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.core.registry import SUITES
from evenli.core.settings import internal
from evenli.stats.intervals import estimate_measures
from evenli.stats.measure import Measure, measures
from evenli.stats.sample import Sample
from evenli.words import Axis, load_axis

SHOWN_LABELS = (ENTAILMENT, CONTRADICTION, NEUTRAL)
"""Labels in the column order of Table 3 of Anantaprayoon et al. 2024."""
SLOT = "[Sub]"
"""Where a template takes its word."""
PS, AS, NS = SUBSETS = ("PS", "AS", "NS")
"""Pairs that name a stereotyped group, another group, or any group for a word without a stereotype."""
Value = float | str | bool | None
"""What a condition of a gate can compare."""


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


def fill(template: str, word: str) -> str:
    """Put a word into every slot of a template."""
    return template.replace(SLOT, word)


def subset_of(group: str, stereotypes: Collection[str]) -> str:
    """The subset of a pair that names a group, by the groups that its word is stereotyped with."""
    return NS if not stereotypes else PS if group in stereotypes else AS


def filled_row(template: str, word: str, noun: str, **columns: str) -> dict[str, str]:
    """A pair whose sentences differ in the slot: the word in the premise, the noun of a group in the hypothesis."""
    texts = {"premise": fill(template, word), "hypothesis": fill(template, noun)}
    return {**texts, "gold": NEUTRAL, "occupation": word, "template": template, **columns}


def with_article(word: str, *, capital: bool = False) -> str:
    """Prefix ``a`` or ``an`` by the first letter, the rule of published generators.

    >>> with_article("apple"), with_article("nurse", capital=True)
    ('an apple', 'A nurse')
    """
    article = "an" if word[:1].lower() in "aeiou" else "a"
    return f"{article.capitalize() if capital else article} {word}"


def slot_word(template: str | None, sentence: str) -> str:
    """What stands in the slot of a template; empty where the sentence is not made from it.

    >>> slot_word("the [Sub] waves.", "the man waves."), slot_word("the [Sub] waves.", "a man waves.")
    ('man', '')
    """
    before, slot, after = (template or "").partition(SLOT)
    word = sentence[len(before) : len(sentence) - len(after)]
    return word if slot and sentence == before + word + after else ""


@dataclass(frozen=True)
class Section:
    """A part of a report in neutral form: a heading, a table and sentences below it.

    Columns whose title begins with ``>`` are right-aligned; ``main`` are the numbers of rows to stress.
    """

    heading: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    lines: Sequence[str] = ()
    main: frozenset[int] = frozenset()


def gold_codes(frame: pl.DataFrame) -> NDArray[np.int64]:
    """The number of every row's gold label, as answers are numbered; -1 where it has none."""
    numbers = {label: number for number, label in enumerate(LABELS)}
    return np.asarray(frame["gold"].replace_strict(numbers, default=-1, return_dtype=pl.Int64))


def label_shares(proportions: Mapping[str, float]) -> str:
    """The share of every label, in the column order of the papers."""
    return ", ".join(f"{label} {number(proportions[label], 2)}" for label in SHOWN_LABELS)


def with_ends(name: str, one: Any) -> dict[str, Value]:
    """A value with both ends of its interval, as a gate names them."""
    return {name: one.value, f"{name}.low": one.low, f"{name}.high": one.high}


@dataclass(frozen=True)
class Items:
    """How two models are compared item by item."""

    name: str  # what an item is, in the plural
    answers: str  # what is counted, for people
    # Whether the answer to each item is the one a biased model gives, with the rows that name the items.
    biased: Callable[[Sample], tuple[NDArray[np.bool_], pl.DataFrame]]
    conclusions: Sequence[str]  # measures named in the conclusion
    causes: Sequence[str] = ()  # measures that say why; the conclusion names those that differ
    # Two samples of the same rows to what both are measured on, where a suite leaves out rows by the model's answers.
    shared: Callable[[Sample, Sample], tuple[Sample, Sample]] = lambda first, second: (first, second)


class Run(Protocol):
    """What a suite needs of an audit to draw it; it is called with an ``evenli.Audit``."""

    @property
    def name(self) -> str:
        """Name of the model."""

    @property
    def result(self) -> AuditResult:
        """Everything that was measured."""

    def sample(self, suite: str) -> Sample:
        """The answered rows of a suite."""


@dataclass(frozen=True)
class Suite:
    """One way to ask a model."""

    name: str  # key on the command line and in results.json
    title: str  # name for people
    reference: str  # paper
    headline: str  # measure that stands for the suite
    load: Callable[[Request], PairSet]  # request to pairs
    check: Callable[[PairSet, Request], PairSet] = lambda pairs, _: pairs  # for pair sets made in Python; may raise
    built_in: str = "built-in"  # name of the pair set that is asked where a user gives no data
    result: type[SuiteResult] = SuiteResult  # class of its results
    # Sample, measures, settings and card of the pairs to the result; without it that has measures alone.
    summarise: Callable[[Sample, dict[str, MeasureResult], Scoring, DataCard | None], SuiteResult] | None = None
    slices: Callable[[pl.DataFrame], list[str]] = lambda _: []  # stereotypes over which measures are repeated
    # Result and competence to a verdict, for suites that give one.
    judge: Callable[[Any, Competence | None], Verdict] | None = None
    causes: Sequence[str] = ()  # names of all causes that its verdict may name
    # Result, verdict and rows to the first screen; without it a run shows its headline measures there.
    summary: Callable[[Any, Verdict, Sample], Summary] | None = None
    # One sentence about the result, where no suite of a run gives a verdict.
    statement: Callable[[Any], str] = lambda result: f"{result.main!r}."
    # What terminal and report show beside the table of measures. The first stands with that table, and is its heading
    # where it has no table of its own; the terminal prints the others below.
    sections: Callable[[Any, DataCard | None], list[Section]] = lambda *_: []
    slice_title: str = "{}"  # how a column of one stereotype is named; {} is the stereotype
    fields: Callable[[Any], Mapping[str, Value]] = lambda _: {}  # further values that a gate can name
    items: Items | None = None  # how two models are compared; None where that makes no sense
    # Measures of evenli's own that stand first, in a table of their own; the others are published scores.
    own: frozenset[str] = frozenset()
    indented: frozenset[str] = frozenset()  # measures shown as parts of the one above
    stressed: frozenset[str] = frozenset()  # measures shown in bold
    has_lists: bool = False  # whether load takes an occupation list
    takes_dominance: bool = False  # whether load takes labels by US labour shares
    card_type: str = ""  # type of its data in a model card; empty for evenli-NAME
    card_name: str = ""  # name of its data there; empty for its title
    listed: Sequence[str] = ()  # measures that a model card lists for the hub; empty for the headline alone
    # Result, data and axis to what a model card says around the numbers; without it that is general.
    card: Callable[[Any, DataCard, About], CardText] | None = None
    # What the standard policy of a gate refuses beside its own clauses; a field is of this suite in every run where the
    # name of the suite stands before it. Without a clause of either kind the gate asks for competence alone.
    bounds: Sequence[Clause] = ()
    # Whether a run of it says enough for a model card and the standard gate; else a suite that judges is asked, too.
    alone: bool = True
    samples: bool = False  # whether it asks a sample of its pairs, and all of them where a request says full
    announce: Callable[[PairSet], str] = lambda _: ""  # what people should know before the model is asked
    # Results of two models to what a comparison adds; its ``sentence`` stands beside the conclusion.
    contrast: Callable[[Any, Any], Mapping[str, Any]] = lambda *_: {}
    # Axis of a run to the method part of a report; without it that is general.
    method: Callable[[About], Method] | None = None
    ranking: Ranking | None = None  # how a report sets several models side by side; None where it does not
    page: str = (
        ""  # import path module:function of parts of the report of its own: audit to evenli.audit.suites.texts.Page
    )
    figures: str = ""  # import path module:function of its charts in the report: audit to evenli.core.drawing.Figure
    report: str = ""  # import path module:function of what audit --report adds: audit and folder to a list of files

    @property
    def measures(self) -> list[Measure]:
        """Its measures, those of plug-ins last."""
        return measures(self.name)


def assess_suite(
    suite: Suite, sample: Sample, scoring: Scoring, card: DataCard | None, problem: str = ""
) -> SuiteResult:
    """Every measure of a suite with intervals, overall and per stereotype, and what the suite adds.

    ``problem`` is why the numbers say nothing about bias, where the model is not competent.
    """
    measured = measure_results(sample, suite.measures, suite.slices(sample.frame), scoring)
    make = suite.summarise or (lambda sample, measured, scoring, card: suite.result(measures=measured))
    result = make(sample, measured, scoring, card)
    return structs.replace(result, headline=result.headline or suite.headline, problem=problem)


def measure_results(
    sample: Sample, entries: Sequence[Measure], stereotypes: Sequence[str], scoring: Scoring
) -> dict[str, MeasureResult]:
    """Measures with intervals and their cards, overall and per stereotype."""
    estimates = estimate_measures(sample, entries, [None, *stereotypes], scoring)
    results = {}
    for entry in entries:
        slices = {name: estimates[entry.name, name] for name in stereotypes}
        # Spaces before a title indent it in a table.
        results[entry.name] = replace(entry, title=entry.title.strip()).result(estimates[entry.name, None], slices)
    return results


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
    return next((suite for suite in map(get_suite, names) if suite.judge is not None), None)


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


def load_suite(name: str, request: Request | None = None) -> PairSet:
    """The pairs of one suite; without a request the built-in English ones."""
    request = request or Request()
    if request.occupations != PUBLISHED and request.data is not None:
        raise InputError(f"the data has its own occupations; leave the list '{request.occupations}' out")
    given = isinstance(request.data, PairSet)
    pairs = request.data if given else get_suite(name).load(request)
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
