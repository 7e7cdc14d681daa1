"""From the answers in many views to one: their mean, the gate of each wording, the floor of agreement, the bounds."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest

from evenli.audit.assess import assess
from evenli.audit.models.callables import fake_model
from evenli.audit.pairs import PairSet, few_checks
from evenli.audit.predict import predict
from evenli.audit.predictions import ABSTAINED, MASS, Predictions
from evenli.audit.prompting import AGREEMENT, mixture, read_views
from evenli.audit.report.terminal import prompting_blocks, prompting_lines
from evenli.audit.suites.base import load_suite
from evenli.audit.suites.checks import control_pairs, gold_pairs
from evenli.core.labels import LABELS
from evenli.llm.prompts import combine, make_views

ORDERS = ("ENC", "NCE", "CEN")
NEUTRAL = LABELS.index("neutral")
SURE, SILENT = 0.9, 0.2


@pytest.fixture(scope="module")
def right() -> Predictions:
    """A model that is right on every pair, and reads no job as anybody's."""
    coal = load_suite("coal").where(
        pl.col("occupation").is_in(["nurse", "secretary", "carpenter", "mechanic", "artist", "writer"])
    )
    return predict(fake_model("even"), [gold_pairs("en"), control_pairs("en"), coal])


def in_wordings(table: Predictions, *answers: np.ndarray, mass: float | np.ndarray = 1.0) -> Predictions:
    """The table of a language model that gives these labels, one array for each wording, alike in all orders."""
    shares = [np.where(np.eye(len(LABELS), dtype=bool)[labels], SURE, (1 - SURE) / 2) for labels in answers]
    masses = np.broadcast_to(mass, table.frame.height)
    columns = {LABELS[at]: np.log(np.mean(shares, axis=0)[:, at]) for at in range(len(LABELS))}
    columns |= {ABSTAINED: (masses < 0.5).astype(np.float32), MASS: masses}
    for number, own in enumerate(shares, 1):
        for order in ORDERS:
            columns |= {f"w{number}-{order}:{label}": np.log(own[:, at]) for at, label in enumerate(LABELS)}
            columns[f"w{number}-{order}:{MASS}"] = masses
    return Predictions(table.frame.with_columns(pl.Series(name, x) for name, x in columns.items()), table.header)


def test_one_nearly_certain_view_does_not_overrule_eight_others() -> None:
    p = np.tile([0.15, 0.7, 0.15], (9, 1))
    p[4] = 1 - 2e-12, 1e-12, 1e-12
    geometric = np.exp(np.log(p).mean(axis=0))
    assert geometric[0] / geometric.sum() == pytest.approx(
        0.81, abs=0.01
    )  # the control: what a mean of logarithms gives
    row = combine(np.log(p)[None], np.ones((1, 9)), make_views("en", 3, 3))[0]
    assert np.exp(row[:3]) == pytest.approx([(8 * 0.15 + 1) / 9, 8 * 0.7 / 9, 8 * 0.15 / 9], abs=1e-5)


def test_the_mean_and_the_vote_are_counted_where_they_differ(right: Predictions) -> None:
    shares = np.array([[0.3, 0.4, 0.3], [0.3, 0.4, 0.3], [0.9, 0.05, 0.05]]).reshape(1, 3, 1, 3)
    mean, counted = mixture(shares, np.ones((1, 3, 1)))
    assert mean[0] == pytest.approx([0.5, 0.85 / 3, 0.65 / 3]) and counted.all()
    labels = right.logits.argmax(axis=1)
    table = in_wordings(right, labels, labels, labels)
    assert assess(table).prompting["coal"]["vote_differs"].value == pytest.approx(0)
    # Every fourth pair of the suite: two wordings just prefer neutral, one is sure of entailment.
    rows = np.arange(table.frame.height) % 4 == 0
    unsure = {
        f"w{number}-{order}:{label}": pl.when(pl.Series(rows)).then(float(np.log(shares[0, number - 1, 0, at])))
        for number in (1, 2, 3)
        for order in ORDERS
        for at, label in enumerate(LABELS)
    }
    frame = table.frame.with_columns(**{name: value.otherwise(pl.col(name)) for name, value in unsure.items()})
    of_suite = (frame["suite"] == "coal").to_numpy()
    differs = assess(Predictions(frame, table.header)).prompting["coal"]["vote_differs"]
    assert differs.value == pytest.approx(rows[of_suite].mean()) and differs.n == of_suite.sum()


def test_a_tie_of_views_goes_to_the_mean(right: Predictions) -> None:
    labels = right.logits.argmax(axis=1)
    views = read_views(in_wordings(right, labels, (labels + 1) % 3).frame, {})
    assert views is not None and not views.outvoted.any()


def test_a_wording_that_fails_is_named_and_no_verdict_rests_on_it(right: Predictions) -> None:
    labels = right.logits.argmax(axis=1)
    sound = assess(in_wordings(right, labels, labels, labels))
    assert sound.competence is not None and sound.competence.problem == "" and sound.verdict.code != "none"
    assert [own.gold.value for own in sound.competence.wordings.values()] == pytest.approx([1, 1, 1])
    # The second wording gets 'neutral' to everything; the mean of three is right all the same.
    found = assess(in_wordings(right, labels, np.full(len(labels), NEUTRAL), labels))
    gate = found.competence
    assert gate is not None and gate.gold.value == pytest.approx(1) and gate.stated.value == pytest.approx(1)
    assert [name for name, own in gate.wordings.items() if own.problem] == ["w2"]
    assert gate.wordings["w2"].gold.value == pytest.approx(1 / 3) and gate.wordings["w2"].stated.value == pytest.approx(
        0
    )
    assert found.verdict.code == "none" and "asked in wording w2 alone, it answers 'neutral'" in found.verdict.sentence
    assert found.coal.problem == gate.problem
    shown = prompting_blocks(found)[0].rows
    assert [row[0] for row in shown] == ["w1", "w2", "w3"] and shown[1][-1] == gate.wordings["w2"].problem
    assert "mean and vote differ on 0%" in prompting_lines(found, {})[0]
    assert type(gate).from_dict(gate.to_dict()) == gate
    # One wording is the whole audit, and is not gated twice.
    alone = assess(in_wordings(right, labels)).competence
    assert alone is not None and alone.wordings == {} and "wordings" not in alone.to_dict()


@pytest.mark.parametrize(("every", "code"), [(3, "undecided"), (2, "none")])
def test_wordings_that_disagree_give_no_verdict(right: Predictions, every: int, code: str) -> None:
    labels = right.logits.argmax(axis=1)
    of_suite = (right.frame["suite"] == "coal").to_numpy()
    # In the third wording, so that the mean of all stays what it is. One pair more, so that half of them is too few.
    place = np.cumsum(of_suite)
    other = np.where(of_suite & ((place % every == 0) | (place == 1)), (labels + 1) % 3, labels)
    found = assess(in_wordings(right, labels, labels, other))
    agreement = 1 - (other != labels)[of_suite].mean()
    assert found.prompting["coal"]["prompt_agreement"].value == pytest.approx(agreement)
    assert (agreement < AGREEMENT) == (code == "none")
    assert (found.verdict.code == "none") == (code == "none")
    assert ("all wordings agree on only" in found.coal.problem) == (code == "none")
    if code == "none":
        assert found.coal.problem in found.verdict.sentence


def test_two_wordings_are_gated_and_must_agree(right: Predictions) -> None:
    labels = right.logits.argmax(axis=1)
    found = assess(in_wordings(right, labels, labels))
    assert found.competence is not None and set(found.competence.wordings) == {"w1", "w2"} and found.coal.problem == ""
    assert found.prompting["coal"]["prompt_agreement"].value == pytest.approx(1)
    of_suite = (right.frame["suite"] == "coal").to_numpy()
    torn = assess(in_wordings(right, labels, np.where(of_suite, (labels + 1) % 3, labels)))
    assert torn.prompting["coal"]["prompt_agreement"].value == pytest.approx(0) and torn.verdict.code == "none"
    assert "all wordings agree on only 0%" in torn.coal.problem
    single = assess(in_wordings(right, labels))
    assert "prompt_agreement" not in single.prompting["coal"] and single.coal.problem == ""


def test_silent_answers_are_bounded_by_all_that_they_could_have_been(right: Predictions) -> None:
    labels = right.logits.argmax(axis=1)
    of_suite, woman = right.frame["suite"] == "coal", right.frame["group"] == "female"
    answered = assess(in_wordings(right, labels, labels)).prompting["coal"]
    assert not any(name.endswith(("_lowest", "_highest")) for name in answered)
    # Silent on women who are nurses or writers: a half of the items on women's jobs, and of those without a stereotype.
    silent = (of_suite & woman & right.frame["occupation"].is_in(["nurse", "writer"])).to_numpy()
    found = assess(in_wordings(right, labels, labels, mass=np.where(silent, SILENT, SURE)))
    seen = found.prompting["coal"]
    ends = {name: (seen[f"{name}_lowest"].value, seen[f"{name}_highest"].value) for name in ("stereotype", "coal")}
    # Read as a woman's or not: a half of one of the two classes, so a quarter of the mean over both.
    assert found.coal.measures["stereotype"].value == pytest.approx(0)
    assert ends["stereotype"] == pytest.approx((-0.25, 0.25))
    frame = right.frame.filter(pl.Series(of_suite))
    parts = [
        (silent[of_suite.to_numpy()] & (frame["subset"] == name).to_numpy()).sum() / (frame["subset"] == name).sum()
        for name in ("PS", "AS", "NS")
    ]
    assert ends["coal"] == pytest.approx((0, sum(parts) / 3), abs=1e-5)
    low = seen["default_gender_lowest"]
    assert (low.value, seen["default_gender_highest"].value) == pytest.approx((-0.5, 0.5))
    assert low.low <= low.value <= low.high and low.title == "Default gender, lowest"


def test_a_calibrated_run_is_read_as_it_was_asked(right: Predictions) -> None:
    labels = right.logits.argmax(axis=1)
    table = in_wordings(right, labels, labels)
    prior = {
        f"w{number}-{order}": dict(zip(LABELS, (0.98, 0.01, 0.01), strict=True))
        for number in (1, 2)
        for order in ORDERS
    }
    plain, divided = (
        read_views(table.frame, {"prompting": {"calibration": {"prior": given}}}) for given in ({}, prior)
    )
    assert plain is not None and divided is not None
    p = np.array([SURE, 0.05, 0.05])
    assert plain.shares[labels == 0][0, 0, 0] == pytest.approx(p)
    assert divided.shares[labels == 0][0, 0, 0] == pytest.approx(
        p / [0.98, 0.01, 0.01] / (p / [0.98, 0.01, 0.01]).sum()
    )
    assert (divided.by_wording[labels == 0] != 0).all()


def kinds(pairs: PairSet) -> Counter[tuple[str, str]]:
    """Pairs by gold label and by what stays of the id without its number."""
    rows = pairs.frame.select("gold", pl.col("id").str.replace_all(r"\d", "")).iter_rows()
    return Counter((gold, name) for gold, name in rows)


@pytest.mark.parametrize("limit", [24, 300, 5_000])
def test_a_limit_limits_the_checks_and_keeps_every_kind(limit: int) -> None:
    whole = [gold_pairs("en"), control_pairs("en")]
    counts = [kinds(pairs) for pairs in whole]
    most = max(20, limit // sum(map(len, counts)))
    for pairs, part, before in zip(whole, few_checks(whole, limit), counts, strict=True):
        assert kinds(part) == Counter({kind: min(count, most) for kind, count in before.items()})
        assert any("balanced part" in note for note in part.notes) == (len(part) < len(pairs))
    assert sum(map(len, few_checks(whole, 24))) == 20 * sum(map(len, counts))
    assert few_checks(whole, 5_000) == whole


def test_the_first_option_is_counted_among_the_answers_given(right: Predictions) -> None:
    """One order answers, the other two are silent: the share is 1 where it says its first option, else 0."""
    labels = right.logits.argmax(axis=1)
    table = in_wordings(right, labels)
    silent = [pl.lit(SILENT).alias(f"w1-{order}:{MASS}") for order in ORDERS[1:]]
    found = assess(Predictions(table.frame.with_columns(silent), table.header)).prompting["coal"]
    of_suite = labels[(right.frame["suite"] == "coal").to_numpy()]
    assert found["first_option"].value == pytest.approx((of_suite == LABELS.index("entailment")).mean())
    says_yes = np.full(len(labels), LABELS.index("entailment"))
    table = in_wordings(right, says_yes)
    yes = assess(Predictions(table.frame.with_columns(silent), table.header)).prompting["coal"]
    assert yes["first_option"].value == pytest.approx(1)
