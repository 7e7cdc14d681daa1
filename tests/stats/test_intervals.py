"""Intervals: by hand, against a slow textbook version, identities, what has none, and coverage from both sides."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import gamma
from scipy.stats import t as student

from evenli.audit.models import fake_model
from evenli.audit.pairs import PAIR_COLUMNS
from evenli.audit.predict import predict
from evenli.audit.predictions import Predictions
from evenli.audit.suites.base import load_suite
from evenli.audit.suites.coal.pairs import build_coal
from evenli.audit.suites.coal.results import by_occupation
from evenli.core.errors import InputError
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS
from evenli.core.record import Estimate, Scoring
from evenli.stats.intervals import (
    LEAST_P,
    Z,
    estimate_difference,
    estimate_functions,
    estimate_measures,
    holm,
    minimum_detectable_difference,
    prediction_interval,
    rare,
    terms_of_means,
    wilson,
    word_rule,
)
from evenli.stats.measure import Measure, as_measure, get_measure, measures
from evenli.stats.sample import Sample
from evenli.stats.variance import NotOfMeansError, TwoWay, jackknife
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


def measured(sample: Sample, function: Any, low: float = 0, stereotype: str | None = None) -> Estimate:
    entry = Measure("m", "", "", lambda sample, _: function(sample), low, 1)
    return estimate_measures(sample, [entry], [stereotype])["m", stereotype]


# --- by hand -------------------------------------------------------------------------------------------------


def test_words_with_a_sentence_each_are_the_textbook_share() -> None:
    rows = [("PS", f"o{o}", "female", f"t{o}", ENTAILMENT if o < 6 else "neutral") for o in range(20)]
    found = estimate(Sample(table(rows)))
    variance = 0.3 * 0.7 / 19
    assert found.value == pytest.approx(0.3) and found.se == pytest.approx(np.sqrt(variance))
    # By occupation, by template and by cell it is the same variance; Satterthwaite: 1 / (1 / 19 + 1 / 19).
    t, n = student.ppf(0.975, 19 / 2), 19
    middle, half = (0.3 + t**2 / 2 / n) / (1 + t**2 / n), t / (1 + t**2 / n) * np.sqrt(0.21 / n + t**2 / 4 / n**2)
    assert (found.low, found.high) == pytest.approx((middle - half, middle + half))


def test_every_occupation_in_every_template() -> None:
    generator = np.random.default_rng(2)
    effects = generator.normal(size=(20, 1)) + generator.normal(size=(1, 12)) + generator.normal(size=(20, 12))
    answers = (effects > 0).astype(float)
    rows, columns, mean = answers.mean(axis=1), answers.mean(axis=0), answers.mean()
    by_row, by_column = ((rows - mean) ** 2).sum() / 20 / 19, ((columns - mean) ** 2).sum() / 12 / 11
    by_cell = mean * (1 - mean) / 239
    found = estimate(crossed(20, 12, answers))
    variance = by_row + by_column - by_cell
    assert variance > max(by_row, by_column)
    assert found.se**2 == pytest.approx(variance)
    t = student.ppf(0.975, variance**2 / (by_row**2 / 19 + by_column**2 / 11))
    n = mean * (1 - mean) / variance
    middle, half = mean + t**2 / 2 / n, t * np.sqrt(variance + t**2 / 4 / n**2)
    assert (found.low, found.high) == pytest.approx(
        ((middle - half) / (1 + t**2 / n), (middle + half) / (1 + t**2 / n))
    )


def test_answers_that_cancel_over_clusters_keep_a_width() -> None:
    # Rows and columns have the same means: both ways of clustering find nothing, and independent cells remain.
    found = estimate(crossed(5, 5, np.eye(5)))
    assert found.se == pytest.approx(np.sqrt(4 / 25 / 24)) and found.low < 0.1 and found.high > 0.4


def test_the_variance_is_never_below_one_of_its_parts() -> None:
    def spread(*ways: float) -> tuple[float, float]:
        occupation, template, cell = (np.array([[way]]) for way in ways)
        return TwoWay(occupation, template, cell, (4.0, 9.0)).spread(np.ones(1))

    assert spread(4, 3, 2) == pytest.approx((5, 25 / (16 / 4 + 9 / 9)))
    assert spread(4, 1, 2) == pytest.approx((4, 16 / (16 / 4 + 1 / 9)))
    assert spread(1, 3, 2)[0] == pytest.approx(3) and spread(1, 1, 3)[0] == pytest.approx(3)
    assert spread(0, 0, 0) == (0, np.inf)


@pytest.mark.parametrize(("words", "level", "expected"), [(13, 0.95, 0.2058), (87, 0.95, 0.0338), (13, 0.5, 0.0519)])
def test_the_word_rule(words: int, level: float, expected: float) -> None:
    assert word_rule(np.array([words]), level)[0] == pytest.approx(expected, abs=5e-5)


def test_limits_of_rare_answers_are_those_of_a_poisson_mean() -> None:
    # Brown, Cai and DasGupta (2001): 0.051, 0.355 and 0.818 for one, two and three answers.
    assert rare(np.array([1.0, 2.0, 3.0]), 0.95) == pytest.approx([0.0513, 0.3554, 0.8177], abs=1e-4)


def test_an_answer_that_few_words_gave_is_no_better_known_to_be_rare_than_one_that_none_gave() -> None:
    answers = np.zeros((13, 40))
    none = estimate(crossed(13, 40, answers))
    answers[0, 0] = 1
    one = estimate(crossed(13, 40, answers))
    answers[:7] = 1
    many = estimate(crossed(13, 40, answers))
    assert none.high == pytest.approx(one.high) == pytest.approx(1 - 0.05 ** (1 / 13))
    assert 0 < one.low < one.value == pytest.approx(1 / 520) and many.high > one.high


def test_a_model_that_is_always_neutral_is_known_by_its_words() -> None:
    sample = Sample(predict(fake_model("even"), [build_coal("en")]))
    female, male = 1 - 0.05 ** (1 / 13), 1 - 0.05 ** (1 / 87)
    for name, stereotype, half in (
        ("default_of_stereotyped", "female", female),
        ("stereotype", None, np.hypot(female, male) / 2),
    ):
        found = estimate(sample, name, stereotype)
        assert (found.value, found.p) == (0, 1)
        assert (found.low, found.high) == pytest.approx((-half, half)) and found.se == pytest.approx(half / Z)
    assert female == pytest.approx(0.206, abs=5e-4) and np.hypot(female, male) / 2 == pytest.approx(0.104, abs=5e-4)
    # However many sentences a word has.
    assert estimate(sample, "coal_pro", "female").high == pytest.approx(female)
    assert estimate(crossed(13, 40, np.zeros((13, 40)))).high == pytest.approx(female)


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
    occupations = by_occupation(sample)
    assert (occupations["high"] - occupations["low"] > 0.1).all()


# --- against a slow textbook version -------------------------------------------------------------------------

Asked = tuple[float, np.ndarray, np.ndarray]
"""Coefficient, column of 0 and 1, and rows of a mean."""


def textbook(sample: Sample, means: Sequence[Asked], level: float = 0.95) -> tuple[float, float]:
    """How far the interval of a sum of shares reaches down and up, in loops."""
    design, terms, unseen = sample.design, [], {}
    for coefficient, column, rows in means:
        for name in np.unique(design.strata):
            here = np.flatnonzero(rows & (design.strata == name))
            if here.size:
                terms.append((name, coefficient * here.size / rows.sum(), column[here], here))

    def unbiased(codes: np.ndarray) -> float:
        share = np.unique(codes, return_counts=True)[1] / len(codes)
        if len(share) == 1:
            return 0.0
        return (share**2).sum() / ((share**2).sum() - 2 * (share**3).sum() + (share**2).sum() ** 2)

    def variance(chosen: list[Any], factors: Sequence[float]) -> tuple[float, float]:
        squares, df = [], []
        for way in (design.occupations, design.templates, design.cells):
            sums, mass = np.zeros(way.max() + 1), np.zeros(way.max() + 1)
            for (_, size, answers, here), factor in zip(chosen, factors, strict=True):
                for row, answer in zip(here, answers, strict=True):
                    error = size * (answer - answers.mean()) / here.size
                    sums[way[row]] += factor * np.sqrt(unbiased(way[here])) * error
                    mass[way[row]] += abs(size) / here.size
            share = mass[mass > 0] / mass.sum()
            squares.append((sums**2).sum())
            df.append((share**2).sum() ** 2 / (share**4).sum())
        strata = len({name for name, *_ in chosen})
        o, t, c = squares
        total = max(o + t - c, o, t, c)
        ways = o**2 / max(1, df[0] - strata) + t**2 / max(1, df[1] - 1)
        return total, total**2 / ways if ways else 1.0

    t = student.ppf((1 + level) / 2, variance(terms, np.ones(len(terms)))[1])
    factors: tuple[list[float], list[float]] = ([], [])
    for name, size, answers, here in terms:
        p, own = answers.mean(), variance([(name, size, answers, here)], [1.0])[0] / size**2
        ends = [t, t]
        if 0 < p < 1:
            n, rule = p * (1 - p) / own, 1 - (1 - level) ** (1 / len(set(design.occupations[design.strata == name])))
            centre, half = (p + t**2 / 2 / n) / (1 + t**2 / n), t * np.sqrt(own + t**2 / 4 / n**2) / (1 + t**2 / n)
            low, high = centre - half, centre + half
            # So rare that a Poisson variable with this mean gives as many with 5 %.
            low = gamma.ppf(1 - level, p * n) / n if p * n <= 3 else low
            high = 1 - gamma.ppf(1 - level, (1 - p) * n) / n if (1 - p) * n <= 3 else high
            low, high = min(low, 1 - rule), max(high, rule)
            ends = [(p - low) / np.sqrt(own), (high - p) / np.sqrt(own)]
        else:
            steps = unseen.setdefault(name, [0.0, 0.0, set()])
            steps[int((p == 0) == (size > 0))] += abs(size)
        for side, end in enumerate(ends if size > 0 else ends[::-1]):
            factors[side].append(end)
    reach = [variance(terms, side)[0] for side in factors]
    for name, steps in unseen.items():
        words = len({w for other, _, _, here in terms if other == name for w in design.occupations[here]})
        for side in (0, 1):
            reach[side] += (steps[side] * (1 - (1 - level) ** (1 / words))) ** 2
    return float(np.sqrt(reach[0])), float(np.sqrt(reach[1]))


def drawn(seed: int, design: str, rates: tuple[float, float] = (0.3, 0.2)) -> Sample:
    """Entailed and contradicted at two rates, more by some occupations and templates than by others.

    ``design`` is crossed (all share their templates), nested (each occupation has its own) or partly (some are shared).
    """
    generator = np.random.default_rng(seed)
    lean = 0.5 + generator.random((9, 1)) * (0.5 + generator.random((1, 6)))
    rows = []
    for o, t in np.ndindex(9, 6):
        name = {"crossed": f"t{t}", "nested": f"{o}-{t}", "partly": f"t{(o + t * (o % 3 + 1)) % 8}"}[design]
        ends = np.cumsum(np.array(rates) * lean[o, t])
        label = (ENTAILMENT, CONTRADICTION, "neutral")[int((generator.random() >= ends).sum())]
        rows.append((("PS", "AS", "NS")[(o + t) % 3], f"o{o}", ("female", "male", "neutral")[o % 3], name, label))
    return Sample(table(rows))


@pytest.mark.parametrize("design", ["crossed", "nested", "partly"])
@pytest.mark.parametrize("rates", [(0.3, 0.2), (0.05, 0.0), (1.9, 0.0), (0.0, 0.0)])
@pytest.mark.parametrize("level", [0.95, 0.8])
def test_intervals_are_those_of_a_slow_textbook_version(design: str, rates: tuple[float, float], level: float) -> None:
    sample = drawn(21, design, rates)
    entailed, contradicted = (
        (sample.predicted == LABELS.index(label)).astype(float) for label in (ENTAILMENT, CONTRADICTION)
    )
    every, some = np.ones(54, dtype=bool), sample.where("subset", "PS")
    female, male = (sample.where("stereotype", name) for name in ("female", "male"))
    asked: dict[str, list[Asked]] = {
        "share": [(1, entailed, every)],
        "gap": [(1, entailed, every), (-1, contradicted, every)],
        "classes": [(0.5, entailed, male), (-0.5, entailed, female)],
        "sets": [(1, entailed, some), (2, contradicted, every)],
    }
    for name, means in asked.items():

        def function(sample: Sample, means: list[Asked] = means) -> Any:
            return sum(size * sample.mean(column, rows=rows) for size, column, rows in means)

        entry = Measure("m", "", "", lambda sample, _, function=function: function(sample))
        found = estimate_measures(sample, [entry], scoring=Scoring(level))["m", None]
        reach = (found.value - found.low, found.high - found.value)
        assert reach == pytest.approx(textbook(sample, means, level), abs=1e-6), name
        assert found.p == pytest.approx(1, abs=1e-9) if found.value == 0 else 0 < found.p < 1


# --- identities ----------------------------------------------------------------------------------------------


def test_closed_form_is_the_jackknife_in_the_limit() -> None:
    generator = np.random.default_rng(0)
    effects = generator.normal(size=(60, 1)) + generator.normal(size=(1, 40)) + generator.normal(size=(60, 40))
    sample = crossed(60, 40, effects > 0.3)

    def odds(sample: Sample, stereotype: str | None = None) -> np.ndarray:
        share = sample.rate(ENTAILMENT, "PS", stereotype)
        return share / (1 - share)

    for function in (get_measure("coal_pro"), Measure("odds", "odds", "", odds)):
        closed, left_out = terms_of_means(function, [sample], None), jackknife(function, [sample], None)
        assert left_out is not None
        first, second = (covariance.spread(np.ones(1)) for covariance in (left_out, closed.covariance))
        assert first.variance == pytest.approx(second.variance, rel=0.1)
        assert first.df == pytest.approx(second.df, rel=0.2)
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
    found = estimate_measures(sample, [own])["mine", None]
    built_in = estimate(sample)
    assert found.value == pytest.approx(built_in.value) and found.se == pytest.approx(built_in.se, rel=0.02)
    # Its range is not known, so that it may be below 0, and has a p.
    assert found.p < 0.001 and np.isnan(built_in.p)
    # With the range of a share it has the interval of a share.
    bounded = estimate_measures(sample, [replace(own, low=0, high=1)])["mine", None]
    assert (bounded.low, bounded.high) == pytest.approx((built_in.low, built_in.high), abs=0.005)
    undefined = as_measure(lambda sample: 1.0 if sample.frame.height == 600 else float("nan"), name="mine")
    found = estimate_measures(sample, [undefined])["mine", None]
    assert found.value == 1 and np.isnan(found.low) and "no interval" in found.note
    constant = as_measure(lambda sample: 1.0, name="mine")
    found = estimate_measures(sample, [constant])["mine", None]
    assert found.low == found.value == found.high == 1 and "no width" in found.note


@pytest.mark.parametrize(("name", "suite"), [("coal", "coal"), ("probe_dp", "probe"), ("t50_pair", "dev2020")])
def test_nothing_is_random_and_the_order_of_rows_does_not_matter(name: str, suite: str) -> None:
    data = predict(fake_model("random"), [load_suite(suite)])
    first, again = (estimate(Sample(data), name) for _ in range(2))
    assert first == again and first.low < first.value < first.high
    shuffled = estimate(Sample(Predictions(data.frame.sample(fraction=1, shuffle=True, seed=4), data.header)), name)
    assert (shuffled.low, shuffled.high) == pytest.approx((first.low, first.high), abs=1e-6)


def test_groups_exchanged_turn_the_sign_and_keep_p() -> None:
    sample = drawn(5, "partly", (0.5, 0.2))

    def gap(sample: Sample) -> Any:
        return sample.rate(ENTAILMENT) - sample.rate(CONTRADICTION)

    there, back = measured(sample, gap, -1), measured(sample, lambda sample: -gap(sample), -1)
    assert there.value == -back.value != 0 and (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert there.p == pytest.approx(back.p) and there.se == pytest.approx(back.se)


def two_classes(female: np.ndarray, male: np.ndarray) -> Sample:
    """PS rows of two stereotypes that share no template; an array of [occupations, templates] each."""
    rows = [
        ("PS", f"{name}{o}", name, f"{name}{t}", ENTAILMENT if answers[o, t] else "neutral")
        for name, answers in (("female", female), ("male", male))
        for o, t in np.ndindex(answers.shape)
    ]
    return Sample(table(rows))


def test_ends_of_classes_add_up_as_standard_errors_do() -> None:
    # Many words and sentences, so that t is nearly normal in the classes and in the whole.
    generator = np.random.default_rng(3)
    sample = two_classes(*(generator.random((200, 100)) < p for p in (0.0015, 0.5)))
    whole, female, male = (estimate(sample, stereotype=name) for name in (None, "female", "male"))
    assert whole.value == pytest.approx((female.value + male.value) / 2)
    down, up = (
        np.hypot(getattr(female, end) - female.value, getattr(male, end) - male.value) / 2 for end in ("low", "high")
    )
    assert (whole.value - whole.low, whole.high - whole.value) == pytest.approx((down, up), rel=0.02)
    # A class near 0 can only be further up, and the whole knows.
    assert female.high - female.value > 1.2 * (female.value - female.low)


def test_what_was_never_seen_widens_on_one_side() -> None:
    none, some = np.zeros((20, 10)), np.random.default_rng(4).random((20, 10)) < 0.5
    sample = two_classes(none, some)
    whole, male = (estimate(sample, stereotype=name) for name in (None, "male"))
    assert whole.high - whole.value > np.hypot(male.high - male.value, 1 - 0.05 ** (1 / 20)) / 2 * 0.95
    assert whole.high - whole.value > 1.5 * (whole.value - whole.low)


@pytest.mark.parametrize(("column", "reach"), [(0, (1, 1)), (1, (2, 0)), (-1, (0, 2))])
def test_zero_is_no_end_of_a_signed_column(column: int, reach: tuple[int, int]) -> None:
    sample = crossed(20, 10, np.zeros((20, 10)))
    values, rule = np.full(200, float(column)), 1 - 0.05 ** (1 / 20)

    def signed(sample: Sample) -> np.ndarray:
        return sample.mean(values, signed=True)

    found = estimate_functions(sample, {"gap": signed}, (-1, 1))["gap"]
    assert (column - found.low, found.high - column) == pytest.approx(np.array(reach) * rule)
    # The control: the same zeros as a share leave room above only.
    if column == 0:
        share = estimate_functions(sample, {"share": lambda sample: sample.mean(values)}, (-1, 1))["share"]
        assert (share.low, share.high) == pytest.approx((0, rule))


def test_all_sets_of_rows_of_one_class_lack_an_answer_by_one_chance() -> None:
    sample = crossed(20, 10, np.zeros((20, 10)))
    answers = (sample.predicted == LABELS.index(ENTAILMENT)).astype(np.float32)

    def over_templates(sample: Sample) -> Any:
        return sum(sample.mean(answers, rows=sample.where("template", f"t{k}")) for k in range(10)) / 10

    assert measured(sample, over_templates).high == pytest.approx(1 - 0.05 ** (1 / 20))


def test_a_row_has_one_answer() -> None:
    sample, rule = crossed(20, 10, np.ones((20, 10))), 1 - 0.05 ** (1 / 20)

    def reach(**sizes: float) -> list[float]:
        found = measured(sample, lambda sample: sum(size * sample.rate(name) for name, size in sizes.items()), -3)
        return [(found.value - found.low) / rule, (found.high - found.value) / rule]

    # All rows are entailed: less of that is more of one other answer.
    assert reach(entailment=1) == pytest.approx([1, 0]) and reach(neutral=1) == pytest.approx([0, 1])
    assert reach(entailment=1, contradiction=-1) == pytest.approx([2, 0])
    assert reach(neutral=1, contradiction=1) == pytest.approx([0, 1])
    assert reach(neutral=1, contradiction=-0.5) == pytest.approx([0.5, 1])


def test_a_difference_hides_something_only_where_no_answer_differs() -> None:
    def gap(sample: Sample, stereotype: str | None = None) -> Any:
        return sample.rate(ENTAILMENT) - sample.rate(CONTRADICTION)

    entry, rule = Measure("m", "", "", gap, -1, 1), 1 - 0.05 ** (1 / 20)
    none, some = crossed(20, 10, np.zeros((20, 10))), crossed(20, 10, np.eye(20, 10))
    same = estimate_difference(entry, none, none)
    assert (same.low, same.high, same.p) == (pytest.approx(-rule), pytest.approx(rule), 1)
    assert estimate_difference(entry, none, some).high < 0.12 < rule


def test_shared_templates_that_cancel_do_not_widen() -> None:
    # Five templates move both classes alike; the difference of the classes does not depend on them.
    generator = np.random.default_rng(7)
    inclined = generator.normal(size=(80, 1)) + 2 * np.array([-1.0, -1, 0, 1, 1])
    rows = [
        ("PS", f"o{o}", "female" if o % 2 else "male", f"t{t}", ENTAILMENT if inclined[o, t] > 0 else "neutral")
        for o, t in np.ndindex(80, 5)
    ]
    sample = Sample(table(rows))

    def gap(sample: Sample) -> Any:
        return sample.rate(ENTAILMENT, stereotype="male") - sample.rate(ENTAILMENT, stereotype="female")

    whole, apart = estimate(sample), measured(sample, gap, -1)
    assert whole.high - whole.low > 0.6  # five templates that move all: as good as unknown
    assert apart.high - apart.low < 0.4


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


def test_few_clusters_give_no_interval() -> None:
    rows: list[Row] = [("PS", "nurse", "female", "t1", ENTAILMENT if k < 9 else "neutral") for k in range(20)]
    found = estimate(Sample(table(rows)))
    assert found.value == pytest.approx(0.45) and np.isnan([found.low, found.high, found.se]).all()
    assert "one occupation and one template" in found.note
    assert found.to_dict()["low"] is None and found.clusters == {"occupations": 1, "templates": 1}
    # How many occupations a stereotype has is fixed: one of each is no more than one.
    both = estimate(Sample(table([*rows, ("PS", "cop", "male", "t1", ENTAILMENT)])))
    assert np.isnan(both.low) and "one occupation" in both.note
    # Sentences of one word are enough; a few sentences that all words share are not.
    found = estimate(Sample(table([*rows, ("PS", "nurse", "female", "t2", ENTAILMENT)])))
    assert found.low < found.value <= found.high and found.note == ""
    answers = np.arange(60).reshape(12, 5) % 7 == 0
    for templates, note in ((1, "1 sentence shared by all words is"), (4, "4 sentences shared by all words are")):
        found = estimate(crossed(12, templates, answers))
        assert found.note == f"no interval: {note} too few" and np.isnan([found.low, found.se, found.p]).all()
    found = estimate(crossed(12, 5, answers))
    assert found.low < found.value < found.high and found.note == ""


def test_a_measure_without_a_slope_on_one_side_is_no_function_of_means() -> None:
    def root(sample: Sample, stereotype: str | None = None) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            return np.sqrt(sample.rate(ENTAILMENT, "PS", stereotype) - 0.5)

    half, more = (crossed(10, 4, np.arange(40).reshape(10, 4) < count) for count in (20, 30))
    # At 0.5 the root is defined above only; at 0.75 on both sides.
    with pytest.raises(NotOfMeansError):
        terms_of_means(root, [half], None)
    assert len(terms_of_means(root, [more], None).shares) == 1


def test_levels() -> None:
    sample = Sample(predict(fake_model("random"), [build_coal("en")]))
    narrow, wide = (
        estimate_measures(sample, [get_measure("coal")], scoring=Scoring(level))["coal", None] for level in (0.5, 0.99)
    )
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high
    for level in (0, 1, 95):
        with pytest.raises(InputError, match="level"):
            Scoring(level)


# --- p -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["random", "oracle", "even", "wrong"])
def test_p_is_below_5_percent_where_0_is_outside(kind: str) -> None:
    sample = Sample(predict(fake_model(kind), [build_coal("en")]))
    names = ("stereotype", "default_gender", "default_of_stereotyped", "regression_slope", "order_entailment")
    for level in (0.95, 0.7):
        found = estimate_measures(sample, [get_measure(name) for name in names], scoring=Scoring(level))
        for (name, _), one in found.items():
            assert (one.p < 1 - level) == (one.low > 0 or one.high < 0), (name, level)
            # Holm's correction of one p is that p.
            assert holm([one.p]) == [one.p] and LEAST_P * 0.999 <= one.p <= 1


def test_p_is_1_minus_the_level_of_the_interval_that_ends_at_0() -> None:
    sample = drawn(5, "partly", (0.5, 0.2))
    entry = Measure("m", "", "", lambda sample, _: sample.rate(ENTAILMENT) - sample.rate(CONTRADICTION), -1, 1)
    found = estimate_measures(sample, [entry])["m", None]
    touching = estimate_measures(sample, [entry], scoring=Scoring(1 - found.p))["m", None]
    assert 0.001 < found.p < 0.5 and min(abs(touching.low), abs(touching.high)) == pytest.approx(0, abs=1e-5)


def test_the_p_of_a_difference_agrees_with_its_interval() -> None:
    first, second = (Sample(predict(fake_model(kind), [build_coal("en")])) for kind in ("random", "wrong"))
    for entry in measures("coal"):
        there, back = estimate_difference(entry, first, second), estimate_difference(entry, second, first)
        if np.isnan(there.p):
            continue
        assert (there.p < 0.05) == (there.low > 0 or there.high < 0), entry.name
        assert there.p == pytest.approx(back.p, rel=1e-4) and there.low == pytest.approx(-back.high, abs=1e-6)


def test_a_difference_is_student_s_t_of_the_differences() -> None:
    generator = np.random.default_rng(9)
    answers = [generator.random((12, 9)) < rate for rate in (0.3, 0.6)]
    found = estimate_difference(get_measure("coal_pro"), *(crossed(12, 9, one) for one in answers))
    gap = answers[1].astype(float) - answers[0]
    o, t, c = (
        ((part - gap.mean()) ** 2).sum() / part.size / (part.size - 1)
        for part in (gap.mean(axis=1), gap.mean(axis=0), gap)
    )
    variance = max(o + t - c, o, t, c)
    df = variance**2 / (o**2 / 11 + t**2 / 8)
    assert found.se == pytest.approx(np.sqrt(variance))
    assert found.high - gap.mean() == pytest.approx(student.ppf(0.975, df) * found.se, rel=1e-5)
    assert found.p == pytest.approx(2 * student.sf(gap.mean() / found.se, df), rel=1e-3)


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


def test_one_word_says_nothing_about_others() -> None:
    """A class of one word: whatever it is answered, another word may be answered in any other way."""
    rows = [("a", "female", 0.7), ("b", "male", 0.2), ("c", "male", 0.4)]
    frame = pl.DataFrame(
        [(word, kind, f"t{at}", p + at / 100) for word, kind, p in rows for at in range(10)],
        ["occupation", "stereotype", "template", "p"],
        orient="row",
    ).with_columns(entailment=0.0, neutral=0.0, contradiction=0.0)
    column = frame["p"].to_numpy()
    entry = Measure("x", "", "", lambda sample, name: sample.mean(column, stereotype=name), 0, 1)
    found = estimate_measures(Sample(Predictions(frame)), [entry], ("female", "male"))
    alone, two = found["x", "female"], found["x", "male"]
    assert alone.value == pytest.approx(0.745) and alone.low < 0.745 - 0.95 * 0.745 + 1e-6 and alone.high > 0.98
    assert two.low > 0.0 and two.high < 1.0


# --- coverage ------------------------------------------------------------------------------------------------

SIMULATIONS = 300
SLACK = 0.035
"""Nearly three standard errors of a share of 0.95 in so many simulations."""
SCENARIOS = {scenario.name: scenario for scenario in (*coverage.known(), *coverage.fresh())}


@pytest.mark.parametrize(
    ("name", "measured"),
    [
        ("both effects", ("coal", "stereotype", "total_error")),
        ("female words, occupation effects", ("coal",)),
        ("fixed by word, some words", ("stereotype", "default_of_stereotyped")),
        ("20 x 5", ("coal",)),
        ("published, a man in 40 % of the sentences", ("stereotype",)),
        ("difference, null, both effects", ("coal", "stereotype")),
    ],
)
def test_intervals_cover_neither_too_often_nor_too_rarely(name: str, measured: tuple[str, ...]) -> None:
    for row in coverage.simulate(replace(SCENARIOS[name], names=measured), SIMULATIONS, 11):
        assert 0.95 - SLACK <= row["coverage"] <= 0.95 + SLACK, row
        assert row["zero_width"] == 0
        if row["rejected"] is not None:
            assert row["rejected"] == pytest.approx(0.05, abs=SLACK)


def test_single_occupations_are_covered() -> None:
    (row,) = coverage.simulate(SCENARIOS["single occupations, both effects"], 20, 3)
    assert 0.93 <= row["coverage"] <= 0.97 and row["zero_width"] == 0


def test_control_rows_taken_as_independent_do_not_cover() -> None:
    world = coverage.World(coverage.Scenario("control", "occupation"))
    generator = np.random.default_rng(0)
    shares = [float(get_measure("coal_pro")(world.draw(generator)[0])) for _ in range(100)]
    truth = np.mean(shares)
    covered = [wilson(share, 1000)[0] <= truth <= wilson(share, 1000)[1] for share in shares]
    assert np.mean(covered) < 0.75


def test_words_and_sentences_that_are_always_read_alike() -> None:
    fixed = coverage.World(SCENARIOS["fixed by word, female words only"])
    (sample,) = fixed.draw(np.random.default_rng(1))
    shares = by_occupation(sample).group_by("stereotype").agg(pl.col("score").unique())
    assert {name: sorted(found) for name, found in shares.iter_rows()} == {
        "female": [0.0, 1.0],
        "male": [0.0],
        "neutral": [0.0],
    }
    by_sentence = coverage.World(SCENARIOS["coal, a man in 40 % of the sentences"])
    leans = [
        float(get_measure("default_gender")(*by_sentence.draw(np.random.default_rng(seed)), None)) for seed in range(20)
    ]
    assert np.mean(leans) == pytest.approx(0.4, abs=0.03)


def test_a_prediction_interval_covers_a_further_value() -> None:
    generator = np.random.default_rng(5)
    values = generator.gamma(2.0, size=(2000, 40))
    inside = [low <= last <= high for *seen, last in values for low, high, _ in [prediction_interval(seen)]]
    assert 0.93 < np.mean(inside) < 0.97
    assert prediction_interval([1.0])[2] != prediction_interval([1.0])[2]
    assert prediction_interval([1.0, 2.0, 3.0])[2] == pytest.approx(0.5)


def test_the_page_shows_what_was_stored(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.setattr("sys.argv", ["coverage", "--stored", str(root / "studies/intervals/coverage.jsonl")])
    coverage.main()
    shown = capsys.readouterr().out
    assert shown.count("\n") > 10 and shown in (root / "docs/explanation/intervals.md").read_text(encoding="utf-8")
