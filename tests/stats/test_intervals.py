"""Intervals: identities, what has none, and coverage from both sides."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from evenli.stats.tracing import Part, Parts, parts_of_means
from scipy.stats import norm as normal
from scipy.stats import t as student

from evenli.audit.models import fake_model
from evenli.audit.pairs import PAIR_COLUMNS
from evenli.audit.predict import predict
from evenli.audit.predictions import Predictions
from evenli.audit.suites.base import load_suite
from evenli.audit.suites.coal.build import build_coal
from evenli.audit.suites.coal.results import by_occupation
from evenli.core.errors import InputError
from evenli.core.labels import ENTAILMENT, LABELS
from evenli.core.record import Estimate, Scoring
from evenli.stats.intervals import (
    LEAST_P,
    _p,
    estimate_difference,
    estimate_functions,
    estimate_measures,
    interval,
    minimum_detectable_difference,
    prediction_interval,
    wilson,
)
from evenli.stats.measure import Measure, as_measure, get_measure, measures
from evenli.stats.sample import Sample
from evenli.stats.variance import Scores, _combination, design_effect, jackknife_scores, spread, summed, unseen
from studies.intervals import coverage
from studies.intervals.power import power

Row = tuple[str, str, str, str, str]


def table(rows: list[Row]) -> Predictions:
    """(subset, occupation, stereotype, template, predicted label) rows."""
    frame = pl.DataFrame(rows, schema=["subset", "occupation", "stereotype", "template", "label"], orient="row")
    logits = [(pl.col("label") == label).cast(pl.Float64).mul(4.0).alias(label) for label in LABELS]
    rest = [pl.lit(None, pl.String).alias(n) for n in PAIR_COLUMNS if n not in frame.columns and n != "id"]
    return Predictions(frame.select(pl.all().exclude("label"), *logits, *rest).with_row_index("id"))


def crossed(occupations: int, templates: int, entailed: np.ndarray) -> Sample:
    """PS rows of every occupation in every template; ``entailed`` says which are."""
    cells = [(o, t) for o in range(occupations) for t in range(templates)]
    return Sample(
        table([("PS", f"o{o}", "female", f"t{t}", ENTAILMENT if entailed[o, t] else "neutral") for o, t in cells])
    )


def estimate(sample: Sample, name: str = "coal_pro", stereotype: str | None = None) -> Estimate:
    return estimate_measures(sample, [get_measure(name)], [stereotype])[name, stereotype]


def test_one_template_is_the_textbook_share_of_occupations() -> None:
    found = estimate(crossed(20, 1, np.arange(20)[:, None] < 6))
    assert found.value == pytest.approx(0.3)
    assert found.se == pytest.approx(np.sqrt(0.3 * 0.7 / 19))
    # Wilson's interval with the t of 19 degrees of freedom, less what is borrowed: of answers that differ there are
    # (sum of squares)^2 / sum of fourth powers, and 4 more count as if the normal t were right.
    differing = (20 * 0.21) ** 2 / (6 * 0.7**4 + 14 * 0.3**4)
    t = np.sqrt((differing * student.ppf(0.975, 19) ** 2 + 4 * 1.959964**2) / (differing + 4))
    n = 19
    middle, half = (0.3 + t**2 / 2 / n) / (1 + t**2 / n), t / (1 + t**2 / n) * np.sqrt(0.21 / n + t**2 / 4 / n**2)
    assert (found.low, found.high) == pytest.approx((middle - half, middle + half), rel=1e-3)


def test_every_occupation_in_every_template_is_an_analysis_of_variance() -> None:
    generator = np.random.default_rng(2)
    effects = generator.normal(size=(20, 1)) + generator.normal(size=(1, 12)) + generator.normal(size=(20, 12))
    answers = (effects > 0).astype(float)
    rows, columns, mean = answers.mean(axis=1), answers.mean(axis=0), answers.mean()
    by_row, by_column = 12 * ((rows - mean) ** 2).sum() / 19, 20 * ((columns - mean) ** 2).sum() / 11
    rest = ((answers - rows[:, None] - columns + mean) ** 2).sum() / (19 * 11)
    assert estimate(crossed(20, 12, answers)).se ** 2 == pytest.approx((by_row + by_column - rest) / 240, rel=0.02)


def test_answers_that_cancel_over_clusters_keep_a_width() -> None:
    # Rows and columns have the same means: both ways of clustering find nothing.
    found = estimate(crossed(2, 2, np.eye(2)))
    assert found.se > 0.1 and found.low < 0.3 and found.high > 0.7


def test_closed_form_is_the_jackknife_in_the_limit() -> None:
    generator = np.random.default_rng(0)
    effects = generator.normal(size=(60, 1)) + generator.normal(size=(1, 40)) + generator.normal(size=(60, 40))
    sample = crossed(60, 40, effects > 0.3)

    def odds(sample: Sample, stereotype: str | None = None) -> np.ndarray:
        share = sample.rate(ENTAILMENT, "PS", stereotype)
        return share / (1 - share)

    for function in (get_measure("coal_pro"), Measure("odds", "odds", "", odds)):
        closed = parts_of_means(function, [sample], None)
        assert closed is not None
        (part,) = closed.parts
        left_out = jackknife_scores(function, [sample], None)
        assert np.sqrt(spread(part.scores).variance) == pytest.approx(np.sqrt(spread(left_out).variance), rel=0.05)
    # The delta method: the derivative of p / (1 - p) is 1 / (1 - p)^2.
    share, ratio = (
        estimate_measures(sample, [entry])[entry.name, None]
        for entry in (get_measure("coal_pro"), Measure("odds", "odds", "", odds))
    )
    assert ratio.se == pytest.approx(share.se / (1 - share.value) ** 2, rel=1e-4)


def test_own_measures_are_left_out_one_by_one() -> None:
    generator = np.random.default_rng(1)
    effects = generator.normal(size=(30, 1)) + generator.normal(size=(30, 20))
    sample = crossed(30, 20, effects > 0)
    own = as_measure(lambda sample: float(sample.rate(ENTAILMENT)), name="mine")
    measured = estimate_measures(sample, [own])["mine", None]
    built_in = estimate(sample)
    assert measured.value == pytest.approx(built_in.value) and measured.se == pytest.approx(built_in.se, rel=0.1)
    undefined = as_measure(lambda sample: 1.0 if sample.frame.height == 600 else float("nan"), name="mine")
    found = estimate_measures(sample, [undefined])["mine", None]
    assert found.value == 1 and np.isnan(found.low) and "no interval" in found.note


@pytest.mark.parametrize(("name", "suite"), [("coal", "coal"), ("probe_dp", "probe"), ("t50_pair", "dev2020")])
def test_nothing_is_random_and_the_order_of_rows_does_not_matter(name: str, suite: str) -> None:
    data = predict(fake_model("random"), [load_suite(suite)])
    first, again = (estimate(Sample(data), name) for _ in range(2))
    assert first == again and first.low < first.value < first.high
    shuffled = estimate(Sample(Predictions(data.frame.sample(fraction=1, shuffle=True, seed=4), data.header)), name)
    assert (shuffled.low, shuffled.high) == pytest.approx((first.low, first.high), abs=1e-6)


@pytest.mark.parametrize("kind", ["even", "biased"])
def test_a_share_of_0_or_1_has_a_width(kind: str) -> None:
    sample = Sample(predict(fake_model(kind), [build_coal("en")]))
    chosen = [get_measure(name) for name in ("coal", "coal_pro", "coal_non", "follow", "fn_bias")]
    value = {"even": 0, "biased": 1}[kind]
    for (name, stereotype), found in estimate_measures(sample, chosen, [None, "female", "male"]).items():
        if name == "coal_non" and stereotype:
            assert np.isnan(found.value) and found.note.startswith("undefined")
            continue
        assert found.value == value and found.high - found.low > 0.001 and found.se > 0, name
        assert value in (found.low, found.high)
    # 13 words in ten sentences that all give one answer leave room for 3 in 130 others: the rule of three.
    female = estimate(sample, "coal_pro", "female")
    assert female.high - female.low == pytest.approx(3 / 130, rel=0.3)
    occupations = by_occupation(sample)
    assert (occupations["high"] - occupations["low"] > 0.1).all()


def test_parts_that_are_0_and_1_leave_a_width_in_the_middle() -> None:
    rows = [("PS", f"o{o}", "male", f"t{o % 7}", ENTAILMENT) for o in range(40)]
    rows += [("AS", f"o{o}", "male", f"t{o % 7}", "neutral") for o in range(40)]
    found = estimate(Sample(table(rows)), "follow")
    assert found.value == 0.5 and 0.3 < found.low < 0.49 and 0.51 < found.high < 0.7


def two_classes(female: np.ndarray, male: np.ndarray) -> Sample:
    """PS rows of two stereotypes that share no template; an array of [occupations, templates] each."""
    rows = [
        ("PS", f"{name}{o}", name, f"{name}{t}", ENTAILMENT if answers[o, t] else "neutral")
        for name, answers in (("female", female), ("male", male))
        for o, t in np.ndindex(answers.shape)
    ]
    return Sample(table(rows))


def test_ends_of_stereotypes_add_up_as_standard_errors_do() -> None:
    generator = np.random.default_rng(3)
    female, male = (generator.random((20, 10)) < p for p in (0.04, 0.5))
    sample = two_classes(female, male)
    whole = estimate(sample)
    parts = [estimate(sample, stereotype=name) for name in ("female", "male")]
    assert whole.value == pytest.approx(np.mean([part.value for part in parts]))
    down, up = (np.hypot(*(getattr(part, end) - part.value for part in parts)) / 2 for end in ("low", "high"))
    assert (whole.value - whole.low, whole.high - whole.value) == pytest.approx((down, up))
    # A class near 0 can only be further up, and the whole knows.
    assert parts[0].high - parts[0].value > 1.5 * (parts[0].value - parts[0].low)


def test_what_was_never_seen_widens_on_one_side() -> None:
    none, some = np.zeros((20, 10)), np.random.default_rng(4).random((20, 10)) < 0.5
    whole, male = (estimate(two_classes(none, some), stereotype=name) for name in (None, "male"))
    assert whole.value - whole.low == pytest.approx((male.value - male.low) / 2)
    effect = design_effect([two_classes(none, some)])
    rule = unseen(20, 200, effect)
    assert whole.high - whole.value == pytest.approx(np.hypot(male.high - male.value, rule) / 2)
    assert unseen(20, 200, 1) == pytest.approx(3 / 200, rel=0.01) and unseen(20, 200, 4) > 1.5 * unseen(20, 200, 1)


@pytest.mark.parametrize(("column", "open_ends"), [(0, (True, True)), (1, (True, False)), (-1, (False, True))])
def test_zero_is_no_end_of_a_signed_column(column: int, open_ends: tuple[bool, bool]) -> None:
    sample = crossed(20, 10, np.zeros((20, 10)))
    values = np.full(200, float(column))

    def signed(sample: Sample) -> np.ndarray:
        return sample.mean(values, signed=True)

    found = estimate_functions(sample, {"gap": signed}, (-1, 1))["gap"]
    assert found.value == column
    assert (found.low < found.value, found.value < found.high) == open_ends
    # The control: the same zeros as a share leave room above only.
    if column == 0:
        share = estimate_functions(sample, {"share": lambda sample: sample.mean(values)}, (-1, 1))["share"]
        assert (share.low, share.high) == pytest.approx((0, found.high))
        assert found.low == pytest.approx(-found.high)


def test_a_rare_gap_is_covered_only_as_a_signed_column() -> None:
    generator, sample = np.random.default_rng(11), crossed(20, 10, np.zeros((20, 10)))
    gap, covered = -0.01, {True: 0, False: 0}
    for _ in range(200):
        # One row in a hundred is right for one group only, and words differ; one table in seven shows none at all.
        rates = np.repeat(generator.choice([0.005, 0.015], 20), 10)
        values = -(generator.random(200) < rates).astype(np.float64)
        for signed in covered:
            functions = {"gap": lambda sample, values=values, signed=signed: sample.mean(values, signed=signed)}
            found = estimate_functions(sample, functions, (-1, 1))["gap"]
            covered[signed] += found.low <= gap <= found.high
    assert covered[False] < 0.9 * 200 < 0.95 * 200 < covered[True]


def test_what_many_sets_of_rows_lack_is_not_lacking_by_one_chance() -> None:
    def over_templates(sample: Sample, stereotype: str | None = None) -> np.ndarray:
        answers = (sample.predicted == LABELS.index(ENTAILMENT)).astype(np.float32)
        return sum(sample.mean(answers, rows=sample.where("template", f"t{k}")) for k in range(10)) / 10

    found = parts_of_means(Measure("mean", "mean", "", over_templates), [crossed(20, 10, np.zeros((20, 10)))], None)
    assert found is not None
    assert found.parts[0].hidden == pytest.approx((0, np.hypot(0.2, np.sqrt(8) * 0.1)))
    # A row has one answer: one contradiction more is one entailment less, and not two steps.
    gap = Measure("gap", "gap", "", lambda sample, stereotype: sample.rate("contradiction") - sample.rate(ENTAILMENT))
    found = parts_of_means(gap, [crossed(20, 10, np.ones((20, 10)))], None)
    assert found is not None and found.parts[0].hidden == pytest.approx((0, 1))
    # Several answers that are never given may all have been there.
    both = Measure(
        "both", "both", "", lambda sample, stereotype: sample.rate(ENTAILMENT) + sample.rate("contradiction")
    )
    found = parts_of_means(both, [crossed(20, 10, np.zeros((20, 10)))], None)
    assert found is not None and found.parts[0].hidden == pytest.approx((0, 2))


def test_shared_templates_that_cancel_do_not_widen() -> None:
    # Three templates move both classes alike; the difference of the classes does not depend on them.
    generator = np.random.default_rng(7)
    inclined = generator.normal(size=(80, 1)) + 2 * np.array([-1.0, 0, 1])
    rows = [
        ("PS", f"o{o}", "female" if o % 2 else "male", f"t{t}", ENTAILMENT if inclined[o, t] > 0 else "neutral")
        for o, t in np.ndindex(80, 3)
    ]
    sample = Sample(table(rows))

    def gap(sample: Sample, stereotype: str | None = None) -> np.ndarray:
        return sample.rate(ENTAILMENT, stereotype="male") - sample.rate(ENTAILMENT, stereotype="female")

    whole, apart = estimate(sample), estimate_measures(sample, [Measure("gap", "gap", "", gap, -1, 1)])["gap", None]
    assert whole.high - whole.low > 0.8  # three templates, one of which moves all: as good as unknown
    assert apart.high - apart.low < 0.4


def test_skewed_templates_lengthen_one_side() -> None:
    # Nine templates with few such answers, and one with many.
    answers = np.random.default_rng(8).random((60, 10)) < np.array([0.3] * 9 + [0.9])
    found = estimate(crossed(60, 10, answers))
    even = estimate(crossed(60, 10, np.random.default_rng(8).random((60, 10)) < np.linspace(0.18, 0.54, 10)))
    skew, none = ((measured.high - measured.value) / (measured.value - measured.low) for measured in (found, even))
    assert skew > 1.3 * none


def test_one_answer_borrows_the_clustering_of_all() -> None:
    # One word says it once. Where the others of the table answer by occupation, that may be the tip of a word.
    generator = np.random.default_rng(5)
    rare = np.zeros((20, 10))
    rare[0, 0] = 1
    by_row, by_word = generator.random((40, 10)) < 0.5, np.repeat(generator.random((40, 1)) < 0.5, 10, axis=1)
    narrow, wide = (estimate(two_classes(rare, others), stereotype="female") for others in (by_row, by_word))
    assert narrow.value == wide.value and wide.high > 1.3 * narrow.high


def smaller_share(sample: Sample, stereotype: str | None = None) -> np.ndarray:
    return sample.smaller(sample.rate(ENTAILMENT, "PS"), sample.rate("contradiction", "PS"))


def test_at_a_corner_both_shares_count() -> None:
    own = Measure("smaller", "smaller", "", smaller_share, 0, 1)

    def answered(entailed: int, contradicted: int) -> Estimate:
        labels = [ENTAILMENT] * entailed + ["contradiction"] * contradicted
        labels += ["neutral"] * (400 - len(labels))
        np.random.default_rng(6).shuffle(labels)
        cells = zip(np.ndindex(20, 20), labels, strict=True)
        sample = Sample(table([("PS", f"o{o}", "female", f"t{t}", label) for (o, t), label in cells]))
        return estimate_measures(sample, [own])["smaller", None]

    clear, even = answered(40, 150), answered(40, 40)
    # Far from the corner it is the interval of the smaller share; at it, that of the mean of two shares.
    assert clear.se == pytest.approx(np.sqrt(0.1 * 0.9 / 400), rel=0.3)
    assert even.se == pytest.approx(np.sqrt(0.2 * 0.8 / 400) / 2, rel=0.3)
    # The smaller of two equal shares comes out too small: the interval lies higher.
    assert even.high - even.value > 1.5 * (even.value - even.low) > 0


def test_strata_that_are_0_and_1_leave_a_width() -> None:
    # Answers go by the stereotype: nothing varies within one.
    sample = Sample(predict(fake_model("oracle", rate=0.3), [build_coal("en")]))
    found = estimate(sample, "fn_bias")
    assert found.low < found.value - 0.001 and found.high > found.value + 0.001


def test_clusters_count_and_not_rows() -> None:
    # The oracle answers by occupation: 100 independent units, not 2,000 rows.
    sample = Sample(predict(fake_model("oracle", rate=0.5), [build_coal("en")]))
    found = estimate(sample, "follow")
    naive = wilson(found.value, 2000)
    assert found.high - found.low > 3 * (naive[1] - naive[0])
    assert found.clusters == {"occupations": 100, "templates": 280}


def test_one_cluster_gives_no_interval() -> None:
    rows: list[Row] = [("PS", "nurse", "female", "t1", ENTAILMENT if k < 9 else "neutral") for k in range(20)]
    found = estimate(Sample(table(rows)))
    assert found.value == pytest.approx(0.45) and np.isnan([found.low, found.high, found.se]).all()
    assert "one occupation and one template" in found.note
    assert found.to_dict()["low"] is None and found.clusters == {"occupations": 1, "templates": 1}
    # How many occupations a stereotype has is fixed: one of each is no more than one.
    both = estimate(Sample(table([*rows, ("PS", "cop", "male", "t1", ENTAILMENT)])))
    assert np.isnan(both.low) and "one occupation" in both.note
    # Two clusters in one direction are enough.
    for other in (("PS", "maid", "female", "t1", ENTAILMENT), ("PS", "nurse", "female", "t2", ENTAILMENT)):
        found = estimate(Sample(table([*rows, other])))
        assert found.low < found.value <= found.high and found.note == ""


def test_levels() -> None:
    sample = Sample(predict(fake_model("random"), [build_coal("en")]))
    narrow, wide = (
        estimate_measures(sample, [get_measure("coal")], scoring=Scoring(level))["coal", None] for level in (0.5, 0.99)
    )
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high
    for level in (0, 1, 95):
        with pytest.raises(InputError, match="level"):
            Scoring(level)


def test_the_p_of_a_difference_agrees_with_its_interval() -> None:
    first, second = (Sample(predict(fake_model(kind), [build_coal("en")])) for kind in ("random", "wrong"))
    for entry in measures("coal"):
        there, back = estimate_difference(entry, first, second), estimate_difference(entry, second, first)
        if np.isnan(there.p):
            continue
        assert (there.p < 0.05) == (there.low > 0 or there.high < 0), entry.name
        assert there.p == pytest.approx(back.p) and there.low == pytest.approx(-back.high)


def test_minimum_detectable_difference() -> None:
    assert minimum_detectable_difference(Estimate(0.5, 0.4, 0.6, 0.05, 0.95, 10, {})) == pytest.approx(
        2.801585 * 0.05, rel=1e-5
    )


def test_a_comparison_finds_what_an_audit_says() -> None:
    none, enough = (power(more, 0.5, 60) for more in (0.0, 0.42))
    assert none.rejected < 0.15 and abs(none.difference) < 0.01
    assert enough.difference == pytest.approx(enough.detectable, rel=0.15)
    # 80 %, and three standard errors of so few simulations.
    assert enough.rejected == pytest.approx(0.8, abs=0.16)


def test_memory_grows_by_little_per_row() -> None:
    rows = 300_000
    number = np.arange(rows)
    frame = pl.DataFrame(
        {
            "subset": pl.Series(np.where(number % 2, "PS", "AS")),
            "occupation": pl.Series(number % 3001).cast(pl.String),
            "stereotype": pl.Series(np.where(number % 3001 % 2, "female", "male")),
            "template": pl.Series(number % 997).cast(pl.String),
            **{label: np.sin(number * (k + 1.7)) for k, label in enumerate(LABELS)},
        }
    )
    sample = Sample(Predictions(frame))
    # Asked for before: the first one imports all suites, which takes memory of its own.
    entries = [get_measure(name) for name in ("coal_pro", "nn")]
    tracemalloc.start()
    found = estimate_measures(sample, entries, (None, "female"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert all(row.low < row.value < row.high for row in found.values())
    assert peak < 300 * rows  # one resampled weight per row and resample would be 8,000 bytes a row


# --- stored numbers ------------------------------------------------------------------------------------------

NUMBERS = Path(__file__).parents[1] / "data" / "interval_numbers.json"
"""Value, low, high and standard error (and p of a difference) of small tables, as ``numbers`` computes them. They tie
every step to the ones before it; whether the steps are right is what the identities and the simulations ask."""


def drawn(seed: int, design: str, rates: tuple[float, float] = (0.3, 0.2)) -> Sample:
    """Entailed and contradicted at two rates, more by some occupations and templates than by others.

    ``design`` is crossed (all share their templates), two (they share two), nested (each occupation has its own) or
    partly (some are shared).
    """
    generator = np.random.default_rng(seed)
    lean = 0.5 + generator.random((9, 1)) * (0.5 + generator.random((1, 6)))
    rows, logits = [], []
    for o, t in np.ndindex(9, 6):
        shared = f"t{(o + t * (o % 3 + 1)) % 8}"
        name = {"crossed": f"t{t}", "nested": f"{o}-{t}", "partly": shared, "two": f"t{t % 2}"}[design]
        ends = np.cumsum(np.array(rates) * lean[o, t])
        label = (ENTAILMENT, "contradiction", "neutral")[int((generator.random() >= ends).sum())]
        subset, stereotype = ("PS", "AS", "NS")[(o + t) % 3], ("female", "male", "neutral")[o % 3]
        rows.append((subset, f"o{o}", stereotype, name, label))
        logits.append(generator.random(3) * 2)
    predictions = table(rows)
    columns = [pl.col(label) + pl.Series(np.array(logits)[:, at]) for at, label in enumerate(LABELS)]
    return Sample(Predictions(predictions.frame.with_columns(columns)))


def squared(sample: Sample) -> float:
    """No function of means, as far as anybody can tell."""
    return float((sample.predicted == LABELS.index(ENTAILMENT)).mean() ** 2)


def of_all(function: Callable[[Sample], np.ndarray], low: float = 0) -> Measure:
    return Measure("m", "", "", lambda sample, _: function(sample), low, 1)


OF_MEANS = {
    "rate": Measure("m", "", "", lambda sample, name: sample.rate(ENTAILMENT, None, name), 0, 1),
    "probability": of_all(lambda sample: sample.probability(ENTAILMENT)),
    # Two means of the same rows, and of different ones.
    "gap": of_all(lambda sample: sample.rate(ENTAILMENT) - sample.rate("contradiction"), -1),
    "slices": of_all(lambda s: s.rate(ENTAILMENT, stereotype="male") - s.rate(ENTAILMENT, stereotype="female"), -1),
    "smaller": of_all(lambda sample: sample.smaller(sample.rate(ENTAILMENT), sample.rate("contradiction"))),
    "pro": of_all(lambda s: s.smaller(s.rate(ENTAILMENT, "PS"), s.rate("contradiction", "PS"))),
    "likelier": of_all(lambda s: s.smaller(s.probability(ENTAILMENT), s.probability("contradiction"))),
    "squared": as_measure(squared, name="m"),
}
NESTED, BOTH = ("nested",), ("crossed", "nested")
CASES = [
    *itertools.product(OF_MEANS, (*BOTH, "partly"), ((0.3, 0.2),), (None,), (0.95,)),
    *itertools.product(("rate", "gap", "squared"), BOTH, ((0.05, 0.0),), (None, "male"), (0.8,)),
    *itertools.product(("smaller", "likelier"), BOTH, ((0.3, 0.3), (0.1, 0.5), (0.25, 0.33)), (None,), (0.95,)),
    *itertools.product(("rate", "gap"), NESTED, ((1.9, 0.0), (0.0, 0.0)), (None,), (0.95,)),
    *itertools.product(("rate", "slices", "likelier", "squared"), ("two",), ((0.3, 0.2),), (None,), (0.95,)),
    *itertools.product(("slices", "smaller"), ("nested", "two"), ((0.04, 0.5),), (None,), (0.95,)),
]


def numbers() -> dict[str, list[float]]:
    """What is stored; written anew only with a "Numbers change" line in the changelog."""
    found = {}
    for name, design, rates, part, level in CASES:
        estimated = estimate_measures(drawn(21, design, rates), [OF_MEANS[name]], [part], Scoring(level))["m", part]
        key = f"{name}, {design}, {rates[0]} and {rates[1]}, {part or 'all'}, {level}"
        found[key] = [estimated.value, estimated.low, estimated.high, estimated.se]
    for name, design, level in itertools.product(OF_MEANS, BOTH, (0.95, 0.8)):
        first, second = drawn(21, design), drawn(22, design, (0.6, 0.1) if level > 0.9 else (0.6, 0.0))
        gap = estimate_difference(OF_MEANS[name], first, second, level)
        found[f"difference of {name}, {design}, {level}"] = [gap.low, gap.high, gap.se, gap.p]
    return found


def test_p_of_many_and_of_few_clusters() -> None:
    assert _p(1.959964, 1.0, 1.959964) == pytest.approx(0.05, abs=1e-5)
    assert _p(-3.0, 1.0, 1.959964) == pytest.approx(2 * normal.sf(3.0), abs=1e-6)
    # Five degrees of freedom reach 2.5706 standard errors.
    assert _p(2.0, 1.0, student.ppf(0.975, 5)) == pytest.approx(2 * student.sf(2.0, 5), abs=1e-5)
    assert _p(0.0, 1.0, 2.0) == 1 and _p(0.3, 0.0, 0.0) == LEAST_P == _p(40.0, 1.0, 1.959964)


def test_a_design_without_weight_is_combined_as_usual() -> None:
    design = drawn(21, "crossed").design
    assert _combination(np.zeros(54), design).tolist() == [1, 1, -1]
    # Where all share their templates, what is left of one way in the other cancels: rows and columns of an ANOVA.
    by_hand = _combination(np.ones(54), design)
    o, t, c = 1 / 9, 1 / 6, 1 / 54
    leak = c - 2 / 54 + o * t
    for component in ((o, leak, c), (leak, t, c), (c, c, c)):
        wanted = {(o, leak, c): o, (leak, t, c): t, (c, c, c): c}[component]
        assert np.dot(by_hand, component) == pytest.approx(wanted)


def test_intervals_are_the_stored_numbers() -> None:
    found, stored = numbers(), json.loads(NUMBERS.read_text(encoding="utf-8"))
    assert found.keys() == stored.keys()
    for key, expected in stored.items():
        assert found[key] == pytest.approx(expected, abs=2e-6), key


SIMULATIONS = 300
SLACK = 0.035
"""Nearly three standard errors of a share of 0.95 in so many simulations."""


@pytest.mark.parametrize(
    ("name", "measured"),
    [
        ("all, both effects", ("coal", "stereotype", "total_error")),
        ("female, 13 words, occupation effects", ("coal",)),
        ("female near 0, occupation effects", ("coal_pro",)),
        ("near 0, both effects", ("coal", "total_error")),
        ("near 1, weak effects", ("stereotype",)),
        ("3 templates for all", ("coal",)),
        ("difference, null, both effects", ("coal", "total_error")),
    ],
)
def test_intervals_cover_neither_too_often_nor_too_rarely(name: str, measured: tuple[str, ...]) -> None:
    scenario = next(scenario for scenario in coverage.scenarios() if scenario.name == name)
    for row in coverage.simulate(replace(scenario, names=measured), SIMULATIONS, 11):
        assert 0.95 - SLACK <= row["coverage"] <= 0.95 + SLACK, row
        assert row["zero_width"] == 0
        if row["rejected"] is not None:
            assert row["rejected"] == pytest.approx(0.05, abs=SLACK)


def test_a_doubtful_coverage_is_simulated_again() -> None:
    scenario = replace(next(coverage.scenarios()), names=("coal", "nn"))
    first = {row["measure"]: row for row in coverage.simulate(scenario, 4, 1)}
    again = {row["measure"]: row for row in coverage.judged(scenario, 4, 6, 1, lambda: None)}
    for name, row in first.items():
        expected = 6 if coverage.doubtful(row, 4) else 4
        assert again[name]["simulations"] == expected
    limits = [coverage.doubtful({"coverage": share}, 1000) for share in (0.92, 0.932, 0.935, 0.965, 0.968, 0.98)]
    assert limits == [True, True, False, False, True, True]


def test_single_occupations_are_covered() -> None:
    scenarios = {scenario.name: scenario for scenario in coverage.scenarios()}
    scenario = scenarios["single occupations, both effects"]
    (row,) = coverage.simulate(scenario, 20, 3)
    assert 0.93 <= row["coverage"] <= 0.97 and row["zero_width"] == 0


def test_control_rows_taken_as_independent_do_not_cover() -> None:
    world = coverage.World(coverage.Scenario("control", "occupation"))
    generator = np.random.default_rng(0)
    shares = [float(get_measure("coal_pro")(world.draw(generator)[0])) for _ in range(100)]
    truth = np.mean(shares)
    covered = [wilson(share, 1000)[0] <= truth <= wilson(share, 1000)[1] for share in shares]
    assert np.mean(covered) < 0.75


def test_parts_cancel_by_the_width_of_their_plain_intervals() -> None:
    strata = {"female": 1.0, "male": -1.5, "neutral": 1.0}
    cells = [(name, o, t) for name in strata for o in range(4) for t in range(6)]
    sample = Sample(table([("PS", f"{name}{o}", name, f"t{t}", LABELS[(o + t) % 2]) for name, o, t in cells]))
    # The templates move the second part against the first and the third; nothing is skewed.
    row_scores = np.array([0.01 * strata[name] * (-1) ** t + 0.001 * (-1) ** o for name, o, t in cells])
    of = [np.array([cell[0] == name for cell in cells]) for name in strata]
    mass = np.full(len(cells), 1 / len(cells))
    scores = [summed(np.where(rows, row_scores, 0), np.where(rows, mass, 0), sample.design) for rows in of]

    def ends(gap: float) -> tuple[list[float], list[float]]:
        parts = [Part(one, hidden=(gap * (at == 1),) * 2, occupations=4, cells=24) for at, one in enumerate(scores)]
        whole = summed(row_scores, mass, sample.design)
        both = (interval(0.0, Parts(parts, whole=one), [sample], (-np.inf, np.inf)) for one in (whole, None))
        with_whole, without = ([found.low, found.high, found.se] for found in both)
        return with_whole, without

    # Together -1.5 - 1.5 + 1: what the templates add cancels, and the interval is another one.
    with_whole, without = ends(0.0)
    assert with_whole[2] != pytest.approx(without[2], rel=0.01)
    # Doubt about answers never seen makes the second part correlate little with the others; its plain width is small.
    with_whole, without = ends(10.0)
    assert with_whole == pytest.approx(without)


@pytest.mark.parametrize("turned", [False, True])
def test_the_smaller_of_two_means_that_cannot_be_mistaken_is_that_mean(turned: bool) -> None:
    labels = {"PS": "neutral", "AS": ENTAILMENT}
    cells = itertools.product(labels, range(8), range(3))
    sample = Sample(table([(subset, f"o{o}", "female", f"t{t}", labels[subset]) for subset, o, t in cells]))

    def least(sample: Sample, stereotype: str | None = None) -> np.ndarray:
        first, second = (sample.rate(ENTAILMENT, subset, stereotype) for subset in labels)
        return sample.smaller(second, first) if turned else sample.smaller(first, second)

    def first(sample: Sample, stereotype: str | None = None) -> np.ndarray:
        return sample.rate(ENTAILMENT, "PS", stereotype)

    # No answer differs, so that the gap of 1 has no error: one share counts in full and the other not at all.
    entries = [Measure(one.__name__, "", "", one, 0, 1) for one in (least, first)]
    found, expected = (estimate_measures(sample, [entry])[entry.name, None] for entry in entries)
    assert found.high > 0.05
    for name in ("value", "low", "high", "se"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), abs=1e-6), name


def test_a_measure_without_a_slope_on_one_side_is_no_function_of_means() -> None:
    def root(sample: Sample, stereotype: str | None = None) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            return np.sqrt(sample.rate(ENTAILMENT, "PS", stereotype) - 0.5)

    half, more = (crossed(10, 4, np.arange(40).reshape(10, 4) < count) for count in (20, 30))
    # At 0.5 the root is defined above only; at 0.75 on both sides.
    assert parts_of_means(root, [half], None) is None
    assert parts_of_means(root, [more], None) is not None


def test_two_occupations_are_two_clusters_and_one_is_none() -> None:
    def scores(stratum: list[int]) -> Scores:
        ways = np.array([3.0, -3.0]), np.array([2.0, -2.0]), np.array([1.0, 2.0, -1.0, -2.0])
        masses = np.ones(2), np.ones(2), np.array([1.0, 1.0, -1.0])
        return Scores(ways[0], ways[1], ways[2], np.array(stratum), *masses)

    # Two clusters: n / (n - 1) = 2 times the sum of squares, 36 by occupation, 16 by template, and 10 of the cells.
    assert spread(scores([0, 0])).variance == pytest.approx(36 + 16 - 10)
    # One occupation in each stratum says nothing about occupations.
    assert spread(scores([0, 1])).variance == pytest.approx(16)
    # One template says nothing about templates.
    single = replace(scores([0, 0]), template_mass=np.array([1.0, 0.0]))
    assert spread(single).variance == pytest.approx(36)


def test_a_prediction_interval_covers_a_further_value() -> None:
    generator = np.random.default_rng(5)
    drawn = generator.gamma(2.0, size=(2000, 40))
    inside = [low <= last <= high for *seen, last in drawn for low, high, _ in [prediction_interval(seen)]]
    assert 0.93 < np.mean(inside) < 0.97
    assert prediction_interval([1.0])[2] != prediction_interval([1.0])[2]
    assert prediction_interval([1.0, 2.0, 3.0])[2] == pytest.approx(0.5)
