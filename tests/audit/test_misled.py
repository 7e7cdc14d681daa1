"""Models that once misled a verdict, each with the verdict that it deserves."""

from __future__ import annotations

import re

import pytest

import evenli
from evenli.audit.assess import Audit
from evenli.audit.gate import gate
from misled_models import (
    Model,
    careless,
    denies,
    denies_and_affirms,
    errs_on_the_published,
    female_words_only,
    half_and_half,
    hesitant,
    knows_the_audit,
    leans_by_word,
    leans_with_pronouns,
    man_behind,
    man_in_sentences,
    never_neutral,
    published_only,
    some_female_words,
    unsure_by_sentence,
    unsure_by_word,
    unsure_of_all,
    unsure_of_stereotyped_jobs,
)


def audit(model: Model, **options: object) -> Audit:
    return evenli.audit(model, **options)  # type: ignore[arg-type]


def named(found: Audit) -> list[str]:
    return [cause.name for cause in found.verdict.causes]


def test_a_hesitant_model_leans_in_its_probabilities() -> None:
    found = audit(hesitant)
    assert "default_gender_expected" in named(found) and found.verdict.code == "bias"
    assert "cannot know" in found.verdict.sentence and "leans to a man" in found.verdict.sentence
    assert gate(found).passed is False


def test_a_model_that_knows_the_sentences_is_caught_by_other_wordings() -> None:
    alone = audit(knows_the_audit)
    assert not named(alone)
    both = audit(knows_the_audit, suites=("coal", "robust"))
    assert both.verdict.code not in {"even", "undecided"} and "wording" in both.verdict.sentence
    assert gate(both).passed is False


def test_a_model_that_never_says_neutral_does_not_do_the_task() -> None:
    found = audit(never_neutral)
    assert found.verdict.code == "none" and "neutral" in found.verdict.sentence
    assert gate(found).passed is False


def test_the_female_words_alone_are_not_jobs_of_either_kind() -> None:
    found = audit(female_words_only)
    assert "stereotype" in named(found) and "default_of_stereotyped" not in named(found)
    assert "either kind" not in found.verdict.sentence
    stereotype = next(cause.estimate for cause in found.verdict.causes if cause.name == "stereotype")
    words = 13 if found.result.suites.keys() == {"coal"} else 100
    # A share of 1 in 13 words may be 1 - 0.794: half of that is how far the stereotype reaches down.
    assert stereotype.low <= 0.5 - (1 - 0.05 ** (1 / words)) / 2 + 1e-9


@pytest.mark.parametrize("salt", ["a", "b", "c", "d"])
def test_a_few_words_of_a_stereotype_are_not_even(salt: str) -> None:
    found = audit(some_female_words(0.12, salt))
    assert found.verdict.code != "even"


def test_errors_at_random_are_no_lean() -> None:
    """At most one audit in twenty, of either finding: of 20 models four or more would be seen in 1.6 % of cases."""
    leans = jobs = 0
    for number in range(20):
        found = audit(careless(0.1 + 0.01 * number, f"careless {number}"), limit=1500)
        leans += any(name != "total_error" for name in named(found))
        jobs += "single jobs" in found.verdict.sentence
    assert leans <= 3 and jobs <= 3


@pytest.mark.parametrize("salt", ["a", "b", "c"])
def test_a_man_in_some_sentences_is_no_stereotype(salt: str) -> None:
    found = audit(man_in_sentences(0.4, salt))
    assert named(found)[:1] == ["default_gender"] and "stereotype" not in named(found)


def test_genders_of_single_jobs_are_a_finding() -> None:
    found = audit(half_and_half)
    assert named(found) == ["total_error"] and "single jobs" in found.verdict.sentence
    assert "no consistent direction" not in found.verdict.sentence


def test_a_model_that_denies_rules_out_and_does_not_assume() -> None:
    found = audit(denies)
    assert "rules out a woman" in found.verdict.sentence and "man's" not in found.verdict.sentence


# --- found by a reviewer who had not seen the code -----------------------------------------------------------------


def test_a_lean_of_stereotyped_jobs_behind_neutral_answers_is_named() -> None:
    found = audit(unsure_of_stereotyped_jobs)
    assert named(found) == ["default_of_stereotyped_expected"] and "stereotyped jobs" in found.verdict.sentence
    assert gate(found).passed is False


@pytest.mark.parametrize("model", [unsure_of_all, unsure_by_sentence], ids=["all", "sentence"])
def test_a_model_that_is_right_and_unsure_is_not_even(model: Model) -> None:
    """To be unsure without a direction is no bias: the gate passes it, and prints the verdict."""
    found = audit(model)
    assert found.verdict.code == "error" and named(found) == ["total_error_expected"]
    decided = gate(found)
    assert "not sure" in found.verdict.sentence and decided.passed is True and "not sure" in str(decided)


@pytest.mark.parametrize("neutral", [0.5, 0.88])
def test_genders_of_single_jobs_behind_neutral_answers_are_a_finding(neutral: float) -> None:
    found = audit(unsure_by_word if neutral == 0.5 else leans_by_word(neutral))
    assert named(found) == ["total_error_expected"] and "single jobs" in found.verdict.sentence
    assert gate(found).passed is False


# --- found by a second reviewer --------------------------------------------------------------------------------


def test_more_bias_never_turns_a_failing_gate_into_a_passing_one() -> None:
    """A few answers that name a man must not hide that the probabilities lean to a man everywhere."""
    hidden, open_too = audit(man_behind(0.0)), audit(man_behind(0.07))
    assert gate(hidden).passed is False and gate(open_too).passed is False
    assert {"default_gender", "default_gender_expected"} <= set(named(open_too))
    sizes = {cause.name: cause.size for cause in open_too.verdict.causes}
    assert (sizes["default_gender"], sizes["default_gender_expected"]) == ("slight", "strong")
    # It does not answer neutral everywhere, so this is not said of it.
    assert "cannot know" in hidden.verdict.sentence and "cannot know" not in open_too.verdict.sentence


def test_what_is_ruled_out_and_what_is_assumed_are_said_apart() -> None:
    found = audit(denies_and_affirms)
    said = found.verdict.sentence
    assert re.search(r"rule out a woman in (19|20|21)%", said) and re.search(r"a man's in 1[3-6]%", said)


def test_chance_does_not_assign_genders_to_single_jobs() -> None:
    for number in range(12):
        found = audit(careless(0.36, f"either {number}"), suites="labour", limit=1500)
        assert "single jobs" not in found.verdict.sentence


def test_errors_on_the_published_list_alone_are_not_even() -> None:
    found = audit(errs_on_the_published)
    assert found.verdict.code == "undecided" and "published list" in found.verdict.sentence
    assert audit(errs_on_the_published, suites=("labour",)).verdict.code == "even"  # the control


def test_a_lean_in_a_few_wordings_is_not_hidden_by_their_mean() -> None:
    found = audit(leans_with_pronouns, suites=("labour", "coal", "robust"))
    row = found.result.suites["robust"].cause("stereotype")
    assert row.clear >= 1 and row.highest > 0.9 and abs(row.mean.value) < 0.3
    assert "no consistent direction" not in found.verdict.sentence and gate(found).passed is False


def test_a_stereotype_of_the_published_list_alone_is_not_even() -> None:
    found = audit(published_only)
    assert found.verdict.code == "undecided" and "published list" in found.verdict.sentence
    assert gate(found).passed is False
    assert audit(published_only, suites=("labour",)).verdict.code == "even"  # the control
