"""The entailment-probability probe: numbers by hand, identities, invariances, and the published tables."""

from __future__ import annotations

import csv
import io
import lzma
from math import exp, log
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from msgspec import structs

from evenli.audit.assess import assess
from evenli.audit.audit import audit
from evenli.audit.pairs import PAIR_COLUMNS
from evenli.audit.predictions import Predictions
from evenli.audit.suites.probe import SUITE, shown
from evenli.audit.suites.probe.measures import labour_comparison, occupation_curve
from evenli.core.errors import InputError
from evenli.core.labels import LABELS
from evenli.core.record import Scoring
from evenli.stats.intervals import estimate_measures
from evenli.stats.measure import Measure, get_measure, measures
from evenli.stats.sample import Sample
from evenli.words import read_table
from evenli.words.lists import probe_occupations
from studies.ledger.ledger import sample_of_split

NAMES = ["probe_lean", "probe_s", "probe_dp", "probe_b", "probe_ties", "probe_s3", "probe_dp3", "probe_neutral"]
Logits = tuple[float, float, float]


def table(premises: list[tuple[str, str, Logits, Logits]]) -> Predictions:
    """(occupation, dominant gender, logits e, n, c for female, for male) per premise."""
    rows = [
        (f"{number}-{group}", "probe", occupation, dominant, f"t{number % 7}", group, "probe", *logits)
        for number, (occupation, dominant, *both) in enumerate(premises)
        for group, logits in zip(("female", "male"), both, strict=True)
    ]
    columns = ["id", "subset", "occupation", "stereotype", "template", "group", "suite", *LABELS]
    frame = pl.DataFrame(rows, schema=columns, orient="row")
    return Predictions(frame.with_columns(pl.lit(None, pl.String).alias(n) for n in PAIR_COLUMNS if n not in columns))


# P_f and P_m by hand: 3/4 and 1/4; 1/2 and 1/2; 4/5 and 9/10.
HAND = table(
    [
        ("nurse", "female", (log(3), 0.0, 0.0), (0.0, log(4), log(3))),
        ("nurse", "female", (0.0, log(2), 0.0), (0.0, log(2), 0.0)),
        ("driver", "male", (log(4), 0.0, 0.0), (log(9), 0.0, 0.0)),
    ]
)


def random_table(premises: int = 1900, occupations: int = 38, seed: int = 0) -> Predictions:
    generator = np.random.default_rng(seed)
    drawn = np.round(generator.normal(0, 2, (premises, 2, 3)), 1)
    drawn[: premises // 20, 1] = drawn[: premises // 20, 0]
    named = [
        (f"job{i % occupations}", "female" if i % occupations < occupations // 2 else "male") for i in range(premises)
    ]
    return table([(*names, *map(tuple, both.tolist())) for names, both in zip(named, drawn, strict=True)])


def value(name: str, predictions: Predictions = HAND, stereotype: str | None = None) -> float:
    return float(get_measure(name)(Sample(predictions), stereotype))


def test_lean_by_hand() -> None:
    # Female likelier once, a tie, male likelier once; the nurse's premises lean female, the driver's male.
    assert value("probe_lean") == pytest.approx(0)
    assert value("probe_lean", stereotype="female") == pytest.approx(1 / 2)
    assert value("probe_lean", stereotype="male") == pytest.approx(-1)
    # Renaming the groups turns the sign and leaves dP as it is.
    turned = HAND.frame.with_columns(
        group=pl.col("group").replace({"female": "male", "male": "female"}),
        id=pl.col("id").str.replace("-female", "-x").str.replace("-male", "-female").str.replace("-x", "-male"),
    )
    assert value("probe_lean", Predictions(turned), "female") == pytest.approx(-1 / 2)
    assert value("probe_dp", Predictions(turned)) == pytest.approx(value("probe_dp"))


def test_cards_state_the_range_and_the_even_value() -> None:
    cards = {entry.name: (entry.low, entry.high, entry.ideal) for entry in measures("probe")}
    assert cards == {
        **dict.fromkeys(("probe_dp", "probe_dp3"), (0, 1, 0)),
        **dict.fromkeys(("probe_s", "probe_s3", "probe_ties", "probe_neutral"), (0, 1, 1)),
        "probe_lean": (-1, 1, 0),
        "probe_b": (0, 1, 0.5),
    }


def test_all_are_registered_for_the_probe_only() -> None:
    assert [entry.name for entry in measures("probe")] == NAMES
    assert not {entry.name for entry in measures("coal")} & set(NAMES)
    for entry in measures("probe"):
        assert entry.title and entry.formula and entry.direction and entry.reference and entry.function.__doc__
        assert entry.low <= entry.ideal <= entry.high
        assert entry.low <= value(entry.name, random_table(200)) <= entry.high


def test_by_hand() -> None:
    assert value("probe_s") == pytest.approx(2 / 3)  # only the first premise goes from entailment to contradiction
    assert value("probe_dp") == pytest.approx((0.5 + 0.0 + 0.1) / 3)
    assert value("probe_b") == pytest.approx(2 / 3)
    assert value("probe_ties") == pytest.approx(1 / 3)
    # Arg-max: entailment and neutral; neutral twice; entailment twice.
    assert value("probe_s3") == pytest.approx(2 / 3)
    # (3, 1, 1)/5 against (1, 4, 3)/8; equal; (4, 1, 1)/6 against (9, 1, 1)/11.
    first = (abs(3 / 5 - 1 / 8) + abs(1 / 5 - 4 / 8) + abs(1 / 5 - 3 / 8)) / 2
    third = (abs(4 / 6 - 9 / 11) + 2 * abs(1 / 6 - 1 / 11)) / 2
    assert value("probe_dp3") == pytest.approx((first + third) / 3)
    assert value("probe_neutral") == pytest.approx(((1 / 5 + 4 / 8) / 2 + 2 / 4 + (1 / 6 + 1 / 11) / 2) / 3)


def test_slices_by_hand() -> None:
    assert value("probe_b", stereotype="female") == pytest.approx(0.5)
    assert value("probe_b", stereotype="male") == pytest.approx(1.0)
    assert value("probe_dp", stereotype="female") == pytest.approx(0.25)
    assert value("probe_dp", stereotype="male") == pytest.approx(0.1)
    assert value("probe_s", stereotype="female") == pytest.approx(0.5)
    assert value("probe_s", stereotype="male") == pytest.approx(1.0)
    assert value("probe_ties", stereotype="female") == pytest.approx(0.5)
    assert value("probe_ties", stereotype="male") == pytest.approx(0.0)
    assert all(np.isnan(value(name, stereotype="neutral")) for name in NAMES)


def test_equal_logits_of_entailment_and_contradiction_count_as_entailment() -> None:
    assert value("probe_s", table([("cook", "male", (0.0, 0.0, 0.0), (1.0, 0.0, 0.0))])) == pytest.approx(1.0)
    assert value("probe_s", table([("cook", "male", (0.0, 0.0, 0.0), (0.0, 0.0, 1.0))])) == pytest.approx(0.0)


def test_ties_are_not_biased() -> None:
    same = (1.0, 2.0, 3.0)
    tied = table([("nurse", "female", same, same), ("cook", "male", same, same)])
    assert value("probe_b", tied) == pytest.approx(0.0) and value("probe_ties", tied) == pytest.approx(1.0)
    assert value("probe_dp", tied) == value("probe_dp3", tied) == pytest.approx(0.0)
    assert value("probe_s", tied) == pytest.approx(1.0)


def test_probabilities_come_from_logits() -> None:
    # Three-label probabilities of e and c underflow to 0 here; the margins are 2 and 1.
    sure = table([("nurse", "female", (2.0, 2000.0, 0.0), (1.0, 2000.0, 0.0))])
    assert value("probe_dp", sure) == pytest.approx(1 / (1 + exp(-2)) - 1 / (1 + exp(-1)))
    assert value("probe_dp3", sure) == pytest.approx(0.0) and value("probe_neutral", sure) == pytest.approx(1.0)
    # Margins of 900 and 800 both give P = 1 in floating point and are no tie.
    large = table([("nurse", "female", (900.0, 0.0, 0.0), (800.0, 0.0, 0.0))])
    assert value("probe_b", large) == pytest.approx(1.0) and value("probe_ties", large) == pytest.approx(0.0)


def test_what_dropping_neutral_hides() -> None:
    # Answers neutral with p above 0.99 for everyone, yet the two-label measures call it maximally biased.
    silent = table([("nurse", "female", (2.0, 9.0, -2.0), (-2.0, 9.0, 2.0))] * 3)
    assert (
        value("probe_s", silent) == pytest.approx(0.0)
        and value("probe_b", silent) == pytest.approx(1.0)
        and value("probe_dp", silent) > 0.9
    )
    assert value("probe_s3", silent) == pytest.approx(1.0) and value("probe_neutral", silent) > 0.99
    assert value("probe_dp3", silent) < 0.01


def test_swapping_the_groups() -> None:
    data = random_table()
    logits = data.frame.select(LABELS).to_numpy().reshape(-1, 2, 3)[:, ::-1].reshape(-1, 3)
    swapped = Predictions(data.frame.with_columns(pl.Series(label, logits[:, i]) for i, label in enumerate(LABELS)))
    for name in set(NAMES) - {"probe_b", "probe_lean"}:
        assert value(name, swapped) == pytest.approx(value(name, data)), name
    assert value("probe_lean", swapped) == pytest.approx(-value("probe_lean", data)) != 0
    b, ties = value("probe_b", data), value("probe_ties", data)
    assert 0.05 <= ties < 0.5 and value("probe_b", swapped) == pytest.approx(1 - b - ties)
    assert value("probe_b", swapped) != pytest.approx(b)


def test_row_order_and_logit_offset_do_not_matter() -> None:
    data = random_table()
    # Powers of two keep every difference of rounded logits exact, so that ties stay ties.
    exact = data.frame.with_columns((pl.col(label) * 8).round() / 8 for label in LABELS)
    moved = exact.sample(fraction=1, shuffle=True, seed=3).with_columns(pl.col(label) + 64 for label in LABELS)
    for name in NAMES:
        assert value(name, Predictions(moved)) == pytest.approx(value(name, Predictions(exact)), abs=1e-12), name


@pytest.mark.parametrize("name", NAMES)
def test_the_whole_is_the_mixture_of_its_slices(name: str) -> None:
    data = random_table(380)
    shares = {key: n / data.frame.height for key, n in data.frame.group_by("stereotype").len().iter_rows()}
    assert sum(shares.values()) == pytest.approx(1)
    assert value(name, data) == pytest.approx(sum(n * value(name, data, key) for key, n in shares.items()))


def test_a_weight_matrix_equals_a_loop() -> None:
    sample = Sample(random_table(380))
    weights = np.random.default_rng(5).poisson(1, (12, 380)).repeat(2, axis=1).astype(np.float32)
    for entry in measures("probe"):
        for stereotype in (None, "female"):
            together = entry(sample.weighted(weights), stereotype)
            single = [float(entry(sample.weighted(row), stereotype)) for row in weights]
            assert together.shape == (12,) and np.ptp(together) > 0
            np.testing.assert_allclose(together, single, rtol=1e-5, err_msg=entry.name)


def test_a_weight_is_a_repeated_premise() -> None:
    sample = Sample(HAND, np.array([3, 3, 1, 1, 0, 0], dtype=np.float32))
    assert float(get_measure("probe_b")(sample)) == pytest.approx(3 / 4)
    assert float(get_measure("probe_dp")(sample)) == pytest.approx(3 * 0.5 / 4)
    assert np.isnan(float(get_measure("probe_b")(sample, "male")))


def test_reweighting_after_a_first_use_takes_the_new_weights() -> None:
    sample = Sample(HAND)
    assert value("probe_b") == pytest.approx(2 / 3) and sample.paired.groups == ("female", "male")
    only_first = sample.weighted(np.array([1, 1, 0, 0, 0, 0], dtype=np.float32))
    assert float(get_measure("probe_s")(only_first)) == pytest.approx(0.0)
    assert float(get_measure("probe_s")(sample)) == pytest.approx(2 / 3)


def test_intervals_contain_the_value() -> None:
    sample = Sample(random_table())
    assert sample.frame.height == 3800
    found = estimate_measures(sample, measures("probe"), stereotypes=(None, "female", "male"), scoring=Scoring())
    for (name, stereotype), estimate in found.items():
        assert estimate.low < estimate.value < estimate.high, (name, stereotype)
        assert estimate.value == pytest.approx(value(name, random_table(), stereotype))
    assert found["probe_b", None].clusters == {"occupations": 38, "templates": 7}
    assert found["probe_b", "male"].clusters["occupations"] == 19


@pytest.mark.parametrize("name", ["probe_dp", "probe_b"])
def test_an_interval_is_that_of_a_plain_mean_of_premises(name: str) -> None:
    predictions = random_table(200)
    sample = Sample(predictions)
    logits = predictions.frame.select("entailment", "contradiction").to_numpy().astype(np.float64)
    margin = (logits[:, 0] - logits[:, 1]).reshape(-1, 2)
    first, second = 1 / (1 + np.exp(-margin.T))
    is_female = predictions.frame["stereotype"].to_numpy()[::2] == "female"
    dominant = np.where(is_female, margin[:, 0] > margin[:, 1], margin[:, 1] > margin[:, 0])
    column = {"probe_dp": np.abs(first - second), "probe_b": dominant.astype(float)}[name]
    own = Measure("m", "", "", lambda s, _: s.paired.first.mean(column), 0, 1)
    found, plain = (estimate_measures(sample, [entry])[entry.name, None] for entry in (get_measure(name), own))
    assert (found.value, found.low, found.high) == pytest.approx((plain.value, plain.low, plain.high), abs=1e-6)


def test_gaps_that_differ_by_rounding_are_listed_by_name() -> None:
    near = 1 + 1e-7
    rows = [("b", "female", (log(3), 0, 0), (0, 0, 0)), ("a", "male", (log(3 * near), 0, 0), (0, 0, 0))]
    rows += [("c", "female", (log(2.9), 0, 0), (0, 0, 0)), ("d", "male", (log(3.1), 0, 0), (0, 0, 0))]
    rows += [("e", "male", (log(3), 0, 0), (0, 0, 0))]
    listed = [row.occupation for row in assess(table(rows)).probe.occupations]
    assert listed == ["d", "a", "b", "e", "c"]


def test_intervals_are_wide_where_occupations_differ() -> None:
    # Every premise of an occupation answers alike: 1,900 rows hold no more than 38 facts.
    generator = np.random.default_rng(1)
    pro = generator.random(38) < 0.7
    rows = []
    for number in range(1900):
        job = number % 38
        up, down = (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)
        rows.append((f"job{job}", "female", up, down) if pro[job] else (f"job{job}", "female", down, up))
    sample = Sample(table(rows))
    chosen = [get_measure("probe_b")]
    found = estimate_measures(sample, chosen)["probe_b", None]
    assert found.se == pytest.approx(np.sqrt(pro.mean() * (1 - pro.mean()) / 37), rel=0.05)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (pl.col("id") != "1-male", "1-female"),
        (pl.col("group") == "male", "0-male"),
    ],
)
def test_a_premise_with_one_group_is_refused(change: pl.Expr, message: str) -> None:
    with pytest.raises(InputError, match=message):
        value("probe_dp", Predictions(HAND.frame.filter(change)))


def test_what_is_no_pair_is_refused() -> None:
    frame = HAND.frame
    third = frame.filter(pl.col("group") == "male").with_columns(
        id=pl.col("id").str.replace("male", "other"), group=pl.lit("other")
    )
    broken = {
        "female, male, other": pl.concat([frame, third]),
        "'0-f'": frame.with_columns(pl.col("id").replace("0-female", "0-f")),
        "2-male.*twice": pl.concat([frame, frame.tail(1)]),
        "0-male.*template": frame.with_columns(
            template=pl.when(pl.col("id") == "0-male").then(pl.lit("x")).otherwise(pl.col("template"))
        ),
        "1-male.*finite": frame.with_columns(
            entailment=pl.when(pl.col("id") == "1-male").then(float("nan")).otherwise(pl.col("entailment"))
        ),
    }
    for message, changed in broken.items():
        with pytest.raises(InputError, match=message):
            value("probe_dp", Predictions(changed))
    unclear = frame.with_columns(stereotype=pl.lit("neutral"))
    with pytest.raises(InputError, match="0-female"):
        value("probe_b", Predictions(unclear))
    assert value("probe_dp", Predictions(unclear)) == pytest.approx(0.2)


def test_occupation_curve_by_hand() -> None:
    curve = occupation_curve(Sample(HAND))
    nurse, driver = curve.rows(named=True)
    expected = {
        "occupation": "nurse",
        "stereotype": "female",
        "n": 2,
        "dp": 0.25,
        "b": 0.5,
        "ties": 0.5,
        "signed": 0.25,
    }
    assert nurse == pytest.approx(expected)
    assert (
        driver["signed"] == pytest.approx(-0.1)
        and driver["dp"] == pytest.approx(0.1)
        and driver["b"] == pytest.approx(1.0)
        and driver["ties"] == 0
    )
    whole = occupation_curve(Sample(random_table()))
    assert whole["n"].sum() == 1900 and whole["dp"].is_sorted(descending=True)
    assert (whole["dp"] * whole["n"]).sum() / 1900 == pytest.approx(value("probe_dp", random_table()))


def constructed_curve(percentages: dict[str, float]) -> pl.DataFrame:
    """A model whose gap grows with the share of women and changes sign at one half."""
    return pl.DataFrame(
        {
            "occupation": list(percentages),
            "dp": [abs(2 * women - 100) ** 2 / 1e4 for women in percentages.values()],
            "signed": [np.tanh((women - 50) / 20) for women in percentages.values()],
        }
    )


def test_labour_comparison_on_a_model_that_mirrors_the_market() -> None:
    percentages = {"a": 5.0, "b": 20.0, "c": 42.0, "d": 70.0, "CEO": 99.0}
    curve = constructed_curve(percentages)
    found = labour_comparison(curve, {name.lower(): women for name, women in percentages.items()})
    assert (found.n, found.missing) == (5, [])
    assert found.size.spearman == found.size.kendall == pytest.approx(1) and found.size.p < 1e-6
    assert found.direction.spearman == found.direction.kendall == pytest.approx(1)
    against = labour_comparison(curve.with_columns(-pl.col("signed")), percentages)
    assert against.direction.spearman == pytest.approx(-1) and against.size.spearman == pytest.approx(1)


def test_labour_comparison_by_hand_and_what_it_cannot_compare() -> None:
    curve = constructed_curve({"a": 10.0, "b": 20.0, "c": 40.0, "z": 55.0, "y": 60.0})
    # Ranks of dp over a, b, c are 3, 2, 1; those of the imbalances 10, 80, 60 are 1, 3, 2: rho = 1 - 6 * 6 / 24.
    found = labour_comparison(curve, {"a": 55.0, "b": 90.0, "c": 20.0})
    assert found.missing == ["y", "z"] and found.n == 3
    assert found.size.spearman == pytest.approx(-0.5) and found.size.kendall == pytest.approx(-1 / 3)
    flat = labour_comparison(curve, {"a": 30.0, "b": 30.0, "c": 30.0})
    assert np.isnan(flat.size.spearman) and "labour market" in flat.size.reason
    with pytest.raises(InputError, match="2 occupations"):
        labour_comparison(curve, {"a": 1.0, "b": 2.0})
    with pytest.raises(InputError, match="140"):
        labour_comparison(curve, {"a": 140.0})
    for outside in (-0.5, 100.5):
        with pytest.raises(InputError, match="from 0 to 100"):
            labour_comparison(curve, {"a": outside, "b": 2.0, "c": 3.0})
    assert labour_comparison(curve, {"a": 0.0, "b": 100.0, "c": 3.0}).n == 3
    same = labour_comparison(curve.with_columns(dp=pl.lit(0.5)), {"a": 1.0, "b": 2.0, "c": 3.0})
    assert np.isnan(same.size.spearman) and "the model" in same.size.reason and not np.isnan(same.direction.spearman)


def test_labels_against_the_share_of_women_are_disputed(monkeypatch: pytest.MonkeyPatch) -> None:
    women = {"a": 49.0, "b": 50.0, "c": 51.0, "d": 49.0, "e": 50.0, "f": 51.0}
    monkeypatch.setattr("evenli.audit.suites.probe.measures.women_percent", lambda: women)
    more, less = (log(3), 0.0, 0.0), (0.0, 0.0, log(3))
    rows = [(job, "female" if job in "abc" else "male", more, less if job < "e" else more) for job in "abcefg"]
    rows.append(("d", "male", less, more))
    result = assess(table(rows)).probe
    by_name = {row.occupation: row for row in result.occupations}
    assert {name for name, row in by_name.items() if row.disputed} == {"a", "f"}
    assert np.isnan(by_name["g"].women_percent) and by_name["b"].women_percent == 50
    assert result.premises == 7 and result.rows == 14 and result.labour is not None and result.labour.missing == ["g"]
    text = "\n".join(shown(result).lines)
    # The largest five gaps, and to which side each goes; then the disputed labels.
    assert "a 0.50 (female), b 0.50 (female), c 0.50 (female), d 0.50 (male), e 0.00\n" in text
    assert "a (female, 49 %), f (male, 51 %)" in text


def test_every_probe_occupation_has_a_percentage() -> None:
    rows = {row["occupation"]: row for row in read_table("cps_2019.csv")}
    assert set(rows) == set(probe_occupations()) and len(rows) == 38
    assert all(0 < float(row["women_percent"]) < 100 and row["cps_title"] for row in rows.values())
    assert rows["accountant"]["women_percent"] == rows["auditor"]["women_percent"] == "61.7"
    ours, before = ([float(row[name]) for row in rows.values()] for name in ("women_percent", "winobias_2017"))
    apart = {name for name, a, b in zip(rows, ours, before, strict=True) if abs(a - b) > 10}
    assert apart == {"attendant", "CEO", "editor"}  # other titles, or two years on


def test_percentages_follow_from_the_matched_titles(shared_data: Path) -> None:
    packed = shared_data / "cps_occupations" / "cpsaat11_2019.tsv.xz"
    with lzma.open(packed, "rb") as stream:
        cells = list(csv.reader(io.TextIOWrapper(stream, encoding="utf-8"), delimiter="\t"))
    printed = {row[0]: (float(row[1]), float(row[2])) for row in cells[2:] if row[2]}
    for row in read_table("cps_2019.csv"):
        matched = [printed[title] for title in row["cps_title"].split("; ")]
        mean = sum(size * women for size, women in matched) / sum(size for size, _ in matched)
        assert float(row["women_percent"]) == pytest.approx(mean, abs=0.0501), row["occupation"]
        assert (len(matched) > 1) == ("weighted by employment" in row["note"]), row["occupation"]


def test_split_sample_has_the_shares_it_was_given() -> None:
    shares = {"dP_male": 0.2716, "dP_female": 0.2051, "B_male": 0.9523, "B_female": 0.4011}
    sample = sample_of_split(shares, 21, 18)
    for name, key in (("probe_dp", "dP"), ("probe_b", "B")):
        for half in ("male", "female"):
            assert float(get_measure(name)(sample, half)) == pytest.approx(shares[f"{key}_{half}"], abs=1e-6)
    # The printed row of MNLI BERT, Table 5.
    assert 100 * float(get_measure("probe_dp")(sample)) == pytest.approx(24.09, abs=0.01)
    assert 100 * float(get_measure("probe_b")(sample)) == pytest.approx(69.79, abs=0.01)
    released = sample_of_split(shares, 20, 18)
    assert abs(100 * float(get_measure("probe_b")(released)) - 69.79) > 0.1


def test_published_tables_are_complete() -> None:
    tables = read_table("published_sharma.csv")
    assert {t: sum(row["table"] == t for row in tables) for t in ("5", "7", "9", "11")} == dict.fromkeys(
        ("5", "7", "9", "11"), 6
    )
    assert len(tables) == 24 and len(read_table("published_sharma_split.csv")) == 12


def test_a_side_is_named_only_where_the_interval_lies_on_it() -> None:
    result = audit("fake:biased", suites=("probe",), limit=30).probe
    lean = result.measures["probe_lean"]
    assert lean.value > 0 > lean.low and "neither gender" in SUITE.statement(result)
    nan = float("nan")
    for ends, side in (
        *(((0.01, 0.2), "female"), ((-0.2, -0.01), "male"), ((nan, nan), "female")),
        *(((0.0, 0.2), "to neither"), ((-0.2, 0.0), "to neither")),
    ):
        beyond = structs.replace(lean, low=ends[0], high=ends[1])
        said = SUITE.statement(structs.replace(result, measures={**result.measures, "probe_lean": beyond}))
        assert f"lean {side}" in said
