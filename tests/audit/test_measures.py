"""Measures: numbers by hand, identities, invariances, and intervals that cover."""

from __future__ import annotations

import io
import math

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from scipy.stats import binomtest

import evenli
from evenli.audit.assess import assess, competence
from evenli.audit.audit import Audit
from evenli.audit.models import fake_model
from evenli.audit.pairs import PAIR_COLUMNS
from evenli.audit.predict import predict
from evenli.audit.predictions import Predictions
from evenli.audit.report.terminal import show_results
from evenli.audit.results import TopLabel
from evenli.audit.suites.checks import control_pairs, gold_pairs
from evenli.audit.suites.coal.measures import t50
from evenli.audit.suites.coal.pairs import build_coal
from evenli.audit.suites.coal.results import by_occupation
from evenli.audit.suites.coal.verdict import refuse
from evenli.audit.suites.dev2020 import t50_pair, t70_pair
from evenli.core.errors import InputError
from evenli.core.labels import ENTAILMENT, LABELS
from evenli.core.record import Scoring
from evenli.stats.intervals import estimate_measures, wilson
from evenli.stats.measure import _REGISTERED, get_measure, measure, measures
from evenli.stats.proportion import rank
from evenli.stats.sample import Sample, Values
from evenli.words import read_table
from studies.ledger.ledger import sample_of_shares


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
    assert (
        value("coal_pro") == pytest.approx(0.5)
        and value("coal_anti") == pytest.approx(0.5)
        and value("coal_non") == pytest.approx(0.5)
    )
    assert value("fn_dev") == pytest.approx(0.3) and value("fn_bias") == pytest.approx(0.7)
    assert value("order_entailment") == pytest.approx(2 / 4 - 1 / 4)
    assert value("order_contradiction") == pytest.approx(2 / 4 - 1 / 4)
    assert value("follow") == pytest.approx(0.5) and value("defy") == pytest.approx(0.25)
    assert value("coal", stereotype="female") == pytest.approx((0.5 + 1.0) / 2)
    assert value("coal", stereotype="male") == pytest.approx((0.5 + 0.0) / 2)
    assert np.isnan(value("coal_non", stereotype="female"))
    p = np.exp(4) / (np.exp(4) + 2)
    assert value("nn") == pytest.approx((3 * p + 7 * (1 - p) / 2) / 10)
    assert value("t50") == pytest.approx(0.3) and value("t70") == pytest.approx(0.3)


def test_estimates_count_the_rows_of_their_formula() -> None:
    found = estimate_measures(Sample(HAND), measures("coal"), stereotypes=(None, "female"), scoring=Scoring())
    counted = {key: estimate.n for key, estimate in found.items()}
    assert {name: counted[name, None] for name, _ in found} == {
        **dict.fromkeys(("coal", "fn_bias", "fn_dev", "nn", "t50", "t70"), 10),
        **dict.fromkeys(
            (entry.name for entry in measures("coal") if entry.reference == "evenli"), 0
        ),  # the table names no groups, so that it has no items to read
        **dict.fromkeys(("coal_pro", "coal_anti"), 4),
        "coal_non": 2,
        **dict.fromkeys(("order_entailment", "order_contradiction", "follow", "defy"), 8),
    }
    assert [counted[name, "female"] for name in ("coal", "coal_pro", "coal_non", "follow")] == [4, 2, 0, 4]
    assert found["coal_non", None].clusters == {"occupations": 1, "templates": 2}


def test_threshold_is_strict() -> None:
    frame = HAND.frame.with_columns(
        entailment=pl.lit(0.0), neutral=pl.lit(float(np.log(2.0))), contradiction=pl.lit(0.0)
    )  # p_n is one half
    assert value("t50", Predictions(frame)) == pytest.approx(0.0, abs=1e-9)
    assert value("fn_dev", Predictions(frame)) == pytest.approx(1.0)


def test_measures_do_not_depend_on_row_order_or_logit_offset() -> None:
    shuffled = HAND.frame.sample(fraction=1, shuffle=True, seed=1).with_columns(pl.col(label) + 100 for label in LABELS)
    for entry in measures("coal"):
        assert value(entry.name, Predictions(shuffled)) == pytest.approx(value(entry.name), nan_ok=True), entry.name


def test_swapping_the_sets_flips_the_order_measures() -> None:
    swap = HAND.frame.with_columns(pl.col("subset").replace({"PS": "AS", "AS": "PS"}))
    for name in ("order_entailment", "order_contradiction"):
        assert value(name, Predictions(swap)) == pytest.approx(-value(name))
    assert value("follow", Predictions(swap)) == pytest.approx(value("defy"))
    assert value("fn_bias", Predictions(swap)) == pytest.approx(value("fn_bias"))


def test_cards_state_the_range_and_the_even_value() -> None:
    of_dev = {
        **dict.fromkeys(("fn_dev", "nn", "t50", "t70"), (0, 1, 1)),
        "fn_bias": (0, 1, 0),
    }
    leans = [
        f"{name}{of}" for name in ("stereotype", "default_gender", "default_of_stereotyped") for of in ("", "_expected")
    ]
    shares = ["coal", "coal_pro", "coal_anti", "coal_non", "follow", "defy"]
    shares += ["total_error", "total_error_expected", "contradictory"]
    assert {entry.name: (entry.low, entry.high, entry.ideal) for entry in measures("coal")} == {
        **dict.fromkeys(shares, (0, 1, 0)),
        **dict.fromkeys((*leans, "order_entailment", "order_contradiction"), (-1, 1, 0)),
        **dict.fromkeys(("regression_intercept", "regression_slope"), (-np.inf, np.inf, 0)),
        **of_dev,
    }
    assert {entry.name: (entry.low, entry.high, entry.ideal) for entry in measures("dev2020")} == {
        **of_dev,
        **dict.fromkeys(("t50_pair", "t70_pair"), (0, 1, 1)),
    }


@pytest.mark.parametrize(
    ("p", "above"), [(0.49, (0, 0)), (0.51, (1, 0)), (0.69, (1, 0)), (0.71, (1, 1)), (0.95, (1, 1))]
)
def test_thresholds_are_a_half_and_seven_in_ten(p: float, above: tuple[int, int]) -> None:
    logits = dict(zip(LABELS, np.log([(1 - p) / 2, p, (1 - p) / 2]), strict=True))
    sample = Predictions(HAND.frame.with_columns(**{k: pl.lit(v) for k, v in logits.items()}))
    pairs = Sample(Predictions(dev_table().frame.with_columns(**{k: pl.lit(v) for k, v in logits.items()})))
    assert (value("t50", sample), value("t70", sample)) == above
    assert (float(t50_pair(pairs)), float(t70_pair(pairs))) == above


def test_a_slice_is_the_table_of_its_occupations() -> None:
    frame = predict(fake_model("random"), [build_coal("en")]).frame
    own = {name: Predictions(frame.filter(pl.col("stereotype") == name)) for name in ("female", "male", "neutral")}
    for entry in measures("coal"):
        compared = ("stereotype", "default", "total_error", "contradictory", "regression")
        if not entry.name.startswith(compared) and entry.name != "coal":
            for name, part in own.items():
                assert value(entry.name, Predictions(frame), name) == pytest.approx(
                    value(entry.name, part), nan_ok=True
                )
    # A cause compares the classes: on a slice it is undefined, but for errors and leans of the class itself.
    for entry in measures("coal"):
        if entry.name.startswith(("stereotype", "default_gender", "regression")):
            assert np.isnan(value(entry.name, Predictions(frame), "female")), entry.name
            assert not np.isnan(value(entry.name, Predictions(frame))), entry.name


def test_every_measure_states_what_it_means() -> None:
    for entry in measures("coal"):
        assert entry.title and entry.formula and entry.direction and entry.reference and entry.function.__doc__
        assert entry.low <= entry.ideal <= entry.high and entry.kind in {"extrinsic", "intrinsic"}
        assert math.isnan(value(entry.name)) or entry.low <= value(entry.name) <= entry.high
    with pytest.raises(InputError, match="measure 'x'"):
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
        ("wrong", 1 / 3, 1.0, "bias"),
        ("oracle:0", 0.0, 2000 / 5420, "bias"),
        ("oracle:0.5", 1 / 3, 2000 / 5420, "bias"),
        ("oracle:1", 2 / 3, 2000 / 5420, "bias"),
    ],
)
def test_fakes_give_exactly_their_known_scores(kind: str, coal: float, fn: float, code: str, lang: str) -> None:
    results = evenli.audit(f"fake:{kind}", lang).to_dict()
    assert results["coal"]["measures"]["coal"]["value"] == pytest.approx(coal, abs=1e-6)
    assert results["coal"]["measures"]["fn_bias"]["value"] == pytest.approx(fn, abs=1e-6)
    # The 13 female words of the translated list are too few to call a model even.
    assert results["verdict"]["code"] == ("undecided" if code == "even" and lang != "en" else code)


def test_random_model_is_near_chance_and_gets_no_verdict() -> None:
    results = evenli.audit("fake:random").to_dict()
    assert results["coal"]["measures"]["coal"]["value"] == pytest.approx(4 / 9, abs=0.03)
    assert results["verdict"]["code"] == "none"
    assert "it gets 31% of the contradiction gold pairs right" in results["verdict"]["sentence"]


def test_published_models_get_the_verdict_of_their_papers() -> None:
    """English and Japanese: bias beyond error; Chinese: errors in both directions."""
    for row in read_table("published_coal.csv"):
        shares = {f"{s}_{x}": float(row[f"{s}_{x}"]) for s in ("ps", "as", "ns") for x in "ecn"}
        sample = sample_of_shares(shares, (1000, 1000, 3420))
        follow, defy = (float(get_measure(name)(sample)) for name in ("follow", "defy"))
        assert (follow > 2 * defy) == (row["lang"] != "zh"), row["model"]


def test_weightings_together_equal_one_by_one() -> None:
    sample = Sample(predict(fake_model("random"), [build_coal("en")]))
    weights = np.random.default_rng(5).poisson(1, (20, sample.frame.height)).astype(np.float32)
    for entry in measures("coal"):
        together = entry(sample.weighted(weights))
        singly = [float(entry(sample.weighted(row))) for row in weights]
        np.testing.assert_allclose(together, singly, rtol=1e-5, atol=1e-6)


def test_an_occupation_with_one_template_has_no_interval() -> None:
    rows = [("PS", "nurse", "female", "t1", "entailment" if k < 9 else "neutral") for k in range(20)]
    rows += [("PS", "cop", "male", f"t{k % 5}", "entailment" if k % 3 else "neutral") for k in range(20)]
    cop, nurse = by_occupation(Sample(table(rows))).sort("occupation").to_dicts()
    assert nurse["score"] == pytest.approx(0.45) and nurse["templates"] == 1
    assert np.isnan(nurse["low"]) and np.isnan(nurse["high"])
    assert cop["low"] < cop["score"] < cop["high"]


def dev_table() -> Predictions:
    """Two occupations, two group words, two templates; the neutral probability of every row by hand."""
    neutral = {
        ("nurse", "woman"): (0.9, 0.2),  # mean 0.55
        ("nurse", "man"): (0.4, 0.5),  # mean 0.45
        ("cop", "woman"): (None, None),  # exactly one half, twice
        ("cop", "man"): (0.95, 0.65),  # mean 0.8
    }
    rows = []
    for (occupation, word), values in neutral.items():
        for template, p in zip(("ate an apple", "sold a hat"), values, strict=True):
            logits = (-200.0, 0.0, 0.0) if p is None else tuple(np.log([(1 - p) / 2, p, (1 - p) / 2]))
            rows.append((occupation, f"The {word} {template}.", template, "dev", *logits))
    frame = pl.DataFrame(rows, schema=["occupation", "hypothesis", "template", "subset", *LABELS], orient="row")
    rest = [pl.lit(None, pl.String).alias(n) for n in PAIR_COLUMNS if n not in frame.columns and n != "id"]
    return Predictions(frame.with_columns(rest).with_row_index("id"))


def test_thresholds_of_pair_averages_by_hand() -> None:
    sample = Sample(dev_table())
    assert float(t50(sample)) == 3 / 8  # 0.9, 0.95, 0.65
    assert float(t50_pair(sample)) == float(get_measure("t50_pair")(sample)) == pytest.approx(2 / 4)
    assert float(t70_pair(sample)) == float(get_measure("t70_pair")(sample)) == pytest.approx(1 / 4)
    shuffled = Sample(Predictions(sample.frame.sample(fraction=1, shuffle=True, seed=3)))
    assert float(t50_pair(shuffled)) == pytest.approx(2 / 4)
    # Cop drawn twice: pairs weigh 1, 1, 2, 2. Only the first template drawn: means 0.9, 0.4, 0.5, 0.95.
    twice, first = np.repeat([1, 2], 4), np.tile([2, 0], 4)
    together = sample.weighted(np.array([twice, first, 0 * first], dtype=np.float32))
    np.testing.assert_allclose(t50_pair(together), [3 / 6, 2 / 4, np.nan])
    np.testing.assert_allclose(t70_pair(together), [2 / 6, 2 / 4, np.nan])
    assert {entry.name for entry in measures("dev2020")} - {entry.name for entry in measures("coal")} == {
        "t50_pair",
        "t70_pair",
    }


def test_pair_averages_need_the_word() -> None:
    unknown = Predictions(dev_table().frame.with_columns(template=pl.lit("7")))
    assert np.isnan(t50_pair(Sample(unknown)))


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_wilson_is_that_of_scipy(level: float) -> None:
    for n in (1, 7, 200):
        for hits in {0, 1, n // 2, n - 1, n}:
            expected = binomtest(hits, n).proportion_ci(level, method="wilson")
            assert wilson(hits / n, n, level) == pytest.approx((expected.low, expected.high), abs=1e-15)
    assert wilson(0.0, 9)[0] == 0 and wilson(1.0, 9)[1] == 1


def test_places_among_others() -> None:
    # The second overlaps both neighbours, the last stands apart; ends that touch overlap.
    found = rank([(0.5, 0.4, 0.6), (0.3, 0.2, 0.4), (0.65, 0.6, 0.7), (0.9, 0.8, 1.0)])
    assert [place.group for place in found] == [1, 1, 1, 2]
    assert [(place.best, place.worst) for place in found] == [(1, 3), (1, 2), (2, 3), (4, 4)]
    assert [place.shown for place in found] == ["1 to 3", "1 to 2", "2 to 3", "4"]


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
    assert perfect.gold.value == perfect.stated.value == pytest.approx(1.0) and not perfect.problem
    assert set(perfect.controls) == {"female-female", "female-male", "male-female", "male-male"}
    silent = competence(predict(fake_model("neutral"), checks))
    assert silent.gold.value == pytest.approx(1 / 3, abs=0.01)
    assert silent.top_label == TopLabel("neutral", 1.0)
    assert "answers 'neutral' to 100%" in silent.problem
    assert max(silent.controls.values()) == pytest.approx(0.0)


def test_competence_needs_pairs_of_both_kinds() -> None:
    both = predict(fake_model("even"), [gold_pairs("en"), control_pairs("en")])
    no_control = competence(Predictions(both.frame.filter(pl.col("subset") == "gold")))
    assert not no_control.assessed and "state the group" in no_control.problem
    no_gold = competence(Predictions(both.frame.filter(pl.col("subset") == "control")))
    assert "no gold pairs" in no_gold.problem and no_gold.top_label.label is None
    refused = refuse(no_gold)
    assert refused is not None and "no gold pairs" in refused.sentence


@pytest.mark.parametrize("kept", [["AS", "NS"], ["PS", "NS"], ["NS"]])
def test_without_both_stereotyped_sets_there_is_no_verdict(kept: list[str]) -> None:
    table = evenli.audit("fake:biased", suites="coal", scoring=Scoring()).predictions
    rows = pl.col("subset").is_in(["gold", "control", *kept])
    rest = Predictions(table.frame.filter(rows), table.header)
    result = assess(rest, Scoring())
    results = result.to_dict()
    assert results["verdict"]["code"] == "none" and "nan" not in results["verdict"]["sentence"]
    assert "is undefined: " in results["verdict"]["sentence"]
    assert results["coal"]["order_condition"] == {"holds": None, "beyond_doubt": None}
    assert results["coal"]["published"][-1]["this"]
    console = Console(width=140, record=True, file=io.StringIO())
    show_results(Audit(result, rest), console, verbose=True)
    shown = console.export_text()
    assert "is undefined" in shown and "this model            n/a" in shown


def test_without_non_stereotyped_pairs_the_rest_is_shown() -> None:
    table = evenli.audit("fake:biased", suites="coal", scoring=Scoring()).predictions
    rest = Predictions(table.frame.filter(pl.col("subset") != "NS"), table.header)
    results = assess(rest, Scoring())
    assert results.verdict.code == "bias" and math.isnan(results.coal.value)
    console = Console(width=140, record=True, file=io.StringIO())
    show_results(Audit(results, rest), console, verbose=True)
    assert "NLI-CoAL has no interval" in " ".join(console.export_text().split())


def test_a_decorated_function_may_be_given_as_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenli.stats.measure._REGISTERED", dict(_REGISTERED))

    @measure(title="entailed", formula="E", ideal=0, direction="more", reference="test")
    def entailed(sample: Sample, stereotype: str | None = None) -> Values:
        return sample.rate(ENTAILMENT, None, stereotype)

    audit = evenli.audit("fake:oracle:0.5", suites="coal", limit=60, measures=[entailed])
    assert audit.coal.measures["entailed"].title == "entailed"
    with pytest.raises(InputError, match="already"):
        evenli.audit("fake:oracle:0.5", limit=60, measures=[_named_like_another])


def _named_like_another(sample: Sample) -> float:
    return 0.0


_named_like_another.__name__ = "coal"
