"""Two models on the same items: what changed, how sure that is, and which occupations moved.

Both tables answer the same pairs, so the difference is taken item by item before its spread over occupations and
templates is: what the items have in common cancels, and the interval is narrower than two separate audits would allow.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from msgspec import structs
from numpy.typing import NDArray
from scipy.stats import binomtest

from evenli.audit.audit import Audit, load_run
from evenli.audit.differences import (
    ComparedRun,
    ComparedWith,
    ComparisonResult,
    Difference,
    McNemar,
    MovedOccupation,
    SuiteComparison,
    corrected,
)
from evenli.audit.pairs import PAIR_COLUMNS
from evenli.audit.predictions import Predictions
from evenli.audit.suites.base import Suite, get_suite, judging
from evenli.core.errors import InputError, translated
from evenli.core.format import number, p_bound, signed
from evenli.core.record import Estimate, Scoring
from evenli.core.registry import DEFAULT_SUITE, SUITES
from evenli.stats.intervals import Interval, estimate_difference, estimate_measures
from evenli.stats.measure import Measure, get_measure
from evenli.stats.sample import Sample

_BLOCK = 100_000
DESIGN = ("suite", "id", "premise", "hypothesis", "subset", "occupation", "stereotype", "template")
"""What makes two rows the same item: its name, its text and its place in the design."""


def compare(
    first: Predictions,
    second: Predictions,
    *others: Predictions,
    suite: str = DEFAULT_SUITE,
    scoring: Scoring | None = None,
) -> list[ComparedWith]:
    """Compare every further table with the first, on the items of a suite, which all of them must share.

    Tables have no names and no verdict: what is said of runs is left to ``compare_runs``.

    With several tables the p-values of each measure, and of McNemar's test, are corrected by Holm (1979) over the
    tables compared. Those of the causes are also corrected for one another. Other measures are not: NLI-CoAL is the
    question, the rest describe the answer.
    """
    scoring, described = scoring or Scoring(), _comparable(suite)
    pairs = _samples(first, (second, *others), suite, scoring)
    return corrected([_compare(*pair, described, scoring.level) for pair in pairs], described.tested)


def _samples(
    first: Predictions, others: Sequence[Predictions], suite: str, scoring: Scoring
) -> Iterator[tuple[Sample, Sample]]:
    """The first table beside every further one, on the items that all of them answered."""
    base = first.suite(suite)
    # What one model did not answer is compared for none. One further table is held at a time.
    silent = np.logical_or.reduce(
        [base.abstained, *(align(base, other.suite(suite), suite).abstained for other in others)]
    )
    sample = Sample(base.answered(silent), published=scoring.published)
    for other in others:
        table = align(base, other.suite(suite), suite).answered(silent)
        yield sample, Sample(table, published=scoring.published).on(sample.design)


def _comparable(suite: str) -> Suite:
    if suite not in SUITES or not get_suite(suite).items:
        raise InputError(f"suite '{suite}' cannot be compared; choose {' or '.join(comparable_suites())}")
    return get_suite(suite)


def comparable_suites() -> list[str]:
    """Suites whose items have an answer that a biased model gives."""
    return [name for name in SUITES if get_suite(name).items]


def align(first: Predictions, second: Predictions, suite: str = DEFAULT_SUITE) -> Predictions:
    """The rows of ``second`` in the order of ``first``; refuses tables on different items."""
    if not first.frame.height or not second.frame.height:
        name = get_suite(suite).title
        raise InputError(f"nothing to compare: a table holds no {name} rows (suite {suite})")
    if all(first.frame[name].equals(second.frame[name], null_equal=True) for name in DESIGN):
        return second  # the usual case, without the memory of a join
    keys = pl.col(DESIGN).cast(pl.String).fill_null("")
    left, right = (table.frame.select(keys).with_row_index("row") for table in (first, second))
    # Rows with the same key are items too; counting them apart keeps the pairing one to one.
    left, right = (keys.with_columns(again=pl.col("row").cum_count().over(DESIGN)) for keys in (left, right))
    on = [*DESIGN, "again"]
    shared = left.join(right, on=on, how="inner", suffix="_second").sort("row")
    only_first, only_second = left.height - shared.height, right.height - shared.height
    if only_first or only_second:
        # A text that was edited keeps its id; with that in the message, the user looks at the right file.
        renamed = left.join(right, on=["suite", "id"], how="semi").height - shared.height
        same_id = f"; {renamed:,} of them share an id but not the text or the design" if renamed > 0 else ""
        raise InputError(
            f"the runs are on different data: {shared.height:,} items are shared, {only_first:,} are only in the "
            f"first and {only_second:,} only in the second{same_id}. Audit both models on the same data "
            "(--data), with the same limit (--limit)"
        )
    return Predictions(second.frame[shared["row_second"].to_numpy()], second.header)


def _compare(first: Sample, second: Sample, suite: Suite, level: float) -> ComparedWith:
    same = np.array_equal(first.probabilities, second.probabilities)
    first, second = suite.shared(first, second)
    (before, rows), (after, _) = suite.biased(first), suite.biased(second)
    lost, gained = int((before & ~after).sum()), int((after & ~before).sum())
    p = float(binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0
    return ComparedWith(
        run="",  # tables have no names and no verdict: compare_runs puts them in
        model="",
        verdict="",
        conclusion="",
        n=rows.height,
        clusters=first.design.count(np.ones(first.frame.height, dtype=bool)),
        measures={entry.name: _difference(entry, first, second, level, same=same) for entry in suite.measures},
        mcnemar=McNemar(int((before & after).sum()), lost, gained, int((~before & ~after).sum()), p, p),
        occupations=_moved(rows, before, after),
    )


def _difference(entry: Measure, first: Sample, second: Sample, level: float, *, same: bool) -> Difference:
    before, after = float(entry(first)), float(entry(second))
    ends = estimate_difference(entry, first, second, level)
    if same and not math.isnan(ends.se):
        # A table against itself: there is no other model that might have answered otherwise.
        ends = Interval(0.0, 0.0, 0.0, 1.0)
    return Difference(before, after, after - before, ends.low, ends.high, ends.se, level, ends.p, ends.p, ends.note)


def _moved(frame: pl.DataFrame, before: NDArray[np.bool_], after: NDArray[np.bool_]) -> list[MovedOccupation]:
    answers = {"n": np.ones_like(before), "before": before, "after": after}
    answers |= {"gained": after & ~before, "lost": before & ~after}
    keys, counted = ("occupation", "stereotype"), []
    # Counted block by block: grouping a million texts at once takes 120 MB.
    for block in (slice(at, at + _BLOCK) for at in range(0, frame.height, _BLOCK)):
        columns = (pl.Series(name, values[block], dtype=pl.Int64) for name, values in answers.items())
        counted.append(frame[block].select(keys).with_columns(columns).group_by(keys, maintain_order=True).sum())
    n, gained, lost = pl.col("n"), pl.col("gained"), pl.col("lost")
    total = pl.concat(counted).group_by(keys, maintain_order=True).sum()
    total = total.with_columns(first=pl.col("before") / n, second=pl.col("after") / n, difference=(gained - lost) / n)
    moved = total.sort(pl.col("difference").abs(), pl.col("occupation"), descending=[True, False])
    return [MovedOccupation(*row) for row in moved.select(MovedOccupation.__struct_fields__).iter_rows()]


@dataclass(frozen=True)
class RunComparison:
    """Every further run against the first: one comparison per further run, by suite."""

    runs: tuple[Audit, ...]
    suites: dict[str, list[ComparedWith]]
    scoring: Scoring = field(default_factory=Scoring)

    def conclusion(self, suite: str, number: int = 0) -> str:
        """One sentence that the intervals allow about a further run; ``number`` counts them from 0."""
        return self.suites[suite][number].conclusion

    def estimates(self, suite: str, names: Sequence[str]) -> list[tuple[dict[str, Estimate], dict[str, Estimate]]]:
        """Measures of the first and of every further run with their intervals, on the items that are compared."""
        first, *others = (run.predictions for run in self.runs)
        entries = [get_measure(name) for name in names]

        def estimated(sample: Sample) -> dict[str, Estimate]:
            every = estimate_measures(sample, entries, scoring=self.scoring)
            return {name: estimate for (name, _), estimate in every.items()}

        pairs = (_comparable(suite).shared(*pair) for pair in _samples(first, others, suite, self.scoring))
        return [(estimated(before), estimated(after)) for before, after in pairs]

    def __repr__(self) -> str:
        return "\n".join(
            f"{second.model} against {self.runs[0].name} on {get_suite(suite).title}: {second.conclusion}"
            for suite, compared in self.suites.items()
            for second in compared
        )

    @property
    def result(self) -> ComparisonResult:
        """Everything that the command prints as JSON, as typed values."""
        first, judge = self.runs[0], judging(self.suites)
        parts = {name: SuiteComparison(found, first.result.data_of(name)) for name, found in self.suites.items()}
        return ComparisonResult(ComparedRun(**_label(first)), self.scoring, parts, judge.name if judge else "")

    def to_dict(self) -> dict[str, Any]:
        """Plain values. The suite that gives the verdict stands at the top, others under their names."""
        return self.result.to_dict()


def compare_runs(
    first: Audit | str | Path, *others: Audit | str | Path, suite: str | None = None, scoring: Scoring | None = None
) -> RunComparison:
    """Compare further audits with the first; runs on different data are refused by name.

    Args:
        first: An audit, or the folder of one.
        others: The audits to compare with it.
        suite: One suite; None for every one that all runs hold.
        scoring: Level of the intervals, and whether our own measures count the words that published ones do.

    Returns:
        For every suite and measure: both values, the difference with its interval, p, and a conclusion in words. The
        difference is taken pair by pair, so it is sharper than two intervals side by side.
    """
    if not others:
        raise InputError("one run was given; a comparison needs two or more")
    if suite is not None:
        _comparable(suite)
    runs: list[Audit] = []
    for run in (first, *others):
        audit = run if isinstance(run, Audit) else load_run(run, needs=suite)
        if runs:
            # Columns that are equal are held once: texts are most of a large table.
            ours, theirs = runs[0].predictions.frame, audit.predictions.frame
            equal = [name for name in PAIR_COLUMNS if ours[name].equals(theirs[name], null_equal=True)]
            shared = replace(audit.predictions, frame=theirs.with_columns(ours.select(equal)))
            audit = replace(audit, predictions=shared)
        runs.append(audit)
    suites = [name for name in comparable_suites() if all(name in run.result.suites for run in runs)]
    if suite is None and not suites:
        listed = "; ".join(f"{run.path} holds {', '.join(run.result.suites)}" for run in runs)
        raise InputError(f"the runs share no suite that can be compared ({', '.join(comparable_suites())}): {listed}")
    suites, scoring = suites if suite is None else [suite], scoring or Scoring()
    return RunComparison(tuple(runs), {name: _compare_suite(runs, name, scoring) for name in suites}, scoring)


def _compare_suite(runs: Sequence[Audit], suite: str, scoring: Scoring) -> list[ComparedWith]:
    first, *others = runs
    for other in others:
        with translated(f"cannot compare {first.path} with {other.path}: ", kinds=(InputError,)):
            align(first.predictions.suite(suite), other.predictions.suite(suite), suite)
    second, *more = (other.predictions for other in others)
    compared = []
    for run, found in zip(others, compare(first.predictions, second, *more, suite=suite, scoring=scoring), strict=True):
        contrast = dict(get_suite(suite).contrast(first.result.suites[suite], run.result.suites[suite]))
        said = f"{_conclude(first, run, found, suite, len(others))} {contrast.get('sentence', '')}".strip()
        compared.append(structs.replace(found, **_label(run), conclusion=said, contrast=contrast))
    return compared


def _conclude(first: Audit, second: Audit, compared: ComparedWith, suite: str, runs: int) -> str:
    """One sentence that the intervals allow, about the measures that the suite names; ``runs`` are corrected for."""
    silent = [run for run in (first, second) if run.result.competence and run.result.competence.problem]
    if silent:
        who = " and ".join(f"{run.name} ({run.path})" for run in silent)
        verb = "are" if len(silent) > 1 else "is"
        reason = "not shown to be competent at this task, so the score does not speak of bias"
        return f"No conclusion: {who} {verb} {reason}."
    said, numbers = [], []
    for name in concluded(suite, first):
        change, title = compared.measures[name], _title(name)
        if math.isnan(change.value) or math.isnan(change.low):
            return f"No conclusion about {title}: {change.note}."
        said.append(
            f"{title} of the second is significantly {_direction(change)}"
            if change.significant
            else f"the difference in {title} is not significant"
        )
        corrected = "" if change.p == change.p_holm else f", corrected {p_bound(change.p_holm)}"
        ends = f"{number(change.first)} -> {number(change.second)}"
        numbers.append(f"{title} {ends}, difference {change.shown}, p {p_bound(change.p)}{corrected}")
    causes = _conclude_causes(get_suite(suite).tested, compared, runs)
    return f"{' and '.join(said)}: {'; '.join(numbers)}.{causes}"


def concluded(suite: str, run: Audit) -> Sequence[str]:
    """The measures that a conclusion is about."""
    described, headline = _comparable(suite), run.result.suites[suite].headline
    # Pairs may not define the usual measure of a suite; its result then names another.
    if headline and headline != described.headline:
        return (headline,)
    return described.conclusions or (described.headline,)


def _conclude_causes(names: Sequence[str], compared: ComparedWith, runs: int) -> str:
    """Which causes differ, by the p that are corrected for one another."""
    known = {name: compared.measures[name] for name in names if not math.isnan(compared.measures[name].p_holm)}
    if not known:
        return ""
    differ = [name for name, difference in known.items() if difference.significant]
    if not differ:
        return f" None of the causes differs beyond chance ({', '.join(map(_title, known))})."
    differing = "; ".join(
        f"{_title(name)} is {_direction(known[name])} ({signed(known[name].first)} -> {signed(known[name].second)}, "
        f"difference {known[name].shown}, p {p_bound(known[name].p_holm)})"
        for name in differ
    )
    same = [_title(name) for name in known if name not in differ]
    family = f"{len(known)} causes{f' in {runs} comparisons' * (runs > 1)}"
    rest = f" {' and '.join(same).capitalize()} {'do' if len(same) > 1 else 'does'} not differ beyond chance."
    return f" Of the causes {differing}.{rest if same else ''} Their p are corrected for {family}."


def _direction(change: Difference) -> str:
    return "higher" if change.value > 0 else "lower"


def _title(name: str) -> str:
    return get_measure(name).title.strip().partition(",")[0]


def model_names(audits: Sequence[Audit]) -> list[str]:
    """Model names, with the beginning of the model's hash where different models have the same name.

    A checkpoint that was trained on keeps its folder, and an embedded model its name when another takes its place.
    """
    models = [(audit.name, audit.result.lang, audit.result.model.fingerprint) for audit in audits]
    different = Counter((name, lang) for name, lang, _ in set(models))
    return [
        f"{name} {fingerprint.rpartition(':')[2][:8]}" if different[name, lang] > 1 else name
        for name, lang, fingerprint in models
    ]


def _label(run: Audit) -> dict[str, str]:
    return {"run": str(run.path), "model": run.name, "verdict": run.verdict.code}
