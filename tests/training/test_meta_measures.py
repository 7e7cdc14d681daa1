"""Meta-evaluation: numbers by hand, identities against scipy, controls, refusals, and what is printed and drawn."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from evenli.core.errors import InputError
from evenli.training.meta.charts import meta_chart, meta_page, print_meta, write_meta_charts
from evenli.training.meta.sweep import (
    STATISTICS,
    Curve,
    MeasureCurves,
    Statistic,
    SweepResult,
    associate,
    describe,
    pearson_p,
    rank_measures,
    respond,
)
from evenli.words import read_table

RATES = np.arange(11) / 10
SCIPY = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}


def curve(scores: Any, *, axis: str = "bias", levels: Any = RATES, span: float = 1.0) -> Curve:
    scores = np.atleast_2d(scores)
    return Curve("coal", axis, range(len(scores)), np.array(levels), scores, span)


def found(scores: Any, statistic: Any = "pearson", *, seed: int = 0, **more: Any) -> Any:
    return associate(curve(scores, **more), statistic, np.random.default_rng(seed))


def slope(scores: Any, **more: Any) -> float:
    return describe(curve(scores, **more)).slope


def with_correlation(r: float) -> np.ndarray:
    """Scores on the 11 rates whose Pearson correlation is exactly ``r``."""
    x = (RATES - 0.5) / np.linalg.norm(RATES - 0.5)
    rest = np.random.default_rng(4).normal(size=11)
    rest -= rest.mean() + (rest @ x) * x
    return np.asarray(r * x + np.sqrt(1 - r * r) * rest / np.linalg.norm(rest))


@pytest.mark.parametrize("statistic", STATISTICS)
def test_the_oracle_line_is_perfect(statistic: Statistic) -> None:
    line = found([2 * RATES / 3] * 3, statistic)
    assert line.value == pytest.approx(1, abs=1e-12)
    assert line.low == pytest.approx(1) and line.high == pytest.approx(1)
    assert line.per_seed == pytest.approx((1, 1, 1))
    assert line.p == 1 / 10_000  # no random order of 11 points is a line, and p is still not 0
    assert line.note == ""


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_constant_score_has_no_correlation(statistic: Statistic) -> None:
    # Rounding in the last digits is not a change of the score.
    constant = found(np.full((3, 11), 2 / 3) + 1e-16 * np.arange(11), statistic)
    assert np.isnan([constant.value, constant.low, constant.high]).all() and np.isnan(constant.p)
    assert constant.per_seed == (None, None, None)
    assert constant.note == "no corr.: the score is 0.667 for every rate"


def test_a_missing_score_is_named() -> None:
    scores = np.array([RATES, RATES, RATES])
    scores[1, 3] = np.nan
    missing = found(scores)
    assert np.isnan(missing.value) and np.isnan(missing.p)
    assert missing.per_seed == pytest.approx((1, None, 1))
    assert missing.note == "no corr.: coal has no value for rate 0.3 of the bias axis, seed 1"
    scores[2] = np.nan
    assert found(scores).note.endswith("seed 1 (and for 11 more models)")


def test_the_published_english_value_is_not_significant() -> None:
    scores = with_correlation(-0.263)
    ours = found(scores)
    assert ours.value == pytest.approx(-0.263, abs=1e-9)
    assert pearson_p(-0.263, 11) == pytest.approx(0.435, abs=5e-4)
    assert pearson_p(-0.263, 11) == pytest.approx(stats.pearsonr(RATES, scores).pvalue)
    assert pearson_p(-0.535, 11) == pytest.approx(0.090, abs=5e-4)
    assert pearson_p(-0.263, 56) > 0.05 > pearson_p(-0.263, 57)  # as many points as the mark would need
    assert ours.p == pytest.approx(0.43, abs=0.04)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_negation_flips_the_sign_and_keeps_p(statistic: Statistic) -> None:
    scores = RATES + np.random.default_rng(1).normal(0, 0.5, (4, 11))
    plain, negated = found(scores, statistic), found(-scores, statistic)
    assert plain.value == pytest.approx(-negated.value)
    assert (plain.low, plain.high) == pytest.approx((-negated.high, -negated.low))
    assert plain.p == negated.p
    scaled = found(3 + 0.1 * scores, statistic)
    assert (scaled.value, scaled.p) == (pytest.approx(plain.value), plain.p)


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("scores", [[0.1, 0.5, 0.2, 0.9, 0.4], [0.3, 0.3, 0.1, 0.8, 0.8]])
def test_p_agrees_with_all_orders(statistic: Statistic, scores: list[float]) -> None:
    levels = np.array([0, 0.2, 0.5, 0.6, 1.0])
    sizes = [abs(SCIPY[statistic](levels, order).statistic) for order in permutations(scores)]
    exact = np.mean(np.array(sizes) >= abs(SCIPY[statistic](levels, scores).statistic) - 1e-9)
    # Three standard errors of 9,999 draws.
    assert found(scores, statistic, levels=levels).p == pytest.approx(exact, abs=0.015)


@pytest.mark.parametrize("digits", [9, 1, 0])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_values_agree_with_scipy(statistic: Statistic, digits: int) -> None:
    scores = np.random.default_rng(digits).normal(0, 2, (40, 11)).round(digits)  # fewer digits, more ties
    expected = [SCIPY[statistic](RATES, row).statistic for row in scores]
    assert found(scores, statistic).per_seed == pytest.approx(expected, abs=1e-9)


def test_rounding_does_not_break_ties() -> None:
    scores = np.repeat([0.1, 0.2, 0.3, 0.4], 3)[:11] + 1e-16 * np.arange(11, 0, -1)
    clean = np.repeat([0.1, 0.2, 0.3, 0.4], 3)[:11]
    assert found(scores, "kendall").value == pytest.approx(stats.kendalltau(RATES, clean).statistic)
    assert found(scores, "spearman").value == pytest.approx(stats.spearmanr(RATES, clean).statistic)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_the_interval_over_seeds_holds_the_value(statistic: Statistic) -> None:
    scores = RATES + np.random.default_rng(2).normal(0, 0.4, (3, 11))
    three = found(scores, statistic)
    assert three.low <= three.value <= three.high and three.low < three.high
    # Every resample averages at least one seed, so a seed alone bounds nothing, but all of them differ here.
    assert three.low <= min(three.per_seed) + 0.05
    assert three.value == pytest.approx(SCIPY[statistic](RATES, scores.mean(axis=0)).statistic)
    two = found(scores[:2], statistic)
    assert not np.isnan(two.value) and np.isnan([two.low, two.high]).all() and two.note == ""


def test_no_interval_from_the_lucky_seeds_only() -> None:
    mixed = found([RATES, np.zeros(11), np.zeros(11)])
    assert mixed.value == pytest.approx(1) and mixed.per_seed == pytest.approx((1, None, None))
    assert np.isnan([mixed.low, mixed.high]).all()
    assert mixed.note.startswith("no interval")
    # Also where hardly any draw is of the constant seed alone.
    noise = np.random.default_rng(5).normal(0, 0.1, (7, 11))
    many = found([*(RATES + noise), np.zeros(11)])
    assert many.per_seed[-1] is None and np.isnan([many.low, many.high]).all() and many.note == mixed.note


def test_the_generator_decides() -> None:
    scores = RATES + np.random.default_rng(3).normal(0, 1, (3, 11))
    assert found(scores, seed=1) == found(scores, seed=1)
    assert found(scores, seed=1).p != found(scores, seed=2).p


def test_chance_scores_give_uniform_p() -> None:
    generator = np.random.default_rng(0)
    p: list[Any] = [
        associate(curve(row), "pearson", generator, permutations=199).p for row in generator.normal(size=(400, 11))
    ]
    assert np.mean(np.array(p) <= 0.05) == pytest.approx(0.05, abs=0.035)
    assert np.mean(p) == pytest.approx(0.5, abs=0.05)


def test_slope_and_separation_by_hand() -> None:
    line = [0.2 + 0.6 * RATES, 0.2 + 0.2 * RATES]
    assert slope(line) == pytest.approx(0.4)
    assert slope(line, span=2) == pytest.approx(0.2)
    # x - mean: -0.5, 0, 0.5; y: 0, 1, 0.5; sum xy = 0.25; sum xx = 0.5
    assert slope([0, 1, 0.5], levels=[0, 0.5, 1]) == pytest.approx(0.5)
    apart = describe(curve(line)).separation
    assert apart == pytest.approx({"mean": 0.4, "lowest": 0.2, "highest": 0.6})
    assert slope(np.full(11, 2 / 3)) == pytest.approx(0, abs=1e-12)
    broken = describe(curve([*RATES[:10], np.nan]))
    assert np.isnan(broken.slope) and np.isnan(broken.separation["mean"])


def test_slopes_of_two_causes_are_those_of_least_squares() -> None:
    generator = np.random.default_rng(2)
    taught = generator.random((12, 2))
    learnt = 0.8 * np.tile(taught, (4, 1, 1))
    noise = generator.normal(size=(4, 12)) * 0.1
    scores = 0.3 + taught @ [0.97, 0.04] + noise
    found = respond("m", "title", ("one", "two"), taught, learnt, scores)
    design = np.column_stack([np.ones(12), taught])
    by_seed = np.array([np.linalg.lstsq(design, row, rcond=None)[0][1:] for row in scores])
    left = np.array([((row - design @ np.linalg.lstsq(design, row, rcond=None)[0]) ** 2).sum() for row in scores])
    total = ((scores - scores.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    assert found.fit == pytest.approx(np.mean(1 - left / total))
    for at, cause in enumerate(("one", "two")):
        slope, own = found.taught[cause], by_seed[:, at]
        half = stats.t.ppf(0.975, 3) * own.std(ddof=1) / 2
        assert (slope.value, slope.low, slope.high) == pytest.approx((own.mean(), own.mean() - half, own.mean() + half))
        assert slope.per_seed == pytest.approx(own)
        assert found.learnt[cause].value == pytest.approx(own.mean() / 0.8)
    two = respond("m", "title", ("one", "two"), taught, learnt[:2], scores[:2])
    assert np.isnan(two.taught["one"].low) and two.taught["one"].value == pytest.approx(by_seed[:2, 0].mean())
    three = respond("m", "title", ("one", "two"), taught, learnt[:3], scores[:3])
    assert three.taught["one"].low is not None
    flat = respond("m", "title", ("one", "two"), taught * [1, 0], learnt, scores * 0 + 0.4)
    assert flat.fit == 1 and flat.taught["one"].value == pytest.approx(0) and np.isnan(flat.taught["two"].value)


def test_what_moves_a_measure() -> None:
    taught = np.random.default_rng(2).random((12, 3))

    def moved(*slopes: float) -> Any:
        return respond("m", "m", ("a", "b", "c"), taught, taught[None], (taught @ slopes)[None])

    assert moved(1, -0.3, 0.4).moved_by() == ["a", "c", "b"] and not moved(1, -0.3, 0.4).measures_only("a")
    assert moved(0.96, 0.04, -0.04).moved_by() == ["a"] and moved(0.96, 0.04, -0.04).measures_only("a")
    assert not moved(0.94, 0.0, 0.0).measures_only("a") and moved(0, 0.06, 0).moved_by() == ["b"]
    assert not moved(0.96, 0.06, 0).measures_only("a") and not moved(0.96, 0, 0).measures_only("b")
    kinds = [(row["levels"], row["cause"], round(row["slope"], 6)) for row in moved(1, 0, 2).rows()]
    assert kinds == [
        (kind, cause, slope) for kind in ("taught", "learnt") for cause, slope in zip("abc", (1, 0, 2), strict=True)
    ]


def test_interval_over_seeds_is_that_of_resampled_curves() -> None:
    scores = RATES + np.random.default_rng(1).normal(0, 0.2, (6, 11))
    low, high = (found(scores).low, found(scores).high)
    generator = np.random.default_rng(9)
    means = [scores[generator.integers(6, size=6)].mean(axis=0) for _ in range(4000)]
    expected = np.quantile([np.corrcoef(RATES, mean)[0, 1] for mean in means], [0.025, 0.975])
    assert (low, high) == pytest.approx(expected, abs=0.004)


def test_a_score_that_moves_by_rounding_is_constant() -> None:
    assert np.isnan(found(0.5 + 1e-10 * RATES).value) and found(0.5 + 1e-8 * RATES).value == pytest.approx(1)
    large = 1e6 + 1e-4 * RATES
    assert np.isnan(found(large).value)


def test_ranking_order() -> None:
    bias = {
        "constant": curve(np.full(11, 0.5)),
        "wide": curve(-1 + RATES, span=2),  # moves by 1 of its range of 2
        "noisy": curve(RATES),
        "good": curve(1 - 0.9 * RATES),
        "undefined": curve([np.nan, *RATES[1:]]),
        "undefined in noise": curve(RATES),
    }
    noise = {name: curve(0.1 * RATES, axis="noise") for name in bias}
    noise["noisy"] = curve(1 - 0.8 * RATES, axis="noise")
    noise["wide"] = curve(np.zeros(11), axis="noise")
    noise["undefined in noise"] = curve([np.nan, *RATES[1:]], axis="noise")
    ranked = rank_measures(
        [MeasureCurves(name, name, {"bias": describe(bias[name]), "noise": describe(noise[name])}) for name in bias]
    )
    names = ["good", "wide", "noisy", "constant", "undefined", "undefined in noise"]
    assert [response.measure for response in ranked] == names
    assert [response.net_sensitivity for response in ranked[:4]] == pytest.approx([0.8, 0.5, 0.2, -0.1])
    assert (ranked[0].sensitivity, ranked[0].disturbance) == pytest.approx((0.9, 0.1))
    assert ranked[0].pearson == pytest.approx(-1) and ranked[1].reason == ""
    assert np.isnan(ranked[3].pearson) and ranked[3].reason.startswith("no corr.")
    assert "rate 0 of the noise axis" in ranked[5].reason
    five = rank_measures([MeasureCurves(name, name, {"bias": describe(bias[name])}) for name in list(bias)[:5]])
    assert [measure.measure for measure in five] == ["noisy", "good", "wide", "constant", "undefined"]
    assert five[0].disturbance is None and five[0].net_sensitivity == pytest.approx(1)


def test_noisy_curves_have_every_statistic() -> None:
    generator = np.random.default_rng(0)
    for _ in range(3):
        curves = curve(RATES + generator.normal(0, 0.3, (3, 11)))
        for statistic in STATISTICS:
            found = associate(curves, statistic, generator)
            assert -1 <= found.value <= 1 and 0 < found.p <= 1


def test_published_values() -> None:
    rows = read_table("published_meta.csv", required=("source", "statistic", "fn_corr", "coal_corr"))
    assert [(r["lang"], r["fn_corr"], r["coal_corr"]) for r in rows] == [
        ("en", "-0.263", "0.999"),
        ("ja", "no corr.", "1.000"),
        ("zh", "-0.535", "0.997"),
        ("ja", "-0.114", "0.820"),
    ]


def results(*, noise: bool = True, seeds: int = 3, lang: str = "en") -> SweepResult:
    """A meta-evaluation of four measures, one of them constant, one with a missing score."""
    generator = np.random.default_rng(0)
    wobble = generator.normal(0, 0.02, (seeds, 11))
    scores: dict[str, Any] = {
        "coal": ("NLI-CoAL", 2 * RATES / 3 + wobble, 0.3 * RATES + wobble),
        "fn_bias": ("FN score (bias)", np.full((seeds, 11), 2 / 3), RATES + wobble),
        "order_contradiction": ("order condition, contradiction", -1 + 2 * RATES + wobble, wobble),
        "nn": ("Net Neutral", np.where(np.arange(11) == 3, np.nan, 1 - RATES + wobble), 1 - RATES + wobble),
    }
    axes = ("bias", "noise") if noise else ("bias",)
    spans = {"order_contradiction": 2.0}
    measures = [
        MeasureCurves(
            name,
            title,
            {
                axis: describe(curve(own[number], axis=axis, span=spans.get(name, 1)))
                for number, axis in enumerate(axes)
            },
        )
        for name, (title, *own) in scores.items()
    ]
    return SweepResult(
        lang=lang,
        base="bert-base-[uncased]",
        seeds=list(range(seeds)),
        levels={axis: RATES.tolist() for axis in axes},
        held_out_accuracy={},
        measures=measures,
        ranking=rank_measures(measures),
        published=read_table("published_meta.csv"),
    )


def printed(found: SweepResult, width: int = 80) -> list[str]:
    text = io.StringIO()
    print_meta(found, Console(file=text, width=width))
    return text.getvalue().splitlines()


@pytest.mark.parametrize("lang", ["en", "ja", "zh"])
@pytest.mark.parametrize("noise", [True, False])
@pytest.mark.parametrize("seeds", [1, 3])
def test_print_fits_a_terminal(noise: bool, seeds: int, lang: str) -> None:
    lines = printed(results(noise=noise, seeds=seeds, lang=lang))
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)
    table = next(line for line in lines if line.startswith("NLI-CoAL "))
    assert "0.99" in table and ("[" in table) is (seeds == 3)
    assert any(line.startswith("FN score (bias) ") and "no corr." in line for line in lines)
    whole = " ".join(" ".join(lines).split())
    assert "FN score (bias): the score is 0.667" in whole
    assert "rate 0.3 of the bias axis" in whole
    assert ("slope" in whole) is noise
    assert "bert-base-[uncased]" in whole


def test_print_shows_the_published_values_of_the_language() -> None:
    english, japanese = printed(results()), printed(results(lang="ja"))
    row = next(line for line in english if "COAL Table 2" in line)
    assert "0.999*" in row and "-0.263*" in row and row.rstrip().endswith("no corr.")
    whole = " ".join(" ".join(english).split())
    assert "p = 0.435" in whole
    assert "Tohoku" not in whole
    assert any("JA23 Table 2" in line and "spearman" in line and "0.820" in line for line in japanese)
    assert "cannot come from" not in " ".join(japanese)


def test_print_ranks() -> None:
    with_noise = " ".join(" ".join(printed(results())).split())
    assert "share of the measure's range): order condition, contradiction 1.00, NLI-CoAL 0.3" in with_noise
    assert "FN score (bias) 0" not in with_noise.partition("Ranking")[2]


def test_charts(tmp_path: Path) -> None:
    pytest.importorskip("altair", reason="charts need altair: pip install 'evenli[report]'")
    pytest.importorskip("vl_convert", reason="charts need vl-convert: pip install 'evenli[report]'")
    files = write_meta_charts(results(), tmp_path / "deep")
    assert [file.name for file in files] == ["meta.svg", "meta.png"]
    assert files[1].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    text = " ".join(ET.fromstring(files[0].read_text(encoding="utf-8")).itertext())
    for words in ("NLI-CoAL", "FN score (bias)", "Net Neutral", "bias rate", "noise rate"):
        assert words in text
    assert "order condition, contradiction" not in text  # not one of the measures drawn
    lines = write_meta_charts(results(noise=False, seeds=1), tmp_path)[0].read_text(encoding="utf-8")
    assert "bias rate" in lines and "noise rate" not in lines


def test_chart_data() -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    result = results()
    spec = meta_chart(result).to_dict()
    rows = spec["datasets"][spec["vconcat"][0]["data"]["name"]]
    scores = result["coal"].axis["bias"].scores
    own = [row for row in rows if row["measure"] == "NLI-CoAL"]
    assert [row["score"] for row in own] == pytest.approx(scores.mean(axis=0))
    assert [row["low"] for row in own] == pytest.approx(scores.min(axis=0))
    assert [row["high"] for row in own] == pytest.approx(scores.max(axis=0))
    neutral = [row["score"] for row in rows if row["measure"] == "Net Neutral"]
    assert neutral[3] is None and None not in neutral[:3] + neutral[4:]  # the line breaks where a score is missing
    for entry in result.measures:
        for axis in entry.axis.values():
            axis.scores[:] = np.nan
    with pytest.raises(InputError, match="draw"):
        meta_chart(result)


def test_the_page_of_a_sweep_has_its_curves() -> None:
    pytest.importorskip("vl_convert")
    found = results()
    page = meta_page(found)
    best = next(rank for rank in found.ranking if not rank.reason)
    title = next(entry.title for entry in found.measures if entry.name == best.measure)
    assert f"{title} follows the trained-in bias best" in page
    assert page.count('role="img"') == 1 and "bert-base-[uncased]" in page and "FN score (bias): " in page
    assert page.count("<script") == 2 and "Content-Security-Policy" in page


def test_the_p_of_a_curve_begins_with_seed_0() -> None:
    one = curve(np.random.default_rng(5).normal(size=(3, len(RATES))))
    generator = np.random.default_rng(0)
    # One generator for all statistics, in their order.
    expected = [associate(one, name, generator) for name in STATISTICS]
    described = describe(one)
    found = [described.pearson, described.spearman, described.kendall]
    for kind in ("p", "low", "high"):
        assert [getattr(it, kind) for it in found] == pytest.approx([getattr(it, kind) for it in expected], rel=1e-9)
