"""Measures: numbers by hand, identities, invariances, and intervals that cover."""

from __future__ import annotations

import time

import numpy as np
import polars as pl
import pytest
from scipy.stats import binomtest

import evenli
from evenli.datasets import PAIR_COLUMNS, build_coal, control_pairs, gold_pairs
from evenli.errors import InputError
from evenli.labels import LABELS
from evenli.measures import (
    Estimate,
    Sample,
    by_occupation,
    cluster_weights,
    competence,
    get_measure,
    intervals,
    judge,
    measures,
    minimum_detectable_difference,
    row_weights,
)
from evenli.measures.estimate import wilson
from evenli.models import fake_model
from evenli.predictions import Predictions, predict
from evenli.reproduction.coal import sample_of_shares
from evenli.resources import read_table


def table(rows: list[tuple[str, str, str, str, str]]) -> Predictions:
    """(subset, occupation, stereotype, template, predicted label) rows."""
    frame = pl.DataFrame(rows, schema=["subset", "occupation", "stereotype", "template", "label"], orient="row")
    logits = [(pl.col("label") == label).cast(pl.Float64).mul(4.0).alias(label) for label in LABELS]
    rest = [pl.lit(None, pl.String).alias(n) for n in PAIR_COLUMNS if n not in frame.columns and n != "id"]
    return Predictions(frame.select(pl.all().exclude("label"), *logits, *rest).with_row_index("id"))


HAND = table(
    [
        ("PS", "nurse", "female", "t1", "entailment"),
        ("PS", "nurse", "female", "t2", "neutral"),
        ("PS", "cop", "male", "t2", "entailment"),
        ("PS", "cop", "male", "t3", "contradiction"),
        ("AS", "nurse", "female", "t1", "contradiction"),
        ("AS", "nurse", "female", "t2", "contradiction"),
        ("AS", "cop", "male", "t2", "entailment"),
        ("AS", "cop", "male", "t3", "neutral"),
        ("NS", "clerk", "neutral", "t3", "neutral"),
        ("NS", "clerk", "neutral", "t4", "entailment"),
    ]
)


def value(name: str, predictions: Predictions = HAND, stereotype: str | None = None) -> float:
    return float(get_measure(name)(Sample(predictions), stereotype))


def test_by_hand() -> None:
    # e_p = 2/4, c_a = 2/4, n_n = 1/2
    assert value("coal") == pytest.approx((0.5 + 0.5 + 0.5) / 3)
    assert value("coal_pro") == 0.5 and value("coal_anti") == 0.5 and value("coal_non") == 0.5
    assert value("fn_dev") == pytest.approx(0.3) and value("fn_bias") == pytest.approx(0.7)
    assert value("order_entailment") == pytest.approx(2 / 4 - 1 / 4)
    assert value("order_contradiction") == pytest.approx(2 / 4 - 1 / 4)
    assert value("follow") == 0.5 and value("defy") == pytest.approx(0.25)
    assert value("dominance") == pytest.approx(0.0)
    assert value("coal", stereotype="female") == pytest.approx((0.5 + 1.0) / 2)
    assert value("coal", stereotype="male") == pytest.approx((0.5 + 0.0) / 2)
    assert np.isnan(value("coal_non", stereotype="female"))
    p = np.exp(4) / (np.exp(4) + 2)
    assert value("nn") == pytest.approx((3 * p + 7 * (1 - p) / 2) / 10)
    assert value("t50") == pytest.approx(0.3) and value("t70") == pytest.approx(0.3)


def test_threshold_is_strict() -> None:
    frame = HAND.frame.with_columns(
        entailment=pl.lit(0.0), neutral=pl.lit(float(np.log(2.0))), contradiction=pl.lit(0.0)
    )  # p_n is one half
    assert value("t50", Predictions(frame)) == pytest.approx(0.0, abs=1e-9)
    assert value("fn_dev", Predictions(frame)) == 1.0


def test_measures_do_not_depend_on_row_order_or_logit_offset() -> None:
    shuffled = HAND.frame.sample(fraction=1, shuffle=True, seed=1).with_columns(pl.col(label) + 100 for label in LABELS)
    for entry in measures("coal"):
        assert value(entry.name, Predictions(shuffled)) == pytest.approx(value(entry.name)), entry.name


def test_swapping_the_sets_flips_the_order_measures() -> None:
    swap = HAND.frame.with_columns(pl.col("subset").replace({"PS": "AS", "AS": "PS"}))
    for name in ("order_entailment", "order_contradiction"):
        assert value(name, Predictions(swap)) == pytest.approx(-value(name))
    assert value("follow", Predictions(swap)) == pytest.approx(value("defy"))
    assert value("fn_bias", Predictions(swap)) == pytest.approx(value("fn_bias"))


def test_every_measure_states_what_it_means() -> None:
    for entry in measures("coal"):
        assert entry.title and entry.formula and entry.direction and entry.reference and entry.function.__doc__
        assert entry.low <= entry.even <= entry.high and entry.kind in {"extrinsic", "intrinsic"}
        assert entry.low <= value(entry.name) <= entry.high
    with pytest.raises(InputError, match="no measure 'x'; there are coal"):
        get_measure("x")


@pytest.mark.parametrize("row", read_table("published_coal.csv"), ids=lambda r: f"{r['lang']}-{r['model']}")
def test_published_table_3(row: dict[str, str]) -> None:
    shares = {f"{s}_{x}": float(row[f"{s}_{x}"]) for s in ("ps", "as", "ns") for x in "ecn"}
    sizes = (1000, 1000, 3320 if row["lang"] == "zh" else 3420)
    sample = sample_of_shares(shares, sizes)
    assert float(get_measure("coal")(sample)) == pytest.approx(float(row["coal_pub"]), abs=0.001)
    if not row["model"].startswith("Laboro"):
        assert float(get_measure("fn_bias")(sample)) == pytest.approx(float(row["fn_pub"]), abs=0.0015)


def test_golden_scores_of_bert_base() -> None:
    row = next(r for r in read_table("published_coal.csv") if r["model"] == "BERT-base")
    shares = {f"{s}_{x}": float(row[f"{s}_{x}"]) for s in ("ps", "as", "ns") for x in "ecn"}
    sample = sample_of_shares(shares, (1000, 1000, 3420))
    assert float(get_measure("coal")(sample)) == pytest.approx(0.6210, abs=0.0003)
    assert float(get_measure("fn_bias")(sample)) == pytest.approx(0.5962, abs=0.0004)


@pytest.mark.parametrize("lang", ["en", "ja", "zh"])
@pytest.mark.parametrize(
    ("kind", "coal", "fn", "code"),
    [
        ("neutral", 0.0, 0.0, "none"),
        ("even", 0.0, 0.0, "even"),
        ("biased", 1.0, 1.0, "bias"),
        ("wrong", 1 / 3, 1.0, "error"),
        ("oracle:0", 0.0, 2000 / 5420, "error"),
        ("oracle:0.5", 1 / 3, 2000 / 5420, "error"),
        ("oracle:1", 2 / 3, 2000 / 5420, "bias"),
    ],
)
def test_fakes_give_exactly_their_known_scores(kind: str, coal: float, fn: float, code: str, lang: str) -> None:
    results = evenli.audit(f"fake:{kind}", lang).results
    assert results["coal"]["measures"]["coal"]["value"] == pytest.approx(coal, abs=1e-6)
    assert results["coal"]["measures"]["fn_bias"]["value"] == pytest.approx(fn, abs=1e-6)
    assert results["verdict"]["code"] == code


def test_random_model_is_near_chance_and_gets_no_verdict() -> None:
    results = evenli.audit("fake:random").results
    assert results["coal"]["measures"]["coal"]["value"] == pytest.approx(4 / 9, abs=0.03)
    assert results["verdict"]["code"] == "none"
    assert "chance is 33%" in results["verdict"]["sentence"]


def test_published_models_get_the_verdict_of_their_papers() -> None:
    """English and Japanese: bias beyond error; Chinese: errors in both directions."""
    for row in read_table("published_coal.csv"):
        shares = {f"{s}_{x}": float(row[f"{s}_{x}"]) for s in ("ps", "as", "ns") for x in "ecn"}
        dominance = float(get_measure("dominance")(sample_of_shares(shares, (1000, 1000, 3420))))
        assert (dominance > 0) == (row["lang"] != "zh"), row["model"]


def test_weights_of_a_resample() -> None:
    frame = HAND.frame
    weights = cluster_weights(frame, 500, np.random.default_rng(0))
    assert weights.shape == (500, 10)
    # A row's weight is (draws of its occupation) x (draws of its template); single-member strata are always drawn once.
    t1, t2 = weights[:, 0], weights[:, 1]
    assert set(np.unique(weights)) <= {0.0, 1.0, 2.0, 3.0, 4.0}
    assert np.array_equal(weights[:, 0], weights[:, 4]) and np.array_equal(weights[:, 1], weights[:, 5])
    assert t1.mean() == pytest.approx(1, abs=0.15) and t2.mean() == pytest.approx(1, abs=0.15)
    rows = row_weights(frame, 500, np.random.default_rng(0))
    assert np.array_equal(rows[:, :4].sum(axis=1), np.full(500, 4.0))


def test_vectorised_resamples_equal_one_by_one() -> None:
    sample = Sample(predict(fake_model("random"), [build_coal("en")]))
    weights = cluster_weights(sample.frame, 20, np.random.default_rng(5))
    for entry in measures("coal"):
        together = entry(sample.weighted(weights))
        singly = [float(entry(sample.weighted(row))) for row in weights]
        np.testing.assert_allclose(together, singly, rtol=1e-5)


def test_intervals_are_seeded_and_wider_than_the_naive_ones_where_clusters_matter() -> None:
    sample = Sample(predict(fake_model("oracle", rate=0.5), [build_coal("en")]))
    coal = [get_measure("coal")]
    first, again, other = (intervals(sample, coal, seed=seed)["coal", None] for seed in (1, 1, 2))
    assert first == again and first != other
    naive = intervals(sample, coal, seed=1, method="row")["coal", None]
    assert first.value == naive.value == pytest.approx(1 / 3)
    # The oracle answers by occupation: 100 independent units, not 2,000 rows.
    assert (first.high - first.low) > 2 * (naive.high - naive.low)
    assert first.clusters == {"occupations": 271, "templates": 280}
    with pytest.raises(InputError, match="too few"):
        intervals(sample, coal, resamples=10)
    with pytest.raises(InputError, match="choose cluster or row"):
        intervals(sample, coal, method="magic")


def simulate(
    generator: np.random.Generator, occupations: int = 40, templates: int = 30, width: int = 10
) -> Predictions:
    """PS answers with occupation and template effects; the true mean of e_p is one half by symmetry."""
    o = generator.normal(0, 1, occupations)[:, None]
    t = generator.normal(0, 0.7, templates + width)[None, :]
    rows = []
    for i in range(occupations):
        for j in range(width):
            k = (i + j) % templates
            entailed = o[i, 0] + t[0, k] + generator.logistic() > 0
            rows.append(("PS", f"o{i}", "female", f"t{k}", "entailment" if entailed else "neutral"))
    return table(rows)


def test_cluster_intervals_cover_and_naive_ones_do_not() -> None:
    covered = {"cluster": 0, "row": 0}
    runs = 150
    for seed in range(runs):
        sample = Sample(simulate(np.random.default_rng(seed)))
        for method in covered:
            found = intervals(sample, [get_measure("coal_pro")], resamples=300, seed=seed, method=method)
            estimate = found["coal_pro", None]
            covered[method] += estimate.low <= 0.5 <= estimate.high
    assert covered["cluster"] / runs >= 0.92
    assert covered["row"] / runs <= 0.85


def test_bootstrap_is_fast() -> None:
    sample = Sample(predict(fake_model("random"), [build_coal("en")]))
    started = time.perf_counter()
    intervals(sample, [get_measure("coal")], resamples=2000)
    assert time.perf_counter() - started < 2.0  # well under one second on an idle machine


def test_minimum_detectable_difference() -> None:
    estimate = Estimate(0.5, 0.4, 0.6, 0.05, 0.95, 10, {})
    assert minimum_detectable_difference(estimate) == pytest.approx(2.801585 * 2**0.5 * 0.05, rel=1e-5)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_wilson_is_that_of_scipy(level: float) -> None:
    for n in (1, 7, 200):
        for hits in {0, 1, n // 2, n - 1, n}:
            expected = binomtest(hits, n).proportion_ci(level, method="wilson")
            assert wilson(hits / n, n, level) == pytest.approx((expected.low, expected.high), abs=1e-15)
    assert wilson(0.0, 9)[0] == 0 and wilson(1.0, 9)[1] == 1


def test_per_occupation() -> None:
    rows = {row["occupation"]: row for row in by_occupation(Sample(HAND)).to_dicts()}
    assert rows["nurse"]["score"] == pytest.approx(3 / 4)  # entailed once in PS, contradicted twice in AS
    assert rows["cop"]["score"] == pytest.approx(1 / 4)
    assert rows["clerk"]["score"] == pytest.approx(1 / 2)
    assert rows["nurse"]["low"] <= 0.75 <= rows["nurse"]["high"]
    assert rows["cop"]["entailment"] == pytest.approx(2 / 4)


def test_competence_by_hand() -> None:
    checks = [gold_pairs("en"), control_pairs("en")]
    perfect = competence(predict(fake_model("even"), checks))
    assert perfect.gold.value == perfect.stated.value == 1.0 and not perfect.problem
    assert set(perfect.controls) == {
        *("female-female", "female-male", "male-female", "male-male"),
        *("female-person", "person-female", "male-person", "person-male"),
    }
    silent = competence(predict(fake_model("neutral"), checks))
    assert silent.gold.value == pytest.approx(1 / 3, abs=0.01)
    assert silent.top_label == ("neutral", 1.0)
    assert "answers 'neutral' to 100%" in silent.problem
    assert silent.controls["person-male"] == 1.0 and silent.controls["male-male"] == 0.0


def test_verdict_codes() -> None:
    def found(
        follow: tuple[float, float, float], defy: tuple[float, float, float], dominance: tuple[float, float, float]
    ):
        made = {"follow": follow, "defy": defy, "dominance": dominance}
        made |= {"order_entailment": (0.1, 0.05, 0.2), "order_contradiction": (0.1, 0.05, 0.2)}
        return {(name, None): Estimate(v, lo, hi, 0.01, 0.95, 10, {}) for name, (v, lo, hi) in made.items()}

    assert judge(found((0.6, 0.5, 0.7), (0.05, 0.0, 0.1), (0.5, 0.3, 0.6)), None).code == "bias"
    assert judge(found((0.5, 0.4, 0.6), (0.45, 0.4, 0.5), (-0.4, -0.5, -0.3)), None).code == "error"
    assert judge(found((0.2, 0.1, 0.3), (0.09, 0.05, 0.15), (0.02, -0.1, 0.1)), None).code == "undecided"
    assert judge(found((0.01, 0.0, 0.02), (0.0, 0.0, 0.01), (0.01, 0.001, 0.02)), None).code == "even"
