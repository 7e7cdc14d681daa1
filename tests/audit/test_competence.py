"""Whether a model does the task: each gold label and each kind of control pair by itself, and how guessers fare."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import betabinom, binom

import evenli
from evenli.audit.assess import check_label_order, competence
from evenli.audit.gate import gate
from evenli.audit.predictions import Predictions
from evenli.audit.results import Competence
from evenli.audit.suites.checks import CONTROLS, control_pairs, gold_pairs, is_known
from evenli.core.errors import LabelOrderError
from evenli.core.labels import LABELS
from evenli.words.templates import slot_word

KINDS = ("female-female", "female-male", "male-female", "male-male")
CHECKS = pl.concat([gold_pairs("en").frame, control_pairs("en").frame])


def answered(frame: pl.DataFrame, answers: Sequence[str]) -> Predictions:
    """A table of the pairs with these labels as answers."""
    columns = [pl.Series(label, [9.0 * (label == answer) for answer in answers]) for label in LABELS]
    return Predictions(frame.with_columns(pl.lit("check").alias("suite"), *columns))


def kinds_of(frame: pl.DataFrame) -> list[str]:
    """Gold label of a gold pair, groups of a control pair."""
    rows = frame.select("id", "subset", "gold").iter_rows()
    return [gold if subset == "gold" else identity.split("-", 2)[2] for identity, subset, gold in rows]


def missing(wrong: dict[str, int], frame: pl.DataFrame = CHECKS) -> Competence:
    """Right answers, but for the first ones of some kinds."""
    left, answers = dict(wrong), []
    for kind, gold in zip(kinds_of(frame), frame["gold"], strict=True):
        missed = left.get(kind, 0) > 0
        left[kind] = left.get(kind, 0) - 1
        answers.append(LABELS[LABELS.index(gold) - 1] if missed else gold)
    return competence(answered(frame, answers))


@pytest.mark.parametrize(("wrong", "passes"), [(0, True), (16, True), (17, False), (40, False)])
def test_every_kind_must_pass_by_itself(wrong: int, passes: bool) -> None:
    found = missing({"male-female": wrong})
    assert (found.problem == "") == passes
    assert found.stated.value >= 0.75  # all kinds together hide it
    assert found.kinds["male-female"].value == pytest.approx(1 - wrong / CONTROLS)
    assert found.kinds["male-female"].low < found.kinds["male-female"].value or wrong == CONTROLS
    assert tuple(found.kinds) == KINDS


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize(("wrong", "passes"), [(14, True), (15, False), (35, False)])
def test_every_gold_label_must_pass_by_itself(label: str, wrong: int, passes: bool) -> None:
    found = missing({label: wrong})
    assert found.labels[label].n == 35 and found.per_label[label] == pytest.approx(1 - wrong / 35)
    assert found.gold.value == pytest.approx(1 - wrong / 105)  # two thirds even where one label is always wrong
    expected = {
        14: "",
        15: f"it gets 57% of the {label} gold pairs right",
        35: f"it gets 0% of the {label} gold pairs right",
    }
    assert found.problem == expected[wrong] and (found.problem == "") == passes


def test_the_worst_is_named() -> None:
    assert "0% of the neutral" in missing({"entailment": 20, "neutral": 35, "male-male": 40}).problem
    assert "0 of 40" in missing({"male-male": 40, "female-male": 20}).problem


def test_one_label_for_nearly_all_gold_pairs_is_named() -> None:
    said = [competence(answered(CHECKS, [label] * CHECKS.height)).problem for label in LABELS]
    assert said == [f"it answers '{label}' to 100% of the gold pairs, whatever they say" for label in LABELS]
    # Nothing is wrong with a model that gives one label to most pairs because it is the right one.
    neutral = CHECKS.filter((pl.col("subset") == "control") | (pl.col("gold") == "neutral"))
    others = CHECKS.filter((pl.col("subset") == "gold") & (pl.col("gold") != "neutral"))
    few = pl.concat([neutral, *(others.filter(pl.col("gold") == label).head(3) for label in LABELS[::2])])
    found = missing({}, pl.concat([few, neutral.filter(pl.col("subset") == "gold")]))
    assert found.top_label.share == pytest.approx(70 / 76) and found.problem == ""


def test_few_pairs_must_beat_chance() -> None:
    gold, control = (CHECKS.filter(pl.col("subset") == subset) for subset in ("gold", "control"))

    def first(number: int, frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        return pl.concat([frame.filter(pl.Series(by) == kind).head(number) for kind in dict.fromkeys(by)])

    for number, wrong, passes in [(5, 0, True), (5, 2, False), (3, 0, True), (2, 0, False)]:  # 3 of 5 are 60 %
        asked = pl.concat([gold, first(number, control, kinds_of(control))])
        problem = missing({"male-female": wrong}, asked).problem
        assert (problem == "") == passes
        assert passes or (f"{number - wrong} of {number} pairs right" in problem and "luck" in problem)
        asked = pl.concat([control, first(number, gold, gold["gold"].to_list())])
        problem = missing({"neutral": wrong}, asked).problem
        assert (problem == "") == passes and (passes or "luck" in problem)


@pytest.mark.parametrize("label", LABELS)
def test_a_label_without_gold_pairs_cannot_be_judged(label: str) -> None:
    found = missing({}, CHECKS.filter((pl.col("subset") == "control") | (pl.col("gold") != label)))
    assert found.problem == f"no gold pairs were asked whose answer is {label}" and not found.assessed


@pytest.mark.parametrize(
    ("hits", "n", "known"),
    # Guessing gets 3 of 3 in 1 of 27 cases, 2 of 2 in 1 of 9.
    [(12, 20, True), (11, 20, False), (3, 3, True), (2, 2, False), (3, 4, False), (60, 100, True), (0, 0, False)],
)
def test_a_kind_of_pair_is_known(hits: int, n: int, known: bool) -> None:
    assert is_known(hits, n) is known


# --- models that the gate must not let pass ---------------------------------------------------------------------


def right_on_gold(rule: Callable[[str, str], str]) -> Competence:
    """A model that knows the gold pairs, and answers the control pairs by a rule."""
    rows = CHECKS.select("subset", "gold", "premise", "hypothesis").iter_rows()
    return competence(answered(CHECKS, [gold if subset == "gold" else rule(*pair) for subset, gold, *pair in rows]))


def test_a_model_that_never_says_neutral_is_refused() -> None:
    known = {(p, h): gold for p, h, gold in CHECKS.select("premise", "hypothesis", "gold").iter_rows()}

    def never(premises: list[str], hypotheses: list[str]) -> list[str]:
        labels = (known.get(pair, "neutral") for pair in zip(premises, hypotheses, strict=True))
        man = ("entailment" if re.search(r"\bman\b", hypothesis) else "contradiction" for hypothesis in hypotheses)
        return [guess if label == "neutral" else label for label, guess in zip(labels, man, strict=True)]

    audit = evenli.audit(never)
    assert audit.result.competence is not None and audit.result.competence.gold.value == pytest.approx(2 / 3)
    assert audit.verdict.sentence == (
        "No verdict: the model is not competent at this task; it gets 0% of the neutral gold pairs right."
    )
    assert audit.verdict.causes == [] and gate(audit).checks[0].status == "failed"


def test_a_model_that_compares_strings_is_refused() -> None:
    found = right_on_gold(lambda premise, hypothesis: "entailment" if premise == hypothesis else "contradiction")
    assert found.problem and [found.controls[kind] for kind in KINDS] == [0, 1, 1, 0]

    def overlap(premise: str, hypothesis: str) -> str:
        return "entailment" if set(hypothesis.split()) <= set(premise.split()) else "contradiction"

    found = right_on_gold(overlap)  # little girl, girl
    assert found.problem and max(found.controls["female-female"], found.controls["male-male"]) <= 0.15


def beta(mean: float, correlation: float) -> tuple[float, float]:
    """Parameters of the Beta distribution from which a kind draws its accuracy."""
    size = (1 - correlation) / correlation
    return mean * size, (1 - mean) * size


def passing(accuracy: float, correlation: float, n: int = CONTROLS) -> float:
    """How often so accurate a model passes a kind: binomial, or beta-binomial where answers are correlated."""
    fewest = next(hits for hits in range(n + 1) if is_known(hits, n))
    if not correlation:
        return float(binom.sf(fewest - 1, n, accuracy))
    return float(betabinom.sf(fewest - 1, n, *beta(accuracy, correlation)))


@pytest.mark.parametrize(
    ("correlation", "guesses", "misses"), [(0.0, 0.0005, 0.0010), (0.1, 0.077, 0.086), (0.3, 0.201, 0.177)]
)
def test_how_often_a_kind_is_passed_and_missed(correlation: float, guesses: float, misses: float) -> None:
    assert passing(1 / 3, correlation) == pytest.approx(guesses, abs=5e-4)
    assert 1 - passing(0.8, correlation) == pytest.approx(misses, abs=5e-4)
    # By simulation, from the definition of the correlation.
    rng = np.random.default_rng(3)
    means = {mean: rng.beta(*beta(mean, correlation), 20_000) if correlation else mean for mean in (1 / 3, 0.8)}
    hits = {mean: rng.binomial(CONTROLS, rates, 20_000) for mean, rates in means.items()}
    assert np.mean(hits[1 / 3] >= 24) == pytest.approx(guesses, abs=0.01)
    assert np.mean(hits[0.8] < 24) == pytest.approx(misses, abs=0.01)


def test_the_page_states_these_figures() -> None:
    text = (Path(__file__).parents[2] / "docs" / "explanation" / "methods.md").read_text(encoding="utf-8")
    for correlation in (0, 0.1, 0.3):
        guess, good = passing(1 / 3, correlation), passing(0.8, correlation)
        shares = (guess, guess**4, guess**2, 1 - good, 1 - good**4)
        cells = (f"{100 * share:.2g} %" if share >= 1e-5 else "under 0.001 %" for share in shares)
        assert f"| {correlation:g} | {' | '.join(cells)} |" in text


def test_a_guesser_with_correlated_answers_does_not_pass_all_kinds() -> None:
    rng = np.random.default_rng(7)
    gold, kinds = CHECKS["gold"].to_list(), kinds_of(CHECKS)
    passed = []
    for _ in range(250):
        rates = {kind: rng.beta(*beta(1 / 3, 0.3)) if kind in KINDS else 1.0 for kind in dict.fromkeys(kinds)}
        right = rng.random(len(kinds)) < [rates[kind] for kind in kinds]
        answers = [label if hit else LABELS[LABELS.index(label) - 1] for label, hit in zip(gold, right, strict=True)]
        found = competence(answered(CHECKS, answers))
        known = [is_known(round(found.kinds[kind].value * CONTROLS), CONTROLS) for kind in KINDS]
        assert all(known) == (found.problem == "")
        passed.append(known)
    assert np.mean(passed) == pytest.approx(0.20, abs=0.04)
    assert np.mean([all(known) for known in passed]) <= 0.02


def test_one_guess_for_both_sentences_of_a_noun_makes_forty_pairs_as_good_as_twenty() -> None:
    control = CHECKS.filter(pl.col("subset") == "control")
    texts = zip(control["template"], control["premise"], control["hypothesis"], strict=True)
    nouns = [(slot_word(template, premise), slot_word(template, asked)) for template, premise, asked in texts]
    assert set(Counter(nouns).values()) == {2} and len(set(nouns)) == len(KINDS) * 20
    rng, passed = np.random.default_rng(11), []
    for _ in range(250):
        guess = {noun: str(rng.choice(LABELS)) for noun in dict.fromkeys(nouns)}
        found = competence(answered(CHECKS, [*CHECKS["gold"][:105], *(guess[noun] for noun in nouns)]))
        passed += [found.kinds[kind].value >= 0.6 for kind in KINDS]
        assert found.problem
    assert np.mean(passed) == pytest.approx(passing(1 / 3, 0, 20), abs=0.012)
    assert passing(1 / 3, 0, 20) == pytest.approx(0.013, abs=5e-4)
    assert 1 - passing(0.8, 0, 20) == pytest.approx(0.010, abs=5e-4)


# --- the order of the labels ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "swapped", "neither", "refused"),
    [
        (30, 70, 0, True),
        (40, 60, 0, False),  # 60 of 100 are no proof: p = 0.057
        (410, 590, 0, False),  # beyond doubt, but less than a fifth better
        (390, 610, 0, True),
        (5, 45, 50, False),  # right on less than half
        (5, 50, 45, True),
        (5, 55, 40, True),
        (8, 14, 6, False),  # a fifth better, and p = 0.29
    ],
)
def test_another_label_order_must_fit_clearly_better(declared: int, swapped: int, neither: int, refused: bool) -> None:
    half = declared // 2, swapped // 2
    rows = [("e", "e", half[0]), ("c", "c", declared - half[0]), ("e", "c", half[1]), ("c", "e", swapped - half[1])]
    rows += [("e", "n", neither // 2), ("c", "n", neither - neither // 2)]
    names = {label[0]: label for label in LABELS}
    gold, answers = zip(*((names[true], names[said]) for true, said, count in rows for _ in range(count)), strict=True)
    table = answered(pl.DataFrame({"gold": gold}), answers)
    if not refused:
        return check_label_order(table, LABELS)
    # The order in which the model would be right, by its own names.
    for order in (LABELS, ("Entailment", "NEUTRAL", "contradiction")):
        with pytest.raises(LabelOrderError, match="contradiction,neutral,entailment"):
            check_label_order(table, order)
    return None
