"""What an audit gives back: typed records with one way to JSON and back.

A number that is undefined is NaN in Python and null in JSON, with the reason in ``note``. Records are immutable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import msgspec

from evenli.core.errors import RunError
from evenli.core.format import percent
from evenli.core.record import Estimate, MeasureResult, Number, Numbers, Record, Scoring
from evenli.core.registry import SUITES

VerdictCode = Literal["bias", "error", "undecided", "even", "none"]


class Cause(Record, frozen=True):
    """One reason for biased or wrong answers that its interval supports.

    Attributes:
        name: The measure: ``stereotype``, ``default_gender``, ``total_error`` or ``default_of_stereotyped``.
        direction: ``stereotypical``, ``anti-stereotypical``, the group that is assumed, or ``none``.
        size: ``slight``, ``clear`` or ``strong``.
        label: A few words for people.
        estimate: The number behind it.
    """

    name: str
    direction: str
    size: str
    label: str
    estimate: Estimate


class Verdict(Record, frozen=True):
    """A code for machines and a sentence for people; ``print`` shows the sentence.

    Codes: ``bias`` answers lean towards stereotypes, against them or towards one group; ``error`` errors have no
    direction; ``undecided`` no cause is significant; ``even`` all causes are negligible; ``none`` the model is
    not competent, or the pairs do not define what a verdict needs.

    Attributes:
        code: The outcome in a word.
        sentence: The outcome for people.
        causes: Every cause that its interval supports, the largest first.
    """

    code: VerdictCode
    sentence: str
    causes: list[Cause] = []

    def __str__(self) -> str:
        return self.sentence


class TopLabel(Record, frozen=True):
    """The most frequent answer and its share; None and NaN without pairs."""

    label: str | None
    share: Number


class WordingCompetence(Record, frozen=True):
    """The same of one wording of a language model, averaged over option orders.

    Attributes:
        gold: Accuracy on the gold pairs.
        stated: Accuracy where the premise states a group.
        problem: Why there would be no verdict in this wording alone, or empty.
    """

    gold: Estimate
    stated: Estimate
    problem: str


class Competence(Record, frozen=True):
    """How well the model does what any NLI model should.

    Attributes:
        gold: Accuracy on the gold pairs, with a Wilson interval.
        per_label: Accuracy by gold label.
        stated: Accuracy on the control pairs: both sentences state a group, the same or another.
        controls: Accuracy per kind of control pair, e.g. ``female-male``.
        top_label: Most frequent answer to the gold pairs and its share.
        problem: Why there is no verdict, or empty.
        labels: ``per_label`` with Wilson intervals.
        kinds: ``controls`` with Wilson intervals.
        wordings: Of a language model that is asked in several wordings, each by itself; all must be competent.
    """

    optional: ClassVar[tuple[str, ...]] = ("wordings",)

    gold: Estimate
    per_label: Numbers
    stated: Estimate
    controls: Numbers
    top_label: TopLabel
    problem: str
    labels: dict[str, Estimate]
    kinds: dict[str, Estimate]
    wordings: dict[str, WordingCompetence] = {}

    @property
    def assessed(self) -> bool:
        """Whether there were pairs of every label, and pairs that state the group, to judge by."""
        return min(self.gold.n, self.stated.n, *(found.n for found in self.labels.values())) > 0


class ModelInfo(Record, frozen=True):
    """What a run remembers about the model that it asked; a stored table need not know all of it.

    Attributes:
        spec: As the user gave it.
        backend: Name in the registry: hf, onnx, py, fake or that of a plug-in.
        name: Name for people.
        fingerprint: A hash that changes when the answers may change.
        labels: The model's own label order.
        revision: Commit of a hub model.
        device: Where the model ran.
        dtype: Number format of the weights.
        max_length: Longest input in tokens; None where the model has no tokenizer of ours.
    """

    extensible: ClassVar[bool] = True  # what a backend adds
    printed: ClassVar[tuple[str, ...]] = ("name", "spec", "revision", "device")

    spec: str = ""
    backend: str = ""
    name: str = "?"
    fingerprint: str = ""
    labels: tuple[str, ...] = ()
    revision: str = ""
    device: str = "?"
    dtype: str = ""
    max_length: int | None = None

    @property
    def title(self) -> str:
        """Name for people, with the revision where there is one."""
        return f"{self.name}@{self.revision[:12]}" if self.revision else self.name


class Timings(Record, frozen=True):
    """How long asking a model took.

    Attributes:
        tokenise_seconds: Time for tokens.
        score_seconds: Time for answers.
        pairs: Pairs that were asked.
        distinct_pairs: Those that differ: a repeated pair is asked once.
        truncated: Pairs that were longer than the model reads.
    """

    extensible: ClassVar[bool] = True

    tokenise_seconds: Number = math.nan
    score_seconds: Number = math.nan
    pairs: int = 0
    distinct_pairs: int = 0
    truncated: int = 0


class Repeat(Record, frozen=True):
    """What became of pairs that were asked twice in one run, in other batches.

    Attributes:
        pairs: How many were asked again.
        largest: Largest difference of a probability.
        changed: Pairs whose answer changed.
        tolerance: What rounding explains.
    """

    pairs: int
    largest: Number
    changed: int
    tolerance: float

    @property
    def stable(self) -> bool:
        """Whether the model repeats itself, but for rounding."""
        return self.largest <= self.tolerance


class DataCard(Record, frozen=True):
    """One pair set, as ``PairSet.card`` describes it.

    Attributes:
        scores: Share of men minus share of women by occupation, where the list of occupations has it.
        whole: Pairs of the whole set, where a limit took a part of it.
    """

    extensible: ClassVar[bool] = True  # what a reader adds
    optional: ClassVar[tuple[str, ...]] = ("scores", "whole")
    printed: ClassVar[tuple[str, ...]] = ("name", "lang", "source", "occupation_list", "notes")

    name: str
    suite: str
    lang: str = "?"
    source: str = ""
    rows: int = 0
    subsets: dict[str, int] = {}
    occupations: int = 0
    templates: int = 0
    distinct_pairs: int = 0
    sha256: str = ""
    notes: list[str] = []
    occupation_list: str = ""
    scores: Numbers = msgspec.field(default_factory=dict)
    whole: int | None = None


class Evidence(Record, frozen=True):
    """How much the answers of a run tell; NaN where that is not known.

    Attributes:
        asked: Share of the pairs of the whole sets that were asked; below 1 under a limit.
        changed: Of the pairs that were asked twice, the share whose answer changed.
        truncated: Share of the distinct pairs that were longer than the model reads.
    """

    asked: Number = math.nan
    changed: Number = math.nan
    truncated: Number = math.nan

    @property
    def lines(self) -> list[str]:
        """What weakens it, for people."""
        said = {
            f"A limit was set: {percent(self.asked, 1)} of the pairs were asked.": self.asked < 1,
            f"{percent(self.changed, 1)} of the answers changed when they were asked for again.": self.changed > 0,
            f"{percent(self.truncated, 1)} of the pairs were too long for the model and truncated.": self.truncated > 0,
        }
        return [line for line, holds in said.items() if holds]


class SuiteResult(Record, frozen=True, kw_only=True):
    """The measures of one suite. Its value and interval are those of its headline measure.

    A measure is an attribute: ``audit.coal.follow.value``. Suites add fields of their own in a subclass.

    Attributes:
        headline: The measure that stands for the suite; the first where it is empty.
        measures: Measures by name, those of the user last.
        problem: Why these numbers say nothing about bias: the model is not competent; else empty.
    """

    # Field to how a gate names what is in it: {key} of a mapping, or of a list of rows {column} and any field of a row.
    gate: ClassVar[Mapping[str, str]] = {}

    headline: str = ""
    measures: dict[str, MeasureResult]
    problem: str = ""

    @property
    def main(self) -> MeasureResult:
        """The measure that stands for the suite."""
        return self.measures[self.headline or next(iter(self.measures))]

    @property
    def value(self) -> float:
        """Value of the headline measure."""
        return self.main.value

    @property
    def low(self) -> float:
        """Lower end of its interval."""
        return self.main.low

    @property
    def high(self) -> float:
        """Upper end of its interval."""
        return self.main.high

    def __getattr__(self, name: str) -> MeasureResult:
        if name in self.measures:
            return self.measures[name]
        raise AttributeError(f"no measure '{name}'; there are {', '.join(self.measures)}")

    def __repr__(self) -> str:
        return repr(self.main)


class AuditResult(Record, frozen=True, kw_only=True):
    """results.json: verdict, competence and the results of every suite that was asked.

    A suite is an attribute: ``result.coal.value``. In JSON the suites stand beside the other keys.

    Attributes:
        model: The model that was asked.
        data: The pair sets that were asked.
        timings: How long asking took.
        repeat: Whether the model repeats itself; None where all answers were stored already.
        lang: Language of the first suite; None where the table does not say.
        scoring: Settings of the scoring step.
        verdict: What the intervals allow to say.
        competence: Whether the model does the task at all; None where no gold pairs were asked.
        suites: Results by suite.
        prompting: Of a language model, by suite: abstentions, and whether answers hang on wording and option order.
    """

    optional: ClassVar[tuple[str, ...]] = ("suites", "prompting")

    model: ModelInfo = ModelInfo()
    data: list[DataCard] = []
    timings: Timings = Timings()
    repeat: Repeat | None = None
    lang: str | None = None
    scoring: Scoring = Scoring()
    verdict: Verdict
    competence: Competence | None = None
    suites: dict[str, SuiteResult] = {}
    prompting: dict[str, dict[str, MeasureResult]] = {}

    def __getattr__(self, name: str) -> SuiteResult:
        if name in self.suites:
            return self.suites[name]
        raise AttributeError(f"no suite '{name}' in this audit; there are {', '.join(self.suites)}")

    @property
    def evidence(self) -> Evidence:
        """How much the answers tell: whether all pairs were asked, twice with the same answer, and in full."""
        asked, whole = sum(card.rows for card in self.data), sum(card.whole or card.rows for card in self.data)
        changed, again = (self.repeat.changed, self.repeat.pairs) if self.repeat else (0, 0)
        counts = ((asked, whole), (changed, again), (self.timings.truncated, self.timings.distinct_pairs))
        return Evidence(*(count / of if of else math.nan for count, of in counts))

    def data_of(self, suite: str) -> DataCard | None:
        """The pair set of a suite."""
        return next((card for card in self.data if card.suite == suite), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; the suites stand at the top."""
        plain = super().to_dict()
        suites: dict[str, Any] = plain.pop("suites", {})
        return plain | suites

    @classmethod
    def from_dict(cls, content: Any) -> AuditResult:
        """Read results.json; suites that are not installed are left out."""
        if not isinstance(content, Mapping):
            raise RunError(f"not an audit: expected an object, found {type(content).__name__}")
        fields = {name: content[name] for name in cls.__struct_fields__ if name in content and name != "suites"}
        suites = {name: SUITES.get(name).result.from_dict(content[name]) for name in SUITES if name in content}
        result: AuditResult = super().from_dict(fields)
        return msgspec.structs.replace(result, suites=suites)
