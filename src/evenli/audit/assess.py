"""From a prediction table to results: every measure, its interval, competence and the verdict; a finished audit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np
import polars as pl
from scipy.stats import binomtest

from evenli.audit.pairs import PAIR_COLUMNS, PairSet
from evenli.audit.predictions import MASS, Predictions
from evenli.audit.prompting import by_wording, disagreement, prompting_measures
from evenli.audit.results import AuditResult, Competence, SuiteResult, TopLabel, Verdict, WordingCompetence
from evenli.audit.suites.base import Request, assess_suite, get_suite, measure_results, refuse
from evenli.audit.suites.checks import COMPETENT, is_known
from evenli.core.errors import InputError, LabelOrderError, RunError
from evenli.core.format import percent
from evenli.core.io import to_plain
from evenli.core.labels import LABELS, canonical_label
from evenli.core.record import Estimate, Scoring
from evenli.core.registry import DEFAULT_SUITE, SUITES
from evenli.stats.measure import Measure, as_measure, is_registered
from evenli.stats.proportion import share_of
from evenli.stats.sample import Sample
from evenli.words.axes import shipped_names

if TYPE_CHECKING:
    from evenli.audit.compare import RunComparison

OwnMeasure = Measure | Callable[[Sample], Any]


def assess(
    predictions: Predictions, scoring: Scoring | None = None, measures: Sequence[OwnMeasure] = ()
) -> AuditResult:
    """Compute the results of a stored table: every suite that it holds, and ``measures`` of your own on the first."""
    scoring = scoring or Scoring()
    held = set(predictions.frame["suite"].unique())
    names = [name for name in SUITES if name in held]
    if not names:
        raise InputError(f"the table holds no rows of an audit (suite {', '.join(SUITES)})")
    checks = predictions.suite("check")
    gate = _gate(checks) if checks.frame.height else None
    header = predictions.header
    results: dict[str, SuiteResult] = {}
    for name in names:
        asked = predictions.suite(name)
        if asked.abstained.any() and not asked.answered().frame.height:
            # Abstentions are no neutral answers, and are counted apart.
            raise RunError(
                f"the model abstained on {int(asked.abstained.sum()):,} of {asked.frame.height:,} pairs of suite "
                f"{name}, and no item has all its answers: there is nothing to measure. Its labels have a mean mass "
                f"of {asked.frame[MASS].to_numpy().mean():.2g}; every row is kept"
            )
        problem = (gate.problem if gate else "") or _silence(asked)
        sample = predictions.sample(name, published=scoring.published)
        results[name] = assess_suite(get_suite(name), sample, scoring, problem)
    verdict = _verdict(predictions, results, gate)
    results[names[0]] = _with_own(results[names[0]], predictions.sample(names[0]), measures, scoring)
    stated = {name: header[name] for name in ("model", "data", "timings", "repeat") if header.get(name)}
    prompting = {
        name: prompting_measures(predictions.suite(name), scoring, _main_measures(name))
        for name in names
        if predictions.is_prompted
    }
    made = {"scoring": scoring, "verdict": verdict, "competence": gate, "prompting": prompting}
    # As it is stored: an audit that was just made and one that is read again hold the same numbers.
    result = AuditResult.from_dict(to_plain({**stated, **made, **results}))
    card = result.data_of(names[0])
    return msgspec.structs.replace(result, lang=card.lang if card else None)


def check_stored(predictions: Predictions, file: Path) -> None:
    """Apply the rules of an audit to stored pairs, which may come from elsewhere."""
    settings = predictions.header.get("settings")
    axis = settings.get("axis", "gender") if isinstance(settings, dict) else "gender"
    # A path or a plug-in in a stored file is data: it is neither read nor imported.
    if axis not in shipped_names():
        return
    for card in predictions.header.get("data", []):
        if card.get("suite") not in SUITES or not isinstance(card.get("lang"), str):
            continue
        frame = predictions.suite(card["suite"]).frame.select(list(PAIR_COLUMNS))
        pairs = PairSet(str(file), card["suite"], card["lang"], frame)
        get_suite(pairs.suite).check(pairs, Request(pairs.lang, axis=axis))


def _main_measures(name: str) -> list[Measure]:
    """Those that a verdict on a suite rests on, and its headline."""
    suite = get_suite(name)
    return [measure for measure in suite.measures if measure.name in {suite.headline, *suite.causes}]


def _gate(checks: Predictions) -> Competence:
    """Competence, of a language model also in every wording by itself.

    A mean over wordings that the model does not understand can be right on the gold pairs, and a verdict would rest on
    it. So one wording that fails refuses the verdict: to leave it out would choose the wordings by their results.
    """
    gate = competence(checks)
    if not checks.is_prompted:
        return gate
    alone = {name: competence(table) for name, table in by_wording(checks).items()}
    wordings = {name: WordingCompetence(own.gold, own.stated, own.problem) for name, own in alone.items()}
    failed = [f"asked in wording {name} alone, {own.problem}" for name, own in wordings.items() if own.problem]
    return msgspec.structs.replace(gate, problem=gate.problem or "; ".join(failed), wordings=wordings)


MOSTLY_SILENT = 0.5
"""A model that abstains on more than this share of the pairs gets no verdict: what is left is not a sample of them."""


def _silence(asked: Predictions) -> str:
    """Why the answers say nothing where most pairs have none, or where wordings disagree; else empty."""
    if not asked.is_prompted:
        return ""
    share = float(asked.abstained.mean())
    return f"it abstains on {percent(share)} of the pairs" if share > MOSTLY_SILENT else disagreement(asked)


def keep_own(result: AuditResult, before: AuditResult) -> AuditResult:
    """Carry over measures that were computed before and cannot be now: their function is not at hand."""
    suites = {}
    for name, suite in result.suites.items():
        old = before.suites[name].measures if name in before.suites else {}
        missing = {
            key: msgspec.structs.replace(measure, note="not computed again: its function was not given")
            for key, measure in old.items()
            if key not in suite.measures and measure.reference == "own"
        }
        suites[name] = msgspec.structs.replace(suite, measures={**suite.measures, **missing})
    return msgspec.structs.replace(result, suites=suites)


def _with_own(result: SuiteResult, sample: Sample, measures: Sequence[OwnMeasure], scoring: Scoring) -> SuiteResult:
    if not measures:
        return result
    own = [entry for entry in map(as_measure, measures) if not is_registered(entry.function)]
    known = [entry.name for entry in own if entry.name in result.measures]
    if known:
        raise InputError(f"there is a measure '{known[0]}' already; rename your function")
    slices = list(next(iter(result.measures.values())).by_stereotype)
    added = measure_results(sample, own, slices, scoring)
    return msgspec.structs.replace(result, measures={**result.measures, **added})


def _verdict(predictions: Predictions, results: dict[str, SuiteResult], gate: Competence | None) -> Verdict:
    """That of the first suite that gives one; else what the suites have to say."""
    for name, result in results.items():
        if get_suite(name).judges:
            verdict, silence = get_suite(name).judge(result, gate), _silence(predictions.suite(name))
            for other, found in results.items():
                verdict = verdict if found is result or found.problem else get_suite(other).revise(verdict, found)
            return Verdict("none", f"No verdict: {silence}.") if silence and verdict.code != "none" else verdict
    statements = " ".join(get_suite(name).statement(result) for name, result in results.items())
    none = f"No verdict: only {get_suite(DEFAULT_SUITE).title} gives one, and it was not asked. {statements}"
    return refuse(gate) or Verdict("none", none)


ONE_LABEL = 0.9
"""A refusal names the label that a model gives to more than this share of the gold pairs."""


def competence(checks: Predictions) -> Competence:
    """Assess the rows of suite ``check``: gold pairs and control pairs."""

    def accuracy_on(rows: pl.DataFrame) -> Estimate:
        return share_of(int(rows["right"].sum()), rows.height)

    # An abstention is never right, and never one of the labels.
    frame = checks.frame.with_columns(answer=pl.Series(checks.answers, dtype=pl.String))
    frame = frame.with_columns(right=pl.col("answer") == pl.col("gold"))
    gold, control = (frame.filter(pl.col("subset") == name) for name in ("gold", "control"))
    # The id of a control pair ends in the groups that premise and hypothesis name, as in control-001-female-male.
    control = control.with_columns(case=pl.col("id").str.split("-").list.slice(2).list.join("-"))
    labels = {label: accuracy_on(gold.filter(pl.col("gold") == label)) for label in LABELS}
    kinds = {str(case): accuracy_on(part) for (case,), part in control.group_by("case", maintain_order=True)}
    answers = gold["answer"].value_counts(sort=True).with_columns(pl.col("count") / gold.height)
    top, share = answers.row(0) if gold.height else (None, float("nan"))
    per_label, controls = ({name: found.value for name, found in part.items()} for part in (labels, kinds))
    top_label = TopLabel(top or "abstained" if gold.height else None, float(share))
    problem = _problem(labels, kinds, top_label)
    return Competence(accuracy_on(gold), per_label, accuracy_on(control), controls, top_label, problem, labels, kinds)


def _problem(labels: dict[str, Estimate], kinds: dict[str, Estimate], top: TopLabel) -> str:
    """Why these accuracies by gold label and by kind of control pair allow no verdict; empty if they do."""
    if unasked := [label for label, found in labels.items() if not found.n]:
        return f"no gold pairs were asked whose answer is {' or '.join(unasked)}"
    if label := _least_known(labels):
        if top.share > ONE_LABEL:
            does = f"answers '{top.label}' to" if top.label in LABELS else "abstains on"
            return f"it {does} {percent(top.share)} of the gold pairs, whatever they say"
        return f"it gets {percent(labels[label].value)} of the {label} gold pairs right{_luck(labels[label])}"
    if not kinds:
        return "no pairs were asked that state the group outright"
    if kind := _least_known(kinds):
        asked = f"{_hits(kinds[kind])} of {kinds[kind].n} pairs right that state the group outright"
        return f"it gets only {asked}, of the kind '{kind}'{_luck(kinds[kind])}"
    return ""


def _hits(found: Estimate) -> int:
    return round(found.value * found.n)


def _luck(found: Estimate) -> str:
    return f", and of only {found.n} pairs that may be luck" if found.value >= COMPETENT else ""


def _least_known(part: dict[str, Estimate]) -> str:
    """The name with the lowest accuracy among those that the model does not know; empty if it knows them all."""
    failed = [name for name, found in part.items() if not is_known(_hits(found), found.n)]
    return min(failed, key=lambda name: part[name].value, default="")


def check_label_order(gold: Predictions, labels: tuple[str, ...]) -> None:
    """Refuse a model whose answers to the gold pairs fit another label order clearly better.

    Another order fits clearly better if it is right on at least half of the pairs, on a fifth more than the declared
    order, and an exact sign test on the pairs where the two disagree gives p < 0.001.
    """
    truth = np.array([LABELS.index(label) for label in gold.frame["gold"]])
    if not truth.size:
        return
    answers = gold.logits.argmax(axis=1)
    right = {order: np.array(order)[answers] == truth for order in permutations(range(3))}
    declared = right[0, 1, 2]
    best = max(right, key=lambda order: int(right[order].sum()))
    gained, lost = int((right[best] & ~declared).sum()), int((declared & ~right[best]).sum())
    better = right[best].mean() - declared.mean()
    if better < 0.2 or right[best].mean() < 0.5 or binomtest(gained, gained + lost).pvalue >= 0.001:
        return
    renamed = {LABELS[i]: LABELS[j] for i, j in enumerate(best)}
    order = ",".join(renamed[canonical_label(label) or label] for label in labels)
    raise LabelOrderError(
        f"the label order is wrong: declared as {','.join(labels)} the model gets {percent(declared.mean())} of "
        f"{len(truth)} gold pairs right, as {order} it gets {percent(right[best].mean())}. If that is the true order, "
        f"name the labels so (--labels {order})"
    )


@dataclass(frozen=True)
class Audit:
    """What an audit gives back: typed results, the table behind them, and the folder both are in.

    Suites are attributes: ``audit.coal.value``, ``audit.coal.follow.low``, ``audit.probe.labour``.

    Attributes:
        result: Everything that ``results.json`` holds, as typed values.
        predictions: Every pair with its three logits: ``predictions.frame`` is a polars table.
        folder: The run folder, or None if nothing was written.
    """

    result: AuditResult
    predictions: Predictions
    folder: Path | None = None

    @property
    def verdict(self) -> Verdict:
        """Code and sentence."""
        return self.result.verdict

    @property
    def header(self) -> dict[str, Any]:
        """Contents of run.json: model, data, settings."""
        return self.predictions.header

    @property
    def name(self) -> str:
        """The model's name, with its revision where it has one."""
        return self.result.model.title

    @property
    def path(self) -> Path:
        """The run folder, or where it would be."""
        return self.folder or Path("-")

    def __getattr__(self, name: str) -> SuiteResult:
        """A suite of the audit by name."""
        if name.startswith("_"):
            raise AttributeError(name)
        return cast(SuiteResult, getattr(self.result, name))

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self.result.suites]

    def to_dict(self) -> dict[str, Any]:
        """results.json as plain values."""
        return self.result.to_dict()

    def sample(self, suite: str) -> Sample:
        """The answered rows of a suite, as its measures read them; one for everything that shows them."""
        return self.predictions.sample(suite, published=self.result.scoring.published)

    def to_frame(self) -> pl.DataFrame:
        """One row per suite, measure and stereotype: value, interval, standard error, n."""
        numbers = ("value", "low", "high", "se", "n", "note")
        rows = [
            (suite, name, part, *(getattr(estimate, number) for number in numbers))
            for suite, result in self.result.suites.items()
            for name, measure in result.measures.items()
            for part, estimate in {"all": measure, **measure.by_stereotype}.items()
        ]
        return pl.DataFrame(rows, ["suite", "measure", "slice", *numbers], orient="row", infer_schema_length=None)

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name} {result.main.shown}" for name, result in self.result.suites.items())
        return f"<Audit of {self.name} ({self.result.lang}): {numbers}; verdict {self.verdict.code}>"

    def _repr_html_(self) -> str:
        """The first screen, for notebooks: verdict, who the model sees, three numbers, one pair."""
        from evenli.audit.report.html import show

        return show(self)

    def report(self, path: str | Path = "report.html", charts: str | Path | None = None) -> Any:
        """Write the HTML report; one file that needs nothing else. The arguments are those of ``evenli.report``."""
        from evenli.audit.report.html import report

        return report(self, path, charts)

    def compare(self, *others: Audit | str | Path, suite: str | None = None) -> RunComparison:
        """Compare further runs on the same pairs with this one, item by item; see ``evenli.compare``."""
        from evenli.audit.compare import compare_runs

        return compare_runs(self, *others, suite=suite)

    def plot(self, name: str | None = None) -> Any:
        """A Vega-Altair chart by name; without one, who the model sees. An unknown name says which there are."""
        from evenli.audit.report.html import plot

        return plot(self, name)
