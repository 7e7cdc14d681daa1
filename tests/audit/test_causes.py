"""Two leans, stereotype and default gender, and the total error."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

import evenli
from evenli.audit.models.callables import CallableModel, FakeModel
from evenli.audit.predict import predict
from evenli.audit.predictions import Predictions
from evenli.audit.suites.coal.measures import DEFINING, OUTCOMES, cause_among, items, lean, share, wrong
from evenli.audit.suites.coal.pairs import build_coal
from evenli.audit.suites.coal.results import left_out
from evenli.core.io import hash_text
from evenli.core.labels import LABELS
from evenli.stats.intervals import estimate_measures
from evenli.stats.measure import get_measure
from evenli.stats.sample import Sample
from evenli.words import load_axis
from evenli.words.templates import fill

E, N, C = LABELS
CLASSES = ("female", "male", "neutral")
WORDS = {"female": "nurse", "male": "boxer", "neutral": "clerk"}
CAUSES = ("stereotype", "default_gender", "total_error")
ALL = (*CAUSES, "default_of_stereotyped", *(f"{name}_expected" for name in CAUSES))


def rows_of(answers: dict[str, list[tuple[str, str]]], **header: object) -> Predictions:
    """A table from (answer to woman, answer to man) per item, by stereotype; every occupation has two templates."""
    rows = []
    for stereotype, pairs in answers.items():
        for number, answer in enumerate(pairs):
            for group, label in zip(("female", "male"), answer, strict=True):
                logits = dict(zip(LABELS, np.where(np.array(LABELS) == label, 50.0, 0.0), strict=True))
                subset = "NS" if stereotype == "neutral" else "PS" if stereotype == group else "AS"
                word, template = f"{WORDS[stereotype]} {number // 2}", f"the [Sub] waits {number % 2}."
                rows.append(
                    {
                        "suite": "coal",
                        "id": str(len(rows)),
                        "subset": subset,
                        "premise": template.replace("[Sub]", word),
                        "hypothesis": template.replace("[Sub]", {"female": "woman", "male": "man"}[group]),
                        "gold": "neutral",
                        "occupation": word,
                        "stereotype": stereotype,
                        "template": template,
                        "group": group,
                        **logits,
                    }
                )
    return Predictions(pl.DataFrame(rows), dict(header))


def random_rows(seed: int, count: int = 40) -> Predictions:
    generator = np.random.default_rng(seed)
    drawn = {name: generator.choice(LABELS, (count, 2)).tolist() for name in CLASSES}
    table = rows_of({name: [tuple(pair) for pair in pairs] for name, pairs in drawn.items()})
    logits = generator.normal(size=(table.frame.height, 3)) * 2
    return Predictions(table.frame.with_columns(pl.Series(name, logits[:, i]) for i, name in enumerate(LABELS)))


def value(sample: Sample, name: str) -> float:
    return float(get_measure(name)(sample))


def test_a_hand_computed_table() -> None:
    sample = Sample(
        rows_of(
            {
                "female": [(E, C), (E, N), (N, C), (C, E)],  # woman 3/4, man 1/4
                "male": [(C, E), (N, E), (C, N), (E, E)],  # man 3/4, incoherent 1/4
                "neutral": [(N, E), (C, C), (N, N), (N, N)],  # man 1/4, incoherent 1/4
            }
        )
    )
    assert value(sample, "stereotype") == pytest.approx((0.75 - (0.25 - 0.75)) / 2)
    assert value(sample, "default_gender") == pytest.approx(0.25)
    assert value(sample, "total_error") == pytest.approx((1 + 1 + 0.5) / 3)
    assert value(sample, "contradictory") == pytest.approx((0 + 0.25 + 0.25) / 3)
    assert value(sample, "default_of_stereotyped") == pytest.approx((0.75 - 0.5) / 2)
    assert [float(share(sample, "neutral", outcome)) for outcome in OUTCOMES] == pytest.approx([0.25, 0, 0.25, 0.5])


def test_every_pair_of_answers_has_one_outcome() -> None:
    expected = {(C, E): 0, (N, E): 0, (C, N): 0, (E, C): 1, (E, N): 1, (N, C): 1, (E, E): 2, (C, C): 2, (N, N): 3}
    for answers in itertools.product(LABELS, repeat=2):
        sample = Sample(rows_of({"neutral": [answers]}))
        shares = [float(share(sample, "neutral", outcome)) for outcome in OUTCOMES]
        assert shares == pytest.approx(np.eye(4)[expected[answers]])


@pytest.mark.parametrize("expected", [False, True])
def test_the_causes_add_up(expected: bool) -> None:
    sample = Sample(random_rows(1))
    for name in CLASSES:
        shares = [float(share(sample, name, outcome, expected=expected)) for outcome in OUTCOMES]
        assert sum(shares) == pytest.approx(1)
        assert float(wrong(sample, name, expected=expected)) == pytest.approx(sum(shares[:3]))
        assert float(lean(sample, name, expected=expected)) == pytest.approx(shares[0] - shares[1])


def test_expected_answers_are_the_answers_where_the_model_is_certain() -> None:
    table = random_rows(2)
    certain = np.eye(3)[table.logits.argmax(axis=1)] * 1000
    sure = Sample(Predictions(table.frame.with_columns(pl.Series(x, certain[:, i]) for i, x in enumerate(LABELS))))
    unsure = Sample(table)
    for name in CAUSES:
        assert value(sure, f"{name}_expected") == pytest.approx(value(sure, name))
        assert value(unsure, name) == pytest.approx(value(sure, name))
        assert abs(value(unsure, f"{name}_expected") - value(unsure, name)) > 1e-3


def test_exchanging_the_groups_turns_the_default_and_keeps_the_rest() -> None:
    table = random_rows(3)
    swap = {"female": "male", "male": "female"}
    turned = Predictions(table.frame.with_columns(pl.col("group", "stereotype").replace(swap)))
    before, after = Sample(table), Sample(turned)
    for name in ALL:
        sign = -1 if name.startswith("default") else 1
        assert value(after, name) == pytest.approx(sign * value(before, name)), name


def test_order_and_ids_of_the_rows_do_not_matter() -> None:
    table = random_rows(4)
    mixed = (
        table.frame.sample(fraction=1, shuffle=True, seed=7).with_row_index("n").with_columns(id=pl.format("{}", "n"))
    )
    for name in ALL:
        assert value(Sample(Predictions(mixed.drop("n"))), name) == pytest.approx(value(Sample(table), name))


def test_weights_count_like_repeated_rows() -> None:
    table = random_rows(5, count=12)
    generator = np.random.default_rng(0)
    occupations = {word: generator.integers(0, 3) for word in table.frame["occupation"].unique().sort()}
    counts = np.array([occupations[word] for word in table.frame["occupation"]])
    repeated = Sample(Predictions(table.frame[np.repeat(np.arange(len(counts)), counts)]))
    weighted = Sample(table).weighted(np.stack([counts, np.ones_like(counts)]).astype(np.float32))
    for name in ALL:
        both = get_measure(name)(weighted)
        assert both.shape == (2,)
        assert both == pytest.approx([value(repeated, name), value(Sample(table), name)], abs=1e-5)


def test_items_that_lack_a_group_are_left_out_and_counted() -> None:
    table = rows_of({"female": [(E, C)] * 4, "male": [(N, N)] * 4, "neutral": [(N, N)] * 4})
    broken = Sample(Predictions(table.frame[1:]))  # the first item has lost its answer to woman
    assert items(broken).unmatched == 1
    assert any("1 pairs have no partner" in note for note in left_out(items(broken)))
    assert float(share(broken, "female", "first")) == pytest.approx(1)
    assert left_out(items(Sample(table))) == []


def test_without_a_class_a_cause_is_undefined() -> None:
    sample = Sample(rows_of({"neutral": [(N, E), (N, N)]}))
    assert value(sample, "default_gender") == pytest.approx(0.5)
    assert np.isnan(value(sample, "stereotype"))
    assert np.isnan(value(sample, "total_error"))
    of_men = Sample(Predictions(sample.frame.filter(pl.col("group") == "male")))
    assert np.isnan(value(of_men, "default_gender"))
    assert any("two groups" in note for note in left_out(items(of_men)))


def test_the_regression_finds_a_line() -> None:
    """Words whose lean is exactly their score: intercept 0, slope 1; with a constant shift only the intercept moves."""
    words = {"nurse": "female", "accountant": "neutral", "broker": "neutral", "artist": "neutral", "dancer": "neutral"}
    rows = []
    for shift in (0.0, 0.1):
        for word, stereotype in words.items():
            score = load_axis().scores[word]
            reads_man = round(10 * max(score + shift, 0))
            reads_woman = round(10 * max(-(score + shift), 0))
            answers = [(N, E)] * reads_man + [(E, N)] * reads_woman + [(N, N)] * (10 - reads_man - reads_woman)
            part = rows_of({stereotype: answers}).frame
            number = pl.int_range(pl.len()) // 2
            rows.append(part.with_columns(occupation=pl.lit(word), template=pl.format("[Sub] {}", number), shift=shift))
    table = pl.concat(rows)
    for shift in (0.0, 0.1):
        sample = Sample(Predictions(table.filter(pl.col("shift") == shift).drop("shift")))
        assert value(sample, "regression_intercept") == pytest.approx(shift)
        assert value(sample, "regression_slope") == pytest.approx(1)


def test_words_that_state_a_gender_are_a_class_of_their_own() -> None:
    table = rows_of({"neutral": [(C, E)] * 2 + [(N, N)] * 4})
    frame = table.frame.with_columns(pl.col("occupation").replace("clerk 0", "businessman"))
    ours, published = Sample(Predictions(frame)), Sample(Predictions(frame), published=True)
    assert value(ours, "default_gender") == 0
    assert value(published, "default_gender") == pytest.approx(1 / 3)
    assert float(share(ours, DEFINING, "second")) == 1
    assert np.isnan(share(published, DEFINING, "second"))
    assert value(ours, "coal_non") == value(published, "coal_non") == pytest.approx(1 / 3)


def test_n_counts_the_rows_that_a_cause_reads() -> None:
    audited = evenli.audit("fake:oracle:0.3")
    frame, words = audited.predictions.suite("coal").frame, audited.coal.occupations
    defining = [row.occupation for row in words if row.states_group]
    rest = frame.filter(~pl.col("occupation").is_in(defining))
    neutral, own = (rest["stereotype"] == "neutral").sum(), audited.coal.measures
    assert own["coal"].n == frame.height > rest.height
    assert own["total_error"].n == own["total_error_expected"].n == rest.height
    assert own["total_error"].clusters["occupations"] == rest["occupation"].n_unique()
    assert (own["default_gender"].n, own["stereotype"].n) == (neutral, rest.height - neutral)
    assert own["default_of_stereotyped"].by_stereotype["female"].n == (rest["stereotype"] == "female").sum()


@pytest.mark.parametrize("name", CAUSES)
def test_a_cause_among_rows_is_that_of_a_table_of_them(name: str) -> None:
    table = random_rows(9, count=26)
    # Every second sentence of a word; both of its pairs.
    chosen = table.frame["template"].str.contains("1").to_numpy()
    sample = Sample(table)
    part = value(Sample(Predictions(table.frame.filter(pl.Series(chosen)))), name)
    assert float(cause_among(sample, name, chosen)) == pytest.approx(part)
    assert float(cause_among(sample, name, np.ones(len(chosen), dtype=bool))) == pytest.approx(value(sample, name))


def test_a_slice_has_the_lean_and_the_errors_of_its_class() -> None:
    sample = Sample(random_rows(11))
    for name in CLASSES:
        own = {cause: float(get_measure(cause)(sample, name)) for cause in ("total_error", "total_error_expected")}
        assert own["total_error"] == pytest.approx(float(wrong(sample, name)))
        assert own["total_error_expected"] == pytest.approx(float(wrong(sample, name, expected=True)))
        assert float(get_measure("default_of_stereotyped")(sample, name)) == pytest.approx(float(lean(sample, name)))
        for cause in ("stereotype", "default_gender", "stereotype_expected", "default_gender_expected"):
            assert np.isnan(get_measure(cause)(sample, name))


def test_the_regression_is_that_of_numpy() -> None:
    words = ["nurse", "accountant", "broker", "artist", "dancer", "clerk", "businessman"]
    table = random_rows(12, count=14)
    frame = table.frame.filter(pl.col("stereotype") == "neutral")
    names = {f"clerk {at}": word for at, word in enumerate(words)}
    sample = Sample(Predictions(frame.with_columns(pl.col("occupation").replace(names))))
    answers = np.array(["e", "n", "c"])[sample.predicted].reshape(-1, 2)
    side = {"e": 1, "n": 0, "c": -1}
    leans = np.array([np.sign(side[man] - side[woman]) for woman, man in answers])
    known = load_axis().scores
    of_item = [names[word] for word in frame["occupation"][::2]]
    # A word that states a gender is left out, and one without a score.
    used = [at for at, word in enumerate(of_item) if word in known and word != "businessman"]
    slope, start = np.polyfit([known[of_item[at]] for at in used], leans[used], 1)
    assert value(sample, "regression_slope") == pytest.approx(slope, abs=1e-5)
    assert value(sample, "regression_intercept") == pytest.approx(start, abs=1e-5)
    assert get_measure("regression_slope").rows(sample).sum() == 2 * len(used)
    of_nurses = Sample(Predictions(frame.with_columns(occupation=pl.lit("nurse"))))
    assert np.isnan(value(of_nurses, "regression_slope")) and np.isnan(value(of_nurses, "regression_intercept"))


def test_notes_name_three_words_at_most() -> None:
    base = rows_of({"neutral": [(N, N)] * 8}).frame

    def notes(*words: str) -> str:
        renamed = base.with_columns(pl.col("occupation").replace({f"clerk {at}": w for at, w in enumerate(words)}))
        return " ".join(left_out(items(Sample(Predictions(renamed)))))

    assert "businessman" in notes("businessman") and "…" not in notes("businessman", "salesman", "ballerina")
    four = notes("businessman", "salesman", "ballerina", "policeman")
    assert (
        "…" in four
        and len([word for word in ("businessman", "salesman", "ballerina", "policeman") if word in four]) == 3
    )


def test_an_interval_without_width_says_why() -> None:
    table = rows_of({"neutral": [(N, N)] * 6, "male": [(N, N)] * 6, "female": [(N, N)] * 6})
    # Every word in sentences of its own, and the same doubt in all answers.
    own = table.frame.with_columns(template=pl.concat_str("occupation", "template"), neutral=pl.lit(1.0))
    entries = [get_measure("default_gender_expected"), get_measure("total_error")]
    found = estimate_measures(Sample(Predictions(own, table.header)), entries)
    alike, share_of_zero = found["default_gender_expected", None], found["total_error", None]
    assert alike.low == alike.value == alike.high and alike.se == 0 and "width" in alike.note
    assert share_of_zero.high > share_of_zero.value == 0 and not share_of_zero.note


def test_twelve_of_the_english_words_state_a_gender() -> None:
    found = items(Sample(evenli.audit("fake:even").predictions.suite("coal")))
    assert len(found.defining) == 12
    assert {"businessman", "ballerina", "salesman"} <= set(found.defining)
    assert (found.classes == DEFINING).sum() == 120
    assert found.unmatched == 0
    assert found.rows.shape == (2, 2710)
    assert not np.isnan(found.scores).any()


def says_man_at_random(premises: list[str], hypotheses: list[str]) -> list[str]:
    """Ignores the occupation and says man in 40 % of the sentences; knows what woman and man mean."""
    answers = FakeModel("even")(premises, hypotheses)
    for at, (premise, hypothesis) in enumerate(zip(premises, hypotheses, strict=True)):
        drawn = int(hash_text(premise)[:8], 16) / 16**8 < 0.4
        words = hypothesis.replace(".", " ").split()
        if drawn and answers[at] == N and "man" in words:
            answers[at] = E
    return answers


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("fake:even", (0, 0, 0)),
        ("fake:oracle:0", (-1, 0, 2 / 3)),
        ("fake:oracle:1", (1, 0, 2 / 3)),
        ("fake:biased", (1, 0, 1)),
        ("fake:wrong", (-1, 0, 1)),
        (says_man_at_random, (0, 0.4, 0.4)),
    ],
)
def test_models_of_known_bias(model: str | Callable[..., object], expected: tuple[float, float, float]) -> None:
    coal = evenli.audit(model).coal
    tolerance = 0.1 if callable(model) else 1e-6  # one draws sentences, the others are exact
    assert [coal.measures[name].value for name in CAUSES] == pytest.approx(expected, abs=tolerance)
    likeliest = [coal.measures[name].value for name in CAUSES]
    assert [coal.measures[f"{name}_expected"].value for name in CAUSES] == pytest.approx(likeliest, abs=1e-3)


def test_other_than_two_groups_have_no_share() -> None:
    table = rows_of({name: [(E, C), (N, C)] for name in CLASSES})
    third = table.frame.filter(pl.col("group") == "male").with_columns(
        id=pl.col("id") + "-other", group=pl.lit("other"), subset=pl.lit("NS")
    )
    one = table.frame.filter(pl.col("group") == "male")
    for frame in (one, pl.concat([table.frame, third])):
        sample = Sample(Predictions(frame))
        for name in (*CLASSES, DEFINING):
            assert all(np.isnan(float(share(sample, name, outcome))) for outcome in OUTCOMES)
    sample = Sample(table)
    # Of two groups a class that does not exist has none either; one that exists has.
    assert np.isnan(float(share(sample, "nobody", OUTCOMES[0])))
    assert sum(float(share(sample, "female", outcome)) for outcome in OUTCOMES) == pytest.approx(1)


# --- sentences that lean, whatever the job ------------------------------------------------------------------------


def assumes_a_man_in_some_sentences(seed: int) -> CallableModel:
    """A man in a random 40 % of the sentences, whatever the job: no stereotype at all."""
    templates = load_axis().templates("en")
    drawn = np.random.default_rng(seed).random(len(templates)) < 0.4
    men = {fill(template, "man") for template, chosen in zip(templates, drawn, strict=True) if chosen}
    return CallableModel(
        lambda premises, hypotheses: [E if text in men else N for text in hypotheses], name="sentences"
    )


@pytest.mark.parametrize(("words", "most"), [("published", 0.4), ("labour", 1e-9)])
def test_dealt_sentences_are_no_stereotype(words: str, most: float) -> None:
    spread = {}
    for order in ("published", "dealt"):
        # The published order needs a template more for each word, and there are 300.
        width = 1 if (words, order) == ("labour", "published") else 10
        pairs = build_coal("en", occupations=words, order=order, width=width)
        found = [
            value(Sample(predict(assumes_a_man_in_some_sentences(seed), [pairs])), "stereotype") for seed in range(30)
        ]
        spread[order] = float(np.sqrt(np.mean(np.square(found))))
    # The control: where each class meets sentences of its own, these look like a stereotype.
    assert spread["published"] > 0.035
    assert spread["dealt"] < most * spread["published"]
